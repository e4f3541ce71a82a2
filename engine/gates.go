package engine

import (
	"slices"
	"strings"

	"github.com/berth-dev/berth/engine/why"
)

// gates lists what is shut before any node is looked at. decided says that placement would make no sense.
func (y *cycle) gates(g *gang) (gates []why.Gate, decided bool) {
	shut := func(cause why.Cause, object string, need, have int64) {
		gates = append(gates, why.Gate{Cause: cause, Object: object, Need: need, Have: have, Certificate: -1})
	}
	//mutate: gate-invalid-gang
	if reason := y.s.rejected[Ref{Kind: KindGang, Key: g.key}]; reason != "" && g.lone == nil {
		shut(why.InvalidObject, reason, 0, 0)
		return gates, true
	}
	//mutate: gate-gang-missing
	if !y.known(g) {
		shut(why.GangMissing, g.key, 0, 0)
		return gates, true
	}
	//mutate: gate-group-missing
	if names := y.orphans(g); len(names) > 0 {
		shut(why.GroupMissing, names[0], 0, 0)
		decided = true
	}
	//mutate: gate-unsupported
	for _, f := range y.features(g) {
		shut(why.UnsupportedFeature, string(f), 0, 0)
		decided = true
	}
	//mutate: gate-incomplete
	if !g.tree.complete() {
		b := g.tree.lacking()
		shut(why.GangIncomplete, b.group.Name, int64(b.min()), int64(len(b.pods)))
		decided = true
	}
	//mutate: gate-queue-limit
	gates = append(gates, y.quota(g)...)
	return gates, decided
}

// known says whether the gang that the pods name exists.
func (y *cycle) known(g *gang) bool { return g.lone != nil || g.spec != nil }

