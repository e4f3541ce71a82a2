package convert

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
)

func TestAlignment(t *testing.T) {
	const want = `: want nvlink, numa, or both with a comma between, each with =preferred if it is a wish`
	for value, c := range map[string]struct {
		gpu     engine.GPU
		invalid string
	}{
		"":                                   {},
		"numa":                               {gpu: engine.GPU{NUMA: engine.Require}},
		" nvlink = preferred , numa ":        {gpu: engine.GPU{Clique: engine.Prefer, NUMA: engine.Require}},
		"nvlink=required,numa=preferred":     {gpu: engine.GPU{Clique: engine.Require, NUMA: engine.Prefer}},
		"numa,numa=preferred":                {invalid: `berth.dev/gpu-alignment of pod p is "numa,numa=preferred"` + want},
		"numa=":                              {invalid: `berth.dev/gpu-alignment of pod p is "numa="` + want},
		"socket":                             {invalid: `berth.dev/gpu-alignment of pod p is "socket"` + want},
		"numa,":                              {invalid: `berth.dev/gpu-alignment of pod p is "numa,"` + want},
		strings.Repeat("x", MaxValueBytes+9): {invalid: `bytes of berth.dev/gpu-alignment: more than 2048, the limit; berth.dev/gpu-alignment of pod p is "` + strings.Repeat("x", 64) + `"... (2049 bytes)` + want},
	} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Annotations: map[string]string{v1alpha1.KeyGPUAlignment: value}}, Spec: corev1.PodSpec{SchedulerName: "berth"}}
		got := Pod(p, Options{})
		if diff := cmp.Diff(c.gpu, got.GPU); diff != "" || got.Invalid != c.invalid {
			t.Errorf("%q: %s; invalid: %s", value, diff, got.Invalid)
		}
		p.Annotations[v1alpha1.KeyGang] = "g"
		if g := NativeGang([]*corev1.Pod{p}, nil, nil); (g.Invalid != "") != (c.invalid != "") {
			t.Errorf("%q: a gang is invalid: %q", value, g.Invalid)
		}
	}
}

// A node says where its GPUs lie, or it does not, or what it says is nonsense; then nothing is known.
func TestGPUTopology(t *testing.T) {
	unknown := []engine.Device{{ID: "n/gpu-0", Model: "T4", NUMA: -1}, {ID: "n/gpu-1", Model: "T4", NUMA: -1}}
	for text, c := range map[string]struct {
		devices []engine.Device
		problem string
	}{
		"":                                     {unknown, ""},
		`[{"numa":0,"nvlink":"a"},{"numa":1}]`: {[]engine.Device{{ID: "n/gpu-0", Model: "T4", Clique: "a"}, {ID: "n/gpu-1", Model: "T4", NUMA: 1}}, ""},
		`[{"id":"GPU-a"},{"id":"GPU-b","numa":3}]`:   {[]engine.Device{{ID: "n/GPU-a", Model: "T4", NUMA: -1}, {ID: "n/GPU-b", Model: "T4", NUMA: 3}}, ""},
		`[{"numa":0},{"unhealthy":true},{"numa":0}]`: {[]engine.Device{{ID: "n/gpu-0", Model: "T4"}, {ID: "n/gpu-1", Model: "T4", NUMA: -1, Unhealthy: true}, {ID: "n/gpu-2", Model: "T4"}}, ""},
		`[{"numa":0}]`:                                      {unknown, ""},
		`[{"numa":0},{"numa":0},{"numa":0}]`:                {unknown, ""},
		`[{"id":"a"},{}]`:                                   {unknown, "berth.dev/gpu-topology: GPU 1: want an id for each GPU, or for none"},
		`[{"id":"a"},{"id":"a"}]`:                           {unknown, `berth.dev/gpu-topology: GPU 1: the id "a" is there twice`},
		`[{"numa":-2},{}]`:                                  {unknown, "berth.dev/gpu-topology: GPU 0: numa is -2: want a number from 0 to 1023"},
		`[{"numa":1024},{}]`:                                {unknown, "berth.dev/gpu-topology: GPU 0: numa is 1024: want a number from 0 to 1023"},
		`{"numa":0}`:                                        {unknown, `berth.dev/gpu-topology is "{\"numa\":0}": want a JSON list, such as [{"numa":0,"nvlink":"a"},{"numa":1,"nvlink":"a"}]`},
		"[" + strings.Repeat("{},", 256) + "{}]":            {unknown, "berth.dev/gpu-topology: more than 256 GPUs, the limit"},
		`[{"nvlink":"` + strings.Repeat("x", 65) + `"},{}]`: {unknown, "berth.dev/gpu-topology: GPU 0: more than 64 bytes of a name, the limit"},
	} {
		n := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{labelProduct: "Tesla-T4"}, Annotations: map[string]string{v1alpha1.KeyGPUTopology: text}},
			Status:     corev1.NodeStatus{Allocatable: list("nvidia.com/gpu", "2")},
		}
		if diff := cmp.Diff(c.devices, Node(n, Options{}).Devices); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
		if got := TopologyProblem(n); got != c.problem {
			t.Errorf("%q: got %q, want %q", text, got, c.problem)
		}
	}
}

// Which GPUs a pod holds is believed where it can be true.
func TestHeldGPUs(t *testing.T) {
	for text, want := range map[string][]string{
		"":                           nil,
		`{"main":["GPU-b","GPU-a"]}`: {"n/GPU-a", "n/GPU-b"},
		`{"init":["GPU-a"],"main":["GPU-a","GPU-b"]}`: {"n/GPU-a", "n/GPU-b"},
		`{"main":["GPU-a"]}`:                          nil,
		`{"main":["GPU-a","GPU-b","GPU-c"]}`:          nil,
		`{"main":["GPU-a",""]}`:                       nil,
		`["GPU-a","GPU-b"]`:                           nil,
		"nonsense":                                    nil,
	} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", Annotations: map[string]string{v1alpha1.KeyGPUs: text}}}
		p.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: list("nvidia.com/gpu", "2")}}}
		if got := Pod(p, Options{}).Devices; got != nil {
			t.Errorf("%q: a pod without a node holds %q", text, got)
		}
		p.Spec.NodeName = "n"
		if diff := cmp.Diff(want, Pod(p, Options{}).Devices); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}
