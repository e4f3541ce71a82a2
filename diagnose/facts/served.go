package facts

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
)

// Served is what Berth's live scheduler says of what waits, and how it is set up. Diagnosis starts from it; what it cannot
// know, such as why a node has no GPUs and what would help, is worked out on facts and a model of the same configuration.
type Served struct {
	Scheduler string         // its name
	Names     []string       // schedulerNames of the pods that it schedules
	Levels    []engine.Level // of its topology, widest first
	// Unreached is why it could not be asked; "": it was. Then nothing else is known, and the model has the defaults.
	Unreached string
	Workloads map[string]ServedWorkload // by namespace/kind.name, as WorkloadOf gives it
}

// ServedWorkload is what the scheduler says of one workload that waits.
type ServedWorkload struct {
	why.Explanation
	Sentence string
	ETA      *ETA
}

// WorkloadOf is the name under which the scheduler answers for the pod's workload: gang.first, podgroup.second, pod.third.
func (f *Facts) WorkloadOf(p *corev1.Pod) string {
	if _, gang, ok := strings.Cut(f.GangOf(p), "/"); ok {
		return strings.Replace(gang, "/", ".", 1)
	}
	return "pod." + p.Name
}

// ServedFor is what the scheduler says of the pod's workload, nil where it says nothing, or where it was of another state of
// the pod than this one.
func (f *Facts) ServedFor(p *corev1.Pod) *ServedWorkload {
	if f.Served == nil || f.Served.Unreached != "" || f.WasEdited(p) || StateOf(p) != Pending {
		return nil
	}
	w, ok := f.Served.Workloads[p.Namespace+"/"+f.WorkloadOf(p)]
	if !ok || w.Cause == "" {
		return nil
	}
	return &w
}

// Gate is the gate of the cause that the scheduler found shut.
func (w *ServedWorkload) Gate(cause why.Cause) (why.Gate, bool) {
	for _, g := range w.Gates {
		if g.Cause == cause {
			return g, true
		}
	}
	return why.Gate{}, false
}
