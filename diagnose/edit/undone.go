package edit

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"

	"github.com/berth-dev/berth/diagnose/facts"
)

// Undone says whether, of edits that are made for the target one after the other, a later one undoes what an earlier one did, or writes a
// field that the earlier one wrote. They are no fix of several parts: one part is to spare, or was never carried out. It costs the
// objects that change, written as JSON once for each edit.
func Undone(f *facts.Facts, top facts.Object, edits []Edit) bool {
	var changes []facts.Change
	states := []map[string]leaves{{}}
	for _, e := range edits {
		n := len(changes)
		var err error
		if changes, err = made(f, top, e, changes); err != nil {
			return false // which is not tried either
		}
		now := maps.Clone(states[len(states)-1])
		for _, c := range changes[n:] {
			o := c.Now
			if o == nil {
				o = c.Was
			}
			ref := keyOf(o)
			if _, known := now[ref]; !known { // as it was before all edits
				states[0][ref] = baseOf(f, o)
				for _, s := range states[1:] {
					s[ref] = states[0][ref]
				}
			}
			now[ref] = leavesOf(c.Now)
		}
		states = append(states, now)
	}
	last := states[len(states)-1]
	for i := 1; i < len(states)-1; i++ {
		for ref, now := range states[i] { //archtest:any-order one is enough
			was, end := states[i-1][ref], last[ref]
			for path := range now.and(was) { //archtest:any-order one is enough
				if v, w := now[path], was[path]; !reflect.DeepEqual(v, w) && !reflect.DeepEqual(v, end[path]) {
					return true
				}
			}
		}
	}
	return false
}

func keyOf(o facts.Object) string { return fmt.Sprintf("%T %s", o, facts.RefTo(o).In()) }

func baseOf(f *facts.Facts, o facts.Object) leaves {
	if was := f.ObjectOf(o.GetUID()); was != nil && keyOf(was) == keyOf(o) {
		return leavesOf(was)
	}
	return leaves{}
}

// leaves are the values of an object by their paths. An item of a list is found by its name, where it has one, and else by itself.
type leaves map[string]any

func leavesOf(o facts.Object) leaves {
	out := make(leaves)
	if o == nil {
		return out
	}
	if m, ok := tree(o).(map[string]any); ok {
		delete(m, "status")
		out.add("", m)
		for _, key := range []string{"creationTimestamp", "resourceVersion", "generation", "managedFields"} {
			delete(out, "/metadata/"+key)
		}
	}
	return out
}

func (l leaves) add(path string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for key, below := range v { //archtest:any-order each has a path of its own
			l.add(path+Pointer(key), below)
		}
	case []any:
		for _, item := range v {
			m, _ := item.(map[string]any)
			if name, ok := m["name"].(string); ok {
				l.add(path+Pointer(name), item)
				continue
			}
			b, _ := json.Marshal(item)
			l[path+Pointer(string(b))] = true
		}
	default:
		l[path] = v
	}
}

// and are the paths of both.
func (l leaves) and(o leaves) map[string]bool {
	out := make(map[string]bool, len(l)+len(o))
	for path := range l {
		out[path] = true
	}
	for path := range o {
		out[path] = true
	}
	return out
}
