package rule

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/diagnose/submit/workload"
)

var requestsOnly = Rule{
	Code: "B102", Name: "gpu-in-requests-only",
	Title: "A device in requests and not in limits",
	Why:   "Devices cannot be overcommitted, so the API server refuses a pod that requests one and gives no limit. A Job or Deployment is taken all the same, and never gets its pods.",
	find:  findRequestsOnly,
}

func findRequestsOnly(c *Case) (out []Finding) {
	c.containers(func(_ *workload.Part, _ *corev1.Pod, k *corev1.Container, path string) {
		for _, name := range podspec.Names(k.Resources.Requests) {
			if _, ok := k.Resources.Limits[name]; ok || !podspec.Extended(name) {
				continue
			}
			q := k.Resources.Requests[name]
			at := path + edit.Pointer("resources", "limits", string(name))
			out = append(out, Finding{
				Path: path + edit.Pointer("resources", "requests", string(name)), Message: fmt.Sprintf("container %s requests %s %s and has no limit of it", k.Name, &q, name),
				Patch: []edit.Op{{Op: "add", Path: at, Value: q.String()}},
			})
		}
	})
	return out
}
