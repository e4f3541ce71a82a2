package diagnose

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"

	"github.com/berth-dev/berth/engine/why"
)

// gangs are the gangs of the pods, by the names that gangOf gives; a PodGroup that is asked about is one itself.
func (f *Facts) gangs(top Object, pods []*corev1.Pod) map[string]bool {
	out := make(map[string]bool)
	for _, p := range pods {
		out[f.gangOf(p)] = true
	}
	if g, ok := top.(*schedulingv1beta1.PodGroup); ok {
		out[g.Namespace+"/podgroup/"+g.Name] = true
	}
	delete(out, "")
	return out
}

// gangMakers are the objects that should make members of the gang and have not made them all, in no order.
func (f *Facts) gangMakers(gang string) []Object {
	var out []Object
	for _, k := range Kinds {
		switch k.Kind {
		case "Job", "ReplicaSet", "StatefulSet":
		default:
			continue
		}
		for _, o := range k.list(&f.Objects) {
			if !strings.HasPrefix(gang, o.GetNamespace()+"/") || f.lacks(o) == 0 {
				continue
			}
			if p := podFrom(o, 0); p != nil && f.gangOf(p) == gang {
				out = append(out, o)
			}
		}
	}
	return out
}

// highest is the topmost maker of an object that may be asked about, or the object itself.
func (f *Facts) highest(o Object) Object {
	for range 8 {
		up := f.Controller(o)
		if up == nil || kindOf(up) == nil || !slices.Contains(asked, kindOf(up).Kind) {
			break
		}
		o = up
	}
	return o
}

// mates are the cases of the other members of the gangs that the target's pods are in: those that wait, and those that
// others should have made. All of a gang wait for the one member that has no place, or does not exist.
func (f *Facts) mates(target Ref, top Object, own []*Case) []*Case {
	var waiting []*corev1.Pod
	mine := make(map[string]bool)
	for _, c := range own {
		if c.Waits() {
			waiting = append(waiting, c.Pod)
		}
		for _, m := range c.Makers {
			mine[string(m.GetUID())] = true
		}
	}
	for _, p := range f.podsOf(top) {
		mine[string(p.UID)] = true
	}
	var out []*Case
	all := f.gangs(top, waiting)
	if len(all) == 0 {
		return nil
	}
	byLook := make(map[string]*Case)
	for _, p := range f.Pods {
		if s := stateOf(p); mine[string(p.UID)] || !all[f.gangOf(p)] || s != Pending && s != Gated || p.DeletionTimestamp != nil {
			continue
		}
		look := looksLike(p)
		if same := byLook[look]; same != nil {
			same.Like++
			continue
		}
		at := f.highest(p)
		c := &Case{Facts: f, Now: f.At, Target: target, Top: at, Pod: p, Exists: true, Like: 1, State: stateOf(p), All: f.podsOf(at), Makers: f.above(p, at)}
		byLook[look] = c
		out = append(out, c)
	}
	for gang := range all {
		for _, m := range f.gangMakers(gang) {
			if mine[string(m.GetUID())] {
				continue
			}
			p := podFrom(m, 0)
			f.admitted(p)
			at := f.highest(m)
			out = append(out, &Case{Facts: f, Now: f.At, Target: target, Top: at, Pod: p, Like: f.lacks(m), State: Absent, All: f.podsOf(at), Makers: f.path(at, m)})
		}
	}
	slices.SortFunc(out, func(a, b *Case) int { return strings.Compare(a.Pod.Name, b.Pod.Name) })
	return out
}

// subject is what a person has to change to change the pod: the target, but for members of its gang that others made,
// and where the target is the gang.
func (c *Case) subject(target Object) Object {
	if _, group := target.(*schedulingv1beta1.PodGroup); group {
		return c.highest(c.Makers[len(c.Makers)-1])
	}
	return c.Top
}

// members are the pods of the gang that exist and are not over, and how many more their makers should make.
func (f *Facts) members(gang string) (there []*corev1.Pod, coming int, makers []Object) {
	for _, p := range f.Pods {
		if f.gangOf(p) == gang && !over(p) && p.DeletionTimestamp == nil {
			there = append(there, p)
		}
	}
	makers = f.gangMakers(gang)
	for _, m := range makers {
		coming += f.lacks(m)
	}
	return there, coming, makers
}

// podGroup is the PodGroup that the pod names, nil where it names none or there is none.
func (f *Facts) podGroup(p *corev1.Pod) *schedulingv1beta1.PodGroup {
	s := p.Spec.SchedulingGroup
	if s == nil || s.PodGroupName == nil {
		return nil
	}
	for _, g := range f.PodGroups {
		if g.Namespace == p.Namespace && g.Name == *s.PodGroupName {
			return g
		}
	}
	return nil
}

// on has the finding's operations change what a person has to change, where that is not the target.
func (f *Finding) on(subject, target Object) {
	if subject.GetUID() == target.GetUID() {
		return
	}
	for i := range f.Edits {
		f.Edits[i].on = subject
	}
	if f.Probe != nil {
		probe := *f.Probe
		probe.on = subject
		f.Probe = &probe
	}
}

// readsPodGroups says whether PodGroups were read in the version that is known here, which Kubernetes serves from 1.37 on.
func (c *Case) readsPodGroups() bool {
	minor := 0
	fmt.Sscanf(c.Kubernetes, "v1.%d.", &minor)
	return c.Sees("podgroups.scheduling.k8s.io", c.Pod.Namespace) && (minor >= 37 || len(c.PodGroups) > 0)
}

// gangName is how a sentence names the gang.
func (f *Facts) gangName(p *corev1.Pod) string {
	g := f.gangOf(p)
	name := g[strings.LastIndexByte(g, '/')+1:]
	if s := p.Spec.SchedulingGroup; s != nil && s.PodGroupName != nil {
		return "PodGroup " + name
	}
	return "gang " + name
}

// needs is how many members the gang starts with, where it says so.
func (c *Case) needs(gang string, there []*corev1.Pod) (int, bool) {
	if g := c.podGroup(c.Pod); g != nil {
		if g.Spec.SchedulingPolicy.Gang == nil {
			return 0, false
		}
		return int(g.Spec.SchedulingPolicy.Gang.MinCount), true
	}
	if !strings.Contains(gang, "/gang/") {
		return 0, false
	}
	if f := c.Fit(); f != nil {
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
		if value, _ := c.saidFor(says, key); value == "" {
			continue
		} else if _, err := fmt.Sscan(value, &n); err == nil {
			return n, true
		}
	}
	return 0, false
}

// incomplete says whether the pod's gang lacks members, for which schedulers wait in silence.
func (c *Case) incomplete() bool {
	gang := c.gangOf(c.Pod)
	if gang == "" {
		return false
	}
	there, _, _ := c.members(gang)
	need, ok := c.needs(gang, there)
	return ok && len(there) < need
}

// pods counts them in words.
func pods(n int) string {
	if n == 1 {
		return "1 pod"
	}
	return fmt.Sprintf("%d pods", n)
}

// existing says how many there are.
func existing(n int) string {
	if n == 1 {
		return "1 exists"
	}
	return fmt.Sprintf("%d exist", n)
}
