package diagnose

import (
	"fmt"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var draSelectorMatchesNothingCheck = Check{
	Cause: "dra-selector-matches-nothing", Layer: L3, Owner: User, Stage: Place, Rank: 18,
	Title:   "No device matches the selector",
	Meaning: "The pod claims devices by an expression over their attributes. The driver offers devices of the class, and the expression is true for none of them. The scheduler only says that it cannot allocate all claims.",
	Remedy:  "Compare the expression with what the ResourceSlices say of the devices.",
	Not:     "The driver does not work, or all devices are in use.",
	Find:    draSelectorMatchesNothing,
}

func draSelectorMatchesNothing(c *Case) []Finding {
	if !c.Waits() || c.Matches == nil || !c.Sees("resourceslices.resource.k8s.io", "") {
		return nil
	}
	claims := claimsOf(c.Facts, c.Pod)
	if len(claims) == 0 {
		return nil
	}
	d := offersOf(c.Facts)
	var out []Finding
	for i := range claims {
		out = append(out, c.matchesNothing(d, &claims[i])...)
	}
	return out
}

// matchesNothing looks at the requests of a claim. Of alternatives one is enough.
func (c *Case) matchesNothing(d *devices, claim *podClaim) []Finding {
	var out []Finding
	asks := openAsks(c.Facts, []podClaim{*claim})
	for i := range asks {
		a := &asks[i]
		open := slices.ContainsFunc(asks, func(b askAt) bool { return b.request == a.request && c.anySuits(d, &b.deviceAsk) })
		if class := c.devicesInClass(d, a.class); !open && len(class) > 0 {
			if f := c.badSelector(a, class); f != nil {
				out = append(out, *f)
			}
		}
	}
	return out
}

func (c *Case) anySuits(d *devices, ask *deviceAsk) bool {
	return slices.ContainsFunc(d.all, func(v *device) bool { return d.inClass(v, ask.class) && selected(c.Facts, v, ask.selectors) == nil })
}

func (c *Case) devicesInClass(d *devices, class string) []*device {
	var out []*device
	for _, v := range d.all {
		if d.inClass(v, class) {
			out = append(out, v)
		}
	}
	return out
}

// badSelector words the selector that no device of the class matches; where each has some, the first that the others
// leave nothing for.
func (c *Case) badSelector(a *askAt, class []*device) *Finding {
	left := class
	for i, s := range a.selectors {
		var next []*device
		var failed *notSelected
		for _, v := range left {
			if n := selected(c.Facts, v, []resourcev1.DeviceSelector{s}); n == nil {
				next = append(next, v)
			} else if n.err != nil {
				failed = n
			}
		}
		if len(next) == 0 && s.CEL != nil {
			return c.wordSelector(a, i, s.CEL.Expression, left, failed)
		}
		left = next
	}
	return nil
}

func (c *Case) wordSelector(a *askAt, index int, expression string, left []*device, failed *notSelected) *Finding {
	found := &Finding{
		Message:  fmt.Sprintf("claim %s selects devices by %s, and none of the %s of class %s matches", a.claim.name, expression, wording.Number(len(left), "device"), a.class),
		Evidence: []facts.Evidence{a.evidence(fmt.Sprintf(".selectors[%d].cel.expression", index), expression)},
	}
	if products := sample(left, "productName"); products != "" {
		found.Message += "; they are " + products
	}
	if failed != nil {
		found.Message += "; for some it cannot be worked out: " + wording.OneLine(failed.err.Error())
	}
	for _, other := range otherWords(c.Facts, expression, left) {
		if e, ok := c.rewrite(a, "select devices by "+other, edit.Op{Op: "replace", Path: fmt.Sprintf("%s/selectors/%d/cel/expression", a.path(), index), Value: other}); ok {
			found.Edits = append(found.Edits, e)
		}
	}
	if e, ok := c.rewrite(a, fmt.Sprintf("drop the selector of claim %s, so that any device of class %s will do", a.claim.name, a.class), edit.Op{Op: "remove", Path: fmt.Sprintf("%s/selectors/%d", a.path(), index)}); ok {
		e.Cost = 3
		found.Edits = append(found.Edits, e)
	}
	return found
}
