package history

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

// Change is a field that had another value. nil: the field was, or is, not there.
type Change struct {
	Path     []string // from the object down; "-" is the end of a list
	Was, Now any
}

// Back is the operation that gives the field its earlier value.
func (c *Change) Back() edit.Op {
	switch {
	case c.Was == nil:
		return edit.Op{Op: "remove", Path: edit.Pointer(c.Path...)}
	case c.Now == nil:
		return edit.Op{Op: "add", Path: edit.Pointer(c.Path...), Value: c.Was}
	}
	return edit.Op{Op: "replace", Path: edit.Pointer(c.Path...), Value: c.Was}
}

// Field is the field as people write it: spec.template.spec.containers[0].image.
func (c *Change) Field() string {
	var b strings.Builder
	for _, key := range c.Path {
		_, err := strconv.Atoi(key)
		switch {
		case key == "-":
		case err == nil:
			fmt.Fprintf(&b, "[%s]", key)
		case strings.ContainsAny(key, "./"):
			fmt.Fprintf(&b, "[%q]", key)
		default:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(key)
		}
	}
	return b.String()
}

// Hidden says whether the values are nobody's to print: those of environment variables may be secrets. Where a variable's value is
// from is no secret.
func (c *Change) Hidden() bool {
	if slices.Contains(c.Path, "valueFrom") {
		return false
	}
	return slices.ContainsFunc(c.Path, func(key string) bool { return key == "env" || key == "data" || key == "stringData" })
}

// Words are the field's values as a person reads them.
func (c *Change) Words() (was, now string) {
	if c.Hidden() {
		return "another value", "its value"
	}
	return words(c.Was), words(c.Now)
}

func words(v any) string {
	switch v := v.(type) {
	case nil:
		return "nothing"
	case string:
		return wording.Shortened(v, 80)
	}
	b, err := json.Marshal(v)
	if err != nil {
		return "?"
	}
	return wording.Shortened(string(b), 80)
}

// differences are the fields in which two complete objects differ.
func differences(was, now any, at []string) []Change {
	if reflect.DeepEqual(was, now) {
		return nil
	}
	a, mapA := was.(map[string]any)
	b, mapB := now.(map[string]any)
	if mapA && mapB {
		var out []Change
		keys := maps.Clone(a)
		maps.Copy(keys, b)
		for _, key := range sortedKeys(keys) {
			out = append(out, differences(a[key], b[key], below(at, key))...)
		}
		return out
	}
	x, listA := was.([]any)
	y, listB := now.([]any)
	if listA && listB {
		return listDifferences(x, y, at, differences)
	}
	return []Change{{at, was, now}}
}

// missing are the fields of was that have another value now. Others are not looked at.
func missing(was, now any, at []string) []Change {
	if was == nil || equal(was, now) {
		return nil
	}
	a, mapA := was.(map[string]any)
	b, mapB := now.(map[string]any)
	if mapA && mapB {
		var out []Change
		for _, key := range sortedKeys(a) {
			out = append(out, missing(a[key], b[key], below(at, key))...)
		}
		return out
	}
	if mapA && len(a) == 0 && now == nil {
		return nil
	}
	x, listA := was.([]any)
	y, listB := now.([]any)
	if listA && listB {
		return listDifferences(x, y, at, missing)
	}
	return []Change{{at, was, now}}
}

// listDifferences compares items that have the same name; where items have none, those in the same place of lists that are as
// long; else by which are there.
func listDifferences(was, now []any, at []string, compare func(was, now any, at []string) []Change) []Change {
	var out []Change
	if names(was) != nil && names(now) != nil {
		here := names(now)
		for i, name := range names(was) {
			j := slices.Index(here, name)
			if j < 0 {
				out = append(out, Change{below(at, "-"), was[i], nil})
				continue
			}
			out = append(out, compare(was[i], now[j], below(at, strconv.Itoa(j)))...)
		}
		return append(out, surplus(names(was), here, now, at)...)
	}
	if scalars(was) && scalars(now) { // a command line means nothing word by word
		return []Change{{at, was, now}}
	}
	if len(was) == len(now) {
		for i := range was {
			out = append(out, compare(was[i], now[i], below(at, strconv.Itoa(i)))...)
		}
		return out
	}
	has := func(list []any, v any) bool {
		return slices.ContainsFunc(list, func(o any) bool { return equal(o, v) })
	}
	for _, v := range was {
		if !has(now, v) {
			out = append(out, Change{below(at, "-"), v, nil})
		}
	}
	for j := len(now) - 1; j >= 0; j-- { // from the end, so that places stay right as items go
		if !has(was, now[j]) {
			out = append(out, Change{below(at, strconv.Itoa(j)), nil, now[j]})
		}
	}
	return out
}

// scalars says whether no item has fields.
func scalars(list []any) bool {
	return !slices.ContainsFunc(list, func(v any) bool {
		switch v.(type) {
		case map[string]any, []any:
			return true
		}
		return false
	})
}

// surplus are the named items that were not there before, from the end.
func surplus(was, here []string, now []any, at []string) (out []Change) {
	for j := len(here) - 1; j >= 0; j-- {
		if !slices.Contains(was, here[j]) {
			out = append(out, Change{below(at, strconv.Itoa(j)), nil, now[j]})
		}
	}
	return out
}

// names are those of the items, nil where not all have one of their own.
func names(list []any) []string {
	out := []string{}
	for _, v := range list {
		m, _ := v.(map[string]any)
		name, ok := m["name"].(string)
		if !ok || slices.Contains(out, name) {
			return nil
		}
		out = append(out, name)
	}
	return out
}

// equal says whether two values mean the same: amounts may be spelled in two ways.
func equal(a, b any) bool {
	if reflect.DeepEqual(a, b) {
		return true
	}
	x, okX := amount(a)
	y, okY := amount(b)
	return okX && okY && x.Cmp(y) == 0
}

func amount(v any) (resource.Quantity, bool) {
	switch v := v.(type) {
	case string:
		q, err := resource.ParseQuantity(v)
		return q, err == nil
	case float64:
		q, err := resource.ParseQuantity(strconv.FormatFloat(v, 'f', -1, 64))
		return q, err == nil
	}
	return resource.Quantity{}, false
}

func below(at []string, key string) []string { return append(slices.Clone(at), key) }

func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }
