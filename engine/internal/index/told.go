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
//
// For example (scenario pods-spread), a constraint closes racks a and b, and the certificate has a clause for each:
//
//	app=web per rack, skew 1: 2 in a, 1 in the least
//	app=web per rack, skew 1: 2 in b, 1 in the least
//
// Nothing here decides anything: allow, which decides, is worked out in rules.go, and a domain is told of only where allow is 0. So a
// sentence can be poor, and never contradicts the count beside it.
//
// Sentences are made when a certificate asks for them, and not with the counts. Most states are never asked about: a cycle that
// places a pod changes counts of its rules with each placement, and tells at the end.

// toldRule is what is told of a rule, as of one state.
type toldRule struct {
	kind    why.ClauseKind
	text    string           // the rule
	domains map[int32]string // what is told of the domains that are told
}

// toldRules returns what is told of the class's rules, by their place in the list; empty for wishes, which exclude nothing. It is
// kept while no count of a rule changes (classRules.stamp). To make it costs a look at the pods of the domains that are told.
//
// The stamp is a number of the room, which a rollback restores, but the sentences name pods. Two states with one stamp have the
// same pods on the nodes that count, because note sets moved wherever a node with pods is noted, also where the counts are equal.
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
			// A domain without a node in the cluster keeps its number, and would be told of for good: a class cannot be kept
			// from a place that is not there. One that came since the class was brought up to date has no answer yet.
			if int(d) < len(u.allow) && u.allow[d] == 0 && slices.ContainsFunc(u.view.nodes[d], func(n *cluster.Node) bool { return u.view.holds(d, n) }) {
				t.domains[d] = t.text + ": " + x.tell(c, u, d)
			}
		}
		r.told[i] = t
	}
	return r.told
}

// noteRules counts in the row the rules that close the node; of rules that read alike, such as those about the same labels in
// several namespaces, one. A node that several rules close is counted by each: clauses say how many nodes each of them is about, and do
// not add up to the nodes of the row. Few rules close one node, so that a list on the stack finds those that read alike.
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
		// As in limit: what asks for something in the domain closes a node that is in none.
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

// clause is the kind of clause by which the rule excludes nodes. Rules of pods to come have one of their own, since what would open the
// node is another thing: those pods start or are given up, and nobody has to be evicted.
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

// text is the rule in words, without a domain: what reads alike is one clause. All terms of a fragile affinity count the same pods,
// so that they are one rule, and are told as one.
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
	// With too few domains the fewest counts as 0; of a domain that pods are to come to, it counts with these in it. Those are
	// the numbers that admitsSpread compared: to tell others would show a reader a difference that is within the skew.
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

// awaited is the first pod by key that comes to a domain where it would be the first, with the domain. A fragile rule closes all domains
// but those, so that the pod to be told of is not in the domain that is closed: all domains are looked through.
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

// blocker is the first pod by key in the domain, or to come there, that the rule counts. The first is taken so that the same state is told in
// the same words, in whatever order pods came to nodes. Evicting it alone need not open the domain; what does is for package
// preempt to find.
//
// Whom it looks at is whom counts and coming count: pods on the node, unless the rule is one of pods to come; nominated pods that do
// not give way to the class; and pods that a place is held for. It costs a look at each.
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

// sorted lists the numbers of the domains by name. The list is kept until another domain comes. Numbers are never taken back (keyView), so that
// a list of the same length is of the same domains.
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

// selectorText writes label requirements as kubectl takes them, so that a reader can paste one after kubectl get pods -l. Requirements that
// are nil select no pod in Kubernetes, and ones that are empty all of them.
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
//
// It decides which cause a certificate names. Where the pods would fit, that is the rules, and moving or ending the pods that they tell of
// may help; where they would not, it is what the counts say, and the rules are beside the point.
//
// The cells cannot answer it: the limit of the rules is in them. So nodes are matched and measured anew, once for each certificate and
// not for each pod, up to the room that is needed. In the worst case, where the answer is no, that is a look at every node.
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
