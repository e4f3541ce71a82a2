package rule

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/submit/workload"
	"github.com/berth-dev/berth/engine/why"
)

var newerCUDA = Rule{
	Code: "B106", Name: "cuda-newer-than-driver",
	Title:  "An image with a newer CUDA than every driver that it can meet",
	Why:    "The scheduler does not look at images. The pod gets a node, and NVIDIA's container hook then refuses to start it, again and again, while it holds its GPUs.",
	Covers: []why.Cause{"cuda-newer-than-driver"},
	find:   findNewerCUDA,
}

func findNewerCUDA(c *Case) (out []Finding) {
	c.containers(func(_ *workload.Part, pod *corev1.Pod, k *corev1.Container, path string) {
		need, where, sure := gpustack.NeededCUDA(pod, k)
		if where == "" || gpus(pod) == 0 {
			return
		}
		newest, known := gpustack.CUDAVersion{}, 0
		for _, n := range c.matching(pod) {
			have, ok := gpustack.NodeCUDA(n)
			if !ok || !gpustack.TooOldFor(n, need, sure) {
				return
			}
			known++
			if newest.Older(have) {
				newest = have
			}
		}
		if known > 0 {
			out = append(out, Finding{
				Path: path + "/image", Message: fmt.Sprintf("container %s needs CUDA %s (%s), and the newest driver among the %d matching nodes runs %s", k.Name, need, where, known, newest),
				Advice: "Use an image built for an older CUDA, or ask for nodes with a newer driver.",
			})
		}
	})
	return out
}
