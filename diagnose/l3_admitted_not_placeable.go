package diagnose

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/dialect"
)

var admittedNotPlaceableCheck = Check{
	Cause: "admitted-not-placeable", Layer: L3, Owner: Scheduler, Stage: Place, Rank: 5,
	Title:   "Kueue admitted it, and there are no nodes for what Kueue promised",
	Meaning: "The quotas of a flavor add up to more than the nodes of that flavor have, so Kueue admits work that no node can take.",
	Remedy:  "Lower the quotas to what the nodes have, correct the flavor's node labels, or add the nodes that were promised.",
	Not:     "The user's selector is wrong: Kueue wrote it.",
	Find:    admittedNotPlaceable,
}

func admittedNotPlaceable(c *Case) []Finding {
	if v := c.kueue(); v != nil && v.cause == "admitted-not-placeable" {
		return []Finding{c.kueueOverpromise(v.work, v.cluster, "Kueue admitted it again and again, its pods never ran, and it gave up")}
	}
	if c.State != facts.Pending || c.Fit == nil || c.Fit.Placed() {
		return nil
	}
	for _, w := range c.kueueWorks() {
		cluster := c.ForeignNamed(kueueClusterQueues, "", dialect.Text(w.Object, "status", "admission", "clusterQueue"))
		if dialect.IsTrue(w, "Admitted") && !dialect.IsTrue(w, "Finished") && kueuePromised(c.Facts, cluster) != nil {
			return []Finding{c.kueueOverpromise(w, cluster, "Kueue admitted it")}
		}
	}
	return nil
}

// kueueOverpromise says what was promised and what there is.
func (c *Case) kueueOverpromise(work, cluster *unstructured.Unstructured, happened string) Finding {
	p := kueuePromised(c.Facts, cluster)
	return Finding{
		Message: fmt.Sprintf("%s, and its quota is not backed by nodes: quotas of flavor %s promise %s %s, and the %s with its labels %s %s", happened, p.flavor, why.Quantity(p.resource, p.quota), p.resource, wording.Number(p.nodes, "node"), wording.InNumber(p.nodes, "has", "have"), why.Quantity(p.resource, p.have)),
		Evidence: []facts.Evidence{
			{Object: facts.RefTo(cluster).In(), Field: fmt.Sprintf("spec.resourceGroups.flavors[%q].resources[%q].nominalQuota", p.flavor, p.resource), Value: why.Quantity(p.resource, kueueQuota(c.Facts, cluster, p.flavor, p.resource).nominal)},
			{Object: facts.RefTo(work).In(), Field: "status.admission.clusterQueue", Value: cluster.GetName()},
		},
	}
}
