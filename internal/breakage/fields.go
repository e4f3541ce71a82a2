package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"strconv"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// path leads to a field: keys of maps, and places in lists as "[0]".
type path []string

func (p path) String() string {
	var b strings.Builder
	for i, s := range p {
		switch {
		case strings.HasPrefix(s, "["):
		case strings.ContainsAny(s, "./"):
			s = `["` + s + `"]`
		case i > 0:
			b.WriteByte('.')
		}
		b.WriteString(s)
	}
	return b.String()
}

func index(s string) (int, bool) {
	inner, ok := strings.CutPrefix(s, "[")
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(strings.TrimSuffix(inner, "]"))
	return n, err == nil
}

// get is what is at the path.
func get(o any, p path) (any, bool) {
	for _, s := range p {
		switch v := o.(type) {
		case map[string]any:
			next, ok := v[s]
			if !ok {
				return nil, false
			}
			o = next
		case []any:
			n, ok := index(s)
			if !ok || n >= len(v) {
				return nil, false
			}
			o = v[n]
		default:
			return nil, false
		}
	}
	return o, true
}

// put replaces what is at the path; del says that nothing is to be there. The parent must exist.
func put(o any, p path, value any, del bool) bool {
	parent, ok := get(o, p[:len(p)-1])
	if !ok {
		return false
	}
	last := p[len(p)-1]
	switch v := parent.(type) {
	case map[string]any:
		if del {
			delete(v, last)
		} else {
			v[last] = value
		}
		return true
	case []any:
		n, ok := index(last)
		if !ok || n >= len(v) {
			return false
		}
		if !del {
			v[n] = value
			return true
		}
		if len(p) == 1 {
			return false
		}
		return put(o, p[:len(p)-1], slices.Delete(slices.Clone(v), n, n+1), false)
	}
	return false
}

// identity are fields that say which object it is, or that the API server writes: changing them breaks no object but
// means another.
var identity = map[string]bool{
	"apiVersion": true, "kind": true, "status": true,
	"metadata.uid": true, "metadata.resourceVersion": true, "metadata.generation": true, "metadata.creationTimestamp": true,
	"metadata.managedFields": true, "metadata.namespace": true, "metadata.generateName": true, "metadata.ownerReferences": true,
	"metadata.finalizers": true, "metadata.name": true,
}

