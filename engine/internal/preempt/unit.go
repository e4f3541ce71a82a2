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

// What is evicted together, and of whom. A running workload is divided into units once, when its list of candidates is made:
// members of a gang above its minimum can go one by one, and what is left of the gang goes whole or not at all.

// unit is what is evicted together: a pod by itself, a member of a gang above its minimum, or what is left of a gang
// once those are gone.
type unit struct {
	of    *running
	pods  []*cluster.Pod
	spare []*unit // of what is left of a gang: its members above the minimum, which go first
	rest  *unit   // of a member above the minimum: what is left of its gang; nil: that stays

	size     quantity.Vector // of a member above the minimum: what it is booked with
	returns  quantity.Vector // while it is lifted: what it was booked with of pods that somebody makes again
	spans    []span
	budgeted bool // disruption budgets cover some of its pods, and are taken from when it goes
	surge    bool // of what is moved: it stays until the next one runs

	// For one claim.
	claim       uint64
	cause       api.EvictionCause
	cost        int64
	reach       int // how far up its tree the claimant's queue must be within quota for it or, where it is shared, within its share
	taken       bool
	pass        uint64 // scan that has looked at it
	gone        uint64 // scan that counts it as gone
	allocations []allocationOf
	to          []string // of what is moved: the nodes where its pods have places
}

// allocationOf is where a pod sat before it was lifted.
type allocationOf struct {
	node    *cluster.Node
	devices []string
}

// running is a workload that has allocations in a queue: those of its pods that are not on their way out.
type running struct {
	cluster.Workload
	key      string
	told     *api.Pod // of a pod by itself
	payer    *cluster.Queue
	priority int32
	terms    *api.Terms
	started  time.Time       // when its first pod got its allocation; zero: for long
	size     quantity.Vector // what it is booked with
	core     quantity.Vector // what of that is its minimum
	stays    quantity.Vector // what of that can never be evicted
	units    []*unit         // what of it may be evicted; what is left of a gang last
	pods     []*cluster.Pod
	covered  int // by the quotas of how many queues its minimum is covered: its own, the one above, and so on, without a gap
	shared   int // the same by their fair shares, as a queue above last found it
}

// appraise works out what of the running workload may be evicted, and what of that decides its cost.
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

func compareRunning(a, b *running) int {
	if a.priority != b.priority {
		return cluster.Before(a.priority > b.priority)
	}
	return cmp.Or(a.started.Compare(b.started), strings.Compare(a.key, b.key))
}

// divide adds up what the running workload holds, and divides what may be evicted of it into units.
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
	rest := &unit{of: t}
	spare := sparesOf(t.Gang)
	whole := t.Gang.Spec == nil || !t.Gang.Spec.Core
	stays := !whole
	for _, p := range t.pods {
		if slices.Contains(spare, p) {
			u := &unit{of: t, pods: []*cluster.Pod{p}}
			u.size = cluster.ChargesOf(u.pods)
			rest.spare = append(rest.spare, u)
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
	t.units = append(t.units, rest.spare...)
	if whole && len(rest.pods) > 0 {
		for _, u := range rest.spare {
			u.rest = rest
		}
		t.units = append(t.units, rest)
	}
}

// bare says whether nothing about the pod itself keeps it from being evicted.
func bare(p *cluster.Pod) bool { return p.Evictable && p.Node != "" && p.Host != nil && !p.Leaving() }

// sparesOf lists the members that the gang can lose and still have its minimum: in each leaf those of the last ranks. A gang that is
// disrupted whole can lose none.
func sparesOf(g *cluster.Gang) []*cluster.Pod {
	//mutate: evict-whole-gangs -> g.Spec == nil || g.Tree == nil
	if g.Spec == nil || g.Tree == nil || g.Spec.Whole {
		return nil
	}
	var out []*cluster.Pod
	g.Tree.Each(func(b *cluster.Branch) {
		if len(b.Children) > 0 {
			return
		}
		bound := 0
		for _, p := range b.Pods {
			if p.Host != nil && p.Node != "" {
				bound++
			}
		}
		for i := len(b.Pods) - 1; i >= 0 && bound > b.Min(); i-- {
			if bare(b.Pods[i]) {
				out = append(out, b.Pods[i])
				bound--
			}
		}
	})
	return out
}

// promoted says whether the running workload started after it had waited for so long that it goes before higher priorities of its
// queue: it is not evicted for them then.
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

// whole is what the unit costs with what goes before it.
func (u *unit) whole() int64 {
	cost := u.cost
	for _, o := range u.spare {
		cost += o.cost
	}
	return cost
}

// charged is what the unit's pods are charged of the resource.
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

// compareUnits puts first what is rather left alone: what is left of gangs, then the dearest, then as on a list of candidates.
func compareUnits(a, b *unit) int {
	if x, y := len(a.spare) > 0, len(b.spare) > 0; x != y {
		return cluster.Before(x)
	}
	if a.cost != b.cost {
		return cluster.Before(a.cost > b.cost)
	}
	if c := compareRunning(a.of, b.of); c != 0 {
		return c
	}
	return cmp.Or(strings.Compare(a.of.payer.Name, b.of.payer.Name), cluster.ComparePods(a.pods[0], b.pods[0]))
}

// compareSets puts first the set that is rather evicted: of the units that only one of the two has, the one that is rather
// left alone than all others is in the other set. Each set is in the order of compareUnits.
func compareSets(a, b []*unit) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return compareUnits(b[i], a[i])
		}
	}
	return cmp.Compare(len(a), len(b))
}
