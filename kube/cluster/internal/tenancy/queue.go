package tenancy

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/convert"
	"github.com/berth-dev/berth/kube/dialect"
)

// Queue is a BerthQueue as last seen, or what an object of a dialect says as one.
type Queue struct {
	*v1alpha1.BerthQueue
	Problem  error           // with the selector
	Said     *dialect.Object // of a dialect, that says it; nil: it is a BerthQueue
	selector labels.Selector
	open     map[string]bool // the namespaces that may use it; nil: all
	flavors  *dialect.FlavorQuotas
	keeps    bool // what runs in it is not evicted for others
}

// Queue is the queue of the name, nil for none.
func (t *Tenancy) Queue(name string) *Queue { return t.queues[name] }

// Names lists the queues.
func (t *Tenancy) Names() []string { return slices.Sorted(maps.Keys(t.queues)) }

// SetQueue takes in a queue, which an object of a dialect says, or nil. A BerthQueue counts before one of a dialect with the same name. fresh
// is false where nothing of it changed but its status, or it does not count.
func (t *Tenancy) SetQueue(q *v1alpha1.BerthQueue, said *dialect.Object, flavors *dialect.FlavorQuotas) (fresh bool) {
	known := t.queues[q.Name]
	if said != nil && known != nil && known.Said == nil {
		return false
	}
	if known != nil && equality.Semantic.DeepEqual(known.Spec, q.Spec) && equality.Semantic.DeepEqual(known.flavors, flavors) && known.keeps == keeps(q, said) {
		known.BerthQueue, known.Said = q, said // with a new status
		t.UsageChanged()
		return false
	}
	got := &Queue{BerthQueue: q, Said: said, flavors: flavors, keeps: keeps(q, said)}
	got.selector, got.Problem = convert.OpenTo(q)
	t.allMoved = t.allMoved || len(t.queues) == 0
	t.queues[q.Name] = got
	t.choose(got)
	t.listen.AccessChanged()
	t.changed[q.Name] = true
	t.UsageChanged()
	return true
}

// keeps says whether what runs in the queue is not evicted for others, as the object that it is says.
func keeps(q *v1alpha1.BerthQueue, said *dialect.Object) bool {
	return said != nil && said.Queue == q && said.Keeps
}

// choose finds the namespaces that may use the queue.
func (t *Tenancy) choose(q *Queue) {
	if q.selector.Empty() && q.Problem == nil {
		return
	}
	q.open = make(map[string]bool)
	for name, ns := range t.namespaces {
		if q.selector.Matches(ns.labels) {
			q.open[name] = true
		}
	}
}

// DropQueue takes a queue away. The engine is to forget it at once, and not with what Take tells.
func (t *Tenancy) DropQueue(name string) {
	delete(t.queues, name)
	delete(t.changed, name)
	t.listen.AccessChanged()
	t.implied = t.implied && name != v1alpha1.DefaultQueue
	t.allMoved = t.allMoved || len(t.queues) == 0
}

// admit lets the namespace use the queue, or not.
func (t *Tenancy) admit(q *Queue, namespace string, may bool) {
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

// value is the queue as the engine is to see it.
func (t *Tenancy) value(q *Queue) engine.Queue {
	v := convert.Queue(q.BerthQueue)
	convert.QueueFlavors(&v, q.flavors)
	v.Version, v.Frozen, v.Keeps = 0, v.Frozen || t.frozen, q.keeps
	if q.open != nil {
		v.Namespaces = append([]string{}, slices.Sorted(maps.Keys(q.open))...) // never nil, which is all
	}
	return v
}
