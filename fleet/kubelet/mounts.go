package kubelet

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/fleet/shell"
)

// mounts are a pod's volumes by name, once all of them are there.
type mounts map[string]*shell.Volume

// The kubelet's back-off between tries to mount, on the wall clock: what a volume or a claim waits for
// comes from the API, not from the simulated world.
const mountFirst, mountLast = 500 * time.Millisecond, 2*time.Minute + 2*time.Second

// mount makes what the pod's sandbox needs: its volumes, then the devices of its claims. It returns when
// to try again if something cannot be had; zero: all is there.
func (w *worker) mount(ctx context.Context, m *Machine) (retry time.Time) {
	if w.mounts != nil {
		return time.Time{}
	}
	pod := withLimits(w.withAddresses(w.current()), m.Allocatable)
	made := make(mounts, len(pod.Spec.Volumes))
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		volume, err := w.k.sources.volume(ctx, pod, v)
		if _, unreachable := errors.AsType[attachError](err); unreachable {
			return w.stuck("FailedAttachVolume", err.Error())
		}
		if err != nil {
			return w.stuck("FailedMount", err.Error())
		}
		made[v.Name] = volume
	}
	if class := pod.Spec.RuntimeClassName; class != nil && m.faults().NoHandlers {
		return w.stuck("FailedCreatePodSandBox", fmt.Sprintf("Failed to create pod sandbox: rpc error: code = Unknown desc = failed to get sandbox runtime: no runtime for %q is configured", *class))
	}
	if m.faults().PrepareFails && len(pod.Spec.ResourceClaims) > 0 {
		return w.stuck("FailedPrepareDynamicResources", "Failed to prepare dynamic resources: prepare dynamic resources: NodePrepareResources: rpc error: code = DeadlineExceeded desc = context deadline exceeded")
	}
	if err := w.prepareClaims(ctx, m, pod); err != nil {
		if w.patient(err) {
			return time.Now().Add(domainRetry)
		}
		return w.stuck("FailedPrepareDynamicResources", "Failed to prepare dynamic resources: "+err.Error())
	}
	w.mounts, w.mountWait = made, 0
	w.change(func() { w.sandbox = true })
	return time.Time{}
}

// stuck says why the pod cannot have its sandbox, and returns when to try again.
func (w *worker) stuck(reason, message string) time.Time {
	w.event(corev1.EventTypeWarning, reason, "%s", message)
	w.mountWait = min(max(mountFirst, 2*w.mountWait), mountLast)
	w.change(func() {}) // the pod has to show that it does not get on
	return time.Now().Add(w.mountWait)
}

// withAddresses is the pod with its addresses in its status, for the downward API.
func (w *worker) withAddresses(pod *corev1.Pod) *corev1.Pod {
	if pod.Status.PodIP == w.podIP && pod.Status.HostIP == w.hostIP {
		return pod
	}
	p := *pod
	p.Status.PodIP, p.Status.HostIP = w.podIP, w.hostIP
	return &p
}
