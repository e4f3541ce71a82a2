package diagnose

import (
	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/engine/why"
)

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

// overrule puts the scheduler's word in place of the model's, where nothing was edited.
func overrule(f *check.Fit, c *check.Case) {
	w := c.ServedFor(c.Pod)
	if w == nil || c.Hypothetical() || len(w.Gates) == 0 {
		return
	}
	workload := f.Workload // which an answer leaves out: the caller knows it
	f.Explanation, f.Starts = w.Explanation, nil
	f.Workload = workload
}

// asServed words the scheduler's own part in the diagnosis; nil where the target has no pod of its own that waits.
func (d *Diagnoser) asServed(j *judgement) *SchedulerAnswer {
	s := d.facts.Served
	if s == nil {
		return nil
	}
	out := &SchedulerAnswer{Name: s.Scheduler, Answers: s.Unreached == "", Why: s.Unreached}
	for _, c := range j.cases {
		if c.State != facts.Pending || !c.Exists {
			continue
		}
		if w := c.ServedFor(c.Pod); w != nil {
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
func (j *judgement) expects() *facts.ETA {
	for _, c := range j.cases {
		if w := c.ServedFor(c.Pod); w != nil && w.ETA != nil {
			return w.ETA
		}
	}
	return nil
}
