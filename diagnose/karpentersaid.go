package diagnose

import (
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/facts"
)

// karpenterWord is the newest thing that Karpenter said of a pod: that it has a node for it, or why it makes none. A
// nil one is silence.
type karpenterWord struct {
	event *corev1.Event
	claim string          // the NodeClaim that the pod should be on; "": of a refusal
	parts []karpenterPart // of a refusal
}

// karpenterPart is why one pool has no node for the pod.
type karpenterPart struct {
	pool string // "": it is not named
	text string
}

const (
	karpenterRefusal    = "Failed to schedule pod, "
	karpenterNomination = "Pod should schedule on: "
)

// karpenterSaid returns it.
func (c *Case) karpenterSaid() *karpenterWord {
	if !c.Exists {
		return nil
	}
	for _, e := range c.EventsOf(c.Pod, "FailedScheduling", "Nominated") {
		if w, ok := decodeKarpenter(e.Message); ok {
			w.event = e
			return &w
		}
	}
	return nil
}

var (
	karpenterSplit = regexp.MustCompile(`;\s+`)
	karpenterNames = regexp.MustCompile(`(?:[Nn]ode[Pp]ool|provisioner)[ =:]+"?([a-z0-9][-a-z0-9.]*)"?`)
	karpenterClaim = regexp.MustCompile(`nodeclaim/([a-z0-9][-a-z0-9.]*)`)
)

// decodeKarpenter reads what Karpenter writes into events of pods. Releases differ in whether they name pools as
// nodepool "a" or (NodePool=a).
func decodeKarpenter(message string) (karpenterWord, bool) {
	if on, ok := strings.CutPrefix(message, karpenterNomination); ok {
		w := karpenterWord{}
		if m := karpenterClaim.FindStringSubmatch(on); m != nil {
			w.claim = m[1]
		}
		return w, w.claim != ""
	}
	text, ok := strings.CutPrefix(message, karpenterRefusal)
	if !ok {
		return karpenterWord{}, false
	}
	var w karpenterWord
	for _, part := range karpenterSplit.Split(text, -1) {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		p := karpenterPart{text: part}
		if m := karpenterNames.FindStringSubmatch(part); m != nil {
			p.pool = m[1]
		}
		w.parts = append(w.parts, p)
	}
	return w, len(w.parts) > 0
}

// about says whether Karpenter refused the pod with one of the phrases for the pool; for any where it names none.
func (w *karpenterWord) about(pool string, phrases ...string) bool {
	if w == nil {
		return false
	}
	return slices.ContainsFunc(w.parts, func(p karpenterPart) bool {
		return (p.pool == pool || p.pool == "" && len(w.parts) == 1) && p.has(phrases...)
	})
}

func (p *karpenterPart) has(phrases ...string) bool {
	return slices.ContainsFunc(phrases, func(s string) bool { return strings.Contains(p.text, s) })
}

// Phrases of Karpenter.
var (
	karpenterAtLimit = []string{"exceed limits for nodepool", "node limits have been exhausted"}
	karpenterUnsuits = []string{"incompatible requirements", "did not tolerate", "incompatible with nodepool", "met the scheduling requirements"}
)

// evidence is where it can be read.
func (w *karpenterWord) evidence(c *Case) []facts.Evidence {
	if w == nil {
		return nil
	}
	return []facts.Evidence{autoscalerEvent(c.Pod, w.event)}
}

// autoscalerEvent is an event as evidence.
func autoscalerEvent(of facts.Object, e *corev1.Event) facts.Evidence {
	return facts.Evidence{Object: facts.RefTo(of).In(), Field: "events[reason=" + e.Reason + "]", Value: e.Message}
}

// How long Karpenter gives a machine to be launched, and to become a node.
const (
	karpenterLaunches  = 5 * time.Minute
	karpenterRegisters = 15 * time.Minute
)
