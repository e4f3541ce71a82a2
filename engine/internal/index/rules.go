package index

import (
	"math"
	"reflect"
	"slices"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/fit"
)

// Rules between pods, as a class sees them: required affinity and anti-affinity, its own and that of pods that run, and
// topology spread constraints. The question is how many more pods of the class each node admits (limit).
//
// A class that is under rules keeps, for each, how many pods count in every domain of its node label, and from that how
// many pods of the class each domain admits. It follows the nodes: whatever changes the counts of a node changes the number of
// its room too (room.go of package cluster). When the class is brought up to date, it goes through four steps:
//
//	note     what each node whose number changed now counts, in place of what it counted before
//	settle   what each domain that this concerns admits now
//	refit    the nodes of the domains whose answer differs, and no others
//	limit    of a node that is measured: the least that its domains admit
//
// That costs the nodes of the domains that flip. Of a spread constraint all answers depend on the domain with the fewest
// pods: where that changes, it costs a look at every domain as well.
//
// For example (scenario pods-spread), pods app=web must be at most 1 apart between racks a, b and c, which run 2, 2 and 1 of
// them. c has the fewest; a and b are 1 above it and admit no more; c admits as many as bring it 1 above the next, which is 2.
// But c has no GPU left: the next pod waits, and the certificate says for a and b "2 in a, 1 in the least".
//
// Pods that are to come, because they are nominated to a node or have a place held there, count as if they were there where that keeps a
// pod out, and do not where it would let one in: for anti-affinity in both directions, for a constraint in the pod's own
// domain and not in the one with the fewest, and not for affinity. Where pods to come could lose their place by a rule of
// their own that pods of the class can break, the class is under that rule too (fragileNear, fragileEven).
//
// What a domain admits is exact for one more pod, and for several on one node. Where pods of the class would exclude or
// admit each other on different nodes, sums over nodes mean nothing: Coupled says so, and package place places such pods one
// after the other (place/coupled.go).

// classRules are the rules that a class is under, and what its nodes count for them. They are of
// the class alone: two classes with the same rule count by themselves.
//
// For example, pods app=web must be at most 1 apart between zones (maxSkew 1), and zones a, b and c
// have 3, 2 and 2 of them. a admits 0 more: 3 is 1 above the fewest. b admits 1: with 3 it would be
// 1 above c, and with 4 it would be 2. When one has been placed in b, its node's room has another
// number: Sync notes what the node counts now, and finds that the two smallest counts are 2 and 3
// and no longer 2 and 2. So all zones are worked out: a still admits 0, b admits 0, and c admits 2.
// The nodes of b and c are looked at again.
type classRules struct {
	own        *cluster.OwnRules // of the shape; nil: it has none
	list       []rule
	seen       []counted  // by Node.Index, then by rule: what the node counts for
	affinity   int64      // pods that its affinity counts, in any domain
	alone      bool       // its affinity matches itself, so that it may be the first
	stamp      uint64     // Room.Now when a node that counts last changed: equal ones are one state
	coupled    int        // the number of rules by which pods of the class concern each other on different nodes
	moved      bool       // a node that counts was noted since the stamp
	regrouped  bool       // nodes are in other domains than when coupled was found
	told       []toldRule // the rules as certificates tell them, as of toldAt (told.go)
	toldAt     uint64     // the stamp that told was made at
	hard, soft bool       // there are rules that must be kept; there are preferences (wishes)
	unit       int64      // what all weights of wishes between pods are multiples of
	opens      bool       // other pods can open nodes to it: it has affinity, or a constraint
}

// ruleKind is what a rule asks for. Those before wishes must be kept. Domains are those of the rule's node label; "any" is
// unlimited.
//
//	              pods that count in a domain          what a domain admits
//	needsNear     match all terms of the affinity      any with such a pod, or if the class may be the first; else 0
//	needsFar      match the term                       0 with such a pod; else 1 if the class matches itself; else any
//	keptFar       have such a rule about the class     0 with such a pod; else any
//	spreads       match the constraint, and stay       as many as keep it within maxSkew of the fewest
//	fragileNear   match, are bound, and stay           0 if pods to come would be the first in another domain; else any
//	fragileEven   match the constraint, and stay       where pods are to come the same as spreads; else any
//	wishes        match the term                       any; it is worth its weight for each pod
//	wishesSpread  match the constraint, and stay       any; it is worth less with each pod
//
// Pods to come count beside those of needsFar, keptFar and the constraints.
type ruleKind uint8

