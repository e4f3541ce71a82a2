package l2

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var migShapeMismatchCheck = check.Check{
	Cause: "mig-shape-mismatch", Layer: check.L2, Owner: check.Platform, Stage: check.Place, Rank: 13,
	Title:   "GPUs are divided in another way than the pod asks for",
	Meaning: "The nodes offer MIG instances and the pod asks for whole GPUs, or it asks for instances of a size that no node has, or by the names of the other MIG strategy: single calls every instance nvidia.com/gpu, mixed has a name for each size.",
	Remedy:  "Ask for what the nodes offer, or have a node divided as the pod needs it.",
	Not:     "The cluster is full.",
	Find:    migShapeMismatch,
}

func migShapeMismatch(c *check.Case) []check.Finding {
	if f := place.Stuck(c); f == nil || !check.AboutPlaces(f) || !gpustack.WantsGPU(c.Pod) {
		return nil
	}
	whole, parts := gpustack.GPURequest(c.Pod, gpustack.WholeGPU), gpustack.MIGRequest(c.Pod)
	if f := partitionsAlone(c); f != nil {
		return []check.Finding{*f}
	}
	if f := otherStrategy(c, whole, parts); f != nil {
		return f
	}
	var others, uneven []*check.NodeFit // offer GPUs, and not as asked; offer none for that reason
	for i := range c.Fit.Nodes {
		n := &c.Fit.Nodes[i]
		if gpustack.NodeNamed(c.Facts, n.Name) == nil || !attracts(c, n.Node) {
			continue
		}
		whole := gpustack.ChangedNode(gpustack.Repaired(c.Facts, n.Node), func(n *corev1.Node) { place.Wish(c, n) })
		switch {
		case gpustack.Of(c.Facts).Faults[n.Name] == gpustack.FaultUneven:
			uneven = append(uneven, n)
		case offersAll(c, whole):
			return nil // the shape exists: something else is in the way
		case gpustack.Repartitions(n.Node) && offersAll(c, gpustack.ChangedNode(whole, func(n *corev1.Node) { gpustack.Partition(c.Facts, n) })):
			return nil // and will exist
		case gpustack.OffersMIG(whole) || len(parts) > 0 && gpustack.Offers(whole, gpustack.WholeGPU) > 0:
			others = append(others, n)
		}
	}
	if len(uneven) > 0 && len(others) == 0 && len(parts) == 0 {
		return []check.Finding{unevenFinding(c, uneven)}
	}
	if len(others) == 0 || len(parts) == 0 && !slices.ContainsFunc(others, func(n *check.NodeFit) bool { return gpustack.OffersMIG(n.Node) }) {
		return nil
	}
	f := check.Finding{
		Fit: true, Message: fmt.Sprintf("the pod asks for %s, and %s %s %s", gpuAskWords(whole, parts), place.NamesOf(others), place.Verb(others, "offers", "offer"), offerWords(others[0].Node)),
		Evidence: place.NodesShow(others, partsShown), Edits: append(askOther(c, whole, parts, others), place.DivideAnew(c, whole, parts, others)...),
	}
	if len(f.Edits) == 0 || f.Edits[0].Side != edit.Cluster {
		f.Probe = place.NodeProbe(others, func(n *corev1.Node) { place.Grant(c, n) })
	}
	return []check.Finding{f}
}

// partitionsAlone is about a product that the pod asks for by its label, and that nodes have in MIG instances alone: with strategy
// single the label of such a node names the instance too.
func partitionsAlone(c *check.Case) *check.Finding {
	for _, n := range place.Unmet(c) {
		if !place.OnlyPartitioned(c, n) {
			continue
		}
		for _, node := range c.Nodes {
			has := node.Labels[n.Key]
			product, profile, ok := strings.Cut(has, "-MIG-")
			if !ok || !slices.Contains(n.Values, product) {
				continue
			}
			f := &check.Finding{
				Fit: true, Message: fmt.Sprintf("the pod asks for whole GPUs of %s, and node %s has them in MIG instances %s alone: its label %s is %s", product, node.Name, profile, n.Key, has),
				Evidence: []facts.Evidence{{Object: facts.RefTo(c.Pod).In(), Field: n.Field(), Value: n.Text()}, {Object: "node/" + node.Name, Field: fmt.Sprintf("metadata.labels[%q]", n.Key), Value: has}},
			}
			if e, ok := place.Renames(c, n, n.Key, has); ok {
				e.Assumes, e.Cost = "the program can do with MIG instances "+profile, edit.CostLess
				f.Edits = []edit.Edit{e}
			}
			return f
		}
	}
	return nil
}

