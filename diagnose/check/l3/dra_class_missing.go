package l3

import (
	"fmt"
	"regexp"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/place"
)

var draClassMissingCheck = check.Check{
	Cause: "dra-class-missing", Layer: check.L3, Owner: check.Platform, Stage: check.Place, Rank: 18,
	Title:   "The device class does not exist",
	Meaning: "The pod claims devices of a DeviceClass that the cluster does not have, so nobody knows which devices are meant.",
	Remedy:  "Name a class that exists (kubectl get deviceclasses), or have the class made.",
	Find:    draClassMissing,
}

func draClassMissing(c *check.Case) []check.Finding {
	if !c.Waits() {
		return nil
	}
	if !c.Sees("deviceclasses.resource.k8s.io", "") {
		return noClassAsSaid(c)
	}
	var out []check.Finding
	for _, a := range place.OpenAsks(c.Facts, place.ClaimsOf(c.Facts, c.Pod)) {
		if place.Named(c.DeviceClasses, "", a.Class) == nil {
			out = append(out, noClass(c, &a))
		}
	}
	return out
}

// classSaid is how kube-scheduler's plugin for devices refuses a claim of a class that does not exist.
var classSaid = regexp.MustCompile(`device class (\S+) does not exist`)

// noClassAsSaid goes by the scheduler's words where classes cannot be seen.
func noClassAsSaid(c *check.Case) []check.Finding {
	s, ok := place.SaidOf(c)
	if !ok {
		return nil
	}
	m := classSaid.FindStringSubmatch(s.Text)
	if m == nil {
		return nil
	}
	return []check.Finding{{
		Message:  fmt.Sprintf("a claim of the pod asks for devices of class %s, and the scheduler finds no such class", m[1]),
		Evidence: place.SaidEvidence(c),
	}}
}

func noClass(c *check.Case, a *place.AskAt) check.Finding {
	found := check.Finding{
		Message:  fmt.Sprintf("claim %s asks for devices of class %s, which does not exist", a.Claim.Name, a.Class),
		Evidence: []facts.Evidence{a.Evidence(".deviceClassName", a.Class)},
	}
	for _, class := range c.DeviceClasses {
		text := fmt.Sprintf("ask for class %s, which exists, instead of %s", class.Name, a.Class)
		if e, ok := place.Rewrite(c, a, text, edit.Op{Op: "replace", Path: a.Path() + "/deviceClassName", Value: class.Name}); ok {
			if place.Misspelt(a.Class, class.Name) {
				e.Cost, found.Owner = 1, check.User
			} else {
				e.Assumes = fmt.Sprintf("the work can do with devices of class %s in place of %s", class.Name, a.Class)
			}
			found.Edits = append(found.Edits, e)
		}
	}
	return found
}
