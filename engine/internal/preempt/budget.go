package preempt

import (
	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
)

// Disruption budgets: a set of victims that keeps them all comes before any that does not.

// disruption counts, by budget, the victims of a claim.
type disruption struct {
	of   map[string]int // victims that the budget covers
	kept map[string]int // of these, those in queues that never violate budgets
	hard bool           // none may be violated
}

// count adds the unit's pods, or with by = -1 takes them off.
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

// broken is how many pods are evicted beyond what budgets allow, and whether one of those is never to be violated.
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

// underWay counts, by budget, pods whose eviction is decided and has not begun, which no budget knows of yet.
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

// forbidden says whether evicting the pod alone violates a budget that its queue always keeps.
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
