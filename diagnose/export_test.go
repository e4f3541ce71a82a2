package diagnose

import (
	"slices"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/engine/why"
)

// Without takes a check away, as deleting its file would.
func (d *Diagnoser) Without(cause why.Cause) *Diagnoser {
	d.checks = slices.DeleteFunc(d.checks, func(c *check.Check) bool { return c.Cause == cause })
	return d
}

// Class is what pods have in common that rules between pods restrict alike.
var Class = class
