package rule

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/diagnose/submit/workload"
	"github.com/berth-dev/berth/engine/why"
)

var untoleratedTaint = Rule{
	Code: "B110", Name: "missing-toleration",
	Title:  "GPU nodes whose taint it does not tolerate",
	Why:    "GPU nodes are often tainted to keep other work away. A GPU pod without the toleration may only go to those that are not, which look full while the others idle.",
	Covers: []why.Cause{"gpu-taint-not-tolerated"},
	find:   findUntoleratedTaint,
}

func findUntoleratedTaint(c *Case) (out []Finding) {
	if c.Refused {
		return nil // clusters may add the toleration at admission, which it did not pass
	}
	c.each(func(p *workload.Part, pod *corev1.Pod) {
		device, ask := podspec.Device(pod)
		if ask == 0 {
			return
		}
		all := c.suitable(pod)
		kept := make(map[corev1.Taint]int)
		var order []corev1.Taint
		for _, n := range all {
			for _, t := range podspec.Untolerated(pod, n) {
				t.TimeAdded = nil
				if kept[t]++; kept[t] == 1 {
					order = append(order, t)
				}
			}
		}
		for _, t := range order {
			if !forGPUs(t, device) {
				continue // a team's own nodes, or one that is being repaired: to tolerate that would help, and be wrong
			}
			out = append(out, Finding{
				Path:    p.Template + "/spec/tolerations",
				Message: fmt.Sprintf("%d of %d nodes that have what it asks for are tainted %s, and it does not tolerate that", kept[t], len(all), podspec.TaintText(t)),
				Patch:   []edit.Op{{Op: "add", Path: p.Template + "/spec/tolerations/-", Value: tolerating(t)}},
			})
		}
	})
	return out
}

// forGPUs says whether the taint keeps work without GPUs away: its key is the device's name, or a word of its key or value
// says so (gpu, dedicated=gpu, sku=gpu-a100). One that speaks of a team's nodes, or of nodes in repair, does not.
func forGPUs(t corev1.Taint, device string) bool {
	if t.Key == device {
		return true
	}
	words := strings.FieldsFunc(strings.ToLower(t.Key+" "+t.Value), func(r rune) bool { return !unicode.IsLetter(r) })
	says := func(any ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(any, w) })
	}
	return says("gpu", "gpus", "nvidia", "amd", "accelerator", "accelerators") && !strings.Contains(t.Key, "node.kubernetes.io/") &&
		!says("team", "tenant", "owner", "user", "project", "reserved", "repair", "maintenance", "unhealthy", "quarantine", "broken", "error", "fault", "drain", "xid")
}

func tolerating(t corev1.Taint) map[string]any {
	out := map[string]any{"key": t.Key, "operator": string(corev1.TolerationOpExists), "effect": string(t.Effect)}
	if t.Value != "" {
		out["operator"], out["value"] = string(corev1.TolerationOpEqual), t.Value
	}
	return out
}
