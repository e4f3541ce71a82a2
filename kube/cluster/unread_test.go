package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/berth-dev/berth/kube/dialect"
	"github.com/berth-dev/berth/kube/dialect/all"
)

// free are the fields whose keys are names of resources, tasks or labels: what is added there is one more.
var free = []string{"capability", "deserved", "resource", "minResources", "minTaskMember", "nodeLabels", "matchLabels", "min", "max"}

const odd = "berthOdd"

// TestNothingIsPassedOver adds something that nobody knows to every manifest, in every place in turn: a field to each object within a
// spec, a label and an annotation in the dialect's domain to each object, controller, template and pod. Each has to be told.
func TestNothingIsPassedOver(t *testing.T) {
	for _, d := range all.Dialects() {
		files, err := filepath.Glob(filepath.Join("testdata", "manifests", d.Name(), "*.txtar"))
		if err != nil || len(files) == 0 {
			t.Fatal(err)
		}
		tried := 0
		for _, file := range files {
			docs := documents(t, file)
			for i := range docs {
				if slices.ContainsFunc(docs[i+1:], sameAs(docs[i])) { // it is applied again
					continue
				}
				for _, where := range places(docs[i], d.Domains()[0], slices.ContainsFunc(d.Kinds(), of(docs[i]))) {
					tried++
					if got := after(t, d.Name(), docs, i, where); !strings.Contains(got, odd) && !where.toldWhole(got) {
						t.Errorf("%s: %s %s with %s says nothing of it:\n%s", file, docs[i].GetKind(), docs[i].GetName(), where.name, got)
					}
				}
			}
		}
		if tried < 100 {
			t.Errorf("%s: %d places were tried", d.Name(), tried)
		}
	}
}

// documents are the objects of a file's manifests.
func documents(t *testing.T, file string) (out []*unstructured.Unstructured) {
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range a.Files {
		if !strings.HasSuffix(f.Name, ".yaml") {
			continue
		}
		d := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(f.Data), 4096)
		for {
			u := &unstructured.Unstructured{}
			if err := d.Decode(&u.Object); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			out = append(out, u)
		}
	}
	return out
}

func sameAs(o *unstructured.Unstructured) func(*unstructured.Unstructured) bool {
	return func(other *unstructured.Unstructured) bool {
		return other.GetKind() == o.GetKind() && other.GetName() == o.GetName()
	}
}

// place is where something is added.
type place struct {
	name string
	path []any // below spec
	add  func(*unstructured.Unstructured)
}

// toldWhole says whether a field that the place is in is told as a whole.
func (p *place) toldWhole(got string) bool {
	field := "spec"
	for _, step := range p.path {
		if name, ok := step.(string); ok {
			field += "." + name
			if strings.Contains(got, field+";") || strings.Contains(got, field+"\n") {
				return true
			}
		}
	}
	return false
}

func of(o *unstructured.Unstructured) func(dialect.Kind) bool {
	return func(k dialect.Kind) bool { return k.Kind == o.GetKind() && k.Group == o.GroupVersionKind().Group }
}

// places are those of the object.
func places(o *unstructured.Unstructured, domain string, foreign bool) (out []place) {
	add := func(name string, path ...string) {
		out = append(out, place{name, nil, func(o *unstructured.Unstructured) {
			if err := unstructured.SetNestedField(o.Object, "x", append(slices.Clone(path), name)...); err != nil {
				panic(err)
			}
		}})
	}
	key := domain + "/" + odd
	switch {
	case foreign && o.GetKind() == "Workload": // Berth writes its spec
	case foreign:
		add(key, "metadata", "annotations")
		add(key, "metadata", "labels")
		if o.Object["spec"] != nil {
			out = append(out, fields(o.Object["spec"], nil)...)
		}
	case o.GetKind() == "Pod":
		add(key, "metadata", "annotations")
		add(key, "metadata", "labels")
	case slices.Contains([]string{"Job", "Deployment", "StatefulSet", "ReplicaSet"}, o.GetKind()):
		add(key, "metadata", "annotations")
		add(key, "metadata", "labels")
		add(key, "spec", "template", "metadata", "annotations")
		add(key, "spec", "template", "metadata", "labels")
	}
	return out
}

// fields has a field added to every object in the tree at the path below spec; numbers are of lists.
func fields(tree any, path []any) (out []place) {
	switch v := tree.(type) {
	case map[string]any:
		out = append(out, place{fmt.Sprint("spec", path), path, func(o *unstructured.Unstructured) { at(o.Object["spec"], path).(map[string]any)[odd] = "x" }})
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if !slices.Contains(free, name) {
				out = append(out, fields(v[name], append(slices.Clone(path), name))...)
			}
		}
	case []any:
		for i := range v {
			out = append(out, fields(v[i], append(slices.Clone(path), i))...)
		}
	}
	return out
}

func at(tree any, path []any) any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			tree = tree.(map[string]any)[step]
		case int:
			tree = tree.([]any)[step]
		}
	}
	return tree
}

// after is what is said of the manifests with the addition.
func after(t *testing.T, name string, docs []*unstructured.Unstructured, i int, where place) string {
	s := newStage(t, name)
	s.nodes(2, 8)
	for j, o := range docs {
		o = o.DeepCopy()
		if j == i {
			where.add(o)
		}
		s.create(t, o)
	}
	s.control()
	s.Settle()
	var out strings.Builder
	s.reportUnread(&out)
	return out.String()
}
