package file

import (
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func (d *decoder) text(n *yaml.Node, v reflect.Value, path *field.Path) {
	switch n.ShortTag() {
	case "!!str", "!!timestamp":
		v.SetString(n.Value)
	case "!!int", "!!float", "!!bool":
		d.failAt(path.String(), fmt.Sprintf("must be text; put it in quotes: %q", n.Value))
	default:
		d.failAt(path.String(), "must be text, not "+nodeName(n)+oneWay(path.String()))
	}
}

func (d *decoder) integer(n *yaml.Node, v reflect.Value, path *field.Path) {
	if n.ShortTag() != "!!int" {
		hint := ""
		if _, err := strconv.Atoi(n.Value); err == nil && n.Kind == yaml.ScalarNode {
			hint = "; remove the quotes"
		}
		d.failAt(path.String(), "must be a whole number, not "+nodeName(n)+hint)
		return
	}
	var i int32
	if err := n.Decode(&i); err != nil {
		d.failAt(path.String(), fmt.Sprintf("is out of range (%s)", n.Value))
		return
	}
	v.SetInt(int64(i))
}

func (d *decoder) boolean(n *yaml.Node, v reflect.Value, path *field.Path) {
	var b bool
	if n.ShortTag() != "!!bool" || n.Decode(&b) != nil {
		d.failAt(path.String(), "must be true or false, not "+nodeName(n))
		return
	}
	v.SetBool(b)
}

// amount is what resource.ParseQuantity reads, with a bound on digits and exponents: it
// works 1e999999999 out in full.
var amount = regexp.MustCompile(`^[+-]?([0-9]{1,24}(\.[0-9]{0,24})?|\.[0-9]{1,24})([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?$`)

func (d *decoder) quantity(n *yaml.Node, q *resource.Quantity, path *field.Path) {
	if n.Kind == yaml.ScalarNode && amount.MatchString(n.Value) {
		if parsed, err := resource.ParseQuantity(n.Value); err == nil {
			*q = parsed
			return
		}
	}
	d.failAt(path.String(), "must be an amount such as 16, 500m or 64Gi, not "+nodeName(n))
}

func (d *decoder) duration(n *yaml.Node, into *metav1.Duration, path *field.Path) {
	if n.ShortTag() == "!!int" {
		d.failAt(path.String(), fmt.Sprintf("needs a unit: %ss, %sm or %sh", n.Value, n.Value, n.Value))
		return
	}
	parsed, err := time.ParseDuration(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil {
		d.failAt(path.String(), "must be a duration such as 90s, 2m or 1h30m, not "+nodeName(n))
		return
	}
	into.Duration = parsed
}

// nodeName says what a node is, for "must be X, not ...".
func nodeName(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "an object"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	if n.ShortTag() == "!!null" {
		return "nothing"
	}
	return strconv.Quote(n.Value)
}
