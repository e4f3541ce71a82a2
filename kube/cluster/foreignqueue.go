package cluster

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/convert"
	"github.com/berth-dev/berth/kube/dialect"
)

// Queues of dialects in the tenancy, and the status that they are to have.

// namesake says, as a sentence, which other object has the name of the object's queue and counts; "": none. A name is of one queue:
// a BerthQueue counts, then the dialects' objects in the order of their kinds' names. Workloads that name the queue in either dialect are
// charged to that one.
func (f *Feed) namesake(said *dialect.Object) string {
	q := f.tenancy.Queue(said.Queue.Name)
	switch {
	case q == nil:
		return ""
	case q.Said == nil:
		return "BerthQueue " + q.Name + " has the same name, and counts"
	case q.Said.Kind != said.Kind || q.Said.Name != said.Name:
		return q.Said.Kind + " " + q.Said.Name + " has the same name, and counts: workloads of both are charged to it"
	}
	return ""
}

// tellNamesakes names, for queues that do not count, the one that does, where that is news.
func (f *Feed) tellNamesakes() {
	for _, kind := range sortedNames(f.foreign.objects) {
		for _, key := range sortedNames(f.foreign.objects[kind]) {
			t, other := f.foreign.objects[kind][key], ""
			if t.said != nil && t.said.Queue != nil && f.foreign.rival(f.foreign.kinds[kind].Dialect) == "" {
				other = f.namesake(t.said)
			}
			if other != "" && other != f.foreign.namesakes[kind+"/"+key] {
				f.listen.NotHonoured(t.raw, append([]string{other}, unreadOf(t.said)...))
			}
			if other == "" {
				delete(f.foreign.namesakes, kind+"/"+key)
			} else {
				f.foreign.namesakes[kind+"/"+key] = other
			}
		}
	}
}

// giveForeignQueues has the dialects' queues in the tenancy, but for those that a BerthQueue has the name of.
func (f *Feed) giveForeignQueues() {
	defer f.tellNamesakes()
	there := make(map[string]bool)
	for _, kind := range sortedNames(f.foreign.objects) {
		for _, key := range sortedNames(f.foreign.objects[kind]) {
			if t := f.foreign.objects[kind][key]; t.said != nil && t.said.Queue != nil && !there[t.said.Queue.Name] && f.foreign.rival(f.foreign.kinds[kind].Dialect) == "" {
				there[t.said.Queue.Name] = true
				f.setQueue(t.said.Queue, t.said, t.said.Flavors)
			}
		}
	}
	for _, kind := range sortedNames(f.foreign.objects) {
		for _, key := range sortedNames(f.foreign.objects[kind]) {
			if t := f.foreign.objects[kind][key]; t.said != nil && t.said.Implies != nil && !there[t.said.Implies.Name] && f.foreign.rival(f.foreign.kinds[kind].Dialect) == "" {
				there[t.said.Implies.Name] = true
				f.setQueue(t.said.Implies, t.said, t.said.ImpliesFlavors)
			}
		}
	}
	for _, name := range f.tenancy.Names() {
		if f.tenancy.Queue(name).Said != nil && !there[name] {
			f.dropQueue(name)
		}
	}
}

// ForeignQueue is a queue of a dialect, and what its workloads hold and ask for.
type ForeignQueue struct {
	dialect.Dialect
	Kind    dialect.Kind
	Queue   string // its name here; "": it is an entrance to one
	Object  *unstructured.Unstructured
	Unread  []string
	Problem string
	State   dialect.QueueState
}

