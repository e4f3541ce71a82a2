package submit

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPartsAreCounted has pods that ask for parts of GPUs in every way that is read: none of them asks for nothing.
func TestPartsAreCounted(t *testing.T) {
	deployment := func(annotations, limits string) string {
		return `
apiVersion: apps/v1
kind: Deployment
metadata: {name: serve}
spec:
  replicas: 2
  selector: {matchLabels: {app: serve}}
  template:
    metadata: {labels: {app: serve}, annotations: {` + annotations + `}}
    spec: {containers: [{name: c, image: registry.example/c:1, resources: {limits: {` + limits + `}}}]}
`
	}
	for name, c := range map[string]struct {
		object string
		gpus   int64
		want   []GPUParts
	}{
		"whole":          {deployment("", "nvidia.com/gpu: 2"), 4, nil},
		"HAMi":           {deployment("", "nvidia.com/gpu: 1, nvidia.com/gpumem: 3000"), 0, []GPUParts{{GPUs: 2, MemoryMiB: 3000}}},
		"HAMi, percent":  {deployment("", "nvidia.com/gpu: 2, nvidia.com/gpumem-percentage: 25"), 0, []GPUParts{{GPUs: 4, Thousandths: 250}}},
		"Volcano":        {deployment("", "volcano.sh/vgpu-number: 1, volcano.sh/vgpu-memory: 1024"), 0, []GPUParts{{GPUs: 2, MemoryMiB: 1024}}},
		"KAI, fraction":  {deployment("gpu-fraction: '0.5'", "cpu: 1"), 0, []GPUParts{{GPUs: 2, Thousandths: 500}}},
		"KAI, memory":    {deployment("gpu-memory: '2000', gpu-fraction-num-devices: '2'", "cpu: 1"), 0, []GPUParts{{GPUs: 4, MemoryMiB: 2000}}},
		"Berth, a share": {deployment("berth.dev/gpu-fraction: '0.125'", "cpu: 1"), 0, []GPUParts{{GPUs: 2, Thousandths: 125}}},
		"no GPU":         {deployment("", "cpu: 1"), 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := Check(World{Facts: shared(), Bare: true}, "default", items(t, c.object)).Workloads[0]
			if diff := cmp.Diff(c.want, w.GPUParts); diff != "" || w.GPUs != c.gpus {
				t.Errorf("%d GPUs, want %d (-want +got):\n%s", w.GPUs, c.gpus, diff)
			}
		})
	}
}
