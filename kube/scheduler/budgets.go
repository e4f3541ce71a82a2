package scheduler

import (
	"maps"
	"slices"
	"strings"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/convert"
)

// budgets are the PodDisruptionBudgets, and whose pods may be covered by others than before. Without any they cost
// nothing.
type budgets struct {
	in    map[string]map[string]*budget // by namespace, then by key
	first map[string][]string           // of namespaces with more than are looked at: keys of those that are; found when asked for
	stale map[string]bool               // namespaces whose pods are to be looked at before the next plan
}

// budget is a PodDisruptionBudget as last seen.
type budget struct {
	selector labels.Selector
	allowed  int
}

func newBudgets() budgets {
	return budgets{in: make(map[string]map[string]*budget), first: make(map[string][]string), stale: make(map[string]bool)}
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

func (f *feed) setBudget(b *policyv1.PodDisruptionBudget) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := b.Namespace + "/" + b.Name
	is, was := &budget{selectorOf(b), int(max(0, b.Status.DisruptionsAllowed))}, f.budgets.in[b.Namespace][key]
	insert(f.budgets.in, b.Namespace, key, is)
	delete(f.budgets.first, b.Namespace)
	if was == nil || was.selector.String() != is.selector.String() {
		f.budgets.stale[b.Namespace] = true
		f.inbox.stir()
	}
	if was == nil || was.allowed != is.allowed {
		f.inbox.put(engine.Change{Disruption: &engine.Disruption{Key: key, Version: f.made.next(), Allowed: is.allowed}})
	}
}

func (f *feed) removeBudget(b *policyv1.PodDisruptionBudget) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := b.Namespace + "/" + b.Name
	if f.budgets.in[b.Namespace][key] == nil {
		return
	}
	cut(f.budgets.in, b.Namespace, key)
	delete(f.budgets.first, b.Namespace)
	f.budgets.stale[b.Namespace] = true
	f.drop(engine.KindDisruption, key, f.made.next())
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

// cover names the budgets that cover a pod of ours, says whether the next one can be made while it runs, and keeps it
// from being evicted where its PodGroup says so.
func (f *feed) cover(m *member, v *engine.Pod) {
	if !m.pays() {
		return
	}
	v.Budgets = f.budgets.of(m.pod.Namespace, m.raw.Labels)
	v.Surges = !m.inGang() && f.owners.surges(m.pod)
	if v.Evictable && m.inGang() && f.firm(m.workload) {
		v.Evictable = false
	}
}

// recover gives the pods again whose budgets are others now.
func (f *feed) recover() {
	if len(f.budgets.stale) == 0 {
		return
	}
	var found []*member
	for _, m := range f.pods {
		if f.budgets.stale[m.pod.Namespace] && m.pays() && m.given && !slices.Equal(m.value.Budgets, f.budgets.of(m.pod.Namespace, m.raw.Labels)) {
			found = append(found, m)
		}
	}
	clear(f.budgets.stale)
	f.giveAgain(found)
}

// giveAgain gives the pods, which the engine knows, with what follows from other objects now.
func (f *feed) giveAgain(members []*member) {
	slices.SortFunc(members, func(a, b *member) int { return strings.Compare(a.key, b.key) })
	for _, m := range members {
		if m.needsClaims() {
			f.storage.again[m.key] = true // it is given with what its claims allow
			continue
		}
		v := f.read(m.pod)
		v.Version = f.versions.next()
		f.put(m, &v)
	}
}

// giveMembersAgain does so with the members of a gang.
func (f *feed) giveMembersAgain(gang string) {
	f.giveAgain(slices.DeleteFunc(f.sorted(gang), func(m *member) bool { return !m.given }))
}

// firm says whether the workload's PodGroup keeps its pods from being evicted for others.
func (f *feed) firm(workload string) bool {
	g := f.groupOf(workload, leadOf(f.sorted(workload)))
	return g != nil && !convert.Evictable(g)
}
