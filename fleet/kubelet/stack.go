package kubelet

import "github.com/berth-dev/berth/fleet/device"

// stackMayHaveChanged tells the owner of the nodes if a GPU-stack pod came, went or changed its
// readiness. It is called without locks held.
func (w *worker) stackMayHaveChanged() {
	if !w.stack || w.k.stackChanged == nil {
		return
	}
	s, _ := device.StackPodOf(w.current())
	w.mu.Lock()
	now := stackState{present: !w.gone && !w.over, ready: s.Ready && !w.over}
	changed := now != w.stackTold
	w.stackTold = now
	w.mu.Unlock()
	if changed {
		w.k.stackChanged(w.host.name)
	}
}

// stackState is what others can see of a GPU-stack pod.
type stackState struct{ present, ready bool }
