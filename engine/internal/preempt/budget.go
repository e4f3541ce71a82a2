package preempt

import (
	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
)

// Disruption budgets. A set of victims that keeps them all comes before any that does not, whatever it costs.
//
// What a budget allows is known from Kubernetes (api.Disruption.Allowed), less the evictions that are decided and
// have not begun, which Kubernetes cannot know of. For example, a budget allows 2 evictions, the plan has decided 1,
// and a set has 3 pods under it: 3 - (2 - 1) = 2 evictions are beyond the budget.

// disruption counts, by budget, the pods of the units that are lifted or counted as gone.
type disruption struct {
	// of is how many of these pods the budget covers. nil: none is covered by any. An entry may be 0 once units are
	// put back.
	of map[string]int
	// kept is how many of them are in queues that never break budgets (KeepBudgets).
	kept map[string]int
	// hard says that no budget may be broken at all, as when work is moved.
	hard bool
}

// count adds the unit's pods, or with by = -1 subtracts them. It is its own inverse.
func (t *disruption) count(u *unit, by int) {
	if !u.budgeted {
		return
	}
	for _, p := range u.pods {
		for _, b := range p.Budgets {
			if t.of == nil {
				t.of, t.kept = make(map[string]int), make(map[string]int)
			}
			t.of[b] += by
			if q := u.of.payer; q.Spec != nil && q.Spec.KeepBudgets {
				t.kept[b] += by
			}
		}
	}
}

// broken counts the pods that are evicted beyond what budgets allow; a pod under two such budgets counts twice. never
// says that one of those budgets must not be broken, so that the set is of no use.
func (y *Cycle) broken(t *disruption) (pods int, never bool) {
	//archtest:any-order sums are the same in any order
	for b, n := range t.of {
		if over := n - y.allowed(b); n > 0 && over > 0 {
			pods += over
			never = never || t.kept[b] > 0 || t.hard
		}
	}
	return pods, never
}

// allowed is how many more pods of the budget may be evicted; a budget that is not known allows all.
func (y *Cycle) allowed(budget string) int {
	d := y.m.Disruptions[budget]
	if d == nil || y.m.IsRejected(api.KindDisruption, budget) {
		return 1 << 30
	}
	return max(0, d.Allowed-y.underWay()[budget])
}

// underWay counts, by budget, the pods whose eviction is decided and has not begun, which no budget knows of yet. It
// counts those of earlier plans once in a cycle; evict and Disrupt add those of this one. Surges do not count: their
// pod ends only when the next one runs.
func (y *Cycle) underWay() map[string]int {
	if y.disrupted == nil {
		y.disrupted = make(map[string]int)
		//archtest:any-order a count for each budget
		for key, e := range y.m.Evictions {
			if p := y.m.Pods[key]; p != nil && p.Evicting && !p.Terminating && !e.Refused && !e.Surge {
				y.disrupt(p)
			}
		}
	}
	return y.disrupted
}

func (y *Cycle) disrupt(p *cluster.Pod) {
	for _, b := range p.Budgets {
		y.disrupted[b]++
	}
}

// forbidden says whether evicting the pod alone breaks a budget that its queue always keeps. Such a pod is in no set,
// so it is not made legal in the first place.
func (c *claim) forbidden(p *cluster.Pod) bool {
	q := p.Payer
	if len(p.Budgets) == 0 || q == nil || q.Spec == nil || !q.Spec.KeepBudgets {
		return false
	}
	for _, b := range p.Budgets {
		if c.y.allowed(b) == 0 {
			return true
		}
	}
	return false
}
