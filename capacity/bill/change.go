package bill

import (
	"cmp"
	"slices"
	"strings"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
)

// refresh takes the changes for all there is: a log begins anew with them every hour. Pods that go on keep their stint and whom they are
// charged to, and machines the GPUs that they had. Pods that are missing have ended while nobody looked, and what they lost by that is not
// known.
func (b *Book) refresh(changes []engine.Change) {
	b.settleAll()
	b.hadNodes, b.hadPods = b.nodes, b.pods
	b.forget()
	for i := range changes {
		b.change(&changes[i])
	}
	b.hadNodes, b.hadPods = nil, nil
	b.assign()
}

// change takes in one change, unless something newer is known, as the engine does.
func (b *Book) change(c *engine.Change) {
	if c.Eviction != nil {
		b.evict(c.Eviction)
		return
	}
	ref, ok := c.Ref()
	if c.Gone != nil {
		ref, ok = *c.Gone, true
	}
	if !ok || ref.Kind != engine.KindNode && ref.Kind != engine.KindPod && ref.Kind != engine.KindGang {
		return
	}
	at := engine.Ref{Kind: ref.Kind, Key: ref.Key}
	if have, is := b.known[at]; is && (ref.Version < have || ref.Version == have && (c.Gone == nil || b.gone[at])) {
		return
	}
	b.known[at], b.gone[at] = ref.Version, c.Gone != nil
	switch {
	case c.Node != nil:
		b.setNode(c.Node)
	case c.Pod != nil:
		b.setPod(c.Pod)
	case c.Gang != nil:
		b.setGang(c.Gang)
	case ref.Kind == engine.KindNode:
		b.dropNode(ref.Key)
	case ref.Kind == engine.KindPod:
		b.dropPod(ref.Key)
	default:
		delete(b.gangs, ref.Key)
	}
}

func (b *Book) setNode(v *engine.Node) {
	var pool *Pool
	if p, ok := b.o.Tariff.Pools[b.o.Tariff.poolOf(v.Labels)]; ok {
		pool = &p
	}
	gpus := gpusOf(v, pool, b.o.GPU)
	n := b.nodes[v.Name]
	if had := cmp.Or(n, b.hadNodes[v.Name]); had != nil && sameMachine(had.value, v) {
		gpus = max(gpus, had.gpus) // a machine loses no GPUs: what it does not offer is paid for
	}
	if n == nil {
		if gpus == 0 {
			return
		}
		n = &node{value: v, gpus: gpus, settled: b.elapsed, pods: make(map[string]*pod)}
		b.nodes[v.Name], b.stale = n, true
		//archtest:any-order each joins by itself
		for key, p := range b.pods {
			if p.node == v.Name {
				n.pods[key] = p
			}
		}
	}
	b.settle(n)
	b.stale = b.stale || v.Machine != n.value.Machine || v.Machine != "" && b.shared[v.Machine] > 1
	machine := b.o.Tariff.machineOf(v, gpus)
	b.stale = b.stale || gpus != n.gpus || machine != n.machine
	n.value, n.gpus, n.machine = v, gpus, machine
	//archtest:any-order each by itself
	for _, p := range n.pods {
		p.asked = heldBy(p.value, v, b.o.GPU)
	}
}

func (b *Book) dropNode(name string) {
	n := b.nodes[name]
	if n == nil {
		return
	}
	b.settle(n)
	//archtest:any-order each by itself
	for _, p := range n.pods {
		p.settled = b.elapsed
	}
	delete(b.nodes, name)
	b.stale = true
}

func (b *Book) setPod(v *engine.Pod) {
	was := b.pods[v.Key]
	if was != nil && (was.value.UID != v.UID || was.node != "" && was.node != v.Node) {
		b.dropPod(v.Key)
		was = nil
	}
	n := b.nodes[v.Node]
	var of *engine.Node
	if n != nil {
		of = n.value
		b.settle(n)
	}
	asked := heldBy(v, of, b.o.GPU)
	if asked == 0 && !mayHold(v) {
		b.dropPod(v.Key)
		return
	}
	p := was
	if p == nil {
		p = b.newPod(v)
		b.pods[v.Key] = p
	} else if p.node == "" {
		b.settlePending(p)
	}
	if p.node != v.Node {
		if asked > 0 {
			b.begins(p, v)
		}
		p.node, p.since = v.Node, v.Started
		if p.since.IsZero() {
			p.since = b.at
		}
	}
	b.noticeIdle(p, v, asked)
	p.value, p.asked = v, asked
	b.charge(p)
	if n != nil {
		n.pods[v.Key] = p
	}
	if v.Gang != "" {
		if b.of[v.Gang] == nil {
			b.of[v.Gang] = make(map[string]*pod)
		}
		b.of[v.Gang][v.Key] = p
	}
}

