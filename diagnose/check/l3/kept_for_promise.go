package l3

import (
	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/internal/queue"
	"github.com/berth-dev/berth/engine/why"
)

var keptForPromiseCheck = check.Check{
	Cause: why.KeptForPromise, Layer: check.L3, Owner: check.Nobody, Stage: check.Place, Rank: 2,
	Title:   "Its place is promised to one before it",
	Meaning: "It would fit. But it might still run when one before it was promised a start there, and promises are kept.",
	Remedy:  "Nothing has to be done. Work that says how long it runs (berth.dev/expected-run) can go first where it is over in time.",
	Not:     "The cluster is full.",
	Find:    keptForPromise,
}

func keptForPromise(c *check.Case) []check.Finding { return queue.BerthWaits(c, why.KeptForPromise) }
