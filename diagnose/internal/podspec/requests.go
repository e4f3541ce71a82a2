package podspec

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

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

// Requests is what the scheduler counts for the pod, the pod itself among it.
func Requests(p *corev1.Pod) corev1.ResourceList {
	sum := Total(p, func(r *corev1.ResourceRequirements) corev1.ResourceList {
		return FillFrom(maps.Clone(r.Requests), r.Limits)
	})
	sum[corev1.ResourcePods] = *resource.NewQuantity(1, resource.DecimalSI)
	return sum
}

func Subtract(from, asks corev1.ResourceList) {
	for name, q := range asks {
		left := from[name].DeepCopy()
		left.Sub(q)
		from[name] = left
	}
}

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
	return Amount(name, Total(p, RequestsOf)[corev1.ResourceName(name)])
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

// Total is what the pod asks for in all, of requests or of limits: containers side by side, sidecars with them, init
// containers one after the other; what is said for the pod as a whole counts before that.
func Total(p *corev1.Pod, of func(*corev1.ResourceRequirements) corev1.ResourceList) corev1.ResourceList {
	sum, most := corev1.ResourceList{}, corev1.ResourceList{}
	for i := range p.Spec.Containers {
		Add(sum, of(&p.Spec.Containers[i].Resources))
	}
	beside := corev1.ResourceList{} // sidecars that were started before
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		at := of(&c.Resources)
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			Add(sum, at)
			Add(beside, at)
			raise(most, beside)
			continue
		}
		step := beside.DeepCopy()
		Add(step, at)
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

func RequestsOf(r *corev1.ResourceRequirements) corev1.ResourceList { return r.Requests }

func LimitsOf(r *corev1.ResourceRequirements) corev1.ResourceList { return r.Limits }

func Add(sum, more corev1.ResourceList) {
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
