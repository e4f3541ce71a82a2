package cluster

import (
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// Pod is a pod and where it sits.
type Pod struct {
	*api.Pod
	Demands []quantity.Demand
	Counted []quantity.Demand // Demands as accounts of queues count them; parts of GPUs aside
	In      *Gang             // nil when it is rejected, or alone and placed
	Shape   *Shape

	// Host is the node whose room it takes: bound there, assumed there, or put there by the plan that
	// is being made. nil: none.
	Host        *Node
	HostDevices []string
	Nominee     *Node // nominated there, while it has no allocation

	Evicting bool              // an Eviction says that it is to end
	Payer    *Queue            // whose account its allocation is charged to; nil: it has none, or is another scheduler's
	Slot     int               // in payer.pods
	ends     int               // one more than its place in Model.Ending; 0: nothing says when it ends
	going    bool              // it counts in payer.going
	rankedAt int32             // in payer.ranks
	Charge   []quantity.Demand // what it is booked with
	surplus  int64             // by how much its GPUs count for more than their number

	kind *requestKind // that it counts in; nil: it asks for no GPU

	seen *seen // by rules between pods; all pods that nothing is known of share one. nil: it is no pod of the model
}

// Amount returns what the pod asks of one dimension.
func (p *Pod) Amount(dim int) int64 {
	for _, d := range p.Demands {
		if d.Dim == dim {
			return d.Amount
		}
	}
	return 0
}

// counts says whether the pod counts towards its gang: it is not on its way out.
func (p *Pod) counts() bool { return !p.Leaving() }

// Leaving says whether the pod is on its way out.
func (p *Pod) Leaving() bool { return p.Terminating || p.Evicting }

// Waits says whether the pod is to be placed.
func (p *Pod) Waits() bool { return p.Host == nil && !p.Terminating && !p.Foreign }

// ComparePods orders the members of a gang.
func ComparePods(a, b *Pod) int {
	if a.Rank != b.Rank {
		if a.Rank < b.Rank {
			return -1
		}
		return 1
	}
	return strings.Compare(a.Key, b.Key)
}

// SetPod takes in a new version of a pod; p is nil for a pod not known yet.
func (m *Model) SetPod(p *Pod, got *api.Pod) {
	bad := m.IsRejected(api.KindPod, got.Key)
	switch {
	case p == nil:
		p = &Pod{}
		m.Pods[got.Key] = p
	case p.In != nil && p.In.Lone == nil && p.Gang == got.Gang && !got.Foreign && !bad:
		m.unassign(p)
		m.become(p, got)
		m.assign(p)
		m.weigh(p)
		m.markStale(p.In)
		m.expectAnew(p)
		return
	default:
		m.leave(p)
		m.disinherit(p)
		m.expectAnew(p)
	}
	m.become(p, got)
	m.expectAnew(p)
	m.repledge(got.Key)
	m.inherit(p)
	if !bad {
		m.join(p)
	}
}

func (m *Model) become(p *Pod, got *api.Pod) {
	m.disown(p)
	m.Asked.drop(p)
	p.Pod, p.Shape = got, nil
	p.Demands, p.Counted = m.requests.demands(m.Dims, got.Requests)
	if !m.IsRejected(api.KindPod, got.Key) {
		m.adopt(p)
		//mutate: index-requests
		m.Asked.add(p, m.Dims)
	}
}

// RemovePod forgets the pod.
func (m *Model) RemovePod(p *Pod) {
	m.leave(p)
	m.disown(p)
	m.Asked.drop(p)
	delete(m.Pods, p.Key)
	m.repledge(p.Key)
	m.disinherit(p)
	m.expectAnew(p)
}

// join allocates the pod where it belongs and enters it in its gang.
func (m *Model) join(p *Pod) {
	switch {
	case p.Foreign:
	case p.Gang != "":
		p.In = m.gangNamed(p.Gang)
		p.In.Members = append(p.In.Members, p)
	case p.Node == "":
		p.In = &Gang{Key: p.Key, Lone: p}
		p.In.Single.Pods[0] = p
	}
	m.assign(p)
	m.weigh(p)
	if p.In != nil {
		m.markStale(p.In)
	}
}

// leave undoes join.
func (m *Model) leave(p *Pod) {
	m.unassign(p)
	m.weigh(p)
	g := p.In
	if g == nil {
		return
	}
	p.In = nil
	m.markStale(g)
	if g.Lone != nil {
		g.Lone = nil
		return
	}
	g.Members = slices.DeleteFunc(g.Members, func(o *Pod) bool { return o == p })
	m.forgetGang(g)
}

// assign gives the pod the allocation that its own record, or else an assumption, says it has.
func (m *Model) assign(p *Pod) {
	p.Evicting = m.isEvicting(p)
	if p.Node != "" {
		m.occupy(p, m.NodeNamed(p.Node), p.Devices)
		return
	}
	switch a := m.Assumptions[p.Key]; {
	case p.Terminating:
	case a != nil && !p.Foreign && a.UID == p.UID && !m.IsRejected(api.KindAssumption, p.Key):
		m.occupy(p, m.NodeNamed(a.Node), a.Devices)
	case p.Nominated != "":
		m.nominate(p, m.NodeNamed(p.Nominated))
	}
}

// isEvicting says whether an eviction of this very pod is under way. One that is bound nowhere has nothing to give up.
func (m *Model) isEvicting(p *Pod) bool {
	if len(m.Evictions) == 0 || p.Node == "" {
		return false
	}
	e := m.EvictionOf(p)
	return e != nil && !e.Refused && !m.IsRejected(api.KindEviction, p.Key)
}

// EvictionOf is the eviction of this very pod that the model knows, nil for none. One of an earlier pod of the same name, which its
// UID tells, says nothing about this one.
func (m *Model) EvictionOf(p *Pod) *api.Eviction {
	if e := m.Evictions[p.Key]; e != nil && e.UID == p.UID {
		return e
	}
	return nil
}

// reassign allocates the pod, nil allowed, anew, after an eviction of it was decided or given up.
func (m *Model) reassign(p *Pod) {
	if p == nil || m.IsRejected(api.KindPod, p.Key) {
		return
	}
	m.unassign(p)
	m.assign(p)
	m.expectAnew(p)
	if p.In != nil {
		m.markStale(p.In)
	}
}

// unassign undoes assign. What it takes back was booked by what the pod was, so that the pod is as it was until then.
func (m *Model) unassign(p *Pod) {
	n := p.Host
	if n != nil {
		m.vacate(p)
	} else if n = p.Nominee; n != nil {
		m.denominate(p)
	}
	p.Evicting = false
	if n != nil && n.Told == nil {
		m.forgetNode(n)
	}
}

// reassignUnbound allocates the pod anew, after an assumption about it changed. A pod that is not known, or bound, is
// left alone.
func (m *Model) reassignUnbound(p *Pod) {
	if p == nil || p.Node != "" || m.IsRejected(api.KindPod, p.Key) {
		return
	}
	m.unassign(p)
	m.assign(p)
	if p.In != nil {
		m.markStale(p.In)
	}
}

// Assumed returns the assumption that the pod sits by, nil if it does not.
func (m *Model) Assumed(p *Pod) *api.Assumption {
	if p.Host == nil || p.Node != "" {
		return nil
	}
	return m.Assumptions[p.Key]
}

// occupy lets the pod take its room on the node.
func (m *Model) occupy(p *Pod, n *Node, devices []string) {
	p.Host, p.HostDevices = n, devices
	p.moved()
	n.Pods = append(n.Pods, p)
	m.account(p, n, 1)
	m.count(p, n, 1)
	n.grip(p, 1)
	m.holdFar(n, p.HostDevices, 1)
	m.charge(p)
	//mutate: index-touch-on-occupy
	m.touched(n)
}

// vacate undoes occupy.
func (m *Model) vacate(p *Pod) {
	n := p.Host
	m.uncharge(p)
	n.grip(p, -1)
	m.holdFar(n, p.HostDevices, -1)
	m.count(p, n, -1)
	m.account(p, n, -1)
	last := len(n.Pods) - 1
	n.Pods[slices.Index(n.Pods, p)] = n.Pods[last]
	n.Pods = n.Pods[:last]
	p.Host, p.HostDevices = nil, nil
	p.moved()
	//mutate: index-touch-on-vacate
	m.touched(n)
}

// moved counts a change of the pod's allocation with its gang.
func (p *Pod) moved() {
	if p.In != nil {
		//mutate: index-gang-moves
		p.In.Moves++
	}
}

// account books what the pod takes, once more or once less, on the node.
func (m *Model) account(p *Pod, n *Node, times int64) {
	if times > 0 {
		p.surplus = m.surplusOf(p)
	}
	//mutate: index-surplus
	m.Surplus += times * p.surplus
	for _, d := range p.Demands {
		n.Free.Add(d.Dim, -times*d.Amount)
		m.Taken.Add(d.Dim, times*d.Amount)
		if p.canGo() {
			//mutate: index-evictable
			n.Yield.Add(d.Dim, times*d.Amount)
		}
	}
}

// canGo says whether what the pod takes may become free for another: it may be evicted, or is on its way out.
func (p *Pod) canGo() bool { return p.Evictable || p.Leaving() }

// nominate lets the pod count against others of the same or lower priority on the node.
func (m *Model) nominate(p *Pod, n *Node) {
	p.Nominee = n
	n.Nominated = append(n.Nominated, p)
	//mutate: index-touch-on-nomination
	m.touched(n)
}

// denominate undoes nominate.
func (m *Model) denominate(p *Pod) {
	n := p.Nominee
	n.Nominated = slices.DeleteFunc(n.Nominated, func(o *Pod) bool { return o == p })
	p.Nominee = nil
	m.touched(n)
}

// hold takes the hold's amounts from its node.
func (m *Model) hold(h *Hold) {
	h.On = m.NodeNamed(h.Node)
	m.reserve(h, 1)
}

// unhold gives them back.
func (m *Model) unhold(h *Hold) {
	if h.On == nil {
		return
	}
	m.reserve(h, -1)
	n := h.On
	h.On = nil
	if n.Told == nil {
		m.forgetNode(n)
	}
}

// reserve lets the hold count on its node and in its queue or, with times = -1, not count.
func (m *Model) reserve(h *Hold, times int64) {
	if times > 0 {
		h.On.Held = append(h.On.Held, h)
	} else {
		h.On.Held = slices.DeleteFunc(h.On.Held, func(o *Hold) bool { return o == h })
	}
	for _, a := range h.Requests {
		h.On.Free.Add(m.Dims.ID(a.Resource), -times*a.Value)
	}
	h.On.keep(h, int32(times))
	m.holdFar(h.On, h.Devices, int32(times))
	m.pledge(h, times)
	//mutate: index-touch-on-hold
	m.touched(h.On)
}

// Live says whether a memory that lasts until the given time still counts.
func Live(until, now time.Time) bool { return now.Before(until) }

// requestCache shares the demands of pods with the same requests: there are few kinds of them.
type requestCache [64]struct {
	requests api.Resources
	demands  []quantity.Demand
	counted  []quantity.Demand
}

func (c *requestCache) demands(d *quantity.Dims, r api.Resources) (demands, asCounted []quantity.Demand) {
	var sum int64
	for _, a := range r {
		sum = sum*31 + a.Value + int64(len(a.Resource))
	}
	e := &c[uint64(sum)*0x9e3779b97f4a7c15>>58]
	if e.demands == nil || !slices.Equal(e.requests, r) {
		e.requests, e.demands = r, d.Demands(r)
		e.counted = counted(e.demands)
	}
	return e.demands, e.counted
}

// Hold is a Hold and, while it counts, the node whose room it takes.
type Hold struct {
	*api.Hold
	On     *Node
	Payer  *Queue            // in whose account it is pledged; nil: in none
	Charge []quantity.Demand // what it is pledged with there; the same is taken back
	Kept   []Kept            // what it keeps of the node's devices, where its Cards do not say so

	// Who comes; see coming.go.
	who     []*Pod
	listed  bool // who is as told
	Certain bool // who is as Expect said
}

// AsksModel says whether the pod names GPU models.
func (p *Pod) AsksModel() bool { return len(p.GPU.Models) > 0 && p.HasGPU() }

// HasGPU says whether the pod asks for GPUs or for parts of some.
func (p *Pod) HasGPU() bool { return p.Part != nil || p.Amount(quantity.DimGPU) > 0 }

// gpus is how many GPUs the pod has, whole or in part.
func (p *Pod) gpus() int64 {
	if p.Part != nil {
		return int64(p.Part.Cards)
	}
	return p.Amount(quantity.DimGPU)
}

// GPUModel returns the GPU model that the pod runs on, "" where that is not known.
func (p *Pod) GPUModel() string {
	for _, id := range p.HostDevices {
		if i := p.Host.DeviceIndex(id); i >= 0 {
			return p.Host.Devices[i].Model
		}
	}
	if models := p.Host.Models; len(models) == 1 {
		return models[0]
	}
	return ""
}

// Stays says whether the pod has a node and does not end by itself, as far as anybody knows.
func (p *Pod) Stays(m *Model) bool {
	if p.Node == "" || p.Terminating || m.IsRejected(api.KindPod, p.Key) {
		return false
	}
	t := m.TermsOf(p)
	return p.Foreign || p.Endless && t.Expected == 0 && t.Max == 0
}

// IsFor says whether the place is held for the gang.
func (h *Hold) IsFor(g *Gang) bool {
	return h.Gang == g.Key || g.Lone != nil && g.Lone.Owner != "" && h.Gang == g.Lone.Owner
}
