package cluster

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/convert"
	"github.com/berth-dev/berth/kube/dialect"
)

// tenancy is what decides which queue pays for a workload, and which namespaces may use a queue.
//
// Versions of queues are always of our own making: what a queue is to the engine also follows from namespaces,
// whose resource versions say nothing about the queue's. The feed hears of a queue from one watch alone, in order,
// and a version of ours is newer than all that was given before.
type tenancy struct {
	queues     map[string]*queue
	namespaces map[string]namespace
	changed    map[string]bool // queues to give before the next plan
	moved      map[string]bool // namespaces whose workloads may have another payer
	allMoved   bool
	implied    bool // the default queue was given to the engine without an object
	frozen     bool // nothing is evicted in the whole cluster: v1alpha1.KeyFreeze
	told       bool // frozen, as the implied queue was given
	listen     Listener
}

// queue is a BerthQueue as last seen, or what an object of a dialect says as one.
type queue struct {
	*v1alpha1.BerthQueue
	selector labels.Selector
	problem  error           // with the selector
	open     map[string]bool // the namespaces that may use it; nil: all
	said     *dialect.Object // of a dialect, that says it; nil: it is a BerthQueue
	flavors  *dialect.FlavorQuotas
	keeps    bool // what runs in it is not evicted for others
}

// namespace is what matters here of one.
type namespace struct {
	labels labels.Set
	queue  string // which pays for workloads that name none; "": see payer
	uid    types.UID
	queues string // that it may use, as it says
	says   bool   // it says something about that
	ending bool
}

func newTenancy(l Listener) *tenancy {
	return &tenancy{
		listen: l,
		queues: make(map[string]*queue), namespaces: make(map[string]namespace),
		changed: make(map[string]bool), moved: make(map[string]bool),
	}
}

// payer returns the queue that pays for a workload of the namespace which names one, or "" where there are no queues.
func (t *tenancy) payer(namespace, named string) string {
	if named != "" {
		return named
	}
	if q := t.namespaces[namespace].queue; q != "" {
		return q
	}
	return t.fallback()
}

// fallback is the queue that pays where no queue is named. It pays also while there is no object of its name, for work that
// no quota covers could otherwise never be asked to give back what others are promised: only where there are no queues at
// all is nothing promised. Where evictions are frozen it is what freezes work without a queue.
func (t *tenancy) fallback() string {
	if len(t.queues) == 0 && !t.frozen {
		return ""
	}
	return v1alpha1.DefaultQueue
}

// usageChanged says that what queues' workloads hold or ask for may have changed.
func (t *tenancy) usageChanged() {
	if len(t.queues) > 0 {
		t.listen.UsageChanged()
	}
}

// SetQueue takes in a queue. It counts before one of a dialect with the same name.
func (f *Feed) SetQueue(q *v1alpha1.BerthQueue) {
	f.mu.Lock()
	defer f.mu.Unlock()
	known := f.tenancy.queues[q.Name]
	takes := known != nil && known.said != nil // the name of a dialect's
	f.setQueue(q, nil, nil)
	if takes {
		f.tellNamesakes()
	}
}

// setQueue takes in a queue, which an object of a dialect says, or nil.
func (f *Feed) setQueue(q *v1alpha1.BerthQueue, said *dialect.Object, flavors *dialect.FlavorQuotas) {
	t := f.tenancy
	known := t.queues[q.Name]
	if said != nil && known != nil && known.said == nil {
		return
	}
	if known != nil && equality.Semantic.DeepEqual(known.Spec, q.Spec) && equality.Semantic.DeepEqual(known.flavors, flavors) && known.keeps == keeps(q, said) {
		known.BerthQueue, known.said = q, said // with a new status
		t.usageChanged()
		return
	}
	got := &queue{BerthQueue: q, said: said, flavors: flavors, keeps: keeps(q, said)}
	got.selector, got.problem = convert.OpenTo(q)
	t.allMoved = t.allMoved || len(t.queues) == 0
	t.queues[q.Name] = got
	t.choose(got)
	t.listen.AccessChanged()
	t.changed[q.Name] = true
	f.bookings.stale = f.bookings.stale || len(q.Spec.Bookings) > 0 || known != nil && len(known.Spec.Bookings) > 0
	t.usageChanged()
	f.out.wake()
}