const (
	needsNear    ruleKind = iota // required affinity
	needsFar                     // required anti-affinity
	keptFar                      // required anti-affinity of others
	spreads                      // a spread constraint
	fragileNear                  // affinity of pods to come that may be the first of those that they need
	fragileEven                  // a spread constraint of pods to come
	wishes                       // preferred affinity or anti-affinity, its own or of others
	wishesSpread                 // a spread constraint that is a wish
)

// hard says whether the rule must be kept.
func (k ruleKind) hard() bool { return k < wishes }

// rule is one rule and the state of its domains. Lists by domain are as long as the view has domains (grow).
//
// Invariant, after settle: allow has what admits says of each domain, and dirty is empty.
type rule struct {
	kind ruleKind
	view *keyView // the domains of its node label
	// One of tally and carrier says which pods it counts: those that a selector matches, or, of keptFar and of wishes of
	// others, those that carry the rule. A rule of pods to come has fragile beside its tally.
	tally   *cluster.Tally
	carrier *cluster.Carrier
	fragile *cluster.FragileRule
	term    *api.PodTerm // nil for spread constraints, and for rules of pods to come
	spread  *api.Spread  // nil for all but spread constraints
	self    bool         // pods of the class count for it
	weight  int32        // of a wish: for each pod

	pods  []int32 // by domain: pods that count
	come  []int32 // by domain: pods to come that count
	nodes []int32 // by domain: nodes; of a constraint, those that count for it
	allow []int32 // by domain: how many pods of the class more, or unlimited; of a wish what the domain is worth, wishes.go
	dirty []int32 // domains whose counts changed since allow was worked out; one may be listed twice
	least least   // of a constraint
	first bool    // of affinity: the class could be the first when allow was worked out
	comes int64   // pods to come, in all domains
	alone int     // of fragileNear: domains that pods come to and where they would be the first
	shut  bool    // of fragileNear: alone was above 0 when allow was worked out

	// Of a constraint that is a wish: the domain of each node that the class fits on, by Node.Index; how many such nodes each
	// domain has; how many domains have any; and what a pod counts for.
	fitsIn []int32
	fits   []int32
	open   int
	perPod float64
}

// least is the smallest counts among a constraint's domains, of those with a node that counts. next equals first if two
// domains have it; unlimited: there is no such domain.
type least struct {
	domains     int
	first, next int32 // the smallest count, and the smallest of the other domains
}

// counted is what a node counts for a rule. In the zero value node is false, and nothing counts.
type counted struct {
	domain int32 // noDomain: the node does not have the label
	pods   int32
	come   int32 // pods to come
	node   bool  // the node has the label, and of a constraint it counts
}

const (
	noDomain  = -1
	unlimited = math.MaxInt32
)

// keyView is the domains of a node label: the nodes with equal values are a domain. Domains are numbered as values are met,
// and a number is never given again, so that the numbers depend on history; order has the domains by name, for everything
// that is told. One view is shared by all rules of all classes that name the label. Refresh keeps it up to date.
type keyView struct {
	key    string
	ids    map[string]int32  // the number of a value
	values []string          // by number
	of     []int32           // by Node.Index; noDomain: the node does not have the label
	order  []int32           // domains by name
	nodes  [][]*cluster.Node // by domain; an entry counts only if holds says so, since nodes that went stay for a while
}

// viewOfKey returns the domains of the label, which Refresh keeps up to date from then on. The
// first question about a label costs a look at every node.
func (x *Index) viewOfKey(key string) *keyView {
	v := x.keys[key]
	if v == nil {
		v = &keyView{key: key, ids: make(map[string]int32)}
		if x.keys == nil {
			x.keys = make(map[string]*keyView)
		}
		x.keys[key] = v
		for _, b := range x.m.Topology.Buckets {
			for _, n := range b.Nodes {
				v.set(n)
			}
		}
	}
	return v
}

