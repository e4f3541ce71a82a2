package scheduler

import (
	"maps"
	"reflect"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/convert"
)

// feed turns watch events into changes. It keeps what a change of one object needs of others: the members of
// each gang, the pods of each claim, who refused whom. Informers call it from their own goroutines. Changes are
// put into the inbox under its lock, so that their order is that of their versions.
type feed struct {
	opts  convert.Options
	inbox *inbox
	says  listener

	mu         sync.Mutex
	versions   versions // of pods
	made       versions // of what is not a pod: gangs, queues, and what follows from other objects
	nodes      map[string]*corev1.Node
	machines   map[string]*engine.Node                // nodes as last given
	groups     map[string]*schedulingv1beta1.PodGroup // by the gang's key
	pods       map[string]*member                     // by key; without those that are over or gated
	gangs      map[string]map[string]*member          // ours alone, by gang, then by key
	owners     owners
	finishes   map[string]finish          // by pod
	finishers  map[string]map[string]bool // pods in finishes, by gang
	fresh      map[string]bool            // workloads with pods that changed since the last plan was told
	redo       map[string]bool            // gangs to describe again
	described  map[string]engine.Gang     // as last given, without version
	refusals   map[string][]*refusal      // by owner
	storage    storage
	tenancy    tenancy
	admissions admissions
	budgets    budgets
	bookings   bookings
	lessons    lessons
	gone       int     // objects, since the engine last forgot them
	whatIf     *whatIf // of a Model; nil: this is the live scheduler's
}

// listener writes down what the feed finds worth saying.
type listener interface {
	// forget ends what was said of an object that is gone, or of a pod that has a node.
	forget(types.UID)
	// notHonoured is said once.
	notHonoured(o object, what []string)
	// claimsMissing keeps the pod from the engine.
	claimsMissing(p *corev1.Pod, what []string)
	// admitted writes down the terms of a pod that is on a node.
	admitted(p *corev1.Pod)
	// begun says that the group's minimum has its nodes.
	begun(g *schedulingv1beta1.PodGroup)
}

func newFeed(o convert.Options, in *inbox) *feed {
	return &feed{
		opts: o, inbox: in, nodes: make(map[string]*corev1.Node), machines: make(map[string]*engine.Node), fresh: make(map[string]bool), groups: make(map[string]*schedulingv1beta1.PodGroup),
		pods: make(map[string]*member), gangs: make(map[string]map[string]*member), redo: make(map[string]bool), described: make(map[string]engine.Gang), owners: newOwners(), finishes: make(map[string]finish), finishers: make(map[string]map[string]bool),
		refusals: make(map[string][]*refusal), storage: newStorage(), tenancy: newTenancy(), admissions: newAdmissions(), budgets: newBudgets(), lessons: newLessons(),
	}
}

// handler calls set for every new version of an object and gone when it is deleted.
func handler[T any](set, gone func(T)) cache.ResourceEventHandlerFuncs {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { set(o.(T)) },
		UpdateFunc: func(_, o any) { set(o.(T)) },
		DeleteFunc: func(o any) {
			if d, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = d.Obj
			}
			if t, ok := o.(T); ok {
				gone(t)
			}
		},
	}
}

func (f *feed) setNode(n *corev1.Node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if old := f.nodes[n.Name]; old == nil || !maps.Equal(old.Labels, n.Labels) {
		f.storage.all = true
		f.rebookLater()
	}
	f.nodes[n.Name] = n
	v := convert.Node(n, f.opts)
	v.Version <<= ownVersions
	if old := f.machines[n.Name]; old != nil {
		c := *old
		if c.Version = v.Version; reflect.DeepEqual(&c, &v) {
			return // a heartbeat
		}
	}
	f.machines[n.Name] = &v
	f.inbox.put(engine.Change{Node: &v})
}

func (f *feed) removeNode(n *corev1.Node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.nodes, n.Name)
	delete(f.machines, n.Name)
	f.storage.all = true
	f.storage.nodeLeft()
	f.rebookLater()
	f.drop(engine.KindNode, n.Name, resourceVersion(n)<<ownVersions)
}

func (f *feed) drop(kind engine.Kind, key string, version uint64) {
	f.gone++
	f.inbox.put(engine.Change{Gone: &engine.Ref{Kind: kind, Key: key, Version: version}})
}

