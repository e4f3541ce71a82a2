package diagnose

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

// SchedulerAnswer is the scheduler's own word in a diagnosis.
type SchedulerAnswer struct {
	Name string `json:"name"`
	// Answers says that it was asked. Else Why says why not, and the diagnosis goes by a model with default configuration.
	Answers  bool        `json:"answers"`
	Why      string      `json:"why,omitempty"`
	Verdict  why.Verdict `json:"verdict,omitempty"` // of the first workload of the target that waits
	Cause    why.Cause   `json:"cause,omitempty"`
	Sentence string      `json:"sentence,omitempty"`
}

// WorkloadOf is the name under which the scheduler answers for the pod's workload: gang.first, podgroup.second, pod.third.
func (f *Facts) WorkloadOf(p *corev1.Pod) string {
	if _, gang, ok := strings.Cut(f.gangOf(p), "/"); ok {
		return strings.Replace(gang, "/", ".", 1)
	}
	return "pod." + p.Name
}

// served is what the scheduler says of the pod's workload, nil where it says nothing, or where it was of another state of
// the pod than this one.
func (f *Facts) served(p *corev1.Pod) *ServedWorkload {
	if f.Served == nil || f.Served.Unreached != "" || f.WasEdited(p) || stateOf(p) != Pending {
		return nil
	}
	w, ok := f.Served.Workloads[p.Namespace+"/"+f.WorkloadOf(p)]
	if !ok || w.Cause == "" {
		return nil
	}
	return &w
}

// gate is the gate of the cause that the scheduler found shut.
func (w *ServedWorkload) gate(cause why.Cause) (why.Gate, bool) {
	for _, g := range w.Gates {
		if g.Cause == cause {
			return g, true
		}
	}
	return why.Gate{}, false
}

// overrule puts the scheduler's word in place of the model's, where nothing was edited.
func (f *Fit) overrule(c *Case) {
	w := c.served(c.Pod)
	if w == nil || c.Hypothetical() || len(w.Gates) == 0 {
		return
	}
	f.Explanation, f.Starts = w.Explanation, nil
}

// asServed words the scheduler's own part in the diagnosis; nil where the target has no pod of its own that waits.
func (d *Diagnoser) asServed(j *judgement) *SchedulerAnswer {
	s := d.facts.Served
	if s == nil {
		return nil
	}
	out := &SchedulerAnswer{Name: s.Scheduler, Answers: s.Unreached == "", Why: s.Unreached}
	for _, c := range j.cases {
		if c.State != Pending || !c.Exists {
			continue
		}
		if w := c.served(c.Pod); w != nil {
			out.Verdict, out.Cause, out.Sentence = w.Verdict, w.Cause, w.Sentence
			return out
		}
	}
	if out.Answers {
		return nil
	}
	return out
}

// expects is when the scheduler itself expects the target to start; nil where it does not say.
func (j *judgement) expects() *ETA {
	for _, c := range j.cases {
		if w := c.served(c.Pod); w != nil && w.ETA != nil {
			return w.ETA
		}
	}
	return nil
}
