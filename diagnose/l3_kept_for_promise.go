package diagnose

import "github.com/berth-dev/berth/engine/why"

var keptForPromiseCheck = Check{
	Cause: why.KeptForPromise, Layer: L3, Owner: Nobody, Stage: Place, Rank: 2,
	Title:   "Its place is promised to one before it",
	Meaning: "It would fit. But it might still run when one before it was promised a start there, and promises are kept.",
	Remedy:  "Nothing has to be done. Work that says how long it runs (berth.dev/expected-run) can go first where it is over in time.",
	Not:     "The cluster is full.",
	Find:    keptForPromise,
}

func keptForPromise(c *Case) []Finding { return c.berthWaits(why.KeptForPromise) }
