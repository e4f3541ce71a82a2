package report

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/convert"
)

// Eviction is why a pod is, or will be, evicted: the message of the pod's condition berth.dev/Eviction, as JSON. A
// scheduler that starts anew goes on from it.
//
// Version 1, 2026-11-16. Fields are added, never renamed; who reads passes over those that it does not know.
type Eviction struct {
	Cause engine.EvictionCause `json:"cause"`
	// At is when it is, or was, due.
	At time.Time `json:"at"`
	// For is the key of the workload that gets the place if that is in the pod's namespace, and else its mark, by which
	// who knows the secret finds it; "": the place is nobody's.
	For      string `json:"for,omitempty"`
	ForQueue string `json:"forQueue,omitempty"` // that For is in
	Queue    string `json:"queue,omitempty"`    // that pays for the pod
	// Borrowed is what Queue held beyond its quota, of a pod that is reclaimed.
	Borrowed *why.Amount `json:"borrowed,omitempty"`
	To       string      `json:"to,omitempty"`    // of a move: the node that has room for what follows the pod
	Surge    bool        `json:"surge,omitempty"` // it stays until that is ready
}

// reasons are the reasons of conditions and events, by cause: they are added, never renamed.
var reasons = map[engine.EvictionCause]string{
	engine.Reclaimed: "Reclaimed",
	engine.Preempted: "Preempted",
	engine.Shared:    "OverFairShare",
	engine.Overran:   "Overran",
	engine.MaxRun:    "MaxRunTime",
	engine.Idled:     "Idle",
	engine.Moved:     "MovedForPlace",
	engine.Booked:    "Booked",
	engine.Drained:   "QueueDrained",
	engine.Unhealthy: "NodeUnhealthy",
	engine.Broken:    UnderMinimum,
}

// UnderMinimum is the reason of a gang that ran under its minimum for too long.
const UnderMinimum = "GangUnderMinimum"

// EvictionReason is the reason of conditions and events about evictions of the cause.
func EvictionReason(c engine.EvictionCause) string {
	if r := reasons[c]; r != "" {
		return r
	}
	return "Evicted"
}

// OfEviction is what is to be said of the engine's eviction: of a pod that queue pays for, for a workload of forQueue. use
// is the pod's queue, nil where that is not known.
func OfEviction(e *engine.Eviction, queue, forQueue string, use *engine.QueueUse, gpu string, marks why.Marker) Eviction {
	r := Eviction{Cause: e.Cause, At: e.At.UTC().Truncate(time.Second), For: e.For, Queue: queue, To: e.To, Surge: e.Surge}
	if e.For != "" {
		r.ForQueue = forQueue
		if namespaceOf(e.For) != namespaceOf(e.Pod) && !strings.HasPrefix(e.For, "#") {
			r.For = marks.Mark(e.For)
		}
	}
	if use != nil && e.Cause == engine.Reclaimed {
		used, quota := use.Used.Of(gpu), use.Quota.Of(gpu)
		if over := (used.Value-quota.Value)*1000 + used.Milli - quota.Milli; over > 0 {
			r.Borrowed = &why.Amount{Resource: gpu, Value: over / 1000, Milli: over % 1000}
		}
	}
	return r
}

// Sentence says in one line what is done, for whom, and why: "reclaimed for PodGroup team/a: queue b had borrowed 8
// nvidia.com/gpu".
func (e *Eviction) Sentence() string {
	verb, detail := e.words()
	if e.For != "" {
		verb += " for " + e.forWhom()
	}
	return verb + ": " + detail
}

// Because is the sentence without for whom: "reclaimed: queue b had borrowed 8 nvidia.com/gpu".
func (e *Eviction) Because() string {
	verb, detail := e.words()
	return verb + ": " + detail
}

