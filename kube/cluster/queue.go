package cluster

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/cluster/internal/tenancy"
	"github.com/berth-dev/berth/kube/convert"
	"github.com/berth-dev/berth/kube/dialect"
)

// What the watches of queues and namespaces tell the feed, and what it gives the engine of it.

// setBerthQueue takes in a queue. It counts before one of a dialect with the same name.
func (f *Feed) setBerthQueue(q *v1alpha1.BerthQueue) {
	known := f.tenancy.Queue(q.Name)
	takes := known != nil && known.Said != nil // the name of a dialect's
	f.setQueue(q, nil, nil)
	if takes {
		f.tellNamesakes()
	}
}

// setQueue takes in a queue, which an object of a dialect says, or nil.
func (f *Feed) setQueue(q *v1alpha1.BerthQueue, said *dialect.Object, flavors *dialect.FlavorQuotas) {
	known := f.tenancy.Queue(q.Name)
	if f.tenancy.SetQueue(q, said, flavors) {
		f.bookings.stale = f.bookings.stale || len(q.Spec.Bookings) > 0 || known != nil && len(known.Spec.Bookings) > 0
		f.out.wake()
	}
}

// removeBerthQueue takes a queue away.
func (f *Feed) removeBerthQueue(q *v1alpha1.BerthQueue) {
	if known := f.tenancy.Queue(q.Name); known != nil && known.Said == nil {
		f.dropQueue(q.Name)
		f.giveForeignQueues()
	}
}

// DropQueues forgets all queues: there is no such kind any more.
func (f *Feed) DropQueues() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range f.tenancy.Names() {
		if f.tenancy.Queue(name).Said == nil {
			f.dropQueue(name)
		}
	}
	f.giveForeignQueues()
}

func (f *Feed) dropQueue(name string) {
	f.tenancy.DropQueue(name)
	f.admissions.all = true
	f.bookings.again()
	f.out.drop(engine.KindQueue, name, f.out.derived.next())
}

// setNamespace takes in a namespace.
func (f *Feed) setNamespace(n *corev1.Namespace) {
	was, known := f.tenancy.Labels(n.Name)
	f.tenancy.SetNamespace(n)
	f.tellKeys(n)
	if was[scheduleLabel] != n.Labels[scheduleLabel] {
		f.lookAtAllIn(n.Name)
	}
	if (!known || !maps.Equal(was, n.Labels)) && f.rules.Namespace(n.Name, was, n.Labels, known, true) {
		f.out.wake()
	}
	f.reconsider()
}

// removeNamespace takes a namespace away.
func (f *Feed) removeNamespace(n *corev1.Namespace) {
	was, known := f.tenancy.Labels(n.Name)
	f.tenancy.RemoveNamespace(n.Name)
	f.listen.Forget(n.UID)
	if f.rules.Namespace(n.Name, was, nil, known, false) {
		f.out.wake()
	}
	f.reconsider()
}

// reconsider has the next cycle come at once if there is something to recharge.
func (f *Feed) reconsider() {
	if f.tenancy.Pending() {
		f.out.wake()
	}
}

// StaleNamespaces are those whose annotation about queues is missing or wrong, by name.
func (f *Feed) StaleNamespaces() []tenancy.Access {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tenancy.Stale()
}

// NamespaceAccess is a namespace whose annotation about the queues that it may use is missing or wrong.
type NamespaceAccess = tenancy.Access

// recharge gives the engine the queues that changed, and the workloads that another queue pays for now.
func (f *Feed) recharge() {
	c := f.tenancy.Take()
	for i := range c.Queues {
		c.Queues[i].Version = f.out.derived.next()
		f.out.put(engine.Change{Queue: &c.Queues[i]})
	}
	if c.Dropped {
		f.out.drop(engine.KindQueue, v1alpha1.DefaultQueue, f.out.derived.next())
	}
	f.admissions.all = f.admissions.all || c.Any
	if !c.Payers {
		return
	}
	for _, m := range f.members.alone(c.Moved) {
		if f.payer(m) != m.value.Queue {
			f.giveAgain([]*member{m})
		}
	}
	for key := range f.gangs.described {
		if c.Moved(key) {
			f.gangs.redo[key] = true
		}
	}
	f.tenancy.UsageChanged()
}

// charge names the queue that pays for a pod by itself.
func (f *Feed) charge(m *member, v *engine.Pod) {
	if m.pays() && !m.inGang() {
		v.Queue = f.payer(m)
	}
}

// charge names the queue that pays for the gang. Where a PodGroup names none, the lowest-named of its members
// that names one counts. A gang with members that have been decided about has the queue that it entered.
func (s *gangs) charge(g *engine.Gang, members []*member, decided *decidedGang) {
	if len(members) > 0 && !slices.ContainsFunc(members, (*member).pays) {
		g.Queue, g.User, g.Terms, g.Core, g.Invalid = "", "", engine.Terms{}, false, ""
		return
	}
	if decided != nil {
		g.Queue, g.Core = s.tenancy.Payer(namespaceOf(g.Key), decided.Queue), decided.Core
		return
	}
	for _, m := range members {
		if g.Queue == "" {
			g.Queue = convert.QueueOf(m.pod)
		}
	}
	g.Queue = s.tenancy.Payer(namespaceOf(g.Key), g.Queue)
}
