package l2

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/engine/why"
)

var poolUnlikeItsWorkCheck = check.Check{
	Cause: "pool-unlike-its-work", Layer: check.L2, Owner: check.Platform, Stage: check.Place, Rank: 8,
	Title:   "A pool's label, taint or GPUs are not what its work asks for",
	Meaning: "One label or taint of a pool's nodes keeps the pod off all of them, or they have no GPUs. Other work, or a RuntimeClass, asks for the same as the pod, or runs there although it does not tolerate the taint; and none asks for what the pool has: the pool was changed, and not the work.",
	Remedy:  "Give the pool the label, the taint or the GPUs that its work asks for.",
	Not:     "The pod asks for the wrong label, or lacks a toleration.",
	Find:    poolUnlikeItsWork,
}

func poolUnlikeItsWork(c *check.Case) []check.Finding {
	fit := place.Stuck(c)
	if fit == nil || len(place.Terms(&c.Pod.Spec)) > 1 {
		return nil
	}
	groups := make(map[string][]*check.NodeFit)
	for i := range fit.Nodes {
		n := &fit.Nodes[i]
		if group := groupOf(n.Node); group != "" {
			groups[group] = append(groups[group], n)
		}
	}
	var out []check.Finding
	needs := place.NeedsOf(&c.Pod.Spec)
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		nodes := groups[name]
		g, ok := gapOf(c, nodes[0], needs)
		if !ok || slices.ContainsFunc(nodes[1:], func(n *check.NodeFit) bool { o, ok := gapOf(c, n, needs); return !ok || o.had != g.had }) {
			continue
		}
		g.group = name
		if g.poolsFault(c, nodes) {
			out = append(out, g.finding(c, nodes))
		}
	}
	return out
}

// groupOf is the pool that the node is of, by the label that names it at its provider.
func groupOf(n *corev1.Node) string {
	for _, key := range poolLabels {
		if v := n.Labels[key]; v != "" {
			return v
		}
	}
	return ""
}

// gap is the one thing that keeps the pod off a node.
type gap struct {
	group  string
	had    string // what the node has: "label team=rad", "taint team=rad:NoSchedule", "no nvidia.com/gpu"
	asked  string // what the pod asks for
	field  string // of the node
	need   *place.Need
	key    string // of the node's label that is nearly the need's
	taint  *corev1.Taint
	tol    *corev1.Toleration // of the pod, nearly of the taint
	device corev1.ResourceName
	like   *v1alpha1.Pool // the pool beside it, alike but for the GPUs that the pod asks for
}

// gapOf finds it; false where there is none, or more than one.
func gapOf(c *check.Case, n *check.NodeFit, needs []place.Need) (gap, bool) {
	if len(n.ExcludedBy) > 0 || n.Spec.Unschedulable || slices.ContainsFunc(n.Removed, func(r why.Clause) bool {
		return r.Kind != why.BySelector && r.Kind != why.ByAffinity && r.Kind != why.ByTaint
	}) {
		return gap{}, false
	}
	unmet := slices.DeleteFunc(slices.Clone(needs), func(need place.Need) bool { return need.Met(n.Labels) })
	taints := n.Untolerated()
	switch {
	case len(unmet) == 1 && len(taints) == 0 && n.Empty > 0:
		return labelGap(n.Node, unmet[0]), true
	case len(taints) == 1 && len(unmet) == 0 && n.Empty > 0:
		return taintGap(c, taints[0]), true
	case len(taints) == 0 && len(needs) > len(unmet) && n.Empty == 0:
		for _, name := range facts.ExtendedOf(c.Pod) {
			if q := n.Status.Capacity[corev1.ResourceName(name)]; q.IsZero() && !slices.ContainsFunc(unmet, func(need place.Need) bool { return !ofDevice(need.Key, name) }) {
				return gap{had: "no " + name, asked: name, field: fmt.Sprintf("status.capacity[%q]", name), device: corev1.ResourceName(name)}, true
			}
		}
	}
	return gap{}, false
}

// ofDevice says whether the label is one that a node has for the sake of the device, and lacks without it: nvidia.com/gpu.product
// beside nvidia.com/gpu.
func ofDevice(key, device string) bool { return strings.HasPrefix(key, device+".") }

func labelGap(n *corev1.Node, need place.Need) gap {
	g := gap{need: &need, asked: "label " + need.Text(), field: fmt.Sprintf("metadata.labels[%q]", need.Key), had: "no label " + need.Key}
	if v, ok := n.Labels[need.Key]; ok {
		g.had = fmt.Sprintf("label %s=%s", need.Key, v)
		return g
	}
	for _, key := range sortedLabels(n.Labels) {
		if place.Misspelt(key, need.Key) && slices.Contains(need.Values, n.Labels[key]) {
			g.key, g.had, g.field = key, fmt.Sprintf("label %s=%s", key, n.Labels[key]), fmt.Sprintf("metadata.labels[%q]", key)
			return g
		}
	}
	return g
}

