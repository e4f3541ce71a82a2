package diagnose

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
)

// mates are the cases of the other members of the gangs that the target's pods are in: those that wait, and those that
// others should have made. All of a gang wait for the one member that has no place, or does not exist.
func mates(f *facts.Facts, target facts.Ref, top facts.Object, own []*check.Case) []*check.Case {
	var waiting []*corev1.Pod
	mine := make(map[string]bool)
	for _, c := range own {
		if c.Waits() {
			waiting = append(waiting, c.Pod)
		}
		for _, m := range c.Owners {
			mine[string(m.GetUID())] = true
		}
	}
	for _, p := range f.PodsMadeBy(top) {
		mine[string(p.UID)] = true
	}
	var out []*check.Case
	all := f.Gangs(top, waiting)
	if len(all) == 0 {
		return nil
	}
	byLook := make(map[string]*check.Case)
	for _, p := range f.Pods {
		if s := facts.StateOf(p); mine[string(p.UID)] || !all[f.GangOf(p)] || s != facts.Pending && s != facts.Gated || p.DeletionTimestamp != nil {
			continue
		}
		look := looksLike(p)
		if same := byLook[look]; same != nil {
			same.Like++
			continue
		}
		at := f.TopOwner(p)
		c := &check.Case{Facts: f, Now: f.At, Target: target, Top: at, Pod: p, Exists: true, Like: 1, State: facts.StateOf(p), All: f.PodsMadeBy(at), Owners: f.OwnersOf(p, at)}
		byLook[look] = c
		out = append(out, c)
	}
	for _, gang := range slices.Sorted(maps.Keys(all)) {
		for _, m := range f.GangOwners(gang) {
			if mine[string(m.GetUID())] {
				continue
			}
			p := f.PodFrom(m, 0)
			f.Admit(p)
			at := f.TopOwner(m)
			out = append(out, &check.Case{Facts: f, Now: f.At, Target: target, Top: at, Pod: p, Like: f.MissingPods(m), State: facts.Absent, All: f.PodsMadeBy(at), Owners: f.OwnerPath(at, m)})
		}
	}
	slices.SortFunc(out, func(a, b *check.Case) int { return strings.Compare(a.Pod.Name, b.Pod.Name) })
	return out
}

// subject is what a person has to change to change the pod: the target, but for members of its gang that others made,
// and where the target is the gang.
func subject(c *check.Case, target facts.Object) facts.Object {
	_, group := target.(*schedulingv1beta1.PodGroup)
	if _, composite := target.(*schedulingv1alpha3.CompositePodGroup); group || composite {
		return c.TopOwner(c.Owners[len(c.Owners)-1])
	}
	return c.Top
}
