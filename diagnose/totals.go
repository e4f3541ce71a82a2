package diagnose

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// total is what the pod asks for in all, of requests or of limits: containers side by side, sidecars with them, init
// containers one after the other; what is said for the pod as a whole counts before that.
func total(p *corev1.Pod, of func(*corev1.ResourceRequirements) corev1.ResourceList) corev1.ResourceList {
	sum, most := corev1.ResourceList{}, corev1.ResourceList{}
	for i := range p.Spec.Containers {
		plus(sum, of(&p.Spec.Containers[i].Resources))
	}
	beside := corev1.ResourceList{} // sidecars that were started before
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		at := of(&c.Resources)
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			plus(sum, at)
			plus(beside, at)
			raise(most, beside)
			continue
		}
		step := beside.DeepCopy()
		plus(step, at)
		raise(most, step)
	}
	raise(sum, most)
	if whole := p.Spec.Resources; whole != nil {
		for name, q := range of(whole) {
			sum[name] = q
		}
	}
	for name, q := range p.Spec.Overhead {
		if have, ok := sum[name]; ok {
			have.Add(q)
			sum[name] = have
		}
	}
	return sum
}

func requestsOf(r *corev1.ResourceRequirements) corev1.ResourceList { return r.Requests }

func limitsOf(r *corev1.ResourceRequirements) corev1.ResourceList { return r.Limits }

func plus(sum, more corev1.ResourceList) {
	for name, q := range more {
		have := sum[name].DeepCopy()
		have.Add(q)
		sum[name] = have
	}
}

func raise(most, to corev1.ResourceList) {
	for name, q := range to {
		if have, ok := most[name]; !ok || have.Cmp(q) < 0 {
			most[name] = q.DeepCopy()
		}
	}
}

// names are the resources of the list, sorted.
func names(l corev1.ResourceList) []corev1.ResourceName {
	out := make([]corev1.ResourceName, 0, len(l))
	for name := range l {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// extended says whether nodes have the resource because somebody says so, as with GPUs: it comes in whole pieces, and
// requests equal limits.
func extended(name corev1.ResourceName) bool {
	s := string(name)
	return strings.Contains(s, "/") && !strings.Contains(s, "kubernetes.io/") && !strings.HasPrefix(s, "requests.")
}

// askers are the indexes of the containers that ask for the resource.
func askers(p *corev1.Pod, name corev1.ResourceName) []int {
	var out []int
	for i := range p.Spec.Containers {
		r := &p.Spec.Containers[i].Resources
		_, requests := r.Requests[name]
		_, limits := r.Limits[name]
		if requests || limits {
			out = append(out, i)
		}
	}
	return out
}

// asking are the operations after which the container asks for this much of the resource. What the template leaves
// to the API server is left to it.
func (c *Case) asking(container int, name corev1.ResourceName, amount resource.Quantity) []Op {
	var out []Op
	written := c.written().Spec.Containers
	if container >= len(written) {
		return nil
	}
	r := &written[container].Resources
	at := func(list string) string {
		return Pointer("spec", "containers", strconv.Itoa(container), "resources", list, string(name))
	}
	_, limited := r.Limits[name]
	_, requested := r.Requests[name]
	if limited {
		out = append(out, Op{Op: "replace", Path: at("limits"), Value: amount.String()})
	}
	if requested {
		out = append(out, Op{Op: "replace", Path: at("requests"), Value: amount.String()})
	}
	return out
}

// limiting are the operations that give a container a limit.
func (c *Case) limiting(at *container, name corev1.ResourceName, amount resource.Quantity) []Op {
	for _, w := range slices.Concat(c.written().Spec.InitContainers, c.written().Spec.Containers) {
		if w.Name == at.Name && w.Resources.Limits != nil {
			return []Op{{Op: "add", Path: at.path("resources", "limits", string(name)), Value: amount.String()}}
		}
	}
	return []Op{{Op: "add", Path: at.path("resources", "limits"), Value: map[string]string{string(name): amount.String()}}}
}
