package submit

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/diagnose/edit"
)

// slim is the operation as changes of single fields of the object as it is written: a diagnosis edits pods that have the
// API's defaults in them, and a file should not get these.
func slim(object map[string]any, op edit.Op) []edit.Op {
	value, err := plain(op.Value)
	is, there := at(object, op.Path)
	if err != nil || op.Op == "remove" {
		return []edit.Op{op}
	}
	to, ok := value.(map[string]any)
	from, was := is.(map[string]any)
	if !ok || !there || !was {
		return []edit.Op{op}
	}
	var out []edit.Op
	for _, key := range slices.Sorted(maps.Keys(to)) {
		path := op.Path + edit.Pointer(key)
		switch old, had := from[key]; {
		case had && same(old, to[key]):
		case key == "requests" && !had && reflect.DeepEqual(to[key], to["limits"]): // the API server takes these from the limits
		case had:
			out = append(out, slim(object, edit.Op{Op: "replace", Path: path, Value: to[key]})...)
		default:
			out = append(out, edit.Op{Op: "add", Path: path, Value: to[key]})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(from)) {
		if _, stays := to[key]; !stays {
			out = append(out, edit.Op{Op: "remove", Path: op.Path + edit.Pointer(key)})
		}
	}
	if len(out) == 0 {
		return []edit.Op{op}
	}
	return out
}

// same compares values as manifests have them: 8 and "8" are one quantity.
func same(a, b any) bool {
	if reflect.DeepEqual(a, b) {
		return true
	}
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && strings.Trim(string(x), `"`) == strings.Trim(string(y), `"`)
}

// plain is the value as JSON has it.
func plain(v any) (out any, err error) {
	b, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(b, &out)
	}
	return out, err
}

// at is the value at the JSON pointer.
func at(tree any, pointer string) (any, bool) {
	if pointer == "" {
		return tree, true
	}
	for key := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		key = strings.ReplaceAll(strings.ReplaceAll(key, "~1", "/"), "~0", "~")
		switch v := tree.(type) {
		case map[string]any:
			next, ok := v[key]
			if !ok {
				return nil, false
			}
			tree = next
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(v) {
				return nil, false
			}
			tree = v[i]
		default:
			return nil, false
		}
	}
	return tree, true
}
