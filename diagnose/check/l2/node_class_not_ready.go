package l2

import (
	"fmt"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/internal/supply"
)

var nodeClassNotReadyCheck = check.Check{
	Cause: "node-class-not-ready", Layer: check.L2, Owner: check.Platform, Stage: check.Place, Rank: 50,
	Title:   "The description of the pool's machines is not valid",
	Meaning: "Karpenter makes no nodes of a pool whose node class is not ready: its image, subnets, security groups or role cannot be found or used.",
	Remedy:  "Repair what the node class's conditions name.",
	Not:     "The cloud has no machines.",
	Find:    nodeClassNotReady,
}

func nodeClassNotReady(c *check.Case) []check.Finding {
	if supply.AutoscalerStuck(c) == nil {
		return nil
	}
	var out []check.Finding
	for _, s := range supply.AutoscalerSources(c) {
		if s.Pool == nil {
			continue
		}
		what, evidence := supply.KarpenterUnready(s.Pool)
		if what == "" {
			continue
		}
		out = append(out, check.Finding{Fit: true, Probe: supply.AutoscalerProbe(c, s), Evidence: evidence, Message: fmt.Sprintf("Karpenter makes no nodes of %s: %s", s, what)})
	}
	return out
}
