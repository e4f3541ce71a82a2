package l4

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var podStuckTerminatingCheck = check.Check{
	Cause: "pod-stuck-terminating", Layer: check.L4, Owner: check.Platform, Stage: check.Create, Rank: 5,
	Title:   "The pod was deleted and does not go",
	Meaning: "The time that the pod had for ending is over. A finalizer that nobody removes keeps it, or its node's kubelet cannot end its containers. A StatefulSet makes no new pod of the same name before it has gone, and what the pod holds is not free for others.",
	Remedy:  "Find who has to remove the finalizer; where nobody does, remove it by hand. Without one, look at the node's kubelet.",
	Find:    podStuckTerminating,
}

// slow is how much later than promised a pod may go.
const slow = time.Minute

func podStuckTerminating(c *check.Case) []check.Finding {
	p := c.Pod
	if r := life.DeniedBy(c, life.ByName); r != nil && life.Wanted(c) { // what has the name need not be of the work
		if other := c.PodNamed(p.Namespace, r.Name); other != nil && other.DeletionTimestamp != nil {
			return stuck(c, other)
		}
		return nil
	}
	if c.Waits() && c.Fit != nil && !c.Fit.Placed() {
		return holdsRoom(c)
	}
	if !c.Exists || p.DeletionTimestamp == nil {
		return nil
	}
	return stuck(c, p)
}

// stuck is about a pod that keeps its name.
func stuck(c *check.Case, p *corev1.Pod) []check.Finding {
	if c.Now.Sub(p.DeletionTimestamp.Time) < slow {
		return nil
	}
	if what, _ := life.Lost(c); what != "" && p == c.Pod {
		return nil // node-lost
	}
	evidence := []facts.Evidence{{Object: facts.RefTo(p).In(), Field: "metadata.deletionTimestamp", Value: p.DeletionTimestamp.UTC().Format(time.RFC3339)}}
	late := wording.Minutes(c.Now.Sub(p.DeletionTimestamp.Time))
	names := strings.Join(p.Finalizers, ", ")
	if !unheld(p) {
		f := check.Finding{Message: fmt.Sprintf("pod %s should have gone %s ago, and the kubelet of node %s has not ended it", p.Name, late, p.Spec.NodeName), Evidence: evidence}
		if names != "" {
			f.Message += "; after that finalizer " + names + " keeps it"
			f.Advice = fmt.Sprintf("Look at the kubelet of node %s first: as long as it has not ended the pod, the pod stays without its finalizers as well.", p.Spec.NodeName)
		}
		return []check.Finding{f}
	}
	f := check.Finding{
		Message:  fmt.Sprintf("pod %s should have gone %s ago, and its finalizer %s was not removed", p.Name, late, names),
		Evidence: append(evidence, facts.Evidence{Object: facts.RefTo(p).In(), Field: "metadata.finalizers", Value: names}),
		Edits:    []edit.Edit{unfinalized(p)},
	}
	if _, ok := c.Owner().(*appsv1.StatefulSet); ok {
		f.Message += ": the StatefulSet waits for its name"
	}
	return []check.Finding{f}
}

// holdsRoom is about pods of others that should have gone and hold what the pod asks for, on nodes that it could use.
func holdsRoom(c *check.Case) []check.Finding {
	var stuck []*corev1.Pod
	for i := range c.Fit.Nodes {
		n := &c.Fit.Nodes[i]
		if len(n.Removed) > 0 || len(n.ExcludedBy) > 0 || len(n.Short) == 0 || !facts.NodeReady(n.Node) {
			continue
		}
		for _, p := range c.PodsOn(n.Name) {
			if at := p.DeletionTimestamp; at != nil && c.Now.Sub(at.Time) > 5*slow && !facts.Ended(p) {
				stuck = append(stuck, p)
			}
		}
	}
	if len(stuck) == 0 {
		return nil
	}
	slices.SortFunc(stuck, func(a, b *corev1.Pod) int { return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name) })
	p, gone := stuck[0], &edit.Edit{Side: edit.Cluster, Text: "have pods go that were deleted"}
	for _, q := range stuck {
		gone.Gone = append(gone.Gone, q)
	}
	f := check.Finding{
		Fit: true, Layer: check.L2, Stage: check.Place, Probe: gone,
		Message:  fmt.Sprintf("pod %s/%s on node %s should have gone %s ago, and holds what the pod asks for", p.Namespace, p.Name, p.Spec.NodeName, wording.Minutes(c.Now.Sub(p.DeletionTimestamp.Time))),
		Evidence: []facts.Evidence{{Object: facts.RefTo(p).In(), Field: "metadata.deletionTimestamp", Value: p.DeletionTimestamp.UTC().Format(time.RFC3339)}},
		Advice:   fmt.Sprintf("Look at the kubelet of node %s, which has not ended the pod.", p.Spec.NodeName),
	}
	if len(stuck) > 1 {
		f.Message = fmt.Sprintf("%d pods, such as %s/%s on node %s, should have gone %s ago, and hold what the pod asks for", len(stuck), p.Namespace, p.Name, p.Spec.NodeName, wording.Minutes(c.Now.Sub(p.DeletionTimestamp.Time)))
	}
	if unheld(p) {
		f.Message += "; finalizer " + strings.Join(p.Finalizers, ", ") + " keeps it"
		f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(p).In(), Field: "metadata.finalizers", Value: strings.Join(p.Finalizers, ", ")})
		f.Edits = []edit.Edit{unfinalized(p)}
	}
	return []check.Finding{f}
}

// unheld says whether finalizers alone keep the pod: its kubelet has ended it, and said so by deleting it with no grace at all. Before
// that, a pod without finalizers stays as well (ShouldDeleteDuringUpdate in k8s.io/apiserver, registry/generic/registry/store.go).
func unheld(p *corev1.Pod) bool {
	return len(p.Finalizers) > 0 && ptr.Deref(p.DeletionGracePeriodSeconds, 0) == 0
}

// unfinalized takes the pod's finalizers away.
func unfinalized(p *corev1.Pod) edit.Edit {
	return edit.Edit{
		Side: edit.Cluster, Text: fmt.Sprintf("remove the finalizers of pod %s", p.Name), Gone: []facts.Object{p}, Cost: 5,
		Command: fmt.Sprintf(`kubectl patch pod %s -n %s --type=merge -p '{"metadata":{"finalizers":null}}'`, p.Name, p.Namespace),
		Assumes: "who set the finalizer has nothing left to do",
	}
}
