package oracle

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
)

// clauses is everything that excludes the node for the pod, whatever is free on it.
func (a *audit) clauses(n engine.Node) (out []why.Clause) {
	w, p := a.w, a.pod
	add := func(kind why.ClauseKind, detail string, excluded bool) {
		if excluded {
			out = append(out, why.Clause{Kind: kind, Detail: detail})
		}
	}
	for _, k := range slices.Sorted(maps.Keys(p.Selector)) {
		v := p.Selector[k]
		got, ok := n.Labels[k]
		add(why.BySelector, k+"="+v, !ok || got != v)
	}
	for _, t := range n.Taints {
		add(why.ByTaint, taint(t), t.Effect != engine.PreferNoSchedule && !tolerates(p, t))
	}
	add(why.ByAffinity, "", p.Affinity != nil && !slices.ContainsFunc(p.Affinity, func(t engine.Term) bool { return matches(t, n) }))
	add(why.ByCordon, "", n.Cordoned && !tolerates(p, unschedulable))
	add(why.ByNodeName, p.NodeName, p.NodeName != "" && p.NodeName != n.Name)
	add(why.ByNodeSet, "", p.Nodes != nil && !slices.Contains(p.Nodes, n.Name))
	add(why.ByRefusal, w.refusal(p, n), w.refusal(p, n) != "")
	add(why.ByPort, a.port(n), a.port(n) != "")
	add(why.ByWholeNode, w.spoiler(p, n), w.spoiler(p, n) != "")
	add(why.ByNominated, "", a.crowded(n))
	out = append(out, w.broken(p, n)...)
	add(why.ByClaimsOnly, "", w.closed(p, n))
	if kind := a.claimClause(n); kind != "" {
		add(kind, p.Claims.String(), true)
	}
	add(why.ByWholeOnly, "", p.Part != nil && !w.claimsOnly(n) && !some(n.Devices, func(d engine.Device) bool { return d.Parts > 0 }))
	add(why.ByNamed, p.GPU.Which(), w.lacksNamed(p, n))
	short := a.partShort(n)
	add(why.ByParts, short, short != "")
	kind, excluded := a.devices(n)
	detail := ""
	if kind == why.ByModel {
		detail = a.cert.Model
	}
	if kind == why.ByNamed {
		detail = p.GPU.Which()
	}
	add(kind, detail, excluded)
	return out
}

// refusal is the reason why the node would not have the pod's gang; of several the first by pod.
func (w *world) refusal(p engine.Pod, n engine.Node) string {
	for _, r := range w.Refusals {
		if w.counts(r) && w.pod[r.Pod].Gang == p.Gang && r.Node == n.Name {
			return r.Reason
		}
	}
	return ""
}

// port is the first of the pod's ports that is in use on the node.
func (a *audit) port(n engine.Node) string {
	for _, b := range a.pod.Ports {
		for _, q := range a.w.neighbours(a.pod, n) {
			if clash(b, q.Ports) {
				return fmt.Sprintf("%s:%d/%s", cmp.Or(b.IP, "0.0.0.0"), b.Port, cmp.Or(b.Protocol, "TCP"))
			}
		}
	}
	return ""
}

// spoiler is the first workload by key for whose sake the pod may not have a GPU here.
func (w *world) spoiler(p engine.Pod, n engine.Node) (first string) {
	gpus := w.hasGPU
	whole := func(q engine.Pod) bool { return w.gang[q.Gang].Layout.WholeNodes }
	for _, q := range w.up(w.Pods) {
		spoils := w.at[q.Key].node == n.Name && q.Gang != p.Gang && gpus(p) && gpus(q) && (whole(p) || whole(q))
		if spoils && (first == "" || q.Gang < first) {
			first = q.Gang
		}
	}
	for _, h := range w.Holds {
		spoils := h.Node == n.Name && h.Gang != p.Gang && w.stands(h) && gpus(p) && amount(h.Requests, w.gpu) > 0 && (whole(p) || w.gang[h.Gang].Layout.WholeNodes)
		if spoils && (first == "" || h.Gang < first) {
			first = h.Gang
		}
	}
	return first
}

