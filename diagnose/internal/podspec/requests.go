package podspec

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	helper "k8s.io/component-helpers/resource"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/kube/dialect"
)

// AmountAt reads a quantity of the resource in the engine's units: milli-CPU, bytes, or a count.
func AmountAt(name string, at any, path ...string) (int64, bool) {
	v := dialect.Value(at, path...)
	if v == nil {
		return 0, false
	}
	q, err := resource.ParseQuantity(strings.TrimSpace(fmt.Sprint(v)))
	if err != nil {
		return 0, false
	}
	return Amount(name, q), true
}

// Amounts is what one pod asks for in the engine's units; a limit counts where nothing is requested.
func Amounts(spec *corev1.PodSpec) map[string]int64 {
	out := make(map[string]int64)
	for name, q := range Requests(&corev1.Pod{Spec: *spec}) {
		if name != corev1.ResourcePods {
			out[string(name)] = Amount(string(name), q)
		}
	}
	return out
}

// HoldsEmpty is how many pods of the spec the node has room for when nothing runs on it.
func HoldsEmpty(n *corev1.Node, spec *corev1.PodSpec) int {
	free := make(map[string]int64)
	for name, q := range n.Status.Allocatable {
		free[string(name)] = Amount(string(name), q)
	}
	return Holds(free, spec)
}

// Holds is how many pods of the spec the amounts are enough for.
func Holds(free map[string]int64, spec *corev1.PodSpec) int {
	n := max(0, free[string(corev1.ResourcePods)])
	//archtest:any-order the least counts
	for name, v := range Amounts(spec) {
		if v > 0 {
			n = min(n, max(0, free[name]/v))
		}
	}
	return int(n)
}

// FillFrom is the list with what it lacks taken from another.
func FillFrom(l, from corev1.ResourceList) corev1.ResourceList {
	for name, q := range from {
		if _, ok := l[name]; !ok {
			if l == nil {
				l = corev1.ResourceList{}
			}
			l[name] = q.DeepCopy()
		}
	}
	return l
}

// ContainerLimits are the limits of the pod's containers together, as Kubernetes adds them up.
func ContainerLimits(p *corev1.Pod) corev1.ResourceList {
	return helper.AggregateContainerLimits(p, helper.PodResourcesOptions{})
}

// Requests is what the scheduler counts for the pod, the pod itself among it.
func Requests(p *corev1.Pod) corev1.ResourceList {
	p = p.DeepCopy()
	for _, containers := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range containers {
			r := &containers[i].Resources
			r.Requests = FillFrom(r.Requests, r.Limits)
		}
	}
	if whole := p.Spec.Resources; whole != nil {
		whole.Requests = FillFrom(whole.Requests, whole.Limits)
	}
	sum := TotalRequests(p)
	sum[corev1.ResourcePods] = *resource.NewQuantity(1, resource.DecimalSI)
	return sum
}

// Subtract takes what is asked for from the list.
func Subtract(from, asks corev1.ResourceList) {
	//archtest:any-order each amount is changed once
	for name, q := range asks {
		left := from[name].DeepCopy()
		left.Sub(q)
		from[name] = left
	}
}

// Fits reports whether everything that is asked for is free.
func Fits(asks, free corev1.ResourceList) bool {
	for name, q := range asks {
		if have := free[name]; !q.IsZero() && have.Cmp(q) < 0 {
			return false
		}
	}
	return true
}

// Amount is a quantity in the units of engine/why: thousandths of a core for cpu, else as it is.
func Amount(name string, q resource.Quantity) int64 {
	if name == string(corev1.ResourceCPU) {
		return q.MilliValue()
	}
	return q.Value()
}

// Quantity is the way back.
func Quantity(name string, v int64) resource.Quantity {
	switch {
	case name == string(corev1.ResourceCPU):
		return *resource.NewMilliQuantity(v, resource.DecimalSI)
	case name == string(corev1.ResourceMemory) || strings.HasSuffix(name, "storage"):
		return *resource.NewQuantity(v, resource.BinarySI)
	}
	return *resource.NewQuantity(v, resource.DecimalSI)
}

// Requested is how much of the resource the pod asks for.
func Requested(p *corev1.Pod, name string) int64 {
	if name == string(corev1.ResourcePods) {
		return 1
	}
	return Amount(name, TotalRequests(p)[corev1.ResourceName(name)])
}

// Device is the device that the pod asks for, and how many; "" where it asks for none.
func Device(p *corev1.Pod) (name string, n int64) {
	for _, name := range facts.ExtendedOf(p) {
		if n := Requested(p, name); n > 0 {
			return name, n
		}
	}
	return "", 0
}

// TotalRequests is what the pod requests in all, by upstream's formula: containers side by side, sidecars with them, init
// containers one after the other; what is said for the pod as a whole counts before that, and overhead on top.
func TotalRequests(p *corev1.Pod) corev1.ResourceList {
	return helper.PodRequests(guarded(p), helper.PodResourcesOptions{})
}

// TotalLimits is the same for limits. Overhead counts only for resources that are limited.
func TotalLimits(p *corev1.Pod) corev1.ResourceList {
	return helper.PodLimits(guarded(p), helper.PodResourcesOptions{})
}

// guarded is the pod, or a copy where the helper would write to it: it adds the overhead to the pod's own quantities
// (kubernetes/kubernetes#141241).
func guarded(p *corev1.Pod) *corev1.Pod {
	if p.Spec.Resources == nil || len(p.Spec.Overhead) == 0 {
		return p
	}
	c := *p
	c.Spec.Resources = p.Spec.Resources.DeepCopy()
	return &c
}

// Add adds the second list to the first.
func Add(sum, more corev1.ResourceList) {
	//archtest:any-order each amount is changed once
	for name, q := range more {
		have := sum[name].DeepCopy()
		have.Add(q)
		sum[name] = have
	}
}

// Names are the resources of the list, sorted.
func Names(l corev1.ResourceList) []corev1.ResourceName {
	out := make([]corev1.ResourceName, 0, len(l))
	for name := range l {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// Extended says whether nodes have the resource because somebody says so, as with GPUs: it comes in whole pieces, and
// requests equal limits.
func Extended(name corev1.ResourceName) bool {
	s := string(name)
	return strings.Contains(s, "/") && !strings.Contains(s, "kubernetes.io/") && !strings.HasPrefix(s, "requests.")
}

// Requesters are the indexes of the containers that ask for the resource.
func Requesters(p *corev1.Pod, name corev1.ResourceName) []int {
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
