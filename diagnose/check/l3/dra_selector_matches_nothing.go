package l3

import (
	"fmt"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var draSelectorMatchesNothingCheck = check.Check{
	Cause: "dra-selector-matches-nothing", Layer: check.L3, Owner: check.User, Stage: check.Place, Rank: 18,
	Title:   "No device matches the selector",
	Meaning: "The pod claims devices by an expression over their attributes. The driver offers devices of the class, and the expression is true for none of them. The scheduler only says that it cannot allocate all claims.",
	Remedy:  "Compare the expression with what the ResourceSlices say of the devices.",
	Not:     "The driver does not work, or all devices are in use.",
	Find:    draSelectorMatchesNothing,
}

func draSelectorMatchesNothing(c *check.Case) []check.Finding {
	if !c.Waits() || c.Matches == nil || !c.Sees("resourceslices.resource.k8s.io", "") {
		return nil
	}
	claims := place.ClaimsOf(c.Facts, c.Pod)
	if len(claims) == 0 {
		return nil
	}
	d := place.OffersOf(c.Facts)
	var out []check.Finding
	for i := range claims {
		out = append(out, matchesNothing(c, d, &claims[i])...)
	}
	return out
}

// matchesNothing looks at the requests of a claim. Of alternatives one is enough.
func matchesNothing(c *check.Case, d *place.Devices, claim *place.PodClaim) []check.Finding {
	var out []check.Finding
	asks := place.OpenAsks(c.Facts, []place.PodClaim{*claim})
	for i := range asks {
		a := &asks[i]
		any := d.Alternatives(asks, a)
		class := d.OfClass(a.Class)
		index, left, failed, none := place.NoMatch(c, a, class)
		if len(class) == 0 || !none || !any.Is(a, place.NoneMatch) {
			continue
		}
		f := wordSelector(a, index, left, failed)
		if any != nil {
			f.Message, f.Evidence = any.Text, any.Evidence()
		}
		f.Edits = place.Reselect(c, a, class)
		out = append(out, f)
	}
	return out
}

// wordSelector words the selector that no device of the class matches.
func wordSelector(a *place.AskAt, index int, left []*place.Device, failed *place.NotSelected) check.Finding {
	expression := a.Selectors[index].CEL.Expression
	found := check.Finding{
		Message:  fmt.Sprintf("claim %s selects devices by %s, and none of the %s of class %s matches", a.Claim.Name, expression, wording.Number(len(left), "device"), a.Class),
		Evidence: []facts.Evidence{a.Evidence(fmt.Sprintf(".selectors[%d].cel.expression", index), expression)},
	}
	if products := place.Sample(left, "productName"); products != "" {
		found.Message += "; they are " + products
	}
	if failed != nil {
		found.Message += "; for some it cannot be worked out: " + wording.OneLine(failed.Err.Error())
	}
	return found
}