// keeps says whether what runs in the queue is not evicted for others, as the object that it is says.
func keeps(q *v1alpha1.BerthQueue, said *dialect.Object) bool {
	return said != nil && said.Queue == q && said.Keeps
}

// choose finds the namespaces that may use the queue.
func (t *tenancy) choose(q *queue) {
	if q.selector.Empty() && q.problem == nil {
		return
	}
	q.open = make(map[string]bool)
	for name, ns := range t.namespaces {
		if q.selector.Matches(ns.labels) {
			q.open[name] = true
		}
	}
}

// RemoveQueue takes a queue away.
func (f *Feed) RemoveQueue(q *v1alpha1.BerthQueue) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if known := f.tenancy.queues[q.Name]; known != nil && known.said == nil {
		f.dropQueue(q.Name)
		f.giveForeignQueues()
	}
}

// DropQueues forgets all queues: there is no such kind any more.
func (f *Feed) DropQueues() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(f.tenancy.queues)) {
		if f.tenancy.queues[name].said == nil {
			f.dropQueue(name)
		}
	}
	f.giveForeignQueues()
}

func (f *Feed) dropQueue(name string) {
	t := f.tenancy
	delete(t.queues, name)
	delete(t.changed, name)
	f.admissions.all = true
	t.listen.AccessChanged()
	f.bookings.again()
	t.implied = t.implied && name != v1alpha1.DefaultQueue
	t.allMoved = t.allMoved || len(t.queues) == 0
	f.out.drop(engine.KindQueue, name, f.out.derived.next())
}

// SetNamespace takes in a namespace.
func (f *Feed) SetNamespace(n *corev1.Namespace) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.tenancy
	is := namespace{labels: n.Labels, queue: convert.QueueOf(n), uid: n.UID, ending: n.DeletionTimestamp != nil}
	is.queues, is.says = n.Annotations[v1alpha1.KeyQueues]
	t.listen.AccessChanged()
	f.tellKeys(n)
	was, known := t.namespaces[n.Name]
	t.namespaces[n.Name] = is
	if was.labels[scheduleLabel] != is.labels[scheduleLabel] {
		f.lookAtAllIn(n.Name)
	}
	if was.queue != is.queue {
		t.moved[n.Name] = true
	}
	if n.Name == v1alpha1.SystemNamespace {
		t.freeze(convert.Freezes(n))
	}
	if !known || !maps.Equal(was.labels, is.labels) {
		//archtest:any-order each queue has a set of its own
		for _, q := range t.queues {
			t.admit(q, n.Name, q.selector.Matches(is.labels))
		}
		if f.rules.namespaceChanged(n.Name, was.labels, is.labels, known, true) {
			f.out.wake()
		}
	}
	f.reconsider()
}

// freeze has nothing evicted from any queue, those that come later too, or ends that.
func (t *tenancy) freeze(frozen bool) {
	if t.frozen == frozen {
		return
	}
	t.frozen = frozen
	t.allMoved = t.allMoved || len(t.queues) == 0
	//archtest:any-order it fills a set
	for name := range t.queues {
		t.changed[name] = true
	}
}

// RemoveNamespace takes a namespace away.
func (f *Feed) RemoveNamespace(n *corev1.Namespace) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.tenancy
	if t.namespaces[n.Name].queue != "" {
		t.moved[n.Name] = true
	}
	was, known := t.namespaces[n.Name]
	delete(t.namespaces, n.Name)
	f.listen.Forget(n.UID)
	if f.rules.namespaceChanged(n.Name, was.labels, nil, known, false) {
		f.out.wake()
	}
	//archtest:any-order each queue has a set of its own
	for _, q := range t.queues {
		t.admit(q, n.Name, false)
	}
	f.reconsider()
}