// read is the pod as the engine is to see it.
func (f *feed) read(p *corev1.Pod) engine.Pod {
	v := convert.Pod(p, f.opts)
	if f.whatIf != nil && v.Foreign {
		adopt(&v)
	}
	if f.whatIf == nil && !v.Foreign && placeHeld(p) {
		v.Nominated = "" // the hold counts
	}
	return v
}

// setPod gives the engine the pod, or takes it away if it is over or not allowed to be scheduled yet. A version
// older than the one known is passed over.
func (f *feed) setPod(p *corev1.Pod) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.takePod(p)
}

// renewPod is setPod for a pod that was asked for. Unlike the watch, an answer may be older than a deletion that was
// delivered, so a pod that is not known is not brought back.
func (f *feed) renewPod(p *corev1.Pod) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if known := f.pods[keyOf(p)]; known != nil && known.pod.UID == p.UID {
		f.takePod(p)
	}
}

func (f *feed) takePod(p *corev1.Pod) {
	raw := p
	known := f.pods[keyOf(raw)]
	p, decided := f.reading(known, raw)
	v := f.read(p)
	if known != nil && resourceVersion(known.pod) > v.Version {
		return
	}
	f.saw(v.Version)
	v.Version <<= ownVersions
	f.finishing(p, &v)
	if !convert.Schedulable(p) {
		f.end(known, p, &v)
		return
	}
	if known != nil && known.pod.UID != p.UID {
		f.leave(known)
		known = nil
	}
	f.enter(known, raw, p, decided, &v)
}

// saw keeps the versions that are given above those seen.
func (f *feed) saw(resource uint64) {
	f.versions.saw(resource)
	f.made.saw(resource)
}

// enter takes in a pod that is known, or nil, in an older version: raw as it is in the API, p with what its
// controllers say, or as was decided.
func (f *feed) enter(known *member, raw, p *corev1.Pod, decided *terms, v *engine.Pod) {
	m := &member{key: v.Key, workload: v.Key, raw: raw, pod: p, terms: decided, ours: !v.Foreign, adopted: !f.opts.Ours(p.Spec.SchedulerName), takes: v.Spec.Requests}
	if known != nil {
		m.given, m.value, m.lapsed = known.given, known.value, known.lapsed
	}
	if v.Gang != "" && m.ours {
		m.workload = v.Gang
	}
	if known != nil && known.workload != m.workload {
		f.leave(known)
		known = nil
	}
	f.join(m)
	if known == nil && m.ours && m.waiting() {
		f.says.notHonoured(p, convert.Unheeded(p))
	}
	if p.Spec.NodeName != "" {
		f.says.forget(p.UID)
	}
	f.give(m, v)
	f.writeDown(m)
	f.begun(m.workload)
}

// repeat says again what was found worth saying before anybody listened: of everything that waits.
func (f *feed) repeat() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.storage.all = true // claims that keep pods back
	for _, key := range slices.Sorted(maps.Keys(f.pods)) {
		if m := f.pods[key]; m.ours && m.waiting() {
			f.says.notHonoured(m.pod, convert.Unheeded(m.pod))
		}
		f.writeDown(f.pods[key])
	}
	for _, key := range slices.Sorted(maps.Keys(f.groups)) {
		f.says.notHonoured(f.groups[key], convert.UnheededGroup(f.groups[key]))
		f.begun(key)
	}
}

// news returns the workloads whose pods changed since it was last called.
func (f *feed) news() map[string]bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	fresh := f.fresh
	f.fresh = make(map[string]bool)
	return fresh
}

// end takes away a pod that is over, or not to be looked at yet.
func (f *feed) end(known *member, p *corev1.Pod, v *engine.Pod) {
	if known == nil {
		return // it was never given
	}
	f.leave(known)
	f.drop(engine.KindPod, v.Key, f.versions.next())
	f.ended(known, p)
	if f.whatIf == nil && known.ours && known.pod.UID == p.UID && p.Spec.NodeName != "" && turnedAway(&p.Status) {
		f.refused(known, p.Spec.NodeName, p.Status.Reason+": "+p.Status.Message)
	}
}

func (f *feed) removePod(p *corev1.Pod) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.saw(resourceVersion(p))
	key := p.Namespace + "/" + p.Name
	f.unfinished(key)
	known := f.pods[key]
	if known == nil || known.pod.UID != p.UID {
		return
	}
	f.leave(known)
	f.drop(engine.KindPod, known.key, f.versions.next())
	f.ended(known, nil)
}
