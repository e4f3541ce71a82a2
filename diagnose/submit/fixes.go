package submit

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/submit/workload"
)

// mostVerified bounds the changed manifests that are planned for one workload.
const mostVerified = 3

// verify plans the manifest as each fix would make it, and drops those after which it still cannot start, and those of the
// file that were not tried.
func (c *checker) verify(s *submission, fixes []Fix) []Fix {
	var out []Fix
	tried := 0
	for _, f := range fixes {
		if f.Patch == nil {
			f.Then = Waits
			if len(s.pods) > 1 && c.now.GangOf(s.pods[0]) == "" && f.Outcome != "" { // a diagnosis tries one of those alike
				if f.Outcome = "the first of its pods has a place"; s.letInAlone > 0 {
					f.Outcome = "one more of its pods has a place"
				}
			}
			out = append(out, f)
			continue
		}
		if tried++; tried > mostVerified || tried > 1 && c.late() {
			break
		}
		if then, outcome, ok := c.after(s, f.Patch); ok {
			f.Verified, f.Then, f.Outcome = true, then, outcome
			out = append(out, f)
		}
	}
	return out
}

// after is what becomes of the workload once the operations are done to its manifest; false: it cannot start then either,
// or they cannot be done.
func (c *checker) after(s *submission, ops []edit.Op) (then Verdict, outcome string, ok bool) {
	object, err := edit.PatchTree(s.item.Object, ops)
	if err != nil {
		return "", "", false
	}
	uid := func() types.UID {
		c.uids++
		return types.UID(fmt.Sprintf("submitted-%d", c.uids))
	}
	w, _, err := workload.Of(object, workload.Options{At: c.now.At, Namespace: s.Ref.Namespace, Nodes: c.now.Nodes, UID: uid, LetIn: c.letIn()})
	if err != nil || w == nil {
		return "", "", false
	}
	changed := &submission{item: &Item{Object: object}, Workload: w}
	if w.Object != nil && s.item.Admitted == nil && workload.Invalid(w.Object) != nil {
		return "", "", false
	}
	for i := range w.Parts {
		c.admit(changed, &w.Parts[i], c.now)
		if p := &w.Parts[i]; len(p.Pods) > 0 && workload.Refused(p) != nil {
			return "", "", false
		}
		changed.pods = append(changed.pods, w.Parts[i].Pods...)
	}
	if over := overQuota(c.alone.facts.ResourceQuotas, changed.pods); !c.suffices(changed, changed.letIn(over)) || len(c.heldGangs(changed.pods, over)) > 0 {
		return "", "", false
	}
	was, is := metaOf(objectsOf(s.Workload)), metaOf(objectsOf(w))
	c.alone.model.Delete(was...)
	c.alone.model.Set(is...)
	starts := c.suffices(changed, len(c.tryAlone(changed.pods).where))
	c.alone.model.Delete(is...)
	c.alone.model.Set(was...)
	if !starts {
		return "", "", false
	}
	return c.beside(s, changed)
}

// beside plans the changed workload in the place of the one that was given, beside everything else.
func (c *checker) beside(s, changed *submission) (Verdict, string, bool) {
	was, is := metaOf(objectsOf(s.Workload)), metaOf(objectsOf(changed.Workload))
	others := pending(c.now)
	var submitted []*corev1.Pod
	for _, o := range c.subs {
		if o != s && !o.unplanned() {
			submitted = append(submitted, o.pods...)
		}
	}
	others = append(others, submitted...)
	if r := changed.overOf(overQuota(c.now.ResourceQuotas, slices.Concat(submitted, changed.pods))); r != nil {
		return Waits, "it waits for quota: " + r.String(), true
	}
	c.full.model.Delete(was...)
	c.full.model.Set(is...)
	c.full.set(others)
	c.full.set(changed.pods)
	defer func() {
		c.full.unset(changed.pods)
		c.full.unset(others)
		c.full.model.Delete(is...)
		c.full.model.Set(was...)
	}()
	plan := c.full.model.Plan(c.now.At)
	mine := make(map[string]bool)
	for _, p := range changed.pods {
		mine[keyOf(p)] = true
	}
	n := 0
	nodes := make(map[string]int)
	for _, start := range plan.Starts {
		for _, at := range start.Placements {
			if mine[at.Pod] {
				n++
				nodes[at.Node]++
			}
		}
	}
	if n == 0 || n < len(mine) && c.now.GangOf(changed.pods[0]) == "" {
		return Waits, "it waits for others to end", true
	}
	names := slices.Sorted(maps.Keys(nodes))
	if len(names) == 1 {
		return Starts, "starts now on node " + names[0], true
	}
	return Starts, fmt.Sprintf("starts now on %d nodes", len(names)), true
}

func metaOf(objects []facts.Object) []metav1.Object {
	out := make([]metav1.Object, len(objects))
	for i, o := range objects {
		out[i] = o
	}
	return out
}