// set enters the node in the domain of its label, which may have had another value before. It is not taken out of the list
// of its old domain: that would cost a search. holds tells whether an entry still counts, and a list that is full is cleaned
// before it grows.
func (v *keyView) set(n *cluster.Node) {
	for int(n.Index) >= len(v.of) {
		v.of = append(v.of, noDomain)
	}
	value, ok := n.Spec.Labels[v.key]
	if !ok {
		v.of[n.Index] = noDomain
		return
	}
	d, known := v.ids[value]
	if !known {
		d = int32(len(v.values))
		v.ids[value] = d
		v.values, v.nodes = append(v.values, value), append(v.nodes, nil)
	}
	if v.of[n.Index] == d && slices.Contains(v.nodes[d], n) {
		return
	}
	v.of[n.Index] = d
	if list := v.nodes[d]; len(list) == cap(list) {
		v.nodes[d] = slices.DeleteFunc(list, func(o *cluster.Node) bool { return o == n || !v.holds(d, o) })
	}
	v.nodes[d] = append(v.nodes[d], n)
}

// holds says whether the node is in the cluster and in the domain.
func (v *keyView) holds(d int32, n *cluster.Node) bool {
	return n.Bucket != nil && v.of[n.Index] == d
}

// domain is the node's domain; noDomain: the node does not have the label.
func (v *keyView) domain(n *cluster.Node) int32 {
	if int(n.Index) >= len(v.of) {
		return noDomain
	}
	return v.of[n.Index]
}

// newRules makes the rules of a class; nil: it is under none. They are in the order of the spec: its own that must be kept,
// then wishes, then those of pods to come and of others. Nothing is counted yet (recountRules).
//
// Whether the class matches its own rules is told by Stance.Self, one character for each in the order of the spec: its
// affinity, then each term of anti-affinity, then each constraint.
func (x *Index) newRules(key ClassKey) *classRules {
	if key.Stance == nil {
		return nil
	}
	r := &classRules{own: key.Shape.Own}
	if own, spec := r.own, key.Shape.Spec; own != nil {
		self := key.Stance.Self
		// All terms of affinity count the same pods: those that match every one of them, as in
		// Kubernetes.
		for i := range spec.Rules().PodAffinity {
			if repeats(spec.Rules().PodAffinity, i) {
				continue
			}
			r.alone, r.opens = self[0] == '1', true
			r.list = append(r.list, rule{kind: needsNear, view: x.viewOfKey(spec.Rules().PodAffinity[i].Topology), tally: x.m.Counted(own.Affinity), term: &spec.Rules().PodAffinity[i], self: r.alone})
		}
		for i := range spec.Rules().PodAntiAffinity {
			if repeats(spec.Rules().PodAntiAffinity, i) {
				continue
			}
			r.list = append(r.list, rule{kind: needsFar, view: x.viewOfKey(spec.Rules().PodAntiAffinity[i].Topology), tally: x.m.Counted(own.Anti[i]), term: &spec.Rules().PodAntiAffinity[i], self: self[1+i] == '1'})
		}
		for i := range spec.Rules().Spread {
			if c := &spec.Rules().Spread[i]; !c.Soft && !repeats(spec.Rules().Spread, i) {
				r.opens = true
				r.list = append(r.list, rule{kind: spreads, view: x.viewOfKey(c.Topology), tally: x.m.Counted(own.Spread[i]), spread: c, self: self[1+len(own.Anti)+i] == '1'})
			}
		}
	}
	x.addWishes(r, key)
	for _, k := range key.Stance.Breaks {
		kind := fragileNear
		if k.Spread != nil {
			kind = fragileEven
		}
		r.list = append(r.list, rule{kind: kind, view: x.viewOfKey(k.Topology), tally: x.m.Counted(k.Tally), fragile: k, spread: k.Spread, self: true})
	}
	for _, c := range key.Stance.Exposed {
		r.list = append(r.list, rule{kind: keptFar, view: x.viewOfKey(c.Term.Topology), carrier: c, term: &c.Term})
	}
	if len(r.list) == 0 {
		return nil
	}
	for i := range r.list {
		r.hard = r.hard || r.list[i].kind.hard()
		r.soft = r.soft || !r.list[i].kind.hard()
	}
	return r
}

