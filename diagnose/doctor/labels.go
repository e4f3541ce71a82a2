package doctor

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var labelsItem = Item{
	Code: "labels", Title: "labels of feature discovery are there and true", Owner: check.Platform, Needs: []string{"nodes"}, Find: labelsFound,
	Meaning: "Work selects GPUs by these labels. A node without them is not used, and one with wrong labels gets work that cannot run there.",
}

func labelsFound(c *Cluster) Result {
	r := Result{Looked: fmt.Sprintf("%s of %s", wording.Number(c.labelled(), "labelled node"), wording.Number(len(c.gpus), "node"))}
	for _, v := range vendors {
		var nodes []*gpuNode
		for _, n := range c.gpus {
			if slices.Contains(n.vendors, v) {
				nodes = append(nodes, n)
			}
		}
		r.Findings = slices.Concat(r.Findings, c.partly(v, nodes), unequal(v, nodes), c.untrue(v, nodes))
		if v == nvidia {
			r.Findings = append(r.Findings, c.unlabelled(v, nodes)...)
			continue
		}
		for _, pool := range gather(nodes, poolName) { // other vendors' labellers are an extra that a pool may do without
			r.Findings = append(r.Findings, c.unlabelled(v, pool)...)
		}
	}
	for i := range c.groups {
		r.Findings = append(r.Findings, otherProduct(&c.groups[i])...)
	}
	r.Findings = append(r.Findings, c.strangers()...)
	return r
}

func (c *Cluster) labelled() (n int) {
	for _, g := range c.gpus {
		if g.product() != "" {
			n++
		}
	}
	return n
}

const discovery = "look at the pod of feature discovery on the node, and restart it"

// unlabelled are nodes without the product's label, where others have it.
func (c *Cluster) unlabelled(v *vendor, nodes []*gpuNode) []Finding {
	var without []*gpuNode
	with := 0
	for _, n := range nodes {
		switch units, _ := n.offered(v); {
		case n.Labels[v.product] != "":
			with++
		case units > 0 && !c.young(n.Node):
			without = append(without, n)
		}
	}
	switch {
	case len(without) == 0:
		return nil
	case with == 0 && v != nvidia:
		return nil
	case with == 0:
		return []Finding{nodesAs(Finding{
			Severity: Note, Message: fmt.Sprintf("no node has the label %s: GPU models are not known", v.product),
			Next: "install GPU feature discovery: work can then ask for a model",
		}, without, func(n *gpuNode) []facts.Evidence { return []facts.Evidence{n.evidence(labelField(v.product), "")} })}
	}
	return []Finding{nodesAs(Finding{
		Severity: Warn, Message: fmt.Sprintf("%s %s GPUs and no label %s; %s it", named(without), wording.InNumber(len(without), "offers", "offer"), v.product, wording.Number(with, "other node")+" "+wording.InNumber(with, "has", "have")),
		Next: discovery,
	}, without, func(n *gpuNode) []facts.Evidence { return []facts.Evidence{n.evidence(labelField(v.product), "")} })}
}

// partly are nodes that lack labels which more than half of the labelled nodes of their group have.
func (c *Cluster) partly(v *vendor, nodes []*gpuNode) (out []Finding) {
	for _, pool := range gather(nodes, poolName) {
		pool = slices.DeleteFunc(slices.Clone(pool), func(n *gpuNode) bool { return n.Labels[v.product] == "" || c.young(n.Node) })
		count := make(map[string]int)
		for _, n := range pool {
			//archtest:any-order it only counts
			for key := range n.Labels {
				if v.writes(key) {
					count[key]++
				}
			}
		}
		missing := make(map[string][]string)
		for _, n := range pool {
			for _, key := range slices.Sorted(maps.Keys(count)) {
				if _, ok := n.Labels[key]; !ok && 2*count[key] > len(pool) && count[key] > 1 {
					missing[n.Name] = append(missing[n.Name], key)
				}
			}
		}
		for _, same := range gather(pool, func(n *gpuNode) string { return strings.Join(missing[n.Name], " ") }) {
			keys := missing[same[0].Name]
			out = append(out, nodesAs(Finding{
				Severity: Warn, Message: fmt.Sprintf("%s %s no label %s, which other nodes of %s have", named(same), wording.InNumber(len(same), "has", "have"), wording.Few(keys), poolName(same[0])), Next: discovery,
			}, same, func(n *gpuNode) (e []facts.Evidence) {
				for _, key := range keys[:min(3, len(keys))] {
					e = append(e, n.evidence(labelField(key), ""))
				}
				return e
			}))
		}
	}
	return out
}

