package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// Queue is a queue, where it is in the tree, and its account. Every allocation of a pod is booked twice: on its node, and
// here; what a pod was booked with is kept with the pod, so that the same is taken back.
type Queue struct {
	Name string
	Spec *api.Queue // nil: named by workloads, but not known

	Parent       *Queue          // nil: at the top
	Depth        int             // how many are above it
	Children     []*Queue        // by name
	Quota        quantity.Vector // what it is promised
	Unrestricted bool            // it and those above it ask nothing of work that may be evicted
	Problem      string          // why it cannot be in the tree: an unknown parent, a circle
	flavors      []flavorGroup   // by which its amounts count apart

	// Of its workloads and those of the queues below it: what they hold, how much of it by pods on their way
	// out, and what is held for them on nodes.
	// firm is what of it cannot be asked back: by pods that may not be evicted.
	Used, Leaving, Pledged, Firm quantity.Vector

	Pods    []*Pod                     // its own placed pods, in no order
	ranks   []rankCount                // its own placed pods that may be evicted, by priority in no order: a queue has few
	Owned   int                        // of those, how many have an owner that makes them again
	Leavers int                        // its own placed pods that are on their way out
	Fair    quantity.Vector            // its fair share, as of the cycle
	Asked   quantity.Vector            // what its own workloads in line lack, as of the cycle
	Wanted  quantity.Vector            // the same, as of what was told
	Users   map[string]quantity.Vector // what each user of its own workloads holds; nil: it does not matter
	Epoch   uint64                     // goes up when pods change

	Followed  bool       // changes of its pods are noted in Changes
	Changes   []Workload // that came, changed or went since they were last asked for, some more than once
	Counted   int        // workloads of pods, when epoch was countedAt
	CountedAt uint64
}

// Tree is what follows from all queues together.
type Tree struct {
	Version  uint64          // goes up when it is worked out anew
	Stale    bool            // queues changed: parents, accounts and the rest have to be worked out anew
	Top      []*Queue        // by name
	Promised quantity.Vector // by dimension: not 0 where some queue has a quota above 0
	// PromisedDims lists those dimensions: pods and GPUs first, the others by name. In this order reasons are told, so that
	// they do not depend on the order in which resources were heard of.
	PromisedDims []int
	ByModel      bool     // amounts depend on GPU models
	Flavored     bool     // amounts depend on flavors of nodes
	Idle         []*Queue // that give back GPUs which do nothing, by name
	Lends        bool     // some queue keeps unused quota to itself
	Strict       bool     // in some queue no workload is passed
	Shared       []int    // the dimensions that fair shares are of
	rated        int64    // GPUs of all nodes, at their models' rates; 0: to be worked out
	Warnings     []api.Rejected
}

// QueueNamed returns the queue of the name, nil for "". One that is not known is in the tree too: what its workloads hold is
// in no queue's quota, and others may ask for it.
func (m *Model) QueueNamed(name string) *Queue {
	if name == "" {
		return nil
	}
	q := m.Queues[name]
	if q == nil {
		q = &Queue{Name: name}
		m.Queues[name] = q
		m.plant(q)
	}
	return q
}

// plant enters a queue of which the name alone is known in the tree, unless that is made anew anyway.
func (m *Model) plant(q *Queue) {
	f := &m.Tree
	//mutate: tree-named-queue
	if !f.Stale {
		at, _ := slices.BinarySearchFunc(f.Top, q.Name, func(q *Queue, name string) int { return strings.Compare(q.Name, name) })
		f.Top = slices.Insert(f.Top, at, q)
		f.Version++
	}
}

// QueueOf returns the queue that the pod is charged to, nil for none.
func (m *Model) QueueOf(p *Pod) *Queue {
	if p.Foreign {
		return nil
	}
	if p.Gang == "" {
		return m.QueueNamed(p.Queue)
	}
	if g := p.In; g != nil && g.Spec != nil {
		return m.QueueNamed(g.Spec.Queue)
	}
	return nil
}

