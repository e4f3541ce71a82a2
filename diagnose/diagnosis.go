package diagnose

import (
	"time"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/engine/why"
)

// APIVersion and the kinds of what is printed as JSON. The fields of Diagnosis are a contract with other tools.
const (
	APIVersion = "berth.dev/v1alpha1"
	Kind       = "Diagnosis"
	ListKind   = "DiagnosisList"
)

// Healthy is the cause of work for which no action is needed.
const Healthy why.Cause = "healthy"

// Unknown is the cause of work that waits for something which the facts do not show.
const Unknown why.Cause = "unknown"

// Diagnosis is the answer for one target.
type Diagnosis struct {
	APIVersion string      `json:"apiVersion"`
	Kind       string      `json:"kind"`
	Target     facts.Ref   `json:"target"`
	State      facts.State `json:"state"`
	Layer      check.Layer `json:"layer"`
	Cause      why.Cause   `json:"cause"`
	Owner      check.Owner `json:"owner"`
	Summary    string      `json:"summary"` // one sentence
	Blockers   []Blocker   `json:"blockers,omitempty"`
	Fixes      []Fix       `json:"fixes,omitempty"`
	ETA        *facts.ETA  `json:"eta,omitempty"`
	// Scheduler is what Berth's live scheduler says of it, where it schedules the target.
	Scheduler *SchedulerAnswer `json:"scheduler,omitempty"`
	// History is what happened to it, from the scheduler's decision log where that could be read: by Last.
	History []Moment `json:"history,omitempty"`
	// Unheeded is what it asks for without effect: fields and keys that the scheduler says it does not understand.
	Unheeded []string       `json:"unheeded,omitempty"`
	Unseen   []facts.Unseen `json:"unseen,omitempty"` // what the caller may not read, and so is not known
	// Rights are what of that could make it another answer, what tells most first.
	Rights []Right `json:"rights,omitempty"`

	Created time.Time `json:"-"` // of the target, or of its oldest pod that waits
	Advice  string    `json:"-"` // what usually helps, where no fix could be verified
}

// Moment is one thing that happened to the target, once or several times.
type Moment struct {
	At    time.Time `json:"at"`    // the first time
	Last  time.Time `json:"last"`  // the latest; At where it happened once
	Times int       `json:"times"` // how often
	// What is waits (it began to, for Cause), starts, refused (a node that was chosen could not be had) or evicted.
	What  string    `json:"what"`
	Cause why.Cause `json:"cause,omitempty"` // of waits and evicted
	Text  string    `json:"text"`            // in words, of the latest
}

// DiagnosisList is the answer for everything that waits.
type DiagnosisList struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Items      []Diagnosis    `json:"items"`
	Unseen     []facts.Unseen `json:"unseen,omitempty"`
}

// Blocker is one thing that stands in the way.
type Blocker struct {
	Layer    check.Layer      `json:"layer"`
	Cause    why.Cause        `json:"cause"`
	Owner    check.Owner      `json:"owner"`
	Binding  bool             `json:"binding"` // the work cannot go on while it stands
	Message  string           `json:"message"`
	Evidence []facts.Evidence `json:"evidence,omitempty"`
}

// Fix is a change that was tried on a copy of the facts.
type Fix struct {
	Side     edit.Side `json:"side"`
	Edit     string    `json:"edit"`              // what to do, in words
	Command  string    `json:"command,omitempty"` // that does it; "": no command can, as with waiting
	Verified bool      `json:"verified"`          // always true of what is printed
	Assumes  string    `json:"assumes,omitempty"`
	Outcome  string    `json:"outcome"` // what then happens

	// Patch is what it does to pod templates, for who has the manifest at hand; nil where it does something else, or more.
	Patch []Patch `json:"-"`
}

// Patch is operations on the pods of an object, with paths in a pod.
type Patch struct {
	On  facts.Ref
	Ops []edit.Op
}
