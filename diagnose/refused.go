package diagnose

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// failure is evidence of how the pod failed as a whole.
func (c *Case) failure() Evidence {
	return Evidence{Object: RefTo(c.Pod).In(), Field: "status.reason", Value: c.Pod.Status.Reason + ": " + shortened(c.Pod.Status.Message, 200)}
}

// refused names the pod, and how often its like met the same end.
func (c *Case) refused() string {
	n := 0
	for _, p := range c.All {
		if stateOf(p) == Failed && p.Status.Reason == c.Pod.Status.Reason {
			n++
		}
	}
	if n < 2 {
		return "pod " + c.Pod.Name
	}
	return fmt.Sprintf("%d pods, such as %s", n, c.Pod.Name)
}

// superseded says whether the pod is history: it failed, or goes, and its maker has made others in its place that run,
// or has finished. settled remembers the answer for makers.
func (f *Facts) superseded(p *corev1.Pod, settled map[types.UID]bool) bool {
	m := f.Controller(p)
	leaves := p.DeletionTimestamp != nil
	if m == nil || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase != corev1.PodFailed && !leaves || leaves && waitsForLeavers(m) {
		return false
	}
	s, known := settled[m.GetUID()]
	if !known {
		s = finished(m) || f.wellStaffed(m)
		settled[m.GetUID()] = s
	}
	return s
}

// wellStaffed says whether the maker has all its pods, and all of them run well.
func (f *Facts) wellStaffed(m Object) bool {
	live := 0
	for _, child := range f.Children(m) {
		p, ok := child.(*corev1.Pod)
		if !ok || p.Status.Phase == corev1.PodFailed || p.DeletionTimestamp != nil {
			continue
		}
		if s := stateOf(p); s != Running && s != Succeeded || unsettled(p) {
			return false
		}
		live++
	}
	return live > 0 && f.lacks(m) == 0
}
