package l2

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/diagnose/internal/supply"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/kube/dialect/karpenter"
)

var noCompatiblePoolCheck = check.Check{
	Cause: "no-compatible-pool", Layer: check.L2, Owner: check.Platform, Stage: check.Place, Rank: 60,
	Title:   "No pool makes nodes like those that the pod asks for",
	Meaning: "There is no node for the pod, and whoever makes nodes has no pool whose nodes would have the labels that it asks for, or taints that it tolerates.",
	Remedy:  "Ask for what a pool has, or have a pool added.",
	Not:     "The cloud has no machines.",
	Find:    noCompatiblePool,
}

func noCompatiblePool(c *check.Case) []check.Finding {
	if supply.AutoscalerBlind(c) {
		return incompatibleSaid(c)
	}
	f := supply.AutoscalerStuck(c)
	if f != nil && !c.Hypothetical() {
		if out := tooFewKinds(c); out != nil {
			return out
		}
	}
	if f == nil || !place.Unmatched(c, f) && !noMachines(c) || supply.NewNodeWouldSuit(c) || nodesWouldDo(c, f) {
		return nil
	}
	if pools := supply.KarpenterPools(c.Facts); len(pools) > 0 {
		return incompatiblePools(c, pools)
	}
	return incompatibleGroups(c)
}

// noMachines says whether no node has the device that the pod asks for, and Karpenter says of each of its pools that it knows no machine for it.
func noMachines(c *check.Case) bool {
	w, pools := supply.KarpenterSaid(c), supply.KarpenterPools(c.Facts)
	device, _ := podspec.Device(c.Pod)
	return len(pools) > 0 && device != "" && place.Gap(c, device) && !slices.ContainsFunc(pools, func(p *karpenter.Pool) bool { return w.Unmet(p.GetName()) == "" })
}

// tooFewKinds is about pools that would make nodes for the pod, and want more kinds of machines to choose from than there are of those.
func tooFewKinds(c *check.Case) []check.Finding {
	w := supply.KarpenterSaid(c)
	for _, p := range supply.KarpenterPools(c.Facts) {
		if !w.About(p.GetName(), karpenter.TooFewValues) || len(supply.KarpenterObstacles(c, p)) > 0 {
			continue
		}
		f := check.Finding{
			Message:  fmt.Sprintf("NodePool %s would make a node for the pod, and wants more kinds of machines to choose from than suit it: %s", p.GetName(), karpenter.TooFewValues),
			Evidence: append(supply.KarpenterEvidence(w, c), facts.Evidence{Object: facts.RefTo(p.Unstructured).In(), Field: "spec.template.spec.requirements[].minValues"}),
			Advice:   fmt.Sprintf("Lower minValues in NodePool %s, or have it permit more kinds of machines.", p.GetName()),
			Fit:      true, Probe: supply.AutoscalerProbe(c, supply.Makes(c)),
		}
		return []check.Finding{f}
	}
	return nil
}

// nodesWouldDo says whether there are nodes for the pod but for a taint, or a label that is written a little
// differently: then that is what has to be said.
func nodesWouldDo(c *check.Case, f *check.Fit) bool {
	if slices.ContainsFunc(place.Unmet(c), func(n place.Need) bool { _, _, near := place.NearMiss(c, n); return near }) {
		return true
	}
	for i := range f.Nodes {
		n := &f.Nodes[i]
		taints := n.Untolerated()
		if n.Empty == 0 || len(n.ExcludedBy) > 0 || len(taints) == 0 || len(taints) != len(n.Removed) {
			continue
		}
		if !slices.ContainsFunc(taints, func(t corev1.Taint) bool {
			k := place.KindOfTaint(c.Facts, t)
			return k == place.TaintOfState || k == place.TaintOfRole
		}) {
			return true
		}
	}
	return false
}

