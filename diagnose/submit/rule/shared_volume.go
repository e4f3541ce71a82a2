package rule

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/diagnose/submit/workload"
)

var sharedVolume = Rule{
	Code: "B122", Name: "one-node-volume-on-several-nodes",
	Title: "A volume for one node, and pods that need several",
	Why:   "A ReadWriteOnce volume is attached to one node at a time. The scheduler does not look at that: it gives the pods their nodes and their GPUs, and all but those of the first node wait in ContainerCreating with a Multi-Attach error.",
	find:  findSharedVolume,
}

func findSharedVolume(c *Case) (out []Finding) {
	c.each(func(p *workload.Part, pod *corev1.Pod) {
		if p.Wanted < 2 {
			return
		}
		together := 0 // how many of them the largest node holds
		for _, n := range c.matching(pod) {
			together = max(together, podspec.HoldsEmpty(n, &pod.Spec))
		}
		if together == 0 || together >= p.Wanted {
			return
		}
		for _, v := range place.VolumesOf(c.Facts, pod) {
			if v.Claim == nil || v.Own || !oneNode(v.Claim) {
				continue
			}
			out = append(out, Finding{
				Path:    p.Template + "/spec/volumes",
				Message: fmt.Sprintf("%d pods share claim %s, which one node at a time may have (%s), and a node holds %d of them at the most", p.Wanted, v.Claim.Name, v.Claim.Spec.AccessModes[0], together),
				Advice:  "Use a claim with ReadWriteMany or ReadOnlyMany, of a class whose storage can do that, or a claim for each pod.",
			})
		}
	})
	return out
}

// oneNode says whether one node at a time may have the claim's volume.
func oneNode(claim *corev1.PersistentVolumeClaim) bool {
	for _, mode := range claim.Spec.AccessModes {
		if mode == corev1.ReadWriteMany || mode == corev1.ReadOnlyMany {
			return false
		}
	}
	return len(claim.Spec.AccessModes) > 0
}