// attracts says whether the pod's own wishes about labels allow the node.
func attracts(c *check.Case, n *corev1.Node) bool {
	ok, err := nodeaffinity.GetRequiredNodeAffinity(c.Pod).Match(n)
	return ok && err == nil
}

// offersAll says whether the node has some of every kind of GPU that the pod asks for.
func offersAll(c *check.Case, n *corev1.Node) bool {
	for _, name := range facts.ExtendedOf(c.Pod) {
		if strings.HasPrefix(name, "nvidia.com/") && gpustack.Offers(n, corev1.ResourceName(name)) == 0 {
			return false
		}
	}
	return true
}

func gpuAskWords(whole int64, parts []gpustack.MIGProfile) string {
	var out []string
	if whole == 1 {
		out = append(out, "1 whole GPU")
	} else if whole > 0 {
		out = append(out, fmt.Sprintf("%d whole GPUs", whole))
	}
	for _, p := range parts {
		out = append(out, string(p.Resource()))
	}
	return strings.Join(out, " and ")
}

func offerWords(n *corev1.Node) string {
	var out []string
	for _, p := range gpustack.MIGOf(n.Status.Allocatable) {
		out = append(out, fmt.Sprintf("%d of %s", gpustack.Offers(n, p.Resource()), p.Resource()))
	}
	if p, single := gpustack.SingleProfile(n); single {
		out = append(out, fmt.Sprintf("%d nvidia.com/gpu, each a MIG instance %s (strategy single)", gpustack.Offers(n, gpustack.WholeGPU), p.Name))
	} else if whole := gpustack.Offers(n, gpustack.WholeGPU); whole > 0 {
		out = append(out, wording.Number(whole, "whole GPU"))
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, ", ")
}

func partsShown(n *corev1.Node) []facts.Evidence {
	out := []facts.Evidence{place.QuantityShown(n.Status.Allocatable, "status.allocatable", gpustack.WholeGPU)}
	for _, p := range gpustack.MIGOf(n.Status.Allocatable) {
		out = append(out, place.QuantityShown(n.Status.Allocatable, "status.allocatable", p.Resource()))
	}
	return out
}

// unevenFinding is about GPUs that are divided differently where one strategy has to count them all.
func unevenFinding(c *check.Case, nodes []*check.NodeFit) check.Finding {
	return check.Finding{
		Fit: true, Probe: place.NodeProbe(nodes, func(n *corev1.Node) { place.Repaired(c, n) }),
		Message: fmt.Sprintf("%s %s no GPUs: they are divided in different ways, which the MIG strategy single cannot count", place.NamesOf(nodes), place.Verb(nodes, "offers", "offer")),
		Evidence: place.NodesShow(nodes, func(n *corev1.Node) []facts.Evidence {
			return append([]facts.Evidence{{Field: fmt.Sprintf("metadata.labels[%q]", gpustack.LabelProduct), Value: n.Labels[gpustack.LabelProduct]}}, place.GpusShown(n)...)
		}),
		Advice: "Divide all GPUs of the node alike, or use the MIG strategy mixed.",
	}
}

// askOther has the pod ask for what the nodes offer, where it asks for one GPU.
func askOther(c *check.Case, whole int64, parts []gpustack.MIGProfile, nodes []*check.NodeFit) []edit.Edit {
	var out []edit.Edit
	for _, p := range offeredParts(nodes) {
		switch {
		case whole > 0 && len(parts) > 0:
			if slices.Contains(parts, p) {
				out = append(out, place.AskInstead(c, p.Resource(), 1, fmt.Sprintf("ask for %s alone, without a whole GPU beside it", p.Resource())))
			}
		case whole == 1 && len(parts) == 0, whole == 0 && len(parts) == 1 && p.Memory >= parts[0].Memory:
			e := place.AskInstead(c, p.Resource(), 1, fmt.Sprintf("ask for 1 of %s instead of %s", p.Resource(), gpuAskWords(whole, parts)))
			if whole > 0 {
				e.Assumes = fmt.Sprintf("%d GB of GPU memory and %d of 7 parts of a GPU are enough", p.Memory, p.Slices)
			}
			out = append(out, e)
		}
	}
	if whole == 0 && len(parts) == 1 && slices.ContainsFunc(nodes, func(n *check.NodeFit) bool {
		if _, single := gpustack.SingleProfile(n.Node); single {
			return false // what it calls a GPU is a part of one
		}
		return gpustack.Offers(gpustack.Repaired(c.Facts, n.Node), gpustack.WholeGPU) > 0
	}) {
		out = append(out, place.AskInstead(c, gpustack.WholeGPU, 1, fmt.Sprintf("ask for 1 whole GPU instead of %s", parts[0].Resource())))
	}
	return slices.DeleteFunc(out[:min(len(out), 3)], func(e edit.Edit) bool { return len(e.Ops) == 0 })
}

