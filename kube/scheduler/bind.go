package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/cluster"
	"github.com/berth-dev/berth/kube/convert"
	"github.com/berth-dev/berth/kube/report"
)

// binder sends bindings, many at a time, and apart by namespace. What becomes of one comes back as a change: a pod that has a node by
// the watch, one that the node or the server would not have as a refusal. Where it is not known what became of
// it, the assumption stays until the watch tells or its time is up: room is never given away on a guess.
type binder struct {
	s      *scheduler
	client kubernetes.Interface
	queue  *lines[intent]
	gate   *gate
	sent   atomic.Int64
	hung   hung
	over   context.Context // ends when the binder has

	prepares *preparer
}

// intent is one binding to send; without a pod it is a Job to let in.
type intent struct {
	engine.Placement
	start *start
	waits *time.Duration // before it is sent again
}

// start is what the bindings of one gang share.
type start struct {
	*engine.Start
	planned time.Time
	check   sync.Once
	stale   bool        // the world moved since it was planned
	begun   atomic.Bool // a member was sent
}

// borrows says, once for a gang, what it takes that is not its queue's own.
func (i *intent) borrows() string {
	if len(i.start.Borrowed) == 0 || i.Pod != i.start.Placements[0].Pod {
		return ""
	}
	words := make([]string, len(i.start.Borrowed))
	for n, a := range i.start.Borrowed {
		words[n] = report.Amount(a)
	}
	return "; " + i.start.Gang + " borrows " + strings.Join(words, ", ") + " beyond its queue's quota, and gives it back when others claim it"
}

// alternatives says what of the lists of alternatives in its claims the pod has got.
func (b *binder) alternatives(i intent) string {
	taken := b.s.feed.TakenAlternatives(i.Pod)
	if len(taken) == 0 {
		return ""
	}
	return "; " + strings.Join(taken, ", ")
}

func newBinder(s *scheduler) *binder {
	b := &binder{s: s, client: s.opts.binding, queue: newLines[intent](binders), gate: newGate(binders), prepares: newPreparer(s), over: context.Background()}
	if b.client == nil {
		b.client = s.client
	}
	return b
}

// add takes on the members of a gang. Their claims are seen to first.
func (b *binder) add(plan *engine.Start, now time.Time) {
	s := &start{Start: plan, planned: now}
	switch {
	case letsIn(plan):
		b.queue.put(namespaceOf(plan.Gang), plan.Gang, intent{start: s})
	case !b.prepares.add(s):
		b.send(s)
	}
}

// joined has the starts of each gang as one: what begins and grows in one plan begins whole.
func joined(starts []engine.Start) []*engine.Start {
	out, first := make([]*engine.Start, 0, len(starts)), make(map[string]int, len(starts))
	for i := range starts {
		next := &starts[i]
		n, again := first[next.Gang]
		if !again {
			first[next.Gang] = len(out)
			out = append(out, next)
			continue
		}
		whole := *out[n] // the plan is not written to
		whole.Placements = slices.Concat(whole.Placements, next.Placements)
		whole.Borrowed = whole.Borrowed.Plus(next.Borrowed)
		out[n] = &whole
	}
	return out
}

// send binds the members of a gang, in order.
func (b *binder) send(s *start) {
	for _, p := range s.Placements {
		i := intent{p, s, new(firstWait)}
		if _, err := b.gate.trouble(namespaceOf(p.Pod)); err != nil {
			b.behindWebhook(i, err)
		}
		b.queue.put(namespaceOf(p.Pod), "", i)
	}
}

// behind says whether bindings come faster than they can be sent. Those of namespaces whose requests fail do not count.
func (b *binder) behind() bool { return b.gate.pressing() > binders/2 }

