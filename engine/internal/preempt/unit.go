package preempt

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// What is evicted together, and of whom. A running workload is divided into units once, when its list of candidates
// is made: members of a gang above its minimum can go one by one, groups above a minimum of groups each as a whole,
// and what is left of the gang goes whole or not at all.
//
// For example, a gang with a minimum of 2 runs 4 members. Ranks 3 and 2 are units of their own (spare), and ranks 0
// and 1 are one unit (rest), which can go only after both others. So a claimant that lacks one GPU takes rank 3
// alone, and the gang runs on with 3 members.
//
// Another gang must run one of the groups a and b, each with a minimum of two members, and runs with a-0, a-1, a-2,
// b-0, b-1 and b-2. Its units are a-2; b-2; b-0 with b-1, which go after b-2; and a-0 with a-1, which go after all of
// these.

// unit is what is evicted together: a pod by itself, a member of a gang above its minimum, or what is left of a group
// or a gang once those are gone. The first group of fields holds as long as the list of candidates does; the second is
// of one claim, and is void unless claim is the number of that claim.
type unit struct {
	of *running
	// pods is at least one pod, all of one workload; those of a gang are in the order of ComparePods.
	pods []*cluster.Pod
	// spare is, of what is left of a gang, or of a group above a minimum of groups, what of it is above the minimum, in
	// the order in which it goes. It goes first, and its cost counts with the unit (whole).
	spare []*unit
	// rest is, of what is above a minimum, what is left of that group or gang; nil: that can never go.
	rest *unit
	// group says that it is what is left of a group above a minimum of groups.
	group bool
	// height is 0 where nothing goes before it, and else one more than that of what does.
	height int

	// size is, of what is above a minimum, what it is charged; nil for other units, which are charged with their
	// workload.
	size quantity.Vector
	// returns is, while the unit is lifted, what it was charged for pods that an owner makes again (lift).
	returns quantity.Vector
	// spans is what its cost is made of (cost.go).
	spans []span
	// budgeted says that disruption budgets cover some of its pods, and are drawn on when it goes.
	budgeted bool
	// surge says, of what is moved, that it stays until the next one runs (surge.go).
	surge bool

	// The number of the claim that the fields below are of. A unit with another number is not legal for the claim.
	claim uint64
	cause api.EvictionCause
	cost  int64
	// reach is how far up its tree the claimant's queue must be within quota for this unit or, where it is shared,
	// within its fair share; -1: not at all.
	reach int
	// taken says that the unit is lifted off its nodes in the model.
	taken bool
	// pass is the number of the scan, cut or pick that has looked at it.
	pass uint64
	// gone is the number of the search or pick that counts it as gone, in sums and not in the model.
	gone uint64
	// allocations is where its pods were, in their order, while it is lifted.
	allocations []allocationOf
	// to is, of what is moved, the nodes where its pods have places, in their order.
	to []string
}

// allocationOf is where a pod sat before it was lifted.
type allocationOf struct {
	node    *cluster.Node
	devices []string
}

// running is a workload that has allocations in a queue: those of its pods that are not on their way out. It is made
// by Candidates and kept until the workload changes; covered and shared alone change in between.
type running struct {
	cluster.Workload
	key string
	// told is, of a pod by itself, the object as it was when this was made, by which a change is noticed.
	told *api.Pod
	// payer is the queue that its allocations are charged to.
	payer    *cluster.Queue
	priority int32
	terms    *api.Terms
	// started is when its first pod got its allocation; zero: nobody knows, and so for long.
	started time.Time
	// size is what all of it is charged.
	size quantity.Vector
	// core is what of size its minimum is charged; of a pod by itself all of it.
	core quantity.Vector
	// stays is what of size can never be evicted: nil, or core.
	stays quantity.Vector
	// units is what of it may be evicted, what is left of a gang last; empty where nothing may.
	units []*unit
	pods  []*cluster.Pod
	// covered is by the quotas of how many queues its minimum is covered: its own, the one above, and so on, without
	// a gap. coverBelow counts it up from the leaves.
	covered int
	// shared is the same by fair shares, as a queue above last found it (rankByShare).
	shared int
}

