package scheduler

import (
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/convert"
)

// feed turns watch events into changes. It keeps what a change of one object needs of others: the members of
// each gang. Informers call it from their own goroutines.
type feed struct {
	opts  convert.Options
	inbox *inbox

	mu      sync.Mutex
	members map[string]map[string]*corev1.Pod // by workload, then by pod key: those given to the engine
	version map[string]uint64                 // of gangs made of their pods' annotations
	latest  uint64                            // highest version seen
}

func newFeed(o convert.Options, in *inbox) *feed {
	return &feed{opts: o, inbox: in, members: make(map[string]map[string]*corev1.Pod), version: make(map[string]uint64)}
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
	v := convert.Node(n, f.opts)
	f.inbox.put(engine.Change{Node: &v})
}

func (f *feed) removeNode(n *corev1.Node) {
	f.drop(engine.KindNode, n.Name, convert.Node(n, f.opts).Version)
}

func (f *feed) setGroup(g *schedulingv1beta1.PodGroup) {
	v := convert.PodGroup(g)
	f.inbox.put(engine.Change{Gang: &v})
}

func (f *feed) removeGroup(g *schedulingv1beta1.PodGroup) {
	v := convert.PodGroup(g)
	f.drop(engine.KindGang, v.Key, v.Version)
}

func (f *feed) drop(kind engine.Kind, key string, version uint64) {
	f.inbox.put(engine.Change{Gone: &engine.Ref{Kind: kind, Key: key, Version: version}})
}

// setPod gives the engine the pod, or takes it away if it is over or not allowed to be scheduled yet.
func (f *feed) setPod(p *corev1.Pod) {
	if !convert.Schedulable(p) {
		f.removePod(p)
		return
	}
	v := convert.Pod(p, f.opts)
	f.inbox.put(f.join(p, &v)...)
}

func (f *feed) removePod(p *corev1.Pod) {
	v := convert.Pod(p, f.opts)
	changes := []engine.Change{{Gone: &engine.Ref{Kind: engine.KindPod, Key: v.Key, Version: v.Version}}}
	f.inbox.put(append(changes, f.leave(p, &v)...)...)
}

// join enters the pod among its workload's members, and returns the changes that follow.
func (f *feed) join(p *corev1.Pod, v *engine.Pod) []engine.Change {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := workload(v)
	if f.members[key] == nil {
		f.members[key] = make(map[string]*corev1.Pod)
	}
	f.members[key][v.Key] = p
	f.latest = max(f.latest, v.Version)
	changes := []engine.Change{{Pod: v}}
	if isNative(key) {
		changes = append(changes, f.native(key))
	}
	return changes
}

// leave undoes join.
func (f *feed) leave(p *corev1.Pod, v *engine.Pod) []engine.Change {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := workload(v)
	if f.members[key][v.Key] == nil {
		return nil
	}
	delete(f.members[key], v.Key)
	if len(f.members[key]) == 0 {
		delete(f.members, key)
	}
	f.latest = max(f.latest, v.Version)
	if !isNative(key) {
		return nil
	}
	return []engine.Change{f.native(key)}
}

// native makes the gang of a key that its pods' annotations describe; it is gone with the last of them.
func (f *feed) native(key string) engine.Change {
	f.version[key] = max(f.latest, f.version[key]+1)
	members := f.members[key]
	if len(members) == 0 {
		version := f.version[key]
		delete(f.version, key)
		return engine.Change{Gone: &engine.Ref{Kind: engine.KindGang, Key: key, Version: version}}
	}
	var pods []*corev1.Pod
	for _, name := range slices.Sorted(maps.Keys(members)) {
		pods = append(pods, members[name])
	}
	g, _ := convert.NativeGang(pods)
	g.Key, g.Version = key, f.version[key]
	return engine.Change{Gang: &g}
}

// waiting returns the workload's members that are on no node, by name.
func (f *feed) waiting(key string) []*corev1.Pod {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []*corev1.Pod
	for _, name := range slices.Sorted(maps.Keys(f.members[key])) {
		if p := f.members[key][name]; p.Spec.NodeName == "" && p.DeletionTimestamp == nil {
			out = append(out, p)
		}
	}
	return out
}

// pod returns the member as last seen, nil if it is gone.
func (f *feed) pod(workload, key string) *corev1.Pod {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.members[workload][key]
}

func workload(v *engine.Pod) string {
	if v.Gang != "" {
		return v.Gang
	}
	return v.Key
}

// isNative says whether a workload's key is that of a gang which only its pods' annotations describe.
func isNative(key string) bool {
	_, rest, _ := strings.Cut(key, "/")
	return strings.HasPrefix(rest, "gang/")
}
