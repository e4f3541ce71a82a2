package dialect

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// MaxUnread is how many fields or keys without effect are named of one object.
const MaxUnread = 16

// Take reads a JSON tree into the struct that into points to, and returns the paths, below at, of what it could not take:
// fields that the struct does not have, at any depth, and every value of another type, which is as if it were not there. So a dialect understands a field by having
// it in its struct, and a field that a later version of the project adds is told of without a list.
func Take(tree any, at string, into any) (unread []string) {
	return few(append(wrong(tree, at, into), beyond(tree, at, reflect.TypeOf(into).Elem())...))
}

// TakeKnown is Take of a struct that has few of the fields that are understood: those that it does not have are not told of.
func TakeKnown(tree any, at string, into any) (unread []string) { return few(wrong(tree, at, into)) }

// wrong reads the tree into the struct, and returns the paths of the values of another type.
func wrong(tree any, at string, into any) (unread []string) {
	had := reflect.New(reflect.TypeOf(into).Elem()).Elem()
	had.Set(reflect.ValueOf(into).Elem())
	text, err := json.Marshal(tree)
	if err == nil && json.Unmarshal(text, into) == nil {
		return nil
	}
	reflect.ValueOf(into).Elem().Set(had) // of the first reading something may be there
	fits, unread := fitting(tree, at, had.Type())
	if text, err = json.Marshal(fits); err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		unread = append(unread, at+" (cannot be read)")
	}
	return unread
}

// fitting is the tree without the values that the type cannot take, and the paths of these: each is as if it were not there, and none
// keeps others from being read. In lists it is null, so that the others keep their places.
func fitting(tree any, at string, t reflect.Type) (fits any, wrong []string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch v := tree.(type) {
	case nil:
		return nil, nil
	case map[string]any:
		if takesItself(t) || t.Kind() != reflect.Struct && t.Kind() != reflect.Map {
			break
		}
		out := make(map[string]any, len(v))
		var fields map[string]reflect.Type
		if t.Kind() == reflect.Struct {
			fields = fieldsOf(t)
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			of, ok := t, true
			if fields == nil {
				of = t.Elem()
			} else if of, ok = fieldNamed(fields, key); !ok {
				continue
			}
			value, not := fitting(v[key], join(at, key), of)
			if wrong = append(wrong, not...); value != nil {
				out[key] = value
			}
		}
		return out, wrong
	case []any:
		if takesItself(t) || t.Kind() != reflect.Slice {
			break
		}
		out := make([]any, len(v))
		for i, item := range v {
			value, not := fitting(item, at+"["+strconv.Itoa(i)+"]", t.Elem())
			out[i] = value
			if len(wrong) <= MaxUnread { // more are not named
				wrong = append(wrong, not...)
			}
		}
		return out, wrong
	}
	if text, err := json.Marshal(tree); err != nil || json.Unmarshal(text, reflect.New(t).Interface()) != nil {
		return nil, []string{at + " (want " + inWords(t) + ")"}
	}
	return tree, nil
}

// inWords is what somebody has to write for a value of the type.
func inWords(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[resource.Quantity]():
		return "an amount"
	case reflect.TypeFor[metav1.Duration]():
		return "a duration"
	case reflect.TypeFor[metav1.Time]():
		return "a time"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int32, reflect.Int64:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.String:
		return "text"
	case reflect.Slice:
		return "a list"
	}
	return "an object"
}

// beyond are the paths of the tree that the type has no field for.
func beyond(tree any, at string, t reflect.Type) (out []string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch v := tree.(type) {
	case map[string]any:
		if t.Kind() == reflect.Map {
			for _, key := range slices.Sorted(maps.Keys(v)) {
				out = append(out, beyond(v[key], join(at, key), t.Elem())...)
			}
			return out
		}
		if t.Kind() != reflect.Struct || takesItself(t) {
			return nil
		}
		fields := fieldsOf(t)
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if f, ok := fieldNamed(fields, key); ok {
				out = append(out, beyond(v[key], join(at, key), f)...)
			} else if !empty(v[key]) {
				out = append(out, join(at, key))
			}
		}
	case []any:
		if t.Kind() != reflect.Slice {
			return nil
		}
		for i, item := range v {
			if len(out) > MaxUnread {
				break
			}
			out = append(out, beyond(item, at+"["+strconv.Itoa(i)+"]", t.Elem())...)
		}
	}
	return out
}

// takesItself says whether the type has a JSON form of its own, as quantities and times have.
func takesItself(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]())
}

func fieldsOf(t reflect.Type) map[string]reflect.Type {
	out := make(map[string]reflect.Type, t.NumField())
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			maps.Copy(out, fieldsOf(f.Type))
		case name != "" && name != "-":
			out[name] = f.Type
		}
	}
	return out
}

// fieldNamed is the field that the key is decoded into: case does not count, as in encoding/json.
func fieldNamed(fields map[string]reflect.Type, key string) (reflect.Type, bool) {
	if f, ok := fields[key]; ok {
		return f, true
	}
	for name, f := range fields { //archtest:any-order no two fields of a struct differ in case alone
		if strings.EqualFold(name, key) {
			return f, true
		}
	}
	return nil, false
}

// Strays are what the object says outside of spec and status and nobody reads: labels and annotations in the domains, and fields at its
// top. own are the keys and fields there that are read, or that the project writes itself.
func Strays(o *unstructured.Unstructured, domains []string, own ...string) []string {
	var out []string
	for _, field := range slices.Sorted(maps.Keys(o.Object)) {
		switch field {
		case "apiVersion", "kind", "metadata", "spec", "status":
		default:
			if !slices.Contains(own, field) && !empty(o.Object[field]) {
				out = append(out, field)
			}
		}
	}
	return few(append(out, StrayKeys(o, domains, own...)...))
}

// StrayKeys are the object's labels and annotations in the domains that nobody reads; own are those that somebody does.
func StrayKeys(o metav1.Object, domains []string, own ...string) []string {
	return KeysThat(o, func(key string) bool { return Within(key, domains) && !slices.Contains(own, key) })
}

// KeysThat are the object's labels and annotations of which the function holds, told as keys of its metadata.
func KeysThat(o metav1.Object, holds func(key string) bool) (out []string) {
	for _, keys := range []map[string]string{o.GetLabels(), o.GetAnnotations()} {
		for key := range keys { //archtest:any-order the keys are sorted below
			if holds(key) {
				out = append(out, "metadata: "+key)
			}
		}
	}
	return few(out)
}

// KeepKeys drops the labels and annotations outside of the domains, which Strays does not look at.
func KeepKeys(o *unstructured.Unstructured, domains []string) {
	within := func(keys map[string]string) map[string]string {
		maps.DeleteFunc(keys, func(key, _ string) bool { return !Within(key, domains) })
		if len(keys) == 0 {
			return nil
		}
		return keys
	}
	o.SetLabels(within(o.GetLabels()))
	o.SetAnnotations(within(o.GetAnnotations()))
}

// empty says whether a value says nothing, as clients write it that leave no field out.
func empty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return false
}

func join(at, key string) string {
	if at == "" || key == "" {
		return at + key
	}
	return at + "." + key
}

// few is the list, sorted and each once, or its beginning and how many more there are.
func few(list []string) []string {
	slices.Sort(list)
	if list = slices.Compact(list); len(list) > MaxUnread {
		list = append(list[:MaxUnread:MaxUnread], strconv.Itoa(len(list)-MaxUnread)+" more")
	}
	return list
}