// PackingOf is how the gang's queue, or the next one above it that says so, has nodes chosen; "": none of them says.
func (m *Model) PackingOf(g *Gang) api.Packing {
	name := ""
	switch {
	case g.Lone != nil:
		name = g.Lone.Queue
	case g.Spec != nil:
		name = g.Spec.Queue
	}
	for q := m.Queues[name]; q != nil; q = q.Parent {
		if q.Spec != nil && q.Spec.Packing != "" {
			return q.Spec.Packing
		}
	}
	return ""
}

// UserOf returns whose workload the pod is of.
func (m *Model) UserOf(p *Pod) string {
	if p.Gang == "" {
		return p.User
	}
	if g := p.In; g != nil && g.Spec != nil {
		return g.Spec.User
	}
	return ""
}

// charge enters a pod that has an allocation in its queue's account, and in those above it. Workloads without a queue have an
// account too, which has their pods and what is held for them, but no sums of what they hold.
func (m *Model) charge(p *Pod) {
	//mutate: index-pods-that-end
	if m.endsByItself(p) {
		m.Ending = append(m.Ending, p)
		p.ends = len(m.Ending)
	}
	if p.Foreign {
		return
	}
	q := m.QueueOf(p)
	if q == nil {
		q = &m.Unqueued
	}
	m.bound(p, true)
	p.Payer, p.Slot = q, len(q.Pods)
	q.rank(p, 1)
	if p.going = p.Leaving(); p.going {
		q.Leavers++
	}
	q.Pods = append(q.Pods, p)
	q.Epoch++
	m.report(q, p)
	if q == &m.Unqueued {
		return
	}
	p.Charge = m.chargeOf(p)
	q.enter(p, 1)
	if q.Users != nil {
		q.chargeUser(m.UserOf(p), p.Charge, 1)
	}
}

// endsByItself says whether something says when the pod ends: it is on its way out, or its terms do. Of work that is not
// ours the terms are not known.
func (m *Model) endsByItself(p *Pod) bool {
	t := m.TermsOf(p)
	return p.Leaving() || !p.Foreign && (t.Expected > 0 || t.Max > 0 || t.Like != "")
}

// endsNot takes the pod off those of which something says when they end, if it is one.
func (m *Model) endsNot(p *Pod) {
	if p.ends == 0 {
		return
	}
	last := m.Ending[len(m.Ending)-1]
	m.Ending[p.ends-1], last.ends = last, p.ends
	m.Ending, p.ends = m.Ending[:len(m.Ending)-1], 0
}

// rank counts a pod that may be evicted among those of its priority.
func (q *Queue) rank(p *Pod, by int) {
	if !p.Evictable {
		return
	}
	if p.Owner != "" {
		q.Owned += by
	}
	if by > 0 {
		p.rankedAt = p.Priority
		if p.In != nil && p.In.Spec != nil {
			p.rankedAt = p.In.Spec.Priority
		}
	}
	at := slices.IndexFunc(q.ranks, func(r rankCount) bool { return r.priority == p.rankedAt })
	if at < 0 {
		q.ranks = append(q.ranks, rankCount{p.rankedAt, by})
		return
	}
	if q.ranks[at].pods += by; q.ranks[at].pods == 0 {
		q.ranks = slices.Delete(q.ranks, at, at+1)
	}
}

// rankCount is how many pods have a priority.
type rankCount struct {
	priority int32
	pods     int
}

// Outranks says whether the queue has work of its own that may be evicted, of a lower priority.
func (q *Queue) Outranks(priority int32) bool {
	return slices.ContainsFunc(q.ranks, func(r rankCount) bool { return r.priority < priority })
}

// uncharge takes the same back.
func (m *Model) uncharge(p *Pod) {
	m.endsNot(p)
	q := p.Payer
	if q == nil {
		return
	}
	m.bound(p, false)
	q.rank(p, -1)
	if p.going {
		p.going = false
		q.Leavers--
	}
	last := len(q.Pods) - 1
	q.Pods[p.Slot] = q.Pods[last]
	q.Pods[p.Slot].Slot = p.Slot
	q.Pods = q.Pods[:last]
	q.Epoch++
	m.report(q, p)
	p.Payer = nil
	if q == &m.Unqueued {
		return
	}
	q.enter(p, -1)
	if q.Users != nil {
		q.chargeUser(m.UserOf(p), p.Charge, -1)
	}
	p.Charge = nil
}

