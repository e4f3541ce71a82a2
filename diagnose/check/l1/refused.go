package l1

import (
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/supply"
	"github.com/berth-dev/berth/kube/dialect/karpenter"
)

// Refusal is what a provider answered when a machine was asked for.
type Refusal = supply.Refusal

// RefusedBy is the last refusal of machines of a NodePool, also of NodeClaims that are gone.
func RefusedBy(f *facts.Facts, p *karpenter.Pool) (Refusal, bool) { return supply.RefusedBy(f, p) }

// CauseOfRefusal is the cause for which a provider refused a machine with the text.
func CauseOfRefusal(text string) string { return supply.CauseOfRefusal(text) }
