package place

import (
	"slices"

	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/divide"
	"github.com/berth-dev/berth/engine/internal/index"
	"github.com/berth-dev/berth/engine/why"
)

// Search looks for places for a gang of unlike members, or with subgroups, depth first: domain by
// domain down the tree of groups, then pod by pod. The first descent is greedy, taking the best
// node for each pod; if it fails, all nodes are tried. Within its budget it is complete.
//
// For example, nodes a and b have 6 and 4 GPUs free, and the members ask for 3, 4 and 3. The greedy
// descent puts 3 on b, which is the fuller node, 4 on a, and has 2 and 1 left for the last 3.
// Taking back the 4 helps nothing, since it fits on no other node. The second descent tries a for
// the first member, then 4 on b, and 3 on a: it has the place that leaves nothing over.
//
// It is written in continuations: each step is given what comes next as a function, places its pod,
// and calls it. If what comes next fails, the step takes its pod back and tries another place. So a
// choice that was made for one group can still be taken back when a later group finds no room,
// across all levels of the tree, and the call stack is the only state.
//
// Invariant: whenever a function returns false, Placed and the model are as they were when it was
// called. A step that returns true has everything placed, down to the last continuation, and leaves it
// so.
//
// Each pod that is put on a node is a step, and the budget is in steps and not in time: the same
// state gives the same answer.
//
// What keeps the search small, and why nothing is lost by it: like pods without rules go to nodes
// in ascending order, since any other order is the same allocation with names swapped; a leaf with
// fewer pods left than its minimum lacks is left at once; once the queue has refused a place, members
// that alone exceed its limits are taken back at once (hopeless); and the proofs of Certain come before
// it, so that it is not begun where a count says no.
type Search struct {
	s *Placer
	G *cluster.Gang
	// budget is the most steps that both descents may take together.
	budget int
	Limits

	Kin Kin
	// greedy is set in the first descent, and while growing.
	greedy bool
	// Steps is how many were taken so far.
	Steps int
	// spent says that the budget ended the search. Everybody returns false then without trying
	// more.
	spent bool
	// cut says that not every choice of devices, or order of pods, was tried. The search goes on,
	// but a failure proves nothing any more.
	cut bool
	// ruled says that rules between pods decide where some members may be: it is the cause that a
	// failure names.
	ruled bool
	// named says that some members may have some of a node's devices only, by name, so that devices
	// that are otherwise alike are different choices.
	named bool
	// opened says that some members can be opened nodes by others, so that the order of members
	// matters.
	opened bool
	// Quota is why the queue could not afford places that were found, by the first place that it
	// refused; nil: it refused none.
	Quota []why.Gate
	// Placed are the pods that have been put on nodes, in the order in which they were.
	Placed []*cluster.Pod
	// Blocked is, of a gang that grows, the first member that found no room, and its place in its
	// leaf. Pod is nil if all found room.
	Blocked struct {
		Pod   *cluster.Pod
		Leaf  *cluster.Branch
		Place int
	}
}

// Limits are what a search asks of others. None of them changes anything. A nil list of gates is
// yes.
type Limits struct {
	// Afford says what of the gang's queues, if anything, cannot afford the pods, which have been
	// placed. It is asked of a whole minimum, and in growth of each member.
	Afford func(pods []*cluster.Pod) []why.Gate
	// Exceeds says whether the gang's queues refuse the pods, which have been placed, whatever other
	// members are placed beside them. A no says nothing.
	Exceeds func(pods []*cluster.Pod) bool
	// Delays says, of a gang that grows, whose promised start the pods, which have been placed,
	// would delay.
	Delays func(pods []*cluster.Pod) []why.Gate
	// Decides says whether everything that the pod asks for is decided here. Pods of which
	// something is not are not added to a gang that runs.
	Decides func(p *cluster.Pod) bool
}

// NewSearch makes a search for the gang, of at most so many steps.
func (p *Placer) NewSearch(g *cluster.Gang, k Kin, budget int, l Limits) *Search {
	return &Search{s: p, G: g, Kin: k, greedy: true, budget: budget, Limits: l}
}

// Minimum places the gang's minimum, and says whether it could: greedily or, where that fails, by
// trying all. What it placed stays on the model; if it fails the model is as before.
//
// The first descent is not quite one path: it tries one node for each pod, but every domain for
// each group, so that a gang that fits in some rack is found without the second.
func (x *Search) Minimum() bool {
	// The greedy descent looks at one node for each pod and costs one step for each. It succeeds
	// wherever the cluster is not nearly full. The second descent begins anew with what the first
	// has left of the budget.
	x.findRules()
	ok := x.branch(x.G.Tree, index.Scope{}, x.done)
	if !ok && !x.spent {
		x.greedy = false
		ok = x.branch(x.G.Tree, index.Scope{}, x.done)
	}
	return ok
}

