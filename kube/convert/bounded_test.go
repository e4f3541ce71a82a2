package convert_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/berth-dev/berth/kube/convert"
)

// A pod above a limit is cut in a copy, which is still above one; a pod at the limits is itself.
func TestBounded(t *testing.T) {
	for name, grow := range map[string]func(p *corev1.Pod, n int){
		"tolerations": func(p *corev1.Pod, n int) { p.Spec.Tolerations = make([]corev1.Toleration, n*convert.MaxTolerations) },
		"terms": func(p *corev1.Pod, n int) {
			var terms []corev1.NodeSelectorTerm
			for range n * convert.MaxAffinityTerms {
				terms = append(terms, corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{requirement(8)}})
			}
			required(p, terms...)
		},
		"values": func(p *corev1.Pod, n int) {
			required(p, corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{requirement(n * convert.MaxAffinityValues)}})
		},
		"selector": func(p *corev1.Pod, n int) {
			p.Spec.NodeSelector = map[string]string{}
			for i := range n * convert.MaxSelectorLabels {
				p.Spec.NodeSelector[fmt.Sprint("k", i)] = "v"
			}
		},
		"claims": func(p *corev1.Pod, n int) {
			p.Spec.ResourceClaims = make([]corev1.PodResourceClaim, n*convert.MaxResourceClaims)
		},
		"containers": func(p *corev1.Pod, n int) { p.Spec.Containers = make([]corev1.Container, n*convert.MaxContainers) },
		"volumes":    func(p *corev1.Pod, n int) { p.Spec.Volumes = make([]corev1.Volume, n*convert.MaxVolumes) },
	} {
		at := waiting()
		if grow(at, 1); convert.Bounded(at) != at {
			t.Errorf("%s: at the limit it is cut: %q", name, convert.AboveLimits(at))
		}
		over := waiting()
		grow(over, 50)
		before := over.DeepCopy()
		cut := convert.Bounded(over)
		if len(convert.AboveLimits(over)) == 0 || len(convert.AboveLimits(cut)) == 0 {
			t.Errorf("%s: it is above %q, and its copy above %q", name, convert.AboveLimits(over), convert.AboveLimits(cut))
		}
		if !equality.Semantic.DeepEqual(before, over) {
			t.Errorf("%s: it was written to", name)
		}
		if name != "containers" && cut.Size() > over.Size()/10 {
			t.Errorf("%s: %d bytes are cut to %d", name, over.Size(), cut.Size())
		}
	}
}