// appraise works out what of the running workload may be evicted, and what of that decides its cost. The priority of
// a gang is the gang's own, whatever its pods say; that of a gang without a spec is 0.
func (s *Candidates) appraise(t *running) {
	first := t.pods[0]
	t.key, t.priority, t.started, t.terms = first.WorkloadKey(), first.Priority, first.Started, s.m.TermsOf(first)
	if t.Gang == nil {
		t.told = first.Pod
	} else if t.priority = 0; t.Gang.Spec != nil {
		t.priority = t.Gang.Spec.Priority
	}
	for _, p := range t.pods[1:] {
		if p.Started.Before(t.started) {
			t.started = p.Started
		}
	}
	s.divide(t)
	for _, u := range t.units {
		u.spans = spansOf(u.pods)
		u.budgeted = slices.ContainsFunc(u.pods, func(p *cluster.Pod) bool { return len(p.Budgets) > 0 })
	}
}

// compareRunning is the order in which workloads keep their allocations: those of a higher priority first, then those
// that started earlier. A gang and a pod by itself can have one key: the pod comes first. So the order is a total one.
func compareRunning(a, b *running) int {
	if a.priority != b.priority {
		return cluster.Before(a.priority > b.priority)
	}
	if c := cmp.Or(a.started.Compare(b.started), strings.Compare(a.key, b.key)); c != 0 || (a.Gang == nil) == (b.Gang == nil) {
		return c
	}
	return cluster.Before(a.Gang == nil)
}

// divide adds up what the running workload holds, and divides what may be evicted of it into units. One member that
// must stay makes all of the minimum stay, since what is left of the gang goes whole or not at all.
func (s *Candidates) divide(t *running) {
	t.size = cluster.ChargesOf(t.pods)
	if t.Gang == nil {
		t.core = t.size
		if bare(t.pods[0]) {
			t.units = []*unit{{of: t, pods: t.pods}}
		} else if !t.pods[0].Evictable {
			t.stays = t.size
		}
		return
	}
	slices.SortFunc(t.pods, cluster.ComparePods)
	above := t.aboveMinimum()
	goes := make(map[*cluster.Pod]bool)
	for _, u := range above {
		for _, p := range u.pods {
			goes[p] = true
		}
	}
	rest := &unit{of: t}
	// A gang with a core never goes whole: its first members may not be evicted.
	whole := t.Gang.Spec == nil || !t.Gang.Spec.Core
	stays := !whole
	for _, p := range t.pods {
		if goes[p] {
			continue
		}
		stays = stays || !p.Evictable
		for _, d := range p.Charge {
			t.core.Add(d.Dim, d.Amount)
		}
		if bare(p) {
			rest.pods = append(rest.pods, p)
		} else {
			whole = false
		}
	}
	if stays {
		t.stays = t.core
	}
	t.units = append(t.units, above...)
	if whole && len(rest.pods) > 0 {
		rest.goesAfter(above)
		t.units = append(t.units, rest)
	}
}

// bare says whether nothing about the pod itself keeps it from being evicted: it may be, it is bound, and it is not
// on its way out already.
func bare(p *cluster.Pod) bool { return p.Evictable && p.Node != "" && p.Host != nil && !p.Leaving() }

// aboveMinimum lists what the gang can lose and still have its minimum: single members in the order of their ranks, then groups, those
// below others first.
func (t *running) aboveMinimum() []*unit {
	if t.Gang.Spec == nil || t.Gang.Tree == nil {
		return nil
	}
	above, _ := t.divideBranch(t.Gang.Tree)
	slices.SortStableFunc(above, func(a, b *unit) int {
		switch {
		case a.group != b.group:
			return cluster.Before(b.group)
		case a.group:
			return 0
		}
		return cluster.ComparePods(a.pods[0], b.pods[0])
	})
	for _, u := range above {
		u.size = cluster.ChargesOf(u.pods)
	}
	return above
}