// NoRoom is the gate of a gang that has no place, for which nothing is proved yet.
var NoRoom = why.Gate{Cause: why.ClusterFull, Certificate: -1}

// Failure says why nothing was found. It is asked after Minimum has failed.
func (x *Search) Failure() why.Gate {
	// A failure proves something only if everything was tried. A search that ended early, or left
	// choices out, says so and names no other cause.
	gate := why.Gate{Cause: why.SearchBudget, Need: int64(x.Steps), Certificate: -1}
	if x.spent || x.cut {
		return gate
	}
	gate.Cause, gate.Need = why.Fragmented, int64(x.G.Tree.Need())
	switch {
	case x.ruled:
		gate.Cause = why.PodRules
	case x.G.Tree.Required():
		gate.Cause = why.TopologyFragmented
	}
	// There were places, and the queue could not afford them: the queue is the cause, and not how
	// nodes are laid out.
	if len(x.Quota) > 0 {
		return x.Quota[0]
	}
	return gate
}

// Model is the GPU model that the gang was placed with, "" if none of those placed names one.
func (x *Search) Model() string {
	for _, p := range x.Placed {
		if p.AsksModel() {
			return x.Kin.model
		}
	}
	return ""
}

// done ends a descent: everything has a place, which the queue must afford.
func (x *Search) done() bool {
	return x.affords(x.Placed)
}

// affords says whether the queue can afford the pods, which have been placed.
func (x *Search) affords(pods []*cluster.Pod) bool {
	gates := x.Afford(pods)
	// The first refusal is kept: places are tried best first, so it is of the best place.
	if len(x.Quota) == 0 {
		x.Quota = gates
	}
	return len(gates) == 0
}

// hopeless says whether what is placed so far is beyond what the queue affords, so that nothing that
// begins with it can be the place. It is asked once a whole place was refused, since only then is it
// known why (Quota): until then a place that the queue refuses is one that nobody has asked for.
//
// For example, five members of 2 GPUs each may have 3 in all, and on some nodes a GPU counts as a
// quarter. After two members on other nodes, which count 4, the three that are left are not placed.
// Without this, each of the thousand ways to place them would be tried, and refused.
func (x *Search) hopeless() bool {
	//mutate: search-hopeless -> !x.greedy && len(x.Quota) > 0
	return !x.greedy && len(x.Quota) > 0 && x.Exceeds(x.Placed)
}

// branch gives the branch its minimum within the scope, and goes on with next. It returns true if
// next does, in any of the branch's scopes.
func (x *Search) branch(b *cluster.Branch, sc index.Scope, next func() bool) bool {
	// The scope narrows on the way down the tree: what a group requires holds for all groups in it.
	for _, sub := range x.scopes(b, sc) {
		inside := func() bool { return x.pods(b, 0, b.Min()-b.Allocated, sub, next) }
		if len(b.Children) > 0 {
			inside = func() bool { return x.children(b.Lacks(), b.MinGroups()-b.Done(), sub, next) }
		}
		if inside() {
			return true
		}
		if x.spent {
			return false
		}
	}
	return false
}

// children gives so many of the groups what they need next, and goes on with next.
func (x *Search) children(groups []*cluster.Branch, need int, sc index.Scope, next func() bool) bool {
	if need <= 0 {
		return next()
	}
	if len(groups) == 0 {
		return false
	}
	rest := func(need int) func() bool {
		return func() bool { return x.children(groups[1:], need, sc, next) }
	}
	// With this group, or without it where others will do: of a gang that needs two of three groups
	// every pair is tried.
	return x.branch(groups[0], sc, rest(need-1)) || !x.spent && rest(need)()
}

