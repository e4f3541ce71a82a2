package edit

import (
	"encoding/json"
	"reflect"
	"slices"

	"github.com/berth-dev/berth/diagnose/facts"
)

// merged is the object with what earlier changes do to it, so that two edits of one object, each made without regard
// to the other, both hold: one uncordons a node, and another brings its GPUs back.
func merged(f *facts.Facts, o facts.Object, before []facts.Change) facts.Object {
	var earlier facts.Object
	for _, c := range before {
		if c.Now != nil && facts.SameType(c.Now, o) && c.Now.GetName() == o.GetName() && c.Now.GetNamespace() == o.GetNamespace() {
			earlier = c.Now
		}
	}
	k := facts.KindOfObject(o)
	if earlier == nil || k == nil {
		return o
	}
	var base facts.Object
	for _, was := range k.List(&f.Objects) {
		if was.GetName() == o.GetName() && was.GetNamespace() == o.GetNamespace() {
			base = was
		}
	}
	if base == nil {
		return o
	}
	b, err := json.Marshal(merge(tree(base), tree(earlier), tree(o)))
	if err != nil {
		return o
	}
	out := k.New()
	if json.Unmarshal(b, out) != nil {
		return o
	}
	return out
}

// tree is the object as JSON knows it.
func tree(o facts.Object) any {
	out, _ := plain(o)
	return out
}

// merge does to one what turned base into two.
func merge(base, one, two any) any {
	if reflect.DeepEqual(base, two) {
		return one
	}
	switch two := two.(type) {
	case map[string]any:
		was, ok := base.(map[string]any)
		is, same := one.(map[string]any)
		if !ok || !same {
			return two
		}
		for key := range was {
			if _, stays := two[key]; !stays {
				delete(is, key)
			}
		}
		for key, v := range two {
			if _, there := is[key]; !there && reflect.DeepEqual(was[key], v) {
				continue // taken away by the other
			}
			is[key] = merge(was[key], is[key], v)
		}
		return is
	case []any:
		was, _ := base.([]any)
		is, _ := one.([]any)
		has := func(list []any, v any) bool {
			return slices.ContainsFunc(list, func(o any) bool { return reflect.DeepEqual(o, v) })
		}
		is = slices.DeleteFunc(slices.Clone(is), func(v any) bool { return has(was, v) && !has(two, v) })
		for _, v := range two {
			if !has(was, v) && !has(is, v) {
				is = append(is, v)
			}
		}
		return is
	}
	return two
}
