package cluster

import (
	"github.com/berth-dev/berth/engine/internal/api"
)

// TermsOf returns what holds for the pod's workload over time.
func (m *Model) TermsOf(p *Pod) *api.Terms {
	if p.Gang == "" {
		return &p.Terms
	}
	if g := p.In; g != nil && g.Spec != nil {
		return &g.Spec.Terms
	}
	return &api.Terms{}
}

// bound keeps the list of placed pods whose workloads have a longest run time.
func (m *Model) bound(p *Pod, seated bool) {
	if !seated {
		if len(m.TimeLimited) > 0 {
			delete(m.TimeLimited, p)
		}
		return
	}
	if m.TermsOf(p).Max > 0 {
		if m.TimeLimited == nil {
			m.TimeLimited = make(map[*Pod]bool)
		}
		m.TimeLimited[p] = true
	}
}