// scopes lists where the branch may be: the domains of its required level, the one its members run
// in if some do; of a preferred level, domains first that could hold it. A branch that asks for
// nothing may be where the one around it may.
func (x *Search) scopes(b *cluster.Branch, sc index.Scope) []index.Scope {
	s, l := x.s, b.Group.Layout
	// The first waiting member stands for the branch when domains are sorted. For unlike members
	// that is a guess about the best order and no more: every domain is tried in the end, and only
	// a required level excludes any.
	c := x.lead(b)
	if c == nil {
		return []index.Scope{sc}
	}
	if l.Required != "" {
		level := s.m.Level(l.Required)
		parts := s.ix.Parts(c, sc, level)
		if level == cluster.NodeLevel {
			parts = s.ix.EveryNode(c, sc)
		}
		if home := s.Home(level, b.RunningPods()); home != nil {
			//mutate: topology-home-of-a-group
			parts = slices.DeleteFunc(parts, func(p index.Part) bool { return !s.within(p.Scope, *home) })
		}
		return x.tightFirst(parts, b.Need())
	}
	// A preference orders the domains of the greedy descent, with the whole scope behind them. The
	// second descent ignores it, because it is there to find any place at all.
	if l.Preferred != "" && x.greedy && len(b.RunningPods()) == 0 {
		parts := s.ix.Parts(c, sc, s.m.Level(l.Preferred))
		parts = slices.DeleteFunc(parts, func(p index.Part) bool { return p.Fits < int64(b.Need()) })
		return append(x.tightFirst(parts, b.Need()), sc)
	}
	return []index.Scope{sc}
}

// tightFirst orders parts that could hold need by how little they have to spare, then the others.
// Equals stay in the order of their names. It sorts the list that it is given.
func (x *Search) tightFirst(parts []index.Part, need int) []index.Scope {
	slices.SortStableFunc(parts, func(a, b index.Part) int {
		// Fits counts pods like the lead. A domain that cannot hold so many of those may still hold
		// the group, if its other members are smaller: such domains are tried last and not left
		// out.
		if fa, fb := a.Fits >= int64(need), b.Fits >= int64(need); fa != fb {
			return cluster.Before(fa)
		}
		// Only the sign counts, and the difference need not fit into an int everywhere.
		return int(min(max(a.Fits-b.Fits, -1), 1))
	})
	out := make([]index.Scope, len(parts))
	for i, p := range parts {
		out[i] = p.Scope
	}
	return out
}

// lead returns the class of the branch's first waiting member, in the order of the tree and of
// ranks; nil if none waits.
func (x *Search) lead(b *cluster.Branch) *index.Class {
	var c *index.Class
	b.Each(func(b *cluster.Branch) {
		for _, p := range b.Pods {
			if c == nil && p.Host == nil {
				c = x.Kin.Class(p)
			}
		}
	})
	return c
}

// pods gives need of the leaf's waiting pods, from the i-th on, places in the scope, and goes on
// with next. Each pod is placed or left out, the first choice first, so that every subset of the
// needed size is tried in the end: with pods 0, 1 and 2, of which two are needed, it is 01, 02, 12.
func (x *Search) pods(b *cluster.Branch, i, need int, sc index.Scope, next func() bool) bool {
	// Pods that run, or that an earlier step has placed, need no place.
	for i < len(b.Pods) && b.Pods[i].Host != nil {
		i++
	}
	if need <= 0 {
		return next()
	}
	// Too few pods are left to reach the minimum, whatever is done with this one.
	if len(b.Pods)-i < need {
		return false
	}
	// Where affinity lets one pod open a node for another, the first by rank may have no node
	// before the second is placed.
	if x.opened && b.Group.Layout.Segment == 0 {
		return x.podsInAnyOrder(b, need, sc, next)
	}
	p := b.Pods[i]
	c := x.Kin.Class(p)
	// The inner call has sc, the scope of the group, and not sub: only members of one segment share
	// a domain of the segments' level.
	for _, sub := range x.segment(b, i, c, sc) {
		for _, n := range x.nodes(b, i, c, sub) {
			if x.on(p, n, c, func() bool { return x.pods(b, i+1, need-1, sc, next) }) {
				return true
			}
			if x.spent {
				return false
			}
		}
	}
	if b.Group.Layout.Segment > 0 {
		return false // segments are counted by rank: the minimum is its first members
	}
	// Without this pod: a gang of at least three of five may start with any three.
	return x.pods(b, i+1, need, sc, next)
}

