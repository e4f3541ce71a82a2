package report

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/convert"
)

// Pending is why a workload waits: the message of the condition berth.dev/PendingCause of its pods and of its PodGroup, and
// the annotation berth.dev/cause of events about them, as JSON. The sentence beside it, in the condition PodScheduled or the event's
// note, says the same. It holds while PodScheduled is False: of a pod that has a node it is what the pod waited for last.
//
// Version 4, 2026-11-18: claims. Version 3, 2026-11-18: device. Version 2, 2026-11-16: lacks, refusals, binding. Version 1, 2026-11-16. Fields are added, never renamed; who reads
// passes over those that it does not know.
type Pending struct {
	Cause   why.Cause   `json:"cause"`
	Verdict why.Verdict `json:"verdict,omitempty"`
	Gates   []Gate      `json:"gates,omitempty"` // the binding one first
	// PromisedStart is by when the workload was promised to start; absent: it was not.
	PromisedStart time.Time `json:"promisedStart,omitzero"`
	// Refusals are what the API server, or kubelets, said when they refused the workload on a node, at most maxRefusals
	// of them: their words, not Berth's.
	Refusals []string `json:"refusals,omitempty"`
	// Binding is of a pod that has a place and is not bound to it.
	Binding *Binding `json:"binding,omitempty"`
	// Device is of a pod that has a place, and one of whose devices is not attached to it.
	Device *Device `json:"device,omitempty"`
}

// Gate is one thing that stands between a workload and its start, with its numbers: those of a why.Gate, without the
// certificate, which answers.berth.dev has.
type Gate struct {
	Cause    why.Cause `json:"cause"`
	Object   string    `json:"object,omitempty"` // other workloads as who reads the namespace is told of them
	Resource string    `json:"resource,omitempty"`
	Need     int64     `json:"need,omitempty"`
	Have     int64     `json:"have,omitempty"`
	Limit    int64     `json:"limit,omitempty"`
	Milli    bool      `json:"milli,omitempty"` // Need, Have and Limit are thousandths of Resource
	// Lacks are, of larger-than-any-node, the resources of which the largest node has too little.
	Lacks []why.Lack `json:"lacks,omitempty"`
	// Claims are the requests of resource claims for which nodes have no devices, or none that are free, at most maxClaims of them.
	Claims []string `json:"claims,omitempty"`
}

// ClaimsNotReady is the cause of a pod that the engine does not know because its claims are not there, BindingFailed of one that has a
// place and could not be bound, and DeviceNotAttached of one that has a place and a device which is not attached to it.
const (
	ClaimsNotReady    why.Cause = "claims-not-ready"
	BindingFailed     why.Cause = "binding-failed"
	DeviceNotAttached why.Cause = "device-not-attached"
)

// maxGates is how many gates are written down.
const maxGates = 8

// maxRefusals is how many refusals are written down.
const maxRefusals = 4

// maxClaims is how many requests of claims are written down.
const maxClaims = 4

// Naming is what the reader is told of a workload, by its key.
type Naming func(workload string) string

// ForNamespace names workloads to who reads the namespace: queueOf is the queue of a workload.
func ForNamespace(namespace string, queueOf func(workload string) string) Naming {
	return func(workload string) string { return why.WorkloadFor(namespace, workload, queueOf(workload)) }
}

// OfWaiting is what is to be said of a workload that waits; certs are those of the plan.
func OfWaiting(w *engine.Waiting, certs []why.Certificate, promised time.Time, name Naming) Pending {
	p := Pending{Cause: w.Cause, Verdict: w.Verdict, PromisedStart: promised.UTC().Truncate(time.Second)}
	for _, g := range w.Gates[:min(len(w.Gates), maxGates)] {
		if g.NamesWorkload() {
			g.Object = name(g.Object)
		}
		gate := Gate{Cause: g.Cause, Object: g.Object, Resource: g.Resource, Need: g.Need, Have: g.Have, Limit: g.Limit, Milli: g.Milli}
		if g.Certificate >= 0 && g.Certificate < len(certs) {
			c := &certs[g.Certificate]
			if g.Cause == why.LargerThanAnyNode {
				gate.Lacks = c.Lacks()
			}
			gate.Claims = unmetRequests(c)
			for _, r := range c.Refusals() {
				if len(p.Refusals) < maxRefusals && !slices.Contains(p.Refusals, r) {
					p.Refusals = append(p.Refusals, r)
				}
			}
		}
		p.Gates = append(p.Gates, gate)
	}
	return p
}

