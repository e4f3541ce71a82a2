package engine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// The audit counts accounts that are kept by adding and subtracting anew, from what was told. It shares no code with
// what keeps them. Sums that run over many are checked step by step: a queue is what its own pods hold and what the
// queues below it say they hold, which are looked at in their turn.

// Discrepancy is an account that says something else than a recount: an alarm, for there is an error in the engine.
type Discrepancy struct {
	Kind     string `json:"kind"`               // "cluster", "queue", "node" or "pod"
	Key      string `json:"key,omitempty"`      // of the queue, node or pod
	Account  string `json:"account"`            // which of its accounts
	Resource string `json:"resource,omitempty"` // or whose part of it: a user, a pod, a device
	Kept     int64  `json:"kept"`
	Counted  int64  `json:"counted"`
}

// String says it in one line.
func (d Discrepancy) String() string {
	of := d.Kind
	if d.Key != "" {
		of += " " + d.Key
	}
	what := d.Account
	if d.Resource != "" {
		what += " of " + d.Resource
	}
	return fmt.Sprintf("%s: %s is kept as %d and counted as %d", of, what, d.Kept, d.Counted)
}

// audit is a round in the making: the places that are looked at, and what was found.
type audit struct {
	s     *State
	found []Discrepancy
}

// auditPlace is something with accounts; neither: the cluster as a whole.
type auditPlace struct {
	queue, node string
	nobody      bool // the account of workloads without a queue
}

// Audit counts the accounts of some of the state anew and returns where they are not what is kept. There is one place
// for the cluster, one for each queue and one for each node, by name; most of them are looked at, from the given
// position on, and next is where to go on. Places are listed at position 0: what came since is in the next round. The
// cluster's place costs a look at every node and pod, the others what is in them.
func (s *State) Audit(from, most int) (found []Discrepancy, next int) {
	s.freshen()
	if from <= 0 || from >= len(s.places) {
		from, s.places = 0, s.listPlaces()
	}
	a := &audit{s: s}
	for ; from < len(s.places) && most > 0; most-- {
		a.look(s.places[from])
		from++
	}
	if from >= len(s.places) {
		from = 0
	}
	return a.sorted(), from
}

// AuditAll is a whole round.
func (s *State) AuditAll() []Discrepancy {
	s.freshen()
	a := &audit{s: s}
	for _, p := range s.listPlaces() {
		a.look(p)
	}
	return a.sorted()
}

func (s *State) listPlaces() []auditPlace {
	out := make([]auditPlace, 0, 2+len(s.queues)+len(s.nodes))
	out = append(out, auditPlace{}, auditPlace{nobody: true})
	for _, name := range sortedKeys(s.queues) {
		out = append(out, auditPlace{queue: name})
	}
	for _, name := range sortedKeys(s.nodes) {
		out = append(out, auditPlace{node: name})
	}
	return out
}

func (a *audit) look(p auditPlace) {
	switch {
	case p.nobody:
		a.queue(&a.s.nobody)
	case p.queue != "":
		if q := a.s.queues[p.queue]; q != nil {
			a.queue(q)
		}
	case p.node != "":
		if n := a.s.nodes[p.node]; n != nil {
			a.node(n)
		}
	default:
		a.cluster()
	}
}

func (a *audit) sorted() []Discrepancy {
	slices.SortFunc(a.found, func(x, y Discrepancy) int {
		return cmp.Or(strings.Compare(x.Kind, y.Kind), strings.Compare(x.Key, y.Key), strings.Compare(x.Account, y.Account), strings.Compare(x.Resource, y.Resource))
	})
	return a.found
}

// note compares one amount.
func (a *audit) note(kind, key, account, resource string, kept, counted int64) {
	if kept != counted {
		a.found = append(a.found, Discrepancy{kind, key, account, resource, kept, counted})
	}
}

// amounts compares a vector with what was counted by resource.
func (a *audit) amounts(kind, key, account string, kept quantity.Vector, counted map[string]int64) {
	for dim, v := range kept {
		name := a.s.dims.Names[dim]
		a.note(kind, key, account, name, v, counted[name])
	}
	for name, v := range counted {
		if dim, known := a.s.dims.IDs[name]; !known || dim >= len(kept) {
			a.note(kind, key, account, name, 0, v)
		}
	}
}