// crowded says whether the pod would find room, were it not for nominated pods.
func (a *audit) crowded(n engine.Node) bool {
	fits := func(w *world) bool {
		return !slices.ContainsFunc(a.pod.Requests, func(r engine.Amount) bool { return r.Value > 0 && w.free(a.pod, n, r.Resource) < r.Value })
	}
	return !fits(a.w) && fits(a.unnominated())
}

// unnominated is the world in which no pod is nominated.
func (a *audit) unnominated() *world {
	out := *a.w
	out.Pods = slices.Clone(a.w.Pods)
	for i := range out.Pods {
		out.Pods[i].Nominated = ""
	}
	return &out
}

// devices says whether the node's devices are not what the pod asks for although their number would do.
func (a *audit) devices(n engine.Node) (why.ClauseKind, bool) {
	w, p, count := a.w, a.pod, int(amount(a.pod.Requests, a.w.gpu))
	if !w.hasGPU(p) {
		return why.ByModel, false
	}
	if a.w.picky(p, a.cert.Model) && !slices.Contains(modelsOn(n), a.cert.Model) {
		return why.ByModel, true
	}
	if claimed(p, n) || w.claimsOnly(n) || p.Part != nil {
		return why.ByModel, false
	}
	if a.unnominated().free(p, n, w.gpu) < int64(count) || w.hasDevices(p, n, a.cert.Model) {
		return why.ByModel, false
	}
	if w.lacksNamed(p, n) {
		return why.ByModel, false // said
	}
	if p.GPU.Names() && w.hasDevices(nameless(p), n, a.cert.Model) {
		return why.ByNamed, true
	}
	if a.w.withoutParts().hasDevices(p, n, a.cert.Model) {
		return why.ByShared, true
	}
	p.GPU.Clique, p.GPU.NUMA = "", ""
	if w.hasDevices(p, n, a.cert.Model) {
		return why.ByIsland, true
	}
	return why.ByModel, true
}

// nameless is the pod that may use any device.
func nameless(p engine.Pod) engine.Pod {
	p.GPU.Only, p.GPU.Except, p.GPU.NotModels = nil, nil, nil
	return p
}

// hasDevices says whether the pod finds suitable devices on the node, all else aside.
func (w *world) hasDevices(p engine.Pod, n engine.Node, model string) bool {
	bare := engine.Pod{Key: p.Key, Gang: p.Gang, Spec: engine.Spec{GPU: p.GPU}}
	if w.picky(p, model) {
		bare.GPU.Models = []string{model}
	}
	bare.Requests = engine.Resources{{Resource: w.gpu, Value: amount(p.Requests, w.gpu)}}
	alone := *w
	alone.Refusals, alone.Holds, alone.gang, alone.lax = nil, nil, nil, true
	n.Cordoned, n.Taints, n.Allocatable = false, nil, engine.Resources{{Resource: w.gpu, Value: math.MaxInt32}}
	return len(alone.choices(bare, n, model)) > 0
}

// class is the node as the pod sees it.
func (a *audit) class(n engine.Node) (c why.Class) {
	for k, v := range n.Labels {
		if slices.Contains(asked(a.pod), k) && v != n.Name {
			c.Labels = append(c.Labels, k+"="+v)
		}
	}
	for _, t := range n.Taints {
		c.Taints = append(c.Taints, taint(t))
	}
	slices.Sort(c.Labels)
	slices.Sort(c.Taints)
	c.Models = modelsOn(n)
	slices.Sort(c.Models)
	c.Models = slices.Compact(c.Models)
	c.Cordoned, c.Allocatable, c.PerEmpty = n.Cordoned, append(byName(n.Allocatable), a.partSupply(n)...), a.perEmpty(n)
	return c
}

