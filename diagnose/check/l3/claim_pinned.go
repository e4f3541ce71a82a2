package l3

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/engine/why"
)

var claimPinnedCheck = check.Check{
	Cause: "claim-pinned", Layer: check.L3, Owner: check.User, Stage: check.Place, Rank: 14,
	Title:   "A claim that it shares has its devices on a node without room",
	Meaning: "The pod names a ResourceClaim whose devices other pods use already. A claim has its devices on one node as long as anybody uses it, so the pod can only go there, and that node does not take it.",
	Remedy:  "Give the pod a claim of its own, by a ResourceClaimTemplate or another ResourceClaim, or make room on that node.",
	Not:     "There are no devices left.",
	Find:    claimPinned,
}

func claimPinned(c *check.Case) []check.Finding {
	if c.Fit == nil || c.Fit.Exclusion(check.ByDevices) == nil {
		return nil
	}
	var out []check.Finding
	for i, r := range c.Pod.Spec.ResourceClaims {
		if r.ResourceClaimName == nil {
			continue // made for the pod alone: the scheduler lets it go
		}
		claim := place.Named(c.ResourceClaims, c.Pod.Namespace, *r.ResourceClaimName)
		if claim == nil || claim.Status.Allocation == nil || claim.Status.Allocation.NodeSelector == nil {
			continue
		}
		users := slices.DeleteFunc(place.HeldBy(c.Facts, claim), func(p *corev1.Pod) bool { return p.Name == c.Pod.Name || facts.Ended(p) })
		if f := pinnedByClaim(c, i, claim, users); len(users) > 0 && f != nil {
			out = append(out, *f)
		}
	}
	return out
}

// pinnedByClaim is nil where the nodes of the claim's devices have room, or no others would.
func pinnedByClaim(c *check.Case, index int, claim *resourcev1.ResourceClaim, users []*corev1.Pod) *check.Finding {
	var there, others []*check.NodeFit
	for i := range c.Fit.Nodes {
		n := &c.Fit.Nodes[i]
		switch {
		case place.Selects(claim.Status.Allocation.NodeSelector, n.Node):
			if n.Open() && n.Fits > 0 {
				return nil
			}
			there = append(there, n)
		case n.Empty > 0 && len(n.Removed) == 0:
			others = append(others, n)
		}
	}
	if len(there) == 0 || len(others) == 0 {
		return nil
	}
	lacks := "which does not take the pod"
	if s := there[0].Short; len(s) > 0 {
		lacks = fmt.Sprintf("which is short of %s by %s", s[0].Resource, why.Quantity(s[0].Resource, s[0].By))
	}
	own := &resourcev1.ResourceClaim{
		TypeMeta:   metav1.TypeMeta{APIVersion: "resource.k8s.io/v1", Kind: "ResourceClaim"},
		ObjectMeta: metav1.ObjectMeta{Name: claim.Name + "-2", Namespace: claim.Namespace}, Spec: claim.Spec,
	}
	ops := []edit.Op{{Op: "replace", Path: fmt.Sprintf("/spec/resourceClaims/%d/resourceClaimName", index), Value: own.Name}}
	return &check.Finding{
		Fit: true,
		Message: fmt.Sprintf("claim %s, which pod %s uses, has its devices on %s, %s; %s elsewhere would hold the pod with devices of its own", claim.Name,
			wording.Few(place.PodNames(users, c.Pod.Namespace)), place.NamesOf(there), lacks, wording.NodesInWords(len(others))),
		Evidence: []facts.Evidence{
			{Object: facts.RefTo(c.Pod).In(), Field: fmt.Sprintf("spec.resourceClaims[%d].resourceClaimName", index), Value: claim.Name},
			{Object: facts.RefTo(claim).In(), Field: "status.allocation.nodeSelector", Value: there[0].Name},
		},
		Edits: []edit.Edit{{
			Side: edit.Workload, Cost: edit.CostSmall, Set: []facts.Object{own}, Ops: ops, Assumes: "the pod need not work on the same devices as pod " + users[0].Name,
			Text: fmt.Sprintf("give the pod a claim of its own, %s, like %s", own.Name, claim.Name), Command: edit.ApplyLine(own) + "\n" + edit.PatchCommand(c.Owner(), c.Pod, ops),
		}},
	}
}
