package queue

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/diagnose/check"
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
	if g := c.PodGroup(c.Pod); g != nil {
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
	there, _, _ := c.GangMembers(gang)
	need, ok := Needs(c, gang, there)
	return ok && len(there) < need
}
