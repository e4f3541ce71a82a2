package convert

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/dialect"
)

// Queue is the queue as the engine sees it, without what namespaces decide: see OpenTo. Amounts that the API server
// should have refused are brought into range; what does not go together is left for the engine to refuse by name. The
// default queue is also that of services and of the system's own pods: nobody's CPU or memory is asked back from it unless
// it has a quota of that.
func Queue(q *v1alpha1.BerthQueue) engine.Queue {
	s := &q.Spec
	resources, budgets := s.Resources[:min(len(s.Resources), MaxQueueResources)], s.Budgets[:min(len(s.Budgets), MaxQueueBudgets)]
	out := engine.Queue{
		Name: q.Name, Version: version(&q.ObjectMeta), Parent: s.Parent, Weight: int64(s.Weight), Priority: s.Priority,
		MaxRunning: int(s.MaxRunning), FairUsers: s.FairUsers, KeepBudgets: s.KeepDisruptionBudgets,
		DevicesOnly: q.Name == v1alpha1.DefaultQueue,
		Packing:     packing(string(s.Placement)),
		PartsBy:     engine.PartsBy(s.CountPartsBy),
		Stop:        stop(s.StopPolicy), Frozen: s.FreezeEvictions,
		Strict: s.QueueingStrategy == v1alpha1.StrictFIFO,
		MinRun: length(s.MinRunTime), Warning: length(s.Warning), PromoteAfter: length(s.PromoteAfter), ReclaimIdle: length(s.ReclaimIdleAfter),
	}
	for i := range resources {
		r := &resources[i]
		add := func(to *engine.Resources, v *resource.Quantity) {
			if v != nil {
				*to = append(*to, queueAmount(r.Name, QueueResource(r.Name, r.GPUModel), *v))
			}
		}
		add(&out.Quota, r.Quota)
		add(&out.Limits, r.Limit)
		add(&out.Lend, r.Lend)
		add(&out.UserLimits, r.UserLimit)
	}
	for _, list := range []*engine.Resources{&out.Quota, &out.Limits, &out.Lend, &out.UserLimits} {
		*list = sorted(*list)
	}
	for i := range budgets {
		out.Budgets = append(out.Budgets, budget(&budgets[i]))
	}
	return out
}

// queueAmount is so much of the resource under the engine's name for it.
func queueAmount(name, key string, v resource.Quantity) engine.Amount {
	a := engine.Amount{Resource: key, Value: max(0, min(amount(corev1.ResourceName(name), v), most))}
	if milli := amount(corev1.ResourceCPU, v); name == (Options{}).GPUResource() && milli >= 0 && milli <= most {
		a.Value, a.Milli = milli/1000, milli%1000
	}
	return a
}

// QueueFlavors adds to the queue what a dialect says of its flavors; nil: nothing.
func QueueFlavors(q *engine.Queue, f *dialect.FlavorQuotas) {
	if f == nil {
		return
	}
	q.QuotaFirst = f.QuotaFirst
	for _, g := range f.Groups {
		group := engine.FlavorGroup{Resources: g.Resources}
		for _, v := range g.Flavors {
			group.Flavors = append(group.Flavors, engine.Flavor{Name: v.Name, Labels: v.Labels})
		}
		q.Flavors = append(q.Flavors, group)
	}
	for i := range f.Amounts {
		a := &f.Amounts[i]
		key := engine.OfFlavor(a.Resource, a.Flavor)
		q.Quota = append(q.Quota, queueAmount(a.Resource, key, a.Quota))
		if a.Limit != nil {
			q.Limits = append(q.Limits, queueAmount(a.Resource, key, *a.Limit))
		}
	}
	q.Quota, q.Limits = sorted(q.Quota), sorted(q.Limits)
}

// Freezes says whether the namespace, v1alpha1.SystemNamespace, has nothing evicted in the whole cluster.
func Freezes(n *corev1.Namespace) bool {
	switch strings.TrimSpace(n.Annotations[v1alpha1.KeyFreeze]) {
	case "", "false":
		return false
	}
	return true
}

// stop is how the queue is stopped. What the API server should have refused stops it too: rather nothing begins than
// what somebody meant to keep back.
func stop(p v1alpha1.StopPolicy) engine.Stop {
	switch p {
	case "", v1alpha1.StopNone:
		return ""
	case v1alpha1.StopDrain:
		return engine.StopDrain
	}
	return engine.StopHold
}