// findRules finds out whether rules between pods decide where waiting members may be. Where others
// open nodes to a member, the order in which members are placed matters: within a leaf all orders
// are tried, and of segments and several leaves not all. It is asked once, before anything is
// placed.
func (x *Search) findRules() {
	// x.cut is set where not every order of pods will be tried, although orders matter: with
	// segments, whose pods are placed by rank, and with several leaves, which are placed one after
	// the other.
	leaves := 0
	x.G.Tree.Each(func(b *cluster.Branch) {
		if len(b.Children) == 0 {
			leaves++
		}
		for _, p := range b.Pods {
			if p.Host != nil {
				continue
			}
			x.named = x.named || p.GPU.Names()
			if p.Stance() == nil {
				continue
			}
			c := x.Kin.Class(p)
			x.ruled, x.opened = x.ruled || c.Ruled(), x.opened || c.Opens()
			x.cut = x.cut || c.Opens() && b.Group.Layout.Segment > 0
		}
	})
	x.cut = x.cut || x.opened && leaves > 1
}

// podsInAnyOrder gives need of the leaf's waiting pods places, one of any class first: greedily the
// first that has a node. For example, a member that must be near app=db comes first by rank, and
// the member with that label second: by rank the first has no node, in the other order both do.
//
// It tries every order of classes, which for n pods of n classes is n!, and relies on the budget.
// It is used only where some member opens nodes to another.
func (x *Search) podsInAnyOrder(b *cluster.Branch, need int, sc index.Scope, next func() bool) bool {
	if need <= 0 {
		return next()
	}
	// Among pods of one class it makes no difference which is first, so each class is tried once at
	// each depth.
	tried := make(map[index.ClassKey]bool)
	for i, p := range b.Pods {
		if p.Host != nil {
			continue
		}
		c := x.Kin.Class(p)
		if tried[c.ClassKey] {
			continue
		}
		tried[c.ClassKey] = true
		for _, n := range x.nodes(b, i, c, sc) {
			if x.on(p, n, c, func() bool { return x.podsInAnyOrder(b, need-1, sc, next) }) {
				return true
			}
			// Greedily there is one node for the pod, and one class to begin with at each depth:
			// the first that has a node.
			if x.spent || x.greedy {
				return false
			}
		}
	}
	return false
}

// on tries the pod on the node: with the best devices, or with all choices of them. It goes on with
// next, and returns true if next does.
func (x *Search) on(p *cluster.Pod, n *cluster.Node, c *index.Class, next func() bool) bool {
	if x.greedy {
		return x.try(p, n, index.ChooseDevices(c, n), next)
	}
	// Which GPUs a pod gets decides what is left for the next one: by NVLink clique, NUMA node or
	// slots of a MIG instance. The greedy descent takes the best choice. Here every choice that
	// leaves something else is tried, up to a limit, and a failure says that the limit was reached.
	ways, all := index.WaysOfDevices(c, n, x.named)
	x.cut = x.cut || !all
	for _, devices := range ways {
		if x.try(p, n, devices, next) {
			return true
		}
		if x.spent {
			return false
		}
	}
	return false
}

// try allocates the pod and goes on, and releases it if that leads nowhere. It is the only place
// that changes the model, and so the only one that counts steps.
func (x *Search) try(p *cluster.Pod, n *cluster.Node, devices []string, next func() bool) bool {
	if x.Steps == x.budget {
		x.spent = true
		return false
	}
	x.Steps++
	// A step costs what the pod changes on its node, and taking it back costs the same.
	m := x.s.m.Mark()
	x.s.m.PutOn(p, n, devices)
	x.Placed = append(x.Placed, p)
	if !x.hopeless() && next() {
		return true
	}
	x.Placed = x.Placed[:len(x.Placed)-1]
	//mutate: rollback-search
	x.s.m.Rollback(m)
	return false
}

// nodes lists the nodes to try for the leaf's i-th pod: the best alone, or all, in the order of
// places. A pod like the one before it need not go before it: that would be the same again with
// names swapped.
func (x *Search) nodes(b *cluster.Branch, i int, c *index.Class, sc index.Scope) []*cluster.Node {
	s := x.s
	s.ix.Sync(c)
	if x.greedy {
		sc = x.narrow(b, c, sc)
		if n := s.ix.Best(c, sc); n != nil {
			return []*cluster.Node{n}
		}
		return nil
	}
	// from is the node of the like pod before this one, which has been placed; nil if there is
	// none. Without it n like pods would be tried in n! orders that are all the same allocation.
	// Like pods are of one class: of two with equal specs, the labels of one may keep it off a node
	// that is open to the other. Where a rule between pods is about the class the pods on a node can
	// change what the next may do, and the order is not left out; pods of a segment have ranks to
	// keep.
	var from *cluster.Node
	if i > 0 && !c.Ruled() && b.Group.Layout.Segment == 0 && x.Kin.Class(b.Pods[i-1]).ClassKey == c.ClassKey && slices.Contains(x.Placed, b.Pods[i-1]) {
		from = b.Pods[i-1].Host
	}
	out := s.ix.Nodes(c, sc)
	if from == nil {
		return out
	}
	return slices.DeleteFunc(out, func(n *cluster.Node) bool { return cluster.ComparePlaces(n, from) < 0 })
}

