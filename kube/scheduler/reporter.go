package scheduler

import (
	"cmp"
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/cluster"
	"github.com/berth-dev/berth/kube/report"
)

// reporter writes down why pods and groups wait: a condition and an event, when the cause changes and not per try.
// Events of pods that were scheduled are shed, and counted, when more come than can be written.
type reporter struct {
	s          *scheduler
	queue      *lines[writing] // all about one object in order
	background *lines[writing] // what waits while bindings are behind
	gate       *gate
	eventGate  *gate // of events of pods that were scheduled
	shed       atomic.Int64

	told      map[string]why.Cause    // what all pods of a workload have been told; the cycle's alone
	announced map[string]announcement // the starts that they have been told; the cycle's alone

	access chan struct{} // capacity 1: which queues namespaces may use, or what they say of it, may have changed
	usage  chan struct{} // capacity 1: what workloads of queues hold, or ask for, may have changed

	mu   sync.Mutex
	mute bool                // another scheduler leads: nothing is said, nor noted as said
	said map[types.UID]*told // of objects that exist and wait
	why  map[string]pending  // workloads that wait, as they were last told; while dialects are in use
}

// writing is one thing to write.
type writing func(context.Context)

// told is what was said of one object.
type told struct {
	cause   string
	needs   time.Time       // since when it needs nodes that were not asked for; zero: it does not
	notices map[string]bool // by event name
}

// eventRoom is how many events of one namespace's scheduled pods wait to be written before more are shed, and a quarter of
// how many of all.
const eventRoom = 1000

// eventPause is how long they wait at a time while bindings come first.
const eventPause = 20 * time.Millisecond

func newReporter(s *scheduler) *reporter {
	return &reporter{
		s: s, told: make(map[string]why.Cause), announced: make(map[string]announcement), said: make(map[types.UID]*told), why: make(map[string]pending), mute: true,
		access: make(chan struct{}, 1), usage: make(chan struct{}, 1),
		queue: newLines[writing](reporters), background: newLines[writing](reporters / 2), gate: newGate(reporters), eventGate: newGate(reporters / 2),
	}
}

// tell takes note of what waits. It is called by the cycle, writes nothing itself, and returns when there may be
// more to say though nothing happens; zero: never. Workloads whose cause and pods are as before cost nothing.
func (r *reporter) tell(plan engine.Plan) (again time.Time) {
	fresh := r.s.feed.News()
	if len(r.told) > 2*len(plan.Waiting)+1000 {
		clear(r.told)
	}
	r.forgetAnnounced(plan)
	for i := range plan.Starts {
		delete(r.told, plan.Starts[i].Gang) // on its way it may be told something else, and then wait for what it waited for before
	}
	for i := range plan.Waiting {
		w := &plan.Waiting[i]
		if r.told[w.Gang] == w.Cause && !fresh[w.Gang] {
			again = sooner(again, r.announcePromise(w, &plan))
			continue
		}
		young := r.tellOf(w, plan)
		if again = sooner(again, young); young.IsZero() {
			r.told[w.Gang] = w.Cause
		}
	}
	return again
}

// tellOf takes note of why a workload waits. It returns when to look again, zero for not before something changes.
func (r *reporter) tellOf(w *engine.Waiting, plan engine.Plan) (again time.Time) {
	said := sync.OnceValue(func() pending { return r.pending(w, &plan) })
	if r.s.foreign != nil {
		r.noteWhy(w.Gang, said())
	}
	for _, p := range r.s.feed.Waiting(w.Gang) {
		if cluster.Expected(p) {
			continue
		}
		if grown := p.CreationTimestamp.Add(gathering); w.Cause == why.GangIncomplete && plan.Now.Before(grown) {
			again = sooner(again, grown)
			continue
		}
		if until := r.unasked(p, said, plan.Now); !until.IsZero() {
			again = sooner(again, until)
			continue
		}
		if r.turns(p.UID, string(w.Cause)) {
			r.wait(p, said())
		}
	}
	if !tried(w) {
		return again
	}
	groups, composites := r.s.feed.Groups(w.Gang)
	for _, g := range groups {
		if !cluster.Begun(g) && r.turns(g.UID, string(w.Cause)) {
			r.groupWaits(g, said())
		}
	}
	for _, c := range composites {
		if !cluster.Begun(c) && r.turns(c.UID, string(w.Cause)) {
			r.groupWaits(c, said())
		}
	}
	return again
}

// unasked has a pod that needs nodes wait without being marked for autoscalers, until nodes have been asked for or that takes too
// long. It returns when to look again; zero: it is to be told as all others are.
func (r *reporter) unasked(p *corev1.Pod, said func() pending, now time.Time) (again time.Time) {
	if r.s.opts.Asked == nil {
		return time.Time{}
	}
	what := said()
	if !what.cause.NeedsNodes() || r.s.opts.Asked(p) || !now.Before(r.needsSince(p.UID, now).Add(unaskedFor)) {
		return time.Time{}
	}
	if r.turns(p.UID, "unasked: "+string(what.cause.Cause)) {
		what.reason = report.CauseReason(what.cause.Cause)
		r.wait(p, what)
	}
	return now.Add(unaskedEvery)
}

// needsSince is since when the pod needs nodes: now, if it has not been said before.
func (r *reporter) needsSince(uid types.UID, now time.Time) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.of(uid)
	if t.needs.IsZero() {
		t.needs = now
	}
	return t.needs
}

// noteWhy keeps why a workload waits, for the statuses of dialects.
func (r *reporter) noteWhy(workload string, said pending) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.why) > mostWhys {
		clear(r.why)
	}
	r.why[workload] = said
	signal(r.usage)
}

