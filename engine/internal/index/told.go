package index

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/why"
)

// What certificates tell of rules between pods: for each domain that a rule closes, the rule, the domain and the pod that is in
// the way. Of the domains that a rule closes the first by name are told so, and of the others the rule alone: a rule about
// single nodes may close thousands.

// toldRule is what is told of a rule, as of one state.
type toldRule struct {
	kind    why.ClauseKind
	text    string           // the rule
	domains map[int32]string // what is told of the domains that are told
}

// toldRules returns what is told of the class's rules, by their place in the list; empty for wishes, which exclude nothing. It is
// kept while no count of a rule changes (classRules.stamp). To make it costs a look at the pods of the domains that are told.
func (x *Index) toldRules(c *Class) []toldRule {
	r := c.rules
	if r.told != nil && r.toldAt == r.stamp {
		return r.told
	}
	r.told, r.toldAt = make([]toldRule, len(r.list)), r.stamp
	for i := range r.list {
		u := &r.list[i]
		if !u.kind.hard() {
			continue
		}
		t := toldRule{kind: u.clause(), text: u.text(), domains: make(map[int32]string)}
		for _, d := range u.view.sorted() {
			if len(t.domains) == mostTold {
				break
			}
			if int(d) < len(u.allow) && u.allow[d] == 0 && slices.ContainsFunc(u.view.nodes[d], func(n *cluster.Node) bool { return u.view.holds(d, n) }) {
				t.domains[d] = t.text + ": " + x.tell(c, u, d)
			}
		}
		r.told[i] = t
	}
	return r.told
}

// noteRules counts in the row the rules that close the node; of rules that read alike, such as those about the same labels in
// several namespaces, one.
func (x *Index) noteRules(c *Class, n *cluster.Node, row *why.Row) {
	var few [4]why.Clause
	said := few[:0]
	add := func(kind why.ClauseKind, detail string) {
		//mutate: rules-read-alike -> true
		if clause := (why.Clause{Kind: kind, Detail: detail, Nodes: 1}); !slices.Contains(said, clause) {
			said = append(said, clause)
			noteClause(row, clause)
		}
	}
	told := x.toldRules(c)
	for i := range c.rules.list {
		u := &c.rules.list[i]
		d := u.view.domain(n)
		switch {
		case !u.kind.hard():
		case d == noDomain:
			if u.kind == needsNear || u.kind == spreads {
				add(told[i].kind, told[i].text+": no such label")
			}
		case u.allow[d] > 0:
		case told[i].domains[d] != "":
			add(told[i].kind, told[i].domains[d])
		default:
			add(told[i].kind, told[i].text)
		}
	}
}

// clause is the kind of clause by which the rule excludes nodes.
func (u *rule) clause() why.ClauseKind {
	switch u.kind {
	case needsNear:
		return why.ByPodAffinity
	case needsFar:
		return why.ByPodAntiAffinity
	case keptFar:
		return why.ByOthersAntiAffinity
	case fragileNear, fragileEven:
		return why.ByPodsToCome
	}
	return why.BySpread
}

// text is the rule in words.
func (u *rule) text() string {
	if u.kind == fragileNear {
		var parts []string
		for _, t := range u.tally.Terms() {
			parts = append(parts, selectorText(t.Labels))
		}
		return strings.Join(parts, " and ") + " per " + u.fragile.Topology
	}
	if u.spread != nil {
		return fmt.Sprintf("%s per %s, skew %d", selectorText(u.spread.Labels), u.spread.Topology, u.spread.MaxSkew)
	}
	return selectorText(u.term.Labels) + " per " + u.term.Topology
}

// tell says in words what closes the domain: that there is no pod to be near, the counts of a constraint, or the pod that is in
// the way.
func (x *Index) tell(c *Class, u *rule, d int32) string {
	name := u.view.values[d]
	switch u.kind {
	case needsNear:
		return "none in " + name
	// With too few domains the fewest counts as 0; of a domain that pods are to come to, it counts with these in it.
	case spreads:
		low := u.least.first
		switch {
		case u.least.domains < int(max(1, u.spread.MinDomains)):
			low = 0
		case u.come[d] > 0:
			low = min(u.lowBeside(d), u.pods[d]+u.come[d])
		}
		return fmt.Sprintf("%d in %s, %d in the least", u.pods[d]+u.come[d], name, low)
	case fragileNear:
		return x.awaited(c, u)
	}
	return x.blocker(c, u, d) + " in " + name
}