// cluster counts capacity and what is taken of it, and looks for pods that are not where they were told to be.
func (a *audit) cluster() {
	s := a.s
	capacity, taken := make(map[string]int64), make(map[string]int64)
	seats, rated := 0, int64(0)
	for _, n := range s.nodes {
		if n.told != nil && n.told.Check() == "" {
			for _, r := range n.told.Allocatable {
				capacity[r.Resource] += r.Value
			}
		}
		seats += len(n.occ)
		for _, p := range n.occ {
			auditTakes(p.Pod, func(resource string, amount int64) { taken[resource] += amount })
			_, devices := a.place(p.Pod)
			a.bill(p.Pod, n, devices, func(resource string, amount int64) {
				if resource == s.cfg.GPU {
					rated += amount
				}
			})
		}
	}
	a.amounts("cluster", "", "capacity", s.capacity, capacity)
	a.amounts("cluster", "", "taken", s.taken, taken)
	a.note("cluster", "", "surplus", s.cfg.GPU, s.surplus, rated-taken[s.cfg.GPU])
	a.note("cluster", "", "journal", "", int64(len(s.journal)), 0)
	ought := 0
	for key, p := range s.pods {
		if a.whereabouts(key, p) {
			ought++
		}
	}
	a.note("cluster", "", "seats", "", int64(seats), int64(ought))
	a.lanes()
	a.wanted()
	for _, sh := range s.topology.shelves {
		free := int64(0)
		for _, n := range sh.nodes {
			free += max(0, n.free.At(quantity.DimGPU))
		}
		a.note("cluster", "", "vacancy", sh.nodes[0].name, sh.freeGPUs(), free)
	}
}

// lanes checks that the lanes that are kept have each gang in line once, where it belongs.
func (a *audit) lanes() {
	s := a.s
	if !s.lanes.made {
		return
	}
	seen := make(map[*gang]bool, len(s.line))
	for key, l := range s.lanes.byKey {
		name := key.user
		if key.queue != nil {
			name = key.queue.name + "/" + name
		}
		a.note("cluster", "", "lane", name, auditBit(len(l.line) > 0 && l.laneKey == key), 1)
		for i, q := range l.line {
			queue, user := "", ""
			if q.gang.lone != nil {
				queue, user = a.payerOf(q.gang.lone.Pod)
			} else {
				queue, user = a.pays(q.gang.key, nil)
			}
			o := s.queues[queue]
			if o == nil || o.spec == nil || !o.spec.FairUsers {
				user = ""
			}
			fine := q.gang.lined && q.gang.lane == l && user == key.user && !seen[q.gang] && (o == key.queue || o != nil && o.spec == nil)
			fine = fine && q.turn == q.gang.turn && q.rank == q.priority && (i == 0 || l.line[i-1].turn.compare(q.turn) < 0)
			fine = fine && (q.ask == ask{} || q.gang.ask == ask{} || q.ask == q.gang.ask)
			a.note("cluster", "", "lane", q.key, auditBit(fine), 1)
			seen[q.gang] = true
		}
	}
	a.note("cluster", "", "lanes", "", int64(len(seen)), int64(len(s.line)))
}

// wanted counts what the workloads in line of each queue lack.
func (a *audit) wanted() {
	wanted := make(map[*queue]map[string]int64)
	for _, g := range a.s.line {
		if g.payer == nil || !g.tree.complete() || g.lone == nil && a.s.isRejected(api.KindGang, g.key) {
			continue
		}
		if wanted[g.payer] == nil {
			wanted[g.payer] = make(map[string]int64)
		}
		a.lacks(g, wanted[g.payer])
	}
	for name, q := range a.s.queues {
		if q.spec != nil {
			a.amounts("queue", name, "wanted", q.wanted, wanted[q])
		}
	}
}

// lacks adds what the gang's members without a seat ask for.
func (a *audit) lacks(g *gang, sum map[string]int64) {
	pods := slices.Clone(g.members)
	if g.lone != nil {
		pods = []*pod{g.lone}
	}
	pods = slices.DeleteFunc(pods, func(p *pod) bool { return p.seat != nil || p.Terminating || p.Foreign })
	model, units := "", int64(1)
	if i := slices.IndexFunc(pods, func(p *pod) bool { return len(p.GPU.Models) > 0 }); i >= 0 && a.s.forest.modelled {
		model = pods[i].GPU.Models[0]
	}
	for _, r := range a.s.cfg.Rates {
		if model != "" && r.Model == model {
			units = r.Units
		}
	}
	for _, p := range pods {
		auditTakes(p.Pod, func(resource string, amount int64) {
			if resource != a.s.cfg.GPU || model == "" {
				sum[resource] += amount
				return
			}
			sum[resource] += amount * units
			sum[api.OfModel(resource, model)] += amount
		})
	}
}