// unmetRequests are the requests of claims that exclude nodes, as they stand in clauses.
func unmetRequests(c *why.Certificate) (out []string) {
	for _, d := range c.Domains {
		for _, r := range d.Rows {
			for _, clause := range r.Removed {
				devices := clause.Kind == why.ByDevices || clause.Kind == why.ByHeld
				if devices && len(out) < maxClaims && !slices.Contains(out, clause.Detail) {
					out = append(out, clause.Detail)
				}
			}
		}
	}
	return out
}

// Sentence is all that keeps a workload waiting, the binding gate first.
func Sentence(gates []why.Gate, certs []why.Certificate, name Naming) string {
	parts := make([]string, len(gates))
	for i, g := range gates {
		if g.NamesWorkload() {
			g.Object = name(g.Object)
		}
		parts[i] = g.Sentence(certs)
	}
	return strings.Join(parts, "; ")
}

// PromiseText is the end of the sentence of a workload that was promised a start: "; promised a start by 14:05 UTC", with
// the day if it is another one.
func PromiseText(start, now time.Time) string {
	if start.IsZero() {
		return ""
	}
	start, now = start.UTC().Add(time.Minute-1).Truncate(time.Minute), now.UTC()
	layout := "15:04 UTC"
	if start.YearDay() != now.YearDay() || start.Year() != now.Year() {
		layout = "2006-01-02 15:04 UTC"
	}
	return "; promised a start by " + start.Format(layout)
}

// Reason is the condition's reason. Autoscalers act on Unschedulable, so it is only there where more nodes, or
// other nodes, would help.
func Reason(w *engine.Waiting) string {
	if w.Verdict == why.Impossible || w.Verdict == why.NotFound || leaves(w) {
		return corev1.PodReasonUnschedulable
	}
	return CauseReason(w.Cause)
}

// leaves says whether all that keeps the gang from its place is that the nodes go away before it is over: others would help.
func leaves(w *engine.Waiting) bool {
	return len(w.Gates) > 0 && !slices.ContainsFunc(w.Gates, func(g why.Gate) bool { return !departs(g.Cause, g.Object) })
}

// departs says whether a gate is the departure of nodes.
func departs(c why.Cause, object string) bool {
	return c == why.KeptByBooking && convert.IsDeparture(object)
}

// NeedsNodes says whether only more nodes, or other nodes, help a workload that waits so.
func (p *Pending) NeedsNodes() bool {
	return p.Verdict == why.Impossible || p.Verdict == why.NotFound ||
		len(p.Gates) > 0 && !slices.ContainsFunc(p.Gates, func(g Gate) bool { return !departs(g.Cause, g.Object) })
}

// CauseReason is the cause as a reason of a condition: over-queue-limit is OverQueueLimit.
func CauseReason(c why.Cause) string {
	var b strings.Builder
	for word := range strings.SplitSeq(string(c), "-") {
		if word != "" {
			b.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	return b.String()
}

// Condition is the cause as a condition of the pod, which waits since then.
func (p *Pending) Condition(since metav1.Time) corev1.PodCondition {
	return corev1.PodCondition{Type: v1alpha1.PodPendingCause, Status: corev1.ConditionTrue, Reason: CauseReason(p.Cause), Message: p.Text(), LastTransitionTime: since}
}

// GroupCondition is the cause as a condition of a PodGroup of the generation, which waits.
func (p *Pending) GroupCondition(generation int64) metav1.Condition {
	return metav1.Condition{Type: v1alpha1.PodPendingCause, Status: metav1.ConditionTrue, Reason: CauseReason(p.Cause), Message: p.Text(), ObservedGeneration: generation}
}

// Text is the cause as it is written down.
func (p *Pending) Text() string {
	text, err := json.Marshal(p)
	if err != nil {
		panic("cause of a wait: " + err.Error()) // it has no field that cannot be written
	}
	return string(text)
}

// PendingOf is why the pod waits, as its status says; false where it does not wait, or nothing can be read.
func PendingOf(p *corev1.Pod) (got Pending, ok bool) {
	waits, text := false, ""
	for i := range p.Status.Conditions {
		switch c := &p.Status.Conditions[i]; c.Type {
		case corev1.PodScheduled:
			waits = c.Status == corev1.ConditionFalse
		case v1alpha1.PodPendingCause:
			text = c.Message
		}
	}
	if !waits || text == "" || json.Unmarshal([]byte(text), &got) != nil || got.Cause == "" {
		return Pending{}, false
	}
	return got, true
}
