package supply

import (
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strings"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/kube/dialect/karpenter"
)

// This file is about reservations of which no object tells: what a provider says of one when it refuses a machine.

// A clause of a provider's message is about a reservation where it names one, and says of it that it has ended, has not begun, is elsewhere,
// is of other machines, or has none left. To advise one is to say none of these.
var (
	reservationNamed   = regexp.MustCompile(`(?i)reservation|\bcr-[0-9a-f]{8,17}\b|capacity[ -]?blocks?\b`)
	reservationCode    = regexp.MustCompile(`\w*Reservation(Capacity|Id|State|Group|Expired|Not)[\w.]*|\w*RESERVATION_\w+`)
	reservationEarly   = regexp.MustCompile(`(?i)\bnot (yet )?(active |available )?(yet|until)\b|\bnot yet\b|\b(has|have|had)(n't| not) (started|begun)\b|(\b|_)not[ _-]?(started|ready|begun)\b|\b(does|do|will) not (start|begin)|\bstarts? (on|at|in)\b|\b(scheduled|assessing|pending|payment-pending)\b`)
	reservationOver    = regexp.MustCompile(`(?i)\b(expired|ended|cancell?ed|terminated|deleted|inactive|payment-failed)\b|\bno longer\b|\bnot (currently )?active\b|[._-]?\bexpired\b|not[ _-]?found|(do|does)(n't| not) exist|\b(could|can)(n't| ?not) be found\b|\b(unknown|no such|invalid) (capacity )?reservation\b`)
	reservationNone    = regexp.MustCompile(`(?i)capacity_?exceeded|exhausted|depleted|\bused up\b|\bfully\b|\bin use\b|\bconsumed\b|\bno (longer )?(available|remaining|free|unused|capacity|more|resources|instances|machines)\b|\bnone (of|is|are|left)\b|\binsufficient|\b(is|are|was)(n't| not) (enough|sufficient)\b|\bnot ?enough|\b(do|does|did)(n't| not) have\b|\bout of\b|\black(s|ing)?\b|\b0 (available|left|free|remaining)\b|\bexceed(s|ed|ing)?\b`)
	reservationDiffers = regexp.MustCompile(`(?i)\b(do|does|did)(n't| not) match\b|\bnot match|mis-?match|\bdifferent\b|\bincompatible\b|\bnot compatible\b|_INCOMPATIBLE|\bother than\b|\banother\b|\bis (in|for)\b|\bmust be\b|\bnot (in|for)\b`)
	reservationPlace   = regexp.MustCompile(`(?i)\b(availability ?)?zone\b|\bregion\b|\blocation\b|\bavailability domain\b`)
	reservationMachine = regexp.MustCompile(`(?i)\b(instance|machine|vm|node) ?(type|size|family|configuration|properties)\b|\bvm\b|\bsku\b|\bshape\b|\bsize\b|\bplatform\b|\btenancy\b|\baccelerators?\b|\bproperties\b`)
)

// reservationElse is what keeps a machine back although a reservation is named: rights, requests to the cloud's API, or addresses.
var reservationElse = regexp.MustCompile(`(?i)\baddress(es)?\b|\bip[ _](space|range)|request ?limit|rate ?limit|throttl|not authorized|unauthorized|permission|forbidden|credential|access denied`)

// clauses are the parts of a message that say one thing each.
func clauses(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, s := range clauseEnds.Split(text, -1) {
			if !yield(s) {
				return
			}
		}
	}
}

var clauseEnds = regexp.MustCompile(`;\s|\.\s|\n`)

// reservationFaultOf is what the clause says of a reservation, and its code, or all of it where it has none.
func reservationFaultOf(clause string) (cloudFault, string) {
	if !reservationNamed.MatchString(clause) || reservationElse.MatchString(clause) {
		return cloudOther, ""
	}
	code := reservationCode.FindString(clause)
	if code == "" {
		code = strings.TrimSpace(clause)
	}
	words := reservationPaths.ReplaceAllString(clause, "reservation")
	switch {
	case reservationEarly.MatchString(words):
		return CloudReservedEarly, code
	case reservationOver.MatchString(words):
		return CloudReservedOver, code
	case differs(words, reservationPlace, reservationMachine):
		return CloudReservedZone, code
	case differs(words, reservationMachine, reservationPlace) || strings.Contains(words, "RESERVATION_INCOMPATIBLE"):
		return CloudReservedType, code
	case reservationNone.MatchString(words):
		return CloudReserved, code
	}
	return cloudOther, ""
}

// reservationPaths are names of resources, whose parts are no words: projects/acme/zones/us-central1-a/reservations/pending.
var reservationPaths = regexp.MustCompile(`(?i)['"\[(]?[\w.:-]*/[\w./:-]*['"\])]?|['"][\w.:-]+['"]`)

// differs says whether the clause has something of the one kind differ, and not of the other: the word that is nearer to what says so counts.
func differs(text string, one, other *regexp.Regexp) bool {
	at := reservationDiffers.FindAllStringIndex(text, -1)
	near := func(words *regexp.Regexp) int {
		best := len(text) + 1
		for _, w := range words.FindAllStringIndex(text, -1) {
			for _, d := range at {
				best = min(best, max(d[0]-w[1], w[0]-d[1], 0))
			}
		}
		return best
	}
	n := near(one)
	return n <= 60 && n < near(other)
}

// Told are findings about a reservation that a provider names when it refuses a machine for the pod. The provider is believed: it is the
// only one that knows. A reservation whose machines are in this cluster is not meant, unless it is over.
func Told(c *check.Case, want cloudFault) []check.Finding {
	found := AutoscalerFindings(c, want, func(who string, x AutoscalerFault) string {
		return fmt.Sprintf("the provider gives no machine of a reservation for %s: %s", who, CloudText(CloudSaid(x.Code, x.Text)))
	})
	out := slices.Concat(found, Shortages(c, want))
	if want != CloudReserved {
		return slices.Concat(out, LaunchShortages(c, want))
	}
	return slices.DeleteFunc(out, func(f check.Finding) bool { return bookedHere(c, f.Message) })
}

// bookedHere says whether the text names a reservation of which the cluster has machines.
func bookedHere(c *check.Case, text string) bool {
	for _, n := range c.Nodes {
		if id := n.Labels[karpenter.ReservationLabel]; id != "" && strings.Contains(text, id) {
			return true
		}
	}
	return false
}
