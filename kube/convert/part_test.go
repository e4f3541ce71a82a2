package convert

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/dialect/hami"
)

// sharingPod is a pod with these annotations and a container for each list of resources, which are names and amounts in turn.
func sharingPod(annotations map[string]string, containers ...[]string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "p", Annotations: annotations}, Spec: corev1.PodSpec{SchedulerName: "berth"}}
	for _, list := range containers {
		c := corev1.Container{Name: "main", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{}, Requests: corev1.ResourceList{}}}
		for i := 0; i < len(list); i += 2 {
			c.Resources.Limits[corev1.ResourceName(list[i])] = resource.MustParse(list[i+1])
			c.Resources.Requests[corev1.ResourceName(list[i])] = resource.MustParse(list[i+1])
		}
		p.Spec.Containers = append(p.Spec.Containers, c)
	}
	return p
}

func TestParts(t *testing.T) {
	one := []string{}
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		want *engine.Part
		by   string
	}{
		"none":              {sharingPod(nil, []string{"nvidia.com/gpu", "2"}), nil, ""},
		"fraction":          {sharingPod(map[string]string{v1alpha1.KeyGPUFraction: "0.5"}, one), &engine.Part{Cards: 1, Share: 500, Compute: 500}, "berth"},
		"memory":            {sharingPod(map[string]string{v1alpha1.KeyGPUMemory: "4096"}, one), &engine.Part{Cards: 1, Memory: 4096}, "berth"},
		"KAI":               {sharingPod(map[string]string{"gpu-fraction": "0.25", "gpu-fraction-num-devices": "2"}, one), &engine.Part{Cards: 2, Share: 250, Compute: 250}, "berth"},
		"KAI container":     {sharingPod(map[string]string{"gpu-fraction": "0.5", "gpu-fraction-container-name": "main"}, one), &engine.Part{Cards: 1, Share: 500, Compute: 500}, "berth"},
		"KAI memory":        {sharingPod(map[string]string{"gpu-memory": "2000"}, one), &engine.Part{Cards: 1, Memory: 2000}, "berth"},
		"HAMi":              {sharingPod(nil, []string{"nvidia.com/gpu", "2", "nvidia.com/gpumem", "3000", "nvidia.com/gpucores", "30"}), &engine.Part{Cards: 2, Memory: 3000, Compute: 300}, "hami"},
		"HAMi percentage":   {sharingPod(nil, []string{"nvidia.com/gpu", "1", "nvidia.com/gpumem-percentage", "50"}), &engine.Part{Cards: 1, Share: 500}, "hami"},
		"HAMi cores":        {sharingPod(nil, []string{"nvidia.com/gpucores", "100"}), &engine.Part{Cards: 1, Share: 1000, Compute: 1000}, "hami"},
		"HAMi's containers": {sharingPod(nil, []string{"nvidia.com/gpu", "2", "nvidia.com/gpumem", "3000"}, []string{"nvidia.com/gpumem", "2000", "nvidia.com/gpucores", "30"}), &engine.Part{Cards: 3, Memory: 3000, Compute: 300}, "hami"},
		"HAMi beside":       {sharingPod(nil, []string{"cpu", "1"}, []string{"nvidia.com/gpu", "1", "nvidia.com/gpumem", "10"}), &engine.Part{Cards: 1, Memory: 10}, "hami"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Pod(test.pod, Options{})
			if diff := cmp.Diff(test.want, got.Part); diff != "" || got.Invalid != "" {
				t.Errorf("%s (-want +got):\n%s", got.Invalid, diff)
			}
			if got.Selector[KeySharing] != test.by {
				t.Errorf("from %q, want %q", got.Selector[KeySharing], test.by)
			}
			if test.by == sharedByHAMi && (got.Requests.Get("nvidia.com/gpu") > 0 || got.Requests.Get("nvidia.com/gpumem") > 0) {
				t.Errorf("it asks for %v beside its part", got.Requests)
			}
		})
	}
}

