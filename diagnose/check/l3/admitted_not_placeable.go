package l3

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/queue"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/dialect"
	"github.com/berth-dev/berth/kube/dialect/kueue"
)

var admittedNotPlaceableCheck = check.Check{
	Cause: "admitted-not-placeable", Layer: check.L3, Owner: check.Scheduler, Stage: check.Place, Rank: 5,
	Title:   "Kueue admitted it, and there are no nodes for what Kueue promised",
	Meaning: "The quotas of a flavor add up to more than the nodes of that flavor have, so Kueue admits work that no node can take.",
	Remedy:  "Lower the quotas to what the nodes have, correct the flavor's node labels, or add the nodes that were promised.",
	Not:     "The user's selector is wrong: Kueue wrote it.",
	Find:    admittedNotPlaceable,
}

func admittedNotPlaceable(c *check.Case) []check.Finding {
	if v := queue.Kueue(c); v != nil && v.Cause == "admitted-not-placeable" {
		return []check.Finding{kueueOverpromise(c, v.Work, v.Cluster, "Kueue admitted it again and again, its pods never ran, and it gave up")}
	}
	if c.State != facts.Pending || c.Fit == nil || c.Fit.Placed() || closedAlone(c.Fit) {
		return nil
	}
	for _, w := range queue.KueueWorks(c) {
		cluster := c.ForeignNamed(kueue.ClusterQueues, "", dialect.Text(w.Object, "status", "admission", "clusterQueue"))
		if dialect.IsTrue(w, "Admitted") && !dialect.IsTrue(w, "Finished") && queue.KueuePromised(c.Facts, cluster) != nil {
			return []check.Finding{kueueOverpromise(c, w, cluster, "Kueue admitted it")}
		}
	}
	return nil
}

// closedAlone says whether there is room for the pods on nodes that are theirs and closed to them, by a taint or a cordon: then there are nodes
// for what was promised, and why they are closed is the cause.
func closedAlone(f *check.Fit) bool {
	room := int64(0)
	for i := range f.Nodes {
		n := &f.Nodes[i]
		other := slices.ContainsFunc(n.Removed, func(r why.Clause) bool { return r.Kind != why.ByTaint && r.Kind != why.ByCordon })
		if len(n.Removed) > 0 && !other && len(n.ExcludedBy)+len(n.Short) == 0 && n.Empty > 0 {
			room++
		}
	}
	return room >= max(1, int64(f.PodsLacking()))
}

// kueueOverpromise says what was promised and what there is.
func kueueOverpromise(c *check.Case, work, cluster *unstructured.Unstructured, happened string) check.Finding {
	p := queue.KueuePromised(c.Facts, cluster)
	return check.Finding{
		Message: fmt.Sprintf("%s, and its quota is not backed by nodes: quotas of flavor %s promise %s %s, and the %s with its labels %s %s", happened, p.Flavor, why.Quantity(p.Resource, p.Quota), p.Resource, wording.Number(p.Nodes, "node"), wording.InNumber(p.Nodes, "has", "have"), why.Quantity(p.Resource, p.Have)),
		Evidence: []facts.Evidence{
			{Object: facts.RefTo(cluster).In(), Field: fmt.Sprintf("spec.resourceGroups.flavors[%q].resources[%q].nominalQuota", p.Flavor, p.Resource), Value: why.Quantity(p.Resource, queue.KueueQuota(c.Facts, cluster, p.Flavor, p.Resource).Nominal)},
			{Object: facts.RefTo(work).In(), Field: "status.admission.clusterQueue", Value: cluster.GetName()},
		},
	}
}
