package l3

import (
	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/internal/queue"
	"github.com/berth-dev/berth/engine/why"
)

var unsupportedFeatureCheck = check.Check{
	Cause: why.UnsupportedFeature, Layer: check.L3, Owner: check.User, Stage: check.Admit, Rank: 32,
	Title:   "The scheduler does not do what the pod asks for",
	Meaning: "The pod asks for something that Berth does not decide yet, so Berth does not place it at all.",
	Remedy:  "Leave the feature out, or let another scheduler place the pod.",
	Find:    unsupportedFeature,
}

// unsupportedFeature goes by what Berth said to the pod: what is tried on the engine here leaves such features aside.
func unsupportedFeature(c *check.Case) []check.Finding { return queue.Told(c, why.UnsupportedFeature) }
