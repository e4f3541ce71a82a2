package l4

import (
	"fmt"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/kube/dialect"
)

// waitsForDomain says that the pod's claim is for a channel of a ComputeDomain that is not ready: NVIDIA's driver prepares it once pods of the
// same work are on as many nodes as the domain has.
func waitsForDomain(c *check.Case) (string, facts.Evidence) {
	if c.State != facts.Starting || !life.AwaitsContainers(c) {
		return "", facts.Evidence{}
	}
	for _, k := range c.Pod.Spec.ResourceClaims {
		for _, d := range c.Foreign["ComputeDomain.resource.nvidia.com"] {
			template := dialect.Text(d.Object, "spec", "channel", "resourceClaimTemplate", "name")
			nodes, _ := dialect.Number(d.Object, "spec", "numNodes")
			there := len(dialect.Items(d.Object, "status", "nodes"))
			if k.ResourceClaimTemplateName == nil || template != *k.ResourceClaimTemplateName || d.GetNamespace() != c.Pod.Namespace || dialect.Text(d.Object, "status", "status") == "Ready" || int64(there) >= nodes {
				continue
			}
			return fmt.Sprintf("pod %s waits for ComputeDomain %s, which has %d of its %d nodes", c.Pod.Name, d.GetName(), there, nodes),
				facts.Evidence{Object: facts.RefTo(d).In(), Field: "status.status", Value: fmt.Sprintf("%s, %d of %d nodes", dialect.Text(d.Object, "status", "status"), there, nodes)}
		}
	}
	return "", facts.Evidence{}
}
