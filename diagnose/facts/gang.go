package facts

import (
	"cmp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"

	"github.com/berth-dev/berth/kube/convert"
)

// GangOf names what the pod is placed together with, as the scheduler reads it; "" where that is nobody.
func (f *Facts) GangOf(p *corev1.Pod) string {
	if g := f.PodGroup(p); g != nil && convert.Idle(g) {
		p = convert.Ungrouped(p)
	}
	var said []convert.Keys
	for at, up := f.Controller(p), 0; at != nil && up < 2; at, up = f.Controller(at), up+1 {
		if o, ok := convert.OwnerOf(at); ok && o.Namespace == p.Namespace {
			said = append(said, o.Keys)
		}
	}
	p = convert.WithOwners(p, said...)
	if key, _ := convert.GangOf(p); key != "" {
		return key
	}
	if t := f.Spoken(p); t != nil && t.Awaits == "" {
		p = convert.WithOwners(p, t.Keys)
	}
	if key, _ := convert.GangOf(p); key != "" {
		return key
	}
	if t := f.Made(p); t != nil {
		p = convert.WithOwners(p, t.Keys)
	}
	key, _ := convert.GangOf(p)
	return key
}

// Inherited is the value of one of Berth's keys that counts for the pod, and who says it: the pod itself, its controller, or
// the controller of that.
func (f *Facts) Inherited(p *corev1.Pod, key string) (value string, by Object) {
	for at, up := Object(p), 0; at != nil && up <= 2; at, up = f.Controller(at), up+1 {
		if value := cmp.Or(at.GetAnnotations()[key], at.GetLabels()[key]); value != "" && at.GetNamespace() == p.Namespace {
			return value, at
		}
	}
	return "", nil
}

// Gangs are the gangs of the pods, by the names that gangOf gives; a PodGroup that is asked about is one itself.
func (f *Facts) Gangs(top Object, pods []*corev1.Pod) map[string]bool {
	out := make(map[string]bool)
	for _, p := range pods {
		out[f.GangOf(p)] = true
	}
	if g, ok := top.(*schedulingv1beta1.PodGroup); ok {
		out[g.Namespace+"/podgroup/"+g.Name] = true
	}
	delete(out, "")
	return out
}

// GangOwners are the objects that should make members of the gang and have not made them all, in no order.
func (f *Facts) GangOwners(gang string) []Object {
	var out []Object
	for _, k := range Kinds {
		switch k.Kind {
		case "Job", "ReplicaSet", "StatefulSet":
		default:
			continue
		}
		for _, o := range k.List(&f.Objects) {
			if !strings.HasPrefix(gang, o.GetNamespace()+"/") || f.MissingPods(o) == 0 {
				continue
			}
			if p := f.PodFrom(o, 0); p != nil && f.GangOf(p) == gang {
				out = append(out, o)
			}
		}
	}
	return out
}

// GangMembers are the pods of the gang that exist and are not over, and how many more their owners should create.
func (f *Facts) GangMembers(gang string) (there []*corev1.Pod, coming int, owners []Object) {
	for _, p := range f.Pods {
		if f.GangOf(p) == gang && !Ended(p) && p.DeletionTimestamp == nil {
			there = append(there, p)
		}
	}
	owners = f.GangOwners(gang)
	for _, m := range owners {
		coming += f.MissingPods(m)
	}
	return there, coming, owners
}

// PodGroup is the PodGroup that the pod names, nil where it names none or there is none.
func (f *Facts) PodGroup(p *corev1.Pod) *schedulingv1beta1.PodGroup {
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

// GangGroup is the PodGroup that the pod's gang is, nil where the pod has none: a group that asks nothing of its members, as the
// Job controller makes for every Job, is no gang.
func (f *Facts) GangGroup(p *corev1.Pod) *schedulingv1beta1.PodGroup {
	g := f.PodGroup(p)
	if g == nil || convert.Idle(g) {
		return nil
	}
	return g
}

// groupFrom is the gang that the Job controller has made for the Job and puts its pods into, nil for none.
func (f *Facts) groupFrom(o Object) *schedulingv1beta1.PodGroup {
	for _, child := range f.Children(o) {
		if g, ok := child.(*schedulingv1beta1.PodGroup); ok && !convert.Idle(g) {
			return g
		}
	}
	return nil
}

// GangName is how a sentence names the gang.
func (f *Facts) GangName(p *corev1.Pod) string {
	g := f.GangOf(p)
	name := g[strings.LastIndexByte(g, '/')+1:]
	if convert.PodGroupOf(p) == g {
		return "PodGroup " + name
	}
	return "gang " + name
}