// reconsider has the next cycle come at once if there is something to recharge.
func (f *Feed) reconsider() {
	if len(f.tenancy.moved)+len(f.tenancy.changed) > 0 || f.tenancy.allMoved {
		f.out.wake()
	}
}

// admit lets the namespace use the queue, or not.
func (t *tenancy) admit(q *queue, namespace string, may bool) {
	if q.open == nil || q.open[namespace] == may {
		return
	}
	t.changed[q.Name] = true
	if may {
		q.open[namespace] = true
	} else {
		delete(q.open, namespace)
	}
}

// recharge gives the engine the queues that changed, and the workloads that another queue pays for now.
func (f *Feed) recharge() {
	t := f.tenancy
	for _, name := range slices.Sorted(maps.Keys(t.changed)) {
		f.giveQueue(t.queues[name])
	}
	f.admissions.all = f.admissions.all || len(t.changed) > 0 || len(t.moved) > 0 || t.allMoved
	clear(t.changed)
	f.imply()
	if len(t.moved) == 0 && !t.allMoved {
		return
	}
	for _, m := range f.members.alone(t.hasMoved) {
		f.rechargePod(m)
	}
	for key := range f.gangs.described {
		if t.hasMoved(key) {
			f.gangs.redo[key] = true
		}
	}
	clear(t.moved)
	t.allMoved = false
	t.usageChanged()
}

// imply gives the engine a default queue where there are others and no object of that name, and takes it back.
func (f *Feed) imply() {
	t := f.tenancy
	made := t.queues[v1alpha1.DefaultQueue] != nil
	switch wants := t.fallback() != "" && !made; {
	case wants && (!t.implied || t.told != t.frozen):
		v := convert.Queue(v1alpha1.NewDefaultQueue(cmp.Or(f.opts.GPU, DefaultGPU)))
		v.Version, v.Frozen = f.out.derived.next(), t.frozen
		f.out.put(engine.Change{Queue: &v})
		t.implied, t.told = true, t.frozen
	case !wants && t.implied:
		if !made {
			f.out.drop(engine.KindQueue, v1alpha1.DefaultQueue, f.out.derived.next())
		}
		t.implied = false
	}
}

func (t *tenancy) hasMoved(key string) bool { return t.allMoved || t.moved[namespaceOf(key)] }

func (f *Feed) giveQueue(q *queue) {
	v := convert.Queue(q.BerthQueue)
	convert.QueueFlavors(&v, q.flavors)
	v.Version, v.Frozen, v.Keeps = f.out.derived.next(), v.Frozen || f.tenancy.frozen, q.keeps
	if q.open != nil {
		v.Namespaces = append([]string{}, slices.Sorted(maps.Keys(q.open))...) // never nil, which is all
	}
	f.out.put(engine.Change{Queue: &v})
}

// rechargePod gives a pod by itself again if another queue pays for it now.
func (f *Feed) rechargePod(m *member) {
	if f.payer(m) == m.value.Queue {
		return
	}
	f.giveAgain([]*member{m})
}

// charge names the queue that pays for a pod by itself.
func (f *Feed) charge(m *member, v *engine.Pod) {
	if m.pays() && !m.inGang() {
		v.Queue = f.payer(m)
	}
}

// chargeGang names the queue that pays for the gang. Where a PodGroup names none, the lowest-named of its members
// that names one counts. A gang with members that have been decided about has the queue that it entered.
func (t *tenancy) chargeGang(g *engine.Gang, members []*member, decided *decidedGang) {
	if len(members) > 0 && !slices.ContainsFunc(members, (*member).pays) {
		g.Queue, g.User, g.Terms, g.Core, g.Invalid = "", "", engine.Terms{}, false, ""
		return
	}
	if decided != nil {
		g.Queue, g.Core = t.decided(namespaceOf(g.Key), decided.terms), decided.Core
		return
	}
	for _, m := range members {
		if g.Queue == "" {
			g.Queue = convert.QueueOf(m.pod)
		}
	}
	g.Queue = t.payer(namespaceOf(g.Key), g.Queue)
}
