package facts

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Change is one object before and after; nil: it did not, or does not, exist.
type Change struct{ Was, Now Object }

// After returns the facts as they would be once the changes are made; f stays as it is. What a change touches has no
// events from before. It writes into each change what was there. It costs what changes, and copies of the lists and maps
// in which something does.
func (f *Facts) After(changes []Change) *Facts {
	g := &Facts{At: f.At, Kubernetes: f.Kubernetes, Objects: f.Objects, Logs: f.Logs, Unseen: f.Unseen, Served: f.Served, Speaks: f.Speaks, Answers: f.Answers, Matches: f.Matches, NewAllocator: f.NewAllocator, edited: maps.Clone(f.edited), known: f.schedulers()}
	if g.edited == nil {
		g.edited = make(map[types.UID]bool)
	}
	g.apply(changes)
	g.once.Do(func() { g.index = f.indexed().after(changes) })
	return g
}

// Hypothetical says whether the facts are those of a trial, whatever it changed.
func (f *Facts) Hypothetical() bool { return f.edited != nil }

// Edited says whether any object is not as it was read.
func (f *Facts) Edited() bool { return len(f.edited) > 0 }

// WasEdited says whether the object is not as it was read: what was said of it before does not hold.
func (f *Facts) WasEdited(o Object) bool { return f.edited[o.GetUID()] }

// apply puts the changes into the objects, and notes what was there. A list of objects is copied once, however many of
// them change.
func (f *Facts) apply(changes []Change) {
	byKind := make(map[*KindInfo]*listed)
	var kinds []*KindInfo
	for i := range changes {
		about := changes[i].Now
		if about == nil {
			about = changes[i].Was
		}
		k := KindOfObject(about)
		if k == nil {
			continue
		}
		f.edited[about.GetUID()] = true
		if byKind[k] == nil {
			byKind[k] = listOf(k.List(&f.Objects))
			kinds = append(kinds, k)
		}
		byKind[k].apply(&changes[i], about)
	}
	for _, k := range kinds {
		k.set(&f.Objects, slices.DeleteFunc(byKind[k].objects, func(o Object) bool { return o == nil }))
	}
}

// listed is a list of objects of one kind that are found by name.
type listed struct {
	objects []Object // nil: gone
	at      map[string]int
}

func listOf(all []Object) *listed {
	l := &listed{objects: slices.Clone(all), at: make(map[string]int, len(all))}
	for i, o := range all {
		l.at[o.GetNamespace()+"/"+o.GetName()] = i
	}
	return l
}

func (l *listed) apply(c *Change, about Object) {
	name := about.GetNamespace() + "/" + about.GetName()
	i, ok := l.at[name]
	if ok {
		c.Was = l.objects[i]
	}
	switch {
	case ok:
		l.objects[i] = c.Now
	case c.Now != nil:
		l.at[name] = len(l.objects)
		l.objects = append(l.objects, c.Now)
	}
}

// Beside are the facts with the pods where they are placed. Claims of theirs that have no devices yet will have some there: see Placed.
func (f *Facts) Beside(pods []*corev1.Pod) *Facts {
	g := &Facts{At: f.At, Kubernetes: f.Kubernetes, Objects: f.Objects, Unseen: f.Unseen, Served: f.Served, Speaks: f.Speaks, Answers: f.Answers, Matches: f.Matches, NewAllocator: f.NewAllocator, edited: f.edited}
	g.Pods = slices.DeleteFunc(slices.Clone(f.Pods), func(p *corev1.Pod) bool {
		return slices.ContainsFunc(pods, func(q *corev1.Pod) bool { return p.Namespace == q.Namespace && p.Name == q.Name })
	})
	g.Pods, g.placed = append(g.Pods, pods...), pods
	return g
}

// Placed are the pods that are only thought to be where they are.
func (f *Facts) Placed() []*corev1.Pod { return f.placed }