// offeredParts are the profiles that the nodes offer, the largest first.
func offeredParts(nodes []*check.NodeFit) []gpustack.MIGProfile {
	sum := corev1.ResourceList{}
	for _, n := range nodes {
		podspec.Add(sum, n.Status.Allocatable)
	}
	return gpustack.MIGOf(sum)
}

// otherStrategy is about instances that exist under the name of MIG's other strategy: the pod asks for nvidia.com/mig-1g.10gb
// where nodes call it nvidia.com/gpu, or for nvidia.com/gpu of the product by which such nodes would be known.
func otherStrategy(c *check.Case, whole int64, parts []gpustack.MIGProfile) []check.Finding {
	if whole == 0 && len(parts) == 1 {
		return askedMixed(c, parts[0])
	}
	need := slices.IndexFunc(place.NeedsOf(&c.Pod.Spec), func(n place.Need) bool { return n.Key == gpustack.LabelProduct && len(n.Values) == 1 })
	if whole == 0 || len(parts) > 0 || need < 0 {
		return nil
	}
	return askedSingle(c, place.NeedsOf(&c.Pod.Spec)[need], whole)
}

// askedMixed: the pod uses the name of a profile, and nodes of the strategy single have such instances.
func askedMixed(c *check.Case, want gpustack.MIGProfile) []check.Finding {
	var nodes []*check.NodeFit
	for i := range c.Fit.Nodes {
		n := &c.Fit.Nodes[i]
		if gpustack.Offers(n.Node, want.Resource()) > 0 {
			return nil
		}
		if p, ok := gpustack.SingleProfile(n.Node); ok && p.Name == want.Name && attracts(c, n.Node) {
			nodes = append(nodes, n)
		}
	}
	n := gpustack.GPURequest(c.Pod, want.Resource())
	return strategyFinding(c, nodes, "single", fmt.Sprintf("nvidia.com/gpu, each a MIG instance %s", want.Name), string(want.Resource()),
		place.AskInstead(c, gpustack.WholeGPU, n, fmt.Sprintf("ask for %d nvidia.com/gpu, which is a MIG instance %s there, instead of %s", n, want.Name, want.Resource())))
}

// askedSingle: the pod asks for GPUs of a product that is a part of one, and nodes of the strategy mixed have such parts.
func askedSingle(c *check.Case, need place.Need, n int64) []check.Finding {
	product, want, ok := gpustack.CutProfile(need.Values[0])
	if !ok {
		return nil
	}
	var nodes []*check.NodeFit
	for i := range c.Fit.Nodes {
		n := &c.Fit.Nodes[i]
		if need.Met(n.Labels) {
			return nil
		}
		if n.Labels[gpustack.LabelProduct] == product && gpustack.Offers(n.Node, want.Resource()) > 0 {
			nodes = append(nodes, n)
		}
	}
	e := place.AskInstead(c, want.Resource(), n, fmt.Sprintf("ask for %d %s of %s instead of nvidia.com/gpu of %s", n, want.Resource(), product, need.Values[0]))
	moved, ok := place.Renames(c, need, need.Key, product)
	if !ok {
		return nil
	}
	e.Ops = append(e.Ops, moved.Ops...)
	return strategyFinding(c, nodes, "mixed", string(want.Resource()), fmt.Sprintf("nvidia.com/gpu of product %s, as the strategy single would name it", need.Values[0]), e)
}

func strategyFinding(c *check.Case, nodes []*check.NodeFit, strategy, offer, asked string, e edit.Edit) []check.Finding {
	if len(nodes) == 0 {
		return nil
	}
	return []check.Finding{{
		Fit: true, Layer: check.L3, Owner: check.User, Edits: []edit.Edit{e},
		Message: fmt.Sprintf("the pod asks for %s, and %s, whose MIG strategy is %s, %s %s", asked, place.NamesOf(nodes), strategy, place.Verb(nodes, "offers", "offer"), offer),
		Evidence: place.NodesShow(nodes, func(n *corev1.Node) []facts.Evidence {
			return append([]facts.Evidence{{Field: fmt.Sprintf("metadata.labels[%q]", gpustack.LabelMIGStrategy), Value: n.Labels[gpustack.LabelMIGStrategy]},
				{Field: fmt.Sprintf("metadata.labels[%q]", gpustack.LabelProduct), Value: n.Labels[gpustack.LabelProduct]}}, partsShown(n)...)
		}),
	}}
}