// mostChanges is how many changes of a queue's pods are kept for a follower (Queue.Followed): beyond that it looks at all of
// them.
const mostChanges = 1024

// report notes for a follower of the queue that a pod of it came, changed or went. What is tried out and undone at once
// does not count.
func (m *Model) report(q *Queue, p *Pod) {
	if !q.Followed || m.Trying {
		return
	}
	if len(q.Changes) > mostChanges+len(q.Pods) {
		q.unfollow()
		return
	}
	//mutate: index-roster
	if l := WorkloadOf(p); l != (Workload{}) {
		q.Changes = append(q.Changes, l)
	}
}

// Workload is whose allocations those of a pod are: a gang's, or those of a pod by itself.
type Workload struct {
	Gang *Gang
	Pod  *Pod
}

func WorkloadOf(p *Pod) Workload {
	if p.Gang == "" {
		return Workload{Pod: p}
	}
	return Workload{Gang: p.In}
}

// unfollow has a follower of the queue look at all of its pods again.
func (q *Queue) unfollow() { q.Followed, q.Changes = false, nil }

// rechargeOn books the pods on the node again, whose GPUs may be of another model than before.
func (m *Model) rechargeOn(n *Node, old *api.Node) {
	m.Tree.rated = 0
	//mutate: index-slices-of-occupants -> false
	resliced := !slices.Equal(slicesOf(old), slicesOf(n.Spec))
	for _, p := range n.Pods {
		//mutate: index-flavor-of-occupants -> !m.Tree.ByModel && !p.inParts() && !resliced
		if !m.Tree.ByModel && !m.Tree.Flavored && !p.inParts() && !resliced {
			continue
		}
		if p.Payer != nil {
			m.uncharge(p)
			m.charge(p)
		}
		m.revalue(p)
	}
	for _, h := range n.Held {
		if m.Tree.ByModel || m.Tree.Flavored || len(h.Cards) > 0 || h.Claimed > 0 || resliced {
			m.pledge(h, -1)
			m.pledge(h, 1)
		}
	}
}

// repledge pledges what is held for the workload again: another queue may pay for it now.
func (m *Model) repledge(key string) {
	for _, h := range m.HoldsOf[key] {
		if h.On != nil {
			m.pledge(h, -1)
			m.pledge(h, 1)
		}
	}
}

// enter moves the accounts of the queue and of those above it by the pod's charge.
func (q *Queue) enter(p *Pod, times int64) {
	for ; q != nil; q = q.Parent {
		for _, d := range p.Charge {
			//mutate: index-queue-usage
			q.Used.Add(d.Dim, times*d.Amount)
			if p.Leaving() {
				q.Leaving.Add(d.Dim, times*d.Amount)
			}
			if p.Firm() {
				q.Firm.Add(d.Dim, times*d.Amount)
			}
		}
	}
}

// Firm says whether the pod can never be asked back: it may not be evicted, or is of the part of its gang that may not.
func (p *Pod) Firm() bool {
	if !p.Evictable {
		return true
	}
	if p.In == nil || p.In.Spec == nil || !p.In.Spec.Core {
		return false
	}
	least := p.In.Spec.Min
	return least == 0 || p.Rank < least
}

// Committed is what the queue's workloads hold and will hold once those on their way out are gone and holds taken.
func (q *Queue) Committed(dim int) int64 {
	return q.Used.At(dim) - q.Leaving.At(dim) + q.Pledged.At(dim)
}

// pledge enters what is held for a workload in its queue's account, or takes it back.
func (m *Model) pledge(h *Hold, times int64) {
	if times > 0 {
		h.Payer = m.payerOf(h)
		h.Charge = m.chargeOfHold(h)
	}
	q := h.Payer
	if q == nil {
		//mutate: pledge-unqueued
		q = &m.Unqueued
	}
	for ; q != nil; q = q.Parent {
		for _, d := range h.Charge {
			q.Pledged.Add(d.Dim, times*d.Amount)
		}
	}
}

