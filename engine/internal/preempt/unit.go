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

// Units: which pods of a running workload are evicted together. A gang below its minimum is of no use, so evicting one
// member of the minimum would waste what the others hold. A running workload is therefore divided into units, each of
// which is evicted whole: members of a gang above its minimum go one by one, groups above a minimum of groups each as a
// whole, and the rest of the gang whole or not at all.
//
// The division follows from the pods, the spec and the tree of the gang. It is made with the list of candidates
// (candidates.go) and holds until the workload changes; it does not depend on the claimant. Dividing costs a look at each
// pod and a sort of them.
//
// For example, a gang with a minimum of 2 runs 4 members. Ranks 3 and 2 are units of their own (spare), and ranks 0
// and 1 are one unit (rest), which can go only after both others. So a claimant that lacks one GPU takes rank 3
// alone, and the gang runs on with 3 members.
//
// Another gang must run one of the groups a and b, each with a minimum of two members, and runs with a-0, a-1, a-2,
// b-0, b-1 and b-2. Its units are a-2; b-2; b-0 with b-1, which go after b-2; and a-0 with a-1, which go after all of
// these.

// unit is the pods that are evicted together: a pod by itself, a member of a gang above its minimum, or the rest of a
// group or a gang once those are gone. The fields come in three sets: those that hold as long as the list of candidates,
// those of one claim, which are void unless claim is the number of that claim, and scratch memory.
type unit struct {
	// of is the running workload that the unit is a part of.
	of *running
	// pods is never empty, and all pods are of one workload. The order is always the same: by ComparePods in the rest of
	// a gang, as divideBranch comes upon them in a group.
	pods []*cluster.Pod
	// spare lists the units that must go before this one, in the order in which they go: those above the minimum of the
	// same gang, or of the same group. Their cost counts with this unit (whole). nil for a unit above a minimum that is
	// one member.
	spare []*unit
	// rest is the inverse of spare: the unit that goes after this one, of the group if there is one and else of the gang;
	// nil: there is none, because that rest can never go, or because this unit is the last.
	rest *unit
	// group says that the unit is the rest of a group above a minimum of groups.
	group bool
	// height is 0 where spare is empty, and otherwise one more than the greatest height in spare.
	height int

	// size is what a unit above a minimum is charged, in the unit of accounts; nil for other units, which are charged
	// with their workload (running.core).
	size quantity.Vector
	// returns is valid while the unit is lifted: what it was charged for pods whose owner makes them again (lift).
	returns quantity.Vector
	// spans is what the cost is computed from (cost.go). It is never empty.
	spans []span
	// budgeted says that disruption budgets cover some of the pods, so that evicting the unit draws on them.
	budgeted bool
	// surge says that the unit is moved and stays until its replacement runs (surge.go).
	surge bool

	// claim is the number of the claim that the fields below belong to. A unit with another number is not legal for the
	// claim, and nothing below may be read. Numbers only grow, so that a claim begins without resetting the units.
	claim uint64
	// cause is the right by which the unit may be evicted: the strongest that applies (takeUnit).
	cause api.EvictionCause
	// cost is the disruption cost of the pods of this unit alone, in thousandths of GPU-seconds, at the time of the cycle.
	cost int64
	// reach is how far up its tree the claimant's queue must be within its quota or, where the cause is Shared, within its
	// fair share: 0 its own queue, 1 the parent too; -1: the right rests on neither.
	reach int
	// taken says that the unit is lifted off its nodes in the model.
	taken bool

	// pass is the number of the scan, cut or pick that looked at the unit last.
	pass uint64
	// gone is the number of the search or pick that counts the unit as gone, in its sums and not in the model.
	gone uint64
	// allocations is where the pods were, in the order of pods, while the unit is lifted.
	allocations []allocationOf
	// to is the names of the nodes to which the pods of a unit that is moved go, in the order of pods.
	to []string
}

// allocationOf is the allocation that a pod had before it was lifted.
type allocationOf struct {
	node    *cluster.Node
	devices []string
}

