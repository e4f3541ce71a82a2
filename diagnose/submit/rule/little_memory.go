package rule

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/diagnose/submit/workload"
)

var littleMemory = Rule{
	Code: "B121", Name: "memory-limit-too-small",
	Title: "A limit on memory in which nothing starts",
	Why:   "Kubernetes reads 512m of memory as half a byte, and 512 as 512 bytes. The pod gets its node and its GPUs, and its container is killed before its program begins.",
	find:  findLittleMemory,
}

func findLittleMemory(c *Case) (out []Finding) {
	c.containers(func(p *workload.Part, _ *corev1.Pod, k *corev1.Container, path string) {
		limit := k.Resources.Limits[corev1.ResourceMemory]
		meant, ok := podspec.MemoryMeant(limit)
		if !ok {
			return
		}
		at := path + "/resources/limits/memory"
		f := Finding{
			Path:    at,
			Message: fmt.Sprintf("container %s may use %s of memory, which is too little for any program to start", k.Name, &limit),
			Advice:  fmt.Sprintf("Give the amount a unit: %s, if that was meant.", &meant),
		}
		if !p.Made {
			f.Patch = []edit.Op{{Op: "replace", Path: at, Value: meant.String()}}
			if request := k.Resources.Requests[corev1.ResourceMemory]; request.Cmp(limit) == 0 {
				f.Patch = append(f.Patch, edit.Op{Op: "add", Path: path + "/resources/requests/memory", Value: meant.String()})
			}
		}
		out = append(out, f)
	})
	return out
}