func incompatiblePools(c *check.Case, pools []*karpenter.Pool) []check.Finding {
	var texts []string
	out := check.Finding{Fit: true, Evidence: supply.KarpenterEvidence(supply.KarpenterSaid(c), c)}
	sized := true
	for _, p := range pools {
		all := supply.KarpenterObstacles(c, p)
		var words []string
		small := false
		for _, o := range all {
			words = append(words, o.Text)
			small = small || o.Size
		}
		sized = sized && small && len(all) == 1
		if device, _ := podspec.Device(c.Pod); device != "" {
			if taken := supply.KarpenterSaid(c).Overhead(p.GetName(), device); taken != "" && taken != "0" {
				sized = false
				words = append(words, fmt.Sprintf("it counts %s %s of each node for DaemonSets", taken, device))
				out.Advice = fmt.Sprintf("Find the DaemonSet whose pods ask for %s, or pods that one owns: Karpenter keeps that much of each node for them.", device)
			}
		}
		texts = append(texts, fmt.Sprintf("NodePool %s: %s", p.GetName(), strings.Join(words, " and ")))
		if e, own, ok := karpenterAdapts(c, p, all); ok {
			if own {
				out.Owner = check.User
			}
			out.Edits = append(out.Edits, e)
		}
	}
	if sized {
		return nil // what the pod asks for is too large for all of them
	}
	out.Message = "Karpenter has no pool for the pod: " + wording.AtMost(4, texts)
	slices.SortStableFunc(out.Edits, func(a, b edit.Edit) int { return a.Cost - b.Cost })
	if len(out.Edits) == 0 {
		s := &supply.AutoscalerSource{Pool: pools[0], Like: supply.AutoscalerWished(c)}
		out.Probe = &edit.Edit{Side: edit.Cluster, Text: "add a pool for the pod", Set: supply.AutoscalerNodes(c, s)}
	}
	return []check.Finding{out}
}

// karpenterAdapts changes the pod so that the pool makes nodes for it. own says that the pod is what is wrong: a word
// is not as the pool has it, or a toleration is missing that the pod's owner may add.
func karpenterAdapts(c *check.Case, p *karpenter.Pool, all []supply.KarpenterObstacle) (e edit.Edit, own, ok bool) {
	var edits []edit.Edit
	own = true
	var tolerate []corev1.Taint
	for _, o := range all {
		switch {
		case o.Taint != nil && place.MayTolerate(c, *o.Taint):
			tolerate = append(tolerate, *o.Taint)
		case o.Need != nil:
			key, value, near := near(p, *o.Need)
			one, can := place.Drops(c, *o.Need)
			if near {
				one, can = place.Renames(c, *o.Need, key, value)
			}
			own = own && near
			if !can {
				return edit.Edit{}, false, false
			}
			edits = append(edits, one)
		default:
			return edit.Edit{}, false, false
		}
	}
	if len(tolerate) > 0 {
		edits = append(edits, place.Toleration(c, tolerate...))
	}
	if len(edits) == 0 || len(edits) > 2 {
		return edit.Edit{}, false, false
	}
	e = autoscalerJoin(edits)
	changed, err := edit.Patch(c.Pod, "", e.Ops)
	if err != nil {
		return edit.Edit{}, false, false
	}
	after := *c
	after.Pod = changed.(*corev1.Pod)
	if len(supply.KarpenterObstacles(&after, p)) > 0 {
		return edit.Edit{}, false, false
	}
	e.Set = supply.AutoscalerNodes(&after, &supply.AutoscalerSource{Pool: p, Like: supply.KarpenterNode(&after, p)})
	e.Assumes = strings.TrimPrefix(e.Assumes+"; ", "; ") + fmt.Sprintf("Karpenter then makes %s of NodePool %s", autoscalerNumberOf(len(e.Set)), p.GetName())
	return e, own, true
}

