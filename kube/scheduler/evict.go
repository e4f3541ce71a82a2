package scheduler

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/convert"
	"github.com/berth-dev/berth/kube/report"
)

// evictor ends pods that the engine wants to end. For each the place is kept first, then the pod is marked with who evicts it, for
// which workload and why, and then it is deleted. What the API server does not allow comes back to the engine as a refusal; where
// it does not answer the eviction stands, and is sent until it does or the eviction's time is up.
//
// A pod without a controller is evicted like any other: its author has said that it may be.
type evictor struct {
	s             *scheduler
	client        kubernetes.Interface
	queue         *lines[action]
	gate          *gate
	sent, refused atomic.Int64

	mu    sync.Mutex
	open  map[string]*eviction // by pod: decided and not seen to end
	holds holds
}

// action is something to do about a pod. It says whether it is to be done again, after what else waits in its namespace.
type action func(context.Context) (again bool)

// eviction is one that is to be carried out.
type eviction struct {
	engine.Eviction
	said      report.Eviction // what the pod says, or is to say
	workload  string          // of the victim
	successor string          // of a move: what its new place is held for: its gang, or the owner that makes it again
	node      string          // where the victim is
	warned    bool
	sent      bool           // it is being carried out
	marked    bool           // the pod says so; read by the process that carries it out
	surge     *convert.Surge // what the pod says, which stays until the next one is ready; nil: it does not, or not yet
	busy      bool           // something is being done about the surge
	undo      *convert.Surge // what may have been written of a surge that is given up; nil: nothing
}

const (
	// evictors bound the requests in flight.
	evictors = 16
	// evictFor is how long an eviction that fails is tried before others of its namespace are.
	evictFor = 10 * time.Second
	// evictAgain is how long a pod that could not be evicted is left alone.
	evictAgain = time.Minute
)

func newEvictor(s *scheduler) *evictor {
	v := &evictor{s: s, client: s.opts.binding, queue: newLines[action](evictors), gate: newGate(evictors), open: make(map[string]*eviction), holds: newHolds()}
	if v.client == nil {
		v.client = s.client
	}
	return v
}

func (v *evictor) run(ctx context.Context) {
	sending, end := outlive(ctx)
	defer end()
	v.queue.run(ctx, func(do action) (again bool) { return do(sending) && sending.Err() == nil })
}

// later does it in the background, after what was to be done about the same pod.
func (v *evictor) later(pod string, do action) { v.queue.put(namespaceOf(pod), pod, do) }

// once is a deed that is not done again.
func once(w writing) action { return func(ctx context.Context) bool { w(ctx); return false } }