func taintGap(c *check.Case, t corev1.Taint) gap {
	g := gap{taint: &t, had: "taint " + podspec.TaintText(t), asked: "no such taint", field: fmt.Sprintf("spec.taints[key=%q]", t.Key)}
	for i := range c.Pod.Spec.Tolerations {
		o := &c.Pod.Spec.Tolerations[i]
		if o.Key == "" || o.TolerationSeconds != nil {
			continue
		}
		sameValue := o.Operator != corev1.TolerationOpExists && o.Value == t.Value
		if o.Operator == corev1.TolerationOpExists && o.Key != t.Key {
			sameValue = keyedWith(c, o.Key, t)
		}
		if o.Key == t.Key || place.Misspelt(o.Key, t.Key) && (sameValue || o.Operator == corev1.TolerationOpExists) || sameValue && len(t.Value) > 2 {
			g.tol = o
			g.asked = "taint " + podspec.TaintText(g.meant())
			return g
		}
	}
	return g
}

// keyedWith says whether another node has the taint's value and effect under the key.
func keyedWith(c *check.Case, key string, t corev1.Taint) bool {
	return slices.ContainsFunc(c.Nodes, func(n *corev1.Node) bool {
		return slices.ContainsFunc(n.Spec.Taints, func(o corev1.Taint) bool { return o.Key == key && o.Value == t.Value && o.Effect == t.Effect })
	})
}

// meant is the taint that the pod tolerates.
func (g *gap) meant() corev1.Taint {
	t := *g.taint
	t.Key = g.tol.Key
	if g.tol.Operator != corev1.TolerationOpExists {
		t.Value = g.tol.Value
	}
	if g.tol.Effect != "" {
		t.Effect = g.tol.Effect
	}
	return t
}

// poolsFault says whether it is the pool that is wrong: others ask for what the pod asks for and none for what the pool has, or
// work runs there that the pool would not take now.
func (g *gap) poolsFault(c *check.Case, nodes []*check.NodeFit) bool {
	switch {
	case g.need != nil:
		had, same := nodes[0].Labels[g.need.Key], func(n place.Need) bool { return n.Key == g.need.Key && slices.Equal(n.Values, g.need.Values) }
		near := g.key != "" || had == "" || slices.ContainsFunc(g.need.Values, func(v string) bool { return place.Misspelt(had, v) })
		asks := g.others(c, func(p *corev1.Pod) bool { return slices.ContainsFunc(place.NeedsOf(&p.Spec), same) })
		byClass := slices.ContainsFunc(c.RuntimeClasses, func(r *nodev1.RuntimeClass) bool {
			return r.Scheduling != nil && slices.Contains(g.need.Values, r.Scheduling.NodeSelector[g.need.Key])
		})
		content := g.others(c, func(p *corev1.Pod) bool {
			return had != "" && slices.ContainsFunc(place.NeedsOf(&p.Spec), func(n place.Need) bool { return n.Key == g.need.Key && slices.Contains(n.Values, had) })
		})
		if content == 0 && g.otherModel(c, nodes[0].Node) {
			return true
		}
		return near && (asks > 0 || byClass) && content == 0
	case g.taint != nil:
		switch place.KindOfTaint(c.Facts, *g.taint) {
		case place.TaintOfState, place.TaintOfRole:
			return false
		}
		exact := g.others(c, func(p *corev1.Pod) bool { // of those that could go there: other pools may have the taint, and their own work
			return wouldHave(p, nodes) && slices.ContainsFunc(p.Spec.Tolerations, func(o corev1.Toleration) bool {
				return o.Operator != corev1.TolerationOpExists && podspec.Tolerates(&o, g.taint)
			})
		})
		if g.tol == nil || exact > 0 {
			return false
		}
		meant := g.meant()
		like := g.others(c, func(p *corev1.Pod) bool {
			return slices.ContainsFunc(p.Spec.Tolerations, func(o corev1.Toleration) bool {
				return o == *g.tol || o.Key == meant.Key && podspec.Tolerates(&o, &meant)
			})
		})
		return like > 0 || g.stays(c, nodes)
	}
	p := place.PoolNamed(c.Facts, g.group)
	return p != nil && p.GPUsPerNode() == 0 && string(g.device) == string(gpustack.WholeGPU)
}

