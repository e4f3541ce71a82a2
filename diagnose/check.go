package diagnose

import (
	"cmp"
	"slices"
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
	Admit               // nobody is to look at it yet, or nobody does: gates, suspension, queues, schedulers
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
	// Edits are alternatives: each, alone, takes this blocker away. The first one stands for it when the engine is
	// asked whether it binds.
	Edits []edit.Edit
	// Probe stands for it instead, where what takes it away is nothing to advise.
	Probe *edit.Edit
	// Fit says that the finding is about places: it binds only as far as the engine says so. Others bind by themselves.
	Fit bool
	// Calm says that it is a normal part of starting and nobody needs to act.
	Calm bool
	// Until is when it ends by itself, where that is known, and Because of what.
	Until   time.Time
	Because string
	// Advice replaces the check's Remedy where the finding knows better.
	Advice string

	check *Check
	pod   *corev1.Pod // it was found for
}

// Checks returns all checks: by stage, rank and cause.
func Checks() []*Check {
	return slices.SortedFunc(slices.Values(slices.Concat(l1Checks, l2Checks, l3Checks, l4Checks)), func(a, b *Check) int {
		return cmp.Or(cmp.Compare(a.Stage, b.Stage), cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Cause, b.Cause))
	})
}
