package diagnose

import (
	"encoding/json"
	"reflect"
	"slices"
)

// merged is the object with what earlier changes do to it, so that two edits of one object, each made without regard
// to the other, both hold: one uncordons a node, and another brings its GPUs back.
func (f *Facts) merged(o Object, before []change) Object {
	var earlier Object
	for _, c := range before {
		if c.now != nil && sameType(c.now, o) && c.now.GetName() == o.GetName() && c.now.GetNamespace() == o.GetNamespace() {
			earlier = c.now
		}
	}
	k := kindOf(o)
	if earlier == nil || k == nil {
		return o
	}
	var base Object
	for _, was := range k.list(&f.Objects) {
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
	out := k.made()
	if json.Unmarshal(b, out) != nil {
		return o
	}
	return out
}

// tree is the object as JSON knows it.
func tree(o Object) any {
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