// repeats says whether the i-th of the rules is stated before it: then it is no rule of its own, neither in what is told nor
// where rules are counted by which pods of a class concern each other (coupled).
func repeats[R any](rules []R, i int) bool {
	//mutate: rules-stated-twice -> false
	return slices.ContainsFunc(rules[:i], func(o R) bool { return reflect.DeepEqual(o, rules[i]) })
}

// Ruled says whether the class is under rules between pods that must be kept.
func (c *Class) Ruled() bool { return c.rules != nil && c.rules.hard }

// Elsewhere says whether what keeps pods of the class off a node may be on another node: by a rule between pods, or a device
// that several nodes reach. Evicting it there may then open this node.
func (c *Class) Elsewhere() bool { return c.far || c.Ruled() }

// Coupled says whether a pod of the class decides where others of it may be, on other nodes than its own: what the nodes
// admit does not add up, and such pods are placed one after the other.
func (c *Class) Coupled() bool { return c.far || c.coupledByRules() }

// coupledByRules is Coupled by rules alone.
func (c *Class) coupledByRules() bool { return c.rules != nil && c.rules.coupled > 0 }

// Far says whether pods of the class concern each other by devices that several nodes reach, and not by rules.
func (c *Class) Far() bool { return c.far && !c.coupledByRules() }

// CoupledOnce says whether pods of the class concern each other by one rule alone, or by single devices alone that the same
// nodes reach. Placing them one after the other is complete then: where it finds no place there is none. See
// place/coupled.go.
func (c *Class) CoupledOnce() bool {
	if c.far {
		return c.chained && !c.coupledByRules()
	}
	return c.rules != nil && c.rules.coupled == 1
}

// Opens says whether pods that come can open nodes to the class: by its affinity, or a spread constraint. For such a class
// it does not follow from a refusal that it will be refused later in the cycle, when more pods have been placed.
func (c *Class) Opens() bool {
	return c.rules != nil && (c.rules.opens || slices.ContainsFunc(c.rules.list, func(u rule) bool { return u.kind == fragileEven && u.comes > 0 }))
}

// Spreads says whether pods of the class are to be spread evenly among themselves.
func (c *Class) Spreads() bool {
	return c.rules != nil && slices.ContainsFunc(c.rules.list, func(u rule) bool {
		return u.self && (u.kind == spreads || u.kind == fragileEven && u.comes > 0)
	})
}

// StartsAlone says whether the class looks for the first place of pods that must be near each other: none of them has a
// place yet, and wherever the first goes the others must follow.
func (c *Class) StartsAlone() bool { return c.rules != nil && c.rules.first() }

// first says whether the affinity of the class counts no pod yet and matches the class itself: then it may be anywhere, as in
// Kubernetes, since otherwise no such pod could ever start.
func (r *classRules) first() bool { return r.alone && r.affinity == 0 }

// counts is what the node counts for the rule now: how many pods that the rule is about, and how many that are to come. Of
// spread constraints pods that are being deleted do not count, and neither do nodes that are not eligible, as in Kubernetes.
func (x *Index) counts(c *Class, r *rule, n *cluster.Node) counted {
	at := counted{domain: r.view.domain(n), node: true}
	if at.domain == noDomain {
		return counted{domain: noDomain}
	}
	list := []int32(nil)
	switch r.kind {
	case spreads, wishesSpread:
		//mutate: rules-spread-eligible -> true
		at.node = x.eligible(c, r.spread, n)
		if !at.node {
			return at
		}
		list = r.tally.Staying
	// Pods to come rely on those that will still be there.
	case fragileNear:
		at.pods, at.come = stayers(r.tally, n), x.coming(c, r, n)
		return at
	case fragileEven:
		list = r.tally.Staying
	default:
		if r.carrier != nil {
			list = r.carrier.On
		} else {
			list = r.tally.All
		}
	}
	// The lists of the model are by node, and may end before nodes that never had such a pod.
	if int(n.Index) < len(list) {
		at.pods = list[n.Index]
	}
	at.come = x.coming(c, r, n)
	return at
}

