package supply

import (
	"fmt"
	"strings"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
)

// LaunchShortages are about Pools of Berth that would launch machines for the pod's workload, and whose provider has not enough, for
// the reason.
func LaunchShortages(c *check.Case, want cloudFault) (out []check.Finding) {
	if AutoscalerStuck(c) == nil {
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
