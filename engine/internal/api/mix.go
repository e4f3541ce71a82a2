package api

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// RequestMix is how often requests for GPUs of each kind were known, and which GPUs there were for them: what Packing priced
// goes by. There is one. A plan tells another when what is known is no longer much like it, so that a plan depends on nothing
// but what was told. Memory; lost harmlessly, it is then made of the pods that are known.
type RequestMix struct {
	Version  uint64        `json:"version"`
	Requests []RequestKind `json:"requests,omitempty"` // by GPUs, CPU and models
	Supply   []ModelSupply `json:"supply,omitempty"`   // by model
}

// RequestKind is a kind of request in a mix.
type RequestKind struct {
	GPUs   int64    `json:"gpus"`
	CPU    int64    `json:"cpu,omitempty"`    // thousandths of a core
	Models []string `json:"models,omitempty"` // that will do, sorted; nil: any
	Count  int64    `json:"count"`
}

// ModelSupply is how many GPUs of a model there are, free or not.
type ModelSupply struct {
	Model string `json:"model,omitempty"` // "": not known
	GPUs  int64  `json:"gpus"`
}

// Bounds of a mix. Sums over all of it stay within an int64, and a node is never weighed against more than these kinds.
const (
	MostRequestKinds  = 256
	MostMixedModels   = 63 // each has a bit, and one bit is that of all others
	MostMixedCount    = 1 << 20
	MostMixedGPUs     = 1 << 10 // of a request
	MostMixedCPU      = 1 << 24
	MostSuppliedOfOne = 1 << 24 // GPUs of a model
)

// mixKey is the key of the one mix.
const mixKey = "cluster"

func (m *RequestMix) Ref() Ref { return Ref{KindRequestMix, mixKey, m.Version} }

// Compare orders kinds of requests, whatever their counts.
func (k *RequestKind) Compare(o *RequestKind) int {
	return cmp.Or(cmp.Compare(k.GPUs, o.GPUs), cmp.Compare(k.CPU, o.CPU), slices.Compare(k.Models, o.Models))
}

// Alike says whether two mixes say the same, of whatever version.
func (m *RequestMix) Alike(o *RequestMix) bool {
	same := func(a, b RequestKind) bool { return a.Count == b.Count && a.Compare(&b) == 0 }
	return slices.EqualFunc(m.Requests, o.Requests, same) && slices.Equal(m.Supply, o.Supply)
}

func (m *RequestMix) Check() string {
	if len(m.Requests) > MostRequestKinds || len(m.Supply) > MostMixedModels {
		return fmt.Sprintf("%d kinds of requests for %d models: want at most %d and %d", len(m.Requests), len(m.Supply), MostRequestKinds, MostMixedModels)
	}
	for i := range m.Requests {
		k := &m.Requests[i]
		switch {
		case k.GPUs < 1 || k.GPUs > MostMixedGPUs || k.CPU < 0 || k.CPU > MostMixedCPU || k.Count < 1 || k.Count > MostMixedCount:
			return fmt.Sprintf("%d requests for %d GPUs and %d thousandths of a core: want up to %d, %d and %d", k.Count, k.GPUs, k.CPU, MostMixedCount, MostMixedGPUs, MostMixedCPU)
		case len(k.Models) > MostMixedModels || !ascending(k.Models, strings.Compare):
			return "the models of a request are not in order, or too many"
		case i > 0 && m.Requests[i-1].Compare(k) >= 0:
			return "its kinds of requests are not in order"
		}
	}
	for _, s := range m.Supply {
		if s.GPUs < 1 || s.GPUs > MostSuppliedOfOne {
			return fmt.Sprintf("%d GPUs of model %q: want 1 to %d", s.GPUs, s.Model, MostSuppliedOfOne)
		}
	}
	if !ascending(m.Supply, func(a, b ModelSupply) int { return strings.Compare(a.Model, b.Model) }) {
		return "its models are not in order"
	}
	return ""
}

// ascending says whether the list is sorted, each once.
func ascending[T any](list []T, compare func(a, b T) int) bool {
	for i := 1; i < len(list); i++ {
		if compare(list[i-1], list[i]) >= 0 {
			return false
		}
	}
	return true
}
