package kubelet

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/fleet/shell"
	"github.com/berth-dev/berth/fleet/workload"
)

// worker lives one pod. One goroutine (run) decides everything; it wakes on news about the pod, its
// containers or its machine, does what is to be done now, writes the status and sleeps again.
//
//	machine up -> admitted -> volumes -> init containers -> containers -> terminated -> written -> (deleted)
//
// A machine that goes down throws it back to the first step with its containers lost.
type worker struct {
	k     *Kubelet
	host  *host
	uid   types.UID
	stack bool          // a pod of the GPU stack
	seen  time.Time     // when this process first saw the pod
	wake  chan struct{} // holds one

	// Owned by run.
	admitted    bool
	initialized bool
	rebooted    bool              // the machine came back, or this process did: containers were lost
	mounts      mounts            // nil: not mounted yet
	mountWait   time.Duration     // since the last try to mount; 0: none failed
	domainSince time.Time         // when its claims were first to be prepared for a compute domain; zero: they are, or were given up
	claimed     claimed           // devices by way of ResourceClaims, once they are prepared
	claimLimits map[string]limits // by container: how much of those that are shared
	spec        workload.Spec
	net         *shell.Net

	mu         sync.Mutex
	pod        *corev1.Pod // as last seen; read-only
	gone       bool        // the object does not exist any more
	news, told int         // changes made, changes written
	rejected   *rejection
	containers []*container // init containers, main containers, ephemeral containers
	started    metav1.Time
	hostIP     string
	podIP      string
	gpus       string            // the annotation to record; "": none
	written    map[string]string // annotations that HAMi's plugin writes; nil: none
	sandbox    bool              // the pod's volumes and network are there
	over       bool              // all has stopped and nothing starts again
	ended      bool              // run is over
	failed     bool              // over, and failed whatever the exit codes say
	reason     string            // of the pod's status, with message
	message    string
	evicted    string      // why the kubelet ends the pod, in its words; "": it does not
	killer     *time.Timer // fires when the grace period is over; nil: nothing is being stopped
	stackTold  stackState  // as the owner of the nodes was told
}

func newWorker(k *Kubelet, h *host, pod *corev1.Pod, stack bool) *worker {
	return &worker{
		k: k, host: h, uid: pod.UID, stack: stack, seen: time.Now(), pod: pod,
		wake: make(chan struct{}, 1),
	}
}

// run lives the pod until it is over, gone, or ctx ends.
func (w *worker) run(ctx context.Context) {
	for ctx.Err() == nil && !w.isGone() {
		var next time.Time
		if m := w.host.powered(); m == nil {
			w.losePower()
		} else if m.faults().Partitioned {
			// its containers run on; nobody tells it anything, and it tells nobody
		} else if over, at := w.step(ctx, m); over {
			break
		} else {
			next = at
		}
		w.pause(ctx, next)
	}
	w.killAll()
	w.discard()
	if ctx.Err() == nil {
		w.release(w.current())
		w.host.detach(w)
		w.change(func() { w.over = true })
		w.mu.Lock()
		w.ended = true
		w.mu.Unlock()
		w.finish(ctx)
	}
}

// step does all that can be done now. It says whether the pod's life is over, and when to look again.
func (w *worker) step(ctx context.Context, m *Machine) (over bool, next time.Time) {
	if !w.admitted {
		if err := w.admit(m); err != nil {
			return false, time.Now().Add(syncRetry)
		}
	}
	if w.rebooted {
		w.comeBack()
	}
	if w.rejected != nil {
		w.report(ctx)
		return w.wasTold(), time.Now().Add(syncRetry)
	}
	if e := w.ending(time.Now()); e != nil {
		return w.terminate(ctx, e), time.Time{}
	}
	next = w.sync(ctx, m)
	if e := w.ending(time.Now()); e != nil {
		return w.terminate(ctx, e), time.Time{}
	}
	next = earlier(next, w.report(ctx))
	return false, earlier(next, w.deadline())
}

// pause waits for news, for the given time (zero: none), or for the end.
func (w *worker) pause(ctx context.Context, until time.Time) {
	var timeout <-chan time.Time
	if !until.IsZero() {
		t := time.NewTimer(time.Until(until))
		defer t.Stop()
		timeout = t.C
	}
	select {
	case <-w.wake:
	case <-timeout:
	case <-ctx.Done():
	}
}

func (w *worker) find(name string) *container {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.containers {
		if c.name == name {
			return c
		}
	}
	return nil
}

func (w *worker) event(kind, reason, format string, args ...any) {
	w.k.events.on(w.current(), "", kind, reason, format, args...)
}

// earlier is the earlier of two times of which zero means never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
