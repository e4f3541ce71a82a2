package l3

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var admissionDeniedCheck = check.Check{
	Cause: "admission-denied", Layer: check.L3, Owner: check.Policy, Stage: check.Create, Rank: 8,
	Title:   "A policy refuses the pod",
	Meaning: "The API server asked an admission webhook, an admission policy or the Pod Security standard of the namespace, and was told not to create the pod, or not to bind it to a node.",
	Remedy:  "Change the pod as the policy's message says, or ask the policy's owner for an exception.",
	Not:     "The webhook is broken: it answered, and the answer was no.",
	Find:    admissionDenied,
}

func admissionDenied(c *check.Case) []check.Finding {
	r := life.Denial(c)
	what := "the pod"
	switch {
	case r != nil && c.Exists:
		what = "a claim that is made for pod " + c.Pod.Name
	case r != nil && (!life.Wanted(c) || life.FollowsAnother(c, r)):
		return nil
	}
	if r == nil {
		if r = life.NotBound(c, life.ByWebhook, life.ByPolicy); r == nil {
			return nil
		}
		what = "the binding of the pod to a node"
	}
	f := check.Finding{Evidence: []facts.Evidence{r.Evidence}}
	said := wording.Shortened(wording.OneLine(r.Text), 400)
	switch r.By {
	case life.ByWebhook:
		f.Message = fmt.Sprintf("admission webhook %s denies %s: %s", r.Name, what, said)
		f.Evidence = append(f.Evidence, webhookSeen(c, r.Name)...)
	case life.ByPolicy:
		f.Message = fmt.Sprintf("admission policy %s denies %s: %s", r.Name, what, said)
		if r.Binding != "" {
			f.Message = fmt.Sprintf("admission policy %s, by its binding %s, denies %s: %s", r.Name, r.Binding, what, said)
		}
		f.Evidence = append(f.Evidence, policySeen(c, r)...)
	case life.ByPodSecurity:
		f.Message = fmt.Sprintf("namespace %s enforces Pod Security %q, which the pod violates: %s", c.Pod.Namespace, r.Name, said)
		for _, n := range c.Namespaces {
			if n.Name == c.Pod.Namespace {
				const label = "pod-security.kubernetes.io/enforce"
				f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(n).In(), Field: fmt.Sprintf("metadata.labels[%q]", label), Value: n.Labels[label]})
			}
		}
	case life.ByRights:
		f.Owner = check.Platform
		f.Message = fmt.Sprintf("%s has no right to create the pods of %s: %s", r.Name, facts.RefTo(c.Owner()), said)
		if c.Exists {
			f.Message = fmt.Sprintf("%s has no right to create %s: %s", r.Name, what, said)
		}
		f.Advice = "Give the controller's service account the right that it lacks."
	case life.ByOther:
		f.Message = fmt.Sprintf("the API server refuses %s: %s", what, said)
		f.Evidence = append(f.Evidence, ruleOfNamespace(c, r.Text)...)
	default:
		return nil
	}
	return []check.Finding{f}
}

// ruleOfNamespace is the annotation of the pod's namespace that an admission plugin of the API server goes by, where the words are of one.
func ruleOfNamespace(c *check.Case, text string) []facts.Evidence {
	for _, rule := range []struct{ words, key string }{
		{"conflict with its namespace whitelist", "scheduler.alpha.kubernetes.io/tolerationsWhitelist"}, // PodTolerationRestriction
		{"namespace node label selector", "scheduler.alpha.kubernetes.io/node-selector"},                // PodNodeSelector
	} {
		ns := place.Named(c.Namespaces, "", c.Pod.Namespace)
		if ns != nil && strings.Contains(text, rule.words) {
			return []facts.Evidence{{Object: facts.RefTo(ns).In(), Field: fmt.Sprintf("metadata.annotations[%q]", rule.key), Value: cmp.Or(ns.Annotations[rule.key], "absent")}}
		}
	}
	return nil
}

// policySeen is what the policy itself says, where it may be read: its expressions, and when the binding applies.
func policySeen(c *check.Case, r *life.Refusal) []facts.Evidence {
	var out []facts.Evidence
	for _, p := range c.ValidatingAdmissionPolicies {
		if p.Name != r.Name {
			continue
		}
		for i, v := range p.Spec.Validations {
			if len(p.Spec.Validations) == 1 || v.Message != "" && strings.Contains(r.Text, v.Message) {
				out = append(out, facts.Evidence{Object: facts.RefTo(p).In(), Field: fmt.Sprintf("spec.validations[%d].expression", i), Value: wording.Shortened(v.Expression, 300)})
			}
		}
	}
	for _, b := range c.ValidatingAdmissionPolicyBindings {
		if b.Name == r.Binding {
			out = append(out, facts.Evidence{Object: facts.RefTo(b).In(), Field: "spec.policyName", Value: b.Spec.PolicyName})
		}
	}
	return out
}

// webhookSeen is where the webhook is configured.
func webhookSeen(c *check.Case, name string) []facts.Evidence {
	for _, w := range webhooks(c.Facts) {
		if w.name == name {
			return []facts.Evidence{{Object: facts.RefTo(w.in).In(), Field: fmt.Sprintf("webhooks[%q].clientConfig", name), Value: w.server()}}
		}
	}
	return nil
}