func (b *binder) run(ctx context.Context) {
	sending, end := outlive(ctx)
	defer end()
	b.over = ctx
	var preparing sync.WaitGroup
	preparing.Go(func() { b.prepares.run(ctx) })
	send := func(i intent) (again bool) {
		if i.Pod == "" {
			b.letIn(sending, i.start)
			return false
		}
		return b.bind(sending, i)
	}
	b.queue.run(ctx, send)
	// Rather no half gangs at the end: the rest of what has begun is sent too.
	b.queue.finish(func(i intent) bool { return i.start.begun.Load() }, send)
	preparing.Wait()
}

// bind sends one binding, unless the world moved since it was planned. It says whether it is to be sent again.
func (b *binder) bind(ctx context.Context, i intent) (again bool) {
	// A binding that could still be on its way when its assumption ends is not sent: the engine may by then
	// have given the pod another place.
	if p := b.s.feed.Pod(i.Pod); p != nil && string(p.UID) == i.UID && p.Spec.NodeName == i.Node && *i.waits > firstWait {
		b.bound(i) // an earlier try went through, and its answer was lost
		return false
	}
	late := time.Since(i.start.planned) > b.s.opts.Engine.AssumeFor/2
	if late || b.moved(i.start) || !b.s.feed.Stands(i.Placement) {
		b.giveUp(i)
		return false
	}
	end := i.start.planned.Add(b.s.opts.Engine.AssumeFor * 3 / 4)
	ctx, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	i.start.begun.Store(true)
	binding := bindingOf(ctx, i.Placement)
	pods := b.client.CoreV1().Pods(binding.Namespace)
	// A pod that has a node has its terms written down.
	sign, err := b.s.writeTerms(ctx, b.client, b.gate.once, binding.Namespace, binding.Name, binding.UID)
	if err != nil && (errors.Is(err, errUndecided) || !passing(err)) {
		b.unwritten(i, err)
		return false
	}
	if sign != nil {
		sign(binding)
	}
	if err == nil {
		err = b.ungate(ctx, i, binding)
	}
	if err == nil {
		err = b.bindLocked(ctx, i, binding, func() error {
			return b.gate.once(ctx, binding.Namespace, func(ctx context.Context) error { return pods.Bind(ctx, binding, metav1.CreateOptions{}) })
		})
	}
	switch {
	case err == nil:
		b.bound(i)
	case errors.Is(err, errNodeLocked) && ctx.Err() == nil:
		return sleep(ctx, i.longer())
	case passing(err) && ctx.Err() == nil:
		b.blocked(ctx, i, err)
		return b.pause(ctx, i, err)
	case passing(err), apierrors.IsNotFound(err):
		b.s.log.Info("not bound", "pod", i.Pod, "node", i.Node, "err", clip(err.Error(), maxNote))
	case apierrors.IsConflict(err):
		b.lookAgain(ctx, i, err)
	default:
		b.refuse(i, err)
	}
	return false
}

// bindLocked sends the binding, on a node with HAMi's plugin with the node locked for the pod.
func (b *binder) bindLocked(ctx context.Context, i intent, binding *corev1.Binding, send func() error) error {
	unlock, err := b.lockFor(ctx, i, binding)
	if err != nil {
		return err
	}
	err = send()
	// What may have come through after all stays locked: the plugin takes the lock away, or it ends by itself. A conflict may be with an
	// earlier try, whose answer was lost.
	if err != nil && unlock != nil && !lost(err) && !unanswered(err) && !apierrors.IsConflict(err) {
		unlock()
	}
	return err
}

// longer is how long to wait before the binding is sent again: twice as long after each time.
func (i *intent) longer() time.Duration {
	own := *i.waits
	*i.waits = min(2*own, lastWait)
	return own
}

// pause waits before a binding that failed is tried again, longer after each time, if its namespace as a whole does not wait
// as long by itself. It says whether there is time left.
func (b *binder) pause(ctx context.Context, i intent, err error) bool {
	own := i.longer()
	if all, _ := b.gate.trouble(namespaceOf(i.Pod)); own <= all || all > 0 && lost(err) {
		return true
	}
	return sleep(ctx, own)
}