// coming counts the pods to come on the node that the class minds by the rule: of nominated pods those that have its
// priority or a higher one, and those that places are held for. Affinity and wishes mind none: a pod that is not there yet
// may never come, and must not draw others.
func (x *Index) coming(c *Class, u *rule, n *cluster.Node) (sum int32) {
	if len(n.Nominated)+len(n.Held) == 0 || u.kind == needsNear || !u.kind.hard() {
		return 0
	}
	for _, p := range n.Nominated {
		//mutate: rules-nominated
		if p.Priority >= c.Priority && u.minds(p) {
			sum++
		}
	}
	for _, h := range n.Held {
		//mutate: rules-held
		sum += x.m.Coming(h, u.minds)
	}
	return sum
}

// minds says whether the rule is about the pod, on whichever node.
func (u *rule) minds(p *cluster.Pod) bool {
	switch u.kind {
	case keptFar:
		return p.Carries(u.carrier)
	case fragileNear, fragileEven:
		return u.fragile.Has(p)
	}
	return u.tally.Matches(p)
}

// stayers counts the bound pods of the tally on the node that are not on their way out: those that pods to come can rely on.
// It costs a lookup where there are none, and otherwise a look at the pods of the node.
func stayers(t *cluster.Tally, n *cluster.Node) (sum int32) {
	if int(n.Index) >= len(t.Staying) || t.Staying[n.Index] == 0 {
		return 0
	}
	for _, p := range n.Pods {
		if p.Node != "" && !p.Leaving() && t.Matches(p) {
			sum++
		}
	}
	return sum
}

// eligible says whether the node counts for a constraint of the class: it has the labels of all constraints that are as hard
// as this one (but for Kubernetes' default constraints); the class's node selector and affinity match it, unless
// nodeAffinityPolicy says that they do not matter (AnyNode); and the class tolerates its taints, if nodeTaintsPolicy asks for
// that (Untainted). These are Kubernetes' rules for which domains a pod is to be even with.
func (x *Index) eligible(c *Class, s *api.Spread, n *cluster.Node) bool {
	for i := range c.rules.list {
		if r := &c.rules.list[i]; !s.Default && r.spread != nil && r.fragile == nil && r.spread.Soft == s.Soft && r.view.domain(n) == noDomain {
			return false
		}
	}
	spec, k := c.Shape.Spec, &x.kindsOf[n.Index]
	if !s.AnyNode {
		match := x.matcherOf(c.look)
		if !match.selects(k) || spec.Affinity != nil && !match.likes(k) {
			return false
		}
	}
	var buf [4]api.Taint
	return !s.Untainted || len(fit.Untolerated(n.Spec.Taints, spec.Tolerations, buf[:0])) == 0 && (!n.Spec.Cordoned || toleratesCordon(spec))
}

// recountRules counts all nodes anew, and works out what all domains admit. It is for classes that are new and for another
// topology. It costs a look at every node for each rule.
func (x *Index) recountRules(c *Class) {
	r := c.rules
	clear(r.seen)
	r.affinity = 0
	// Lists are emptied and not dropped: they will be as long again.
	for i := range r.list {
		u := &r.list[i]
		u.pods, u.come, u.nodes, u.allow, u.dirty = u.pods[:0], u.come[:0], u.nodes[:0], u.allow[:0], u.dirty[:0]
		u.comes, u.alone = 0, 0
		u.fitsIn, u.fits, u.open = u.fitsIn[:0], u.fits[:0], 0
		u.grow()
	}
	for _, b := range x.m.Topology.Buckets {
		for _, n := range b.Nodes {
			x.note(c, n)
		}
	}
	// What domains admit is worked out only now, when all nodes are counted. No node is measured again: the caller has
	// forgotten all buckets.
	for i := range r.list {
		u := &r.list[i]
		u.findLeast()
		u.dirty, u.first, u.shut = u.dirty[:0], r.first(), u.alone > 0
		for d := range u.allow {
			u.allow[d] = u.admits(r, int32(d))
		}
	}
	r.couple()
	r.stamp, r.moved = x.m.Room.Now, false
}