// newPod is a pod as it is first told of: what was remembered of it before a step that is fresh stands.
func (b *Book) newPod(v *engine.Pod) *pod {
	if had := b.hadPods[v.Key]; had != nil && had.value.UID == v.UID && (had.node == "" || had.node == v.Node) {
		delete(b.hadPods, v.Key)
		had.settled = b.elapsed
		return had
	}
	p := &pod{settled: b.elapsed}
	if v.Node == "" {
		p.asking = b.at
	}
	return p
}

// begins notes how long work waited that gets its first node. A gang waits once, whatever its size.
func (b *Book) begins(p *pod, v *engine.Pod) {
	if b.waits == nil || p.asking.IsZero() || !b.within() {
		return
	}
	//archtest:any-order any will do
	for _, other := range b.of[v.Gang] {
		if other.node != "" && other.asked > 0 {
			return
		}
	}
	b.waits = append(b.waits, max(0, b.at.UnixMilli()-p.asking.UnixMilli()))
	if len(b.waits) > mostWaits {
		b.waits = slices.Delete(b.waits, 0, mostWaits/2)
	}
}

// noticeIdle charges a pod whose GPUs are now known to have done nothing for a while for that time too, as far as it held them.
func (b *Book) noticeIdle(p *pod, v *engine.Pod, asked int64) {
	if v.Idle.IsZero() || p.value == nil {
		b.measured = b.measured || !v.Idle.IsZero()
		return
	}
	b.measured = true
	if p.value.Idle.IsZero() && b.nodes[p.node] != nil {
		since := min(max(0, b.at.UnixMilli()-v.Idle.UnixMilli()), mostRun)
		b.use(p.who).idle += min(since*min(asked, mostOf*whole), p.busy)
	}
	p.busy = 0
}

// charge says to whom the pod's time goes. What a gang said last holds while its pods end.
func (b *Book) charge(p *pod) {
	namespace, _, _ := strings.Cut(p.value.Key, "/")
	w := Who{Namespace: namespace, Experiment: p.value.Labels[v1alpha1.LabelExperiment], Queue: p.value.Queue, User: p.value.User}
	p.terms = p.value.Terms
	if p.value.Gang != "" {
		w.Queue, w.User = p.who.Queue, p.who.User
		if g := b.gangs[p.value.Gang]; g != nil {
			w.Queue, w.User, p.terms = g.Queue, g.User, g.Terms
		}
	}
	p.who = w
}

func (b *Book) setGang(g *engine.Gang) {
	b.gangs[g.Key] = g
	//archtest:any-order each by itself
	for _, p := range b.of[g.Key] {
		if n := b.nodes[p.node]; n != nil {
			b.settle(n)
		} else {
			b.settlePending(p)
		}
		b.charge(p)
	}
}

func (b *Book) evict(e *engine.Eviction) {
	if p := b.pods[e.Pod]; p != nil && (e.UID == "" || e.UID == p.value.UID) && p.node != "" {
		p.evicted = e.Cause
		if e.Refused {
			p.evicted = ""
		}
	}
}

// preemptions are the evictions that cost their victims work: not those whose time was up, and not those that did nothing.
var preemptions = []engine.EvictionCause{engine.Reclaimed, engine.Preempted, engine.Shared, engine.Overran, engine.Moved, engine.Booked, engine.Unhealthy, engine.Broken}

func (b *Book) dropPod(key string) {
	p := b.pods[key]
	if p == nil {
		return
	}
	if n := b.nodes[p.node]; n != nil {
		b.settle(n)
		delete(n.pods, key)
	} else {
		b.settlePending(p)
	}
	if slices.Contains(preemptions, p.evicted) && p.asked > 0 && b.within() {
		u := b.use(p.who)
		u.evicted++
		u.lost = plus(u.lost, b.lost(p)*p.asked)
	}
	delete(b.pods, key)
	if members := b.of[p.value.Gang]; members != nil {
		delete(members, key)
		if len(members) == 0 {
			delete(b.of, p.value.Gang)
		}
	}
}

// mostRun bounds how long a pod is believed to have run: a clock may have been anything when it began.
const mostRun = 366 * 24 * 3600 * 1000

// lost is the milliseconds of a pod's work that have to be done again: since it last saved it, or all.
func (b *Book) lost(p *pod) int64 {
	run := min(max(0, b.at.UnixMilli()-p.since.UnixMilli()), mostRun)
	if every := p.terms.Checkpoint.Milliseconds(); every > 0 {
		return run % every
	}
	return run
}
