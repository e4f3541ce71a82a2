package diagnose

import "github.com/berth-dev/berth/engine/why"

var groupMissingCheck = Check{
	Cause: why.GroupMissing, Layer: L3, Owner: User, Stage: Admit, Rank: 14,
	Title:   "The pod names a part that its gang does not have",
	Meaning: "A gang may be divided into subgroups. The pod names one that its gang does not have, or none where all others do.",
	Remedy:  "Name one of the gang's subgroups in berth.dev/subgroup.",
	Find:    func(c *Case) []Finding { return c.shut(why.GroupMissing) },
}
