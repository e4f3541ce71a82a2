package edit

import (
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/diagnose/facts"
)

// Side is the role that would make a change.
type Side string

const (
	Workload Side = "workload"
	Cluster  Side = "cluster"
)

// Edit is a change that might help. What it does is given as objects, so that it can be tried; the command has to do
// the same.
type Edit struct {
	Side Side
	Text string // what to do: "add a toleration for nvidia.com/gpu=present:NoSchedule"
	// Ops change the target's pods: JSON patch operations with paths in a pod ("/spec/nodeSelector/gpu-pool"). The
	// command that does it to the target, or to its owner, is made from them.
	Ops []Op
	// Set and Gone are objects as they would be afterwards, and objects that would not be there any more.
	Set, Gone []facts.Object
	Command   string // "": the one made from Ops, or there is none for it
	Assumes   string
	Outcome   string // "": as found when it was tried
	Cost      int    // how much it asks of people: cheap edits are tried and shown first

	On facts.Object // whose pods the Ops change; nil: the target's
	// For is a pod of those that the Ops change, where the object makes pods of several templates; nil: those of the first.
	For *corev1.Pod
}

// Op is one operation of a JSON patch.
type Op struct {
	Op    string `json:"op"` // add, replace or remove
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// Pointer joins the keys into a JSON pointer.
func Pointer(keys ...string) string {
	var b strings.Builder
	for _, k := range keys {
		b.WriteByte('/')
		b.WriteString(strings.ReplaceAll(strings.ReplaceAll(k, "~", "~0"), "/", "~1"))
	}
	return b.String()
}

// After returns the facts as they would be after the edits, made for the target. What an edit changes has no events and
// no status from before.
func After(f *facts.Facts, top facts.Object, edits []Edit) (*facts.Facts, []facts.Change, error) {
	var changes []facts.Change
	for _, e := range edits {
		var err error
		if changes, err = made(f, top, e, changes); err != nil {
			return nil, nil, err
		}
	}
	return f.After(changes), changes, nil
}

// made adds what the edit changes to the changes before it.
func made(f *facts.Facts, top facts.Object, e Edit, changes []facts.Change) ([]facts.Change, error) {
	for _, o := range e.Set {
		changes = append(changes, facts.Change{Now: merged(f, o, changes)})
	}
	for _, o := range e.Gone {
		changes = append(changes, facts.Change{Was: o})
	}
	if len(e.Ops) == 0 {
		return changes, nil
	}
	of := top
	if e.On != nil {
		of = e.On
	}
	more, err := Patched(f, of, e.For, e.Ops, changes)
	return append(changes, more...), err
}

// Patched applies the operations to what makes the target's pods, and to those of its pods that are made anew. Those
// that failed go, as their owner makes others. Of several templates, it is the one of the pod; nil: the first.
func Patched(f *facts.Facts, top facts.Object, of *corev1.Pod, ops []Op, before []facts.Change) ([]facts.Change, error) {
	var out []facts.Change
	latest := func(o facts.Object) facts.Object {
		for _, c := range slices.Concat(before, out) {
			if c.Now != nil && facts.SameType(c.Now, o) && c.Now.GetName() == o.GetName() && c.Now.GetNamespace() == o.GetNamespace() {
				o = c.Now
			}
		}
		return o
	}
	for _, m := range f.PodOwners(top) {
		prefix := facts.TemplatePathFor(m, of)
		if prefix == "" {
			continue
		}
		if t := facts.TemplateFor(m, of); m.GetUID() != top.GetUID() && !facts.Alike(top, of, &corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec}) {
			continue
		}
		n, err := Patch(latest(m), prefix, ops)
		if err != nil {
			return nil, err
		}
		if err := rejected(n); err != nil {
			return nil, err
		}
		if j, ok := n.(*batchv1.Job); ok {
			j.Status = batchv1.JobStatus{}
		}
		out = append(out, facts.Change{Now: n})
	}
	pods := f.PodsMadeBy(top)
	for _, p := range pods {
		if !facts.Alike(top, of, p) {
			continue
		}
		if facts.StateOf(p) == facts.Failed && facts.Object(p) != top {
			out = append(out, facts.Change{Was: p})
			continue
		}
		if !remade(p, pods) {
			continue
		}
		n, err := Patch(latest(p), "", ops)
		if err != nil {
			return nil, err
		}
		fresh := n.(*corev1.Pod)
		requestLimits(f, top, p, fresh)
		if err := rejected(fresh); err != nil {
			return nil, err
		}
		fresh.Status = corev1.PodStatus{Phase: corev1.PodPending}
		fresh.Spec.NodeName = ""
		f.Default(fresh)
		fresh.CreationTimestamp = metav1.NewTime(f.At)
		out = append(out, facts.Change{Now: fresh})
	}
	return out, nil
}

// requestLimits has the pod request what its limits are after an edit, where its author leaves that to the API server: it did so
// when it made the pod from the template, and does so again.
func requestLimits(f *facts.Facts, top facts.Object, was, now *corev1.Pod) {
	for _, m := range f.PodOwners(top) {
		t := facts.TemplateFor(m, was)
		if t == nil {
			continue
		}
		for i := range now.Spec.Containers {
			if i >= len(t.Spec.Containers) || i >= len(was.Spec.Containers) {
				return
			}
			before, after := &was.Spec.Containers[i].Resources, &now.Spec.Containers[i].Resources
			for name, limit := range after.Limits {
				_, written := t.Spec.Containers[i].Resources.Requests[name]
				asked, old := after.Requests[name], before.Limits[name]
				if !written && asked.Cmp(old) == 0 && limit.Cmp(old) != 0 && asked.Cmp(before.Requests[name]) == 0 {
					if after.Requests == nil { // the edit has taken the last one
						after.Requests = make(corev1.ResourceList)
					}
					after.Requests[name] = limit
				}
			}
		}
		return
	}
}

// remade says whether a change of the target makes the pod anew: whatever does not run, or does not run well. What runs
// well is counted as staying, for as long as other pods wait.
func remade(p *corev1.Pod, all []*corev1.Pod) bool {
	switch facts.StateOf(p) {
	case facts.Pending, facts.Gated, facts.Starting, facts.Failed:
		return true
	case facts.Running:
		return facts.Unsettled(p) || !slices.ContainsFunc(all, func(o *corev1.Pod) bool { return facts.StateOf(o) != facts.Running && !facts.Ended(o) })
	}
	return false
}

// What edits ask of people, the least first.
const (
	CostRevert  = 0 // it was so before
	CostWord    = 1 // of the workload
	CostSmall   = 2 // in the workload
	CostWait    = 3
	CostLess    = 4 // the workload gets less than it asks for
	CostConsent = 5 // of another team's object
	CostMove    = 7 // others' work
	CostNodes   = 9
)

// Nothing stands for findings that bind only where the engine itself names their cause: it changes nothing.
func Nothing(text string) *Edit { return &Edit{Side: Workload, Text: "nothing: " + text} }
