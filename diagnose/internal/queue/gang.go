package queue

import (
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/engine/why"
)

// ReadsPodGroups says whether PodGroups were read in the version that is known here, which Kubernetes serves from 1.37 on.
func ReadsPodGroups(c *check.Case) bool {
	minor := 0
	fmt.Sscanf(c.Kubernetes, "v1.%d.", &minor)
	return c.Sees("podgroups.scheduling.k8s.io", c.Pod.Namespace) && (minor >= 37 || len(c.PodGroups) > 0)
}

// Needs is how many members the gang starts with, where it says so.
func Needs(c *check.Case, gang string, there []*corev1.Pod) (int, bool) {
	if len(c.Above(c.Pod)) > 0 {
		return 0, false // it has a minimum of groups, each with one of its own
	}
	if g := c.GangGroup(c.Pod); g != nil {
		if g.Spec.SchedulingPolicy.Gang == nil {
			return 0, false
		}
		return int(g.Spec.SchedulingPolicy.Gang.MinCount), true
	}
	if !strings.Contains(gang, "/gang/") {
		return 0, false
	}
	if f := c.Fit; f != nil {
		for _, g := range f.Gates {
			if g.Cause == why.GangIncomplete {
				return int(g.Need), true
			}
		}
	}
	if len(there) == 0 {
		return 0, false
	}
	says := slices.MinFunc(there, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) }) // it counts, where members differ
	for _, key := range []string{v1alpha1.KeyMin, v1alpha1.KeySize} {
		n := 0
		if value, _ := c.Inherited(says, key); value == "" {
			continue
		} else if _, err := fmt.Sscan(value, &n); err == nil {
			return n, true
		}
	}
	return 0, false
}

// Incomplete says whether the pod's gang lacks members, for which schedulers wait in silence.
func Incomplete(c *check.Case) bool {
	gang := c.GangOf(c.Pod)
	if gang == "" {
		return false
	}
	if len(c.Above(c.Pod)) > 0 {
		return c.Lacking(c.Pod) != nil
	}
	there, _, _ := c.GangMembers(gang)
	need, ok := Needs(c, gang, there)
	return ok && len(there) < need
}

// WithMinCount is the group with another minimum, and the command for it. The minimum of a group that the Job controller made is
// said in the Job: the controller writes it into the group, over what anybody else writes there.
func WithMinCount(c *check.Case, g *schedulingv1beta1.PodGroup, n int32) (set []facts.Object, command string) {
	fewer := g.DeepCopy()
	fewer.Spec.SchedulingPolicy.Gang.MinCount = n
	policy := map[string]any{"schedulingPolicy": map[string]any{"gang": map[string]any{"minCount": n}}}
	j, ok := c.Controller(g).(*batchv1.Job)
	if !ok || j.Spec.Scheduling == nil || j.Spec.Scheduling.SchedulingPolicy == nil || j.Spec.Scheduling.SchedulingPolicy.Gang == nil {
		return []facts.Object{fewer}, edit.PatchLine(g, "merge", map[string]any{"spec": policy})
	}
	after := j.DeepCopy()
	after.Spec.Scheduling.SchedulingPolicy.Gang.MinCount = &n
	return []facts.Object{fewer, after}, edit.PatchLine(j, "merge", map[string]any{"spec": map[string]any{"scheduling": policy}})
}
