package cluster

import (
	"cmp"
	"slices"
	"strings"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// Check recounts the accounts of a Model, which are kept by adding and subtracting, from what was told. It shares no code
// with what keeps them. Sums that run over many are checked step by step: a queue is what its own pods hold and what the
// queues below it say they hold, which are looked at in their turn.
type Check struct {
	m     *Model
	Found []api.Discrepancy

	units map[unitKey]int64   // leastUnit as counted: a check is of one moment, and every waiting pod asks
	heirs map[string]*api.Pod // as heirOf found them; nil: not looked for yet
}

// unitKey is what leastUnit is asked for.
type unitKey struct {
	resource string
	by       api.PartsBy
}

// NewCheck makes a check that has found nothing yet.
func NewCheck(m *Model) *Check { return &Check{m: m, units: make(map[unitKey]int64)} }

// Note compares one amount.
func (a *Check) Note(kind, key, account, resource string, kept, counted int64) {
	if kept != counted {
		a.Found = append(a.Found, api.Discrepancy{Kind: kind, Key: key, Account: account, Resource: resource, Kept: kept, Counted: counted})
	}
}

// amounts compares a vector with what was counted by resource.
func (a *Check) amounts(kind, key, account string, kept quantity.Vector, counted map[string]int64) {
	for dim, v := range kept {
		name := a.m.Dims.Names[dim]
		a.Note(kind, key, account, name, v, counted[name])
	}
	//archtest:any-order Audit sorts what is found
	for name, v := range counted {
		if dim, known := a.m.Dims.IDs[name]; !known || dim >= len(kept) {
			a.Note(kind, key, account, name, 0, v)
		}
	}
}

// Cluster counts capacity and what is taken of it, and looks for pods that are not where they were told to be.
func (a *Check) Cluster() {
	m := a.m
	capacity, taken := make(map[string]int64), make(map[string]int64)
	allocated, ending, rated, sliced := 0, 0, int64(0), int64(0)
	//archtest:any-order sums are the same in any order
	for _, n := range m.Nodes {
		if n.Told != nil && n.Told.Check() == "" {
			for _, r := range n.Told.Allocatable {
				capacity[r.Resource] += r.Value
				if each := auditUnit(n.Told, r.Resource, m.Config.GPU, ""); r.Resource == m.Config.GPU {
					sliced += inGPUs(r.Value, each) - GPUs(r.Value)
				} else {
					sliced += inGPUs(r.Value, each)
				}
			}
		}
		allocated += len(n.Pods)
		for _, p := range n.Pods {
			auditTakes(p.Pod, func(resource string, amount int64) { taken[resource] += amount })
			if m.endsByItself(p) {
				ending++
				a.Note("pod", p.Key, "place among those that end", "", auditBit(p.ends > 0 && p.ends <= len(m.Ending) && m.Ending[p.ends-1] == p), 1)
			}
			_, devices := a.place(p.Pod)
			a.charge(p.Pod, n, devices, func(resource string, amount int64) {
				if resource == m.Config.GPU {
					rated += amount
				}
			})
		}
	}
	a.amounts("cluster", "", "capacity", m.Capacity, capacity)
	a.amounts("cluster", "", "taken", m.Taken, taken)
	a.Note("cluster", "", "in slices", m.Config.GPU, m.Sliced, sliced)
	a.Note("cluster", "", "surplus", m.Config.GPU, m.Surplus, rated-GPUs(taken[m.Config.GPU]))
	a.Note("cluster", "", "queues at the top", "", int64(len(m.Tree.Top)), a.topmost())
	a.Note("cluster", "", "pods that end", "", int64(len(m.Ending)), int64(ending))
	a.Note("cluster", "", "journal", "", int64(len(m.Journal)), 0)
	a.Note("cluster", "", "changes undone elsewhere", "", int64(len(m.Room.moved)), 0)
	ought := 0
	for key, p := range m.Pods {
		if a.whereabouts(key, p) {
			ought++
		}
	}
	a.Note("cluster", "", "allocations", "", int64(allocated), int64(ought))
	a.wanted()
	a.asked()
	a.quarantined()
	for _, sh := range m.Topology.Buckets {
		untaken := int64(0)
		for _, n := range sh.Nodes {
			free := n.Spec.Allocatable.Get(m.Config.GPU)
			for _, p := range n.Pods {
				free -= p.Requests.Get(m.Config.GPU)
			}
			untaken += max(0, free)
		}
		a.Note("cluster", "", "untaken", sh.Nodes[0].Name, sh.UntakenGPUs(m.Config.GPU), untaken)
	}
}

// quarantined counts the nodes that have a spec, and those that are quarantined.
func (a *Check) quarantined() {
	var specced, bad int64
	for _, n := range a.m.Nodes { //archtest:any-order a count
		if n.Spec != nil {
			specced++
			bad += auditBit(n.Spec.Quarantine != "")
		}
	}
	a.Note("cluster", "", "nodes", "", int64(a.m.Specced), specced)
	a.Note("cluster", "", "quarantined", "", int64(len(a.m.Quarantined)), bad)
}

// topmost counts the queues without a parent.
func (a *Check) topmost() (n int64) {
	for _, q := range a.m.Queues {
		if q.Parent == nil {
			n++
		}
	}
	return n
}

// wanted counts what the workloads in line of each queue lack.
func (a *Check) wanted() {
	wanted := make(map[*Queue]map[string]int64)
	waiting := make(map[*Gang]bool)
	for _, p := range a.m.Pods {
		if p.In != nil && p.Host == nil && !p.Terminating && !p.Foreign {
			waiting[p.In] = true
		}
	}
	//archtest:any-order a sum for each queue
	for g := range waiting {
		if g.Payer == nil || !g.Tree.Complete() || g.Lone == nil && a.m.IsRejected(api.KindGang, g.Key) {
			continue
		}
		if wanted[g.Payer] == nil {
			wanted[g.Payer] = make(map[string]int64)
		}
		a.lacks(g, wanted[g.Payer])
	}
	//archtest:any-order Audit sorts what is found
	for name, q := range a.m.Queues {
		if q.Spec != nil {
			a.amounts("queue", name, "wanted", q.Wanted, wanted[q])
		}
	}
}

// lacks adds what the gang's members without an allocation ask for.
func (a *Check) lacks(g *Gang, sum map[string]int64) {
	pods := slices.Clone(g.Members)
	if g.Lone != nil {
		pods = []*Pod{g.Lone}
	}
	pods = slices.DeleteFunc(pods, func(p *Pod) bool { return p.Host != nil || p.Terminating || p.Foreign })
	model, units := "", int64(1)
	if i := slices.IndexFunc(pods, func(p *Pod) bool { return len(p.GPU.Models) > 0 }); i >= 0 && a.m.Tree.ByModel {
		model, _, _ = strings.Cut(pods[i].GPU.Models[0], "-MIG-")
	}
	for _, r := range a.m.Config.Rates {
		if model != "" && r.Model == model {
			units = r.Units
		}
	}
	for _, p := range pods {
		payer, _ := a.PayerOf(p.Pod)
		a.takes(p.Pod, payer, func(int) int64 { return a.largest() }, a.leastUnit, func(resource string, amount int64) {
			if resource != a.m.Config.GPU || model == "" {
				sum[resource] += amount
				return
			}
			sum[resource] += amount * units
			sum[api.OfModel(resource, model)] += amount
		})
	}
}

// whereabouts checks that the pod has the allocation that it was told to have, and that it is in line where it has none. It
// reports whether it ought to have one.
func (a *Check) whereabouts(key string, p *Pod) bool {
	node, _ := a.place(p.Pod)
	has := ""
	if p.Host != nil {
		has = p.Host.Name
	}
	a.Note("pod", key, "allocation", node, auditBit(has == node), 1)
	return node != ""
}

// place is where the pod is as was told: bound, or assumed to be; "": nowhere.
func (a *Check) place(p *api.Pod) (node string, devices []string) {
	switch as := a.m.Assumptions[p.Key]; {
	case a.m.IsRejected(api.KindPod, p.Key):
	case p.Node != "":
		return p.Node, p.Devices
	case as != nil && !p.Terminating && !p.Foreign && as.UID == p.UID && !a.m.IsRejected(api.KindAssumption, p.Key):
		return as.Node, as.Devices
	}
	return "", nil
}

// auditTakes visits what the pod takes of a node.
func auditTakes(p *api.Pod, visit func(resource string, amount int64)) {
	visit(api.Pods, 1)
	for _, r := range p.Requests {
		if r.Value > 0 && r.Resource != api.Pods {
			visit(r.Resource, r.Value)
		}
	}
}

// going says whether the pod is on its way out: what is bound nowhere cannot be evicted.
func (a *Check) going(p *api.Pod) bool {
	e := a.m.Evictions[p.Key]
	return p.Terminating || e != nil && p.Node != "" && !e.Refused && e.UID == p.UID && !a.m.IsRejected(api.KindEviction, p.Key)
}

// stays says whether the pod can never be asked back.
func (a *Check) stays(p *api.Pod) bool {
	if !p.Evictable {
		return true
	}
	g := a.m.Gangs[p.Gang]
	return p.Gang != "" && g != nil && g.Spec != nil && g.Spec.Core && (g.Spec.Min == 0 || p.Rank < g.Spec.Min)
}

// Pays returns the queue that pays for a workload, and whose it is.
func (a *Check) Pays(workload string, alone *api.Pod) (queue, user string) {
	if g := a.m.Gangs[workload]; alone == nil && g != nil && g.Spec != nil {
		return g.Spec.Queue, g.Spec.User
	}
	if alone != nil && !alone.Foreign {
		return alone.Queue, alone.User
	}
	return "", ""
}

// PayerOf is Pays, of a pod.
func (a *Check) PayerOf(p *api.Pod) (queue, user string) {
	switch {
	case p.Foreign:
		return "", ""
	case p.Gang != "":
		return a.Pays(p.Gang, nil)
	}
	return a.Pays(p.Key, p)
}

// payerOfHold is Pays, of what is held for a workload.
func (a *Check) payerOfHold(h *Hold) string {
	var alone *api.Pod
	if g := a.m.Gangs[h.Gang]; g == nil || g.Spec == nil {
		if p := a.m.Pods[h.Gang]; p != nil && p.Gang == "" && !p.Foreign {
			alone = p.Pod
		} else {
			alone = a.heirOf(h.Gang)
		}
	}
	queue, _ := a.Pays(h.Gang, alone)
	return queue
}

// heirOf is the first of the pods by themselves that the owner made, nil for none.
func (a *Check) heirOf(owner string) (first *api.Pod) {
	if a.heirs == nil {
		a.heirs = make(map[string]*api.Pod)
		//archtest:any-order the least key
		for _, p := range a.m.Pods {
			if o := a.heirs[p.Owner]; p.Gang == "" && !p.Foreign && p.Owner != "" && (o == nil || p.Key < o.Key) {
				a.heirs[p.Owner] = p.Pod
			}
		}
	}
	return a.heirs[owner]
}

// charge visits what the pod on the node counts in its queue.
func (a *Check) charge(p *api.Pod, n *Node, devices []string, visit func(resource string, amount int64)) {
	payer, _ := a.PayerOf(p)
	memory := func(i int) int64 { return auditMemory(n, devices, i) }
	var spec *api.Node
	if n != nil {
		spec = n.Spec
	}
	unit := func(resource string, by api.PartsBy) int64 { return auditUnit(spec, resource, a.m.Config.GPU, by) }
	a.takes(p, payer, memory, unit, func(resource string, amount int64) {
		a.rated(resource, amount, auditModel(n, devices), visit)
		a.inFlavor(payer, spec, resource, amount, visit)
	})
}

// inFlavor visits what so much of a resource on the node counts in the queue besides, by flavor.
func (a *Check) inFlavor(queue string, n *api.Node, resource string, amount int64, visit func(resource string, amount int64)) {
	q := a.m.Queues[queue]
	if n == nil || q == nil || q.Spec == nil || !a.m.Valid(q) {
		return
	}
	for _, g := range q.Spec.Flavors {
		if !slices.Contains(g.Resources, resource) {
			continue
		}
		name, labels := "", -1
		for _, f := range g.Flavors {
			has := 0
			for key, value := range f.Labels { //archtest:any-order a count
				if v, ok := n.Labels[key]; ok && v == value {
					has++
				}
			}
			if has == len(f.Labels) && has > labels {
				name, labels = f.Name, has
			}
		}
		if name != "" {
			visit(resource+"#"+name, amount)
		}
	}
}

// takes visits what the pod counts in the queue, GPUs and parts of them in thousandths, with the memory of its cards and what one of
// a resource is of a GPU.
func (a *Check) takes(p *api.Pod, queue string, memory func(i int) int64, unit func(resource string, by api.PartsBy) int64, visit func(resource string, amount int64)) {
	auditTakes(p, func(resource string, amount int64) {
		if gpus := inGPUs(amount, unit(resource, a.partsBy(queue))); gpus > 0 {
			visit(a.m.Config.GPU, gpus)
		}
		if resource != a.m.Config.GPU {
			visit(resource, amount)
		}
	})
	if p.Claimed > 0 {
		visit(a.m.Config.GPU, p.Claimed)
	}
	if p.Part == nil {
		return
	}
	for i := range p.Part.Cards {
		visit(a.m.Config.GPU, p.Part.Charge(memory(i), a.partsBy(queue)))
	}
}

// partsBy is by what the queue, or the next one above it that says so, counts parts.
func (a *Check) partsBy(queue string) (by api.PartsBy) {
	seen := 0
	for q := a.m.Queues[queue]; q != nil && by == "" && seen <= len(a.m.Queues); q, seen = a.m.Queues[a.parentOf(q)], seen+1 {
		if q.Spec != nil {
			by = q.Spec.PartsBy
		}
	}
	return by
}

// auditUnit is what one of the resource is of a GPU on the node, in thousandths.
func auditUnit(n *api.Node, resource, gpu string, by api.PartsBy) int64 {
	if n != nil {
		for _, s := range n.Slices {
			if s.Resource == resource {
				return s.Charge(by)
			}
		}
	}
	if resource == gpu {
		return api.Whole
	}
	return 0
}

// leastUnit is the least that one of the resource is of a GPU on any node that has it.
func (a *Check) leastUnit(resource string, by api.PartsBy) int64 {
	key := unitKey{resource, by}
	least, counted := a.units[key]
	if !counted {
		least = a.countUnits(resource, by)
		a.units[key] = least
	}
	return least
}

func (a *Check) countUnits(resource string, by api.PartsBy) int64 {
	least := int64(-1)
	for _, n := range a.m.Nodes { //archtest:any-order the least of all
		if n.Spec == nil {
			continue
		}
		listed := slices.ContainsFunc(n.Spec.Slices, func(s api.Slice) bool { return s.Resource == resource })
		if !listed && (resource != a.m.Config.GPU || n.Spec.Allocatable.Get(resource) == 0) {
			continue
		}
		if each := auditUnit(n.Spec, resource, a.m.Config.GPU, by); least < 0 || each < least {
			least = each
		}
	}
	if least < 0 {
		return auditUnit(nil, resource, a.m.Config.GPU, by)
	}
	return least
}

// auditMemory is the memory of the i-th of the pod's cards on the node, or of the smallest that it could be.
func auditMemory(n *Node, devices []string, i int) (least int64) {
	if n == nil || n.Spec == nil {
		return 0
	}
	for _, d := range n.Spec.Devices {
		if i < len(devices) && d.ID == devices[i] {
			return d.Memory
		}
		if d.Parts > 0 && (least == 0 || d.Memory < least) {
			least = d.Memory
		}
	}
	return least
}

// largest is the memory of the largest card that gives parts.
func (a *Check) largest() (most int64) {
	for _, n := range a.m.Nodes { //archtest:any-order the most of all
		if n.Spec == nil {
			continue
		}
		for _, d := range n.Spec.Devices {
			if d.Parts > 0 {
				most = max(most, d.Memory)
			}
		}
	}
	return most
}

// rated visits what so much of a resource counts in queues, GPUs by their model.
func (a *Check) rated(resource string, amount int64, model string, visit func(resource string, amount int64)) {
	if resource != a.m.Config.GPU || !a.m.Tree.ByModel {
		visit(resource, amount)
		return
	}
	model, _, _ = strings.Cut(model, "-MIG-")
	units := int64(1)
	for _, rate := range a.m.Config.Rates {
		if rate.Model == model {
			units = rate.Units
		}
	}
	visit(resource, amount*units)
	if model != "" {
		visit(api.OfModel(resource, model), amount)
	}
}

// auditModel is the GPU model of a pod with the devices: that of the first which is known, or the only one that the
// node has.
func auditModel(n *Node, devices []string) string {
	if n == nil || n.Spec == nil {
		return ""
	}
	if len(n.Spec.Devices) == 0 {
		return n.Spec.Model
	}
	only, several := "", false
	byID := make(map[string]string, len(n.Spec.Devices))
	for _, d := range n.Spec.Devices {
		byID[d.ID] = d.Model
		several = several || only != "" && d.Model != "" && d.Model != only
		only = cmp.Or(only, d.Model)
	}
	for _, id := range devices {
		if model, known := byID[id]; known {
			return model
		}
	}
	if several {
		return ""
	}
	return only
}

// Queue counts a queue's accounts: what its own pods and holds come to, and what the queues below it say.
func (a *Check) Queue(q *Queue) {
	used, leaving, firm, pledged := make(map[string]int64), make(map[string]int64), make(map[string]int64), make(map[string]int64)
	users, workloads := make(map[string]map[string]int64), make(map[string]bool)
	fault := func(account, whose string, fine bool) { a.Note("queue", q.Name, account, whose, auditBit(fine), 1) }
	for i, p := range q.Pods {
		payer, user := a.PayerOf(p.Pod)
		node, devices := a.place(p.Pod)
		fault("pods", p.Key, payer == q.Name && p.Payer == q && p.Slot == i && node != "" && a.m.Pods[p.Key] == p)
		workloads[p.WorkloadKey()] = true
		if q == &a.m.Unqueued {
			continue
		}
		if users[user] == nil {
			users[user] = make(map[string]int64)
		}
		a.charge(p.Pod, a.m.Nodes[node], devices, func(resource string, amount int64) {
			used[resource] += amount
			users[user][resource] += amount
			if a.going(p.Pod) {
				leaving[resource] += amount
			}
			if a.stays(p.Pod) {
				firm[resource] += amount
			}
		})
	}
	if q.Counted != 0 && q.CountedAt == q.Epoch {
		a.Note("queue", q.Name, "workloads", "", int64(q.Counted), int64(len(workloads)))
	}
	//archtest:any-order sums, and Audit sorts what is found
	for key, h := range a.m.Holds {
		if !a.m.IsRejected(api.KindHold, key) && a.payerOfHold(h) == q.Name {
			var spec *api.Node
			if n := a.m.Nodes[h.Node]; n != nil {
				spec = n.Spec
			}
			pledge := func(resource string, amount int64) { pledged[resource] += amount }
			count := func(gpus int64) {
				a.rated(a.m.Config.GPU, gpus, auditModel(a.m.Nodes[h.Node], nil), pledge)
				a.inFlavor(q.Name, spec, a.m.Config.GPU, gpus, pledge)
			}
			for _, r := range h.Requests {
				gpus := inGPUs(r.Value, auditUnit(spec, r.Resource, a.m.Config.GPU, a.partsBy(q.Name)))
				count(gpus)
				if r.Resource != a.m.Config.GPU {
					pledged[r.Resource] += r.Value
					a.inFlavor(q.Name, spec, r.Resource, r.Value, pledge)
				}
			}
			count(h.Claimed)
			for _, c := range h.Cards {
				if c.Part == nil {
					continue
				}
				count(c.Part.Charge(auditMemory(a.m.Nodes[h.Node], []string{c.ID}, 0), a.partsBy(q.Name)))
			}
		}
	}
	if q == &a.m.Unqueued {
		a.amounts("queue", q.Name, "pledged", q.Pledged, pledged)
		return
	}
	for _, c := range q.Children {
		fault("children", c.Name, c.Parent == q && a.m.Queues[c.Name] == c)
		for dim, name := range a.m.Dims.Names {
			used[name] += c.Used.At(dim)
			leaving[name] += c.Leaving.At(dim)
			firm[name] += c.Firm.At(dim)
			pledged[name] += c.Pledged.At(dim)
		}
	}
	up := a.parentOf(q)
	fault("parent", up, q.Parent == nil && up == "" || q.Parent != nil && q.Parent.Name == up && slices.Contains(q.Parent.Children, q))
	a.amounts("queue", q.Name, "used", q.Used, used)
	a.amounts("queue", q.Name, "leaving", q.Leaving, leaving)
	a.amounts("queue", q.Name, "firm", q.Firm, firm)
	a.amounts("queue", q.Name, "pledged", q.Pledged, pledged)
	a.users(q, users)
}

// users compares what each user holds, in a queue where that matters.
func (a *Check) users(q *Queue, counted map[string]map[string]int64) {
	matters := q.Spec != nil && (q.Spec.FairUsers || len(q.Spec.UserLimits) > 0)
	a.Note("queue", q.Name, "users", "", auditBit(q.Users != nil), auditBit(matters))
	if !matters {
		return
	}
	//archtest:any-order Audit sorts what is found
	for user, v := range q.Users {
		a.amounts("queue", q.Name, "user "+user, v, counted[user])
	}
	//archtest:any-order Audit sorts what is found
	for user, v := range counted {
		if _, known := q.Users[user]; !known {
			a.amounts("queue", q.Name, "user "+user, nil, v)
		}
	}
}

// parentOf is the queue's parent as was told, "" where it has none, or one that cannot be.
func (a *Check) parentOf(q *Queue) string {
	told := func(name string) *api.Queue {
		if o := a.m.Queues[name]; o != nil && o.Spec != nil && o.Spec.Check() == "" {
			return o.Spec
		}
		return nil
	}
	me := told(q.Name)
	if me == nil || me.Parent == "" || told(me.Parent) == nil {
		return ""
	}
	at := me.Parent
	for range len(a.m.Queues) + 1 {
		o := a.m.Queues[at]
		if o == nil || o.Spec == nil || o.Spec.Parent == "" {
			return me.Parent
		}
		at = o.Spec.Parent
	}
	return ""
}

// Node counts what is free on the node, what can go, and its devices.
func (a *Check) Node(n *Node) {
	a.rules(n)
	free, yield := make(map[string]int64), make(map[string]int64)
	counts := n.Told != nil && n.Told.Check() == ""
	a.Note("node", n.Name, "spec", "", auditBit(n.Spec != nil && n.Spec == n.Told), auditBit(counts))
	if counts {
		for _, r := range n.Told.Allocatable {
			free[r.Resource] += r.Value
		}
	}
	seen := make(map[*Pod]bool, len(n.Pods))
	for _, p := range n.Pods {
		a.occupant(n, p, seen[p])
		seen[p] = true
		auditTakes(p.Pod, func(resource string, amount int64) {
			free[resource] -= amount
			if p.Evictable || a.going(p.Pod) {
				yield[resource] += amount
			}
		})
	}
	//archtest:any-order sums, and Audit sorts what is found
	for key, h := range a.m.Holds {
		if h.Node != n.Name || a.m.IsRejected(api.KindHold, key) {
			continue
		}
		a.Note("node", n.Name, "hold", h.Gang, auditBit(h.On == n && slices.Contains(n.Held, h)), 1)
		for _, r := range h.Requests {
			free[r.Resource] -= r.Value
		}
	}
	a.amounts("node", n.Name, "free", n.Free, free)
	a.amounts("node", n.Name, "yield", n.Yield, yield)
	if counts && n.Spec == n.Told {
		a.devices(n)
	}
}

// occupant checks that the pod is here, once, and in the account of its queue.
func (a *Check) occupant(n *Node, p *Pod, twice bool) {
	at, devices := a.place(p.Pod)
	a.Note("node", n.Name, "pods", p.Key, auditBit(at == n.Name && p.Host == n && a.m.Pods[p.Key] == p && !twice), 1)
	a.Note("pod", p.Key, "devices", n.Name, auditBit(slices.Equal(devices, p.HostDevices)), 1)
	a.Note("pod", p.Key, "evicting", "", auditBit(p.Leaving()), auditBit(a.going(p.Pod)))
	var q *Queue
	if queue, _ := a.PayerOf(p.Pod); queue != "" {
		q = a.m.Queues[queue]
	} else if !p.Foreign {
		q = &a.m.Unqueued
	}
	a.Note("pod", p.Key, "payer", "", auditBit(p.Payer == q && (q == nil || p.Slot < len(q.Pods) && q.Pods[p.Slot] == p)), 1)
}

// devices counts who holds which.
func (a *Check) devices(n *Node) {
	held, blind := make(map[string]int64), int64(0)
	parts, shared := make(map[string][]*api.Part), make(map[string]bool)
	for _, d := range n.Spec.Devices {
		held[d.ID], shared[d.ID] = 0, d.Parts > 0
	}
	for _, p := range n.Pods {
		silent := p.Requests.Get(a.m.Config.GPU)
		if p.Part != nil {
			silent = int64(p.Part.Cards)
		}
		_, devices := a.place(p.Pod)
		for _, id := range devices {
			if _, here := held[id]; here {
				silent--
				if p.Part != nil && shared[id] {
					parts[id] = append(parts[id], p.Part)
				} else {
					held[id]++
				}
			}
		}
		blind += max(0, silent)
	}
	//archtest:any-order sums, and Audit sorts what is found
	for key, h := range a.m.Holds {
		if h.Node != n.Name || a.m.IsRejected(api.KindHold, key) || !slices.ContainsFunc(n.Spec.Devices, func(d api.Device) bool { return d.Parts > 0 }) {
			continue
		}
		for _, c := range h.Cards {
			if _, here := held[c.ID]; here && c.Part != nil && shared[c.ID] {
				kept := *c.Part
				kept.Compute = max(kept.Compute, 1)
				parts[c.ID] = append(parts[c.ID], &kept)
			} else if here {
				held[c.ID]++
			}
		}
	}
	loose := int64(0)
	for i, d := range n.Spec.Devices {
		nodes := a.m.Claims[d.ID]
		owned := slices.Contains(nodes, n) && !slices.ContainsFunc(nodes, func(o *Node) bool { return o.Name < n.Name })
		free := auditBit(held[d.ID] == 0 && !d.Unhealthy && owned && len(parts[d.ID]) == 0)
		loose += free
		if i >= len(n.Devices) || i >= len(n.Holders) {
			a.Note("node", n.Name, "devices", "", int64(len(n.Devices)), int64(len(n.Spec.Devices)))
			return
		}
		a.Note("node", n.Name, "holders", d.ID, int64(n.Holders[i]), held[d.ID])
		a.Note("node", n.Name, "device", d.ID, auditBit(n.Devices[i].Free), free)
		if shared[d.ID] {
			a.card(n, i, parts[d.ID], held[d.ID] > 0 || d.Unhealthy || !owned)
		}
	}
	a.Note("node", n.Name, "free devices", "", n.FreeDevices, loose)
	a.Note("node", n.Name, "unknown devices", "", n.UnknownDevices, blind)
	a.offers(n)
}

// card counts what of a GPU is given away in parts.
func (a *Check) card(n *Node, i int, parts []*api.Part, closed bool) {
	d := &n.Spec.Devices[i]
	if len(n.Cards) != len(n.Spec.Devices) {
		a.Note("node", n.Name, "cards", d.ID, int64(len(n.Cards)), int64(len(n.Spec.Devices)))
		return
	}
	memory, compute := int64(0), int64(0)
	for _, p := range parts {
		memory += p.Memory
		if p.Memory == 0 {
			memory += d.Memory * p.Share / 1000
		}
		compute += p.Compute
	}
	c := &n.Cards[i]
	a.Note("node", n.Name, "card memory", d.ID, c.UsedMemory, memory)
	a.Note("node", n.Name, "card compute", d.ID, c.UsedCompute, compute)
	a.Note("node", n.Name, "card parts", d.ID, int64(c.Sharers), int64(len(parts)))
	a.Note("node", n.Name, "card closed", d.ID, auditBit(c.Closed), auditBit(closed))
}

// offers counts who holds which of the devices that claims are met with, and what that leaves of their counters.
func (a *Check) offers(n *Node) {
	a.Note("node", n.Name, "by claims", "", auditBit(n.GPUsByClaims), auditBit(slices.Contains(n.Spec.ByClaims, a.m.Config.GPU)))
	if a.Note("node", n.Name, "offers", "", auditBit(n.Offers != nil), auditBit(len(n.Spec.Offers) > 0)); n.Offers == nil {
		return
	}
	left := make(map[string]int64)
	for _, c := range n.Spec.Counters {
		left[c.Name] = c.Amount
	}
	for i, d := range n.Spec.Offers {
		held := auditBit(d.Taken)
		shares := make(map[string]int64) // those with a name once, others by their number
		count := func(ids []string) {
			for _, id := range ids {
				switch s, is := api.ParseShare(id); {
				case id == d.ID || is && s.Device == d.ID && !d.Shared:
					held++
				case is && s.Device == d.ID && s.Name != "":
					shares[id] = 1
				case is && s.Device == d.ID:
					shares[id]++
				}
			}
		}
		count(d.Held)
		//archtest:any-order holders are counted, which any order does
		for _, o := range a.m.Nodes {
			if o != n && d.Reach == "" {
				continue
			}
			for _, p := range o.Pods {
				_, devices := a.place(p.Pod)
				count(devices)
			}
		}
		//archtest:any-order holders are counted, which any order does
		for key, h := range a.m.Holds {
			if h.Node != n.Name && d.Reach == "" || a.m.IsRejected(api.KindHold, key) {
				continue
			}
			count(h.Devices)
		}
		a.Note("node", n.Name, "offer", d.ID, int64(n.Offers.Holders(i)), held)
		sharers, of := int64(0), make(map[string]int64)
		//archtest:any-order holders are counted, which any order does
		for text, times := range shares {
			sharers += times
			s, _ := api.ParseShare(text)
			for _, x := range s.Draws {
				of[x.Counter] += times * x.Amount
			}
		}
		a.Note("node", n.Name, "sharers", d.ID, int64(n.Offers.Sharers(i)), sharers)
		for _, c := range d.Capacity {
			a.Note("node", n.Name, "capacity "+c.Name, d.ID, n.Offers.LeftOf(i, c.Name), c.Amount-of[c.Name])
		}
		for _, x := range d.Draws {
			if held+sharers > 0 {
				left[x.Counter] -= x.Amount
			}
		}
	}
	for i, c := range n.Spec.Counters {
		a.Note("node", n.Name, "counter", c.Name, n.Offers.Left(i), left[c.Name])
	}
}

func auditBit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