// whereabouts checks that the pod has the seat that it was told to have, and that it is in line where it has none. It
// reports whether it ought to have one.
func (a *audit) whereabouts(key string, p *pod) bool {
	node, _ := a.place(p.Pod)
	has := ""
	if p.seat != nil {
		has = p.seat.name
	}
	a.note("pod", key, "seat", node, auditBit(has == node), 1)
	if node == "" && !p.Terminating && !p.Foreign && !a.s.isRejected(api.KindPod, key) {
		a.note("pod", key, "line", "", auditBit(p.gang != nil && p.gang.lined), 1)
	}
	return node != ""
}

// place is where the pod is as was told: bound, or assumed to be; "": nowhere.
func (a *audit) place(p *api.Pod) (node string, devices []string) {
	switch as := a.s.assumptions[p.Key]; {
	case a.s.isRejected(api.KindPod, p.Key):
	case p.Node != "":
		return p.Node, p.Devices
	case as != nil && !p.Terminating && !p.Foreign && as.UID == p.UID && !a.s.isRejected(api.KindAssumption, p.Key):
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
func (a *audit) going(p *api.Pod) bool {
	e := a.s.evictions[p.Key]
	return p.Terminating || e != nil && p.Node != "" && !e.Refused && e.UID == p.UID && !a.s.isRejected(api.KindEviction, p.Key)
}

// stays says whether the pod can never be asked back.
func (a *audit) stays(p *api.Pod) bool {
	if !p.Evictable {
		return true
	}
	g := a.s.gangs[p.Gang]
	return p.Gang != "" && g != nil && g.spec != nil && g.spec.Core && (g.spec.Min == 0 || p.Rank < g.spec.Min)
}

// pays returns the queue that pays for a workload, and whose it is.
func (a *audit) pays(workload string, alone *api.Pod) (queue, user string) {
	if g := a.s.gangs[workload]; alone == nil && g != nil && g.spec != nil {
		return g.spec.Queue, g.spec.User
	}
	if alone != nil && !alone.Foreign {
		return alone.Queue, alone.User
	}
	return "", ""
}

// payerOf is pays, of a pod.
func (a *audit) payerOf(p *api.Pod) (queue, user string) {
	switch {
	case p.Foreign:
		return "", ""
	case p.Gang != "":
		return a.pays(p.Gang, nil)
	}
	return a.pays(p.Key, p)
}

// payerOfHold is pays, of what is held for a workload.
func (a *audit) payerOfHold(h *hold) string {
	var alone *api.Pod
	if g := a.s.gangs[h.Gang]; g == nil || g.spec == nil {
		if p := a.s.pods[h.Gang]; p != nil && p.Gang == "" {
			alone = p.Pod
		}
	}
	queue, _ := a.pays(h.Gang, alone)
	return queue
}

// bill visits what the pod on the node counts in its queue.
func (a *audit) bill(p *api.Pod, n *node, devices []string, visit func(resource string, amount int64)) {
	auditTakes(p, func(resource string, amount int64) {
		if resource != a.s.cfg.GPU || !a.s.forest.modelled {
			visit(resource, amount)
			return
		}
		model, units := auditModel(n, devices), int64(1)
		for _, r := range a.s.cfg.Rates {
			if r.Model == model {
				units = r.Units
			}
		}
		visit(resource, amount*units)
		if model != "" {
			visit(api.OfModel(resource, model), amount)
		}
	})
}

// auditModel is the GPU model of a pod with the devices: that of the first which is known, or the only one that the
// node has.
func auditModel(n *node, devices []string) string {
	if n == nil || n.spec == nil {
		return ""
	}
	only, several := "", false
	byID := make(map[string]string, len(n.spec.Devices))
	for _, d := range n.spec.Devices {
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

// queue counts a queue's accounts: what its own pods and holds come to, and what the queues below it say.
func (a *audit) queue(q *queue) {
	used, leaving, firm, pledged := make(map[string]int64), make(map[string]int64), make(map[string]int64), make(map[string]int64)
	users, workloads := make(map[string]map[string]int64), make(map[string]bool)
	fault := func(account, whose string, fine bool) { a.note("queue", q.name, account, whose, auditBit(fine), 1) }
	for i, p := range q.pods {
		payer, user := a.payerOf(p.Pod)
		node, devices := a.place(p.Pod)
		fault("pods", p.Key, payer == q.name && p.payer == q && p.slot == i && node != "" && a.s.pods[p.Key] == p)
		workloads[p.WorkloadKey()] = true
		if q == &a.s.nobody {
			continue
		}
		if users[user] == nil {
			users[user] = make(map[string]int64)
		}
		a.bill(p.Pod, a.s.nodes[node], devices, func(resource string, amount int64) {
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
	if q.counted != 0 && q.countedAt == q.epoch {
		a.note("queue", q.name, "workloads", "", int64(q.counted), int64(len(workloads)))
	}
	if q == &a.s.nobody {
		a.roster(q)
		return
	}
	for key, h := range a.s.holds {
		if !a.s.isRejected(api.KindHold, key) && a.payerOfHold(h) == q.name {
			for _, r := range h.Requests {
				pledged[r.Resource] += r.Value
			}
		}
	}
	for _, c := range q.children {
		fault("children", c.name, c.parent == q && a.s.queues[c.name] == c)
		for dim, name := range a.s.dims.Names {
			used[name] += c.used.At(dim)
			leaving[name] += c.leaving.At(dim)
			firm[name] += c.firm.At(dim)
			pledged[name] += c.pledged.At(dim)
		}
	}
	up := a.parentOf(q)
	fault("parent", up, q.parent == nil && up == "" || q.parent != nil && q.parent.name == up && slices.Contains(q.parent.children, q))
	a.amounts("queue", q.name, "used", q.used, used)
	a.amounts("queue", q.name, "leaving", q.leaving, leaving)
	a.amounts("queue", q.name, "firm", q.firm, firm)
	a.amounts("queue", q.name, "pledged", q.pledged, pledged)
	a.users(q, users)
	a.roster(q)
}

// roster checks that the roster, where it is kept, lists who has seats in the queue, and what quota covers of them.
func (a *audit) roster(q *queue) {
	s := a.s
	if !q.roster.made {
		return
	}
	own := s.tenantsOf(q)
	held := make(map[lodging][]*pod)
	for _, p := range q.pods {
		if l := (lodging{gang: p.gang}); !p.Terminating && !p.evicting {
			if p.Gang == "" {
				l = lodging{pod: p}
			}
			held[l] = append(held[l], p)
		}
	}
	a.note("queue", q.name, "tenants", "", int64(len(own)), int64(len(held)))
	for i, t := range own {
		fine := q.roster.of[t.lodging] == t && len(t.pods) == len(held[t.lodging]) && (i == 0 || compareTenants(own[i-1], t) <= 0)
		for _, p := range t.pods {
			fine = fine && slices.Contains(held[t.lodging], p)
		}
		fine = fine && (t.pod == nil || t.told == t.pod.Pod)
		a.note("queue", q.name, "tenant", t.key, auditBit(fine), 1)
	}
	a.cut(q)
	if len(q.children) == 0 || q.roster.below == nil {
		return
	}
	below := s.tenantsBelow(q)
	n := len(own)
	for _, c := range q.children {
		n += len(s.tenantsBelow(c))
	}
	a.note("queue", q.name, "tenants below", "", int64(len(below)), int64(n))
	for i, t := range below {
		fine := t.payer.roster.of[t.lodging] == t && (i == 0 || below[i-1] != t && q.compareBelow(below[i-1], t) <= 0)
		a.note("queue", q.name, "tenant below", t.key, auditBit(fine), 1)
	}
}

// cut makes what quota does not cover of the roster anew.
func (a *audit) cut(q *queue) {
	x, all := &q.roster.cut, a.s.tenantsBelow(q)
	if x.edition != q.roster.edition || x.shape != a.s.topology.shape || x.awaits {
		return // it is not used again
	}
	part := func(_ *queue, dim int) int64 { return x.parts[slices.Index(x.dims, dim)] }
	again := cut{}
	a.s.passes++
	again.find(&cover{s: a.s, queue: q, dims: x.dims, over: x.over, part: part, all: all}, nil, a.s.passes)
	a.s.appraiseCut(&again)
	a.note("queue", q.name, "uncovered", "", auditBit(slices.Equal(again.units, x.units)), 1)
	a.note("queue", q.name, "uncovered", "GPUs", x.gpus, again.gpus)
	a.note("queue", q.name, "uncovered", "shelves", auditBit(slices.Equal(again.shelves, x.shelves)), 1)
	a.note("queue", q.name, "uncovered", "ripe", x.ripe.UnixNano(), again.ripe.UnixNano())
}

// users compares what each user holds, in a queue where that matters.
func (a *audit) users(q *queue, counted map[string]map[string]int64) {
	matters := q.spec != nil && (q.spec.FairUsers || len(q.spec.UserLimits) > 0)
	a.note("queue", q.name, "users", "", auditBit(q.users != nil), auditBit(matters))
	if !matters {
		return
	}
	for user, v := range q.users {
		a.amounts("queue", q.name, "user "+user, v, counted[user])
	}
	for user, v := range counted {
		if _, known := q.users[user]; !known {
			a.amounts("queue", q.name, "user "+user, nil, v)
		}
	}
}

// parentOf is the queue's parent as was told, "" where it has none, or one that cannot be.
func (a *audit) parentOf(q *queue) string {
	told := func(name string) *api.Queue {
		if o := a.s.queues[name]; o != nil && o.spec != nil && o.spec.Check() == "" {
			return o.spec
		}
		return nil
	}
	me := told(q.name)
	if me == nil || me.Parent == "" || told(me.Parent) == nil {
		return ""
	}
	at := me.Parent
	for range len(a.s.queues) + 1 {
		o := a.s.queues[at]
		if o == nil || o.spec == nil || o.spec.Parent == "" {
			return me.Parent
		}
		at = o.spec.Parent
	}
	return ""
}

// node counts what is free on the node, what can go, and its devices.
func (a *audit) node(n *node) {
	free, yield := make(map[string]int64), make(map[string]int64)
	counts := n.told != nil && n.told.Check() == ""
	a.note("node", n.name, "spec", "", auditBit(n.spec != nil && n.spec == n.told), auditBit(counts))
	if counts {
		for _, r := range n.told.Allocatable {
			free[r.Resource] += r.Value
		}
	}
	seen := make(map[*pod]bool, len(n.occ))
	for _, p := range n.occ {
		a.occupant(n, p, seen[p])
		seen[p] = true
		auditTakes(p.Pod, func(resource string, amount int64) {
			free[resource] -= amount
			if p.Evictable || a.going(p.Pod) {
				yield[resource] += amount
			}
		})
	}
	for key, h := range a.s.holds {
		if h.Node != n.name || a.s.isRejected(api.KindHold, key) {
			continue
		}
		a.note("node", n.name, "hold", h.Gang, auditBit(h.on == n && slices.Contains(n.held, h)), 1)
		for _, r := range h.Requests {
			free[r.Resource] -= r.Value
		}
	}
	a.amounts("node", n.name, "free", n.free, free)
	a.amounts("node", n.name, "yield", n.yield, yield)
	if counts && n.spec == n.told {
		a.devices(n)
	}
}

// occupant checks that the pod is here, once, and in the account of its queue.
func (a *audit) occupant(n *node, p *pod, twice bool) {
	at, devices := a.place(p.Pod)
	a.note("node", n.name, "occupants", p.Key, auditBit(at == n.name && p.seat == n && a.s.pods[p.Key] == p && !twice), 1)
	a.note("pod", p.Key, "devices", n.name, auditBit(slices.Equal(devices, p.seatDevices)), 1)
	a.note("pod", p.Key, "evicting", "", auditBit(p.leaving()), auditBit(a.going(p.Pod)))
	var q *queue
	if queue, _ := a.payerOf(p.Pod); queue != "" {
		q = a.s.queues[queue]
	} else if !p.Foreign {
		q = &a.s.nobody
	}
	a.note("pod", p.Key, "payer", "", auditBit(p.payer == q && (q == nil || p.slot < len(q.pods) && q.pods[p.slot] == p)), 1)
}

// devices counts who holds which.
func (a *audit) devices(n *node) {
	held, blind := make(map[string]int64), int64(0)
	for _, d := range n.spec.Devices {
		held[d.ID] = 0
	}
	for _, p := range n.occ {
		silent := p.Requests.Get(a.s.cfg.GPU)
		_, devices := a.place(p.Pod)
		for _, id := range devices {
			if _, here := held[id]; here {
				held[id]++
				silent--
			}
		}
		blind += max(0, silent)
	}
	loose := int64(0)
	for i, d := range n.spec.Devices {
		nodes := a.s.claims[d.ID]
		owned := slices.Contains(nodes, n) && !slices.ContainsFunc(nodes, func(o *node) bool { return o.name < n.name })
		free := auditBit(held[d.ID] == 0 && !d.Unhealthy && owned)
		loose += free
		if i >= len(n.devices) || i >= len(n.holders) {
			a.note("node", n.name, "devices", "", int64(len(n.devices)), int64(len(n.spec.Devices)))
			return
		}
		a.note("node", n.name, "holders", d.ID, int64(n.holders[i]), held[d.ID])
		a.note("node", n.name, "device", d.ID, auditBit(n.devices[i].Free), free)
	}
	a.note("node", n.name, "loose", "", n.loose, loose)
	a.note("node", n.name, "blind", "", n.blind, blind)
}

// auditBit is 1 for true.
func auditBit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
