package convert

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/engine"
)

// required are the terms of which one must match; nil asks for nothing, none match nothing. A malformed term,
// which pods from before the API server looked may have, matches no node and hinders no other term: upstream
// sees it so. The empty term does the same.
func required(s *corev1.NodeSelector) []engine.Term {
	if s == nil {
		return nil
	}
	out := make([]engine.Term, len(s.NodeSelectorTerms))
	for i := range s.NodeSelectorTerms {
		if t := term(&s.NodeSelectorTerms[i]); t.Check() == nil {
			out[i] = t
		}
	}
	return out
}

// preferred leaves out what can make no difference.
func preferred(terms []corev1.PreferredSchedulingTerm) []engine.Preference {
	var out []engine.Preference
	for i := range terms {
		p := engine.Preference{Weight: terms[i].Weight, Term: term(&terms[i].Preference)}
		if p.Check() == nil {
			out = append(out, p)
		}
	}
	return out
}

func term(t *corev1.NodeSelectorTerm) engine.Term {
	return engine.Term{Labels: requirements(t.MatchExpressions), Fields: requirements(t.MatchFields)}
}

func requirements(rs []corev1.NodeSelectorRequirement) []engine.Requirement {
	var out []engine.Requirement
	for _, r := range rs {
		out = append(out, engine.Requirement{Key: r.Key, Op: engine.Op(r.Operator), Values: r.Values})
	}
	return out
}

// tolerations leaves out those that tolerate nothing.
func tolerations(ts []corev1.Toleration) []engine.Toleration {
	var out []engine.Toleration
	for _, t := range ts {
		got := engine.Toleration{Key: t.Key, Op: string(t.Operator), Value: t.Value, Effect: engine.Effect(t.Effect)}
		if got.Check() == nil {
			out = append(out, got)
		}
	}
	return out
}