// take takes on what the plan ends and keeps, carries out what is due, and calls off what is not needed any more. The
// cycle calls it. It returns when the next eviction is due; zero: none is.
func (v *evictor) take(plan *engine.Plan) (wake time.Time) {
	if v.s.opts.Shadow {
		return wake
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	started := make(map[string]bool, len(plan.Starts))
	for i := range plan.Starts {
		started[plan.Starts[i].Gang] = true
	}
	v.decided(plan)
	nominations := v.takeHolds(plan)
	var due []*eviction
	waiting := v.unacknowledged()
	for _, key := range sortedNames(v.open) {
		e := v.open[key]
		switch {
		case v.victim(e) == nil:
			delete(v.open, key)
		case e.sent && e.Surge:
			wake = sooner(wake, v.watch(e, plan.Now))
		case e.sent:
		case e.For != "" && (started[e.For] || !v.s.feed.Waits(e.For)):
			v.callOff(e)
		case !e.At.After(plan.Now), e.warned && !waiting[e.workload]:
			e.sent = true
			due = append(due, e)
		default:
			v.warn(e)
			wake = sooner(wake, e.At)
		}
	}
	v.send(nominations, due)
	return wake
}

// unacknowledged are the workloads that have been warned and whose work is not saved yet, as far as they say: of a gang, as long as
// one of its victims has not said so. Ranks that go one by one would take the others' work with them.
func (v *evictor) unacknowledged() map[string]bool {
	out := make(map[string]bool)
	for _, e := range v.open {
		if p := v.victim(e); p != nil && !e.sent && !report.Acknowledged(p, e.At) {
			out[e.workload] = true
		}
	}
	return out
}

// decided takes note of what the engine wants to end, and wants to end no more.
func (v *evictor) decided(plan *engine.Plan) {
	for i := range plan.Changes {
		if at := plan.Changes[i].Gone; at != nil && at.Kind == engine.KindEviction {
			if e := v.open[at.Key]; e != nil && !e.sent {
				v.callOff(e)
			}
		}
	}
	if len(plan.Evictions) == 0 {
		return
	}
	uses := v.s.uses()
	rooms := make(map[string][]*eviction)
	for i := range plan.Evictions {
		e := v.enter(plan.Evictions[i], uses)
		if e != nil && e.For != "" {
			rooms[e.For] = append(rooms[e.For], e)
		}
	}
	for _, gang := range sortedNames(rooms) {
		v.s.reports.makesRoom(gang, rooms[gang])
	}
}

// enter takes on an eviction; nil: the pod is gone already.
func (v *evictor) enter(got engine.Eviction, uses map[string]*engine.QueueUse) *eviction {
	at := v.s.feed.Find(got.Pod)
	e := &eviction{Eviction: got, workload: at.Workload, successor: at.Successor}
	if at.Object == nil || string(at.Object.UID) != got.UID {
		return nil
	}
	if e.Until.IsZero() {
		e.Until = time.Now().Add(v.s.opts.Engine.AssumeFor)
	}
	e.node = at.Object.Spec.NodeName
	e.said = report.OfEviction(&got, at.Queue, v.s.feed.QueueOf(got.For), uses[at.Queue], v.s.gpu(), v.s.marks)
	v.open[got.Pod] = e
	v.s.log.Info("evict", "pod", got.Pod, "workload", e.workload, "because", e.said.Sentence(), "at", got.At)
	return e
}

// victim returns the pod, nil if it is gone or on its way.
func (v *evictor) victim(e *eviction) *corev1.Pod {
	if p := v.s.feed.Pod(e.Pod); p != nil && string(p.UID) == e.UID && p.DeletionTimestamp == nil {
		return p
	}
	return nil
}

// callOff ends an eviction that was not carried out, and with it what was kept for the sake of it.
func (v *evictor) callOff(e *eviction) {
	delete(v.open, e.Pod)
	v.s.log.Info("eviction called off", "pod", e.Pod, "for", e.For)
	v.s.inbox.Put(engine.Change{Gone: &engine.Ref{Kind: engine.KindEviction, Key: e.Pod}})
	v.release(e)
	if e.warned {
		p := v.s.feed.Pod(e.Pod)
		v.later(e.Pod, once(func(ctx context.Context) { v.takeBack(ctx, p) }))
	}
}

// release drops what is kept at the place of the eviction for its beneficiary, and of a move what is kept at the place
// where the victim's own workload was to go on.
func (v *evictor) release(e *eviction) {
	if e.For != "" {
		v.drop(e.For, e.node)
	}
	if e.To != "" {
		v.drop(e.successor, e.To)
	}
}

// drop ends a hold.
func (v *evictor) drop(gang, node string) {
	cut(v.holds.held, gang, node)
	v.s.inbox.Put(engine.Change{Gone: &engine.Ref{Kind: engine.KindHold, Key: gang + "@" + node}})
}

// warn says once when and why the pod will be evicted.
func (v *evictor) warn(e *eviction) {
	if e.warned {
		return
	}
	e.warned = true
	p := v.s.feed.Pod(e.Pod)
	text := "at " + report.Deadline(e.At) + ", " + e.said.Sentence()
	v.later(e.Pod, once(func(ctx context.Context) {
		err := v.gate.again(ctx, p.Namespace, func(ctx context.Context) error {
			return v.condition(ctx, p, v1alpha1.PodEvictionPlanned, report.EvictionReason(e.Cause), text, &e.said)
		})
		if err == nil {
			err = v.gate.again(ctx, p.Namespace, func(ctx context.Context) error { // where its programs can read it: the downward API
				return v.annotate(ctx, p, map[string]any{v1alpha1.KeyEvictAt: report.Deadline(e.At)})
			})
		}
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			v.s.log.Warn("warn of eviction", "pod", e.Pod, "err", err)
		}
		v.s.reports.evicting(p, "EvictionPlanned", "to be evicted "+text, &e.said)
	}))
}

// send writes the nominations of each gang, and then carries out the evictions for it. A process that is killed before that
// has evicted nothing; after it, every place that an eviction frees is kept for a workload.
func (v *evictor) send(nominations []nomination, due []*eviction) {
	left := make(map[string]*atomic.Int64) // nominations to write, by gang
	for _, n := range nominations {
		if left[n.gang] == nil {
			left[n.gang] = new(atomic.Int64)
		}
		left[n.gang].Add(1)
	}
	after := make(map[string][]*eviction)
	for _, e := range due {
		if left[e.For] == nil {
			v.later(e.Pod, func(ctx context.Context) bool { return v.carryOut(ctx, e) })
			continue
		}
		after[e.For] = append(after[e.For], e)
	}
	for _, n := range nominations {
		v.later(n.pod, once(func(ctx context.Context) {
			v.nominate(ctx, n)
			if left[n.gang].Add(-1) > 0 {
				return
			}
			for _, e := range after[n.gang] {
				v.later(e.Pod, func(ctx context.Context) bool { return v.carryOut(ctx, e) })
			}
		}))
	}
}

