package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/engine/why"
)

// The room that a fix makes goes to the workload that comes first. A trial asks the engine as if the target were first in line; here those
// that wait with equal or higher standing are placed before it.

// mostRivals bounds them: each costs a search of the engine, for every fix that is printed.
const mostRivals = 16

// rivals are the pods that wait beside the target and would be looked at before it: of a higher priority, or of the same and
// older. The highest comes first.
func rivals(f *facts.Facts, own []*corev1.Pod) []*corev1.Pod {
	if len(own) == 0 {
		return nil
	}
	mine := make(map[string]bool, len(own))
	least, newest := ptr.Deref(own[0].Spec.Priority, 0), time.Time{}
	for _, p := range own {
		mine[p.Namespace+"/"+p.Name] = true
		least = min(least, ptr.Deref(p.Spec.Priority, 0))
		if p.CreationTimestamp.After(newest) {
			newest = p.CreationTimestamp.Time
		}
	}
	if newest.IsZero() { // pods to come
		newest = f.At
	}
	var out []*corev1.Pod
	for _, p := range f.Pods {
		if facts.StateOf(p) != facts.Pending || p.DeletionTimestamp != nil || mine[p.Namespace+"/"+p.Name] || p.Spec.SchedulerName != own[0].Spec.SchedulerName {
			continue
		}
		if !slices.ContainsFunc(facts.ExtendedOf(own[0]), func(name string) bool { return slices.Contains(facts.ExtendedOf(p), name) }) && len(facts.ExtendedOf(own[0])) > 0 {
			continue // it wants none of the devices
		}
		if prio := ptr.Deref(p.Spec.Priority, 0); prio > least || prio == least && !p.CreationTimestamp.After(newest) {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(ptr.Deref(b.Spec.Priority, 0), ptr.Deref(a.Spec.Priority, 0)), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return out[:min(len(out), mostRivals)]
}

// outrun is what a fix takes for granted of others that wait; "": nothing, as there is room for them and for the target.
func (t *trial) outrun(edits []edit.Edit) string {
	if t.d.model == nil {
		return ""
	}
	said := ""
	t.tryOut(edits, func(f *facts.Facts, top facts.Object) {
		s := t.d.enter(f, top)
		defer s.leave()
		said = s.outrun(f)
	})
	return said
}

// outrun places the rivals first, and names those in the way if there is no place for the target's pods then.
func (s *session) outrun(f *facts.Facts) string {
	own := s.waiting
	others := rivals(f, own)
	if len(own) == 0 || len(others) == 0 {
		return ""
	}
	for _, p := range others {
		s.model.Set(p)
	}
	defer func() {
		for _, p := range others {
			s.model.Delete(p)
		}
	}()
	var taken []*corev1.Pod
	for _, p := range others {
		s.restrict(p)
		e, where, missing := s.model.Try(p.Namespace+"/"+p.Name, f.At)
		if e.Verdict != why.Placed || len(missing) > 0 {
			continue
		}
		for _, w := range where {
			if i := slices.IndexFunc(others, func(o *corev1.Pod) bool { return o.Namespace+"/"+o.Name == w.Pod }); i >= 0 {
				q := others[i].DeepCopy()
				q.Spec.NodeName = w.Node
				s.model.Set(q)
				taken = append(taken, others[i])
			}
		}
	}
	if len(taken) == 0 {
		return ""
	}
	if _, left := s.together(f.At); left == 0 {
		return ""
	}
	first := taken[0]
	if len(taken) == 1 {
		return fmt.Sprintf("pod %s/%s, which waits too and goes first, does not take the place", first.Namespace, first.Name)
	}
	return fmt.Sprintf("pod %s/%s and %d more, which wait too and go first, do not take the place", first.Namespace, first.Name, len(taken)-1)
}