// perEmpty is how many pods the allocatable and the devices of the node hold, were it empty and healthy.
func (a *audit) perEmpty(n engine.Node) int64 {
	most := int64(math.MaxInt64)
	for _, r := range a.pod.Requests {
		if r.Value > 0 {
			most = min(most, amount(n.Allocatable, r.Resource)/r.Value)
		}
	}
	count := int(amount(a.pod.Requests, a.w.gpu))
	if count > 0 && len(n.Devices) > 0 {
		most = min(most, a.sets(n.Devices, count))
	}
	if fussy := a.pod.GPU.Clique == engine.Require || a.pod.GPU.NUMA == engine.Require; count > 0 && len(n.Devices) == 0 &&
		(a.w.picky(a.pod, a.cert.Model) && n.Model != a.cert.Model || count > 1 && fussy) {
		most = 0
	}
	if a.pod.Part != nil {
		most = min(most, a.partSets(n))
	}
	if c := claimsOn(a.pod, n); c != nil {
		most = min(most, claimSets(c, n, nil))
	}
	if a.w.closed(a.pod, n) {
		most = 0
	}
	if len(a.pod.Ports) > 0 {
		most = min(most, 1)
	}
	return most
}

// sets is the most suitable sets of so many devices that can be had at once.
func (a *audit) sets(free []engine.Device, count int) (most int64) {
	for _, set := range subsets(free, count, a.w.named) {
		wrong := func(d engine.Device) bool { return a.w.picky(a.pod, a.cert.Model) && d.Model != a.cert.Model }
		if lieTogether(a.pod, set) && !some(set, wrong) {
			rest := filter(free, func(d engine.Device) bool { return !slices.Contains(set, d) })
			most = max(most, 1+a.sets(rest, count))
		}
	}
	return most
}

// most is how many pods like this one the node holds beside those that are there.
func (w *world) most(p engine.Pod, n engine.Node, model string) (best int64) {
	p.Key += "'"
	w.Pods = append(w.Pods, p)
	for _, ids := range w.choices(p, n, model) {
		w.at[p.Key] = spot{n.Name, ids}
		best = max(best, 1+w.most(p, n, model))
		delete(w.at, p.Key)
	}
	w.Pods = w.Pods[:len(w.Pods)-1]
	return best
}

// domainOf is domain with "" as the level of the whole cluster.
func (w *world) domainOf(n engine.Node, level string) (string, bool) {
	if level == "" {
		return "", true
	}
	if d, ok := w.domain(n, level); ok {
		return d, true
	}
	return "", false
}

// looks is what tells classes apart, as one string.
func looks(c why.Class) string {
	return fmt.Sprintf("%q %q %v %v %q", c.Labels, c.Taints, c.Cordoned, c.Allocatable, c.Models)
}

// asked is the label keys that the pod asks about.
func asked(p engine.Pod) (keys []string) {
	keys = slices.Sorted(maps.Keys(p.Selector))
	terms := slices.Clone(p.Affinity)
	for _, pref := range p.Preferred {
		terms = append(terms, pref.Term)
	}
	for _, t := range terms {
		for _, r := range t.Labels {
			keys = append(keys, r.Key)
		}
	}
	return keys
}

// request is what the pod asks for, by name, its one of Pods aside.
func request(p engine.Pod) []engine.Amount {
	out := byName(slices.DeleteFunc(slices.Clone(p.Requests), func(a engine.Amount) bool { return a.Value == 0 || a.Resource == engine.Pods }))
	if p.Part != nil {
		out = append(out, partRequest(p.Part)...)
	}
	return out
}

func byName(rs engine.Resources) []engine.Amount {
	return slices.SortedFunc(slices.Values(rs), func(a, b engine.Amount) int { return cmp.Compare(a.Resource, b.Resource) })
}

func taint(t engine.Taint) string {
	if t.Value == "" {
		return fmt.Sprintf("%s:%s", t.Key, t.Effect)
	}
	return fmt.Sprintf("%s=%s:%s", t.Key, t.Value, t.Effect)
}
