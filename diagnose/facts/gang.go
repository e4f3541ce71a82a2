package facts

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"

	"github.com/berth-dev/berth/kube/convert"
)

// GangOf names what the pod is placed together with, as the scheduler reads it; "": with none.
func (f *Facts) GangOf(p *corev1.Pod) string {
	if g := f.PodGroup(p); g != nil && convert.Independent(g) {
		p = convert.Ungrouped(p)
	}
	var said []convert.Keys
	for at, up := f.Controller(p), 0; at != nil && up < 2; at, up = f.Controller(at), up+1 {
		if o, ok := convert.OwnerOf(at); ok && o.Namespace == p.Namespace {
			said = append(said, o.Keys)
		}
	}
	p = convert.WithOwners(p, said...)
	if root := f.rootOf(p); root != "" {
		return root
	}
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

// CrewOf names what the pod works with, though each may be placed by itself: its gang, or the PodGroup that it is in; "" for none.
func (f *Facts) CrewOf(p *corev1.Pod) string {
	if gang := f.GangOf(p); gang != "" {
		return gang
	}
	if g := f.PodGroup(p); g != nil && !convert.Idle(g) {
		return convert.PodGroupOf(p)
	}
	return ""
}

// rootOf is the gang of the composite group at the top of those that the pod's PodGroup is in, "" where it is in none.
func (f *Facts) rootOf(p *corev1.Pod) string {
	if convert.PodGroupOf(p) == "" {
		return ""
	}
	g := f.PodGroup(p)
	if g == nil || convert.ParentOf(g) == "" {
		return ""
	}
	return convert.RootKey(g.Namespace, convert.ParentOf(g), f.composite)
}

// composite is the CompositePodGroup of the gang's key, nil for none.
func (f *Facts) composite(key string) *schedulingv1alpha3.CompositePodGroup {
	for _, c := range f.CompositePodGroups {
		if convert.CompositeKey(c.Namespace, c.Name) == key {
			return c
		}
	}
	return nil
}

// Above are the CompositePodGroups that the pod's PodGroup is in, its parent first; those that do not exist are not among them.
func (f *Facts) Above(p *corev1.Pod) (out []*schedulingv1alpha3.CompositePodGroup) {
	g := f.PodGroup(p)
	if g == nil {
		return nil
	}
	for up := convert.ParentOf(g); up != ""; {
		c := f.composite(convert.CompositeKey(g.Namespace, up))
		if c == nil || slices.Contains(out, c) || len(out) > convert.TreeLevels {
			break
		}
		out = append(out, c)
		up = convert.ParentOfComposite(c)
	}
	return out
}

// Missing is the parent that the pod's PodGroup, or a CompositePodGroup above it, names and that does not exist, and who names it; nil:
// all are there.
func (f *Facts) Missing(p *corev1.Pod) (parent string, by Object) {
	g := f.PodGroup(p)
	if g == nil || convert.ParentOf(g) == "" {
		return "", nil
	}
	parent, by = convert.ParentOf(g), g
	if above := f.Above(p); len(above) > 0 {
		last := above[len(above)-1]
		parent, by = convert.ParentOfComposite(last), last
	}
	if parent == "" || f.composite(convert.CompositeKey(g.Namespace, parent)) != nil {
		return "", nil
	}
	return parent, by
}

// Lack is what keeps a tree of groups from being complete: a group that has fewer groups, or pods, than it needs.
type Lack struct {
	Group      Object // a PodGroup, which lacks pods, or a CompositePodGroup, which lacks groups
	Field      string // that says how many it needs
	Need, Have int
}

// Lacking is the first lack of the groups that the pod's PodGroup is in, as its scheduler counts them: children that have what they
// need themselves; nil: it is in none, they do not lead to a root, or are complete.
func (f *Facts) Lacking(p *corev1.Pod) *Lack {
	above := f.Above(p)
	if len(above) == 0 || len(above) >= convert.TreeLevels || convert.ParentOfComposite(above[len(above)-1]) != "" {
		return nil
	}
	there := make(map[string]int)
	for _, o := range f.Pods {
		if o.Namespace == p.Namespace && !Ended(o) && o.DeletionTimestamp == nil {
			there[convert.PodGroupOf(o)]++
		}
	}
	return f.lackOf(above[len(above)-1], there, convert.TreeLevels)
}

func (f *Facts) lackOf(o Object, there map[string]int, levels int) (first *Lack) {
	c, ok := o.(*schedulingv1alpha3.CompositePodGroup)
	if !ok {
		g := o.(*schedulingv1beta1.PodGroup)
		read := convert.PodGroup(g)
		if have := there[read.Key]; have < read.Min {
			return &Lack{g, "spec.schedulingPolicy.gang.minCount", read.Min, have}
		}
		return nil
	}
	need, whole := 1, 0
	if gang := c.Spec.SchedulingPolicy.Gang; gang != nil {
		need = int(gang.MinGroupCount)
	}
	below := f.GroupsBelow(c)
	for _, child := range below {
		if levels == 0 {
			break
		}
		lack := f.lackOf(child, there, levels-1)
		if lack == nil {
			whole++
		} else if first == nil {
			first = lack
		}
	}
	switch {
	case whole >= need:
		return nil
	case len(below) < need || first == nil:
		return &Lack{c, "spec.schedulingPolicy.gang.minGroupCount", need, len(below)}
	}
	return first
}

// GroupsBelow are the groups whose parent the CompositePodGroup is, PodGroups and others, by kind and name.
func (f *Facts) GroupsBelow(c *schedulingv1alpha3.CompositePodGroup) (out []Object) {
	for _, o := range f.CompositePodGroups {
		if o.Namespace == c.Namespace && convert.ParentOfComposite(o) == c.Name {
			out = append(out, o)
		}
	}
	for _, g := range f.PodGroups {
		if g.Namespace == c.Namespace && convert.ParentOf(g) == c.Name {
			out = append(out, g)
		}
	}
	return out
}

// Inherited is the value of one of Berth's keys that counts for the pod, and the object that has it: the pod itself, its controller, or
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
	if g, ok := top.(*schedulingv1beta1.PodGroup); ok && convert.ParentOf(g) == "" {
		out[g.Namespace+"/podgroup/"+g.Name] = true
	}
	if c, ok := top.(*schedulingv1alpha3.CompositePodGroup); ok && convert.ParentOfComposite(c) == "" {
		out[convert.CompositeKey(c.Namespace, c.Name)] = true
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

// GangGroup is the PodGroup that the pod's gang is, nil where the pod has none: a group whose pods are placed each by itself is no gang.
func (f *Facts) GangGroup(p *corev1.Pod) *schedulingv1beta1.PodGroup {
	g := f.PodGroup(p)
	if g == nil || convert.Independent(g) {
		return nil
	}
	return g
}

// groupFrom is the gang that the Job controller has made for the Job and puts its pods into, nil for none.
func (f *Facts) groupFrom(o Object) *schedulingv1beta1.PodGroup {
	for _, child := range f.Children(o) {
		if g, ok := child.(*schedulingv1beta1.PodGroup); ok && !convert.Independent(g) {
			return g
		}
	}
	return nil
}

// GangName is how a sentence names the gang.
func (f *Facts) GangName(p *corev1.Pod) string {
	g := f.CrewOf(p)
	name := g[strings.LastIndexByte(g, '/')+1:]
	if convert.PodGroupOf(p) == g {
		return "PodGroup " + name
	}
	if convert.IsComposite(g) {
		return "CompositePodGroup " + name
	}
	return "gang " + name
}
