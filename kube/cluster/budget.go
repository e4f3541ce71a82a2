package cluster

import (
	"maps"
	"slices"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/convert"
)

// budgets are the PodDisruptionBudgets, and whose pods may be covered by others than before. Without any they cost
// nothing.
type budgets struct {
	out   *output
	in    map[string]map[string]*budget // by namespace, then by key
	first map[string][]string           // of namespaces with more than are looked at: keys of those that are; found when asked for
	stale map[string]bool               // namespaces whose pods are to be looked at before the next plan
}

// budget is a PodDisruptionBudget as last seen.
type budget struct {
	selector labels.Selector
	allowed  int
}

func newBudgets(out *output) *budgets {
	return &budgets{out: out, in: make(map[string]map[string]*budget), first: make(map[string][]string), stale: make(map[string]bool)}
}

// selectorOf selects the pods that the budget covers. Without a selector, or with one that makes no sense or is above a limit,
// those are none.
func selectorOf(b *policyv1.PodDisruptionBudget) labels.Selector {
	s, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	if err != nil || convert.BudgetOverLimits(b) {
		return labels.Nothing()
	}
	return s
}

// set takes in a PodDisruptionBudget, and remove takes one away.
func (s *budgets) set(b *policyv1.PodDisruptionBudget) {
	key := b.Namespace + "/" + b.Name
	is, was := &budget{selectorOf(b), int(max(0, b.Status.DisruptionsAllowed))}, s.in[b.Namespace][key]
	insert(s.in, b.Namespace, key, is)
	delete(s.first, b.Namespace)
	if was == nil || was.selector.String() != is.selector.String() {
		s.stale[b.Namespace] = true
		s.out.wake()
	}
	if was == nil || was.allowed != is.allowed {
		s.out.put(engine.Change{Disruption: &engine.Disruption{Key: key, Version: s.out.derived.next(), Allowed: is.allowed}})
	}
}

func (s *budgets) remove(b *policyv1.PodDisruptionBudget) {
	key := b.Namespace + "/" + b.Name
	if s.in[b.Namespace][key] == nil {
		return
	}
	cut(s.in, b.Namespace, key)
	delete(s.first, b.Namespace)
	s.stale[b.Namespace] = true
	s.out.drop(engine.KindDisruption, key, s.out.derived.next())
}

// of lists the budgets that cover a pod of the labels, by key.
func (b *budgets) of(namespace string, l labels.Set) []string {
	all := b.in[namespace]
	var out []string
	if len(all) > convert.MaxBudgets {
		for _, key := range b.counted(namespace) {
			if all[key].selector.Matches(l) {
				out = append(out, key)
			}
		}
		return out
	}
	for key, budget := range all {
		if budget.selector.Matches(l) {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return out
}

// counted lists the budgets that are looked at, of a namespace that has too many.
func (b *budgets) counted(namespace string) []string {
	if b.first[namespace] == nil {
		b.first[namespace] = convert.CountedBudgets(slices.Collect(maps.Keys(b.in[namespace])))
	}
	return b.first[namespace]
}

// coverPod names the budgets that cover a pod of ours, says whether the next one can be made while it runs, and keeps it
// from being evicted where its PodGroup says so.
func (f *Feed) coverPod(m *member, v *engine.Pod) {
	if !m.pays() {
		return
	}
	v.Budgets = f.budgets.of(m.pod.Namespace, m.raw.Labels)
	v.Surges = !m.inGang() && f.owners.surges(m.pod)
	if v.Evictable && m.inGang() && f.gangs.protected(m.workload) {
		v.Evictable = false
	}
}

// cover gives the pods again whose budgets are others now.
func (f *Feed) cover() {
	if len(f.budgets.stale) == 0 {
		return
	}
	var found []*member
	//archtest:any-order giveAgain sorts them
	for _, m := range f.members.pods {
		if f.budgets.stale[m.pod.Namespace] && m.pays() && m.given && !slices.Equal(m.value.Budgets, f.budgets.of(m.pod.Namespace, m.raw.Labels)) {
			found = append(found, m)
		}
	}
	clear(f.budgets.stale)
	f.giveAgain(found)
}
