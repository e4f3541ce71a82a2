package diagnose

import "fmt"

var nodeClassNotReadyCheck = Check{
	Cause: "node-class-not-ready", Layer: L2, Owner: Platform, Stage: Place, Rank: 50,
	Title:   "The description of the pool's machines is not valid",
	Meaning: "Karpenter makes no nodes of a pool whose node class is not ready: its image, subnets, security groups or role cannot be found or used.",
	Remedy:  "Repair what the node class's conditions name.",
	Not:     "The cloud has no machines.",
	Find:    nodeClassNotReady,
}

func nodeClassNotReady(c *Case) []Finding {
	if c.autoscalerStuck() == nil {
		return nil
	}
	var out []Finding
	for _, s := range c.autoscalerSources() {
		if s.pool == nil {
			continue
		}
		what, evidence := karpenterUnready(s.pool)
		if what == "" {
			continue
		}
		out = append(out, Finding{Fit: true, Probe: c.autoscalerProbe(s), Evidence: evidence, Message: fmt.Sprintf("Karpenter makes no nodes of %s: %s", s, what)})
	}
	return out
}
