package diagnose

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/history"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/engine/why"
)

// Work can lose its room because other work was changed: its requests grew, it was scaled up, it was sent to other nodes. The
// scheduler is right to say that there is no room, and the change is why. As with the target's own history, going back is
// tried: a change of others is blamed only if the target starts without it.

// mostNeighbours bounds the changes of others that are tried for one target.
const mostNeighbours = 4

// growth is an earlier version of other work, and the edit that goes back to it.
type growth struct {
	recalled
	at   time.Time // when the newest pod of the present version was made
	edit edit.Edit
}

// neighbours looks for a change of other work without which the target would start, and shows it with the first finding that
// binds.
func (t *trial) neighbours() {
	first := t.first()
	if first == nil || !t.binds[first] || first.Stage > check.Place || first.Layer != check.L3 {
		return
	}
	if slices.Contains(aboutRoom, first.Check.Cause) {
		t.nominated(first)
		defer func() { first.Evidence = append(first.Evidence, t.heldBy(first)...) }()
	}
	for _, g := range t.growths(first) {
		if j := t.with(g.edit); j == nil || !j.free() {
			continue
		}
		c := &g.Changes[0]
		was, now := c.Words()
		first.Message += fmt.Sprintf("; in %s, %s is %s since %s, and was %s (%s): without that change there is room", g.name(), c.Field(), now, g.at.UTC().Format("2006-01-02 15:04 MST"), was, g.From)
		first.Evidence = append([]facts.Evidence{{Object: facts.RefTo(g.of).In(), Field: c.Field(), Value: fmt.Sprintf("%s; %s in %s", now, was, g.From)}}, first.Evidence...)
		first.Edits = append(first.Edits, g.edit)
		if g.at.After(t.top.GetCreationTimestamp().Time) { // the target was there before it
			first.Owner = check.User
		}
		return
	}
}

// aboutRoom are the causes with which others hold what the target waits for.
var aboutRoom = []why.Cause{why.ClusterFull, why.Fragmented, why.Stranded, why.TopologyFragmented, "gang-unplaceable", "victims-protected"}

// nominated shows the pods for which a scheduler keeps nodes that the target's pods could have.
func (t *trial) nominated(first *check.Finding) {
	for _, c := range t.base.cases {
		if c.Pod != first.Pod || c.Fit == nil {
			continue
		}
		for _, p := range c.Fit.Nominated {
			n := slices.IndexFunc(c.Fit.Nodes, func(n check.NodeFit) bool { return n.Name == p.Spec.NodeName && n.Open() })
			if n < 0 {
				continue
			}
			if !strings.Contains(first.Message, "goes first") {
				first.Message += fmt.Sprintf("; node %s is kept for pod %s/%s, which goes first", p.Spec.NodeName, p.Namespace, p.Name)
			}
			first.Evidence = append(first.Evidence, facts.Evidence{Object: facts.RefTo(p).In(), Field: "status.nominatedNodeName", Value: p.Spec.NodeName})
		}
	}
}

// heldBy are the makers of the pods that hold most of what is short on nodes that only room keeps the target's pods off.
func (t *trial) heldBy(first *check.Finding) []facts.Evidence {
	i := slices.IndexFunc(t.base.cases, func(c *check.Case) bool { return c.Pod == first.Pod && c.Fit != nil })
	if i < 0 {
		return nil
	}
	type holder struct {
		of   facts.Object
		held int64
		pods int
	}
	var all []*holder
	byMaker := make(map[facts.Object]*holder)
	fit := t.base.cases[i].Fit
	name := shortOf(fit)
	for i := range fit.Nodes {
		n := &fit.Nodes[i]
		if name == "" || !n.Open() || n.Empty == 0 {
			continue
		}
		for _, p := range t.d.facts.PodsOn(n.Name) {
			held := podspec.Requested(p, name)
			if held == 0 {
				continue
			}
			of := t.d.facts.TopOwner(p)
			h := byMaker[of]
			if h == nil {
				h = &holder{of: of}
				byMaker[of], all = h, append(all, h)
			}
			h.held += held
			h.pods++
		}
	}
	slices.SortFunc(all, func(a, b *holder) int {
		return cmp.Or(cmp.Compare(b.held, a.held), strings.Compare(facts.RefTo(a.of).In(), facts.RefTo(b.of).In()))
	})
	var out []facts.Evidence
	for _, h := range all[:min(len(all), 3)] {
		out = append(out, facts.Evidence{Object: facts.RefTo(h.of).In(), Field: name, Value: fmt.Sprintf("%s held by %s", why.Quantity(name, h.held), wording.Pods(h.pods))})
	}
	return out
}

