package kubelet

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/fleet/gpu"
	"github.com/berth-dev/berth/fleet/shell"
	"github.com/berth-dev/berth/fleet/workload"
)

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
	w.tellHAMi(m, pod, isRefused)
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
		gpus = recordGPUs(pod, func(container string) []gpu.Device { return m.Devices.Held(pod.UID, container) })
	}
	if node := m.Node(); node != nil && !pod.Spec.HostNetwork {
		ip = w.host.address(w.uid, pod.Status.PodIP, node.Spec.PodCIDR)
		w.k.network.join(w, ip)
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
	w.discard()
	w.rebooted, w.initialized, w.mounts, w.net = false, false, nil, shell.NewNet()
	again, ran := false, false
	for _, c := range w.containers {
		exit := lastExit(&c.status)
		ran = ran || exit != nil
		if c.kind == mainContainer && (exit == nil || c.status.State.Waiting != nil || shouldRestart(pod, c, exit)) {
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
