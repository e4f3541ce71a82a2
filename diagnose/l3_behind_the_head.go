package diagnose

import "github.com/berth-dev/berth/engine/why"

func init() {
	register(Check{
		Cause: why.BehindTheHead, Layer: L3, Owner: Scheduler, Stage: Admit, Rank: 26,
		Title:   "One before it in its queue is blocked",
		Meaning: "Berth's policy is strict here: behind work that cannot start nothing of the same queue does, though there would be room.",
		Remedy:  "Wait, find out with berth why what blocks the one before it, or have the policy changed to default, which fills in.",
		Not:     "There is no room for it.",
		Find:    behindTheHead,
	})
}

func behindTheHead(c *Case) []Finding { return c.berthWrote(why.BehindTheHead) }
