package diagnose

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/engine/why"
)

// mates are the cases of the other members of the gangs that the target's pods are in: those that wait, and those that
// others should have made. All of a gang wait for the one member that has no place, or does not exist.
func mates(f *facts.Facts, target facts.Ref, top facts.Object, own []*Case) []*Case {
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
	var out []*Case
	all := f.Gangs(top, waiting)
	if len(all) == 0 {
		return nil
	}
	byLook := make(map[string]*Case)
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
		c := &Case{Facts: f, Now: f.At, Target: target, Top: at, Pod: p, Exists: true, Like: 1, State: facts.StateOf(p), All: f.PodsMadeBy(at), Owners: f.OwnersOf(p, at)}
		byLook[look] = c
		out = append(out, c)
	}
	for gang := range all {
		for _, m := range f.GangOwners(gang) {
			if mine[string(m.GetUID())] {
				continue
			}
			p := facts.PodFrom(m, 0)
			f.Admit(p)
			at := f.TopOwner(m)
			out = append(out, &Case{Facts: f, Now: f.At, Target: target, Top: at, Pod: p, Like: f.MissingPods(m), State: facts.Absent, All: f.PodsMadeBy(at), Owners: f.OwnerPath(at, m)})
		}
	}
	slices.SortFunc(out, func(a, b *Case) int { return strings.Compare(a.Pod.Name, b.Pod.Name) })
	return out
}

// subject is what a person has to change to change the pod: the target, but for members of its gang that others made,
// and where the target is the gang.
func (c *Case) subject(target facts.Object) facts.Object {
	if _, group := target.(*schedulingv1beta1.PodGroup); group {
		return c.TopOwner(c.Owners[len(c.Owners)-1])
	}
	return c.Top
}

// on has the finding's operations change what a person has to change, where that is not the target.
func (f *Finding) on(subject, target facts.Object) {
	if subject.GetUID() == target.GetUID() {
		return
	}
	for i := range f.Edits {
		f.Edits[i].On = subject
	}
	if f.Probe != nil {
		probe := *f.Probe
		probe.On = subject
		f.Probe = &probe
	}
}

// readsPodGroups says whether PodGroups were read in the version that is known here, which Kubernetes serves from 1.37 on.
func (c *Case) readsPodGroups() bool {
	minor := 0
	fmt.Sscanf(c.Kubernetes, "v1.%d.", &minor)
	return c.Sees("podgroups.scheduling.k8s.io", c.Pod.Namespace) && (minor >= 37 || len(c.PodGroups) > 0)
}

// needs is how many members the gang starts with, where it says so.
func (c *Case) needs(gang string, there []*corev1.Pod) (int, bool) {
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
	for _, key := range []string{"berth.dev/min", "berth.dev/size"} {
		n := 0
		if value, _ := c.Inherited(says, key); value == "" {
			continue
		} else if _, err := fmt.Sscan(value, &n); err == nil {
			return n, true
		}
	}
	return 0, false
}

// incomplete says whether the pod's gang lacks members, for which schedulers wait in silence.
func (c *Case) incomplete() bool {
	gang := c.GangOf(c.Pod)
	if gang == "" {
		return false
	}
	there, _, _ := c.GangMembers(gang)
	need, ok := c.needs(gang, there)
	return ok && len(there) < need
}
