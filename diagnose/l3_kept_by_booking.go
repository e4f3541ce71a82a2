package diagnose

import "github.com/berth-dev/berth/engine/why"

var keptByBookingCheck = Check{
	Cause: why.KeptByBooking, Layer: L3, Owner: Nobody, Stage: Place, Rank: 2,
	Title:   "The nodes are booked",
	Meaning: "It would fit, on nodes that a calendar keeps for another queue: now, or from before this would be over.",
	Remedy:  "Nothing has to be done. Work that says how long it runs (berth.dev/expected-run) can go first where it is over in time.",
	Not:     "The cluster is full.",
	Find:    keptByBooking,
}

func keptByBooking(c *Case) []Finding { return c.berthWaits(why.KeptByBooking) }