func TestPartsThatMakeNoSense(t *testing.T) {
	one := []string{}
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"a fraction of nothing": {sharingPod(map[string]string{v1alpha1.KeyGPUFraction: "0"}, one), `pod p: berth.dev/gpu-fraction is "0": want a number above 0, up to 1, with at most three decimals, such as 0.5`},
		"more than a GPU":       {sharingPod(map[string]string{v1alpha1.KeyGPUFraction: "1.5"}, one), `pod p: berth.dev/gpu-fraction is "1.5": want a number above 0, up to 1, with at most three decimals, such as 0.5`},
		"no number":             {sharingPod(map[string]string{v1alpha1.KeyGPUFraction: "NaN"}, one), `pod p: berth.dev/gpu-fraction is "NaN": want a number above 0, up to 1, with at most three decimals, such as 0.5`},
		"too fine":              {sharingPod(map[string]string{"gpu-fraction": "0.33333"}, one), `pod p: gpu-fraction is "0.33333": want a number above 0, up to 1, with at most three decimals, such as 0.5`},
		"memory with a unit":    {sharingPod(map[string]string{v1alpha1.KeyGPUMemory: "4Gi"}, one), `pod p: berth.dev/gpu-memory is "4Gi": want a number of MiB above 0, such as 4096`},
		"both":                  {sharingPod(map[string]string{v1alpha1.KeyGPUMemory: "4096", v1alpha1.KeyGPUFraction: "0.5"}, one), "pod p: berth.dev/gpu-fraction and berth.dev/gpu-memory: want one of them"},
		"devices alone":         {sharingPod(map[string]string{"gpu-fraction-num-devices": "2"}, one), "pod p: gpu-fraction-num-devices without gpu-fraction or gpu-memory: want one of them"},
		"no such container":     {sharingPod(map[string]string{"gpu-memory": "1", "gpu-fraction-container-name": "side"}, one), `pod p: gpu-fraction-container-name is "side": want the name of one of its containers`},
		"no devices":            {sharingPod(map[string]string{"gpu-memory": "1", "gpu-fraction-num-devices": "0"}, one), `pod p: gpu-fraction-num-devices is "0": want a number from 1 to 256`},
		"whole beside a part":   {sharingPod(map[string]string{v1alpha1.KeyGPUFraction: "0.5"}, []string{"nvidia.com/gpu", "1"}), "pod p: it asks for 1 of nvidia.com/gpu beside a part of a GPU: want one of them"},
		"two dialects":          {sharingPod(map[string]string{v1alpha1.KeyGPUFraction: "0.5"}, []string{"nvidia.com/gpumem", "100"}), "pod p: it asks for parts of GPUs in more than one way: want the keys of Berth, those of KAI, the resources of HAMi, or those of Volcano"},
		"two containers":        {sharingPod(nil, []string{"nvidia.com/gpu", "1"}, []string{"nvidia.com/gpumem", "100"}), "pod p: 2 containers ask for parts of GPUs, by MiB and by share: want one of them for all"},
		"cores":                 {sharingPod(nil, []string{"nvidia.com/gpucores", "101"}), "pod p: nvidia.com/gpucores of container main is 101: want 0 to 100"},
		"percentage":            {sharingPod(nil, []string{"nvidia.com/gpumem-percentage", "120"}), "pod p: nvidia.com/gpumem-percentage of container main is 120: want 0 to 100"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Pod(test.pod, Options{})
			if diff := cmp.Diff(test.want, got.Invalid); diff != "" || got.Part != nil {
				t.Errorf("part %v; what is wrong (-want +got):\n%s", got.Part, diff)
			}
		})
	}
}

func hamiNode() *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n0", Annotations: map[string]string{hami.KeyRegister: hami.Register([]hami.Device{
			{ID: "GPU-a", Count: 10, Memory: 23034, Cores: 100, Type: "NVIDIA-NVIDIA L4", Mode: hami.Core, Health: true},
			{ID: "GPU-b", Index: 1, Count: 10, Memory: 23034, Cores: 100, Type: "NVIDIA-NVIDIA L4", NUMA: 1, Mode: hami.Core},
			{ID: "GPU-c", Index: 2, Count: 7, Memory: 40960, Cores: 100, Type: "NVIDIA-A100", Mode: "mig", Health: true},
		})}},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("20")}},
	}
}

func TestNodesOfHAMi(t *testing.T) {
	got := Node(hamiNode(), Options{})
	want := []engine.Device{
		{ID: "n0/GPU-a", Model: "L4", Memory: 23034, Parts: 10},
		{ID: "n0/GPU-b", Model: "L4", NUMA: 1, Memory: 23034, Parts: 10, Unhealthy: true},
		{ID: "n0/GPU-c", Model: "A100", Memory: 40960},
	}
	if diff := cmp.Diff(want, got.Devices); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
	if got.Allocatable.Get("nvidia.com/gpu") != 2 || got.Labels[KeySharing] != sharedByHAMi || got.Check() != "" {
		t.Errorf("%v, shared by %q: %s", got.Allocatable, got.Labels[KeySharing], got.Check())
	}
	broken := hamiNode()
	broken.Annotations[hami.KeyRegister] = "{"
	if got := Node(broken, Options{}); got.Devices != nil || got.Labels[KeySharing] != "" {
		t.Errorf("of a register that cannot be read: %v", got.Devices)
	}
}