// carryOut evicts the pod, and tells the engine where that was refused. Where the server does not answer it is done
// again until the eviction's time is up.
func (v *evictor) carryOut(ctx context.Context, e *eviction) (again bool) {
	p := v.victim(e)
	if p == nil {
		return false
	}
	if e.Surge {
		return v.surge(ctx, e, p)
	}
	whole, cancel := context.WithDeadline(ctx, e.Until)
	defer cancel()
	sending, cancel := context.WithTimeout(whole, evictFor)
	defer cancel()
	if e.Cause != engine.Moved { // the eviction API writes a condition of its own
		if !e.marked && v.pointless(e) {
			return false
		}
		err := v.gate.again(sending, p.Namespace, func(ctx context.Context) error {
			return v.condition(ctx, p, corev1.DisruptionTarget, report.EvictionReason(e.Cause), e.said.Sentence(), &e.said)
		})
		if err != nil {
			return v.failed(ctx, whole, e, p, err)
		}
		e.marked = true
	}
	if v.pointless(e) {
		if e.marked {
			v.takeBack(ctx, p)
		}
		return false
	}
	was := v.s.feed.Find(e.Pod)
	if err := v.end(sending, e, p); err != nil {
		return v.failed(ctx, whole, e, p, err)
	}
	v.sent.Add(1)
	v.s.lostBy(e, &was, time.Now())
	v.s.reports.evicting(p, report.EvictionReason(e.Cause), e.said.Sentence(), &e.said)
	return false
}

// pointless says whether the one that the eviction is for needs it no more. Then it is called off.
func (v *evictor) pointless(e *eviction) bool {
	if e.For == "" || v.s.feed.Waits(e.For) {
		return false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.callOff(e)
	return true
}

// end deletes the pod; it has the time to end that it asked for. A move heeds disruption budgets.
func (v *evictor) end(ctx context.Context, e *eviction, p *corev1.Pod) error {
	pods := v.client.CoreV1().Pods(p.Namespace)
	how := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(e.UID)}
	if done, err := v.suspend(ctx, e.Pod); done {
		return err
	}
	if e.Cause != engine.Moved {
		return v.gate.again(ctx, p.Namespace, func(ctx context.Context) error { return pods.Delete(ctx, p.Name, how) })
	}
	var full error
	err := v.gate.again(ctx, p.Namespace, func(ctx context.Context) error {
		err := pods.EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}, DeleteOptions: &how})
		if apierrors.IsTooManyRequests(err) { // a budget says no: asking again at once is no use
			full = err
			return nil
		}
		return err
	})
	if full != nil {
		return full
	}
	return err
}

// failed decides what an answer other than success means: whether it is to be tried again in the time that the eviction
// as a whole has. A pod that is gone, replaced or on its way is what was wanted; anything else is a refusal.
func (v *evictor) failed(ctx, whole context.Context, e *eviction, p *corev1.Pod, err error) (again bool) {
	switch {
	case apierrors.IsNotFound(err):
		return false
	case ctx.Err() != nil:
		return false // this process ends: the next leader finds the condition and goes on
	case apierrors.IsConflict(err) && v.over(ctx, e, p):
		return false
	case passing(err) && !apierrors.IsTooManyRequests(err) && whole.Err() == nil:
		return true
	}
	if e.marked {
		v.takeBack(ctx, p)
	}
	v.refuse(e, err)
	return false
}

// over asks whether the pod is gone, replaced or on its way.
func (v *evictor) over(ctx context.Context, e *eviction, p *corev1.Pod) bool {
	var now *corev1.Pod
	err := v.gate.again(ctx, p.Namespace, func(ctx context.Context) (err error) {
		now, err = v.client.CoreV1().Pods(p.Namespace).Get(ctx, p.Name, metav1.GetOptions{})
		return err
	})
	return apierrors.IsNotFound(err) || err == nil && (string(now.UID) != e.UID || now.DeletionTimestamp != nil)
}

// refuse tells the engine that the pod could not be evicted. Where it was part of a move, the whole move is off.
func (v *evictor) refuse(e *eviction, err error) {
	v.refused.Add(1)
	v.s.log.Warn("not evicted", "pod", e.Pod, "for", e.For, "err", err)
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.open, e.Pod)
	no := e.Eviction
	no.Version, no.Refused, no.Until = 0, true, time.Now().Round(0).UTC().Add(evictAgain)
	if e.Surge {
		no.Surge, no.Until = false, no.Until.Add(surgeAgain-evictAgain)
	}
	v.s.inbox.Put(engine.Change{Eviction: &no})
	v.release(e)
	if e.Cause != engine.Moved {
		return
	}
	for _, key := range sortedNames(v.open) {
		if o := v.open[key]; o.Cause == engine.Moved && o.For == e.For && !o.sent {
			v.callOff(o)
		}
	}
	for _, node := range sortedNames(v.holds.held[e.For]) {
		v.drop(e.For, node)
	}
}
