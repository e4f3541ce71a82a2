package l3

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

// rollout is a Deployment that replaces its pods: a new one first, then an old one goes. Where the old ones have all the room that
// there is, neither happens.
type rollout struct {
	of  *appsv1.Deployment
	old []*corev1.Pod // ready, of earlier templates, that hold what the new ones need
}

// rolloutOf is the rollout that the pod of the case is new in, where old pods have room on the nodes; nil: none, or their room would not
// be enough for it.
func rolloutOf(c *check.Case, nodes []*check.NodeFit) *rollout {
	return rolloutBy(c, func(p *corev1.Pod) bool {
		return slices.ContainsFunc(nodes, func(n *check.NodeFit) bool { return n.Name == p.Spec.NodeName })
	})
}

// rolloutBy is the rollout that the pod of the case is new in, where old pods hold what it needs, and none of them may go before the new one
// is ready; nil: none.
func rolloutBy(c *check.Case, holds func(*corev1.Pod) bool) *rollout {
	rs, ok := c.Owner().(*appsv1.ReplicaSet)
	if !ok {
		return nil
	}
	d, ok := c.Controller(rs).(*appsv1.Deployment)
	if !ok || d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return nil
	}
	if _, down := podspec.Rollout(d); down > 0 {
		return nil
	}
	r := &rollout{of: d}
	for _, o := range c.Children(d) {
		earlier, ok := o.(*appsv1.ReplicaSet)
		if !ok || earlier.UID == rs.UID {
			continue
		}
		for _, o := range c.Children(earlier) {
			p, ok := o.(*corev1.Pod)
			if ok && p.DeletionTimestamp == nil && !facts.Ended(p) && p.Spec.NodeName != "" && holds(p) {
				r.old = append(r.old, p)
			}
		}
	}
	if len(r.old) == 0 {
		return nil
	}
	slices.SortFunc(r.old, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return r
}

// outgrows says whether a new pod asks for more than an old one: what an old pod leaves is not enough for one, and the rollout stops again at
// the next pod even where the first has found room.
func (r *rollout) outgrows(c *check.Case) bool {
	asks, had := podspec.Requests(c.Pod), podspec.Requests(r.old[0])
	//archtest:any-order one of which it asks for more is enough
	for name, q := range asks {
		if was := had[name]; q.Cmp(was) > 0 {
			return true
		}
	}
	return false
}

// lacks is how many new pods have to find room that no old one leaves: all that have no node yet, where they outgrow the old ones. For no
// rollout it is 0.
func (r *rollout) lacks(c *check.Case) int {
	if r == nil || !r.outgrows(c) {
		return 0
	}
	placed := 0
	for _, o := range c.Children(c.Owner()) {
		if p, ok := o.(*corev1.Pod); ok && p.Spec.NodeName != "" && p.DeletionTimestamp == nil && !facts.Ended(p) {
			placed++
		}
	}
	return max(0, int(ptr.Deref(r.of.Spec.Replicas, 1))-placed)
}

// told adds to the finding that the work waits for its own pods, which hold what it needs, and offers to let one go first.
func (r *rollout) told(c *check.Case, f *check.Finding, what string) {
	ref := facts.RefTo(r.of)
	f.Owner = check.User
	f.Message += fmt.Sprintf("; %s of an earlier revision of %s %s %s, and none of them goes before a new one is ready: its strategy allows none to be unavailable", wording.Pods(len(r.old)), ref, wording.InNumber(len(r.old), "holds", "hold"), what)
	f.Evidence = append(f.Evidence, facts.Evidence{Object: ref.In(), Field: "spec.strategy.rollingUpdate.maxUnavailable", Value: fmt.Sprintf("none of %d", ptr.Deref(r.of.Spec.Replicas, 1))})
	asked := podspec.Requests(c.Pod)
	f.Stays = func(s *corev1.PodSpec) bool {
		was := podspec.Requests(&corev1.Pod{Spec: *s})
		//archtest:any-order one that is less is enough
		for name, q := range asked {
			if had := was[name]; had.Cmp(q) < 0 && had.String() != "0" {
				return false
			}
		}
		return true
	}
	if r.lacks(c) > 1 {
		f.Advice = "Find room for all new pods, each of which asks for more than an old one leaves, or have them ask for less."
		return
	}
	n := r.of.DeepCopy()
	one, none := intstr.FromInt32(1), intstr.FromInt32(0)
	n.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType, RollingUpdate: &appsv1.RollingUpdateDeployment{MaxUnavailable: &one, MaxSurge: &none}}
	assumes := "the work can do with one pod less while it is replaced"
	if ptr.Deref(r.of.Spec.Replicas, 1) == 1 {
		assumes = "nobody needs the work while its only pod is replaced"
	}
	f.Edits = append([]edit.Edit{{
		Side: edit.Workload, Cost: edit.CostSmall, Set: []facts.Object{n}, Gone: []facts.Object{r.old[0]}, Assumes: assumes,
		Text:    fmt.Sprintf("let %s replace its pods in place: maxUnavailable 1 and maxSurge 0", ref),
		Command: edit.PatchLine(n, "merge", map[string]any{"spec": map[string]any{"strategy": map[string]any{"rollingUpdate": map[string]any{"maxSurge": 0, "maxUnavailable": 1}}}}),
	}}, f.Edits...)
	f.Advice = "Let the rollout take an old pod away first (maxUnavailable), or find room for one pod more while it lasts."
}