// couple finds out by how many rules pods of the class concern each other on different nodes: rules that must be kept and
// that the class matches itself. Two do not count. Anti-affinity in domains of one node each concerns no other node: limit
// says how many pods one node takes. And rules that couple pods in the same way twice count once (couples).
func (r *classRules) couple() {
	r.coupled, r.regrouped = 0, false
	for i := range r.list {
		u := &r.list[i]
		//mutate: rules-coupled
		if u.kind.hard() && u.self && u.kind != fragileNear && (u.kind != fragileEven || u.comes > 0) && (u.kind != needsFar || slices.ContainsFunc(u.nodes, func(n int32) bool { return n > 1 })) && !r.couples(u.view, u.kind, i) {
			r.coupled++
		}
	}
}

// couples says whether a rule of the kind before the i-th couples pods of the class in the same way: of anti-affinity one
// about the same label, and of affinity any, since all of its terms count the same pods.
func (r *classRules) couples(v *keyView, kind ruleKind, i int) bool {
	return slices.ContainsFunc(r.list[:i], func(o rule) bool {
		return o.self && o.kind == kind && (kind == needsNear || kind == needsFar && o.view == v)
	})
}

// grow makes room for domains that came since. They have no pods, and admit none until settle has looked at them: to note a
// node in them makes them dirty.
func (u *rule) grow() {
	if more := len(u.view.values) - len(u.pods); more > 0 {
		u.pods, u.come = append(u.pods, make([]int32, more)...), append(u.come, make([]int32, more)...)
		u.nodes, u.allow = append(u.nodes, make([]int32, more)...), append(u.allow, make([]int32, more)...)
	}
}

// note counts the node as it is now, in place of what it counted before (seen). It costs one lookup for each rule, and more
// where pods are to come. Nodes that are noted twice, or in another order, come to the same.
func (x *Index) note(c *Class, n *cluster.Node) {
	r := c.rules
	at := int(n.Index) * len(r.list)
	if more := at + len(r.list) - len(r.seen); more > 0 {
		r.seen = append(r.seen, make([]counted, more)...)
	}
	for i := range r.list {
		u, was := &r.list[i], &r.seen[at+i]
		is := x.counts(c, u, n)
		// The same number may be of other pods, which certificates name.
		r.moved = r.moved || was.pods > 0 || is.pods > 0 || was.come > 0 || is.come > 0
		if *was == is {
			continue
		}
		r.moved = true
		u.grow()
		r.regrouped = r.regrouped || was.domain != is.domain || was.node != is.node || u.kind == fragileEven && was.come != is.come
		r.enter(u, *was, -1)
		r.enter(u, is, 1)
		*was = is
	}
}

// enter adds what a node counts to its domain or, with by = -1, takes it away, and notes that the domain has changed.
// Nothing else changes the counts by domain, so that they are always what the nodes in seen add up to.
func (r *classRules) enter(u *rule, at counted, by int32) {
	if !at.node {
		return
	}
	// alone counts domains and not pods: the domain is taken out as it was, and comes back in as it is.
	if u.waitsAlone(at.domain) {
		u.alone--
	}
	u.pods[at.domain] += by * at.pods
	u.come[at.domain] += by * at.come
	u.comes += int64(by * at.come)
	u.nodes[at.domain] += by
	if u.waitsAlone(at.domain) {
		u.alone++
	}
	if u.kind == needsNear {
		r.affinity += int64(by * at.pods)
	}
	u.dirty = append(u.dirty, at.domain)
}

// waitsAlone says whether pods are to come to the domain that would be the first there of the pods that they must be near. If
// a pod of the class started in another domain, they could not come: the first would be elsewhere.
func (u *rule) waitsAlone(d int32) bool {
	return u.kind == fragileNear && u.come[d] > 0 && u.pods[d] == 0
}

// findLeast finds the two smallest counts of the constraint's domains, in one pass over them. Other rules have none.
func (u *rule) findLeast() {
	// Without pods to come no place can be lost, and fragileEven admits all.
	if u.spread == nil || u.kind == fragileEven && u.comes == 0 {
		return
	}
	u.least = least{first: unlimited, next: unlimited}
	for d, nodes := range u.nodes {
		if nodes == 0 {
			continue
		}
		u.least.domains++
		if n := u.pods[d]; n < u.least.first {
			u.least.first, u.least.next = n, u.least.first
		} else if n < u.least.next {
			u.least.next = n
		}
	}
}

