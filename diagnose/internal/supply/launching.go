package supply

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/engine/why"
)

// LaunchShortages are about Pools of Berth that would launch machines for the pod's workload, and whose provider has not enough, for
// the reason.
func LaunchShortages(c *check.Case, want cloudFault) (out []check.Finding) {
	if AutoscalerStuck(c) == nil && !levelless(c) {
		return nil
	}
	pools := berthPools(c)
	for _, u := range c.Foreign[gpustack.BerthPools] {
		p := pools[u.GetName()]
		if p == nil || p.Spec.Launch == nil {
			continue
		}
		for i, s := range p.Status.Shortages {
			fault, _ := cloudFaultOf(s.Because)
			if fault == CloudReserved {
				fault = CloudNoCapacity // by now every source of the pool was asked
			}
			if s.Workload != c.Fit.Workload || fault != want {
				continue
			}
			zone := ""
			if len(p.Spec.Launch.Zones) > 0 {
				zone = p.Spec.Launch.Zones[0]
			}
			out = append(out, check.Finding{
				Fit: true, Probe: Reserved{Pool: p.InZone(zone, p.Spec.Launch.From[0])}.Probe(c),
				Message:  fmt.Sprintf("it needs %d machines of pool %s and %d can be had: %s", s.Need, p.Name, s.Have, CloudText(s.Because)),
				Evidence: []facts.Evidence{{Object: facts.Ref{Kind: "Pool", Name: p.Name}.In(), Field: fmt.Sprintf("status.shortages[%d]", i), Value: strings.TrimSpace(s.Because)}},
			})
		}
	}
	return out
}

// levelless says whether the pods must be together at a level that no node has. Where pools launch machines, that may be for want of nodes.
func levelless(c *check.Case) bool {
	return c.Fit != nil && slices.ContainsFunc(c.Fit.Gates, func(g why.Gate) bool { return g.Cause == why.UnknownTopologyLevel })
}

// ShortOf says whether a Pool of Berth that launches machines found the workload to start once it has more of them.
func ShortOf(c *check.Case) bool {
	if c.Fit == nil {
		return false
	}
	for _, p := range berthPools(c) {
		if p.Spec.Launch != nil && slices.ContainsFunc(p.Status.Shortages, func(s v1alpha1.Shortage) bool { return s.Workload == c.Fit.Workload }) {
			return true
		}
	}
	return false
}
