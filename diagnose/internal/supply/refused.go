package supply

import (
	"cmp"
	"strings"
	"time"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/kube/dialect"
	"github.com/berth-dev/berth/kube/dialect/karpenter"
)

// Refusal is what a provider answered when a machine was asked for.
type Refusal struct {
	Cause string // as `berth why` has it
	Text  string
	Claim string // the NodeClaim, which may be gone
	At    time.Time
}

// refusedFor is how long a refusal counts of which only an event is left: as long as API servers keep events by default.
const refusedFor = time.Hour

// RefusedBy is the last refusal of machines of the NodePool; false where there was none, or a machine came since. Karpenter deletes a
// NodeClaim for which there is no capacity, and what is left of it is an event.
func RefusedBy(f *facts.Facts, p *karpenter.Pool) (Refusal, bool) {
	for _, claim := range p.Claims {
		if l := dialect.ConditionOf(claim, "Launched"); l != nil && (l.Status == "False" || l.Status != "True" && l.Reason != "" && !karpenterAwaits[l.Reason]) {
			return refusal(claim.GetName(), l.Reason, cmp.Or(l.Message, l.Reason), l.At), true
		}
	}
	for _, e := range autoscaling(f).launches {
		at := facts.EventTime(e)
		if e.Reason != insufficient && !launchWords.MatchString(e.Reason) || !p.Claimed(e.InvolvedObject.Name) {
			continue
		}
		if age := f.At.Sub(at); age < 0 || age > refusedFor || launchedSince(p, at) {
			continue
		}
		_, text, _ := strings.Cut(e.Message, " event: ")
		return refusal(e.InvolvedObject.Name, e.Reason, cmp.Or(text, e.Message), at), true
	}
	return Refusal{}, false
}

// insufficient is the reason of Karpenter's events about stockouts.
const insufficient = "InsufficientCapacityError"

func refusal(claim, reason, text string, at time.Time) Refusal {
	out := Refusal{Claim: claim, Text: CloudText(text), At: at}
	out.Cause = CauseOfRefusal(reason + ": " + text)
	if reason == insufficient && out.Cause == "machine-not-launched" {
		out.Cause = "cloud-stockout"
	}
	return out
}

// CauseOfRefusal is the cause for which a provider refused a machine with the text.
func CauseOfRefusal(text string) string {
	switch fault, _ := cloudFaultOf(text); fault {
	case CloudNoQuota:
		return "cloud-quota"
	case CloudNoCapacity, CloudNoMachine:
		return "cloud-stockout"
	case CloudReserved:
		return "reservation-consumed-elsewhere"
	case CloudReservedOver:
		return "reservation-ended"
	case CloudReservedEarly:
		return "reservation-not-started"
	case CloudReservedZone:
		return "reservation-wrong-zone"
	case CloudReservedType:
		return "reservation-wrong-type"
	}
	return "machine-not-launched"
}

// OfSupply says whether the cause is that machines are not to be had, and not that one could not be made.
func OfSupply(cause string) bool { return cause != "" && cause != "machine-not-launched" }
