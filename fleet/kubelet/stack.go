package kubelet

import "github.com/berth-dev/berth/fleet/device"

// stackPod is what the pod does for the GPU stack of its node right now; false: nothing. It is ready
// only if the API server has been told so and its containers, which may just have been lost, are too.
func (w *worker) stackPod() (device.StackPod, bool) {
	if !w.stack {
		return device.StackPod{}, false
	}
	s, ok := device.StackPodOf(w.current())
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.containers {
		s.Ready = s.Ready && (c.kind != mainContainer || c.status.Ready)
	}
	return s, ok && !w.gone && !w.over
}

// stackMayHaveChanged tells the owner of the nodes if a GPU-stack pod came, went or changed its
// readiness. It is called without locks held.
func (w *worker) stackMayHaveChanged() {
	if !w.stack || w.k.stackChanged == nil {
		return
	}
	s, present := w.stackPod()
	now := stackState{present: present, ready: present && s.Ready}
	w.mu.Lock()
	changed := now != w.stackTold
	w.stackTold = now
	w.mu.Unlock()
	if changed {
		w.k.stackChanged(w.host.name)
	}
}

// stackState is what others can see of a GPU-stack pod.
type stackState struct{ present, ready bool }
