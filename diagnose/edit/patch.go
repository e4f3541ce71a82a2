package edit

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/diagnose/facts"
)

// Patch returns a copy of the object with the operations done below the path. The same operations are tried on a template
// and on the pods made from it, which need not have the same fields: objects and lists on the way to a value are made
// where they are missing, and replacing what is not there adds it. Everything else is as RFC 6902 has it.
func Patch(o facts.Object, prefix string, ops []Op) (facts.Object, error) {
	doc, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	for _, op := range ops {
		op.Path = prefix + op.Path
		if doc, err = apply(doc, op); err != nil {
			return nil, err
		}
	}
	n := facts.KindOfObject(o).New()
	return n, json.Unmarshal(doc, n)
}

// PatchTree returns a copy of an object as JSON has it with the operations done, as Patch does them.
func PatchTree(object map[string]any, ops []Op) (map[string]any, error) {
	doc, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	for _, op := range ops {
		if doc, err = apply(doc, op); err != nil {
			return nil, err
		}
	}
	var u unstructured.Unstructured // whole numbers stay whole
	if err := u.UnmarshalJSON(doc); err != nil {
		return nil, err
	}
	return u.Object, nil
}

// WithValues returns a copy of the foreign object with the values put in place, by JSON pointer; nil takes one away.
// What cannot be put in place is left out.
func WithValues(u *unstructured.Unstructured, values map[string]any) *unstructured.Unstructured {
	doc, err := u.MarshalJSON()
	if err != nil {
		return u.DeepCopy()
	}
	for _, path := range slices.Sorted(maps.Keys(values)) {
		op := Op{Op: "replace", Path: path, Value: values[path]}
		if op.Value == nil {
			op.Op = "remove"
		}
		if next, err := apply(doc, op); err == nil {
			doc = next
		}
	}
	out := &unstructured.Unstructured{}
	if out.UnmarshalJSON(doc) != nil {
		return u.DeepCopy()
	}
	return out
}

// apply does one operation, and makes what is missing on the way to its value.
func apply(doc []byte, op Op) ([]byte, error) {
	doc, _, err := applyWhole(doc, op)
	return doc, err
}

// applyWhole is apply, and returns the operations that did it, of which none needs anything that is not there.
func applyWhole(doc []byte, op Op) ([]byte, []Op, error) {
	ops := []Op{op}
	if op.Op != "remove" {
		var tree any
		if err := json.Unmarshal(doc, &tree); err != nil {
			return nil, nil, err
		}
		parents, exists := missingParents(tree, op.Path)
		if !exists {
			op.Op = "add"
		}
		ops = append(parents, op)
	}
	b, err := json.Marshal(ops)
	if err != nil {
		return nil, nil, err
	}
	patch, err := jsonpatch.DecodePatch(b)
	if err != nil {
		return nil, nil, err
	}
	if doc, err = patch.Apply(doc); err != nil {
		return nil, nil, fmt.Errorf("%s %s: %w", op.Op, op.Path, err)
	}
	return doc, ops, nil
}

// whole are the operations for a program that makes nothing on the way to a value, as the API server and kubectl do not: a template need not
// have what admission gave its pods. Those that cannot be done to the object stay as they are.
func whole(o facts.Object, ops []Op) []Op {
	doc, err := json.Marshal(o)
	if err != nil {
		return ops
	}
	var out []Op
	for _, op := range ops {
		next, did, err := applyWhole(doc, op)
		if err != nil {
			return ops
		}
		doc, out = next, append(out, did...)
	}
	return out
}

// missingParents returns operations that make the objects and lists on the way to the path which the tree lacks, and
// whether there is something at the path itself.
func missingParents(tree any, path string) (ops []Op, exists bool) {
	keys := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i, key := range keys {
		var below any
		switch at := tree.(type) {
		case map[string]any:
			below = at[strings.ReplaceAll(strings.ReplaceAll(key, "~1", "/"), "~0", "~")]
		case []any:
			n, err := strconv.Atoi(key)
			if err != nil || n < 0 || n >= len(at) {
				return ops, true // items are not made: the operation says itself what is wrong with the index
			}
			below = at[n]
		}
		if i == len(keys)-1 {
			return ops, below != nil
		}
		if below == nil {
			below = map[string]any{}
			if keys[i+1] == "-" {
				below = []any{}
			}
			ops = append(ops, Op{Op: "add", Path: "/" + strings.Join(keys[:i+1], "/"), Value: below})
		}
		tree = below
	}
	return ops, false
}

// plain is the value as JSON knows it.
func plain(v any) (out any, err error) {
	b, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(b, &out)
	}
	return out, err
}