// mostWhys bounds them; one that is forgotten is told again with its cause.
const mostWhys = 100_000

// waitsFor is why the workload was last said to wait; "" where nothing was said.
func (r *reporter) waitsFor(workload string) (cause, reason, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p, ok := r.why[workload]
	if !ok {
		return "", "", ""
	}
	return string(p.cause.Cause), p.reason, clip(p.text, maxNote)
}

// sooner returns the earlier of two times, of which a zero one is never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// ClaimsMissing says what keeps a pod from the engine.
func (r *reporter) ClaimsMissing(p *corev1.Pod, what []string) {
	if cluster.Expected(p) {
		return
	}
	text := strings.Join(what, "; ")
	if r.turns(p.UID, "claims: "+text) {
		r.wait(p, pending{reason: "ClaimsNotReady", text: text, cause: report.Pending{Cause: report.ClaimsNotReady, Verdict: why.Blocked}})
	}
}

// open ends the silence of one that does not lead.
func (r *reporter) open() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mute = false
}

// refused says on the pod, nil allowed, that its binding was not taken.
func (r *reporter) refused(p *corev1.Pod, node string, err error) {
	if p != nil && r.turns(p.UID, "refused") {
		r.wait(p, bindingFailed(report.Binding{Node: node, State: report.BindingRefused, Error: clip(err.Error(), maxError)}))
	}
}

// turns notes the cause and says whether it is another one than before.
func (r *reporter) turns(uid types.UID, cause string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mute {
		return false
	}
	t := r.of(uid)
	if t.cause == cause {
		return false
	}
	t.cause = cause
	return true
}

// first says whether the event has not been written of the object yet.
func (r *reporter) first(uid types.UID, event string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mute {
		return false
	}
	t := r.of(uid)
	if t.notices[event] {
		return false
	}
	if t.notices == nil {
		t.notices = make(map[string]bool)
	}
	t.notices[event] = true
	return true
}

func (r *reporter) of(uid types.UID) *told {
	if r.said[uid] == nil {
		r.said[uid] = &told{}
	}
	return r.said[uid]
}

func (r *reporter) Forget(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.said, uid)
}

// UsageChanged has the statuses of queues written.
func (r *reporter) UsageChanged() { signal(r.usage) }

// AccessChanged has the namespaces looked at.
func (r *reporter) AccessChanged() { signal(r.access) }

func signal(to chan<- struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

// pending is why a pod waits: the condition's reason and sentence, and the same as data.
type pending struct {
	reason, text string
	cause        report.Pending
	stock        string // what the condition says in place of text: the same in the stock scheduler's words
}

// message is that of the condition PodScheduled.
func (p *pending) message() string { return cmp.Or(p.stock, p.text) }

// pending is why the workload waits, as readers of its namespace are told. The promise in it counts as announced.
func (r *reporter) pending(w *engine.Waiting, plan *engine.Plan) pending {
	start := promiseOf(w.Gang, plan)
	r.announced[w.Gang] = announcement{start, plan.Now}
	name := report.ForNamespace(namespaceOf(w.Gang), r.s.feed.QueueOf)
	text := report.Sentence(w.Gates, plan.Certificates, name) + report.PromiseText(start, plan.Now)
	if w.Cause == why.WorkloadHeld {
		if what := r.s.feed.Unready(w.Gang); what != "" {
			text = "has quota and places, and waits: " + what
		}
	}
	said := pending{reason: report.Reason(w), text: text, cause: report.OfWaiting(w, plan.Certificates, start, name)}
	r.inStockWords(&said, w, plan)
	return said
}

// inStockWords has the condition say what people and their tools know from the stock scheduler, where that is all there is to say, or
// begin with it.
func (r *reporter) inStockWords(said *pending, w *engine.Waiting, plan *engine.Plan) {
	switch g := r.s.feed.Group(w.Gang); {
	case report.UnmetClaims(w, plan.Certificates):
		nodes, first := r.s.feed.InvalidPools()
		said.stock = report.StockClaims(w, plan.Certificates, nodes)
		if nodes > 0 {
			said.text += "; invalid resource pools, such as " + first
		}
	case g != nil && g.Spec.SchedulingPolicy.Gang != nil && w.Cause == why.PodRules && said.reason == corev1.PodReasonUnschedulable:
		if claims := r.s.feed.ClaimsInCommon(w.Gang); claims > 0 {
			said.stock = report.StockGroup(g.Spec.SchedulingPolicy.Gang.MinCount, claims, said.text)
		}
	}
}

// bindingFailed is of a pod that has a place and is not bound.
func bindingFailed(b report.Binding) pending {
	reason, text, cause := report.OfBinding(b)
	return pending{reason: reason, text: text, cause: cause}
}

// later writes in the background, after what was to be written of the same object.
func (r *reporter) later(o metav1.Object, w writing) {
	if !r.s.opts.Shadow {
		r.queue.put(o.GetNamespace(), string(o.GetUID()), w)
	}
}

func (r *reporter) run(ctx context.Context) {
	sending, end := outlive(ctx)
	defer end()
	var all sync.WaitGroup
	all.Go(func() { r.queue.run(ctx, func(write writing) bool { write(sending); return false }) })
	all.Go(func() { r.background.run(ctx, func(write writing) bool { r.yield(ctx); write(sending); return false }) })
	all.Wait()
}

// yield waits while bindings need the API server more.
func (r *reporter) yield(ctx context.Context) {
	for r.s.binds.behind() && ctx.Err() == nil {
		time.Sleep(eventPause)
	}
}
