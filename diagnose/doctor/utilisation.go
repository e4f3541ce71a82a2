package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/engine"
)

var utilisationItem = Item{
	Code: "utilisation", Title: "free GPUs are where work can use them", Owner: check.Scheduler, Needs: []string{"nodes", "pods"}, Find: utilisationFound,
	Meaning: "GPUs that are free one by one on many nodes do not help work that needs eight on one.",
}

func utilisationFound(c *Cluster) Result {
	r := Result{}
	var words []string
	for _, k := range c.capacities() {
		words = append(words, fmt.Sprintf("%d of %d %s in use (%s), fragmentation %s", k.All.Allocated, k.All.GPUs, k.Resource, percent(k.All.Utilisation), percent(k.All.Fragmentation)))
		r.Findings = append(r.Findings, c.fragmented(&k)...)
	}
	r.Looked = cmp.Or(strings.Join(words, "; "), "no GPU is offered")
	return r
}

func percent(v float64) string { return fmt.Sprintf("%.0f %%", 100*v) }

// fragmented is work that waits although as many GPUs are free as one of its pods asks for, on no node together.
func (c *Cluster) fragmented(k *Capacity) []Finding {
	onNode, biggest := int64(0), int64(0)
	for _, l := range k.Largest {
		if l.Level == engine.NodeLevel {
			onNode = max(onNode, l.GPUs)
		}
	}
	free := k.All.GPUs - k.All.Allocated
	for _, n := range c.gpus {
		biggest = max(biggest, n.allocatable(k.Resource))
	}
	f := Finding{Severity: Warn, Next: "have work moved together, or pack small work tightly; berth why POD says what would make room"}
	most := int64(0)
	for _, p := range c.pods {
		if asks := p.asks[k.Resource]; p.Spec.NodeName == "" && asks > onNode && asks <= free && asks <= biggest {
			most = max(most, asks)
			f.Objects = append(f.Objects, facts.RefTo(p.Pod).In())
			f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(p.Pod).In(), Field: "spec.containers", Value: fmt.Sprintf("%d %s", asks, k.Resource)})
		}
	}
	if len(f.Objects) == 0 || len(k.Largest) == 0 {
		return nil
	}
	f.Message = fmt.Sprintf("%s %s for up to %d %s on one node; %d are free, and no node has more than %d free", wording.Pods(len(f.Objects)), wording.InNumber(len(f.Objects), "waits", "wait"), most, k.Resource, free, onNode)
	return []Finding{f}
}

// capacities counts GPUs by resource. The engine counts nodes, pools and the largest jobs; models are counted here.
func (c *Cluster) capacities() []Capacity {
	if c.counted != nil {
		return c.counted
	}
	c.counted = []Capacity{}
	for _, r := range c.resources() {
		k := Capacity{Resource: r, Models: c.models(r)}
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
func (c *Cluster) models(resource string) []Usage {
	var out []Usage
	for _, nodes := range gather(c.gpus, func(n *gpuNode) string {
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

// Objects are what the engine has to know to count the GPUs of the resource: the nodes that have any, and the pods on
// them. A node that is closed to new work, whatever closes it, is cordoned for the engine: nothing can start there now.
func Objects(f *facts.Facts, resource string) []metav1.Object {
	states, name := gpustack.Of(f).States, corev1.ResourceName(resource)
	var out []metav1.Object
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
