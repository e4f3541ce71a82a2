package scheduler

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/report"
)

// sayer writes down why pods and groups wait: a condition and an event, when the cause changes and not per try.
// Events of pods that were scheduled are shed, and counted, when more come than can be written.
type sayer struct {
	s     *scheduler
	queue *lines[writing] // all about one object in order
	calm  *lines[writing] // what waits while bindings are behind
	gate  *gate
	news  *gate // of events of pods that were scheduled
	shed  atomic.Int64

	told map[string]why.Cause // what all pods of a workload have been told; the cycle's alone
	vows map[string]vow       // the starts that they have been told; the cycle's alone

	access chan struct{} // capacity 1: which queues namespaces may use, or what they say of it, may have changed
	usage  chan struct{} // capacity 1: what workloads of queues hold, or ask for, may have changed

	mu   sync.Mutex
	mute bool                // another scheduler leads: nothing is said, nor noted as said
	said map[types.UID]*told // of objects that exist and wait
}

// writing is one thing to write.
type writing func(context.Context)

// told is what was said of one object.
type told struct {
	cause   string
	notices map[string]bool // by event name
}

// newsRoom is how many events of one namespace's scheduled pods wait to be written before more are shed, and a quarter of
// how many of all.
const newsRoom = 1000

// newsPause is how long they wait at a time while bindings come first.
const newsPause = 20 * time.Millisecond

func newSayer(s *scheduler) *sayer {
	return &sayer{
		s: s, told: make(map[string]why.Cause), vows: make(map[string]vow), said: make(map[types.UID]*told), mute: true,
		access: make(chan struct{}, 1), usage: make(chan struct{}, 1),
		queue: newLines[writing](sayers), calm: newLines[writing](sayers / 2), gate: newGate(sayers), news: newGate(sayers / 2),
	}
}

// tell takes note of what waits. It is called by the cycle, writes nothing itself, and returns when there may be
// more to say though nothing happens; zero: never. Workloads whose cause and pods are as before cost nothing.
func (y *sayer) tell(plan engine.Plan) (again time.Time) {
	fresh := y.s.feed.News()
	if len(y.told) > 2*len(plan.Waiting)+1000 {
		clear(y.told)
	}
	y.forgetVows(plan)
	for i := range plan.Waiting {
		w := &plan.Waiting[i]
		if y.told[w.Gang] == w.Cause && !fresh[w.Gang] {
			again = sooner(again, y.tellVow(w, &plan))
			continue
		}
		young := y.tellOf(w, plan)
		if again = sooner(again, young); young.IsZero() {
			y.told[w.Gang] = w.Cause
		}
	}
	return again
}

// tellOf takes note of why a workload waits. It returns when to look again, zero for not before something changes.
func (y *sayer) tellOf(w *engine.Waiting, plan engine.Plan) (again time.Time) {
	said := sync.OnceValue(func() pending { return y.pending(w, &plan) })
	for _, p := range y.s.feed.Waiting(w.Gang) {
		if grown := p.CreationTimestamp.Add(gathering); w.Cause == why.GangIncomplete && plan.Now.Before(grown) {
			again = sooner(again, grown)
			continue
		}
		if y.turns(p.UID, string(w.Cause)) {
			y.wait(p, said())
		}
	}
	if g := y.s.feed.Group(w.Gang); g != nil && tried(w) && y.turns(g.UID, string(w.Cause)) {
		y.groupWaits(g, said())
	}
	return again
}

// sooner returns the earlier of two times, of which a zero one is never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// ClaimsMissing says what keeps a pod from the engine.
func (y *sayer) ClaimsMissing(p *corev1.Pod, what []string) {
	text := strings.Join(what, "; ")
	if y.turns(p.UID, "claims: "+text) {
		y.wait(p, pending{"ClaimsNotReady", text, report.Pending{Cause: report.ClaimsNotReady, Verdict: why.Blocked}})
	}
}

// open ends the silence of one that does not lead.
func (y *sayer) open() {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.mute = false
}

// refused says on the pod, nil allowed, that its binding was not taken.
func (y *sayer) refused(p *corev1.Pod, node string, err error) {
	if p != nil && y.turns(p.UID, "refused") {
		y.wait(p, bindingFailed(fmt.Sprintf("the binding to node %s was refused: %v", node, err)))
	}
}

// turns notes the cause and says whether it is another one than before.
func (y *sayer) turns(uid types.UID, cause string) bool {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.mute {
		return false
	}
	t := y.of(uid)
	if t.cause == cause {
		return false
	}
	t.cause = cause
	return true
}

// first says whether the event has not been written of the object yet.
func (y *sayer) first(uid types.UID, event string) bool {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.mute {
		return false
	}
	t := y.of(uid)
	if t.notices[event] {
		return false
	}
	if t.notices == nil {
		t.notices = make(map[string]bool)
	}
	t.notices[event] = true
	return true
}

func (y *sayer) of(uid types.UID) *told {
	if y.said[uid] == nil {
		y.said[uid] = &told{}
	}
	return y.said[uid]
}

func (y *sayer) Forget(uid types.UID) {
	y.mu.Lock()
	defer y.mu.Unlock()
	delete(y.said, uid)
}

// UsageChanged has the statuses of queues written.
func (y *sayer) UsageChanged() { signal(y.usage) }

// AccessChanged has the namespaces looked at.
func (y *sayer) AccessChanged() { signal(y.access) }

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
}

// pending is why the workload waits, as who reads its namespace is told. The promise in it counts as announced.
func (y *sayer) pending(w *engine.Waiting, plan *engine.Plan) pending {
	start := promiseOf(w.Gang, plan)
	y.vows[w.Gang] = vow{start, plan.Now}
	name := report.ForNamespace(namespaceOf(w.Gang), y.s.feed.QueueOf)
	text := report.Sentence(w.Gates, plan.Certificates, name) + report.PromiseText(start, plan.Now)
	return pending{report.Reason(w), text, report.OfWaiting(w, start, name)}
}

// bindingFailed is of a pod that has a place and is not bound.
func bindingFailed(text string) pending {
	return pending{corev1.PodReasonSchedulerError, text, report.Pending{Cause: report.BindingFailed, Verdict: why.Blocked}}
}

// later writes in the background, after what was to be written of the same object.
func (y *sayer) later(o metav1.Object, w writing) {
	if !y.s.opts.Shadow {
		y.queue.put(o.GetNamespace(), string(o.GetUID()), w)
	}
}

func (y *sayer) run(ctx context.Context) {
	sending, end := outlive(ctx)
	defer end()
	var all sync.WaitGroup
	all.Go(func() { y.queue.run(ctx, func(write writing) bool { write(sending); return false }) })
	all.Go(func() { y.calm.run(ctx, func(write writing) bool { y.yield(ctx); write(sending); return false }) })
	all.Wait()
}

// yield waits while bindings need the API server more.
func (y *sayer) yield(ctx context.Context) {
	for y.s.binds.behind() && ctx.Err() == nil {
		time.Sleep(newsPause)
	}
}
