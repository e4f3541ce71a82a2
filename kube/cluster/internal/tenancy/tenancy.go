package tenancy

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/convert"
)

// Tenancy is the queues and the namespaces of a cluster.
type Tenancy struct {
	gpu        string
	queues     map[string]*Queue
	namespaces map[string]namespace
	changed    map[string]bool // queues to give before the next plan
	moved      map[string]bool // namespaces whose workloads may have another payer
	allMoved   bool
	implied    bool // the default queue was given to the engine without an object
	frozen     bool // nothing is evicted in the whole cluster: v1alpha1.KeyFreeze
	told       bool // frozen, as the implied queue was given
	listen     Listener
}

// Listener hears what may have to be told of queues and namespaces.
type Listener interface {
	// UsageChanged says that what the workloads of queues hold, or ask for, may have changed.
	UsageChanged()
	// AccessChanged says that which queues namespaces may use, or what they say of it, may have changed.
	AccessChanged()
}

// namespace is what matters here of one.
type namespace struct {
	labels labels.Set
	queue  string // which pays for workloads that name none; "": see Payer
	uid    types.UID
	queues string // that it may use, as it says
	says   bool   // it says something about that
	ending bool
}

// New returns the tenancy of a cluster without queues and namespaces; gpu is what GPUs are called as a resource.
func New(gpu string, l Listener) *Tenancy {
	return &Tenancy{
		gpu: gpu, listen: l,
		queues: make(map[string]*Queue), namespaces: make(map[string]namespace),
		changed: make(map[string]bool), moved: make(map[string]bool),
	}
}

// Payer returns the queue that pays for a workload of the namespace which names one, or has entered one, or "" where there are no queues. What
// has entered none follows its namespace into the first that there is.
func (t *Tenancy) Payer(namespace, named string) string {
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
func (t *Tenancy) fallback() string {
	if len(t.queues) == 0 && !t.frozen {
		return ""
	}
	return v1alpha1.DefaultQueue
}

// Lets says whether the queue exists, if only by implication, and is open to the namespace. Where no queue pays nothing
// stands in the way.
func (t *Tenancy) Lets(namespace, queue string) bool {
	if queue == "" {
		return true
	}
	q := t.queues[queue]
	if q == nil && queue == t.fallback() {
		return true
	}
	return q != nil && (q.open == nil || q.open[namespace])
}

// UsageChanged says that what queues' workloads hold or ask for may have changed.
func (t *Tenancy) UsageChanged() {
	if len(t.queues) > 0 {
		t.listen.UsageChanged()
	}
}

// SetNamespace takes in a namespace.
func (t *Tenancy) SetNamespace(n *corev1.Namespace) {
	is := namespace{labels: n.Labels, queue: convert.QueueOf(n), uid: n.UID, ending: n.DeletionTimestamp != nil}
	is.queues, is.says = n.Annotations[v1alpha1.KeyQueues]
	t.listen.AccessChanged()
	was, known := t.namespaces[n.Name]
	t.namespaces[n.Name] = is
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
	}
}

// RemoveNamespace takes a namespace away.
func (t *Tenancy) RemoveNamespace(name string) {
	if t.namespaces[name].queue != "" {
		t.moved[name] = true
	}
	delete(t.namespaces, name)
	//archtest:any-order each queue has a set of its own
	for _, q := range t.queues {
		t.admit(q, name, false)
	}
}

// Labels are those of a namespace; false: there is none of the name.
func (t *Tenancy) Labels(namespace string) (labels.Set, bool) {
	n, known := t.namespaces[namespace]
	return n.labels, known
}

// Select lists the namespaces that the selector selects, by name; never nil.
func (t *Tenancy) Select(s labels.Selector) []string {
	out := []string{}
	for name, n := range t.namespaces {
		if s.Matches(n.labels) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// freeze has nothing evicted from any queue, those that come later too, or ends that.
func (t *Tenancy) freeze(frozen bool) {
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

// Pending says whether Take has something to tell.
func (t *Tenancy) Pending() bool { return len(t.moved)+len(t.changed) > 0 || t.allMoved }

// Changes are what Take tells.
type Changes struct {
	Queues  []engine.Queue // to give, in this order, each without a version
	Dropped bool           // v1alpha1.DefaultQueue, which was given without an object, is no more
	Any     bool           // a queue changed, or who may use one, or whom one pays for: what may be decided is to be looked at
	Payers  bool           // there are workloads that Moved is true of
	moved   map[string]bool
	all     bool
}

// Moved says whether the pod or gang with the key may have another payer.
func (c *Changes) Moved(key string) bool {
	namespace, _, _ := strings.Cut(key, "/")
	return c.all || c.moved[namespace]
}

// Take returns what has changed since it was last called.
func (t *Tenancy) Take() Changes {
	c := Changes{Any: t.Pending(), Payers: len(t.moved) > 0 || t.allMoved, moved: t.moved, all: t.allMoved}
	for _, name := range slices.Sorted(maps.Keys(t.changed)) {
		c.Queues = append(c.Queues, t.value(t.queues[name]))
	}
	t.imply(&c)
	clear(t.changed)
	if c.Payers {
		t.moved, t.allMoved = make(map[string]bool), false
	}
	return c
}

// imply gives the engine a default queue where there are others and no object of that name, and takes it back.
func (t *Tenancy) imply(c *Changes) {
	made := t.queues[v1alpha1.DefaultQueue] != nil
	switch wants := t.fallback() != "" && !made; {
	case wants && (!t.implied || t.told != t.frozen):
		v := convert.Queue(v1alpha1.NewDefaultQueue(t.gpu))
		v.Frozen = t.frozen
		c.Queues = append(c.Queues, v)
		t.implied, t.told = true, t.frozen
	case !wants && t.implied:
		c.Dropped = !made
		t.implied = false
	}
}
