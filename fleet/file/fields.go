package file

import (
	"reflect"
	"slices"
	"strings"
)

// jsonFields maps the JSON names of a struct's fields to their indexes.
func jsonFields(t reflect.Type) map[string]int {
	fields := make(map[string]int, t.NumField())
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		fields[name] = i
	}
	return fields
}

// nearField says what may have been meant by a name that is no field of t: the same name
// further down, a near name, or one of all there are.
func nearField(name string, t reflect.Type) string {
	names := writable(t)
	for _, parent := range names {
		if slices.Contains(writable(fieldType(t, parent)), name) {
			return "; it belongs under " + parent
		}
	}
	if near := suggest(name, names); near != "" {
		return near
	}
	return "; known here: " + strings.Join(names, ", ")
}

// writable lists the fields of a struct that a user may write, sorted. Other types have none.
func writable(t reflect.Type) []string {
	if t.Kind() != reflect.Struct {
		return nil
	}
	var names []string
	for name, index := range jsonFields(t) {
		if t.Field(index).Type != reflect.TypeFor[ignored]() {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// fieldType is the type of the field, or of its elements where it is a list.
func fieldType(t reflect.Type, name string) reflect.Type {
	f := t.Field(jsonFields(t)[name]).Type
	if f.Kind() == reflect.Slice {
		return f.Elem()
	}
	return f
}
