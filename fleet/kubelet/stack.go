package kubelet

import "github.com/berth-dev/berth/fleet/device"

// stackPod is what the pod does for the GPU stack of its node right now; false: nothing. It is ready
// only if the API server has been told so and its containers, which may just have been lost, are too.
func (w *worker) stackPod() (device.StackPod, bool) {
	if !w.stack {
		return device.StackPod{}, false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stackPodNow()
}

// stackPodNow is stackPod with w.mu held, for a pod of the GPU stack. What the API server was told in an earlier life of this
// process is not so until the containers are there again.
func (w *worker) stackPodNow() (device.StackPod, bool) {
	s, ok := device.StackPodOf(w.pod)
	s.Ready = s.Ready && len(w.containers) > 0
	for _, c := range w.containers {
		s.Ready = s.Ready && (c.kind != mainContainer || c.status.Ready)
	}
	return s, ok && !w.gone && !w.over
}

// tellStack tells the owner of the nodes if a GPU-stack pod came, went or changed its readiness. Whoever changes what
// stackPodNow reads calls it before w.mu is given up, so that no change goes untold.
func (w *worker) tellStack() {
	if !w.stack || w.k.stackChanged == nil {
		return
	}
	s, present := w.stackPodNow()
	now := stackState{present: present, ready: present && s.Ready}
	if now != w.stackTold {
		w.stackTold = now
		w.k.stackChanged(w.host.name)
	}
}

// stackState is what others can see of a GPU-stack pod.
type stackState struct{ present, ready bool }
