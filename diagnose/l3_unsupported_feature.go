package diagnose

import "github.com/berth-dev/berth/engine/why"

var unsupportedFeatureCheck = Check{
	Cause: why.UnsupportedFeature, Layer: L3, Owner: User, Stage: Admit, Rank: 32,
	Title:   "The scheduler does not do what the pod asks for",
	Meaning: "The pod asks for something that Berth does not decide yet, so Berth does not place it at all.",
	Remedy:  "Leave the feature out, or let another scheduler place the pod.",
	Find:    unsupportedFeature,
}

// unsupportedFeature goes by what Berth said to the pod: what is tried on the engine here leaves such features aside.
func unsupportedFeature(c *Case) []Finding { return c.told(why.UnsupportedFeature) }