// divideBranch lists what the branch can lose and still have its minimum, and the members that are left then: in each
// leaf the members of the last ranks may go, and of more groups than must run the last by name. A branch that is
// disrupted whole can lose nothing.
func (t *running) divideBranch(b *cluster.Branch) (above []*unit, left []*cluster.Pod) {
	//mutate: evict-whole-groups
	if b.Group.Whole {
		b.Each(func(c *cluster.Branch) { left = append(left, allocated(c.Pods)...) })
		return nil, left
	}
	if len(b.Children) == 0 {
		return t.divideLeaf(b)
	}
	extra := -b.MinGroups()
	for _, c := range b.Children {
		if runs(c) {
			extra++
		}
	}
	for i := len(b.Children) - 1; i >= 0; i-- {
		c := b.Children[i]
		parts, rest := t.divideBranch(c)
		//mutate: evict-groups-above
		if extra > 0 && runs(c) && len(rest) > 0 && !slices.ContainsFunc(rest, func(p *cluster.Pod) bool { return !bare(p) }) {
			u := &unit{of: t, pods: rest, group: true}
			u.goesAfter(parts)
			parts, rest, extra = append(parts, u), nil, extra-1
		}
		above, left = append(above, parts...), append(left, rest...)
	}
	return above, left
}

// runs says whether the branch has its minimum on nodes to which it is bound: a binding that is on its way may be refused.
func runs(b *cluster.Branch) bool {
	if len(b.Children) == 0 {
		return bound(b) >= b.Keep()
	}
	n := 0
	for _, c := range b.Children {
		if runs(c) {
			n++
		}
	}
	return n >= b.MinGroups()
}

func bound(b *cluster.Branch) (n int) {
	for _, p := range b.Pods {
		if p.Host != nil && p.Node != "" {
			n++
		}
	}
	return n
}

// divideLeaf is divideBranch for a leaf. It goes from the last rank down: members that cannot go count towards the
// minimum that stays.
func (t *running) divideLeaf(b *cluster.Branch) (above []*unit, left []*cluster.Pod) {
	pods := allocated(b.Pods)
	extra := bound(b) - b.Keep()
	for i := len(pods) - 1; i >= 0; i-- {
		if extra > 0 && bare(pods[i]) {
			above = append(above, &unit{of: t, pods: []*cluster.Pod{pods[i]}})
			extra--
		} else {
			left = append(left, pods[i])
		}
	}
	return above, left
}

func allocated(pods []*cluster.Pod) (out []*cluster.Pod) {
	for _, p := range pods {
		if p.Host != nil {
			out = append(out, p)
		}
	}
	return out
}

// goesAfter has the units go before this one: what is left of a group or a gang goes last.
func (u *unit) goesAfter(above []*unit) {
	u.spare = slices.Clone(above)
	for _, o := range above {
		u.height = max(u.height, o.height+1)
		if o.rest == nil {
			o.rest = u
		}
	}
}

// promoted says whether the running workload started after it had waited for so long that it goes before higher
// priorities of its queue. It is not evicted for them then; otherwise it would only have its place until the next of
// them asks.
func (t *running) promoted() bool {
	q := t.payer.Spec
	if q == nil || q.PromoteAfter == 0 {
		return false
	}
	created := t.pods[0].Created
	if t.Gang != nil && t.Gang.Spec != nil {
		created = t.Gang.Spec.Created
	}
	return !t.started.Before(created.Add(q.PromoteAfter))
}

// whole is what the unit costs together with the members above the minimum that go before it.
func (u *unit) whole() int64 {
	cost := u.cost
	for _, o := range u.spare {
		cost += o.cost
	}
	return cost
}

// charged is what the unit's pods are charged of the resource, in the unit of accounts.
func (u *unit) charged(dim int) (sum int64) {
	for _, p := range u.pods {
		for _, d := range p.Charge {
			if d.Dim == dim {
				sum += d.Amount
			}
		}
	}
	return sum
}

// compareUnits puts first what is rather left alone: what goes after others, then the dearest, then in the order in
// which workloads keep their allocations. It ends in the name of the queue and the order of pods, so that no two
// units are equal.
func compareUnits(a, b *unit) int {
	if a.height != b.height {
		return cluster.Before(a.height > b.height)
	}
	if a.cost != b.cost {
		return cluster.Before(a.cost > b.cost)
	}
	if c := compareRunning(a.of, b.of); c != 0 {
		return c
	}
	return cmp.Or(strings.Compare(a.of.payer.Name, b.of.payer.Name), cluster.ComparePods(a.pods[0], b.pods[0]))
}

// compareSets puts first the set that is rather evicted. Each set must be in the order of compareUnits. At the first
// difference the set whose unit is rather evicted is the better one: of two sets that cost the same, the one whose
// best kept workload matters less.
func compareSets(a, b []*unit) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return compareUnits(b[i], a[i])
		}
	}
	return cmp.Compare(len(a), len(b))
}
