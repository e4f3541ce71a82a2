package file

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// Format writes valid pools as a fleet file that Parse reads back to equal pools, but for
// defaults. What only the API server writes is left out.
func Format(pools []v1alpha1.Pool) []byte {
	var out bytes.Buffer
	documents := yaml.NewEncoder(&out)
	documents.SetIndent(2)
	for i := range pools {
		if err := documents.Encode(node(plainPool(&pools[i]))); err != nil {
			panic(fmt.Sprintf("format pool %s: %v", pools[i].Name, err)) // memory takes all plain data
		}
	}
	return out.Bytes()
}

// node is plain data as YAML, in the order of its keys.
func node(value any) *yaml.Node {
	switch v := value.(type) {
	case map[string]any:
		n := &yaml.Node{Kind: yaml.MappingNode}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			n.Content = append(n.Content, node(key), node(v[key]))
		}
		return n
	case []any:
		n := &yaml.Node{Kind: yaml.SequenceNode}
		for _, item := range v {
			n.Content = append(n.Content, node(item))
		}
		return n
	}
	return scalar(value)
}

// scalar leaves it to the encoder which words need quotes, such as "on" and "13.0", but not
// text of several lines: it writes that as a block, which its own decoder refuses where it
// begins with a tab. Nor "<<", which it writes plainly and which then merges.
func scalar(value any) *yaml.Node {
	if s, ok := value.(string); ok && (oneLine(s) != s || s == "<<") {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.DoubleQuotedStyle, Value: s}
	}
	n := &yaml.Node{}
	if err := n.Encode(value); err != nil {
		panic(fmt.Sprintf("format %v: %v", value, err)) // numbers, booleans and single lines
	}
	return n
}

// plainPool is what a user would write of a pool, as maps, slices and scalars.
func plainPool(p *v1alpha1.Pool) map[string]any {
	plain, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&v1alpha1.Pool{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Pool"},
		ObjectMeta: metav1.ObjectMeta{Name: p.Name, Labels: p.Labels, Annotations: p.Annotations},
		Spec:       p.Spec,
	})
	if err != nil {
		panic(fmt.Sprintf("pool %s as plain data: %v", p.Name, err)) // every field marshals
	}
	return plain
}
