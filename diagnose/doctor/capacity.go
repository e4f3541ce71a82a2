package doctor

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var capacityItem = Item{
	Code: "capacity", Title: "nodes offer all the GPUs that they have", Owner: check.Platform, Needs: []string{"nodes"}, Find: capacityFound,
	Meaning: "A GPU that is installed and not offered is paid for and used by nobody; as a rule it is broken.",
}

// gap is a difference between what a node offers and what it should.
type gap struct {
	severity Severity
	text     string // after the nodes' names
	next     string
	evidence []facts.Evidence
}

func capacityFound(c *Cluster) Result {
	r := Result{Looked: fmt.Sprintf("%s on %s", gpusOf(c.gpus), wording.Number(len(c.gpus), "node"))}
	gaps := make(map[string]gap)
	for _, n := range c.gpus {
		if g, ok := c.gapOf(n); ok {
			gaps[n.Name] = g
		}
	}
	for i := range c.groups {
		for _, g := range fewerThanOthers(&c.groups[i]) {
			if _, ok := gaps[g.node.Name]; !ok {
				gaps[g.node.Name] = g.gap
			}
		}
	}
	for _, nodes := range gather(c.gpus, func(n *gpuNode) string {
		g, ok := gaps[n.Name]
		if !ok {
			return ""
		}
		return string(g.severity) + g.text
	}) {
		g := gaps[nodes[0].Name]
		r.Findings = append(r.Findings, nodesAs(Finding{Severity: g.severity, Message: named(nodes) + ": " + g.text, Next: g.next}, nodes, func(n *gpuNode) []facts.Evidence { return gaps[n.Name].evidence }))
	}
	return r
}

const lost = "read the kernel log of the machine for Xid errors; drain it, then reset or replace the GPU"

// gapOf compares what the node offers with what is allocatable, what its labels count and what its machine type has.
func (c *Cluster) gapOf(n *gpuNode) (gap, bool) {
	for _, r := range n.resources() {
		have, want := n.allocatable(r), n.capacity(r)
		if have < want {
			next := lost
			if have == 0 {
				next = "look at the device plugin of the node first: it reports no GPU as healthy, or does not run"
			}
			return gap{
				Fail, fmt.Sprintf("%d of %d %s are allocatable", have, want, r), next,
				[]facts.Evidence{n.evidence(`status.allocatable["`+r+`"]`, fmt.Sprint(have)), n.evidence(`status.capacity["`+r+`"]`, fmt.Sprint(want))},
			}, true
		}
	}
	if c.byClaim(n) || c.young(n.Node) || gpustack.Repartitions(n.Node) {
		return gap{}, false
	}
	for _, v := range n.vendors {
		units, parts := n.offered(v)
		if units == 0 {
			continue // nothing works there: another item's
		}
		if parts {
			if g, ok := migGap(n); ok {
				return g, true
			}
			continue
		}
		if count, ok := v.counted(n.Node); ok && units < count {
			return gap{
				Fail, fmt.Sprintf("the capacity is %d, and label %s counts %d", units, v.count, count), lost,
				[]facts.Evidence{n.evidence("status.capacity", fmt.Sprint(units)), n.evidence(labelField(v.count), n.Labels[v.count]), n.evidence(labelField(v.replicas), n.Labels[v.replicas])},
			}, true
		}
		if g, ok := c.hardwareGap(n, v, units); ok {
			return g, true
		}
	}
	return gap{}, false
}

// hardwareGap compares with what the pool's spec or the machine type says is installed.
func (c *Cluster) hardwareGap(n *gpuNode, v *vendor, units int64) (gap, bool) {
	if v != nvidia {
		return gap{}, false
	}
	installed, says := gpustack.Installed(c.Facts, n.Node)
	if replicas, err := strconv.ParseInt(n.Labels[v.replicas], 10, 32); err == nil && replicas > 1 {
		installed *= replicas
	}
	if strings.Contains(n.Labels[v.product], "-MIG-") || installed <= units {
		return gap{}, false
	}
	return gap{
		Fail, fmt.Sprintf("the capacity is %d, and by %s the machine has %d", units, says, installed), lost,
		[]facts.Evidence{n.evidence("status.capacity", fmt.Sprint(units)), n.evidence("metadata.labels", says)},
	}, true
}

// migGap compares instances that the node offers with those that its labels count, by profile.
func migGap(n *gpuNode) (gap, bool) {
	const prefix = "nvidia.com/mig-"
	for _, key := range gpustack.SortedKeys(n.Labels) {
		profile, ok := strings.CutSuffix(key, ".count")
		if !ok || !strings.HasPrefix(key, prefix) {
			continue
		}
		count, err := strconv.ParseInt(n.Labels[key], 10, 32)
		if err != nil {
			continue
		}
		if replicas, err := strconv.ParseInt(n.Labels[profile+".replicas"], 10, 32); err == nil && replicas > 1 {
			count *= replicas
		}
		have := n.capacity(profile)
		if _, shared := n.Status.Capacity[corev1.ResourceName(profile+".shared")]; shared || have == count {
			continue
		}
		return gap{
			Fail, fmt.Sprintf("%d %s are offered, and its label counts %d", have, profile, count), "read the log of the MIG manager and of the device plugin on the node",
			[]facts.Evidence{n.evidence(`status.capacity["`+profile+`"]`, fmt.Sprint(have)), n.evidence(labelField(key), n.Labels[key])},
		}, true
	}
	return gap{}, false
}

// odd is a node that is not as the others of its group.
type odd struct {
	node *gpuNode
	gap
}

// fewerThanOthers are nodes that offer fewer whole GPUs than more than half of the nodes that should be like them: a GPU
// that has left the bus is not counted at all.
func fewerThanOthers(g *group) (out []odd) {
	var all []string
	for _, n := range g.nodes {
		all = append(all, n.resources()...)
	}
	slices.Sort(all)
	for _, r := range slices.Compact(all) {
		if !wholeGPU(r) {
			continue
		}
		amount := func(n *gpuNode) string { return strconv.FormatInt(n.capacity(r), 10) }
		usual, votes := g.most(func(n *gpuNode) string {
			if n.divided() {
				return ""
			}
			return amount(n)
		})
		want, err := strconv.ParseInt(usual, 10, 64)
		if err != nil || votes < 2 {
			continue
		}
		for _, n := range g.nodes {
			have := n.capacity(r)
			if have >= want || n.divided() || n.state != gpustack.NodeOpen || have == 0 && len(n.vendors) > 0 {
				continue // a node of a known vendor that offers nothing is the device plugin's matter
			}
			severity := Note
			if g.typed || have == 0 {
				severity = Warn
			}
			out = append(out, odd{n, gap{
				severity, fmt.Sprintf("%d %s are offered, and %d by %s of %s", have, r, want, wording.Number(votes, "node"), g.name), "count the GPUs in the machine (nvidia-smi -L there): one may have left the bus",
				[]facts.Evidence{n.evidence(`status.capacity["`+r+`"]`, amount(n))},
			}})
		}
	}
	return out
}

// divided says whether the node offers parts of GPUs, or shares: then counts of whole ones tell nothing.
func (n *gpuNode) divided() bool {
	for _, v := range n.vendors {
		if _, parts := n.offered(v); parts {
			return true
		}
		if n.Labels[v.replicas] != "" && n.Labels[v.replicas] != "1" || strings.Contains(n.Labels[v.product], "-MIG-") {
			return true
		}
	}
	return gpustack.Repartitions(n.Node)
}