// running is a workload that has allocations in a queue: its pods that are charged there and are not on their way out. It
// is made by Candidates and kept until the workload changes; only covered and shared change in between.
//
// Members that another scheduler has bound are charged to no queue, and are not among the pods. They still count towards
// the minimum of their gang (divideLeaf).
type running struct {
	cluster.Workload
	// key is that of the gang, or of the pod.
	key string
	// told is the object of a pod by itself when this was made; another pointer means that the pod was told anew. nil for
	// a gang.
	told *api.Pod
	// payer is the queue that the allocations are charged to.
	payer *cluster.Queue
	// priority is that of the gang's spec, 0 for a gang without one, or of the pod.
	priority int32
	terms    *api.Terms
	// started is when the first pod got its allocation; zero: unknown, and taken for long ago.
	started time.Time
	// size is the sum of the charges of all pods, in the unit of accounts.
	size quantity.Vector
	// core is the part of size that the minimum is charged; of a pod by itself it is all of size.
	core quantity.Vector
	// stays is the part of size that can never be evicted: nil, or core.
	stays quantity.Vector
	// units is what may be evicted, the rest of a gang last; empty where nothing may.
	units []*unit
	// pods is never empty. divide sorts those of a gang by ComparePods.
	pods []*cluster.Pod
	// covered is the number of queues whose quota covers the minimum: its own queue, the one above, and so on, without a
	// gap. coverBelow counts it up from the leaves.
	covered int
	// shared is the same for fair shares. It is valid only after rankByShare for a queue above, until the next one.
	shared int
}

// appraise derives everything in the running workload but payer, pods and Workload, which the caller has set: its order
// among the candidates, its units, and what their cost is computed from. It reads no clock: costs grow with time and are
// computed for each claim (costOf).
func (s *Candidates) appraise(t *running) {
	first := t.pods[0]
	// The priority of a gang is that of its spec, whatever its pods say: members are evicted together, and must have one
	// place in the order.
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
	t.divide()
	for _, u := range t.units {
		u.spans = spansOf(u.pods)
		u.budgeted = slices.ContainsFunc(u.pods, func(p *cluster.Pod) bool { return len(p.Budgets) > 0 })
	}
}

// compareRunning is the order in which workloads keep their allocations: the higher priority first, then the earlier
// start, then the key. A gang and a pod by itself may have the same key; the pod comes first. Within a queue no two
// running workloads are equal.
func compareRunning(a, b *running) int {
	if a.priority != b.priority {
		return cluster.Before(a.priority > b.priority)
	}
	if c := cmp.Or(a.started.Compare(b.started), strings.Compare(a.key, b.key)); c != 0 || (a.Gang == nil) == (b.Gang == nil) {
		return c
	}
	return cluster.Before(a.Gang == nil)
}