// writes says whether the vendor's feature discovery writes the label on every node of a kind.
func (v *vendor) writes(key string) bool {
	if strings.HasPrefix(key, gpustack.LabelDeploy) || key == clique || strings.HasPrefix(key, "nvidia.com/mig.config") || strings.Contains(key, "driver-upgrade") || strings.Contains(key, "workload.config") {
		return false
	}
	return slices.ContainsFunc(v.prefixes, func(p string) bool { return strings.HasPrefix(key, p) })
}

// unequal are labels that differ between nodes with the same product, or CUDA versions of the same driver.
func unequal(v *vendor, nodes []*gpuNode) (out []Finding) {
	product := func(n *gpuNode) string { return n.Labels[v.product] }
	for _, same := range gather(nodes, product) {
		for _, key := range v.sameProduct {
			out = append(out, differ(same, key, "with "+product(same[0]))...)
		}
	}
	if v == nvidia {
		driver := func(n *gpuNode) string { s, _ := v.driverOf(n.Node); return s }
		for _, same := range gather(nodes, driver) {
			for _, key := range []string{"nvidia.com/cuda.runtime-version.full", "nvidia.com/cuda.runtime.major", "nvidia.com/cuda.runtime.minor"} {
				out = append(out, differ(same, key, "with driver "+driver(same[0]))...)
			}
		}
	}
	return out
}

// differ are the nodes whose label is not as most have it; where there is no such majority, all.
func differ(nodes []*gpuNode, key, which string) []Finding {
	g := group{nodes: nodes}
	value := func(n *gpuNode) string { return n.Labels[key] }
	kinds := gather(nodes, value)
	if len(kinds) < 2 {
		return nil
	}
	usual, _ := g.most(value)
	var odd []*gpuNode
	for _, n := range nodes {
		if v := value(n); v != "" && v != usual {
			odd = append(odd, n)
		}
	}
	message := fmt.Sprintf("%s %s %s=%s, and other nodes %s %s", named(odd), wording.InNumber(len(odd), "has", "have"), key, value(odd[0]), which, usual)
	if usual == "" {
		message = fmt.Sprintf("%s have different values of %s, and all are nodes %s", named(odd), key, which)
	}
	return []Finding{nodesAs(Finding{Severity: Warn, Message: message, Next: "find out which is true on the machine, then " + discovery}, odd, func(n *gpuNode) []facts.Evidence {
		return []facts.Evidence{n.evidence(labelField(key), value(n))}
	})}
}

// otherProduct are nodes with another product than most nodes of their group.
func otherProduct(g *group) []Finding {
	usual, votes := g.most((*gpuNode).whole)
	if usual == "" || votes < 2 {
		return nil
	}
	var out []*gpuNode
	for _, n := range g.nodes {
		if p := n.whole(); p != "" && p != usual {
			out = append(out, n)
		}
	}
	if len(out) == 0 {
		return nil
	}
	severity := Note
	if g.typed {
		severity = Warn
	}
	return []Finding{nodesAs(Finding{
		Severity: severity, Message: fmt.Sprintf("%s %s labelled %s, and %s of %s %s", named(out), wording.InNumber(len(out), "is", "are"), out[0].product(), wording.Number(votes, "node"), g.name, usual),
		Next: "find out what is in the machine: the label is wrong, or the node belongs to another pool",
	}, out, func(n *gpuNode) []facts.Evidence {
		return []facts.Evidence{n.evidence(labelField(n.vendors[0].product), n.product())}
	})}
}