// fieldsOf lists the fields of an object, those that hold others too, in order.
func fieldsOf(o map[string]any) (out []path) {
	var walk func(v any, at path)
	walk = func(v any, at path) {
		if len(at) > 0 {
			if identity[at.String()] {
				return
			}
			if len(at) > 1 || at[0] != "metadata" && at[0] != "spec" {
				out = append(out, slices.Clone(at))
			}
		}
		switch v := v.(type) {
		case map[string]any:
			for _, k := range sortedKeys(v) {
				walk(v[k], append(at, k))
			}
		case []any:
			for i := range v {
				walk(v[i], append(at, fmt.Sprintf("[%d]", i)))
			}
		}
	}
	walk(o, nil)
	return out
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

// Ways to break a field. Which are possible depends on what is in it.
const (
	remove = "remove" // the field is deleted
	typo   = "typo"   // one character of a string is another
	other  = "other"  // another string that is seen in the cluster
	flip   = "flip"   // a bool
	zero   = "zero"   // a number
	more   = "more"   // an amount a thousand times, a number ten times itself
	rename = "rename" // one character of a key is another
	extra  = "add"    // a list gets one more item
)

// ways lists what can be done to a value at a path.
func ways(v any, p path) (out []string) {
	switch v := v.(type) {
	case string:
		out = append(out, remove, typo, other)
		if isAmount(v) {
			out = append(out, zero, more)
		}
	case bool:
		out = append(out, remove, flip)
	case int64, float64:
		out = append(out, remove, zero, more)
	case []any:
		out = append(out, remove)
		if len(v) > 0 {
			out = append(out, extra)
		}
	case map[string]any:
		out = append(out, remove)
	}
	// Keys are data where they are not names of fields: labels, amounts by resource, files of a ConfigMap.
	if n := len(p); n > 1 && strings.ContainsAny(p[n-1], "./-") && !strings.HasPrefix(p[n-1], "[") {
		out = append(out, rename)
	}
	return out
}

// isAmount says whether the string is a number with a unit, as a quantity or a duration is.
func isAmount(s string) bool {
	digits := strings.TrimRight(s, "KMGTPEimkuhs")
	_, err := strconv.ParseFloat(digits, 64)
	return err == nil && s != ""
}

// change is one field of one object, broken.
type change struct {
	path     path
	way      string
	old, new any    // nil where there is nothing
	key      string // rename: the new key
}

// breakField returns the object with one field broken, and what was done. seen are strings of the cluster by the name of the
// field that they are in, sorted. It reports false where the way leads to the same value.
func breakField(o map[string]any, p path, way string, seen map[string][]string, r *rand.Rand) (map[string]any, change, bool) {
	out := clone(o)
	old, ok := get(out, p)
	if !ok {
		return nil, change{}, false
	}
	c := change{path: p, way: way, old: old}
	last := p[len(p)-1]
	switch way {
	case remove:
		ok = put(out, p, nil, true)
	case rename:
		c.key = misspell(last, r)
		c.new = old
		ok = put(out, p, nil, true) && put(out, append(slices.Clone(p[:len(p)-1]), c.key), old, false)
	default:
		c.new, ok = broken(old, last, way, seen, r)
		ok = ok && put(out, p, c.new, false)
	}
	return out, c, ok
}

func broken(old any, field, way string, seen map[string][]string, r *rand.Rand) (any, bool) {
	switch v := old.(type) {
	case string:
		switch way {
		case typo:
			return misspell(v, r), v != ""
		case other:
			return anotherOf(seen[field], v, r)
		case zero, more:
			digits := strings.TrimRight(v, "KMGTPEimkuhs")
			if way == zero {
				return "0" + v[len(digits):], true
			}
			return digits + "000" + v[len(digits):], !strings.Contains(digits, ".")
		}
	case bool:
		return !v, true
	case int64:
		if way == zero {
			return int64(0), v != 0
		}
		return max(v, 1) * 10, true
	case float64:
		if way == zero {
			return 0.0, v != 0
		}
		return v * 1000, true
	case []any:
		return append(slices.Clone(v), addition(v[r.IntN(len(v))], r)), true
	}
	return nil, false
}

// addition is one more item of a list, like one that it has but for one string.
func addition(like any, r *rand.Rand) any {
	switch v := like.(type) {
	case string:
		return misspell(v, r)
	case map[string]any:
		item := clone(v)
		for _, k := range sortedKeys(item) {
			if s, ok := item[k].(string); ok && s != "" {
				item[k] = misspell(s, r)
				break
			}
		}
		return item
	}
	return like
}

func anotherOf(values []string, old string, r *rand.Rand) (string, bool) {
	values = slices.DeleteFunc(slices.Clone(values), func(s string) bool { return s == old || s == "" })
	if len(values) == 0 {
		return "", false
	}
	return values[r.IntN(len(values))], true
}

// misspell changes one letter or digit to the next one: what results is as valid as before in most grammars.
func misspell(s string, r *rand.Rand) string {
	var places []int
	for i := range len(s) {
		c := s[i]
		if c >= 'a' && c < 'z' || c >= '0' && c < '9' || c >= 'A' && c < 'Z' {
			places = append(places, i)
		}
	}
	if len(places) == 0 {
		return s + "x"
	}
	b, i := []byte(s), places[r.IntN(len(places))]
	b[i]++
	return string(b)
}

func clone(o map[string]any) map[string]any {
	b, err := json.Marshal(o)
	if err != nil {
		panic(fmt.Sprintf("an object of the API is no JSON: %v", err))
	}
	return decode(b)
}

func decode(b []byte) map[string]any {
	var out map[string]any
	if err := utiljson.Unmarshal(b, &out); err != nil {
		panic(fmt.Sprintf("no JSON object: %v", err))
	}
	return out
}

// collect gathers the strings of an object by the name of the field that they are in.
func collect(v any, field string, into map[string]map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range sortedKeys(v) {
			collect(v[k], k, into)
		}
	case []any:
		for i := range v {
			collect(v[i], fmt.Sprintf("[%d]", i), into)
		}
	case string:
		if into[field] == nil {
			into[field] = map[string]bool{}
		}
		into[field][v] = true
	}
}