// ForeignQueues are the dialects' objects that are queues, by kind and name. It goes through all pods.
func (f *Feed) ForeignQueues() []ForeignQueue {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.foreign.used() {
		return nil
	}
	running, waiting, reserved := f.workloads()
	queues := f.tenancy.Names()
	held, firm, wanted := make(map[string]map[string]int64), make(map[string]map[string]int64), make(map[string]map[string]int64)
	inFlavors, kept := make(flavorAmounts), make(flavorAmounts) // what is held, and that with what is reserved
	//archtest:any-order sums of whole numbers
	for _, m := range f.members.pods {
		if !m.pays() || !m.bound() && !m.waiting() {
			continue
		}
		name := f.payer(m)
		if m.inGang() {
			name = f.gangs.described[m.workload].Queue
		}
		f.addFlavors(m, name, inFlavors, kept)
		for steps := 0; name != "" && steps <= len(queues); steps++ {
			for _, a := range m.takes {
				add(wanted, name, a.Resource, a.Value)
				if m.bound() {
					add(held, name, a.Resource, a.Value)
					if !convert.Evictable(m.pod) {
						add(firm, name, a.Resource, a.Value)
					}
				}
			}
			q := f.tenancy.Queue(name)
			if name = ""; q != nil {
				name = q.Spec.Parent
			}
		}
	}
	var out []ForeignQueue
	for _, kind := range sortedNames(f.foreign.objects) {
		for _, key := range sortedNames(f.foreign.objects[kind]) {
			t, by := f.foreign.objects[kind][key], f.foreign.kinds[kind]
			if t.said.Queue == nil && !t.said.Entrance || f.foreign.rival(by.Dialect) != "" {
				continue
			}
			if t.said.Entrance {
				v := ForeignQueue{Dialect: by.Dialect, Kind: by.Kind, Object: t.raw, Unread: t.said.Unread, Problem: t.said.Problem}
				at := t.said.Namespace + "/" + t.said.Name
				v.State.Running, v.State.Waiting, v.State.Reserved = running[at], waiting[at], reserved[at]
				v.State.Shut = t.said.Shut
				out = append(out, v)
				continue
			}
			name := t.said.Queue.Name
			v := ForeignQueue{Dialect: by.Dialect, Kind: by.Kind, Queue: name, Object: t.raw, Unread: t.said.Unread, Problem: t.said.Problem}
			q := f.tenancy.Queue(name)
			if other := f.namesake(t.said); other != "" {
				v.Problem = other
			} else if q != nil && q.Problem != nil {
				v.Problem = q.Problem.Error()
			}
			v.State.Allocated, v.State.Firm, v.State.Requested = listOf(held[name]), listOf(firm[name]), listOf(wanted[name])
			v.State.ByFlavor, v.State.ReservedByFlavor = inFlavors.of(name), kept.of(name)
			v.State.Running, v.State.Waiting, v.State.Reserved, v.State.Shut = running[name], waiting[name], reserved[name], t.said.Shut
			for _, below := range queues {
				if f.tenancy.Queue(below).Spec.Parent == name {
					v.State.Children = append(v.State.Children, below)
				}
			}
			out = append(out, v)
		}
	}
	return out
}

// addFlavors adds what the pod holds of its queue in flavors, or what is kept for it while checks are made. What several nodes
// are kept for that are not all of one flavor is not among it.
func (f *Feed) addFlavors(m *member, queue string, held, kept flavorAmounts) {
	if m.foreign == nil || len(m.foreign.Flavors) == 0 {
		return
	}
	var nodes []string
	if m.bound() {
		nodes = []string{m.pod.Spec.NodeName}
	} else if r := f.checked.reserved[m.workload]; r != nil {
		nodes = r.on
	}
	flavor := f.flavorOf(m, nodes)
	if flavor == nil {
		return
	}
	for _, a := range m.takes {
		if name := flavor.Names[a.Resource]; name != "" {
			kept.add(queue, name, a)
			if m.bound() {
				held.add(queue, name, a)
			}
		}
	}
}

// flavorAmounts are amounts by queue, flavor and resource.
type flavorAmounts map[string]map[string]map[string]int64

func (a flavorAmounts) add(queue, flavor string, takes engine.Amount) {
	if a[queue] == nil {
		a[queue] = make(map[string]map[string]int64)
	}
	add(a[queue], flavor, takes.Resource, takes.Value)
}

// of are the amounts of the queue's flavors.
func (a flavorAmounts) of(queue string) map[string]corev1.ResourceList {
	out := make(map[string]corev1.ResourceList)
	for flavor, amounts := range a[queue] { //archtest:any-order each has its own key
		out[flavor] = listOf(amounts)
	}
	return out
}

// workloads counts the groups that run and that wait, and of these those that have quota, by queue, and by entrance with its namespace.
func (f *Feed) workloads() (running, waiting, reserved map[string]int) {
	running, waiting, reserved = make(map[string]int), make(map[string]int), make(map[string]int)
	for _, g := range f.foreign.groups { //archtest:any-order sums of whole numbers
		runs, has, queue, entrance := false, false, "", ""
		for _, m := range g.members { //archtest:any-order all members of a group have one queue
			runs, has, queue = runs || m.bound(), has || f.checked.reserved[m.workload] != nil, m.queue()
			if m.foreign.Entrance != "" {
				entrance = m.raw.Namespace + "/" + m.foreign.Entrance
			}
		}
		for _, name := range []string{queue, entrance} {
			switch {
			case name == "":
			case runs:
				running[name]++
			default:
				if waiting[name]++; has {
					reserved[name]++
				}
			}
		}
	}
	return running, waiting, reserved
}

// queue is the one that the pod entered, or asks for.
func (m *member) queue() string {
	if m.terms != nil && m.terms.Queue != "" {
		return m.terms.Queue
	}
	return convert.QueueOf(m.pod)
}

func add(to map[string]map[string]int64, a, b string, n int64) {
	if to[a] == nil {
		to[a] = make(map[string]int64)
	}
	to[a][b] += n
}
