package l3

import (
	"fmt"
	"slices"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/queue"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/engine/why"
)

var gangIncompleteCheck = check.Check{
	Cause: why.GangIncomplete, Layer: check.L3, Owner: check.User, Stage: check.Admit, Rank: 15,
	Title:   "The gang lacks members",
	Meaning: "The pods of a gang start together, and fewer exist than it needs. The scheduler waits for the others and says nothing; the question is why they do not exist.",
	Remedy:  "Find out who should make the missing pods and why he does not; or let the gang start with fewer.",
	Not:     "There is no room for it: nobody has looked for one.",
	Find:    gangIncomplete,
}

func gangIncomplete(c *check.Case) []check.Finding {
	gang := c.GangOf(c.Pod)
	if members := queue.KueueGroup(c); len(members) > 0 {
		return kueueGroupIncomplete(c, members)
	}
	if !c.Waits() {
		return nil
	}
	if gang == "" {
		return foreignGangIncomplete(c)
	}
	if len(c.Above(c.Pod)) > 0 {
		return treeIncomplete(c)
	}
	there, coming, owners := c.GangMembers(gang)
	need, ok := queue.Needs(c, gang, there)
	if !ok || len(there) >= need {
		return nil
	}
	f := check.Finding{
		Message:  fmt.Sprintf("%s needs %s to start, and %s", c.GangName(c.Pod), wording.Pods(need), wording.Existing(len(there))),
		Evidence: gangSeen(c, need),
	}
	switch {
	case len(there)+coming < need:
		f.Message += noMore(c, owners)
		f.Edits = append(makeMore(c, there, need), needFewer(c, len(there)+coming)...)
	case c.Edited() || young(c, owners):
		f.Healthy, f.Owner = true, check.Nobody
		f.Message += ", the others are being made"
	default:
		f.Message += fmt.Sprintf("; %s should have made %d more", wordsOf(owners), coming)
		f.Fit = kept(c, owners) // then what keeps them from being made is the cause, and this stands beside it
	}
	return []check.Finding{f}
}

// treeIncomplete is about PodGroups that start together with others of a CompositePodGroup.
func treeIncomplete(c *check.Case) []check.Finding {
	lack := c.Lacking(c.Pod)
	if lack == nil || c.Fit != nil && c.Fit.Placed() { // what is submitted together is not among the pods yet
		return nil
	}
	r := facts.RefTo(lack.Group)
	f := check.Finding{
		Evidence: []facts.Evidence{{Object: r.In(), Field: lack.Field, Value: strconv.Itoa(lack.Need)}},
		Advice:   "Find out who should make what is missing, and why he does not.",
	}
	name := r.Kind + " " + r.Name
	if _, pods := lack.Group.(*schedulingv1beta1.PodGroup); pods {
		f.Message = fmt.Sprintf("%s starts whole: its %s needs %s to start, and %s", c.GangName(c.Pod), name, wording.Pods(lack.Need), wording.Existing(lack.Have))
	} else {
		f.Message = fmt.Sprintf("%s needs %s to start, and %s", name, wording.Number(lack.Need, "group"), wording.Existing(lack.Have))
	}
	return []check.Finding{f}
}

// foreignGangIncomplete is about the groups of other schedulers, which count the pods that name them.
func foreignGangIncomplete(c *check.Case) []check.Finding {
	group, need, members := queue.ForeignGroup(c)
	if group == nil {
		return wordedGangIncomplete(c)
	}
	if !c.Exists || int64(len(members)) >= need || c.WasEdited(group) || awaitsOthers(c, members) {
		return nil
	}
	r := facts.RefTo(group)
	return []check.Finding{{
		Message:  fmt.Sprintf("%s of %s needs %s to start, and %s, and nobody makes more", r, group.GroupVersionKind().Group, wording.Pods(int(need)), wording.Existing(len(members))),
		Evidence: []facts.Evidence{{Object: r.In(), Field: "spec.minMember", Value: fmt.Sprint(need)}},
		Advice:   "Make the missing members, or have whoever wrote the group say a minMember that there will be.",
	}}
}

// awaitsOthers says whether more members are wanted by those who make them: why they are not made is for others to say.
func awaitsOthers(c *check.Case, members []*corev1.Pod) bool {
	return slices.ContainsFunc(members, func(p *corev1.Pod) bool {
		m := c.Controller(p)
		return m != nil && c.MissingPods(m) > 0
	})
}

// wordedGangIncomplete is about groups that their members describe, each for itself.
func wordedGangIncomplete(c *check.Case) []check.Finding {
	name, key, need, members := queue.WordedGroup(c)
	if name == "" || !c.Exists || len(members) >= need || c.Edited() || awaitsOthers(c, members) {
		return nil
	}
	return []check.Finding{{
		Message:  fmt.Sprintf("group %s needs %s to start, and %s, and nobody makes more", name, wording.Pods(need), wording.Existing(len(members))),
		Evidence: []facts.Evidence{{Object: facts.RefTo(c.Pod).In(), Field: fmt.Sprintf("metadata.annotations[%q]", key), Value: fmt.Sprint(need)}},
		Advice:   "Make the missing members under the same name of the group, or have its pods say a number that there will be.",
		Healthy:  c.Age() < life.Patience,
	}}
}