// ChargesOf is what the pods are charged, together.
func ChargesOf(pods []*Pod) (sum quantity.Vector) {
	for _, p := range pods {
		for _, d := range p.Charge {
			sum.Add(d.Dim, d.Amount)
		}
	}
	return sum
}

// ChargesAt is what the pods count where they are, together, as queues count it: those without a queue too.
func (m *Model) ChargesAt(pods []*Pod) (sum quantity.Vector) {
	for _, p := range pods {
		for _, d := range m.chargeOf(p) {
			sum.Add(d.Dim, d.Amount)
		}
	}
	return sum
}

// OfModel says whether the dimension is of one GPU model; how much of that there is in all is not counted.
func (m *Model) OfModel(dim int) bool {
	return strings.HasPrefix(m.Dims.Names[dim], m.Config.GPU+"@")
}

// PledgedBy is what the holds that stand keep at the cost of the queue.
func (m *Model) PledgedBy(holds []*Hold, payer *Queue) (sum quantity.Vector) {
	for _, h := range holds {
		if h.On == nil || h.Payer != payer {
			continue
		}
		for _, d := range h.Charge {
			sum.Add(d.Dim, d.Amount)
		}
	}
	return sum
}

// Awaiting returns the workload that a place held under the key is for, nil for none that is known.
func (m *Model) Awaiting(key string) *Gang {
	if g := m.Gangs[key]; g != nil {
		return g
	}
	if p := m.Pods[key]; p != nil {
		return p.In
	}
	return nil
}

// IsBelow says whether the queue is z, or one below it.
func (q *Queue) IsBelow(z *Queue) bool {
	for ; q != nil; q = q.Parent {
		if q == z {
			return true
		}
	}
	return false
}

// payerOf returns the queue that pays for a held place, that of the gang or of the pod by itself which it is for; nil: none.
func (m *Model) payerOf(h *Hold) *Queue {
	if g := m.Gangs[h.Gang]; g != nil && g.Spec != nil {
		return m.QueueNamed(g.Spec.Queue)
	}
	//mutate: pledge-heirs
	if p := m.Heir(h); p != nil {
		return m.QueueNamed(p.Queue)
	}
	return nil
}

func (q *Queue) chargeUser(user string, charge []quantity.Demand, times int64) {
	v := q.Users[user]
	for _, d := range charge {
		v.Add(d.Dim, times*d.Amount)
	}
	q.Users[user] = v
}

// Rate is how much one GPU of the model counts.
func (m *Model) Rate(model string) int64 {
	model = api.CountedModel(model)
	for _, r := range m.Config.Rates {
		if r.Model == model {
			return r.Units
		}
	}
	return 1
}

// Valid says whether the queue exists and makes sense.
func (m *Model) Valid(q *Queue) bool {
	return q != nil && q.Spec != nil && q.Problem == "" && !m.IsRejected(api.KindQueue, q.Name)
}