// bound says that the pod has its node.
func (b *binder) bound(i intent) {
	b.sent.Add(1)
	if b.s.opts.metrics != nil && b.s.echoes.taken(types.UID(i.UID), time.Now(), func() bool {
		p := b.s.feed.Pod(i.Pod)
		return p == nil || string(p.UID) != i.UID || p.Spec.NodeName != ""
	}) {
		b.s.opts.metrics.Seen(0)
	}
	b.s.reports.scheduled(&convert.BindingOf(i.Placement).ObjectMeta, i.Node, i.borrows()+b.alternatives(i))
}

// bindingOf is the request that carries out the placement, with what the API server's policy asks of a leader.
func bindingOf(ctx context.Context, p engine.Placement) *corev1.Binding {
	b := convert.BindingOf(p)
	if mark := leadershipOf(ctx).mark(); mark != "" {
		metav1.SetMetaDataAnnotation(&b.ObjectMeta, v1alpha1.KeyLease, mark)
	}
	return b
}

// unwritten gives up a pod whose terms could not be written: nothing was sent that could bind it.
func (b *binder) unwritten(i intent, err error) {
	if errors.Is(err, errUndecided) {
		time.AfterFunc(time.Second, func() { b.giveUp(i) }) // by then the engine knows why
		return
	}
	if !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		b.refuse(i, fmt.Errorf("its terms were not taken: %w", err))
		return
	}
	b.s.log.Info("not bound", "pod", i.Pod, "node", i.Node, "err", err) // it is gone, which the watch will tell
}

// moved says, once for all members, whether a gang that is to begin would no longer begin whole: then none of
// it is bound, and the engine plans it again. Members that come to a gang which runs go one by one; if none of it runs any
// more, it has to begin anew, and whole.
func (b *binder) moved(s *start) bool {
	s.check.Do(func() {
		if s.Kind != engine.Begin {
			s.stale = !b.s.feed.Runs(s.Gang)
			return
		}
		for _, p := range s.Placements {
			s.stale = s.stale || !b.s.feed.Stands(p)
		}
	})
	return s.stale
}

// lookAgain asks for the pod that could not be bound and takes in what it is now, ahead of the watch.
func (b *binder) lookAgain(ctx context.Context, i intent, conflict error) {
	binding := convert.BindingOf(i.Placement)
	var now *corev1.Pod
	err := b.gate.again(ctx, binding.Namespace, func(ctx context.Context) (err error) {
		now, err = b.s.client.CoreV1().Pods(binding.Namespace).Get(ctx, binding.Name, metav1.GetOptions{})
		return err
	})
	if err != nil || now.UID != binding.UID { // the watch will tell
		b.s.log.Info("not bound", "pod", i.Pod, "node", i.Node, "err", conflict)
		return
	}
	cluster.Trim(now)
	b.s.feed.RenewPod(now)
	switch {
	case now.Spec.NodeName == i.Node:
		b.bound(i) // the first try went through, and its answer was lost
	case b.s.feed.Stands(i.Placement):
		b.refuse(i, conflict)
	default:
		b.s.log.Info("not bound", "pod", i.Pod, "node", i.Node, "err", conflict)
		b.giveUp(i)
	}
}

// giveUp ends the assumption: the engine is free to place the pod again.
func (b *binder) giveUp(i intent) { b.s.feed.GiveUp(i.Placement) }

// refuse keeps the workload from the node. Where many nodes refused it the fault is not the nodes', and the next
// is not tried at once.
func (b *binder) refuse(i intent, err error) {
	text := clip(err.Error(), maxNote)
	b.s.log.Warn("bind", "pod", i.Pod, "node", i.Node, "err", text)
	b.s.reports.refused(b.s.feed.Pod(i.Pod), i.Node, err)
	if b.s.feed.Refuse(i.Pod, i.Node, text) < patience {
		b.giveUp(i)
		return
	}
	time.AfterFunc(cluster.RefuseFor, func() { b.giveUp(i) })
}