// admits is how many more pods of the class the rule admits to the domain, if no other comes: 0, a number, or unlimited.
// Only constraints admit a number above 1. Of a wish it is what the domain is worth (worth). Pods to come count where they
// exclude (needsFar, keptFar, the domain's own count of a constraint); of needsNear come is always 0.
func (u *rule) admits(r *classRules, d int32) int32 {
	pods := u.pods[d] + u.come[d]
	switch u.kind {
	case needsNear:
		//mutate: rules-affinity
		if pods == 0 && !r.first() {
			return 0
		}
		return unlimited
	case needsFar:
		//mutate: rules-anti-affinity
		if pods > 0 {
			return 0
		}
		if u.self {
			return 1
		}
		return unlimited
	case keptFar:
		//mutate: rules-anti-affinity-of-others
		if pods > 0 {
			return 0
		}
		return unlimited
	case fragileNear:
		//mutate: rules-first-to-come
		if u.alone > 0 && u.come[d] == 0 {
			return 0
		}
		return unlimited
	case fragileEven:
		//mutate: rules-even-for-those-to-come
		if u.come[d] == 0 {
			return unlimited
		}
	case wishes, wishesSpread:
		return u.worth(d)
	}
	return u.admitsSpread(d)
}

// admitsSpread is admits for a constraint. As pods are added to a domain they are compared with the
// other domains: while the domain itself has the fewest, one more is no further above than 1, which
// maxSkew always allows. So the domain may go to maxSkew above the fewest of the others, and a
// domain without others to compare with takes any number. A class that does not match its own
// constraint adds nothing to the count: the domain admits all or none.
//
// For example, maxSkew is 2, and three zones have 4, 1 and 1 pods. The zone of 4 admits 2 + 1 - 4,
// which is below 0, so none. Either zone of 1 is compared with the other one and admits 2 + 1 - 1 =
// 2: with 3 pods it is 2 above. With minDomains 4 there are too few zones, and the fewest counts as
// 0: then either zone of 1 admits 2 + 0 - 1 = 1.
func (u *rule) admitsSpread(d int32) int32 {
	pods, low := u.pods[d]+u.come[d], u.lowBeside(d)
	switch {
	case low == unlimited:
		return unlimited
	case u.self:
		//mutate: rules-skew
		return int32(max(0, int64(u.spread.MaxSkew)+int64(low)-int64(pods)))
	case pods-low > u.spread.MaxSkew:
		return 0
	}
	return unlimited
}

// lowBeside is the fewest pods of another domain, where the domain itself counts; 0 where there are
// too few domains. That is why least has the two smallest: the answer for the smallest domain is
// the second.
func (u *rule) lowBeside(d int32) int32 {
	low := u.least.first
	if u.nodes[d] > 0 && u.pods[d] == low {
		low = u.least.next
	}
	//mutate: rules-min-domains
	if u.least.domains < int(max(1, u.spread.MinDomains)) {
		low = 0
	}
	return low
}

// limit is how many more pods of the class the rules that must be kept admit to the node: the least of what they admit to its
// domains. A node without the label is in no domain: rules that ask for something there exclude it, and those that forbid
// something do not. It costs a lookup for each rule.
func (r *classRules) limit(n *cluster.Node) int64 {
	k := int64(math.MaxInt64)
	for i := range r.list {
		u := &r.list[i]
		if !u.kind.hard() {
			continue
		}
		d := u.view.domain(n)
		if d == noDomain {
			//mutate: rules-node-without-label
			if u.kind == needsNear || u.kind == spreads {
				return 0
			}
			continue
		}
		if a := u.allow[d]; a < unlimited {
			if k = min(k, int64(a)); k == 0 {
				return 0
			}
		}
	}
	return k
}

// followRules notes the nodes of the buckets whose room changed, and looks again at the nodes of domains whose answers differ
// now. It must come before the buckets are followed: measure reads what it works out, and the old numbers in the cells say
// which nodes are to be noted.
func (x *Index) followRules(c *Class, changed []*cluster.Bucket) {
	r := c.rules
	for _, b := range changed {
		f := &c.ByBucket[b.ID]
		if f.touched == b.Touched {
			continue
		}
		for i, number := range b.Numbers {
			if f.Cells[i].number != number {
				x.note(c, b.Nodes[i])
			}
		}
	}
	// What certificates tell of rules is of a stamp, and another stamp makes it be told anew.
	if r.moved {
		r.stamp, r.moved = x.m.Room.Now, false
	}
	if r.regrouped {
		r.couple()
	}
	for i := range r.list {
		x.settle(c, &r.list[i])
	}
}

