package l3

import (
	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/internal/queue"
	"github.com/berth-dev/berth/engine/why"
)

var groupMissingCheck = check.Check{
	Cause: why.GroupMissing, Layer: check.L3, Owner: check.User, Stage: check.Admit, Rank: 14,
	Title:   "The pod names a part that its gang does not have",
	Meaning: "A gang may be divided into subgroups. The pod names one that its gang does not have, or none where all others do.",
	Remedy:  "Name one of the gang's subgroups in berth.dev/subgroup.",
	Find:    func(c *check.Case) []check.Finding { return queue.Shut(c, why.GroupMissing) },
}