// otherModel says whether the pod names this pool, and asks for GPUs that the nodes of a pool beside it have, which is alike and has
// as many: a pool is not written down with GPUs that it never had.
func (g *gap) otherModel(c *check.Case, n *corev1.Node) bool {
	own := place.PoolNamed(c.Facts, g.group)
	like := sibling(c, own)
	named := slices.ContainsFunc(place.NeedsOf(&c.Pod.Spec), func(need place.Need) bool {
		return slices.Contains(poolLabels, need.Key) && slices.Contains(need.Values, g.group)
	})
	if like == nil || !named || !ofDevice(g.need.Key, string(gpustack.WholeGPU)) || like.GPUsPerNode() != own.GPUsPerNode() || n.Labels[g.need.Key] == "" {
		return false
	}
	if slices.ContainsFunc(c.Nodes, func(n *corev1.Node) bool { return isOf(n, like) && g.need.Met(n.Labels) }) {
		g.like = like
	}
	return g.like != nil
}

// wouldHave says whether the labels of one of the nodes are what the pod asks for.
func wouldHave(p *corev1.Pod, nodes []*check.NodeFit) bool {
	needs := place.NeedsOf(&p.Spec)
	return slices.ContainsFunc(nodes, func(n *check.NodeFit) bool {
		return !slices.ContainsFunc(needs, func(need place.Need) bool { return !need.Met(n.Labels) })
	})
}

// stays says whether pods are on the nodes that do not tolerate the taint: it came after them.
func (g *gap) stays(c *check.Case, nodes []*check.NodeFit) bool {
	for _, n := range nodes {
		for _, p := range c.PodsOn(n.Name) {
			if !place.ByDaemonSet(p) && p.Annotations[corev1.MirrorPodAnnotationKey] == "" && slices.Contains(podspec.Untolerated(p, n.Node), *g.taint) {
				return true
			}
		}
	}
	return false
}

// others counts the workloads beside the target that have a pod of which it is true.
func (g *gap) others(c *check.Case, is func(*corev1.Pod) bool) int {
	owners := make(map[facts.Ref]bool)
	for _, p := range c.Pods {
		if top := facts.RefTo(c.TopOwner(p)); top != c.Target && !owners[top] && is(p) {
			owners[top] = true
		}
	}
	return len(owners)
}

func (g *gap) finding(c *check.Case, nodes []*check.NodeFit) check.Finding {
	mend := func(n *corev1.Node) { g.mend(c, n) }
	few := place.Fewest(c, nodes, mend)
	f := check.Finding{
		Fit: true, Probe: place.NodeProbe(nodes, mend),
		Message:  fmt.Sprintf("all nodes of pool %s have %s, and the pod, like other work, asks for %s", g.group, g.had, g.asked),
		Evidence: place.NodesShow(few, func(*corev1.Node) []facts.Evidence { return []facts.Evidence{{Field: g.field, Value: g.had}} }),
	}
	if g.like != nil {
		f.Message = fmt.Sprintf("all nodes of pool %s have %s, and the pod, which names the pool, asks for %s, which pool %s beside it has", g.group, g.had, g.asked, g.like.Name)
	}
	p := place.PoolNamed(c.Facts, g.group)
	if p == nil {
		d := difference{from: "its work", labels: make(map[string]string)}
		switch {
		case g.need != nil && len(g.need.Values) > 0:
			d.labels[g.need.Key] = g.need.Values[0]
		case g.tol != nil:
			d.drop, d.add = []corev1.Taint{*g.taint}, []corev1.Taint{g.meant()}
		default:
			return f
		}
		differs := make(map[string]difference)
		for _, n := range nodes {
			differs[n.Name] = d
		}
		f.Edits = []edit.Edit{{Side: edit.Cluster, Set: place.Mended(nodes, mend), Text: fmt.Sprintf("give the nodes of pool %s what work asks for: %s", g.group, d.wanted()), Command: commandsFor(nodes, differs)}}
		return f
	}
	object := c.ForeignNamed("Pool.berth.dev", "", p.Name)
	field, value, ops, text := g.patch(c, p)
	f.Evidence = append([]facts.Evidence{{Object: "pool/" + p.Name, Field: field, Value: value}}, f.Evidence...)
	if len(ops) > 0 {
		f.Edits = []edit.Edit{{Side: edit.Cluster, Set: place.Mended(nodes, mend), Text: text, Command: edit.PatchLine(object, "json", ops)}}
	}
	return f
}

// mend gives the node what the pod asks for.
func (g *gap) mend(c *check.Case, n *corev1.Node) {
	switch {
	case g.need != nil:
		n.Labels = maps.Clone(n.Labels)
		delete(n.Labels, g.key)
		if len(g.need.Values) > 0 {
			n.Labels[g.need.Key] = g.need.Values[0]
		}
	case g.taint != nil:
		n.Spec.Taints = slices.DeleteFunc(slices.Clone(n.Spec.Taints), func(t corev1.Taint) bool { return t == *g.taint })
		if meant := g.meant(); !slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return podspec.TaintText(t) == podspec.TaintText(meant) }) {
			n.Spec.Taints = append(n.Spec.Taints, meant)
		}
	default:
		place.Grant(c, n)
		g.describe(c, n)
	}
}