// settle works out what the rule's domains admit where that may have changed, and has the nodes measured again of those in
// which it has. These are the domains that are dirty or, if something has changed that all answers depend on, all: whether the
// class may be the first, what the fewest pods of a domain are, and whether pods to come wait for their first.
//
// For example, pods that need each other by zone are nowhere yet: every zone admits the first. Once
// it is placed in zone a, only a admits more. Its node is in a alone, so that a alone is dirty, and
// yet all other zones have another answer.
func (x *Index) settle(c *Class, u *rule) {
	r := c.rules
	u.grow()
	// all says that the answer of every domain may be another.
	all := false
	switch u.kind {
	case needsNear:
		all = u.first != r.first()
		u.first = r.first()
	case spreads, fragileEven:
		was := u.least
		u.findLeast()
		all = was != u.least
	case fragileNear:
		all = u.shut != (u.alone > 0)
		u.shut = u.alone > 0
	}
	look := func(d int32) {
		if allow := u.admits(r, d); allow != u.allow[d] {
			u.allow[d] = allow
			x.refitDomain(c, u.view, d)
		}
	}
	if all {
		for d := range u.allow {
			look(int32(d))
		}
	} else {
		for _, d := range u.dirty {
			look(d)
		}
	}
	u.dirty = u.dirty[:0]
}

// refitDomain measures the nodes of the domain again, in buckets that the class has counts of. A bucket that is new, or has
// other nodes, is looked at as a whole afterwards.
func (x *Index) refitDomain(c *Class, v *keyView, d int32) {
	for _, n := range v.nodes[d] {
		if !v.holds(d, n) {
			continue
		}
		if f := &c.ByBucket[n.Bucket.ID]; f.bucket == n.Bucket && f.epoch == n.Bucket.Epoch {
			x.refit(c, n)
		}
	}
}

// ruled is the number of the state of the class's rules, as of its last sync: certificates of another number are made anew.
// 0 where the class is under none.
func (c *Class) ruled() uint64 {
	if c.rules == nil {
		return 0
	}
	return c.rules.stamp
}

// Start is where pods that must be near each other may begin: the best node of its domains, and how many pods of the class
// have room in these.
type Start struct {
	Node  *cluster.Node
	Fits  int64
	score int64
}

// Starts lists where in the scope the first of pods that must be near each other may go, one node
// for all that are in the same domains of the class's affinity, in the order of nodes. For example,
// with affinity by zone it is one node for each zone, and with affinity by zone and by rack one for
// each pair of them. It costs a look at every node of the scope.
func (x *Index) Starts(c *Class, sc Scope) []Start {
	var out []Start
	at := make(map[string]int)
	var key []byte
	x.Buckets(sc, func(b *cluster.Bucket) {
		f := &c.ByBucket[b.ID]
		for i, n := range b.Nodes {
			cell := &f.Cells[i]
			if cell.Fits == 0 || sc.Node != nil && sc.Node != n {
				continue
			}
			// key is the numbers of the node's domains, one for each term of affinity.
			key = key[:0]
			for j := range c.rules.list {
				if u := &c.rules.list[j]; u.kind == needsNear {
					d := u.view.domain(n)
					key = append(key, byte(d), byte(d>>8), byte(d>>16), byte(d>>24))
				}
			}
			k, ok := at[string(key)]
			if !ok {
				k = len(out)
				at[string(key)] = k
				out = append(out, Start{Node: n, score: cell.score})
			}
			if s := &out[k]; cell.score > s.score {
				s.Node, s.score = n, cell.score
			}
			out[k].Fits += int64(cell.Fits)
		}
	})
	slices.SortStableFunc(out, func(a, b Start) int { return cluster.ComparePlaces(a.Node, b.Node) })
	return out
}

// outlived says whether no known pod has the rules of the class any more. The model has then stopped counting for them, and
// the class must be made anew if such a pod comes again.
func (c *Class) outlived() bool { return c.rules != nil && c.rules.own != c.Shape.Own }
