package doctor

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/engine"
)

// capacities counts GPUs by resource. The engine counts nodes, pools and the largest jobs; models are counted here.
func (c *Cluster) capacities() []Capacity {
	if c.counted != nil {
		return c.counted
	}
	c.counted = []Capacity{}
	type counted struct {
		resource string
		nodes    []*gpuNode
	}
	var all []counted
	for _, r := range c.resources() {
		all = append(all, counted{r, c.gpus})
	}
	claims := claimedGPUs(c.Facts)
	for _, driver := range claims.drivers() {
		var nodes []*gpuNode
		for _, n := range c.Nodes {
			if g, _ := claims.node(n, driver); g != nil {
				nodes = append(nodes, g)
			}
		}
		all = append(all, counted{driver, nodes})
	}
	for _, one := range all {
		r := one.resource
		k := Capacity{Resource: r, Models: models(one.nodes, r)}
		if c.report != nil {
			report := c.report(r)
			k.All, k.Largest = usageOf(report.All), report.Largest
			for _, p := range report.Pools {
				if p.GPUs > 0 || p.Allocated > 0 {
					k.Pools = append(k.Pools, usageOf(p))
				}
			}
		}
		c.counted = append(c.counted, k)
	}
	return c.counted
}

// resources are the names under which nodes count GPUs, sorted.
func (c *Cluster) resources() []string {
	var out []string
	for _, n := range c.gpus {
		for _, r := range n.resources() {
			if n.capacity(r) > 0 || n.held[r] > 0 {
				out = append(out, r)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// models counts the GPUs of the resource by model, with the engine's formulas.
func models(all []*gpuNode, resource string) []Usage {
	var out []Usage
	for _, nodes := range gather(all, func(n *gpuNode) string {
		if n.capacity(resource) == 0 && n.held[resource] == 0 {
			return ""
		}
		return cmp.Or(n.product(), "?")
	}) {
		var u engine.Usage
		for _, n := range nodes {
			gpus, held := n.allocatable(resource), n.held[resource]
			u.Nodes++
			u.GPUs += gpus
			u.Allocated += held
			if held > 0 {
				u.InUse += max(gpus, held)
			} else if gpus > 0 {
				u.FreeNodes++
			}
		}
		one := usageOf(u)
		one.Model = nodes[0].product()
		out = append(out, one)
	}
	slices.SortFunc(out, func(a, b Usage) int { return strings.Compare(a.Model, b.Model) })
	return out
}

// Objects are what the engine has to know to count the GPUs of the resource, or of the driver that offers them in ResourceSlices:
// the nodes that have any, and the pods on them. A node that is closed to new work, whatever closes it, is cordoned for the engine: nothing can start there now.
func Objects(f *facts.Facts, resource string) []metav1.Object {
	states, name := gpustack.Of(f).States, corev1.ResourceName(resource)
	var out []metav1.Object
	if claims := claimedGPUs(f); claims[resource] != nil {
		for _, n := range f.Nodes {
			g, holder := claims.node(n, resource)
			if g == nil {
				continue
			}
			if states[n.Name] != gpustack.NodeOpen {
				g.Spec.Unschedulable = true
			}
			if out = append(out, g.Node); holder != nil {
				out = append(out, holder)
			}
		}
		return out
	}
	for _, n := range f.Nodes {
		if capacity := n.Status.Capacity[name]; capacity.IsZero() {
			continue
		}
		if states[n.Name] != gpustack.NodeOpen && !n.Spec.Unschedulable {
			n = shut(n)
		}
		out = append(out, n)
		for _, p := range f.PodsOn(n.Name) {
			out = append(out, p)
		}
	}
	return out
}

func shut(n *corev1.Node) *corev1.Node {
	closed := *n // nothing below Spec.Unschedulable is written to
	closed.Spec.Unschedulable = true
	return &closed
}