// kueueGroupIncomplete is about plain pods that Kueue admits together: it makes no Workload before all are there.
func kueueGroupIncomplete(c *check.Case, members []*corev1.Pod) []check.Finding {
	const key = "kueue.x-k8s.io/pod-group-total-count"
	if awaitsOthers(c, members) {
		return nil
	}
	f := check.Finding{
		Message:  fmt.Sprintf("group %s of Kueue is to have %s pods, and %s, and nobody makes more: Kueue makes no Workload for it before", c.Pod.Labels[queue.KueueGroupName], c.Pod.Annotations[key], wording.Existing(len(members))),
		Evidence: []facts.Evidence{{Object: facts.RefTo(c.Pod).In(), Field: fmt.Sprintf("metadata.annotations[%q]", key), Value: c.Pod.Annotations[key]}},
		Advice:   "Make the missing pods, with the group's label and the same annotation; or make the group again, with the number of pods that there will be.",
		Healthy:  c.Exists && c.Age() < life.Patience,
	}
	return []check.Finding{f}
}

// gangSeen is where the number is said.
func gangSeen(c *check.Case, need int) []facts.Evidence {
	if g := c.GangGroup(c.Pod); g != nil {
		return []facts.Evidence{{Object: facts.RefTo(g).In(), Field: "spec.schedulingPolicy.gang.minCount", Value: strconv.Itoa(need)}}
	}
	value, by := c.Inherited(c.Pod, v1alpha1.KeyGang)
	if by == nil {
		return nil
	}
	if by.GetAnnotations()[v1alpha1.KeyGang] == "" {
		return []facts.Evidence{{Object: facts.RefTo(by).In(), Field: fmt.Sprintf("metadata.labels[%q]", v1alpha1.KeyGang), Value: value}}
	}
	return []facts.Evidence{{Object: facts.RefTo(by).In(), Field: fmt.Sprintf("metadata.annotations[%q]", v1alpha1.KeyGang), Value: value}}
}

// noMore says that no controller will make what is missing.
func noMore(c *check.Case, owners []facts.Object) string {
	if len(owners) == 0 {
		return ", and nobody makes more"
	}
	return fmt.Sprintf(", and what %s still makes is not enough", wordsOf(owners))
}

func wordsOf(all []facts.Object) string {
	out := make([]string, len(all))
	for i, o := range all {
		out[i] = facts.RefTo(o).String()
	}
	slices.Sort(out)
	return wording.AtMost(3, out)
}

// young says whether the owners may not have got to it yet.
func young(c *check.Case, owners []facts.Object) bool {
	return !slices.ContainsFunc(owners, func(m facts.Object) bool { return c.Now.Sub(m.GetCreationTimestamp().Time) >= life.Patience })
}

// kept says whether another check finds what keeps the owners from making pods.
func kept(c *check.Case, owners []facts.Object) bool {
	for _, m := range owners {
		p := c.PodFrom(m, 0)
		c.Admit(p)
		top := c.TopOwner(m)
		at := &check.Case{Facts: c.Facts, Now: c.Now, Target: c.Target, Top: top, Pod: p, Like: c.MissingPods(m), State: facts.Absent, All: c.PodsMadeBy(top), Owners: c.OwnerPath(top, m), Checks: c.Checks}
		for _, other := range c.Checks {
			if other.Stage == check.Create && len(other.Find(at)) > 0 {
				return true
			}
		}
	}
	return false
}

// needFewer lets the gang start with as many as there will be.
func needFewer(c *check.Case, n int) []edit.Edit {
	if n < 1 {
		return nil
	}
	e := edit.Edit{Side: edit.Workload, Cost: 2, Text: fmt.Sprintf("let %s start with %s", c.GangName(c.Pod), wording.Pods(n)), Assumes: "the work can do with fewer pods"}
	if g := c.GangGroup(c.Pod); g != nil {
		e.Set, e.Command = queue.WithMinCount(c, g, int32(n))
		return []edit.Edit{e}
	}
	if c.Pod.Labels[v1alpha1.KeyMin] != "" {
		return nil
	}
	e.Ops = []edit.Op{place.PutAnnotation(c, v1alpha1.KeyMin, strconv.Itoa(n))}
	if size, _ := c.Inherited(c.Pod, v1alpha1.KeySize); size != "" {
		e.Ops = append(e.Ops, place.PutAnnotation(c, v1alpha1.KeySize, strconv.Itoa(n)))
	}
	return []edit.Edit{e}
}

// makeMore has the one Job whose pods are the gang make as many as it needs.
func makeMore(c *check.Case, there []*corev1.Pod, need int) []edit.Edit {
	j, ok := c.Owner().(*batchv1.Job)
	if !ok || j.GetUID() != c.Top.GetUID() || slices.ContainsFunc(there, func(p *corev1.Pod) bool { return c.Controller(p) != facts.Object(j) }) {
		return nil
	}
	if j.Spec.CompletionMode != nil && *j.Spec.CompletionMode == batchv1.IndexedCompletion && ptr.Deref(j.Spec.Completions, 0) != int32(need) {
		body := map[string]any{"spec": map[string]any{"parallelism": need, "completions": need}}
		return []edit.Edit{grown(c, j, need, need, body)}
	}
	if ptr.Deref(j.Spec.Completions, int32(need)) < int32(need) {
		return nil // completions of such a Job cannot be changed
	}
	return []edit.Edit{grown(c, j, need, 0, map[string]any{"spec": map[string]any{"parallelism": need}})}
}

func grown(c *check.Case, j *batchv1.Job, parallelism, completions int, body map[string]any) edit.Edit {
	n := j.DeepCopy()
	p, done := int32(parallelism), int32(completions)
	n.Spec.Parallelism = &p
	if completions > 0 {
		n.Spec.Completions = &done
	}
	return edit.Edit{Side: edit.Workload, Cost: 2, Text: fmt.Sprintf("run %s of %s at a time", wording.Pods(parallelism), facts.RefTo(j)), Set: []facts.Object{n}, Command: edit.PatchLine(j, "merge", body)}
}
