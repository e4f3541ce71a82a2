package check

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/engine/why"
)

// Stage is how far a pod has come. Of blockers that bind, those of the earliest stage come first: nothing later
// matters before they are gone.
type Stage int

const (
	Create Stage = iota // the pod does not exist
	Admit               // it is not to be scheduled yet, or no scheduler looks at it: gates, suspension, queues, schedulers
	Place               // no node has it: filters, nodes, pools, reservations
	Start               // it has a node and does not run
	Run                 // it runs, or ran
)

// Check finds one cause. Meaning, Remedy and Not are for people: docs/reasons.md is made of them.
type Check struct {
	Cause   why.Cause
	Layer   Layer
	Owner   Owner
	Stage   Stage
	Title   string // a few words
	Meaning string // one or two sentences
	Remedy  string // what usually helps, in a sentence
	Not     string // the tempting wrong answer; "": none in particular
	// Rank orders checks of one stage whose findings bind alike: the lower is the more specific.
	Rank int
	// Find returns what it found for the pod of the case, or nothing. It is also called on edited facts, so it goes by
	// the state of objects, and by events only where no object shows the state.
	Find func(*Case) []Finding
}

// Finding is one thing that stands in the pod's way, or did.
type Finding struct {
	Message  string // what is wrong, with names and numbers; no capital, no full stop
	Evidence []facts.Evidence
	Layer    Layer // "": the check's
	Owner    Owner // "": the check's
	Stage    Stage // 0: the check's
	// Edits are alternatives: each, alone, takes this blocker away. The first one stands for it when the engine is
	// asked whether it binds.
	Edits []edit.Edit
	// Probe stands for it instead, where what takes it away is nothing to advise.
	Probe *edit.Edit
	// Fit says that the finding is about places: it binds only as far as the engine says so. Others bind by themselves.
	Fit bool
	// Healthy says that it is a normal part of starting and no action is needed.
	Healthy bool
	// Last says that it binds only where no other finding does: it may be a consequence of another.
	Last bool
	// Told says that it is the word of another project's scheduler, whose rules are not modelled here: no trial can say whether an edit
	// takes it away.
	Told bool
	// Blind says that what would tell the cause may not be read, and that the finding is all that can be said without it.
	Blind bool
	// Stays says whether pods of another spec would meet the same: going back to an earlier version is no fix then. Nil: a trial
	// tells.
	Stays func(*corev1.PodSpec) bool
	// Until is when it ends by itself, where that is known, and Because of what.
	Until   time.Time
	Because string
	// Advice replaces the check's Remedy where the finding knows better.
	Advice string

	Check *Check
	Pod   *corev1.Pod // it was found for
}

// Layer is the system that has to act before the work can go on.
type Layer string

const (
	L1   Layer = "L1" // capacity supply
	L2   Layer = "L2" // provisioning
	L3   Layer = "L3" // scheduling
	L4   Layer = "L4" // workload
	None Layer = "none"
)

// Owner is whose it is to act.
type Owner string

const (
	Capacity  Owner = "capacity"
	Platform  Owner = "platform"
	Scheduler Owner = "scheduler" // who runs the scheduler, its queues and quotas
	User      Owner = "user"
	ML        Owner = "ml"
	Policy    Owner = "policy"
	Storage   Owner = "storage"
	Nobody    Owner = "none"
)

// On has the finding's operations change what a person has to change, where that is not the target.
func (f *Finding) On(subject, target facts.Object) {
	if subject.GetUID() == target.GetUID() {
		return
	}
	for i := range f.Edits {
		f.Edits[i].On = subject
	}
	if f.Probe != nil {
		probe := *f.Probe
		probe.On = subject
		f.Probe = &probe
	}
}

// For has the finding's operations change pods like the one that it was found for.
func (f *Finding) For(p *corev1.Pod) {
	for i := range f.Edits {
		if f.Edits[i].For == nil {
			f.Edits[i].For = p
		}
	}
	if f.Probe != nil && f.Probe.For == nil {
		probe := *f.Probe
		probe.For = p
		f.Probe = &probe
	}
}

// Stands is the edit that takes the finding away, for asking whether it binds.
func (f *Finding) Stands() (edit.Edit, bool) {
	if f.Probe != nil {
		return *f.Probe, true
	}
	if len(f.Edits) > 0 {
		return f.Edits[0], true
	}
	return edit.Edit{}, false
}
