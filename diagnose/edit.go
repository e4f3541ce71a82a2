package diagnose

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/diagnose/facts"
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
	Command   string // "": the one made from Ops, or nobody's command line can
	Assumes   string
	Outcome   string // "": as found when it was tried
	Cost      int    // how much it asks of people: cheap edits are tried and shown first

	on facts.Object // whose pods the Ops change; nil: the target's
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

// with returns the facts as they would be after the edits, made for the target. What an edit changes has no events and
// no status from before.
func with(f *facts.Facts, top facts.Object, edits []Edit) (*facts.Facts, []facts.Change, error) {
	var changes []facts.Change
	for _, e := range edits {
		for _, o := range e.Set {
			changes = append(changes, facts.Change{Now: merged(f, o, changes)})
		}
		for _, o := range e.Gone {
			changes = append(changes, facts.Change{Was: o})
		}
		if len(e.Ops) == 0 {
			continue
		}
		of := top
		if e.on != nil {
			of = e.on
		}
		made, err := patched(f, of, e.Ops, changes)
		if err != nil {
			return nil, nil, err
		}
		changes = append(changes, made...)
	}
	return f.After(changes), changes, nil
}

// patched applies the operations to what makes the target's pods, and to those of its pods that are made anew. Those
// that failed go, as their owner makes others.
func patched(f *facts.Facts, top facts.Object, ops []Op, before []facts.Change) ([]facts.Change, error) {
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
		prefix := facts.TemplatePath(m)
		if prefix == "" {
			continue
		}
		n, err := patch(latest(m), prefix, ops)
		if err != nil {
			return nil, err
		}
		if j, ok := n.(*batchv1.Job); ok {
			j.Status = batchv1.JobStatus{}
		}
		out = append(out, facts.Change{Now: n})
	}
	pods := f.PodsMadeBy(top)
	for _, p := range pods {
		if facts.StateOf(p) == facts.Failed && facts.Object(p) != top {
			out = append(out, facts.Change{Was: p})
			continue
		}
		if !remade(p, pods) {
			continue
		}
		n, err := patch(latest(p), "", ops)
		if err != nil {
			return nil, err
		}
		fresh := n.(*corev1.Pod)
		fresh.Status = corev1.PodStatus{Phase: corev1.PodPending}
		fresh.Spec.NodeName = ""
		fresh.CreationTimestamp = metav1.NewTime(f.At)
		out = append(out, facts.Change{Now: fresh})
	}
	return out, nil
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

// patch returns a copy of the object with the operations done below the path.
func patch(o facts.Object, prefix string, ops []Op) (facts.Object, error) {
	b, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	var tree any
	if err := json.Unmarshal(b, &tree); err != nil {
		return nil, err
	}
	for _, op := range ops {
		value, err := plain(op.Value)
		if err != nil {
			return nil, err
		}
		keys := strings.Split(strings.TrimPrefix(prefix+op.Path, "/"), "/")
		for i := range keys {
			keys[i] = strings.ReplaceAll(strings.ReplaceAll(keys[i], "~1", "/"), "~0", "~")
		}
		if tree, err = edit(tree, keys, op.Op, value); err != nil {
			return nil, fmt.Errorf("%s %s: %w", op.Op, op.Path, err)
		}
	}
	if b, err = json.Marshal(tree); err != nil {
		return nil, err
	}
	n := facts.KindOfObject(o).New()
	return n, json.Unmarshal(b, n)
}

// plain is the value as JSON knows it.
func plain(v any) (out any, err error) {
	b, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(b, &out)
	}
	return out, err
}

// edit does one operation below the node of a JSON tree. Objects on the way that are not there are made.
func edit(at any, keys []string, op string, value any) (any, error) {
	if len(keys) == 0 {
		return value, nil
	}
	switch t := at.(type) {
	case []any:
		return editList(t, keys, op, value)
	case map[string]any:
		return editMap(t, keys, op, value)
	case nil:
		if keys[0] == "-" {
			return editList(nil, keys, op, value)
		}
		return editMap(map[string]any{}, keys, op, value)
	}
	return nil, fmt.Errorf("%q is neither a list nor an object", keys[0])
}

func editMap(t map[string]any, keys []string, op string, value any) (any, error) {
	if len(keys) == 1 && op == "remove" {
		if _, ok := t[keys[0]]; !ok {
			return nil, fmt.Errorf("there is no %q", keys[0])
		}
		delete(t, keys[0])
		return t, nil
	}
	below, err := edit(t[keys[0]], keys[1:], op, value)
	if err != nil {
		return nil, err
	}
	t[keys[0]] = below
	return t, nil
}

func editList(t []any, keys []string, op string, value any) (any, error) {
	if keys[0] == "-" && len(keys) == 1 && op == "add" {
		return append(t, value), nil
	}
	var i int
	if _, err := fmt.Sscan(keys[0], &i); err != nil || i < 0 || i >= len(t) {
		return nil, fmt.Errorf("there is no item %s", keys[0])
	}
	switch {
	case len(keys) > 1:
		below, err := edit(t[i], keys[1:], op, value)
		if err != nil {
			return nil, err
		}
		t[i] = below
		return t, nil
	case op == "remove":
		return slices.Delete(t, i, i+1), nil
	case op == "add":
		return slices.Insert(t, i, value), nil
	}
	t[i] = value
	return t, nil
}
