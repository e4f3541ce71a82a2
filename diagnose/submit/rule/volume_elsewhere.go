package rule

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/submit/workload"
	"github.com/berth-dev/berth/engine/why"
)

var volumeElsewhere = Rule{
	Code: "B112", Name: "volume-in-another-zone",
	Title:  "A volume where few of the nodes are",
	Why:    "A volume of one zone keeps its pods in that zone. Where the GPUs are elsewhere they wait for ever, and where most of them are elsewhere they wait for a few nodes while others idle.",
	Covers: []why.Cause{"volume-in-another-zone"},
	find:   findVolumeElsewhere,
}

func findVolumeElsewhere(c *Case) (out []Finding) {
	c.each(func(p *workload.Part, pod *corev1.Pod) {
		nodes := c.matching(pod)
		for _, v := range place.VolumesOf(c.Facts, pod) {
			if !v.Bound() {
				continue
			}
			volume := place.VolumeNamed(c.Facts, v.Claim.Spec.VolumeName)
			if volume == nil {
				continue
			}
			key, values := place.PlaceOf(volume)
			if key == "" || len(nodes) == 0 {
				continue
			}
			near := 0
			for _, n := range nodes {
				if slices.Contains(values, n.Labels[key]) {
					near++
				}
			}
			if 2*near < len(nodes) {
				out = append(out, Finding{
					Path:    p.Template + "/spec/volumes",
					Message: fmt.Sprintf("claim %s has its volume in %s, where %d of the %d nodes are that match", v.Claim.Name, strings.Join(values, ", "), near, len(nodes)),
					Advice:  "Use a claim whose volume is where the nodes are, or one of a class that waits for its first pod.",
				})
			}
		}
	})
	return out
}