func TestGrants(t *testing.T) {
	for name, test := range map[string]struct {
		pod     *corev1.Pod
		devices []string
		want    [][]hami.Grant
	}{
		"a part":  {sharingPod(nil, []string{"cpu", "1"}, []string{"nvidia.com/gpumem-percentage", "50", "nvidia.com/gpucores", "30"}), []string{"n0/GPU-a"}, [][]hami.Grant{nil, {{UUID: "GPU-a", Memory: 11517, Cores: 30}}}},
		"two":     {sharingPod(nil, []string{"nvidia.com/gpu", "2", "nvidia.com/gpumem", "3000"}), []string{"n0/GPU-a", "n0/GPU-b"}, [][]hami.Grant{{{UUID: "GPU-a", Memory: 3000}, {UUID: "GPU-b", Memory: 3000}}}},
		"whole":   {sharingPod(nil, []string{"nvidia.com/gpu", "1"}, []string{"nvidia.com/gpu", "1"}), []string{"n0/GPU-a", "n0/GPU-b"}, [][]hami.Grant{{{UUID: "GPU-a", Memory: 23034}}, {{UUID: "GPU-b", Memory: 23034}}}},
		"nothing": {sharingPod(nil, []string{"cpu", "1"}), nil, nil},
		"unknown": {sharingPod(nil, []string{"nvidia.com/gpu", "1"}), []string{"n0/GPU-x"}, nil},
		"too few": {sharingPod(nil, []string{"nvidia.com/gpu", "2"}), []string{"n0/GPU-a"}, nil},
	} {
		if diff := cmp.Diff(test.want, Grants(test.pod, hamiNode(), test.devices)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if got := Grants(sharingPod(nil, []string{"nvidia.com/gpu", "1"}), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n0"}}, []string{"n0/GPU-a"}); got != nil {
		t.Errorf("on a node without HAMi: %v", got)
	}
}

func TestPartsThatAreHeld(t *testing.T) {
	bound := func(annotations map[string]string, resources ...string) *corev1.Pod {
		p := sharingPod(annotations, resources)
		p.Spec.NodeName = "n0"
		return p
	}
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		want []string
	}{
		"wanted by its binding":        {bound(map[string]string{v1alpha1.KeyGPUFraction: "0.5", v1alpha1.KeyWantedGPUs: `["GPU-a"]`}), []string{"n0/GPU-a"}},
		"given by the node":            {bound(map[string]string{v1alpha1.KeyGPUFraction: "0.5", v1alpha1.KeyWantedGPUs: `["GPU-a"]`, v1alpha1.KeyGPUs: `{"main":["GPU-b"]}`}), []string{"n0/GPU-b"}},
		"whole GPUs are not as wanted": {bound(map[string]string{v1alpha1.KeyWantedGPUs: `["GPU-a"]`}, "nvidia.com/gpu", "1"), nil},
		"but HAMi's are":               {bound(map[string]string{v1alpha1.KeyWantedGPUs: `["GPU-a"]`, hami.KeyNode: "n0"}, "nvidia.com/gpu", "1"), []string{"n0/GPU-a"}},
		"HAMi's own scheduler":         {bound(map[string]string{hami.KeyAllocated: "GPU-a,NVIDIA,100,0:;"}, "nvidia.com/gpu", "1", "nvidia.com/gpumem", "100"), []string{"n0/GPU-a"}},
		"too few":                      {bound(map[string]string{v1alpha1.KeyWantedGPUs: `["GPU-a"]`}, "nvidia.com/gpu", "2", "nvidia.com/gpumem", "100"), nil},
		"no JSON":                      {bound(map[string]string{v1alpha1.KeyGPUFraction: "0.5", v1alpha1.KeyWantedGPUs: `GPU-a`}), nil},
	} {
		trimmed := test.pod.DeepCopy()
		Trim(trimmed)
		for _, p := range []*corev1.Pod{test.pod, trimmed} {
			if diff := cmp.Diff(test.want, Pod(p, Options{}).Devices); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
	}
}

func TestModelsOfHAMi(t *testing.T) {
	for text, want := range map[string][]string{
		"A100,V100":                   {"A100", "V100"},
		"NVIDIA A100-SXM4-40GB, a100": {"A100"},
		"Tesla":                       nil,
		"A100,":                       {"A100"},
		"":                            nil,
	} {
		p := sharingPod(map[string]string{hami.KeyUseType: text}, []string{"nvidia.com/gpu", "1"})
		if diff := cmp.Diff(want, Pod(p, Options{}).GPU.Models); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
	p := sharingPod(map[string]string{hami.KeyUseType: "A100", v1alpha1.KeyGPUModel: "H100"}, []string{"nvidia.com/gpu", "1"})
	if got := Pod(p, Options{}).GPU.Models; !cmp.Equal(got, []string{"H100"}) {
		t.Errorf("our own key does not come first: %v", got)
	}
}