// shortOf is the resource that is short on most of the nodes that only room keeps the pod off.
func shortOf(f *check.Fit) string {
	count := make(map[string]int)
	for i := range f.Nodes {
		if n := &f.Nodes[i]; n.Open() && n.Empty > 0 {
			for _, s := range n.Short {
				count[s.Resource]++
			}
		}
	}
	best := ""
	for _, name := range slices.Sorted(maps.Keys(count)) {
		if count[name] > count[best] {
			best = name
		}
	}
	return best
}

// name is the other work as a reader of the target's namespace finds it.
func (g *growth) name() string {
	r := facts.RefTo(g.of)
	return fmt.Sprintf("%s of namespace %s", r, r.Namespace)
}

// growths are the changes of work that holds what the target's pods wait for, the newest first.
func (t *trial) growths(first *check.Finding) []growth {
	f := t.d.facts
	var out []growth
	for _, of := range t.holders(first) {
		pods := slices.DeleteFunc(f.PodsMadeBy(of), func(p *corev1.Pod) bool {
			return p.Spec.NodeName == "" || facts.Ended(p) || p.DeletionTimestamp != nil
		})
		var at time.Time
		for _, p := range pods {
			if p.CreationTimestamp.After(at) {
				at = p.CreationTimestamp.Time
			}
		}
		for _, v := range slices.Concat(history.Versions(f, of), history.Scaled(f, of)) {
			g := growth{recalled: recalled{v, of}, at: at}
			if t.undo(&g, pods) {
				out = append(out, g)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b growth) int {
		return cmp.Or(b.at.Compare(a.at), strings.Compare(facts.RefTo(a.of).In(), facts.RefTo(b.of).In()))
	})
	return out[:min(len(out), mostNeighbours)]
}

// holders are the makers of pods on nodes that only room keeps the target's pods off; and, before a pod exists, of pods of its
// namespace, which count against the same quotas.
func (t *trial) holders(first *check.Finding) []facts.Object {
	f := t.d.facts
	var out []facts.Object
	add := func(p *corev1.Pod) {
		of := f.TopOwner(p)
		if facts.TemplateOf(of) != nil && of != t.top && !t.makes(of) && !slices.Contains(out, of) {
			out = append(out, of)
		}
	}
	for _, c := range t.base.cases {
		if c.Pod != first.Pod {
			continue
		}
		if first.Stage == check.Create {
			for _, p := range f.Pods {
				if p.Namespace == c.Pod.Namespace && p.Spec.NodeName != "" && !facts.Ended(p) {
					add(p)
				}
			}
			continue
		}
		if c.Fit == nil {
			continue
		}
		for i := range c.Fit.Nodes {
			if n := &c.Fit.Nodes[i]; n.Open() && n.Empty > 0 {
				for _, p := range f.PodsOn(n.Name) {
					add(p)
				}
			}
		}
	}
	return out
}

// undo makes the edit that goes back to the version: its pods stay on their nodes with what they asked for before, and those are
// gone that were not there, or would not be on that node. It reports false where nothing would be given back.
func (t *trial) undo(g *growth, pods []*corev1.Pod) bool {
	f := t.d.facts
	var back []edit.Op
	for i := range g.Changes {
		back = append(back, g.Changes[i].Back())
	}
	was, err := edit.Patch(g.of, "", back)
	if err != nil || facts.TemplateOf(was) == nil {
		return false
	}
	c := &g.Changes[0]
	before, now := c.Words()
	e := edit.Edit{
		Side: edit.Cluster, Cost: edit.CostConsent, Command: edit.PatchLine(g.of, "json", back),
		Text: fmt.Sprintf("go back to %s of %s: %s is %s, and was %s", g.From, g.name(), c.Field(), now, before),
	}
	if g.Revision > 0 && !paused(g.of) {
		r := facts.RefTo(g.of)
		e.Command = fmt.Sprintf("kubectl rollout undo %s -n %s --to-revision=%d", r, r.Namespace, g.Revision)
	}
	if g.of.GetNamespace() != t.top.GetNamespace() {
		e.Assumes = fmt.Sprintf("who runs %s agrees", g.name())
	}
	used := make(map[string]*corev1.ResourceQuota)
	for i, p := range slices.SortedFunc(slices.Values(pods), func(a, b *corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	}) {
		q := asBefore(f, p, facts.TemplateFor(was, p))
		n := f.NodeNamed(p.Spec.NodeName)
		if i >= replicasOf(was, len(pods)) || n == nil || !podspec.Suits(q, n) {
			q = nil
		}
		if q == nil {
			e.Gone = append(e.Gone, p)
		} else if !asksAlike(p, q) {
			e.Set = append(e.Set, q)
		}
		giveBack(f, used, p, q)
	}
	if len(e.Gone)+len(e.Set) == 0 {
		return false
	}
	for _, q := range f.ResourceQuotas {
		if u := used[q.Namespace+"/"+q.Name]; u != nil {
			e.Set = append(e.Set, u)
		}
	}
	g.edit = e
	return true
}

// asBefore is the pod as the template would have made it, on its node.
func asBefore(f *facts.Facts, p *corev1.Pod, t *corev1.PodTemplateSpec) *corev1.Pod {
	q := p.DeepCopy()
	q.Spec.NodeSelector, q.Spec.Affinity, q.Spec.Resources = t.Spec.NodeSelector, t.Spec.Affinity, t.Spec.Resources
	for i := range q.Spec.Containers {
		for j := range t.Spec.Containers {
			if q.Spec.Containers[i].Name == t.Spec.Containers[j].Name {
				q.Spec.Containers[i].Resources = *t.Spec.Containers[j].Resources.DeepCopy()
			}
		}
	}
	if t.Spec.PriorityClassName != p.Spec.PriorityClassName {
		value := int32(0)
		for _, c := range f.PriorityClasses {
			if c.Name == t.Spec.PriorityClassName || t.Spec.PriorityClassName == "" && c.GlobalDefault {
				value = c.Value
			}
		}
		q.Spec.PriorityClassName, q.Spec.Priority = t.Spec.PriorityClassName, &value
	}
	f.Default(q)
	return q
}

// asksAlike says whether the two ask for the same, with the same standing.
func asksAlike(p, q *corev1.Pod) bool {
	a, b := podspec.TotalRequests(p), podspec.TotalRequests(q)
	return podspec.Fits(a, b) && podspec.Fits(b, a) && p.Spec.PriorityClassName == q.Spec.PriorityClassName
}

// replicasOf is how many pods the object wants; otherwise, where it does not say.
func replicasOf(o facts.Object, otherwise int) int {
	switch o := o.(type) {
	case *appsv1.Deployment:
		return int(ptr.Deref(o.Spec.Replicas, 1))
	case *appsv1.StatefulSet:
		return int(ptr.Deref(o.Spec.Replicas, 1))
	}
	return otherwise
}

// giveBack takes what a pod asked for more than before out of what quotas of its namespace have counted; q is nil for a pod that
// would not be there. Quotas with scopes are left as they are.
func giveBack(f *facts.Facts, used map[string]*corev1.ResourceQuota, p, q *corev1.Pod) {
	for _, quota := range f.ResourceQuotas {
		if quota.Namespace != p.Namespace || len(quota.Spec.Scopes) > 0 || quota.Spec.ScopeSelector != nil {
			continue
		}
		key := quota.Namespace + "/" + quota.Name
		if used[key] == nil {
			used[key] = quota.DeepCopy()
		}
		for _, name := range podspec.Names(quota.Status.Used) {
			less := counted(p, name)
			if q != nil {
				less.Sub(counted(q, name))
			}
			left := used[key].Status.Used[name]
			left.Sub(less)
			used[key].Status.Used[name] = left
		}
	}
}

// counted is what a quota counts of a pod under the key.
func counted(p *corev1.Pod, key corev1.ResourceName) resource.Quantity {
	if key == corev1.ResourcePods || key == "count/pods" {
		return *resource.NewQuantity(1, resource.DecimalSI)
	}
	if name, ok := strings.CutPrefix(string(key), "limits."); ok {
		return podspec.TotalLimits(p)[corev1.ResourceName(name)]
	}
	return podspec.TotalRequests(p)[corev1.ResourceName(strings.TrimPrefix(string(key), "requests."))]
}
