package cluster

import (
	"cmp"
	"maps"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/kube/convert"
	"github.com/berth-dev/berth/kube/dialect"
)

// Objects of dialects that stand for workloads, and the status that they are to have.

type groupKey struct{ kind, namespace, name string }

// foreignGroup is what is known of an object that stands for a workload, whether or not it exists.
type foreignGroup struct {
	members           map[string]*member
	succeeded, failed map[types.UID]bool
	make              func() *unstructured.Unstructured // as the last of them said; nil: people make it
	after             time.Time                         // when it is looked at again
	job               types.UID                         // the Job whose pods they are; "": another controller, or none
}

func (f *Feed) reenterGroup(key groupKey) {
	g := f.foreign.groups[key]
	if g == nil {
		return
	}
	for _, pod := range sortedNames(g.members) {
		if m := f.members.pods[pod]; m != nil {
			f.reenter(m)
		}
	}
	f.tenancy.UsageChanged()
	if len(f.checked.reserved) > 0 {
		f.out.wake() // it may be that all have agreed
	}
}

func (s *foreign) group(r *dialect.GroupRef) *foreignGroup {
	key := keyOfGroup(r)
	g := s.groups[key]
	if g == nil {
		g = &foreignGroup{members: make(map[string]*member), succeeded: make(map[types.UID]bool), failed: make(map[types.UID]bool)}
		s.groups[key] = g
	}
	return g
}

func keyOfGroup(r *dialect.GroupRef) groupKey { return groupKey{r.Kind, r.Namespace, r.Name} }

// maxEnded is of how many pods of one group it is remembered that they are over.
const maxEnded = 1 << 16

// ended counts a pod of a group that is over. It is forgotten with the group's object.
func (s *foreign) ended(m *member, p *corev1.Pod) {
	if m.foreign == nil || m.foreign.Group == nil {
		return
	}
	g := s.group(m.foreign.Group)
	switch {
	case len(g.succeeded)+len(g.failed) >= maxEnded:
	case p.Status.Phase == corev1.PodSucceeded:
		g.succeeded[p.UID] = true
	case p.Status.Phase == corev1.PodFailed:
		g.failed[p.UID] = true
	}
}

// ForeignGroup is an object that stands for a workload in a dialect, and what has become of the workload.
type ForeignGroup struct {
	dialect.Dialect
	Kind     dialect.Kind
	Ref      dialect.GroupRef
	Object   *unstructured.Unstructured // nil: it does not exist
	Unread   []string
	Lacks    []string // what keeps its pods from being planned, where there are none to tell it of
	Problem  string
	Workload string       // of one of its pods; "": none is left
	Alone    bool         // no pod is of it: only Unread and Problem are to be told
	Ends     *batchv1.Job // that is to be suspended; nil: none
	State    dialect.GroupState
}

// ForeignGroups are those with pods, or with pods that are over, by kind, namespace and name. It goes through all of their pods.
func (f *Feed) ForeignGroups() []ForeignGroup {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.foreign
	var out []ForeignGroup
	for _, key := range slices.SortedFunc(maps.Keys(s.groups), compareGroups) {
		g, by := s.groups[key], s.kinds[key.kind]
		if s.rival(by.Dialect) != "" {
			continue
		}
		v := ForeignGroup{Dialect: by.Dialect, Kind: by.Kind, Ref: dialect.GroupRef{Kind: key.kind, Namespace: key.namespace, Name: key.name}}
		if t := s.objects[key.kind][key.namespace+"/"+key.name]; t != nil {
			v.Object, v.Unread, v.Problem = t.raw, t.said.Unread, t.said.Problem
		} else if f.forgetGroup(key) {
			continue
		}
		v.Ref.Make = g.make
		v.State.Succeeded, v.State.Failed, v.State.Preemptible = len(g.succeeded), len(g.failed), true
		if j := f.expected.jobs[g.job]; j != nil {
			v.State.Ended, v.State.Evicted = endOf(j), suspended(j) && f.expected.ran[g.job]
		}
		var nodes []string
		var last *member
		held, wanted := make(map[string]int64), make(map[string]int64)
		for _, pod := range sortedNames(g.members) {
			m := g.members[pod]
			v.Workload = m.workload
			if Expected(m.raw) { // there is no pod to tell it of
				v.Unread = m.foreign.Unread
				v.Lacks = m.lacks
			}
			v.State.Checks, v.State.Ends = m.foreign.Checks, m.foreign.Ends
			v.State.Preemptible = v.State.Preemptible && convert.Evictable(m.pod)
			for _, a := range m.takes {
				wanted[a.Resource] += a.Value
			}
			if !m.bound() {
				v.State.Pending++
				continue
			}
			v.State.Running++
			nodes, last = append(nodes, m.pod.Spec.NodeName), m
			for _, a := range m.takes {
				held[a.Resource] += a.Value
			}
		}
		if r := f.checked.reserved[v.Workload]; r != nil && last == nil {
			v.State.Reserved = true
			if m := g.members[sortedNames(g.members)[0]]; m.workload == v.Workload {
				nodes, last = r.on, m
			}
		}
		if last != nil {
			v.State.Flavor = f.flavorOf(last, nodes)
		}
		if v.Workload != "" {
			v.State.Min, v.State.Queue = f.gangs.described[v.Workload].Min, f.gangs.described[v.Workload].Queue
			if m := f.members.pods[v.Workload]; m != nil && !m.inGang() {
				v.State.Queue = f.payer(m)
			}
		}
		if j := f.expected.jobs[g.job]; j != nil && v.State.Ends != "" && !suspended(j) && endOf(j) == "" {
			v.Ends = j
		}
		v.State.Begun = v.State.Running > 0
		v.State.Allocated, v.State.Requested = listOf(held), listOf(wanted)
		out = append(out, v)
	}
	return append(out, s.alone()...)
}

// forgetGroup forgets what is known of a workload whose object is gone, where it has no pods, and no Job that would have it made again.
func (f *Feed) forgetGroup(key groupKey) bool {
	g := f.foreign.groups[key]
	if g == nil || len(g.members) > 0 || g.make != nil && f.expected.jobs[g.job] != nil {
		return false
	}
	delete(f.foreign.groups, key)
	return true
}

// alone are the objects that would stand for a workload, have no pods, and say what has no effect, or said so.
func (s *foreign) alone() []ForeignGroup {
	var out []ForeignGroup
	for _, kind := range sortedNames(s.objects) {
		by := s.kinds[kind]
		if !by.Grouping || s.rival(by.Dialect) != "" {
			continue
		}
		for _, name := range sortedNames(s.objects[kind]) {
			t := s.objects[kind][name]
			key := groupKey{kind, t.said.Namespace, t.said.Name}
			if s.groups[key] == nil && (len(t.said.Unread) > 0 || t.said.Problem != "" || dialect.IsTrue(t.raw, v1alpha1.NotUnderstood)) {
				out = append(out, ForeignGroup{
					Dialect: by.Dialect, Kind: by.Kind, Ref: dialect.GroupRef{Kind: kind, Namespace: key.namespace, Name: key.name},
					Object: t.raw, Unread: t.said.Unread, Problem: t.said.Problem, Alone: true,
				})
			}
		}
	}
	return out
}

func compareGroups(a, b groupKey) int {
	return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
}

func listOf(amounts map[string]int64) corev1.ResourceList {
	out := make(corev1.ResourceList, len(amounts))
	for name, n := range amounts { //archtest:any-order each has its own key
		out[corev1.ResourceName(name)] = convert.Quantity(name, n)
	}
	return out
}