func (e *Eviction) words() (verb, detail string) {
	verb = "ended"
	switch e.Cause {
	case engine.Reclaimed:
		verb, detail = "reclaimed", e.borrowed()
	case engine.Preempted:
		verb, detail = "preempted", "it has a higher priority"
	case engine.Shared:
		verb, detail = "given up", fmt.Sprintf("queue %s had more than its fair share", e.Queue)
	case engine.Overran:
		detail = "this ran longer than was said, into a promised start"
	case engine.MaxRun:
		detail = "its time was up"
	case engine.Idled:
		detail = "its GPUs did nothing"
	case engine.Moved:
		verb, detail = "moved", "a larger place becomes whole"
		if e.To != "" {
			detail += fmt.Sprintf(", and node %s has room for what follows it", e.To)
		}
		if e.Surge {
			detail += "; it stays until that is ready"
		}
	case engine.Booked:
		detail = "its node is booked"
	case engine.Drained:
		detail = "its queue is drained"
	case engine.Unhealthy:
		detail = "its node, or that of others of its gang, is quarantined"
	case engine.Broken:
		detail = "its gang is under its minimum and cannot be repaired"
	}
	return verb, detail
}

// forWhom names the workload of the pod's namespace, and of another its queue and its mark.
func (e *Eviction) forWhom() string {
	if !strings.HasPrefix(e.For, "#") {
		return why.WorkloadName(e.For)
	}
	return why.WorkloadFor("-", "", e.ForQueue) + " " + e.For
}

// borrowed says what the queue holds beyond its quota.
func (e *Eviction) borrowed() string {
	switch {
	case e.Borrowed != nil:
		return fmt.Sprintf("queue %s had borrowed %s", e.Queue, Amount(*e.Borrowed))
	case e.Queue == "":
		return "it is in no queue"
	}
	return fmt.Sprintf("queue %s had borrowed it", e.Queue)
}

// Amount is "8 nvidia.com/gpu": so much, in the engine's units, of the resource.
func Amount(a why.Amount) string {
	if a.Milli != 0 {
		return a.Text()
	}
	q := convert.Quantity(a.Resource, a.Value)
	return q.String() + " " + a.Resource
}

// Text is the eviction as it is written down.
func (e *Eviction) Text() string {
	text, err := json.Marshal(e)
	if err != nil {
		panic(fmt.Sprintf("eviction %+v: %v", e, err)) // it has no field that cannot be written
	}
	return string(text)
}

// EvictionOf is what the pod's status says of its eviction; false for nothing, or nothing that can be read.
func EvictionOf(p *corev1.Pod) (e Eviction, ok bool) {
	for i := range p.Status.Conditions {
		c := &p.Status.Conditions[i]
		if c.Type != v1alpha1.PodEviction || c.Status != corev1.ConditionTrue {
			continue
		}
		if json.Unmarshal([]byte(c.Message), &e) != nil || reasons[e.Cause] == "" || e.At.IsZero() {
			return Eviction{}, false
		}
		return e, true
	}
	return Eviction{}, false
}

// Deadline is the eviction's time as the victim's annotation KeyEvictAt has it.
func Deadline(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// Acknowledged says whether the pod's work is saved, as the pod says, and nobody needs to wait until it is evicted at that time.
func Acknowledged(p *corev1.Pod, at time.Time) bool {
	return p.Annotations[v1alpha1.KeyCheckpointed] == Deadline(at)
}

// Evicted says whether a condition of the pod says that Berth evicts it, with or without what EvictionOf reads: versions
// before 2026-11-16 wrote a sentence alone. A gang that ran under its minimum does not count: whether it does is seen anew.
func Evicted(p *corev1.Pod) bool {
	for i := range p.Status.Conditions {
		c := &p.Status.Conditions[i]
		if c.Status != corev1.ConditionTrue || c.Type != corev1.DisruptionTarget && c.Type != v1alpha1.PodEvictionPlanned {
			continue
		}
		for cause, reason := range reasons {
			if c.Reason == reason && cause != engine.Broken {
				return true
			}
		}
	}
	return false
}

func namespaceOf(key string) string {
	namespace, _, _ := strings.Cut(key, "/")
	return namespace
}