// Rebuild works out what follows from all queues together, if one of them changed: the tree, and from scratch all
// accounts.
func (m *Model) Rebuild() {
	f := &m.Tree
	if !f.Stale {
		return
	}
	*f = Tree{ByModel: len(m.Config.Rates) > 0, Version: f.Version + 1}
	for _, q := range m.Queues {
		q.Parent, q.Children, q.Problem, q.Users, q.Quota, q.flavors = nil, nil, "", nil, nil, nil
		if q.Spec != nil && (q.Spec.FairUsers || len(q.Spec.UserLimits) > 0) {
			q.Users = make(map[string]quantity.Vector)
		}
	}
	for _, name := range SortedKeys(m.Queues) {
		m.findParent(m.Queues[name])
	}
	for _, name := range SortedKeys(m.Queues) {
		q := m.Queues[name]
		if q.Parent == nil {
			f.Top = append(f.Top, q)
		} else {
			q.Parent.Children = append(q.Parent.Children, q)
		}
		m.readAmounts(q)
	}
	f.PromisedDims = nil
	for dim, promised := range f.Promised {
		if promised > 0 {
			f.PromisedDims = append(f.PromisedDims, dim)
		}
	}
	slices.SortFunc(f.PromisedDims, func(a, b int) int {
		return cmp.Or(cmp.Compare(min(a, quantity.DimGPU+1), min(b, quantity.DimGPU+1)), strings.Compare(m.Dims.Names[a], m.Dims.Names[b]))
	})
	for _, name := range SortedKeys(m.Queues) {
		m.warnOfPromises(m.Queues[name])
	}
	for _, q := range m.Queues {
		q.Unrestricted, q.Depth = true, 0
		for up := q.Parent; up != nil; up = up.Parent {
			q.Depth++
		}
		for up := q; up != nil; up = up.Parent {
			q.Unrestricted = q.Unrestricted && m.Valid(up) && len(up.Spec.Limits)+len(up.Spec.UserLimits)+len(up.Spec.Budgets)+up.Spec.MaxRunning == 0 && up.Spec.Stop == ""
		}
		q.Unrestricted = q.Unrestricted && q.Spec.Namespaces == nil
	}
	m.recount()
	for _, q := range m.Queues {
		q.Wanted = nil
	}
	for _, g := range m.stale {
		g.lacks, g.wantedOf = false, nil // it is counted with its next tally, if it is still there
	}
	//archtest:any-order a sum for each queue
	for _, g := range m.Gangs {
		m.wantAgain(g)
	}
	//archtest:any-order a sum for each queue
	for _, p := range m.Pods {
		if p.In != nil && p.In.Lone == p {
			m.wantAgain(p.In)
		}
	}
}

// findParent finds the queue's parent, or why it has none.
func (m *Model) findParent(q *Queue) {
	if q.Spec == nil || q.Spec.Parent == "" || m.IsRejected(api.KindQueue, q.Name) {
		return
	}
	up := m.Queues[q.Spec.Parent]
	if up == nil || up.Spec == nil || m.IsRejected(api.KindQueue, up.Name) {
		q.Problem = fmt.Sprintf("parent: there is no queue %s", q.Spec.Parent)
		return
	}
	for at, steps := up, 0; at != nil && at.Spec != nil && at.Spec.Parent != ""; steps++ {
		if at == q || steps > len(m.Queues) {
			q.Problem = fmt.Sprintf("parent: %s is below it, or in a circle itself", q.Spec.Parent)
			return
		}
		at = m.Queues[at.Spec.Parent]
	}
	q.Parent = up
}

// readAmounts notes which resources are promised, and whether models matter.
func (m *Model) readAmounts(q *Queue) {
	if !m.Valid(q) {
		return
	}
	f := &m.Tree
	for _, a := range q.Spec.Quota {
		dim, amount := m.Booked(a)
		//mutate: promised-above-zero -> true
		if amount > 0 {
			f.Promised.Add(dim, 1)
		}
		q.Quota.Add(dim, amount)
	}
	m.compileFlavors(q)
	f.Lends = f.Lends || len(q.Spec.Lend) > 0
	f.Strict = f.Strict || q.Spec.Strict
	if q.Spec.ReclaimIdle > 0 {
		f.Idle = append(f.Idle, q)
	}
	for _, list := range []api.Resources{q.Spec.Quota, q.Spec.Limits, q.Spec.Lend, q.Spec.UserLimits} {
		for _, a := range list {
			f.ByModel = f.ByModel || strings.HasPrefix(a.Resource, m.Config.GPU+"@")
		}
	}
	for _, b := range q.Spec.Budgets {
		//mutate: budget-of-model
		f.ByModel = f.ByModel || strings.HasPrefix(b.Resource, m.Config.GPU+"@")
	}
}

// warnOfPromises notes where the queues below promise more than this one has to give.
func (m *Model) warnOfPromises(q *Queue) {
	if !m.Valid(q) || len(q.Children) == 0 {
		return
	}
	for _, a := range q.Spec.Quota.Sorted() {
		dim := m.Dims.ID(a.Resource)
		has, sum := q.Quota.At(dim), int64(0)
		for _, c := range q.Children {
			sum += c.Quota.At(dim)
		}
		if sum > has {
			m.Tree.Warnings = append(m.Tree.Warnings, api.Rejected{
				Ref:    api.Ref{Kind: api.KindQueue, Key: q.Name, Version: q.Spec.Version},
				Reason: fmt.Sprintf("the queues below it are promised %s of %s, and it has %s", api.NumberOf(m.Told(dim, sum)), a.Resource, api.NumberOf(m.Told(dim, has))),
			})
		}
	}
}

