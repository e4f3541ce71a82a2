package answer

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
)

// The API's coordinates. Version goes with the JSON of the values in this file.
//
//	v1alpha1  2026-11-15  first
//	          2026-11-15  Queue: parent, problem, warnings, quota, weight, borrowed, lent, wanted, share, gpuSeconds,
//	                      budgets; a queue counts what is in those below it. Workload: eta, promise, borrowed, evicting
//	          2026-11-16  Workload: eta.cause; Configuration
//	          2026-11-16  Workload: cause pod-rules; clauses pod-affinity, pod-anti-affinity, anti-affinity-of-others and topology-spread
const (
	Group        = "answers.berth.dev"
	Version      = "v1alpha1"
	GroupVersion = Group + "/" + Version
)

// State is how far a workload has come.
type State string

const (
	Waiting  State = "waiting"  // it has not what it needs to start
	Starting State = "starting" // it has its nodes, and not all of its minimum runs yet
	Running  State = "running"
)

// Workload is what is placed whole, and why it waits. Its name is kind.name of what makes it one: gang.first,
// podgroup.second, pod.third.
type Workload struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Owner    *Owner `json:"owner,omitempty"` // that made all its pods; nil: there is none, or several
	Group    string `json:"group,omitempty"` // the PodGroup of a pod that is placed by itself in it
	Queue    string `json:"queue,omitempty"`
	Priority int32  `json:"priority"`
	State    State  `json:"state"`
	Pods     Pods   `json:"pods"`
	GPUs     int64  `json:"gpus"` // that its pods ask for together

	// Position, Verdict, Cause and Sentence are of a workload that has pods to place and could not place one.
	Position *Position   `json:"position,omitempty"`
	Verdict  why.Verdict `json:"verdict,omitempty"`
	Cause    why.Cause   `json:"cause,omitempty"`
	Sentence string      `json:"sentence,omitempty"`

	// ETA is when it is expected to start and Promise when it will at the latest, as far as that is known. Borrowed is
	// the GPUs of those it has that its queue may have to give back; Evicting is of one that has to give way.
	ETA      *ETA      `json:"eta,omitempty"`
	Promise  *Promise  `json:"promise,omitempty"`
	Borrowed int64     `json:"borrowed,omitempty"`
	Evicting *Evicting `json:"evicting,omitempty"`

	// What follows is in the answer about one workload and not in lists.
	Gates        []why.Gate        `json:"gates,omitempty"` // all that are shut, the binding one first
	Certificates []why.Certificate `json:"certificates,omitempty"`
	Holders      *Holders          `json:"holders,omitempty"`
}

// Owner is what people know a workload by.
type Owner struct {
	Kind string `json:"kind"` // Job, StatefulSet, Deployment, ...
	Name string `json:"name"`
}

// Pods counts a workload's pods.
type Pods struct {
	Size    int      `json:"size"`    // that there are or will be
	Min     int      `json:"min"`     // that start together
	Placed  int      `json:"placed"`  // that have a node
	Running int      `json:"running"` // that run on it
	Waiting int      `json:"waiting"` // that exist and have none
	Names   []string `json:"names,omitempty"`
}

// Position is a place in line. The line is that of the whole cluster, in the order in which the scheduler looks.
type Position struct {
	Place   int `json:"place"`             // from 1
	Of      int `json:"of"`                // how many wait
	InQueue int `json:"inQueue,omitempty"` // its place among those of its queue, from 1
	// Ahead are the first in line before it, as many as are named; Others is how many more there are.
	Ahead  []Reference `json:"ahead,omitempty"`
	Others int         `json:"others,omitempty"`
}

// ETA is when a workload that waits is expected to start.
type ETA struct {
	Earliest time.Time `json:"earliest,omitzero"` // zero: unknown
	Likely   time.Time `json:"likely,omitzero"`   // the same
	Because  string    `json:"because,omitempty"`
	// Cause is of what no end of running work changes, so that no start is expected while it lasts: the queue is shut, or
	// nobody knows when the workload ahead of it starts. "": there is none.
	Cause why.Cause `json:"cause,omitempty"`
}

// Promise is a start time that nothing which starts later may delay.
type Promise struct {
	Start time.Time `json:"start"`
	Since time.Time `json:"since"` // when it was given
}

// Evicting is pods of a workload that are to end.
type Evicting struct {
	Pods  int        `json:"pods"`
	Cause string     `json:"cause"`         // a code of engine.EvictionCause
	For   *Reference `json:"for,omitempty"` // the workload that gets the place; nil: nobody, or one that is not shown
	At    time.Time  `json:"at"`            // they are warned until then
}

// Reference names a workload.
type Reference struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Owner     *Owner `json:"owner,omitempty"`
}

