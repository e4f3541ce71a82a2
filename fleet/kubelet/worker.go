package kubelet

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/fleet/shell"
	"github.com/berth-dev/berth/fleet/workload"
)

// syncRetry is how long a pod waits after something it needs could not be had.
const syncRetry = 10 * time.Second

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
	done  chan struct{} // closed when run is over

	// Owned by run.
	admitted    bool
	initialized bool
	rebooted    bool          // the machine came back, or this process did: containers were lost
	mounts      mounts        // nil: not mounted yet
	mountWait   time.Duration // since the last try to mount; 0: none failed
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
	gpus       string // the annotation to record; "": none
	sandbox    bool   // the pod's volumes and network are there
	over       bool   // all has stopped and nothing starts again
	failed     bool   // over, and failed whatever the exit codes say
	reason     string // of the pod's status, with message
	message    string
	killer     *time.Timer // fires when the grace period is over; nil: nothing is being stopped
	stackTold  stackState  // as the owner of the nodes was told
}

func newWorker(k *Kubelet, h *host, pod *corev1.Pod, stack bool) *worker {
	return &worker{
		k: k, host: h, uid: pod.UID, stack: stack, seen: time.Now(), pod: pod,
		wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
}

// run lives the pod until it is over, gone, or ctx ends.
func (w *worker) run(ctx context.Context) {
	defer close(w.done)
	for ctx.Err() == nil && !w.isGone() {
		var next time.Time
		if m := w.host.powered(); m == nil {
			w.losePower()
		} else if over, at := w.step(ctx, m); over {
			break
		} else {
			next = at
		}
		w.pause(ctx, next)
	}
	w.killAll()
	if ctx.Err() == nil {
		w.host.release(w.uid)
		w.host.detach(w)
		w.change(func() { w.over = true })
		w.stackMayHaveChanged()
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

// admit takes the pod in, or notes why not. An error means that it cannot be decided now.
func (w *worker) admit(m *Machine) error {
	pod := w.current()
	err := w.host.admit(m, w)
	refused, isRefused := errors.AsType[*rejection](err)
	if err != nil && !isRefused {
		return err
	}
	spec, specErr := workload.ParseSpec(pod.Annotations)
	if specErr != nil {
		w.event(corev1.EventTypeWarning, "InvalidAnnotation", "%v", specErr)
	}
	w.admitted, w.spec = true, spec
	if isRefused {
		w.event(corev1.EventTypeWarning, refused.reason, "%s", refused.message)
		w.change(func() { w.rejected = refused })
		return nil
	}
	w.begin(m, pod)
	return nil
}

// begin sets up what the pod's status starts from.
func (w *worker) begin(m *Machine, pod *corev1.Pod) {
	now := metav1.Now()
	gpus, ip := "", m.IP
	if wantsGPUs(pod) {
		gpus = recordGPUs(m.Devices, pod)
	}
	if node := m.Node(); node != nil && !pod.Spec.HostNetwork {
		ip = w.host.address(w.uid, pod.Status.PodIP, node.Spec.PodCIDR)
	}
	w.change(func() {
		w.hostIP, w.podIP, w.gpus, w.started = m.IP, ip, gpus, now
		if pod.Status.StartTime != nil {
			w.started = *pod.Status.StartTime
		}
		w.containers = containersOf(w, pod, now)
	})
	w.rebooted = true
}

func containersOf(w *worker, pod *corev1.Pod, now metav1.Time) []*container {
	fresh := "ContainerCreating"
	if len(pod.Spec.InitContainers) > 0 {
		fresh = "PodInitializing"
	}
	all := make([]*container, 0, len(pod.Spec.InitContainers)+len(pod.Spec.Containers))
	for i := range pod.Spec.InitContainers {
		spec, k := &pod.Spec.InitContainers[i], initContainer
		if isSidecar(spec) {
			k = sidecar
		}
		all = append(all, newContainer(w, k, spec, pod.Status.InitContainerStatuses, fresh, now))
	}
	for i := range pod.Spec.Containers {
		all = append(all, newContainer(w, mainContainer, &pod.Spec.Containers[i], pod.Status.ContainerStatuses, fresh, now))
	}
	return all
}

// comeBack gives the pod a new sandbox. The init containers run again if any main container will and
// the API server lets them: only where the restart policy is Always may a container that ended well
// run again.
func (w *worker) comeBack() {
	pod := w.current()
	w.rebooted, w.initialized, w.mounts, w.net = false, false, nil, shell.NewNet()
	again, ran := false, false
	for _, c := range w.containers {
		exit := lastExit(&c.status)
		ran = ran || exit != nil
		if c.kind == mainContainer && (exit == nil || c.status.State.Waiting != nil || shouldRestart(pod, c, exit.ExitCode)) {
			again = true
		}
	}
	for _, c := range w.containers {
		c.again = again && c.kind == initContainer && c.status.State.Terminated != nil && pod.Spec.RestartPolicy == corev1.RestartPolicyAlways
	}
	if again && ran {
		w.event(corev1.EventTypeNormal, "SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")
	}
}

// sync starts whatever should run and does not. It returns when to look again; zero: on news.
func (w *worker) sync(ctx context.Context, m *Machine) (next time.Time) {
	w.meetSpec()
	if retry := w.mount(ctx); !retry.IsZero() {
		return retry
	}
	if !w.initialized {
		ready, next := w.initialize(ctx, m)
		if !ready {
			return next
		}
		w.initialized = true
	}
	for _, c := range w.containers {
		if c.kind != initContainer {
			next = earlier(next, c.advance(ctx, m))
		}
	}
	return next
}

// initialize brings the init containers on their way one after the other; ready: all are through.
func (w *worker) initialize(ctx context.Context, m *Machine) (ready bool, next time.Time) {
	for _, c := range w.containers {
		if c.kind == debugContainer || c.kind == mainContainer {
			continue
		}
		next = earlier(next, c.advance(ctx, m))
		w.mu.Lock()
		through := c.kind == sidecar && isTrue(c.status.Started) ||
			c.kind == initContainer && !c.again && c.status.State.Terminated != nil && c.status.State.Terminated.ExitCode == 0
		w.mu.Unlock()
		if !through {
			return false, next
		}
	}
	return true, next
}

// meetSpec follows what may change in a pod's spec: images, and new ephemeral containers.
func (w *worker) meetSpec() {
	pod := w.current()
	for i := range pod.Spec.EphemeralContainers {
		spec := (*corev1.Container)(&pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
		if w.find(spec.Name) == nil {
			c := newContainer(w, debugContainer, spec, pod.Status.EphemeralContainerStatuses, "ContainerCreating", metav1.Now())
			w.change(func() { w.containers = append(w.containers, c) })
		}
	}
	for _, c := range w.containers {
		spec := specOf(pod, c.name)
		if c.kind == debugContainer || spec == nil || spec.Image == c.spec.Image {
			continue
		}
		c.spec, c.retry, c.pulls = spec, time.Time{}, backoff{}
		if p := c.process(); p != nil {
			go c.restart(p, "Container "+spec.Name+" definition changed, will be restarted")
		}
	}
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

// poke wakes run.
func (w *worker) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// change makes a change that the status has to tell.
func (w *worker) change(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
	w.news++
}

// current is the pod as last seen. It must not be changed.
func (w *worker) current() *corev1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pod
}

// learn takes in a newer version of the pod, which becomes the worker's own, and wakes run if it matters.
func (w *worker) learn(pod *corev1.Pod) {
	pod.ManagedFields = nil // never read, and half of the object
	w.mu.Lock()
	defer w.mu.Unlock()
	old := w.pod
	if older(pod.ResourceVersion, old.ResourceVersion) {
		return
	}
	w.pod = pod
	if len(pod.Spec.ReadinessGates) > 0 && gatesChanged(old, pod) {
		w.news++
		w.poke()
	}
	if pod.DeletionTimestamp != nil && w.killer != nil {
		w.killer.Reset(max(0, time.Until(pod.DeletionTimestamp.Time)))
	}
	if (pod.DeletionTimestamp == nil) != (old.DeletionTimestamp == nil) || pod.Generation != old.Generation || terminal(pod) != terminal(old) {
		w.poke()
	}
}

// older compares resource versions, which are numbers; what is not counts as new.
func older(a, b string) bool {
	x, errX := strconv.ParseUint(a, 10, 64)
	y, errY := strconv.ParseUint(b, 10, 64)
	return errX == nil && errY == nil && x < y
}

func gatesChanged(a, b *corev1.Pod) bool {
	for _, gate := range b.Spec.ReadinessGates {
		was, is := findCondition(a.Status.Conditions, gate.ConditionType), findCondition(b.Status.Conditions, gate.ConditionType)
		if (was == nil) != (is == nil) || is != nil && was.Status != is.Status {
			return true
		}
	}
	return false
}

// vanish notes that the object is gone: everything stops at once and nothing more is written.
func (w *worker) vanish() {
	w.mu.Lock()
	w.gone = true
	w.mu.Unlock()
	w.hurry()
	w.poke()
}

// hurry ends the grace period of whatever is being stopped.
func (w *worker) hurry() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.killer != nil {
		w.killer.Reset(0)
	}
}

func (w *worker) isGone() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gone
}

// wasTold says whether all that is known has been written.
func (w *worker) wasTold() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gone || w.news == w.told
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
