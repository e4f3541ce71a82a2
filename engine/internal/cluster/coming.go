package cluster

import (
	"slices"

	"github.com/berth-dev/berth/engine/internal/api"
)

// Places to come. A pod that is nominated to a node, or has a place held there, is not there yet, and others must keep the rules
// between pods as if it were: otherwise a pod that starts meanwhile takes the place from it by a rule, and its victims have
// been evicted in vain. Which pods come to a held place follows from what was told alone, so that a state that was loaded says
// the same.
// Package index asks node by node: there are few such places, and a node's number changes with them.

// FragileRule is a rule of known pods that others, which need not have it, can break for a pod before it comes: affinity by which
// the pod may be the first of those that it needs, once others of them are elsewhere, and a spread constraint. Anti-affinity needs
// none, for a Carrier says the same.
type FragileRule struct {
	Tally    *Tally // of the pods that can break it
	Topology string
	Spread   *api.Spread // nil: affinity
	key      string
	id       int32
	refs     int
}

// Has says whether the pod, wherever it comes to, has something to lose by the rule. Of affinity only a pod that may be the
// first has: for any other there must be pods that it needs, and more of them do no harm.
func (s *FragileRule) Has(p *Pod) bool {
	own := p.own()
	return own != nil && slices.Contains(own.Fragile, s) && (s.Spread != nil || s.Tally.Matches(p))
}

// Coming is how many pods for which is holds can come to the held place. Where it is not known which members of a gang will, each
// that asks for no more than is held may, and the number of pods that are held for bounds them.
func (m *Model) Coming(h *Hold, is func(*Pod) bool) int32 {
	var n int32
	m.EachComing(h, func(p *Pod) {
		if is(p) {
			n++
		}
	})
	if h.Certain {
		return n
	}
	return min(n, int32(max(1, min(h.Requests.Get(api.Pods), int64(len(h.who))))))
}

// EachComing visits the pods that can come to the held place, in no order.
func (m *Model) EachComing(h *Hold, visit func(*Pod)) {
	if !h.Certain && !h.listed {
		h.listed, h.who = true, m.comersTo(h)
	}
	for _, p := range h.who {
		visit(p)
	}
}

// Expect lets the pods, and no others, be those that come to the held place.
func (h *Hold) Expect(pods []*Pod) { h.Certain, h.who = true, pods }

// Join has the pods that come to the other place, which is held for the same workload on the same node, come to this one.
func (h *Hold) Join(o *Hold) {
	h.Certain, h.who = h.Certain && o.Certain, slices.Concat(h.who, o.who)
	h.listed = false
}

// Like is a hold as this one, which counts nowhere yet.
func (h *Hold) Like() *Hold { return &Hold{Hold: h.Hold, Certain: h.Certain, who: h.who} }

// comersTo lists the pods of the workload that wait, and those that are moved to the node, also of an owner, whose next pod need
// not exist yet.
func (m *Model) comersTo(h *Hold) []*Pod {
	if h.Gang == "" {
		return nil
	}
	var out []*Pod
	add := func(p *Pod) {
		waits := p.Node == "" && !p.Terminating && p.In != nil
		if !p.Foreign && (waits || m.movesTo(p, h.Node)) && !m.asksMore(p, h) {
			out = append(out, p)
		}
	}
	g, lone := m.Gangs[h.Gang], m.Pods[h.Gang]
	if g != nil {
		for _, p := range g.Members {
			add(p)
		}
	}
	if lone != nil && lone.Gang == "" {
		add(lone)
	}
	if g == nil && lone == nil {
		for _, p := range m.heirsOf(h.Gang) {
			add(p)
		}
	}
	return out
}

// heirsOf lists the pods by themselves that the owner made, in no order. The list costs a look at every pod. While something
// is held under the owner's key it is kept, and pods that come and go are entered in it.
func (m *Model) heirsOf(owner string) []*Pod {
	all, listed := m.heirs[owner]
	if listed || owner == "" {
		return all
	}
	//archtest:any-order in no order
	for _, p := range m.Pods {
		if p.inherits() == owner {
			all = append(all, p)
		}
	}
	if len(m.HoldsOf[owner]) > 0 {
		m.heirs[owner] = all
	}
	return all
}

// inherits is the key under which something may be held for whatever comes in place of the pod, besides its own; "": none.
func (p *Pod) inherits() string {
	if p.Pod == nil || p.Gang != "" || p.Foreign {
		return ""
	}
	return p.Owner
}

// inherit enters the pod among those of its owner, if they are listed.
func (m *Model) inherit(p *Pod) {
	if all, listed := m.heirs[p.inherits()]; listed {
		m.heirs[p.Owner] = append(all, p)
		m.repledge(p.Owner)
	}
}

// disinherit undoes inherit.
func (m *Model) disinherit(p *Pod) {
	if all, listed := m.heirs[p.inherits()]; listed {
		m.heirs[p.Owner] = slices.DeleteFunc(all, func(o *Pod) bool { return o == p })
		m.repledge(p.Owner)
	}
}

// Heir is the pod that says whose the held place is, where that is of no gang: the one of its key or, where it is held for
// what an owner makes again, one of those that the owner made, which are alike. nil: none is known.
func (m *Model) Heir(h *Hold) *Pod {
	if p := m.Pods[h.Gang]; p != nil && p.Gang == "" && !p.Foreign {
		return p
	}
	all := h.who
	if !h.Certain {
		all = m.heirsOf(h.Gang)
	}
	var heir *Pod
	for _, p := range all {
		if p.inherits() == h.Gang && (heir == nil || p.Key < heir.Key) {
			heir = p
		}
	}
	return heir
}

// movesTo says whether the pod is evicted so that its next one runs on the node.
func (m *Model) movesTo(p *Pod, node string) bool {
	e := m.EvictionOf(p)
	return p.Evicting && e != nil && e.To == node
}

// asksMore says whether the pod asks for more of something than is held of it.
func (m *Model) asksMore(p *Pod, h *Hold) bool {
	return slices.ContainsFunc(h.Requests, func(a api.Amount) bool {
		return a.Resource != api.Pods && p.Amount(m.Dims.ID(a.Resource)) > a.Value
	})
}

// expectAnew notes that others may come to what is held for the pod's workload: it is known now, gone, or has changed.
func (m *Model) expectAnew(p *Pod) {
	if len(m.HoldsOf) == 0 {
		return
	}
	for _, key := range [...]string{p.Key, p.Gang, p.Owner} {
		if key != "" {
			m.expectAnewFor(key)
		}
	}
}

func (m *Model) expectAnewFor(key string) {
	for _, h := range m.HoldsOf[key] {
		h.listed, h.who = false, nil
		//mutate: rules-other-pods-to-come
		if h.On != nil {
			m.touched(h.On)
		}
	}
}

// KeepsApart says whether required anti-affinity of one of the pods keeps it from the other, if they are on these nodes.
func KeepsApart(p *Pod, n *Node, q *Pod, o *Node) bool { return p.shuns(n, q, o) || q.shuns(o, p, n) }

func (p *Pod) shuns(n *Node, q *Pod, o *Node) bool {
	return slices.ContainsFunc(p.Rules().PodAntiAffinity, func(t api.PodTerm) bool {
		if n.Spec == nil || o.Spec == nil || !t.Selects(q.Namespace(), q.Labels) {
			return false
		}
		mine, has := n.Spec.Labels[t.Topology]
		theirs, have := o.Spec.Labels[t.Topology]
		return has && have && mine == theirs
	})
}
