package l3

import (
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/internal/spelling"
)

var claimNotCreatedCheck = check.Check{
	Cause: "claim-not-created", Layer: check.L3, Owner: check.User, Stage: check.Admit, Rank: 25,
	Title:   "A ResourceClaim of the pod does not exist",
	Meaning: "The pod claims devices through a ResourceClaim, or a template for one, and the claim is not there. The scheduler does not look at the pod, and says nothing.",
	Remedy:  "Name a template or a claim that exists in the namespace; if it does, look at the controller that makes claims, in kube-controller-manager.",
	Not:     "All devices are taken: nobody has looked for one.",
	Find:    claimNotCreated,
}

func claimNotCreated(c *check.Case) []check.Finding {
	if !c.Waits() {
		return nil
	}
	var out []check.Finding
	for i := range c.Pod.Spec.ResourceClaims {
		claim := &c.Pod.Spec.ResourceClaims[i]
		switch {
		case claim.ResourceClaimName != nil:
			out = append(out, claimMissing(c, i, "resourceClaimName", "ResourceClaim", "resourceclaims", *claim.ResourceClaimName)...)
		case claim.ResourceClaimTemplateName != nil:
			name := *claim.ResourceClaimTemplateName
			missing := claimMissing(c, i, "resourceClaimTemplateName", "ResourceClaimTemplate", "resourceclaimtemplates", name)
			if len(missing) == 0 && claimLate(c, claim) {
				missing = []check.Finding{{
					Owner:    check.Platform,
					Message:  fmt.Sprintf("no claim has been made for %s of pod %s from template %s, which exists, for %s", claim.Name, c.Pod.Name, name, wording.Minutes(c.Age())),
					Evidence: append([]facts.Evidence{{Object: facts.RefTo(c.Pod).In(), Field: "status.resourceClaimStatuses", Value: "without " + claim.Name}}, claimSaid(c)...),
					Advice:   "Look at the resource claim controller in kube-controller-manager.",
				}}
			}
			out = append(out, missing...)
		}
	}
	return out
}

// claimMissing says that the named template or claim is not in the namespace.
func claimMissing(c *check.Case, i int, field, kind, resource, name string) []check.Finding {
	ns := c.Pod.Namespace
	if !c.Sees(resource+".resource.k8s.io", ns) {
		return nil
	}
	var have []string
	if kind == "ResourceClaim" {
		for _, o := range c.ResourceClaims {
			if o.Namespace == ns {
				have = append(have, o.Name)
			}
		}
	} else {
		for _, o := range c.ResourceClaimTemplates {
			if o.Namespace == ns {
				have = append(have, o.Name)
			}
		}
	}
	if slices.Contains(have, name) {
		return nil
	}
	f := check.Finding{
		Message:  fmt.Sprintf("there is no %s %s in namespace %s, which the pod names", kind, name, ns),
		Evidence: append([]facts.Evidence{{Object: facts.RefTo(c.Pod).In(), Field: fmt.Sprintf("spec.resourceClaims[%d].%s", i, field), Value: name}}, claimSaid(c)...),
	}
	if near, ok := spelling.Closest(name, have); ok || len(have) == 1 {
		f.Edits = []edit.Edit{{
			Side: edit.Workload, Cost: 1, Text: fmt.Sprintf("name %s %s instead of %s", kind, near, name),
			Ops: []edit.Op{{Op: "replace", Path: edit.Pointer("spec", "resourceClaims", strconv.Itoa(i), field), Value: near}},
		}}
	}
	return []check.Finding{f}
}

// claimLate says whether the pod should have got its claim by now.
func claimLate(c *check.Case, claim *corev1.PodResourceClaim) bool {
	return c.Exists && c.Age() > life.Patience && !slices.ContainsFunc(c.Pod.Status.ResourceClaimStatuses, func(s corev1.PodResourceClaimStatus) bool { return s.Name == claim.Name })
}

// claimSaid is what the controller that makes claims said of the pod.
func claimSaid(c *check.Case) []facts.Evidence {
	for _, e := range c.EventsOf(c.Pod, "FailedResourceClaimCreation") {
		return []facts.Evidence{{Object: facts.RefTo(c.Pod).In(), Field: "event " + e.Reason, Value: e.Message}}
	}
	return nil
}