// near is the label of the pool that the need probably means.
func near(p *karpenter.Pool, n place.Need) (key, value string, ok bool) {
	for _, want := range n.Values {
		from := make(map[string]int)
		for _, v := range p.Values(n.Key) {
			from[v]++
		}
		if v, ok := place.Nearest(want, from, place.MeansSame); ok {
			return n.Key, v, true
		}
	}
	if p.Knows(n.Key) {
		return "", "", false
	}
	keys := make(map[string]int)
	for k := range p.Labels {
		keys[k]++
	}
	for _, r := range p.Rules {
		keys[r.Key]++
	}
	k, ok := place.Nearest(n.Key, keys, place.MeansSame)
	if !ok {
		return "", "", false
	}
	for _, want := range n.Values {
		if p.Permits(k, want) {
			return k, want, true
		}
	}
	return "", "", false
}

// autoscalerJoin does several edits of a workload as one.
func autoscalerJoin(edits []edit.Edit) edit.Edit {
	out := edits[0]
	for _, e := range edits[1:] {
		out.Text += " and " + e.Text
		out.Ops = append(slices.Clone(out.Ops), e.Ops...)
		out.Assumes = cmp.Or(out.Assumes, e.Assumes)
		out.Cost = max(out.Cost, e.Cost) + 1
	}
	return out
}

func autoscalerNumberOf(n int) string {
	if n == 1 {
		return "a node"
	}
	return fmt.Sprintf("%d nodes", n)
}

// incompatibleGroups goes by the cluster autoscaler's word, where no node has a label that the pod asks for.
func incompatibleGroups(c *check.Case) []check.Finding {
	said := supply.AutoscalerSaid(c)
	if !said.Unsuited() {
		return nil
	}
	for _, n := range place.Unmet(c) {
		if _, _, near := place.NearMiss(c, n); near || place.OnlyPartitioned(c, n) {
			continue
		}
		have := place.ValuesOf(c.Facts, n.Key)
		f := check.Finding{
			Fit:      true,
			Message:  fmt.Sprintf("the pod asks for %s, no node has it, and the cluster autoscaler has no node group that would", n.Text()),
			Evidence: append(supply.AutoscalerEvidence(said, c), facts.Evidence{Object: facts.RefTo(c.Pod).In(), Field: n.Field(), Value: n.Text()}),
		}
		for _, v := range place.ByDistance(strings.Join(n.Values, ","), have)[:min(len(have), 3)] {
			if e, ok := place.Renames(c, n, n.Key, v); ok {
				e.Cost = edit.CostSmall
				f.Edits = append(f.Edits, e)
			}
		}
		if e, ok := place.Drops(c, n); ok {
			f.Edits = append(f.Edits, e)
		}
		return []check.Finding{f}
	}
	return nil
}

// incompatibleSaid goes by the words of the component that makes nodes.
func incompatibleSaid(c *check.Case) []check.Finding {
	if w := supply.AutoscalerSaid(c); w.Unsuited() && w.Refused("Insufficient ") == 0 {
		return supply.AutoscalerHeard(c, check.Finding{Message: "the cluster autoscaler has no node group whose nodes have the labels that the pod asks for and taints that it tolerates", Evidence: supply.AutoscalerEvidence(w, c)})
	}
	w := supply.KarpenterSaid(c)
	if w == nil || len(w.Parts) == 0 || slices.ContainsFunc(w.Parts, func(p karpenter.Part) bool {
		return !p.Has(karpenter.Incompatible...) || p.Has("enough resources")
	}) {
		return nil
	}
	names := make(map[string]bool)
	for _, p := range w.Parts {
		if p.Pool != "" {
			names[p.Pool] = true
		}
	}
	f := check.Finding{Message: "Karpenter has no pool whose nodes have the labels that the pod asks for and taints that it tolerates", Evidence: supply.KarpenterEvidence(w, c)}
	if len(names) > 0 {
		f.Message += ": it looked at NodePool " + wording.AtMost(4, slices.Sorted(maps.Keys(names)))
	}
	if slices.ContainsFunc(w.Parts, func(p karpenter.Part) bool { return p.Has("typo of") }) {
		f.Owner = check.User
	}
	return supply.AutoscalerHeard(c, f)
}
