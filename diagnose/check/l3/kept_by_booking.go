package l3

import (
	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/internal/queue"
	"github.com/berth-dev/berth/engine/why"
)

var keptByBookingCheck = check.Check{
	Cause: why.KeptByBooking, Layer: check.L3, Owner: check.Nobody, Stage: check.Place, Rank: 2,
	Title:   "The nodes are booked",
	Meaning: "It would fit, on nodes that a calendar keeps for another queue: now, or from before this would be over.",
	Remedy:  "Nothing has to be done. Work that says how long it runs (berth.dev/expected-run) can go first where it is over in time.",
	Not:     "The cluster is full.",
	Find:    keptByBooking,
}

func keptByBooking(c *check.Case) []check.Finding { return queue.BerthWaits(c, why.KeptByBooking) }