var memoryInName = regexp.MustCompile(`-(\d{1,4})GB(-|$)`)

// untrue are labels that contradict what else is known of the node.
func (c *Cluster) untrue(v *vendor, nodes []*gpuNode) (out []Finding) {
	models := make(map[string]string)
	for i := range c.devices {
		if m := &c.devices[i]; m.node != "" && m.model != "" {
			models[m.node] = m.model
		}
	}
	for _, n := range nodes {
		for _, l := range []lie{countLie(v, n), memoryLie(v, n), migLie(v, n), modelLie(v, n, models[n.Name])} {
			if l.key != "" {
				out = append(out, nodesAs(Finding{Severity: Warn, Message: fmt.Sprintf("node %s: label %s=%s is not true: %s", n.Name, l.key, n.Labels[l.key], l.but), Next: discovery}, []*gpuNode{n}, func(n *gpuNode) []facts.Evidence {
					return []facts.Evidence{n.evidence(labelField(l.key), n.Labels[l.key])}
				}))
			}
		}
	}
	return out
}

// lie is a label that is not true, and what shows it; the zero value is none.
type lie struct{ key, but string }

func countLie(v *vendor, n *gpuNode) lie {
	s, ok := n.Labels[v.count]
	units, _ := n.offered(v)
	if v.count == "" || !ok || units == 0 {
		return lie{}
	}
	if count, err := strconv.ParseInt(s, 10, 32); err != nil || count <= 0 {
		return lie{v.count, fmt.Sprintf("the node offers %d", units)}
	}
	if s, ok := n.Labels[v.replicas]; ok && s != "" {
		if replicas, err := strconv.ParseInt(s, 10, 32); err != nil || replicas < 0 {
			return lie{v.replicas, "it is no number of shares"}
		}
	}
	return lie{}
}

func memoryLie(v *vendor, n *gpuNode) lie {
	const key = "nvidia.com/gpu.memory" // MiB
	m := memoryInName.FindStringSubmatch(n.Labels[v.product])
	have, err := strconv.ParseFloat(n.Labels[key], 64)
	if v != nvidia || m == nil || err != nil || strings.Contains(n.Labels[v.product], "-MIG-") {
		return lie{}
	}
	want, _ := strconv.ParseFloat(m[1], 64)
	if math.Abs(have/1024-want) <= want/8 { // drivers keep some of it, and some names count in powers of ten
		return lie{}
	}
	return lie{key, fmt.Sprintf("the product's name says %s GB", m[1])}
}

func migLie(v *vendor, n *gpuNode) lie {
	const key = "nvidia.com/mig.capable"
	if v == nvidia && n.Labels[key] == "false" && gpustack.OffersMIG(n.Node) {
		return lie{key, "the node offers MIG instances"}
	}
	return lie{}
}

func modelLie(v *vendor, n *gpuNode, model string) lie {
	if v != nvidia || model == "" || n.whole() == "" || strings.EqualFold(dashed(model), n.whole()) {
		return lie{}
	}
	return lie{v.product, "DCGM measures " + clipped(model)}
}

// strangers are resources that seem to count GPUs of vendors that are not known here.
func (c *Cluster) strangers() (out []Finding) {
	for _, nodes := range gather(c.gpus, func(n *gpuNode) string { return strings.Join(n.other, ", ") }) {
		out = append(out, nodesAs(Finding{
			Severity: Note, Message: fmt.Sprintf("%s %s %s: the vendor is not known here, so amounts are counted and labels and software are not checked", named(nodes), wording.InNumber(len(nodes), "offers", "offer"), wording.AtMost(3, nodes[0].other)),
			Next: "nothing", Owner: check.Nobody,
		}, nodes, func(n *gpuNode) []facts.Evidence {
			return []facts.Evidence{n.evidence(`status.capacity["`+n.other[0]+`"]`, fmt.Sprint(n.capacity(n.other[0])))}
		}))
	}
	return out
}
