package karpenter

import (
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Message is the newest thing that Karpenter said of a pod: that it has a node for it, or why it makes none. A
// nil one is silence.
type Message struct {
	Event *corev1.Event
	Claim string // the NodeClaim that the pod should be on; "": of a refusal
	Parts []Part // of a refusal
}

// Part is why one pool has no node for the pod.
type Part struct {
	Pool string // "": it is not named
	text string
}

const (
	refusalPrefix    = "Failed to schedule pod, "
	nominationPrefix = "Pod should schedule on: "
)

var (
	partSeparator = regexp.MustCompile(`;\s+`)
	poolName      = regexp.MustCompile(`(?:[Nn]ode[Pp]ool|provisioner)[ =:]+"?([a-z0-9][-a-z0-9.]*)"?`)
	claimName     = regexp.MustCompile(`nodeclaim/([a-z0-9][-a-z0-9.]*)`)
)

// ParseMessage reads what Karpenter writes into events of pods. Releases differ in whether they name pools as
// nodepool "a" or (NodePool=a).
func ParseMessage(message string) (Message, bool) {
	if on, ok := strings.CutPrefix(message, nominationPrefix); ok {
		w := Message{}
		if m := claimName.FindStringSubmatch(on); m != nil {
			w.Claim = m[1]
		}
		return w, w.Claim != ""
	}
	text, ok := strings.CutPrefix(message, refusalPrefix)
	if !ok {
		return Message{}, false
	}
	var w Message
	for _, part := range partSeparator.Split(text, -1) {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		p := Part{text: part}
		if m := poolName.FindStringSubmatch(part); m != nil {
			p.Pool = m[1]
		}
		w.Parts = append(w.Parts, p)
	}
	return w, len(w.Parts) > 0
}

// About says whether Karpenter refused the pod with one of the phrases for the pool; for any where it names none.
func (w *Message) About(pool string, phrases ...string) bool {
	if w == nil {
		return false
	}
	return slices.ContainsFunc(w.Parts, func(p Part) bool {
		return (p.Pool == pool || p.Pool == "" && len(w.Parts) == 1) && p.Has(phrases...)
	})
}

func (p *Part) Has(phrases ...string) bool {
	return slices.ContainsFunc(phrases, func(s string) bool { return strings.Contains(p.text, s) })
}

// Unmet is what Karpenter says that no machine of the pool has: labels or size that the pod asks for. It is "" where
// Karpenter says nothing of the pool, or names offerings: those are machines that would do, and cannot be had now.
func (w *Message) Unmet(pool string) string {
	if w == nil {
		return ""
	}
	for _, p := range w.Parts {
		if (p.Pool == pool || p.Pool == "" && len(w.Parts) == 1) && !strings.Contains(p.text, "offering") {
			if m := noInstanceType.FindString(p.text); m != "" {
				return m
			}
		}
	}
	return ""
}

// NoOffering is in what Karpenter says where machines of the right kind are known, and none can be had as the pod or the pool wants it: in the zone, on
// demand, or of a reservation.
const NoOffering = "required offering"

// Unoffered is what it says then of the pool.
func (w *Message) Unoffered(pool string) string {
	for _, p := range w.Parts {
		if p.Pool == pool || p.Pool == "" && len(w.Parts) == 1 {
			return noInstanceType.FindString(p.text)
		}
	}
	return ""
}

// noInstanceType is how Karpenter says that it knows of no machine, of all that it looks at: requirements, resources
// and offerings. Newer releases add what was asked for.
var noInstanceType = regexp.MustCompile(`no instance type [^;(,]*[^;(, ]`)

var daemonOverhead = regexp.MustCompile(`daemonset overhead=\{([^}]*)\}`)

// Overhead is how much of the resource Karpenter takes DaemonSets to ask for on a node of the pool, as it writes it; "": it does not say.
func (w *Message) Overhead(pool, resource string) string {
	if w == nil {
		return ""
	}
	for _, p := range w.Parts {
		if p.Pool != pool && (p.Pool != "" || len(w.Parts) > 1) {
			continue
		}
		m := daemonOverhead.FindStringSubmatch(p.text)
		if m == nil {
			continue
		}
		for _, item := range strings.Split(m[1], ",") {
			if name, amount, ok := strings.Cut(item, ":"); ok && strings.Trim(name, `" `) == resource {
				return strings.Trim(amount, `" `)
			}
		}
	}
	return ""
}

// TooFewValues is how Karpenter says that fewer machines suit a pod than the pool's minValues wants (pkg/cloudprovider/types.go, 1.8).
const TooFewValues = "minValues requirement is not met"

// Phrases of Karpenter.
var (
	AtLimit      = []string{"exceed limits for nodepool", "node limits have been exhausted"}
	Incompatible = []string{"incompatible requirements", "did not tolerate", "incompatible with nodepool", "met the scheduling requirements"}
)
