package fleet

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/fleet/device"
)

var rewrite = flag.Bool("update", false, "rewrite the golden files")

// golden compares got as YAML with a file of testdata.
func golden(t *testing.T, name string, got any) {
	t.Helper()
	text, err := yaml.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(text)); diff != "" {
		t.Errorf("%s (go test ./fleet -update rewrites it):\n%s", name, diff)
	}
}

func TestWholeNodes(t *testing.T) {
	lab := preset(t, "lab")
	a100 := want{pool: lab["kwok-gpu-a100"], index: 1}
	registered := newNode(a100, 3, facts{want: a100, slot: 3, port: 40001, ready: false}, noon)
	golden(t, "gpu-node-registered.yaml", registered)

	m := newMachine(machineOptions{Want: a100, Slot: 3})
	m.devices.SetStack(stackPods(), noon)
	up := publish(registered, facts{want: a100, slot: 3, port: 40001, gpus: m.devices.Places(), ready: true}, m.devices.Advertise(noon), noon.Add(time.Minute))
	golden(t, "gpu-node-up.yaml", up)

	cp := want{pool: lab["lab-control-plane"], index: 0}
	golden(t, "control-plane-node.yaml", newNode(cp, 0, facts{want: cp, port: 40001, ready: true}, noon))
}

func TestPublishingTwiceChangesNothing(t *testing.T) {
	for name, pool := range preset(t, "lab") {
		w := want{pool: pool, index: 0}
		f := facts{want: w, slot: 7, port: 1, ready: true}
		m := newMachine(machineOptions{Want: w, Slot: 7})
		m.devices.SetStack(stackPods(), noon)
		once := publish(newNode(w, 7, f, noon), f, m.devices.Advertise(noon), noon)
		twice := publish(once, f, m.devices.Advertise(noon.Add(time.Hour)), noon.Add(time.Hour))
		if !equality.Semantic.DeepEqual(once, twice) {
			t.Errorf("%s: %s", name, cmp.Diff(once, twice))
		}
	}
}

func TestFeatureLabelsStayWithoutDiscoveryAndGoWithTheFeature(t *testing.T) {
	node := &corev1.Node{}
	node.Labels = map[string]string{"theirs": "x"}
	labelFeatures(node, map[string]string{"nvidia.com/gpu.count": "8", "nvidia.com/gpu.clique": "c"})
	labelFeatures(node, nil)
	if diff := cmp.Diff(map[string]string{"theirs": "x", "nvidia.com/gpu.count": "8", "nvidia.com/gpu.clique": "c"}, node.Labels); diff != "" {
		t.Error(diff)
	}
	labelFeatures(node, map[string]string{"nvidia.com/gpu.count": "4"})
	if diff := cmp.Diff(map[string]string{"theirs": "x", "nvidia.com/gpu.count": "4"}, node.Labels); diff != "" {
		t.Error(diff)
	}
}

func TestConditionsComeBackAfterTheControllerGaveUpOnTheNode(t *testing.T) {
	f := facts{want: want{pool: plainPool("n", 1), index: 0}, ready: true}
	node := newNode(f.want, 0, f, noon)
	theirs := corev1.NodeCondition{Type: "KernelDeadlock", Status: corev1.ConditionFalse}
	node.Status.Conditions = append([]corev1.NodeCondition{theirs}, node.Status.Conditions...)
	before := node.DeepCopy()
	for i := range node.Status.Conditions[1:] {
		c := &node.Status.Conditions[1+i]
		c.Status, c.Reason, c.Message = corev1.ConditionUnknown, "NodeStatusUnknown", "Kubelet stopped posting node status."
	}
	later := noon.Add(10 * time.Minute)
	got := publish(node, f, device.Advertisement{}, later)
	for i := range got.Status.Conditions[1:] {
		c := &got.Status.Conditions[1+i]
		if !c.LastTransitionTime.Time.Equal(later) {
			t.Errorf("%s changed at %s, want %s", c.Type, c.LastTransitionTime, later)
		}
		c.LastTransitionTime, c.LastHeartbeatTime = before.Status.Conditions[1+i].LastTransitionTime, before.Status.Conditions[1+i].LastHeartbeatTime
	}
	if diff := cmp.Diff(before.Status.Conditions, got.Status.Conditions); diff != "" {
		t.Error(diff)
	}
}

// A kubelet tells of the 50 largest images, and those that the node had before this process began stay.
func TestImagesOnANode(t *testing.T) {
	big := corev1.ContainerImage{Names: []string{"registry.example/big@sha256:1", "registry.example/big:1"}, SizeBytes: 1 << 40}
	old := corev1.ContainerImage{Names: []string{"registry.example/old@sha256:2"}, SizeBytes: 1 << 39}
	var pulled []corev1.ContainerImage
	for i := range 60 {
		pulled = append(pulled, corev1.ContainerImage{Names: []string{fmt.Sprintf("registry.example/%02d@sha256:3", i)}, SizeBytes: int64(i)})
	}
	got := imageList([]corev1.ContainerImage{old, big}, append(pulled, big))
	if len(got) != 50 || !reflect.DeepEqual(got[:2], []corev1.ContainerImage{big, old}) || got[49].SizeBytes != 12 {
		t.Errorf("%d images, first %v, last %v", len(got), got[:2], got[len(got)-1])
	}
	if diff := cmp.Diff(got, imageList(got, append(pulled[12:], big))); diff != "" {
		t.Errorf("told twice: %s", diff)
	}
	if got := imageList(nil, nil); got != nil {
		t.Errorf("none: %v", got)
	}
}
