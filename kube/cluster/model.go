package cluster

import (
	"maps"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/convert"
	"github.com/berth-dev/berth/kube/dialect/all"
	"github.com/berth-dev/berth/kube/dialect/controllers"
)

// Model is the scheduler's reading of objects, and the engine behind it, without a cluster: what-ifs are tried on it.
// It has no goroutine and no clock, and is for one goroutine at a time.
//
// Pods that wait are placed whichever scheduler they name. Those of others are in no queue, and what berth.dev keys
// say does not hold for them; a PodGroup does. Features that the engine does not decide are not looked at: the
// caller judges them, and tells the outcome by Allow.
type Model struct {
	feed    *Feed
	changes changes // for the state
	state   *engine.State
	hears   *silence
	version uint64 // of the object that was given last
}

// ModelOptions configure a Model. The zero value is as the scheduler runs by default.
type ModelOptions struct {
	Engine engine.Config // without Levels: DefaultLevels
	For    []string      // schedulerNames of the pods that Berth schedules; nil: DefaultName alone
	// Dialects are read beside those that For has the names of.
	Dialects []string
}

// NewModel returns a model of an empty cluster.
func NewModel(o ModelOptions) *Model {
	if o.Engine.Levels == nil {
		o.Engine.Levels = DefaultLevels()
	}
	if o.For == nil {
		o.For = []string{DefaultName}
	}
	m := &Model{state: engine.Load(engine.Snapshot{}, o.Engine), hears: &silence{missing: make(map[string][]string)}}
	m.feed = New(Options{
		Convert: convert.Options{SchedulerNames: o.For, GPU: o.Engine.GPU}, Levels: o.Engine.Levels, Sink: &m.changes, Listener: m.hears,
		Now: func() time.Time { return time.Time{} }, // nothing of a Model is timed
	})
	for _, d := range all.Dialects() {
		if slices.Contains(o.Dialects, d.Name()) || slices.ContainsFunc(d.SchedulerNames(), func(name string) bool { return slices.Contains(o.For, name) }) {
			m.feed.Speak(d)
		}
	}
	m.feed.Speak(controllers.New())
	m.feed.whatIf, m.feed.owners.complete = &whatIf{allowed: make(map[string][]string)}, true
	return m
}

// Set takes in objects, each as a newer version than all before: nodes, pods, PodGroups, Jobs, StatefulSets,
// ReplicaSets, Deployments, claims, volumes, storage classes, what CSI drivers say, PodDisruptionBudgets, namespaces, Services and Queues, also
// unstructured ones. Others are passed over. The objects are kept, and not written to.
func (m *Model) Set(objects ...metav1.Object) {
	f := m.feed
	for _, o := range objects {
		switch o := o.(type) {
		case *corev1.Node:
			f.Set(stamped(m, o))
		case *corev1.Pod:
			delete(f.whatIf.allowed, keyOf(o))
			f.Set(stamped(m, o))
		case *schedulingv1beta1.PodGroup:
			f.Set(stamped(m, o))
		case *schedulingv1alpha3.CompositePodGroup:
			f.Set(stamped(m, o))
		case *corev1.PersistentVolumeClaim:
			f.Set(stamped(m, o))
		case *corev1.PersistentVolume:
			f.Set(stamped(m, o))
		default:
			if o := heeded(o); o != nil {
				f.Set(o)
			}
		}
	}
}

// Delete takes objects away, by kind and name; controllers by UID.
func (m *Model) Delete(objects ...metav1.Object) {
	f := m.feed
	for _, o := range objects {
		switch o := o.(type) {
		case *corev1.Node:
			f.Remove(stamped(m, o))
		case *corev1.Pod:
			m.deletePod(stamped(m, o))
		case *schedulingv1beta1.PodGroup:
			f.Remove(stamped(m, o))
		case *schedulingv1alpha3.CompositePodGroup:
			f.Remove(stamped(m, o))
		case *corev1.PersistentVolumeClaim, *corev1.PersistentVolume:
			f.Remove(o)
		default:
			if o := heeded(o); o != nil {
				f.Remove(o)
			}
		}
	}
}

// heeded is the object as the feed takes it in, of a kind that needs no version; nil: a Model does not look at it.
func heeded(o metav1.Object) metav1.Object {
	switch o.(type) {
	case *storagev1.StorageClass, *storagev1.CSINode, *storagev1.CSIDriver, *storagev1.CSIStorageCapacity, *policyv1.PodDisruptionBudget, *corev1.Namespace,
		*corev1.Service, *schedulingv1.PriorityClass:
		return o
	case *batchv1.Job, *appsv1.StatefulSet, *appsv1.ReplicaSet, *appsv1.Deployment, *metav1.PartialObjectMetadata:
		if o.GetUID() == "" { // no object can name one without a UID as its controller
			return nil
		}
		return o
	}
	if q := queueIn(o); q != nil {
		return q
	}
	if u, ok := o.(*unstructured.Unstructured); ok {
		return u
	}
	return nil
}

func (m *Model) deletePod(p *corev1.Pod) {
	key := keyOf(p)
	delete(m.feed.whatIf.allowed, key)
	delete(m.hears.missing, key)
	if known := m.feed.Pod(key); known != nil {
		p.UID = known.UID
	}
	m.feed.Remove(p)
}

