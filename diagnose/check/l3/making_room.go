package l3

import (
	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/internal/queue"
	"github.com/berth-dev/berth/engine/why"
)

var makingRoomCheck = check.Check{
	Cause: why.MakingRoom, Layer: check.L3, Owner: check.Nobody, Stage: check.Place, Rank: 2,
	Title:   "Other work is being ended for it",
	Meaning: "Berth chose a place and ends the work that is there, which has the time that its grace period and its queue give it. The place is held until then.",
	Remedy:  "Nothing has to be done: it starts when they are gone.",
	Not:     "The cluster is full.",
	Find:    makingRoom,
}

func makingRoom(c *check.Case) []check.Finding {
	out := queue.BerthWaits(c, why.MakingRoom)
	for i := range out {
		out[i].Until, out[i].Because = queue.BerthEnds(c)
	}
	return out
}
