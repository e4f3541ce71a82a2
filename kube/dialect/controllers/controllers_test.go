package controllers

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/kube/dialect"
	"github.com/berth-dev/berth/kube/dialect/dialecttest"
)

var update = flag.Bool("update", false, "write what the objects of testdata are read as")

type world map[string]*dialect.Object

func (w world) Object(kind, namespace, name string) *dialect.Object {
	return w[kind+" "+namespace+"/"+name]
}
func (world) Objects(string, string) []*dialect.Object { return nil }
func (world) Priority(string) (int32, bool)            { return 0, false }

// TestShapes reads objects and pods as the controllers write them. What is trimmed away makes no difference.
func TestShapes(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.txtar")
	if len(files) == 0 {
		t.Fatal("no testdata")
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			a, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			file := func(name string) string {
				for _, f := range a.Files {
					if f.Name == name {
						return string(f.Data)
					}
				}
				return ""
			}
			got := read(t, file("objects"), file("pods"), false)
			if diff := cmp.Diff(got, read(t, file("objects"), file("pods"), true)); diff != "" {
				t.Errorf("trimmed, it is another (-whole +trimmed):\n%s", diff)
			}
			if *update {
				a.Files[len(a.Files)-1].Data = []byte(got)
				if err := os.WriteFile(name, txtar.Format(a), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(file("want"), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func read(t *testing.T, objects, pods string, trimmed bool) string {
	t.Helper()
	w, c := make(world), New()
	var b strings.Builder
	for text := range strings.SplitSeq(objects, "---\n") {
		u := dialecttest.Object(t, text)
		if trimmed {
			c.Trim(u)
		}
		o := c.Read(u, w)
		w[u.GetKind()+"."+u.GroupVersionKind().Group+" "+u.GetNamespace()+"/"+u.GetName()] = &o
		for _, field := range o.Unread {
			fmt.Fprintf(&b, "%s %s: %s\n", u.GetKind(), u.GetName(), field)
		}
		if o.Problem != "" {
			fmt.Fprintf(&b, "%s %s: %s\n", u.GetKind(), u.GetName(), o.Problem)
		}
	}
	for text := range strings.SplitSeq(pods, "---\n") {
		var p corev1.Pod
		if err := yaml.Unmarshal([]byte(text), &p); err != nil {
			t.Fatal(err)
		}
		pod := &dialect.Pod{Pod: &p}
		if words := strings.Fields(p.Annotations["test/job-of"]); len(words) == 3 { // a Job between the pod and the object
			pod.Owners = []dialect.Owner{{Kind: "Job", Name: "j", By: &metav1.OwnerReference{APIVersion: words[0], Kind: words[1], Name: words[2]}}}
		}
		fmt.Fprintf(&b, "%s: %s\n", p.Name, said(c.Pod(pod, w)))
	}
	return b.String()
}

func said(t *dialect.Terms) string {
	if t == nil {
		return "nobody made it"
	}
	var keys []string
	for _, key := range slices.Sorted(maps.Keys(t.Keys)) {
		keys = append(keys, strings.TrimPrefix(key, v1alpha1.KeyPrefix)+" "+t.Keys[key])
	}
	out := strings.Join(keys, ", ")
	if out == "" {
		out = "alone"
	}
	if t.Missing != "" {
		out += ", for lack of " + t.Missing
	}
	if t.Says != "" {
		out += "\n  " + t.Says
	}
	return out
}

// TestKinds holds that a kind is read whichever version is served.
func TestKinds(t *testing.T) {
	for _, k := range New().Kinds() {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(k.GroupVersionKind)
		if o := New().Read(u, world{}); o.Value == nil {
			t.Errorf("%s is not read", k.GroupVersionKind)
		}
		if !k.Grouping || !k.Namespaced {
			t.Errorf("%s: want a kind of which there are many", k.GroupVersionKind)
		}
	}
}

// FuzzRead holds that no object breaks the reader, and that a gang that it makes can be carried out: a minimum of one at least and no
// more than there will be.
func FuzzRead(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.txtar")
	for _, name := range files {
		a, err := txtar.ParseFile(name)
		if err != nil {
			f.Fatal(err)
		}
		for text := range strings.SplitSeq(string(a.Files[0].Data), "---\n") {
			f.Add(text)
		}
	}
	f.Add("{apiVersion: ray.io/v1, kind: RayCluster, metadata: {name: a}, spec: {workerGroupSpecs: [{groupName: g, replicas: 9223372036854775807, numOfHosts: 9223372036854775807}]}}")
	f.Fuzz(func(t *testing.T, text string) {
		u := &unstructured.Unstructured{}
		if yaml.Unmarshal([]byte(text), &u.Object) != nil || u.Object == nil {
			return
		}
		c := New()
		o := c.Read(u, world{})
		set, ok := o.Value.(*Set)
		if !ok {
			return
		}
		total := 0
		for _, p := range set.Parts {
			total += p.Pods
			if p.Pods < 0 || p.Least < 0 || p.Least > p.Pods {
				t.Errorf("%+v", p)
			}
		}
		if total > mostPods {
			t.Errorf("%d pods", total)
		}
	})
}