// narrow narrows the scope to where the leaf's layout would like its next pod to be. It is for the
// greedy descent, in which a preference may cost a place: the second descent does not ask for it.
func (x *Search) narrow(b *cluster.Branch, c *index.Class, sc index.Scope) index.Scope {
	s, l := x.s, b.Group.Layout
	if l.Spread != "" {
		level := s.m.Level(l.Spread)
		return x.emptiest(b, sc, s.ix.WithRest(c, sc, level, s.ix.Parts(c, sc, level)))
	}
	if l.Preferred == "" {
		return sc
	}
	if l.Balanced {
		if parts := x.even(b, c, sc); parts != nil {
			return x.emptiest(b, sc, parts)
		}
	}
	return x.nearest(b, c, sc, s.m.Level(l.Preferred))
}

// nearest narrows the scope to the domain of the level, or else of a wider one, where most members
// are and that has room; where none has, to the one with the most room. The first member of a leaf
// has no others yet, and goes where most are likely to follow.
//
// For example, members run in rack r1 of block b1. As long as r1 has room it is r1. When it is
// full, it is the rack of b1 with the most room, and when b1 is full, the rack with the most room
// anywhere in the scope.
func (x *Search) nearest(b *cluster.Branch, c *index.Class, sc index.Scope, level int) index.Scope {
	s := x.s
	running := b.RunningPods()
	for _, l := range s.climb(level) {
		home := s.Home(l, running)
		if home == nil {
			continue
		}
		near := sc.And(*home)
		if s.ix.Fits(c, near) == 0 {
			continue
		}
		if l == level {
			return near
		}
		// The rack is full and its block is not: from here on only racks of the block are looked
		// at.
		sc = near
		break
	}
	best := index.Part{Scope: sc}
	for _, p := range s.ix.Parts(c, sc, level) {
		if p.Fits > best.Fits {
			best = p
		}
	}
	return best.Scope
}

// even lists the domains of the preferred level over which the leaf splits evenly, as if all its
// members were of the class; nil where it does not. Members are unlike here, so this is a guess
// that the greedy descent follows, and no count is relied upon.
func (x *Search) even(b *cluster.Branch, c *index.Class, sc index.Scope) []index.Part {
	s := x.s
	running := b.RunningPods()
	parts := s.ix.Parts(c, sc, s.m.Level(b.Group.Layout.Preferred))
	// Places of members that run count as if they were free for the group, since it is the whole
	// group that is to be even.
	held := s.held(parts, running)
	room := index.Counts(parts)
	for i := range room {
		room[i].Cap += held[i]
	}
	shares, ok := divide.Balance(room, max(b.Min(), len(running)+1))
	if !ok {
		return nil
	}
	var out []index.Part
	for _, sh := range shares {
		out = append(out, parts[sh.ID])
	}
	return out
}

// emptiest returns the part with the fewest of the leaf's members that has room, the first of
// equals; the scope itself where none has.
func (x *Search) emptiest(b *cluster.Branch, sc index.Scope, parts []index.Part) index.Scope {
	held := x.s.held(parts, b.RunningPods())
	best := -1
	for i, p := range parts {
		if p.Fits > 0 && (best < 0 || held[i] < held[best]) {
			best = i
		}
	}
	if best < 0 {
		return sc
	}
	return parts[best].Scope
}

// segment lists where the leaf's i-th pod may be: with the others of its segment, if one of these
// has a place, or else in every domain of the segments' level, those first that hold a whole
// segment and have the least to spare. Without segments it is the scope.
func (x *Search) segment(b *cluster.Branch, i int, c *index.Class, sc index.Scope) []index.Scope {
	size := b.Group.Layout.Segment
	if size == 0 {
		return []index.Scope{sc}
	}
	s := x.s
	s.ix.Sync(c)
	level := s.m.Level(b.Group.Layout.SegmentLevel)
	parts := s.ix.Parts(c, sc, level)
	if home := s.Home(level, b.Mates(i)); home != nil {
		//mutate: topology-home-of-a-segment
		parts = slices.DeleteFunc(parts, func(p index.Part) bool { return !s.within(p.Scope, *home) })
	}
	return x.tightFirst(parts, size)
}