// orphans lists the subgroups that members name and the gang does not have, or that have groups below them.
func (y *cycle) orphans(g *gang) []string {
	if g.lone != nil || g.spec == nil {
		return nil
	}
	var out []string
	for _, p := range g.members {
		if p.Terminating || g.hasLeaf(p.Subgroup) {
			continue
		}
		out = append(out, p.Subgroup)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (g *gang) hasLeaf(name string) bool {
	if len(g.spec.Groups) == 0 {
		return name == ""
	}
	found := false
	for i := range g.spec.Groups {
		if g.spec.Groups[i].Parent == name {
			return false
		}
		found = found || g.spec.Groups[i].Name == name
	}
	return found
}

// features lists what waiting members ask for that the engine does not decide yet, sorted.
func (y *cycle) features(g *gang) []why.Feature {
	var out []why.Feature
	for _, p := range g.all() {
		if p.waits() {
			out = append(out, y.undecided(p)...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// undecided lists what the pod asks for that the engine does not decide yet.
func (y *cycle) undecided(p *pod) []why.Feature {
	shape := y.s.shapeOf(p)
	if y.trial {
		return nil
	}
	return shape.features
}

// lacking returns the first leaf that has too few pods to ever have its minimum.
func (b *branch) lacking() *branch {
	if len(b.children) == 0 {
		return b
	}
	for _, c := range b.children {
		if !c.complete() {
			return c.lacking()
		}
	}
	return b
}

// unplaced returns why the gang found no place: the levels that do not exist, with the proof, or what was found.
func (y *cycle) unplaced(g *gang, found []why.Gate) []why.Gate {
	unknown := y.unknownLevels(g)
	//mutate: gate-unknown-level
	if len(unknown) == 0 || found[0].Certificate < 0 { // which proves nothing
		return append(unknown, found...)
	}
	unknown[0].Certificate = found[0].Certificate
	return unknown
}

// unknownLevels lists, as gates, the levels that the gang asks for and that no node is in a domain of.
func (y *cycle) unknownLevels(g *gang) []why.Gate {
	var names []string
	g.tree.each(func(b *branch) {
		for _, name := range []string{b.group.Layout.Required, b.group.Layout.SegmentLevel} {
			if level := y.s.level(name); level >= 0 && !y.s.topology.populated(level) {
				names = append(names, name)
			}
		}
	})
	slices.Sort(names)
	var out []why.Gate
	for _, name := range slices.Compact(names) {
		out = append(out, why.Gate{Cause: why.UnknownTopologyLevel, Object: name, Certificate: -1})
	}
	return out
}

func (t *topology) populated(level int) bool {
	for _, d := range t.levels[level].byPath {
		if d.nodes > 0 {
			return true
		}
	}
	return false
}

// quota lists the limits of the gang's queue that the least its minimum can ask for would break.
func (y *cycle) quota(g *gang) []why.Gate {
	name := g.queue()
	if name == "" {
		return nil
	}
	q := y.s.queues[name]
	//mutate: gate-queue-missing
	if !y.s.valid(q) {
		return []why.Gate{{Cause: why.QueueMissing, Object: name, Certificate: -1}}
	}
	//mutate: gate-queue-forbidden
	if !q.spec.open(g.key) {
		return []why.Gate{{Cause: why.QueueForbidden, Object: name, Certificate: -1}}
	}
	var gates []why.Gate
	for _, limit := range q.spec.Limits.Sorted() {
		dim := y.s.dims.id(limit.Resource)
		need, used := g.tree.least(dim), q.used.at(dim)
		if need == 0 || used+need <= limit.Value {
			continue
		}
		gate := why.Gate{Cause: why.OverQueueLimit, Object: name, Resource: limit.Resource, Need: need, Have: used, Limit: limit.Value, Certificate: -1}
		if need+g.tree.held(dim) > limit.Value {
			gate.Cause = why.ExceedsQueueMaximum
		}
		gates = append(gates, gate)
	}
	return gates
}

// open says whether a workload of the key may use the queue.
func (q *Queue) open(key string) bool {
	namespace, _, _ := strings.Cut(key, "/")
	return q.Namespaces == nil || slices.Contains(q.Namespaces, namespace)
}

// queue returns the name of the queue that the gang is charged to.
func (g *gang) queue() string {
	if g.lone != nil {
		return g.lone.Queue
	}
	if g.spec == nil {
		return ""
	}
	return g.spec.Queue
}

// overdrawn lists the limits of the gang's queue that the pods, which have been seated, break.
func (y *cycle) overdrawn(g *gang, pods []*pod) []why.Gate {
	q := y.s.queues[g.queue()]
	if q == nil || q.spec == nil {
		return nil
	}
	var out []why.Gate
	for _, limit := range q.spec.Limits.Sorted() {
		dim := y.s.dims.id(limit.Resource)
		var need int64
		for _, p := range pods {
			need += p.amount(dim)
		}
		//mutate: gate-queue-limit-of-growth
		if used := q.used.at(dim); need > 0 && used > limit.Value {
			out = append(out, why.Gate{Cause: why.OverQueueLimit, Object: g.queue(), Resource: limit.Resource, Need: need, Have: used - need, Limit: limit.Value, Certificate: -1})
		}
	}
	return out
}

// least is the least of a resource that the branch can ask for to have its minimum.
func (b *branch) least(dim int) int64 {
	var each []int64
	n := 0
	if len(b.children) == 0 {
		n = b.min() - b.seated
		for _, p := range b.pods {
			if p.seat == nil {
				each = append(each, p.amount(dim))
			}
		}
	} else {
		n = b.minGroups()
		for _, c := range b.children {
			if c.complete() {
				each = append(each, c.least(dim))
			}
		}
	}
	slices.Sort(each)
	var sum int64
	for _, v := range each[:max(0, min(n, len(each)))] {
		sum += v
	}
	return sum
}

// held is what the branch's members have of a resource.
func (b *branch) held(dim int) int64 {
	var sum int64
	for _, p := range b.pods {
		if p.seat != nil {
			sum += p.amount(dim)
		}
	}
	for _, c := range b.children {
		sum += c.held(dim)
	}
	return sum
}

// verdict is what the gates amount to: the first decides, except that nothing is proved where the search for
// one of several GPU models ended at its budget.
func verdict(gates []why.Gate) why.Verdict {
	switch gates[0].Cause {
	case why.InvalidObject:
		return why.Invalid
	case why.UnsupportedFeature:
		return why.Unsupported
	case why.GangIncomplete, why.GangMissing, why.GroupMissing, why.QueueMissing, why.QueueForbidden, why.OverQueueLimit, why.ExceedsQueueMaximum:
		return why.Blocked
	}
	if slices.ContainsFunc(gates, func(g why.Gate) bool { return g.Cause == why.SearchBudget }) {
		return why.NotFound
	}
	return why.Impossible
}