// describe gives the node the labels that come with the device: as a node of the pool has them whose GPUs it is to have, and
// where there is none as the pod asks for them.
func (g *gap) describe(c *check.Case, n *corev1.Node) {
	n.Labels = maps.Clone(n.Labels)
	if n.Labels == nil {
		n.Labels = make(map[string]string)
	}
	own := place.PoolNamed(c.Facts, g.group)
	if o := sibling(c, own); o != nil {
		if at := slices.IndexFunc(c.Nodes, func(n *corev1.Node) bool { return isOf(n, o) }); at >= 0 {
			for _, key := range sortedLabels(c.Nodes[at].Labels) {
				if ofDevice(key, string(g.device)) {
					n.Labels[key] = c.Nodes[at].Labels[key]
				}
			}
			return
		}
	}
	for _, need := range place.NeedsOf(&c.Pod.Spec) {
		if ofDevice(need.Key, string(g.device)) && len(need.Values) > 0 && !need.Met(n.Labels) {
			n.Labels[need.Key] = need.Values[0]
		}
	}
}

// sibling is another pool with the same labels that has GPUs, which the pool's may have been like; nil: there is none.
func sibling(c *check.Case, p *v1alpha1.Pool) *v1alpha1.Pool {
	for _, o := range place.Pools(c.Facts) {
		if p != nil && o.Name != p.Name && o.GPUsPerNode() > 0 && maps.Equal(o.Spec.Labels, p.Spec.Labels) {
			return o
		}
	}
	return nil
}

// patch is the field of the Pool that is wrong, its value, and the operations that mend it.
func (g *gap) patch(c *check.Case, p *v1alpha1.Pool) (field, value string, ops []edit.Op, text string) {
	switch {
	case g.like != nil:
		var words []string
		for _, have := range p.Spec.GPUs {
			words = append(words, fmt.Sprintf("%d %s", have.Count, have.Model))
		}
		gpus := c.ForeignNamed("Pool.berth.dev", "", g.like.Name).Object["spec"].(map[string]any)["gpus"]
		return "spec.gpus", strings.Join(words, ", "), []edit.Op{{Op: "replace", Path: "/spec/gpus", Value: gpus}}, fmt.Sprintf("have spec.gpus of pool %s be as pool %s has it", p.Name, g.like.Name)
	case g.need != nil:
		field, value = fmt.Sprintf("spec.labels[%q]", g.need.Key), "absent"
		if v, ok := p.Spec.Labels[g.need.Key]; ok {
			value = v
		}
		if g.key != "" {
			field, value = fmt.Sprintf("spec.labels[%q]", g.key), p.Spec.Labels[g.key]
			ops = append(ops, edit.Op{Op: "remove", Path: edit.Pointer("spec", "labels", g.key)})
		}
		if len(g.need.Values) == 0 {
			return field, value, nil, ""
		}
		if len(p.Spec.Labels) == 0 {
			ops = append(ops, edit.Op{Op: "add", Path: "/spec/labels", Value: map[string]string{}})
		}
		ops = append(ops, edit.Op{Op: "add", Path: edit.Pointer("spec", "labels", g.need.Key), Value: g.need.Values[0]})
		text = fmt.Sprintf("give pool %s %s", p.Name, g.asked)
		if value != "absent" {
			text += " in place of " + g.had
		}
		return field, value, ops, text
	case g.taint != nil:
		meant := g.meant()
		var taints []v1alpha1.Taint
		at := 0
		for i, t := range p.Spec.Taints {
			if t.Key == g.taint.Key && t.Value == g.taint.Value && t.Effect == g.taint.Effect {
				at = i
				t = v1alpha1.Taint{Key: meant.Key, Value: meant.Value, Effect: meant.Effect}
			}
			if !slices.Contains(taints, t) {
				taints = append(taints, t)
			}
		}
		return fmt.Sprintf("spec.taints[%d]", at), podspec.TaintText(*g.taint), []edit.Op{{Op: "add", Path: "/spec/taints", Value: taints}}, fmt.Sprintf("give pool %s %s in place of %s", p.Name, g.asked, g.had)
	}
	o := sibling(c, p)
	if o == nil {
		return "spec.gpus", "absent", nil, ""
	}
	gpus := c.ForeignNamed("Pool.berth.dev", "", o.Name).Object["spec"].(map[string]any)["gpus"]
	words := make([]string, len(o.Spec.GPUs))
	for i, g := range o.Spec.GPUs {
		words[i] = fmt.Sprintf("%d %s", g.Count, g.Model)
	}
	return "spec.gpus", "absent", []edit.Op{{Op: "add", Path: "/spec/gpus", Value: gpus}}, fmt.Sprintf("give the nodes of pool %s GPUs, as pool %s has them: %s", p.Name, o.Name, strings.Join(words, ", "))
}
