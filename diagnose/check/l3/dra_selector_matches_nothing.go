package l3

import (
	"fmt"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
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
		open := slices.ContainsFunc(asks, func(b place.AskAt) bool { return b.Request == a.Request && anySuits(c, d, &b.DeviceAsk) })
		if class := devicesInClass(c, d, a.Class); !open && len(class) > 0 {
			if f := badSelector(c, a, class); f != nil {
				out = append(out, *f)
			}
		}
	}
	return out
}

func anySuits(c *check.Case, d *place.Devices, ask *place.DeviceAsk) bool {
	return slices.ContainsFunc(d.All, func(v *place.Device) bool {
		return d.InClass(v, ask.Class) && place.Selected(c.Facts, v, ask.Selectors) == nil
	})
}

func devicesInClass(c *check.Case, d *place.Devices, class string) []*place.Device {
	var out []*place.Device
	for _, v := range d.All {
		if d.InClass(v, class) {
			out = append(out, v)
		}
	}
	return out
}

// badSelector words the selector that no device of the class matches; where each has some, the first that the others
// leave nothing for.
func badSelector(c *check.Case, a *place.AskAt, class []*place.Device) *check.Finding {
	left := class
	for i, s := range a.Selectors {
		var next []*place.Device
		var failed *place.NotSelected
		for _, v := range left {
			if n := place.Selected(c.Facts, v, []resourcev1.DeviceSelector{s}); n == nil {
				next = append(next, v)
			} else if n.Err != nil {
				failed = n
			}
		}
		if len(next) == 0 && s.CEL != nil {
			return wordSelector(c, a, i, s.CEL.Expression, left, failed)
		}
		left = next
	}
	return nil
}

func wordSelector(c *check.Case, a *place.AskAt, index int, expression string, left []*place.Device, failed *place.NotSelected) *check.Finding {
	found := &check.Finding{
		Message:  fmt.Sprintf("claim %s selects devices by %s, and none of the %s of class %s matches", a.Claim.Name, expression, wording.Number(len(left), "device"), a.Class),
		Evidence: []facts.Evidence{a.Evidence(fmt.Sprintf(".selectors[%d].cel.expression", index), expression)},
	}
	if products := place.Sample(left, "productName"); products != "" {
		found.Message += "; they are " + products
	}
	if failed != nil {
		found.Message += "; for some it cannot be worked out: " + wording.OneLine(failed.Err.Error())
	}
	for _, other := range place.OtherWords(c.Facts, expression, left) {
		if e, ok := place.Rewrite(c, a, "select devices by "+other, edit.Op{Op: "replace", Path: fmt.Sprintf("%s/selectors/%d/cel/expression", a.Path(), index), Value: other}); ok {
			found.Edits = append(found.Edits, e)
		}
	}
	if e, ok := place.Rewrite(c, a, fmt.Sprintf("drop the selector of claim %s, so that any device of class %s will do", a.Claim.Name, a.Class), edit.Op{Op: "remove", Path: fmt.Sprintf("%s/selectors/%d", a.Path(), index)}); ok {
		e.Cost = 3
		found.Edits = append(found.Edits, e)
	}
	return found
}
