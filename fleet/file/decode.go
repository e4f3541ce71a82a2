package file

import (
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ignored is a field that may be present with any value.
type ignored struct{}

// lines says on which line each field stands, by path: "spec.gpus[0].count". A field that is
// there has all its parents there.
type lines map[string]int

// nearest is the field itself if it is in the file, else the nearest one around it; empty is
// the whole object.
func (l lines) nearest(path string) string {
	for path != "" {
		if _, ok := l[path]; ok {
			return path
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
	return ""
}

// of is the line to show for the field.
func (l lines) of(path string) int { return l[l.nearest(path)] }

// decoder fills Go values from YAML nodes. Unlike encoding/json behind a YAML converter it
// keeps the lines, goes on after a mistake, and matches names exactly. It knows the types
// that Pool is made of and no others.
type decoder struct {
	parser *parser
	prefix string // of the object in its file: "items[2]." in a list
	start  int    // how many errors the parser had before
	lines  lines
	wrong  map[string]bool // paths that hold a mistake
	typos  map[string]bool // paths of structs in which a field has a name we do not know
}

func newDecoder(p *parser, prefix string) *decoder {
	return &decoder{
		parser: p, prefix: prefix, start: len(p.errs),
		lines: lines{}, wrong: map[string]bool{}, typos: map[string]bool{},
	}
}

// failAt reports a mistake in a field, on the line where it stands or should stand.
func (d *decoder) failAt(path, message string) {
	d.wrong[path] = true
	d.parser.fail(d.lines.of(path), d.prefix+path, message)
}

// decode fills *into, a pointer to a struct, from a whole object. It is false for a node that
// is no object at all.
func (d *decoder) decode(n *yaml.Node, into any) bool {
	d.lines[""] = n.Line
	if n.Kind != yaml.MappingNode {
		d.parser.fail(n.Line, strings.TrimSuffix(d.prefix, "."), "must be an object with fields, not "+nodeName(n))
		return false
	}
	d.kind(n, reflect.ValueOf(into).Elem(), nil)
	return true
}

// value fills v from the node at path. Its line is known already.
func (d *decoder) value(n *yaml.Node, v reflect.Value, path *field.Path) {
	switch into := v.Addr().Interface().(type) {
	case *ignored:
		return
	case *yaml.Node:
		*into = *n
		return
	}
	if n.Kind == yaml.AliasNode {
		d.failAt(path.String(), "anchors and aliases are not read here; write the value out")
		return
	}
	if n.ShortTag() == "!!null" {
		d.failAt(path.String(), "is empty; give it a value or remove the line")
		return
	}
	switch into := v.Addr().Interface().(type) {
	case *resource.Quantity:
		d.quantity(n, into, path)
		return
	case *metav1.Duration:
		d.duration(n, into, path)
		return
	}
	d.kind(n, v, path)
}

func (d *decoder) kind(n *yaml.Node, v reflect.Value, path *field.Path) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.value(n, v.Elem(), path)
	case reflect.Struct:
		d.structure(n, v, path)
	case reflect.Map:
		d.texts(n, v, path)
	case reflect.Slice:
		d.sequence(n, v, path)
	case reflect.String:
		d.text(n, v, path)
	case reflect.Int32:
		d.integer(n, v, path)
	case reflect.Bool:
		d.boolean(n, v, path)
	default:
		panic(fmt.Sprintf("fleet/file cannot decode %s at %s", v.Type(), path))
	}
}

func (d *decoder) structure(n *yaml.Node, v reflect.Value, path *field.Path) {
	fields := jsonFields(v.Type())
	for key, value := range d.pairs(n, path, func(name string) *field.Path { return path.Child(name) }) {
		index, known := fields[key.Value]
		at := path.Child(key.Value)
		if !known {
			d.typos[pathText(path)] = true
			d.failAt(at.String(), "unknown field"+nearField(key.Value, v.Type()))
			continue
		}
		d.value(value, v.Field(index), at)
	}
}

// texts reads a map by text.
func (d *decoder) texts(n *yaml.Node, v reflect.Value, path *field.Path) {
	for key, value := range d.pairs(n, path, path.Key) {
		text := reflect.New(v.Type().Elem()).Elem()
		d.value(value, text, path.Key(key.Value))
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
		}
		v.SetMapIndex(reflect.ValueOf(key.Value), text)
	}
}

func (d *decoder) sequence(n *yaml.Node, v reflect.Value, path *field.Path) {
	if n.Kind != yaml.SequenceNode {
		d.failAt(path.String(), "must be a list, not "+nodeName(n)+"; start each entry with a dash")
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	for i, item := range n.Content {
		at := path.Index(i)
		d.lines[at.String()] = item.Line
		d.value(item, v.Index(i), at)
	}
}

// pairs goes through the fields of a mapping, notes their lines, and reports a field that is
// given twice, which YAML forbids and most readers let pass.
func (d *decoder) pairs(n *yaml.Node, path *field.Path, child func(string) *field.Path) func(func(key, value *yaml.Node) bool) {
	return func(yield func(key, value *yaml.Node) bool) {
		if n.Kind != yaml.MappingNode {
			d.failAt(path.String(), "must be an object with fields, not "+nodeName(n))
			return
		}
		seen := map[string]int{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			if key.Kind != yaml.ScalarNode {
				d.parser.fail(key.Line, d.prefix+pathText(path), "the name of a field must be text, not "+nodeName(key))
				continue
			}
			at := child(key.Value).String()
			if first, twice := seen[key.Value]; twice {
				d.wrong[at] = true
				d.parser.fail(key.Line, d.prefix+at, fmt.Sprintf("given twice; the first is on line %d", first))
				continue
			}
			seen[key.Value], d.lines[at] = key.Line, key.Line
			if !yield(key, n.Content[i+1]) {
				return
			}
		}
	}
}

// pathText is a path as text; nil is the whole object.
func pathText(path *field.Path) string {
	if path == nil {
		return ""
	}
	return path.String()
}