// Warnings lists queues that work and yet promise what they may not be able to keep, by name.
func (m *Model) Warnings() []api.Rejected {
	m.Rebuild()
	return slices.Clone(m.Tree.Warnings)
}

// recount makes all accounts anew from the pods that have allocations.
func (m *Model) recount() {
	//archtest:any-order each by itself
	for _, q := range m.Queues {
		q.Used, q.Leaving, q.Pledged, q.Firm, q.Pods, q.ranks = nil, nil, nil, nil, nil, nil
		q.Owned, q.Leavers = 0, 0
		q.Epoch++
		q.unfollow()
	}
	m.Unqueued.Pods, m.Unqueued.ranks, m.Unqueued.Owned, m.Unqueued.Leavers, m.Unqueued.Pledged = nil, nil, 0, 0, nil
	m.Unqueued.unfollow()
	//archtest:any-order sums are the same in any order
	for _, h := range m.Holds {
		if h.On != nil {
			m.pledge(h, 1)
		}
	}
	m.Ending = nil
	//archtest:any-order sums; the pods of a queue are in no order
	for _, p := range m.Pods {
		p.ends = 0
		if p.Host != nil {
			m.charge(p)
			m.revalue(p)
		}
	}
}

// Quota is what the queue is promised of the dimension.
func (m *Model) Quota(q *Queue, dim int) int64 { return q.Quota.At(dim) }

// Covers says whether the queue's quota is about the dimension at all: else what its workloads hold of it is neither
// promised nor borrowed.
func (m *Model) Covers(q *Queue, dim int) bool {
	name := m.Dims.Names[dim]
	if q.Spec == nil || !q.Spec.DevicesOnly || dim == quantity.DimGPU || strings.Contains(name, "/") {
		return true
	}
	return slices.ContainsFunc(q.Spec.Quota, func(a api.Amount) bool { return a.Resource == name })
}

// Trouble says why the queue, or one above it, cannot be in the tree; "": it can.
func (q *Queue) Trouble() string {
	for up := q; up != nil; up = up.Parent {
		if up.Problem != "" {
			return "queue " + up.Name + ": " + up.Problem
		}
	}
	return ""
}

// StoppedAt is the queue itself, or the nearest above it, that is stopped; nil: none is.
func (q *Queue) StoppedAt() *Queue {
	for up := q; up != nil; up = up.Parent {
		if up.Spec != nil && up.Spec.Stop != "" {
			return up
		}
	}
	return nil
}

// Drains says whether the queue, or one above it, is drained.
func (q *Queue) Drains() bool {
	for up := q; up != nil; up = up.Parent {
		if up.Spec != nil && up.Spec.Stop == api.StopDrain {
			return true
		}
	}
	return false
}

// Frozen says whether nothing of the queue may be evicted, by its own word or of one above it.
func (q *Queue) Frozen() bool {
	for up := q; up != nil; up = up.Parent {
		if up.Spec != nil && up.Spec.Frozen {
			return true
		}
	}
	return false
}

// Workloads counts those of the queue, and of those below it, that hold something.
func (q *Queue) Workloads() int {
	if q.Counted == 0 || q.CountedAt != q.Epoch {
		seen := make(map[string]bool, len(q.Pods))
		for _, p := range q.Pods {
			seen[p.WorkloadKey()] = true
		}
		q.Counted, q.CountedAt = len(seen), q.Epoch
	}
	n := q.Counted
	for _, c := range q.Children {
		n += c.Workloads()
	}
	return n
}

// Top is the queue at the top of its tree.
func (q *Queue) Top() *Queue {
	for q.Parent != nil {
		q = q.Parent
	}
	return q
}

// Below says whether the queue is the named one or under it.
func (q *Queue) Below(name string) bool {
	for ; q != nil; q = q.Parent {
		if q.Name == name {
			return true
		}
	}
	return false
}
