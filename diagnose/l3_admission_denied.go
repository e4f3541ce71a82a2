package diagnose

import (
	"fmt"
	"strings"
)

var admissionDeniedCheck = Check{
	Cause: "admission-denied", Layer: L3, Owner: Policy, Stage: Create, Rank: 8,
	Title:   "A policy refuses the pod",
	Meaning: "The API server asked an admission webhook, an admission policy or the Pod Security standard of the namespace, and was told not to create the pod, or not to bind it to a node.",
	Remedy:  "Change the pod as the policy's message says, or ask the policy's owner for an exception.",
	Not:     "The webhook is broken: it answered, and the answer was no.",
	Find:    admissionDenied,
}

func admissionDenied(c *Case) []Finding {
	r := c.denial()
	if r != nil && !c.wanted() {
		return nil
	}
	what := "the pod"
	if r == nil {
		if r = c.notBound(byWebhook, byPolicy); r == nil {
			return nil
		}
		what = "the binding of the pod to a node"
	}
	f := Finding{Evidence: []Evidence{r.Evidence}}
	said := shortened(oneLine(r.Text), 400)
	switch r.By {
	case byWebhook:
		f.Message = fmt.Sprintf("admission webhook %s denies %s: %s", r.Name, what, said)
		f.Evidence = append(f.Evidence, c.webhookSeen(r.Name)...)
	case byPolicy:
		f.Message = fmt.Sprintf("admission policy %s denies %s: %s", r.Name, what, said)
		if r.Binding != "" {
			f.Message = fmt.Sprintf("admission policy %s, by its binding %s, denies %s: %s", r.Name, r.Binding, what, said)
		}
		f.Evidence = append(f.Evidence, c.policySeen(r)...)
	case byPodSecurity:
		f.Message = fmt.Sprintf("namespace %s enforces Pod Security %q, which the pod violates: %s", c.Pod.Namespace, r.Name, said)
		for _, n := range c.Namespaces {
			if n.Name == c.Pod.Namespace {
				const label = "pod-security.kubernetes.io/enforce"
				f.Evidence = append(f.Evidence, Evidence{Object: RefTo(n).In(), Field: fmt.Sprintf("metadata.labels[%q]", label), Value: n.Labels[label]})
			}
		}
	case byRights:
		f.Owner = Platform
		f.Message = fmt.Sprintf("%s has no right to create the pods of %s: %s", r.Name, RefTo(c.Maker()), said)
		f.Advice = "Give the controller's service account the right that it lacks."
	case byOther:
		f.Message = "the API server refuses the pod: " + said
	default:
		return nil
	}
	return []Finding{f}
}

// policySeen is what the policy itself says, where it may be read: its expressions, and when the binding applies.
func (c *Case) policySeen(r *refusal) []Evidence {
	var out []Evidence
	for _, p := range c.ValidatingAdmissionPolicies {
		if p.Name != r.Name {
			continue
		}
		for i, v := range p.Spec.Validations {
			if len(p.Spec.Validations) == 1 || v.Message != "" && strings.Contains(r.Text, v.Message) {
				out = append(out, Evidence{Object: RefTo(p).In(), Field: fmt.Sprintf("spec.validations[%d].expression", i), Value: shortened(v.Expression, 300)})
			}
		}
	}
	for _, b := range c.ValidatingAdmissionPolicyBindings {
		if b.Name == r.Binding {
			out = append(out, Evidence{Object: RefTo(b).In(), Field: "spec.policyName", Value: b.Spec.PolicyName})
		}
	}
	return out
}

// webhookSeen is where the webhook is configured.
func (c *Case) webhookSeen(name string) []Evidence {
	for _, w := range c.webhooks() {
		if w.name == name {
			return []Evidence{{Object: RefTo(w.in).In(), Field: fmt.Sprintf("webhooks[%q].clientConfig", name), Value: w.server()}}
		}
	}
	return nil
}
