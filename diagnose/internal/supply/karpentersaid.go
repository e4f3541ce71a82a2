package supply

import (
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
)

// karpenterWord is the newest thing that Karpenter said of a pod: that it has a node for it, or why it makes none. A
// nil one is silence.
type karpenterWord struct {
	Event *corev1.Event
	Claim string          // the NodeClaim that the pod should be on; "": of a refusal
	Parts []KarpenterPart // of a refusal
}

// KarpenterPart is why one pool has no node for the pod.
type KarpenterPart struct {
	Pool string // "": it is not named
	text string
}

const (
	karpenterRefusal    = "Failed to schedule pod, "
	karpenterNomination = "Pod should schedule on: "
)

// KarpenterSaid returns it.
func KarpenterSaid(c *check.Case) *karpenterWord {
	if !c.Exists {
		return nil
	}
	for _, e := range c.EventsOf(c.Pod, "FailedScheduling", "Nominated") {
		if w, ok := decodeKarpenter(e.Message); ok {
			w.Event = e
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
			w.Claim = m[1]
		}
		return w, w.Claim != ""
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
		p := KarpenterPart{text: part}
		if m := karpenterNames.FindStringSubmatch(part); m != nil {
			p.Pool = m[1]
		}
		w.Parts = append(w.Parts, p)
	}
	return w, len(w.Parts) > 0
}

// About says whether Karpenter refused the pod with one of the phrases for the pool; for any where it names none.
func (w *karpenterWord) About(pool string, phrases ...string) bool {
	if w == nil {
		return false
	}
	return slices.ContainsFunc(w.Parts, func(p KarpenterPart) bool {
		return (p.Pool == pool || p.Pool == "" && len(w.Parts) == 1) && p.Has(phrases...)
	})
}

func (p *KarpenterPart) Has(phrases ...string) bool {
	return slices.ContainsFunc(phrases, func(s string) bool { return strings.Contains(p.text, s) })
}

// Phrases of Karpenter.
var (
	KarpenterAtLimit = []string{"exceed limits for nodepool", "node limits have been exhausted"}
	KarpenterUnsuits = []string{"incompatible requirements", "did not tolerate", "incompatible with nodepool", "met the scheduling requirements"}
)

// Evidence is where it can be read.
func (w *karpenterWord) Evidence(c *check.Case) []facts.Evidence {
	if w == nil {
		return nil
	}
	return []facts.Evidence{autoscalerEvent(c.Pod, w.Event)}
}

// autoscalerEvent is an event as evidence.
func autoscalerEvent(of facts.Object, e *corev1.Event) facts.Evidence {
	return facts.Evidence{Object: facts.RefTo(of).In(), Field: "events[reason=" + e.Reason + "]", Value: e.Message}
}

// How long Karpenter gives a machine to be launched, and to become a node.
const (
	KarpenterLaunches  = 5 * time.Minute
	KarpenterRegisters = 15 * time.Minute
)
