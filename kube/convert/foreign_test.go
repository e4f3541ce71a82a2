package convert

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/dialect/hami"
)

// What a pod asks another scheduler for is said, whatever the scheduler: nobody else tells that it has no effect.
func TestForeignKeysAreSaid(t *testing.T) {
	pod := func(resourceName string, labels, annotations map[string]string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: annotations}}
		if resourceName != "" {
			p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceName(resourceName): resource.MustParse("1")}}}}
		}
		return p
	}
	many := make(map[string]string)
	for i := range MaxProblems + 2 {
		many[fmt.Sprintf("volcano.sh/key-%02d", i)] = "x"
	}
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want []string
	}{
		"HAMi": {pod("nvidia.com/gpu", nil, map[string]string{
			"nvidia.com/nouse-gputype": "A100", "nvidia.com/use-gpuuuid": "GPU-1", "nvidia.com/nouse-gpuuuid": "GPU-2", "nvidia.com/numa-bind": "true",
			"hami.io/gpu-scheduler-policy": "spread", "hami.io/node-scheduler-policy": "binpack"}), nil},
		"HAMi's other words": {pod("nvidia.com/gpu", nil, map[string]string{
			"nvidia.com/nouse-gputype": "PCIe cards", "nvidia.com/use-gpuuuid": strings.Repeat("GPU-1,", 1000), "nvidia.com/vgpu-mode": "mig",
			"hami.io/gpu-scheduler-policy": "mutex", "hami.io/node-scheduler-policy": "spread"}),
			[]string{"hami.io/gpu-scheduler-policy", "hami.io/node-scheduler-policy", "nvidia.com/nouse-gputype", "nvidia.com/use-gpuuuid", "nvidia.com/vgpu-mode"}},
		"HAMi's mode":        {pod("nvidia.com/gpumem", nil, map[string]string{"nvidia.com/vgpu-mode": "hami-core"}), nil},
		"another mode":       {pod("nvidia.com/gpumem", nil, map[string]string{"nvidia.com/vgpu-mode": "mig"}), []string{"nvidia.com/vgpu-mode"}},
		"HAMi's models":      {pod("nvidia.com/gpu", nil, map[string]string{"nvidia.com/use-gputype": "A100,Tesla V100"}), nil},
		"no model":           {pod("nvidia.com/gpu", nil, map[string]string{"nvidia.com/use-gputype": "A100,Tesla"}), []string{"nvidia.com/use-gputype"}},
		"another vendor":     {pod("amd.com/gpu", nil, map[string]string{"amd.com/xcp": "1", "nvidia.com/use-gputype": "A100"}), []string{"amd.com/xcp"}},
		"no device":          {pod("", nil, map[string]string{"nvidia.com/use-gputype": "A100"}), nil},
		"below the domain":   {pod("", map[string]string{"gang.scheduling.koordinator.sh/name": "g"}, nil), []string{"gang.scheduling.koordinator.sh/name"}},
		"both":               {pod("", map[string]string{"kai.scheduler/queue": "q"}, map[string]string{"kai.scheduler/queue": "q"}), []string{"kai.scheduler/queue"}},
		"Kueue heeds itself": {pod("", map[string]string{"kueue.x-k8s.io/queue-name": "q"}, nil), nil},
		"NVIDIA's own keys":  {pod("nvidia.com/gpu", nil, map[string]string{"nvidia.com/dynamo-component-type": "worker", "nvidia.com/vllm-distributed-executor-backend": "mp"}), nil},
		"a slip in NVIDIA's": {pod("nvidia.com/gpu", nil, map[string]string{"nvidia.com/use-gpuuid": "GPU-1"}), []string{"nvidia.com/use-gpuuid"}},
		"by its words":       {pod("", map[string]string{"example.com/gang": "g"}, map[string]string{"nvidia.com/kai-scheduler-queue": "q", "scheduling.example.com/zone": "z"}), []string{"example.com/gang", "nvidia.com/kai-scheduler-queue", "scheduling.example.com/zone"}},
		"other words":        {pod("", nil, map[string]string{"velero.io/schedule-name": "x", "example.com/gangway": "g", "batch.kubernetes.io/cronjob-scheduled-timestamp": "t", "ray.io/gang-scheduling-enabled": "true"}), nil},
		"no dialect's":       {pod("", map[string]string{"tensor-fusion.ai/enabled": "true"}, map[string]string{"slurmjob.slinky.slurm.net/timelimit": "5", "godel.bytedance.com/pod-group-name": "g"}), []string{"godel.bytedance.com/pod-group-name", "slurmjob.slinky.slurm.net/timelimit", "tensor-fusion.ai/enabled"}},
		"nothing like it":    {pod("nvidia.com/gpu", map[string]string{"app": "a", "nvidia.com/gpu.product": "x"}, map[string]string{"nvidia.community/x": "1", "myvolcano.sh/x": "1"}), nil},
		"many":               {pod("", nil, many), append(slices.Sorted(maps.Keys(many))[:MaxProblems:MaxProblems], "2 more keys of other schedulers")},
	} {
		for i, key := range c.want {
			if !strings.HasSuffix(key, "schedulers") {
				c.want[i] = key + " (a key of another scheduler)"
			}
		}
		if diff := cmp.Diff(c.want, Unheeded(c.pod)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Of products that HAMi's users name, the model alone decides, and that is said.
func TestProductsOfHAMiAreSaid(t *testing.T) {
	p := sharingPod(map[string]string{hami.KeyUseType: "NVIDIA A100-SXM4-40GB,V100"}, []string{"nvidia.com/gpu", "1"})
	want := []string{"nvidia.com/use-gputype NVIDIA A100-SXM4-40GB (any A100 will do)"}
	if diff := cmp.Diff(want, Unheeded(p)); diff != "" {
		t.Error(diff)
	}
}

// TestNamedGPUs has the lists of HAMi's CheckUUID and CheckType (v2.10.0, pkg/device/devices.go).
func TestNamedGPUs(t *testing.T) {
	for name, c := range map[string]struct {
		keys map[string]string
		want engine.GPU
		hami bool // it goes where HAMi's plugin is told which GPUs to give
	}{
		"a list":               {map[string]string{hami.KeyUseUUID: "GPU-b, GPU-a,,GPU-b "}, engine.GPU{Only: []string{"GPU-a", "GPU-b"}}, true},
		"case counts":          {map[string]string{hami.KeyUseUUID: "gpu-A"}, engine.GPU{Only: []string{"gpu-A"}}, true},
		"both":                 {map[string]string{hami.KeyUseUUID: "GPU-a,GPU-b", hami.KeyNoUseUUID: "GPU-b"}, engine.GPU{Only: []string{"GPU-a", "GPU-b"}, Except: []string{"GPU-b"}}, true},
		"blank is no wish":     {map[string]string{hami.KeyUseUUID: " ", hami.KeyNoUseUUID: "", hami.KeyNoUseType: " "}, engine.GPU{}, false},
		"commas name nobody":   {map[string]string{hami.KeyUseUUID: " , "}, engine.GPU{Only: []string{nobody}}, true},
		"not a type":           {map[string]string{hami.KeyNoUseType: "a100, Tesla V100,"}, engine.GPU{NotModels: []string{"A100", "V100"}}, false},
		"no type that is read": {map[string]string{hami.KeyNoUseType: "Tesla"}, engine.GPU{}, false},
		"one NUMA node":        {map[string]string{hami.KeyNUMABind: "1"}, engine.GPU{NUMA: engine.Require}, false},
		"no NUMA node":         {map[string]string{hami.KeyNUMABind: "no"}, engine.GPU{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: c.keys}}
			p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{wholeGPU: resource.MustParse("1")}, Requests: corev1.ResourceList{wholeGPU: resource.MustParse("1")}}}}
			got := Pod(p, Options{})
			if diff := cmp.Diff(c.want, got.GPU); diff != "" {
				t.Errorf("GPU (-want +got):\n%s", diff)
			}
			if is := got.Selector[KeySharing] == sharedByHAMi; is != c.hami {
				t.Errorf("only where HAMi gives GPUs: %v", is)
			}
		})
	}
}
