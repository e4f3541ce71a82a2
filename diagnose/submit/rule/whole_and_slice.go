package rule

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/diagnose/submit/workload"
)

var wholeAndSlice = Rule{
	Code: "B101", Name: "whole-gpu-and-mig-slice",
	Title: "Whole GPUs and MIG slices in one pod",
	Why:   "A node that slices its GPUs seldom has whole ones to give as well, and CUDA sees one MIG device per process. Such a pod waits for a node that hardly anybody has, or starts and uses a part of what it holds.",
	find:  findWholeAndSlice,
}

func findWholeAndSlice(c *Case) (out []Finding) {
	c.each(func(p *workload.Part, pod *corev1.Pod) {
		var whole, slice corev1.ResourceName
		for _, name := range podspec.Names(podspec.Requests(pod)) {
			switch {
			case isMIG(name):
				slice = name
			case isGPU(name):
				whole = name
			}
		}
		if whole != "" && slice != "" {
			out = append(out, Finding{
				Path: p.Template + "/spec/containers", Message: fmt.Sprintf("its pods ask for whole GPUs (%s) and for MIG slices (%s)", whole, slice),
				Advice: "Ask for one of the two, or divide the work into two pods.",
			})
		}
	})
	return out
}
