package doctor

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var fabricItem = Item{
	Code: "fabric", Title: "NVLink and the network between GPUs are whole", Owner: check.Platform, Needs: []string{"nodes"}, Find: fabricFound,
	Meaning: "A link that is down or repeats packets makes every collective operation wait for it.",
}

var (
	aboutFabric = regexp.MustCompile(`(?i)nvlink|nvswitch|fabric|infiniband|\befa\b|\broce\b`)
	// link is an extended resource that stands for a network device of GPUs.
	link = regexp.MustCompile(`(?i)rdma|infiniband|roce|(^|[/_.-])(hca|efa|ib|mlnx|vf|nic)s?([/_.-]|\d|$)`)
)

// linkRules are counters of NVLink that stand still on a link that is well.
var linkRules = []string{
	"DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL",
	"DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL",
}

func fabricFound(c *Cluster) Result {
	faults := c.conditionFaults(aboutFabric, "the node's health agent reports a fault of the fabric", "drain the node; check fabric manager, NVLink and network links")
	for i := range c.devices {
		faults = append(faults, c.devices[i].linkFaults()...)
	}
	out := findings(faults)
	for i := range c.groups {
		out = append(out, cliqueMissing(&c.groups[i])...)
		out = append(out, linksMissing(&c.groups[i])...)
	}
	for _, g := range c.gpus {
		out = append(out, linksLost(g)...)
	}
	return Result{Findings: out, Blind: c.unmeasured("fabric"), Looked: fmt.Sprintf("%s, %s measured", wording.Number(len(c.gpus), "node"), wording.Number(len(c.devices), "GPU"))}
}

func (m *measured) linkFaults() (out []fault) {
	const look = "drain the node; read nvidia-smi nvlink -e and the log of fabric manager there"
	if v, ok := m.value("DCGM_FI_DEV_FABRIC_MANAGER_STATUS"); ok && (v == 1 || v == 2 || v >= 4) { // 0: has none; 3: joined
		severity, text := Fail, "NVLink fabric not joined"
		if v == 2 {
			severity, text = Warn, "NVLink fabric being joined"
		}
		out = append(out, fault{severity: severity, text: text, next: look, object: m.object(), gpu: m.gpu, evidence: m.evidence("DCGM_FI_DEV_FABRIC_MANAGER_STATUS", v)})
	}
	for _, metric := range linkRules {
		if v, ok := m.value(metric); ok && v > 0 {
			severity := Warn
			if strings.Contains(metric, "RECOVERY") {
				severity = Fail
			}
			out = append(out, fault{severity: severity, text: "NVLink errors", next: look, object: m.object(), gpu: m.gpu, evidence: m.evidence(metric, v)})
		}
	}
	return out
}

// cliqueMissing are nodes that are in no NVLink domain where the others of their group are.
func cliqueMissing(g *group) []Finding {
	has := func(n *gpuNode) string {
		if n.Labels[clique] != "" {
			return "yes"
		}
		return "no"
	}
	if v, n := g.most(has); v != "yes" || n < 2 {
		return nil
	}
	var out []*gpuNode
	for _, n := range g.nodes {
		if n.Labels[clique] == "" {
			out = append(out, n)
		}
	}
	if len(out) == 0 {
		return nil
	}
	return []Finding{nodesAs(Finding{
		Severity: Warn, Message: fmt.Sprintf("%s %s in no NVLink domain, and other nodes of %s are", named(out), wording.InNumber(len(out), "is", "are"), g.name),
		Next: "check fabric manager and the NVLink switches of the machine: it has not joined, or feature discovery has not run since",
	}, out, func(n *gpuNode) []facts.Evidence { return []facts.Evidence{n.evidence(labelField(clique), "")} })}
}

// links are the network devices that the node counts, sorted.
func links(n *gpuNode) []string {
	var out []string
	//archtest:any-order sorted below
	for name, q := range n.Status.Capacity {
		if _, gpu := gpuResource(string(name)); !gpu && strings.Contains(string(name), "/") && link.MatchString(string(name)) && !q.IsZero() {
			out = append(out, string(name))
		}
	}
	slices.Sort(out)
	return out
}

// linksMissing are nodes without network devices that most of their group have.
func linksMissing(g *group) (out []Finding) {
	var all []string
	for _, n := range g.nodes {
		all = append(all, links(n)...)
	}
	slices.Sort(all)
	for _, name := range slices.Compact(all) {
		amount := func(n *gpuNode) string {
			q := n.Status.Capacity[corev1.ResourceName(name)]
			return q.String()
		}
		usual, votes := g.most(amount)
		if usual == "" || usual == "0" || votes < 2 {
			continue
		}
		var less []*gpuNode
		for _, n := range g.nodes {
			want := g.nodeWith(amount, usual).Status.Capacity[corev1.ResourceName(name)]
			if have := n.Status.Capacity[corev1.ResourceName(name)]; have.Cmp(want) < 0 {
				less = append(less, n)
			}
		}
		if len(less) == 0 {
			continue
		}
		out = append(out, nodesAs(Finding{
			Severity: Warn, Message: fmt.Sprintf("%s %s fewer %s than the %s that other nodes of %s have", named(less), wording.InNumber(len(less), "has", "have"), name, usual, g.name),
			Next: "check the network cards of the machine and the device plugin that counts them",
		}, less, func(n *gpuNode) []facts.Evidence {
			return []facts.Evidence{n.evidence(`status.capacity["`+name+`"]`, amount(n))}
		}))
	}
	return out
}

// nodeWith is the first node with the value.
func (g *group) nodeWith(value func(*gpuNode) string, v string) *gpuNode {
	return g.nodes[slices.IndexFunc(g.nodes, func(n *gpuNode) bool { return value(n) == v })]
}

// linksLost are network devices that are not healthy.
func linksLost(n *gpuNode) (out []Finding) {
	for _, name := range links(n) {
		have, all := n.Status.Allocatable[corev1.ResourceName(name)], n.Status.Capacity[corev1.ResourceName(name)]
		if have.Cmp(all) >= 0 {
			continue
		}
		out = append(out, nodesAs(Finding{
			Severity: Warn, Message: fmt.Sprintf("node %s: %s of %s %s are allocatable", n.Name, have.String(), all.String(), name),
			Next: "check the links of the machine's network cards",
		}, []*gpuNode{n}, func(n *gpuNode) []facts.Evidence {
			return []facts.Evidence{n.evidence(`status.allocatable["`+name+`"]`, have.String()), n.evidence(`status.capacity["`+name+`"]`, all.String())}
		}))
	}
	return out
}
