package diagnose

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var noCompatiblePoolCheck = Check{
	Cause: "no-compatible-pool", Layer: L2, Owner: Platform, Stage: Place, Rank: 60,
	Title:   "No pool makes nodes like those that the pod asks for",
	Meaning: "There is no node for the pod, and whoever makes nodes has no pool whose nodes would have the labels that it asks for, or taints that it tolerates.",
	Remedy:  "Ask for what a pool has, or have a pool added.",
	Not:     "The cloud has no machines.",
	Find:    noCompatiblePool,
}

func noCompatiblePool(c *Case) []Finding {
	if c.autoscalerBlind() {
		return incompatibleSaid(c)
	}
	f := c.autoscalerStuck()
	if f == nil || !c.unmatched(f) || c.newNodeWouldSuit() || nodesWouldDo(c, f) {
		return nil
	}
	if pools := karpenterPools(c.Facts); len(pools) > 0 {
		return incompatiblePools(c, pools)
	}
	return incompatibleGroups(c)
}

// nodesWouldDo says whether there are nodes for the pod but for a taint, or a label that is written a little
// differently: then that is what has to be said.
func nodesWouldDo(c *Case, f *Fit) bool {
	if slices.ContainsFunc(c.unmet(), func(n need) bool { _, _, near := c.near(n); return near }) {
		return true
	}
	for i := range f.Nodes {
		n := &f.Nodes[i]
		taints := n.untolerated()
		if n.Empty == 0 || len(n.Barred) > 0 || len(taints) == 0 || len(taints) != len(n.Removed) {
			continue
		}
		if !slices.ContainsFunc(taints, func(t corev1.Taint) bool { k := kindOfTaint(c.Facts, t); return k == taintOfState || k == taintOfRole }) {
			return true
		}
	}
	return false
}

func incompatiblePools(c *Case, pools []*karpenterPool) []Finding {
	var texts []string
	out := Finding{Fit: true, Evidence: c.karpenterSaid().evidence(c)}
	sized := true
	for _, p := range pools {
		all := c.karpenterObstacles(p)
		var words []string
		small := false
		for _, o := range all {
			words = append(words, o.text)
			small = small || o.size
		}
		sized = sized && small && len(all) == 1
		texts = append(texts, fmt.Sprintf("NodePool %s: %s", p.GetName(), strings.Join(words, " and ")))
		if e, own, ok := c.karpenterAdapts(p, all); ok {
			if own {
				out.Owner = User
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
		s := &autoscalerSource{pool: pools[0], like: c.autoscalerWished()}
		out.Probe = &edit.Edit{Side: edit.Cluster, Text: "add a pool for the pod", Set: c.autoscalerNodes(s)}
	}
	return []Finding{out}
}

// karpenterAdapts changes the pod so that the pool makes nodes for it. own says that the pod is what is wrong: a word
// is not as the pool has it, or a toleration is missing that the pod's owner may add.
func (c *Case) karpenterAdapts(p *karpenterPool, all []karpenterObstacle) (e edit.Edit, own, ok bool) {
	var edits []edit.Edit
	own = true
	var tolerate []corev1.Taint
	for _, o := range all {
		switch {
		case o.taint != nil && c.mayTolerate(*o.taint):
			tolerate = append(tolerate, *o.taint)
		case o.need != nil:
			key, value, near := p.near(*o.need)
			one, can := c.drops(*o.need)
			if near {
				one, can = c.renames(*o.need, key, value)
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
		edits = append(edits, c.toleration(tolerate...))
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
	if len(after.karpenterObstacles(p)) > 0 {
		return edit.Edit{}, false, false
	}
	e.Set = after.autoscalerNodes(&autoscalerSource{pool: p, like: after.karpenterNode(p)})
	e.Assumes = fmt.Sprintf("Karpenter then makes %s of NodePool %s", autoscalerNumberOf(len(e.Set)), p.GetName())
	return e, own, true
}

// near is the label of the pool that the need probably means.
func (p *karpenterPool) near(n need) (key, value string, ok bool) {
	for _, want := range n.values {
		from := make(map[string]int)
		for _, v := range p.values(n.key) {
			from[v]++
		}
		if v, ok := nearest(want, from, meansSame); ok {
			return n.key, v, true
		}
	}
	if p.knows(n.key) {
		return "", "", false
	}
	keys := make(map[string]int)
	for k := range p.labels {
		keys[k]++
	}
	for _, r := range p.rules {
		keys[r.key]++
	}
	k, ok := nearest(n.key, keys, meansSame)
	if !ok {
		return "", "", false
	}
	for _, want := range n.values {
		if p.permits(k, want) {
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
func incompatibleGroups(c *Case) []Finding {
	said := c.autoscalerSaid()
	if !said.unsuited() {
		return nil
	}
	for _, n := range c.unmet() {
		if _, _, near := c.near(n); near || c.onlyPartitioned(n) {
			continue
		}
		have := valuesOf(c.Facts, n.key)
		f := Finding{
			Fit:      true,
			Message:  fmt.Sprintf("the pod asks for %s, no node has it, and the cluster autoscaler has no node group that would", n.text()),
			Evidence: append(said.evidence(c), facts.Evidence{Object: facts.RefTo(c.Pod).In(), Field: n.field(), Value: n.text()}),
		}
		for _, v := range byDistance(strings.Join(n.values, ","), have)[:min(len(have), 3)] {
			if e, ok := c.renames(n, n.key, v); ok {
				e.Cost = edit.CostSmall
				f.Edits = append(f.Edits, e)
			}
		}
		if e, ok := c.drops(n); ok {
			f.Edits = append(f.Edits, e)
		}
		return []Finding{f}
	}
	return nil
}

// incompatibleSaid goes by the words of whoever makes nodes.
func incompatibleSaid(c *Case) []Finding {
	if w := c.autoscalerSaid(); w.unsuited() && w.refused("Insufficient ") == 0 {
		return c.autoscalerHeard(Finding{Message: "the cluster autoscaler has no node group whose nodes have the labels that the pod asks for and taints that it tolerates", Evidence: w.evidence(c)})
	}
	w := c.karpenterSaid()
	if w == nil || len(w.parts) == 0 || slices.ContainsFunc(w.parts, func(p karpenterPart) bool { return !p.has(karpenterUnsuits...) || p.has("enough resources") }) {
		return nil
	}
	names := make(map[string]bool)
	for _, p := range w.parts {
		if p.pool != "" {
			names[p.pool] = true
		}
	}
	f := Finding{Message: "Karpenter has no pool whose nodes have the labels that the pod asks for and taints that it tolerates", Evidence: w.evidence(c)}
	if len(names) > 0 {
		f.Message += ": it looked at NodePool " + wording.AtMost(4, slices.Sorted(maps.Keys(names)))
	}
	if slices.ContainsFunc(w.parts, func(p karpenterPart) bool { return p.has("typo of") }) {
		f.Owner = User
	}
	return c.autoscalerHeard(f)
}