// Holders is who has what the workload waits for: most first, then how many others there are, named or not.
type Holders struct {
	Resource string   `json:"resource"`
	Queue    string   `json:"queue,omitempty"` // they are those of this queue; "": those on the nodes that match
	Items    []Holder `json:"items,omitempty"`
	Others   Others   `json:"others,omitzero"`
}

// Holder is one workload with what it has.
type Holder struct {
	Reference
	Amount int64 `json:"amount"`
}

// Others are workloads that are counted and not named.
type Others struct {
	Workloads int   `json:"workloads"`
	Amount    int64 `json:"amount"`
}

// Queue is a queue and what its workloads, and those of the queues below it, hold and want. Amounts are sorted, and
// those of 0 are left out, but for limits.
type Queue struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Parent   string   `json:"parent,omitempty"`
	Missing  bool     `json:"missing,omitempty"`  // workloads name it, and it does not exist
	Problem  string   `json:"problem,omitempty"`  // why it has no effect: its workloads wait
	Warnings []string `json:"warnings,omitempty"` // what it promises and may not be able to keep

	Quota  []why.Amount `json:"quota,omitempty"`  // what it is promised
	Limits []why.Amount `json:"limits,omitempty"` // what is not named is not limited
	Weight int64        `json:"weight,omitempty"` // of its part, among its siblings, of what is over; 0: 1

	Used     []why.Amount `json:"used,omitempty"`
	Borrowed []why.Amount `json:"borrowed,omitempty"` // of used: what is beyond the quota
	Lent     []why.Amount `json:"lent,omitempty"`     // of the quota: what others use
	Wanted   []why.Amount `json:"wanted,omitempty"`   // what pods without a place ask for
	Share    []why.Amount `json:"share,omitempty"`    // its fair share
	Running  Demand       `json:"running"`            // workloads that have all they need to start
	Waiting  Demand       `json:"waiting"`

	GPUSeconds int64    `json:"gpuSeconds,omitempty"` // used since it was first seen
	Budgets    []Budget `json:"budgets,omitempty"`

	Namespaces []string `json:"-"` // that may use it, as in engine.Queue
}

// Budget is what the queue may use in a period, and what it has used in this one: seconds of one of the resource.
type Budget struct {
	Resource      string `json:"resource"`
	Seconds       int64  `json:"seconds"`
	Spent         int64  `json:"spent"`
	PeriodSeconds int64  `json:"periodSeconds"`
}

// Demand is workloads and the GPUs that they ask for.
type Demand struct {
	Workloads int   `json:"workloads"`
	GPUs      int64 `json:"gpus"`
}

// Configuration is how the scheduler that leads is set up: what a model of it needs to decide as it does. Its name is the
// scheduler's.
type Configuration struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	SchedulerNames []string      `json:"schedulerNames"` // of the pods that it schedules
	Engine         engine.Config `json:"engine"`         // with defaults filled in; durations in nanoseconds
}

// ConfigurationList has one: that of the scheduler that leads.
type ConfigurationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []Configuration `json:"items"`
}

// WorkloadList is in line order, then those that do not wait by namespace and name.
type WorkloadList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []Workload `json:"items"`
}

// QueueList is in the order of the tree: each queue, then those below it, siblings by name; then those that are missing.
type QueueList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []Queue `json:"items"`
}

// Named makes a workload's name of what makes it one.
func Named(kind, name string) string { return kind + "." + name }

// Title is what people call the workload: its owner where that made it whole, like job/first.
func (r Reference) Title() string {
	if r.Owner != nil && !strings.HasPrefix(r.Name, "pod.") {
		return strings.ToLower(r.Owner.Kind) + "/" + r.Owner.Name
	}
	return strings.Replace(r.Name, ".", "/", 1)
}

// Reference names the workload.
func (w *Workload) Reference() Reference {
	return Reference{Namespace: w.Namespace, Name: w.Name, Owner: w.Owner}
}

// Is says whether the workload is what a person means by kind/name, or by a name alone: itself, its owner, its PodGroup, or one
// of its pods.
func (w *Workload) Is(what string) bool {
	kind, name, ok := strings.Cut(strings.ToLower(what), "/")
	if !ok {
		kind, name = "", kind
	}
	own, self, _ := strings.Cut(w.Name, ".")
	if (kind == "" || kind == own) && name == self {
		return true
	}
	if w.Owner != nil && (kind == "" || kind == strings.ToLower(w.Owner.Kind)) && name == w.Owner.Name {
		return true
	}
	if w.Group != "" && (kind == "" || kind == "podgroup") && name == w.Group {
		return true
	}
	if kind != "" && kind != "pod" {
		return false
	}
	for _, p := range w.Pods.Names {
		if p == name {
			return true
		}
	}
	return false
}
