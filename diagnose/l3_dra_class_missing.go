package diagnose

import (
	"fmt"

	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
)

var draClassMissingCheck = Check{
	Cause: "dra-class-missing", Layer: L3, Owner: Platform, Stage: Place, Rank: 18,
	Title:   "The device class does not exist",
	Meaning: "The pod claims devices of a DeviceClass that the cluster does not have, so nobody knows which devices are meant.",
	Remedy:  "Name a class that exists (kubectl get deviceclasses), or have the class made.",
	Find:    draClassMissing,
}

func draClassMissing(c *Case) []Finding {
	if !c.Waits() || !c.Sees("deviceclasses.resource.k8s.io", "") {
		return nil
	}
	var out []Finding
	for _, a := range openAsks(c.Facts, claimsOf(c.Facts, c.Pod)) {
		if named(c.DeviceClasses, "", a.class) == nil {
			out = append(out, c.noClass(&a))
		}
	}
	return out
}

func (c *Case) noClass(a *askAt) Finding {
	found := Finding{
		Message:  fmt.Sprintf("claim %s asks for devices of class %s, which does not exist", a.claim.name, a.class),
		Evidence: []facts.Evidence{a.evidence(".deviceClassName", a.class)},
	}
	for _, class := range c.DeviceClasses {
		text := fmt.Sprintf("ask for class %s, which exists, instead of %s", class.Name, a.class)
		if e, ok := c.rewrite(a, text, edit.Op{Op: "replace", Path: a.path() + "/deviceClassName", Value: class.Name}); ok {
			if misspelt(a.class, class.Name) {
				e.Cost, found.Owner = 1, User
			}
			found.Edits = append(found.Edits, e)
		}
	}
	return found
}
