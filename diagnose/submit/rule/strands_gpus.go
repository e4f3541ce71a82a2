package rule

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/diagnose/submit/workload"
)

var strandsGPUs = Rule{
	Code: "B109", Name: "strands-gpus",
	Title: "A request that leaves GPUs which nobody can use",
	Why:   "Seven of eight GPUs leave one over. More CPU or memory for a GPU than the node has for each leaves GPUs without any: they are free and nobody's pod fits, and the queue behind it waits.",
	find:  findStrandsGPUs,
}

func findStrandsGPUs(c *Case) (out []Finding) {
	c.each(func(p *workload.Part, pod *corev1.Pod) {
		device, ask := podspec.Device(pod)
		if ask == 0 || !isGPU(corev1.ResourceName(device)) {
			return
		}
		n, have := c.usual(pod, device)
		if n == nil || ask >= have {
			return
		}
		if over := have % ask; over > 0 {
			out = append(out, Finding{
				Path:    p.Template + "/spec/containers",
				Message: fmt.Sprintf("%d GPUs a pod leave %d of %d over on every node like %s", ask, over, have, n.Name),
				Advice:  fmt.Sprintf("Ask for a number that divides %d, or for all of them.", have),
			})
			return
		}
		fits := have / ask // pods, as far as GPUs go
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			want, all := podspec.Requests(pod)[name], n.Status.Allocatable[name]
			w, a := podspec.Amount(string(name), want), podspec.Amount(string(name), all)
			if w == 0 || w > a || a/w >= fits {
				continue
			}
			share := podspec.Quantity(string(name), a/fits)
			out = append(out, Finding{
				Path:    p.Template + "/spec/containers",
				Message: fmt.Sprintf("%s %s for %d of %d GPUs is more than their share: node %s holds %d such pods by %s and %d by GPUs, and strands %d GPUs", &want, name, ask, have, n.Name, a/w, name, fits, have-a/w*ask),
				Advice:  fmt.Sprintf("Ask for at most %s %s a pod.", &share, name),
			})
		}
	})
	return out
}

// usual is the first node of the size that most matching nodes have, by name, and how many of the device it has.
func (c *Case) usual(p *corev1.Pod, device string) (*corev1.Node, int64) {
	count, first := make(map[int64]int), make(map[int64]*corev1.Node)
	best := int64(0)
	for _, n := range c.matching(p) {
		q := n.Status.Allocatable[corev1.ResourceName(device)]
		size := q.Value()
		count[size]++
		if first[size] == nil || n.Name < first[size].Name {
			first[size] = n
		}
		if count[size] > count[best] || count[size] == count[best] && size > best {
			best = size
		}
	}
	return first[best], best
}
