package diagnose

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/life"
)

// superseded says whether the pod is history: it failed, or goes, and its owner has made others in its place that run,
// or has finished. settled remembers the answer for owners.
func superseded(f *facts.Facts, p *corev1.Pod, settled map[types.UID]bool) bool {
	m := f.Controller(p)
	leaves := p.DeletionTimestamp != nil
	if m == nil || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase != corev1.PodFailed && !leaves || leaves && facts.WaitsForDeletion(m) {
		return false
	}
	s, known := settled[m.GetUID()]
	if !known {
		s = life.Finished(m) || wellStaffed(f, m)
		settled[m.GetUID()] = s
	}
	return s
}

// wellStaffed says whether the owner has all its pods, and all of them run well.
func wellStaffed(f *facts.Facts, m facts.Object) bool {
	live := 0
	for _, child := range f.Children(m) {
		p, ok := child.(*corev1.Pod)
		if !ok || p.Status.Phase == corev1.PodFailed || p.DeletionTimestamp != nil {
			continue
		}
		if s := facts.StateOf(p); s != facts.Running && s != facts.Succeeded || facts.Unsettled(p) {
			return false
		}
		live++
	}
	return live > 0 && f.MissingPods(m) == 0
}