// stamped is a copy, as deep as the resource version, that is newer than everything before.
func stamped[T any, P interface {
	*T
	metav1.Object
}](m *Model, o P) P {
	c := P(new(*o))
	m.version++
	c.SetResourceVersion(strconv.FormatUint(m.version, 10))
	return c
}

// queueIn is the BerthQueue that the object is, nil for anything else and for one that cannot be read.
func queueIn(o metav1.Object) *v1alpha1.BerthQueue {
	switch o := o.(type) {
	case *v1alpha1.BerthQueue:
		return o
	case *unstructured.Unstructured:
		var q v1alpha1.BerthQueue
		if at := o.GroupVersionKind(); at.Group != v1alpha1.GroupVersion.Group || at.Kind != v1alpha1.QueueKind {
			return nil
		}
		if runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &q) != nil {
			return nil
		}
		return &q
	}
	return nil
}

// Allow restricts the pod (namespace/name) to the nodes, as its volumes would and beside them; nil: all nodes.
// It lasts until the pod is Set again or Deleted.
func (m *Model) Allow(pod string, nodes []string) {
	f := m.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	known := f.members.pods[pod]
	if known == nil {
		return
	}
	delete(f.whatIf.allowed, pod)
	if nodes != nil {
		sorted := append([]string{}, nodes...) // never nil, which is all
		slices.Sort(sorted)
		f.whatIf.allowed[pod] = sorted
	}
	f.reenter(known)
}

// Try says what the engine would do with the workload of the pod (namespace/name) now if it were alone in line.
// starts are its members that get a node. missing are sentences about claims that keep the pod from the engine, and
// where its workload does not start those of the other members. A pod that is not known, over, or has scheduling
// gates is absent.
func (m *Model) Try(pod string, now time.Time) (e why.Explanation, starts []engine.Placement, missing []string) {
	m.settle()
	known := m.feed.members.pods[pod]
	if known == nil {
		return why.Explanation{Workload: pod, Now: now.UTC().Round(0), Verdict: why.Absent}, nil, nil
	}
	e, starts = m.state.Try(known.workload, now)
	return e, starts, m.missing(known, e.Verdict)
}

// PerNode counts for every node how many pods like this one (namespace/name) would fit there now, and what keeps it
// out: see engine.State.PerNode.
func (m *Model) PerNode(pod string, now time.Time) (why.Certificate, bool) {
	m.settle()
	return m.state.PerNode(pod, now)
}

// Report counts the GPUs of the model, and finds the largest jobs that could start: see engine.State.Report.
func (m *Model) Report() engine.Report {
	m.settle()
	return m.state.Report()
}

// settle gives the engine what changed.
func (m *Model) settle() {
	m.feed.Settle()
	m.state.Apply(m.changes.take()...)
}

func (m *Model) missing(of *member, verdict why.Verdict) []string {
	if !of.given {
		return m.hears.missing[of.key]
	}
	if verdict == why.Placed {
		return nil
	}
	var out []string
	for _, key := range slices.Sorted(maps.Keys(m.feed.members.gangs[of.workload])) {
		if other := m.feed.members.gangs[of.workload][key]; !other.given {
			for _, sentence := range m.hears.missing[key] {
				out = append(out, "pod "+other.pod.Name+": "+sentence)
			}
		}
	}
	return out
}

// silence is a listener that says nothing on.
type silence struct {
	missing map[string][]string // what was last said of a pod's claims; of one that the engine has, it is over
}

func (*silence) Forget(types.UID)                             {}
func (*silence) NotHonoured(Object, []string)                 {}
func (*silence) Counted(Object, string)                       {}
func (*silence) Admitted(*corev1.Pod)                         {}
func (*silence) Begun(Object)                                 {}
func (*silence) UsageChanged()                                {}
func (*silence) AccessChanged()                               {}
func (s *silence) ClaimsMissing(p *corev1.Pod, what []string) { s.missing[keyOf(p)] = what }

// changes is the sink of a Model.
type changes []engine.Change

func (c *changes) Put(more ...engine.Change) { *c = append(*c, more...) }
func (*changes) Wake()                       {}

func (c *changes) take() []engine.Change {
	all := *c
	*c = nil
	return all
}

// whatIf is what a Model wants of its feed beside what objects say.
type whatIf struct {
	allowed map[string][]string // nodes, sorted, by pod; without an entry: all
}

// restrict leaves the pod the nodes that are allowed.
func (w *whatIf) restrict(v *engine.Pod) {
	if w == nil {
		return
	}
	allowed, ok := w.allowed[v.Key]
	switch {
	case !ok:
	case v.Nodes == nil:
		v.Nodes = allowed
	default:
		v.Nodes = slices.DeleteFunc(slices.Clone(v.Nodes), func(n string) bool { _, in := slices.BinarySearch(allowed, n); return !in })
	}
}

// adopt takes another scheduler's pod for ours. Of gangs a PodGroup counts, which others heed as we do; what we alone
// read does not hold for it. HAMi's scheduler heeds its own keys.
func adopt(v *engine.Pod, p *corev1.Pod) {
	if isNative(v.Gang) {
		v.Gang, v.Subgroup = "", ""
	}
	v.Foreign, v.Queue, v.GPU = false, "", convert.ForeignGPU(p) // terms and users are read of ours alone
}
