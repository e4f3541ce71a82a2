package diagnose

import "github.com/berth-dev/berth/engine/why"

var makingRoomCheck = Check{
	Cause: why.MakingRoom, Layer: L3, Owner: Nobody, Stage: Place, Rank: 2,
	Title:   "Other work is being ended for it",
	Meaning: "Berth chose a place and ends the work that is there, which has the time that its grace period and its queue give it. The place is held until then.",
	Remedy:  "Nothing has to be done: it starts when they are gone.",
	Not:     "The cluster is full.",
	Find:    makingRoom,
}

func makingRoom(c *Case) []Finding {
	out := c.berthWaits(why.MakingRoom)
	for i := range out {
		out[i].Until, out[i].Because = c.berthEnds()
	}
	return out
}