// awaited is the first pod by key that comes to a domain where it would be the first, with the domain.
func (x *Index) awaited(c *Class, u *rule) string {
	first, in := "", ""
	for _, d := range u.view.sorted() {
		if int(d) >= len(u.come) || !u.waitsAlone(d) {
			continue
		}
		if p := x.blocker(c, u, d); first == "" || p < first {
			first, in = p, u.view.values[d]
		}
	}
	return first + " in " + in
}

// blocker is the first pod by key in the domain, or to come there, that the rule counts.
func (x *Index) blocker(c *Class, u *rule, d int32) string {
	first := ""
	look := func(p *cluster.Pod) {
		if (first == "" || p.Key < first) && u.minds(p) {
			first = p.Key
		}
	}
	for _, n := range u.view.nodes[d] {
		if !u.view.holds(d, n) {
			continue
		}
		if u.fragile == nil {
			for _, p := range n.Pods {
				look(p)
			}
		}
		for _, p := range n.Nominated {
			if p.Priority >= c.Priority {
				look(p)
			}
		}
		for _, h := range n.Held {
			x.m.EachComing(h, look)
		}
	}
	return first
}

// sorted lists the numbers of the domains by name. The list is kept until another domain comes.
func (v *keyView) sorted() []int32 {
	if len(v.order) != len(v.values) {
		v.order = v.order[:0]
		for d := range v.values {
			v.order = append(v.order, int32(d))
		}
		slices.SortFunc(v.order, func(a, b int32) int { return strings.Compare(v.values[a], v.values[b]) })
	}
	return v.order
}

// selectorText writes label requirements as kubectl takes them.
func selectorText(labels []api.Requirement) string {
	switch {
	case labels == nil:
		return "no pod"
	case len(labels) == 0:
		return "any pod"
	}
	parts := make([]string, len(labels))
	for i, r := range labels {
		switch {
		case r.Op == api.In && len(r.Values) == 1:
			parts[i] = r.Key + "=" + r.Values[0]
		case r.Op == api.NotIn && len(r.Values) == 1:
			parts[i] = r.Key + "!=" + r.Values[0]
		case r.Op == api.In:
			parts[i] = r.Key + " in (" + strings.Join(r.Values, ", ") + ")"
		case r.Op == api.NotIn:
			parts[i] = r.Key + " notin (" + strings.Join(r.Values, ", ") + ")"
		case r.Op == api.DoesNotExist:
			parts[i] = "!" + r.Key
		default:
			parts[i] = r.Key
		}
	}
	return strings.Join(parts, ", ")
}

// keptByRules says whether so many pods of the class would fit in one domain that counts, were it not for rules between pods. It
// is asked of classes under such rules alone, and measures nodes until there is room enough.
func (x *Index) keptByRules(c *Class, key Question) bool {
	if !c.Ruled() {
		return false
	}
	need := int64(key.Need)
	more := func(b *cluster.Bucket, from, to int) (sum int64) {
		for i := from; i < to && sum < need; i++ {
			if n := b.Nodes[i]; x.Matches(c, n) {
				sum += x.Room(c, n)
			}
		}
		return sum
	}
	if key.Level == cluster.NodeLevel {
		for _, b := range x.m.Topology.Buckets {
			for i, n := range b.Nodes {
				if (key.Pinned == "" || key.Pinned == n.Name) && more(b, i, i+1) >= need {
					return true
				}
			}
		}
		return false
	}
	for _, d := range x.layoutOf(key.Level).domains {
		if !d.counts || key.Pinned != "" && key.Pinned != d.name {
			continue
		}
		sum := int64(0)
		for _, b := range d.buckets {
			if sum += more(b, 0, len(b.Nodes)); sum >= need {
				return true
			}
		}
	}
	return false
}
