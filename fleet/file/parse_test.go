package file

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
)

var update = flag.Bool("update", false, "rewrite the errors in testdata/*.txtar")

// TestErrors reads fleet files with mistakes: each archive holds fleet.yaml and the errors
// it must give, one a line.
func TestErrors(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) { checkErrors(t, path) })
	}
}

func checkErrors(t *testing.T, path string) {
	archive, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	fleet, want := &archive.Files[0], &archive.Files[1]
	if fleet.Name != "fleet.yaml" || want.Name != "errors" {
		t.Fatalf("want the files fleet.yaml and errors, in this order")
	}
	_, err = Parse("fleet.yaml", fleet.Data)
	if err == nil {
		t.Fatal("no error")
	}
	got := err.Error() + "\n"
	if *update {
		want.Data = []byte(got)
		if err := os.WriteFile(path, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(want.Data), got); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
}

func TestParseFillsDefaults(t *testing.T) {
	const text = `
apiVersion: berth.dev/v1alpha1
kind: Pool
metadata: {name: a}
spec:
  nodes: 2
  gpus: [{model: h100, count: 8}]
  driver: {cuda: "12.4"}
  topology: {nodesPerRack: 1}
  boot: {driver: 1m}
`
	got, err := Parse("a.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	d := func(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }
	want := []v1alpha1.Pool{{
		TypeMeta:   metav1.TypeMeta{APIVersion: "berth.dev/v1alpha1", Kind: "Pool"},
		ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Spec: v1alpha1.PoolSpec{
			Nodes:            new(int32(2)),
			Role:             "worker",
			GPUs:             []v1alpha1.GPU{{Model: "h100", Count: 8}},
			NVLink:           "auto",
			CPU:              new(resource.MustParse("128")),
			Memory:           new(resource.MustParse("1Ti")),
			EphemeralStorage: new(resource.MustParse("1Ti")),
			Pods:             new(int32(110)),
			Topology:         v1alpha1.Topology{Rack: "a-rack", NodesPerRack: new(int32(1))},
			Driver:           v1alpha1.Driver{Version: "550.127.08", CUDA: "12.4"},
			Advertise:        "device-plugin",
			GPUStack:         "operator",
			Boot: v1alpha1.Boot{
				Register: d(90 * time.Second), Ready: d(25 * time.Second), Driver: d(time.Minute),
				DevicePlugin: d(20 * time.Second), ImagePull: d(15 * time.Second),
			},
		},
	}}
	if diff := cmp.Diff(want, got, sameQuantity); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestParseKubectlOutput reads what `kubectl get pools -o yaml` prints, and a PoolList.
func TestParseKubectlOutput(t *testing.T) {
	const list = `
apiVersion: v1
kind: List
metadata: {resourceVersion: ""}
items:
- apiVersion: berth.dev/v1alpha1
  kind: Pool
  metadata:
    annotations: {note: kept}
    creationTimestamp: "2026-11-15T10:00:00Z"
    generation: 1
    managedFields: [{manager: kubectl, fieldsV1: {f:spec: {}}}]
    name: a
    resourceVersion: "12"
    uid: 11111111-2222-3333-4444-555555555555
  spec: {nodes: 1}
  status: {nodes: 1, ready: 1}
- apiVersion: berth.dev/v1alpha1
  kind: Pool
  metadata: {name: b, creationTimestamp: null}
  spec: {nodeNames: [x, y]}
`
	const poolList = `
apiVersion: berth.dev/v1alpha1
kind: PoolList
items:
- metadata: {name: a, annotations: {note: kept}}
  spec: {nodes: 1}
- metadata: {name: b}
  spec: {nodeNames: [x, y]}
`
	first, err := Parse("list.yaml", []byte(list))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a-0 worker 0", "x worker 0", "y worker 0"}, describeNodes(first)); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"note": "kept"}, first[0].Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	second, err := Parse("list.yaml", []byte(poolList))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, second, sameQuantity); diff != "" {
		t.Errorf("List and PoolList differ:\n%s", diff)
	}
}

func TestErrorsAreTyped(t *testing.T) {
	_, err := Parse("f.yaml", []byte("kind: Pool\napiVersion: berth.dev/v1alpha1\nmetadata: {name: a}\nspec:\n  nodes: -1\n"))
	var got Errors
	if !errors.As(err, &got) {
		t.Fatalf("not Errors: %v", err)
	}
	want := Errors{{File: "f.yaml", Line: 5, Field: "spec.nodes", Message: "must not be negative (-1)"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// sameQuantity compares amounts by value: 1024Mi is 1Gi.
var sameQuantity = cmp.Comparer(func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 })

// describeNodes is one line a node: name, role, GPUs.
func describeNodes(pools []v1alpha1.Pool) []string {
	var nodes []string
	for _, p := range pools {
		for i := range int(*p.Spec.Nodes) {
			nodes = append(nodes, fmt.Sprintf("%s %s %d", p.NodeName(i), p.Spec.Role, p.GPUsPerNode()))
		}
	}
	return nodes
}