// QueueResource is the engine's name for a resource of a queue, or as much of it as is of one GPU model.
func QueueResource(name, model string) string {
	if model == "" {
		return name
	}
	short, _ := shortModel(model)
	return engine.OfModel(name, short)
}

// ResourceOf undoes QueueResource: the resource, and the GPU model or "".
func ResourceOf(name string) (resource, model string) {
	resource, model, _ = strings.Cut(name, "@")
	return resource, model
}

func length(d *metav1.Duration) time.Duration {
	if d == nil {
		return 0
	}
	return d.Duration
}

// firstMonday is when periods begin whose author does not say.
var firstMonday = time.Date(1970, 1, 5, 0, 0, 0, 0, time.UTC)

func budget(b *v1alpha1.QueueBudget) engine.Budget {
	out := engine.Budget{Resource: b.Resource, Period: b.Period.Duration, From: firstMonday}
	if out.Resource == "" {
		out.Resource = Options{}.GPUResource()
	}
	if b.From != nil {
		out.From = b.From.UTC()
	}
	const hour = int64(time.Hour / time.Second)
	switch milli := amount(corev1.ResourceCPU, b.Hours); {
	case out.Resource == string(corev1.ResourceCPU):
		out.Seconds = max(0, min(milli, most)) * hour
	case milli <= most: // parts of an hour count
		out.Seconds = max(0, milli) * hour / 1000
	default:
		out.Seconds = min(amount("", b.Hours), most) * hour
	}
	return out
}

// Bookings are the queue's as the engine sees them, on the nodes given: of each those among the ones it has that its
// selector selects, and then the first by name. A booking is named after its queue too.
func Bookings(q *v1alpha1.BerthQueue, nodes []*corev1.Node, has func(booking string) []string) []engine.Booking {
	if len(q.Spec.Bookings) == 0 || len(QueueOverLimits(&q.Spec)) > 0 {
		return nil
	}
	nodes = slices.SortedFunc(slices.Values(nodes), func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	out := make([]engine.Booking, 0, len(q.Spec.Bookings))
	for i := range q.Spec.Bookings {
		b := &q.Spec.Bookings[i]
		v := engine.Booking{Name: q.Name + "/" + b.Name, Queue: q.Name, From: b.From.UTC(), To: b.To.UTC()}
		wants, kept := labels.SelectorFromSet(b.NodeSelector), has(v.Name)
		for _, old := range []bool{true, false} {
			for _, n := range nodes {
				if len(v.Nodes) < int(b.Nodes) && slices.Contains(kept, n.Name) == old && wants.Matches(labels.Set(n.Labels)) {
					v.Nodes = append(v.Nodes, n.Name)
				}
			}
		}
		slices.Sort(v.Nodes)
		out = append(out, v)
	}
	return out
}

// OpenTo selects the namespaces that may use the queue. One that makes no sense selects none, nor does a queue that is
// above a limit.
func OpenTo(q *v1alpha1.BerthQueue) (labels.Selector, error) {
	if over := QueueOverLimits(&q.Spec); len(over) > 0 {
		return labels.Nothing(), errors.New(said(over))
	}
	if q.Spec.NamespaceSelector == nil {
		return labels.Everything(), nil
	}
	s, err := metav1.LabelSelectorAsSelector(q.Spec.NamespaceSelector)
	if err != nil {
		return labels.Nothing(), fmt.Errorf("spec.namespaceSelector: %w", err)
	}
	return s, nil
}

// QueueOf is the queue that the object names, "" for none. On a namespace it is for workloads that name none.
func QueueOf(o metav1.Object) string {
	return asked(&metav1.ObjectMeta{Annotations: o.GetAnnotations(), Labels: o.GetLabels()}, v1alpha1.KeyQueue)
}

// QuantityOf is an amount with its thousandths as Kubernetes writes it.
func QuantityOf(name string, a engine.Amount) resource.Quantity {
	if a.Milli == 0 {
		return Quantity(name, a.Value)
	}
	return *resource.NewMilliQuantity(a.Value*1000+a.Milli, resource.DecimalSI)
}

// Quantity is an amount in the engine's units as Kubernetes writes it.
func Quantity(name string, amount int64) resource.Quantity {
	name, _, _ = engine.FlavorOf(name)
	switch corev1.ResourceName(name) {
	case corev1.ResourceCPU:
		return *resource.NewMilliQuantity(amount, resource.DecimalSI)
	case corev1.ResourceMemory, corev1.ResourceEphemeralStorage:
		return *resource.NewQuantity(amount, resource.BinarySI)
	}
	return *resource.NewQuantity(amount, resource.DecimalSI)
}