// divide sets size, core and stays, and divides what may be evicted into units. One member of the minimum that must stay
// makes all of the minimum stay, since the rest of the gang goes whole or not at all.
//
// "May not be evicted" has two strengths. A pod that is not Evictable never goes, and its charge is covered before
// everything else (stays). A pod that is Evictable but not bound yet cannot go at this moment (bare): it is in no unit, and
// neither is the rest of its gang, but its charge is covered in its turn like any other.
func (t *running) divide() {
	t.size = cluster.ChargesOf(t.pods)
	if t.Gang == nil {
		// A pod by itself is its own minimum.
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
	// goes has the pods above the minimum; all others are the minimum.
	goes := make(map[*cluster.Pod]bool)
	for _, u := range above {
		for _, p := range u.pods {
			goes[p] = true
		}
	}
	rest := &unit{of: t}
	// whole says that the minimum can be evicted now, stays that it never can be. A gang with a core never goes whole:
	// its first members may not be evicted.
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

// bare says whether nothing about the pod itself keeps it from being evicted: it may be evicted, it is bound, and it is
// not on its way out already. A pod that is being bound (Host without Node) cannot be evicted, because the API server has
// not bound it yet; and a pod that is lifted in a trial has no Host.
func bare(p *cluster.Pod) bool { return p.Evictable && p.Node != "" && p.Host != nil && !p.Leaving() }

// aboveMinimum lists the units that the gang can lose and still have its minimum: single members in the order of their
// ranks, then groups, those within others first. takeUnit relies on that order: every unit comes after those in its spare.
// A gang without a spec or a tree has no minimum that could be known, and loses nothing but the whole.
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
	// size is set for these units alone: cut.find tells by it that a unit is covered by itself.
	for _, u := range above {
		u.size = cluster.ChargesOf(u.pods)
	}
	return above
}

// divideBranch lists the units that the branch can lose and still have its minimum, and the members that are left then.
// In each leaf the members of the last ranks may go. Where more groups run than must, the last of them by name may go,
// each once its own members above the minimum are gone. A branch that is disrupted whole (Group.Whole) can lose nothing.
//
// It recurses from the leaves up, because a group that is not spared as a whole may still have members to spare, and
// because what is left of a group is known only after its own groups have been divided.
func (t *running) divideBranch(b *cluster.Branch) (above []*unit, left []*cluster.Pod) {
	//mutate: evict-whole-groups
	if b.Group.Whole {
		b.Each(func(c *cluster.Branch) { left = append(left, allocated(c.Pods)...) })
		return nil, left
	}
	if len(b.Children) == 0 {
		return t.divideLeaf(b)
	}
	// extra is how many groups run beyond the number that must. A group below its own minimum does not count: it is of no
	// use, and sparing it for one that runs would leave the gang below its minimum.
	extra := -b.KeepGroups()
	for _, c := range b.Children {
		if runs(c) {
			extra++
		}
	}
	for i := len(b.Children) - 1; i >= 0; i-- {
		c := b.Children[i]
		parts, rest := t.divideBranch(c)
		// A group that runs and is not needed becomes a unit, if all that is left of it can go. Otherwise its pods are left
		// to the branch above.
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

// runs says whether the branch has its minimum bound to nodes. Members that are being bound do not count, since a binding
// may be refused, and what was evicted in reliance on it would then be missing.
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
	return n >= b.KeepGroups()
}

// bound counts the members of a leaf that are bound. Branch.Pods has no members that are on their way out.
func bound(b *cluster.Branch) (n int) {
	for _, p := range b.Pods {
		if p.Host != nil && p.Node != "" {
			n++
		}
	}
	return n
}

// divideLeaf is divideBranch for a leaf. It goes from the last rank down and takes as many members as there are beyond the
// minimum (Keep). A member that cannot go counts towards the minimum that stays, and one of a lower rank goes for it.
//
// For example, of ranks 0 to 3 with a minimum of 2, rank 3 may not be evicted: ranks 2 and 1 are units, and ranks 3 and 0
// are left.
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

// allocated returns the pods that have an allocation, in the same order.
func allocated(pods []*cluster.Pod) (out []*cluster.Pod) {
	for _, p := range pods {
		if p.Host != nil {
			out = append(out, p)
		}
	}
	return out
}

// goesAfter makes the units go before this one: the rest of a group or of a gang goes last. It is called from the inner
// groups out, so that rest of each unit is the nearest one, whose own rest is the next.
func (u *unit) goesAfter(above []*unit) {
	u.spare = slices.Clone(above) // above is appended to afterwards
	for _, o := range above {
		u.height = max(u.height, o.height+1)
		if o.rest == nil {
			o.rest = u
		}
	}
}

// promoted says whether the running workload had waited for PromoteAfter of its queue when it started, and so went before
// higher priorities of that queue. It is not evicted for them: otherwise it would keep its place only until the next of
// them asks (scenario promoted-by-age). A workload whose start is unknown (the zero time) counts as not promoted.
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

// whole is the cost of the unit and of all units that go before it, in thousandths of GPU-seconds. All of them must be
// legal for the same claim, which they are where this one is (takeUnit).
func (u *unit) whole() int64 {
	cost := u.cost
	for _, o := range u.spare {
		cost += o.cost
	}
	return cost
}

// charged is what the pods are charged of the dimension now, in the unit of accounts; 0 while they are lifted, since the
// model drops the charge with the allocation.
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

// compareUnits puts the units first that should rather be left alone: the rest of a gang before its spare members (a
// greater height), then the dearer one, then by the order in which workloads keep their allocations. The order ends in the
// name of the queue and in the first pod, so that no two units of a claim are equal.
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

// compareSets puts the set first that should rather be evicted. Each set must be sorted by compareUnits. The sets are
// compared unit by unit from the one that matters most; at the first difference the set whose unit matters less is the
// better one, and where one set begins with the other, the smaller one.
func compareSets(a, b []*unit) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return compareUnits(b[i], a[i])
		}
	}
	return cmp.Compare(len(a), len(b))
}
