package l3

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
)

// hamiReason is one of the words by which HAMi's scheduler extender says why a node's cards cannot be shared further.
type hamiReason struct {
	word, means string
	owner       check.Owner
}

// hamiReasons, those about what is asked for before those about what is taken.
var hamiReasons = []hamiReason{
	{"CardTypeMismatch", "no card is of the type that is asked for", check.User},
	{"CardUuidMismatch", "no card has the UUID that is asked for", check.User},
	{"CardUUIDMismatch", "no card has the UUID that is asked for", check.User},
	{"NodeInsufficientDevice", "no node has as many cards as are asked for", check.User},
	{"CardInsufficientMemory", "no card has enough memory left", check.Scheduler},
	{"CardInsufficientCore", "no card has enough of its cores left", check.Scheduler},
	{"CardTimeSlicingExhausted", "all shares of the cards are taken", check.Scheduler},
	{"ExclusiveDeviceAllocateConflict", "a whole card is asked for, and all are shared", check.Scheduler},
	{"AllocatedCardsInsufficientRequest", "fewer cards are free together than are asked for", check.Scheduler},
}

// hamiShares says whether the pod asks for a part of a GPU in HAMi's terms.
func hamiShares(p *corev1.Pod) bool {
	if strings.Contains(p.Spec.SchedulerName, "hami") {
		return true
	}
	for _, name := range facts.ExtendedOf(p) {
		if name == "nvidia.com/gpumem" || name == "nvidia.com/gpucores" || name == "nvidia.com/gpumem-percentage" {
			return true
		}
	}
	return false
}

// hamiWords finds the reasons in a text, in the order of hamiReasons.
func hamiWords(text string) []hamiReason {
	var out []hamiReason
	for _, r := range hamiReasons {
		if strings.Contains(text, r.word) {
			out = append(out, r)
		}
	}
	return out
}
