package scheduler

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/convert"
)

// binder sends bindings, many at a time. What becomes of one comes back as a change: a pod that was bound by
// the watch, one that was not as the end of its assumption, and, if the node or the server would not have it,
// as a refusal.
type binder struct {
	s     *scheduler
	queue *queue[intent]
	sent  atomic.Int64
}

// intent is one binding to send.
type intent struct {
	engine.Placement
	workload string
	planned  time.Time
}

func newBinder(s *scheduler) *binder { return &binder{s: s, queue: newQueue[intent]()} }

// add takes on the members of a gang, in order.
func (b *binder) add(start *engine.Start, now time.Time) {
	for _, p := range start.Placements {
		b.queue.put(intent{p, start.Gang, now})
	}
}

func (b *binder) run(ctx context.Context) {
	var workers sync.WaitGroup
	for range binders {
		workers.Go(func() {
			for {
				i, ok := b.queue.get(ctx)
				if !ok {
					return
				}
				b.bind(ctx, i)
			}
		})
	}
	workers.Wait()
}

// bind sends one binding, unless the world moved since it was planned.
func (b *binder) bind(ctx context.Context, i intent) {
	pod := b.s.feed.pod(i.workload, i.Pod)
	stale := pod == nil || string(pod.UID) != i.UID || pod.DeletionTimestamp != nil || pod.Spec.NodeName != ""
	// An assumption that may run out while the request is on its way is given up before: the engine must not
	// give the pod another place meanwhile.
	if stale || time.Since(i.planned) > b.s.opts.Engine.AssumeFor/2 {
		b.giveUp(i)
		return
	}
	deadline, cancel := context.WithDeadline(ctx, i.planned.Add(b.s.opts.Engine.AssumeFor*3/4))
	defer cancel()
	err := b.post(deadline, pod, i)
	switch {
	case err == nil:
		b.sent.Add(1)
		b.s.says.scheduled(pod, i.Node)
	case ctx.Err() != nil:
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		b.s.log.Info("not bound", "pod", i.Pod, "node", i.Node, "err", err)
		b.giveUp(i)
	default:
		b.s.log.Warn("bind", "pod", i.Pod, "node", i.Node, "err", err)
		b.refuse(i, err)
	}
}

// post sends the binding, again where the server was only busy.
func (b *binder) post(ctx context.Context, pod *corev1.Pod, i intent) error {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		err := b.s.client.CoreV1().Pods(pod.Namespace).Bind(ctx, convert.BindingOf(i.Placement), metav1.CreateOptions{})
		if err == nil || !passing(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait):
		}
	}
}

// passing says whether the same request may well succeed a little later.
func passing(err error) bool {
	if status := apierrors.APIStatus(nil); !asStatus(err, &status) {
		return true // it did not reach the server, or the answer did not reach us
	} else if code := status.Status().Code; code == http.StatusTooManyRequests || code >= http.StatusInternalServerError {
		return true
	}
	return false
}

// giveUp ends the assumption: the engine is free to place the pod again.
func (b *binder) giveUp(i intent) {
	b.s.inbox.put(engine.Change{Gone: &engine.Ref{Kind: engine.KindAssumption, Key: i.Pod}})
}

func (b *binder) refuse(i intent, err error) {
	b.s.inbox.put(
		engine.Change{Refusal: &engine.Refusal{Pod: i.Pod, UID: i.UID, Node: i.Node, Reason: err.Error(), Until: time.Now().Add(refuseFor)}},
		engine.Change{Gone: &engine.Ref{Kind: engine.KindAssumption, Key: i.Pod}})
}
