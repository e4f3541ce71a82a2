package oracle

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/engine"
)

// Used counts from scratch, for every queue that has an effect, what its workloads and those of the queues below it
// hold, by resource, GPUs in thousandths. Assumptions count until they are dropped: an account has no clock. gangs is all of them, those
// that are rejected too.
func Used(snap engine.Snapshot, cfg engine.Config, gangs []engine.Gang) map[string]map[string]int64 {
	w := newWorld(snap, cfg, time.Time{}.Add(-time.Hour))
	for _, g := range gangs {
		w.gang[g.Key] = g
	}
	out := map[string]map[string]int64{}
	for _, q := range w.Queues {
		used := w.charges(w.charged(q.Name))
		delete(used, engine.Pods)
		for r, v := range used {
			if v == 0 {
				delete(used, r)
			}
		}
		out[q.Name] = used
	}
	return out
}

// queue is the queue of that name, and whether it exists and has an effect.
func (w *world) queue(name string) (engine.Queue, bool) {
	i := slices.IndexFunc(w.Queues, func(q engine.Queue) bool { return q.Name == name })
	if i < 0 {
		return engine.Queue{}, false
	}
	return w.Queues[i], true
}

// chain is the queue and those above it, the lowest first, and whether it goes up to the top.
func (w *world) chain(name string) (out []engine.Queue, whole bool) {
	for name != "" && len(out) <= len(w.Queues) {
		q, ok := w.queue(name)
		if !ok {
			return out, false
		}
		out = append(out, q)
		name = q.Parent
	}
	return out, name == ""
}

// below says whether the first queue is the second or below it.
func (w *world) below(name, up string) bool {
	chain, _ := w.chain(name)
	return some(chain, func(q engine.Queue) bool { return q.Name == up })
}

// charged is the pods that have a place and count for the queue.
func (w *world) charged(queue string) []engine.Pod {
	return filter(w.up(w.Pods), func(p engine.Pod) bool { return !p.Foreign && w.below(w.gang[p.Gang].Queue, queue) })
}

// charges is what the pods, each where it is, count in queues.
func (w *world) charges(pods []engine.Pod) map[string]int64 {
	out := map[string]int64{}
	for _, p := range pods {
		model := ""
		if w.modelled() {
			model = w.modelOf(p)
		}
		n, by := w.node[w.at[p.Key].node], w.countsBy(w.gang[p.Gang].Queue)
		charges := []engine.Amount{{Resource: w.gpu, Value: w.partsCount(p) + p.Claimed}}
		for _, a := range p.Requests {
			charges = append(charges, engine.Amount{Resource: w.gpu, Value: a.Value * w.ofGPU(n, a.Resource, by)})
			if a.Resource != w.gpu {
				charges = append(charges, a)
			}
		}
		for _, a := range charges {
			if a.Resource == w.gpu && model != "" {
				out[engine.OfModel(w.gpu, cutFrom(model))] += a.Value
			}
			if f := w.flavorOf(w.gang[p.Gang].Queue, a.Resource, n); f != "" {
				out[engine.OfFlavor(a.Resource, f)] += a.Value
			}
			if a.Resource == w.gpu {
				a.Value *= w.rate(model)
			}
			out[a.Resource] += a.Value
		}
	}
	return out
}

// countsBy is by what the queue counts parts.
func (w *world) countsBy(queue string) (by engine.PartsBy) {
	chain, _ := w.chain(queue)
	for _, q := range chain {
		by = cmp.Or(by, q.PartsBy)
	}
	return by
}

// ofGPU is what one of the resource is of a GPU on the node, in thousandths.
func (w *world) ofGPU(n engine.Node, resource string, by engine.PartsBy) int64 {
	for _, s := range n.Slices {
		switch {
		case s.Resource != resource:
		case by == "compute", by != "memory" && s.Compute > s.Memory:
			return s.Compute
		default:
			return s.Memory
		}
	}
	if resource == w.gpu {
		return 1000
	}
	return 0
}

// partsCount is what the pod's parts of GPUs count where it is, in thousandths of a GPU.
func (w *world) partsCount(p engine.Pod) (sum int64) {
	if p.Part == nil {
		return 0
	}
	by, at := w.countsBy(w.gang[p.Gang].Queue), w.at[p.Key]
	for i := range p.Part.Cards {
		sum += partCount(p.Part, w.card(at, i), by)
	}
	return sum
}

// partCount is what a part of one GPU with so much memory, 0 where that is unknown, counts in thousandths.
func partCount(p *engine.Part, card int64, by engine.PartsBy) int64 {
	memory := p.Share
	if p.Memory > 0 {
		memory = 1000
		if card > 0 {
			memory = min(1000, p.Memory*1000/card)
		}
	}
	compute := cmp.Or(p.Compute, memory)
	switch {
	case p.Compute == 1000:
		memory = 1000
	case by == "compute":
		memory = compute
	case by != "memory":
		memory = max(memory, compute)
	}
	return max(1, memory)
}

// card is the memory of the i-th device of the spot; of the smallest that gives parts where it is not known which that is.
func (w *world) card(at spot, i int) (least int64) {
	for _, d := range w.node[at.node].Devices {
		if i < len(at.devices) && at.devices[i] == d.ID {
			return d.Memory
		}
		if d.Parts > 0 && (least == 0 || d.Memory < least) {
			least = d.Memory
		}
	}
	return least
}

// modelled says whether GPUs count by their model.
func (w *world) modelled() bool {
	return len(w.cfg.Rates) > 0 || some(w.Queues, func(q engine.Queue) bool {
		return some(slices.Concat(q.Quota, q.Limits, q.Lend, q.UserLimits), func(a engine.Amount) bool { return strings.HasPrefix(a.Resource, w.gpu+"@") })
	})
}

func (w *world) rate(model string) int64 {
	model = cutFrom(model)
	for _, r := range w.cfg.Rates {
		if r.Model == model {
			return r.Units
		}
	}
	return 1
}

// cutFrom is the model of the GPU that an instance of MIG, A100-MIG-1g.5gb, is cut from; of a GPU its own.
func cutFrom(model string) string {
	if at := strings.Index(model, "-MIG-"); at >= 0 {
		return model[:at]
	}
	return model
}

// apart says whether it matters to the gang's queue which GPU model its members get: then all get one.
func (w *world) apart(g engine.Gang) bool {
	return w.modelled() && g.Queue != "" && some(w.Pods, func(p engine.Pod) bool { return p.Gang == g.Key && amount(p.Requests, w.gpu) > 0 })
}

// picky says whether the pod's GPUs must be of the model.
func (w *world) picky(p engine.Pod, model string) bool {
	return len(p.GPU.Models) > 0 || model != "" && w.apart(w.gang[p.Gang])
}

// modelsOn is the GPU models of the node that are known, as often as it has them.
func modelsOn(n engine.Node) (out []string) {
	for _, d := range n.Devices {
		out = append(out, d.Model)
	}
	if len(n.Devices) == 0 {
		out = []string{n.Model}
	}
	return slices.DeleteFunc(out, func(m string) bool { return m == "" })
}

// allModels is the GPU models that nodes have, by name; one "" where none is known.
func (w *world) allModels() (out []string) {
	for _, n := range w.Nodes {
		out = append(out, modelsOn(n)...)
	}
	if len(out) == 0 {
		return []string{""}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// modelOf is the GPU model that a pod has, where it is known: that of its devices, or of all its node's. One that is
// being tried has what it is tried with.
func (w *world) modelOf(p engine.Pod) string {
	at := w.at[p.Key]
	if w.was[p.Key].node == "" && w.model != "" && w.picky(p, w.model) {
		return w.model
	}
	all := w.node[at.node].Devices
	for _, id := range at.devices {
		if i := slices.IndexFunc(all, func(d engine.Device) bool { return d.ID == id }); i >= 0 {
			return all[i].Model
		}
	}
	return w.onlyModel(w.node[at.node])
}

// pledged is what standing holds keep for workloads of the queue, but for this one.
func (w *world) pledged(queue, resource, but string) (total int64) {
	mine := w.claimed(w.Holds, but)
	for _, h := range w.Holds {
		if !mine[place(h)] && w.stands(h) && w.below(w.whose(h).Queue, queue) {
			total += w.billOf(h)[resource]
		}
	}
	return total
}

// pledgedToUser is what standing holds keep for other workloads of the gang's user in its queue.
func (w *world) pledgedToUser(g engine.Gang, resource string) (total int64) {
	own := w.claimed(w.Holds, g.Key)
	for _, h := range w.Holds {
		if x := w.whose(h); !own[place(h)] && w.stands(h) && x.Queue == g.Queue && x.User == g.User {
			total += w.billOf(h)[resource]
		}
	}
	return total
}

// whose is the workload that the place is held for; of what an owner makes again, it is the first of those that the owner made.
func (w *world) whose(h engine.Hold) engine.Gang {
	if g, known := w.gang[h.Gang]; known {
		return g
	}
	first := ""
	for _, p := range w.Pods {
		if p.Gang == p.Key && !p.Foreign && p.Owner == h.Gang && (first == "" || p.Key < first) {
			first = p.Key
		}
	}
	return w.gang[first]
}

// billOf is what the hold counts in queues: GPUs by their model, where its node has only one.
func (w *world) billOf(h engine.Hold) map[string]int64 {
	model := ""
	if w.modelled() {
		model = w.onlyModel(w.node[h.Node])
	}
	out := map[string]int64{}
	var charges []engine.Amount
	by := w.countsBy(w.whose(h).Queue)
	charges = append(charges, engine.Amount{Resource: w.gpu, Value: h.Claimed})
	for _, c := range h.Cards {
		if c.Part != nil {
			charges = append(charges, engine.Amount{Resource: w.gpu, Value: partCount(c.Part, w.card(spot{h.Node, []string{c.ID}}, 0), by)})
		}
	}
	for _, a := range h.Requests {
		charges = append(charges, engine.Amount{Resource: w.gpu, Value: a.Value * w.ofGPU(w.node[h.Node], a.Resource, by)})
		if a.Resource != w.gpu {
			charges = append(charges, a)
		}
	}
	for _, a := range charges {
		if a.Resource == w.gpu && model != "" {
			out[engine.OfModel(w.gpu, cutFrom(model))] += a.Value
		}
		if f := w.flavorOf(w.whose(h).Queue, a.Resource, w.node[h.Node]); f != "" {
			out[engine.OfFlavor(a.Resource, f)] += a.Value
		}
		if a.Resource == w.gpu {
			a.Value *= w.rate(model)
		}
		out[a.Resource] += a.Value
	}
	return out
}

// promised says whether any queue has a quota of the resource; a quota of 0 alone promises nothing.
func (w *world) promised(resource string) bool {
	return some(w.Queues, func(q engine.Queue) bool {
		return some(q.Quota, func(a engine.Amount) bool { return a.Resource == resource && a.Value > 0 })
	})
}

// covers says whether the queue's quota is about the resource at all: where it is of devices only, of others just those that
// it names.
func (w *world) covers(q engine.Queue, resource string) bool {
	return !q.DevicesOnly || strings.Contains(resource, "/") || some(q.Quota, func(a engine.Amount) bool { return a.Resource == resource })
}

// firm says whether a pod can never be asked back.
func (w *world) firm(p engine.Pod) bool {
	g := w.gang[p.Gang]
	return !p.Evictable || g.Core && (g.Min == 0 || p.Rank < g.Min)
}

// overdraft names the rule of the gang's queue, or of one above it, that what is being tried breaks; "": none.
func (w *world) overdraft(g engine.Gang) string {
	if g.Queue == "" {
		return ""
	}
	namespace, _, _ := strings.Cut(g.Key, "/")
	chain, whole := w.chain(g.Queue)
	if !whole || len(chain) == 0 {
		return "queue missing"
	}
	own := chain[0]
	if own.Namespaces != nil && !slices.Contains(own.Namespaces, namespace) {
		return "queue forbidden"
	}
	tried := w.fresh(w.members(g, g.Group))
	takes := w.charges(tried)
	for _, q := range chain {
		used := w.charges(w.charged(q.Name))
		for _, l := range q.Limits {
			if takes[l.Resource] > 0 && used[l.Resource]+w.pledged(q.Name, l.Resource, g.Key) > l.Value {
				return fmt.Sprintf("limit of %s: %d of %s", q.Name, used[l.Resource], l.Resource)
			}
		}
		for i, b := range q.Budgets {
			if takes[b.Resource] > 0 && w.spent(q, i) >= b.Seconds {
				return "budget of " + q.Name
			}
		}
		if q.MaxRunning > 0 && w.begins(g) && w.crowd(q.Name) > q.MaxRunning {
			return "maximum of running workloads of " + q.Name
		}
		stays := w.charges(filter(w.charged(q.Name), w.firm))
		for r, v := range w.charges(filter(tried, w.firm)) {
			if v > 0 && w.promised(r) && w.covers(own, r) && stays[r] > amount(q.Quota, r) {
				return fmt.Sprintf("firm work within quota of %s: %d of %s", q.Name, stays[r], r)
			}
		}
	}
	for _, r := range slices.Sorted(maps.Keys(takes)) {
		if takes[r] == 0 || strings.Contains(r, "#") {
			continue
		}
		// Whom the plan evicts, and what it holds, it may have decided before this start or after it.
		if broken := w.lending(chain, r, g.Key); broken != "" && (w.plan == nil || w.decided().lending(chain, r, g.Key) != "") {
			return broken
		}
	}
	mine := w.charges(filter(w.up(w.Pods), func(p engine.Pod) bool {
		x := w.gang[p.Gang]
		return !p.Foreign && x.Queue == g.Queue && x.User == g.User
	}))
	for _, l := range own.UserLimits {
		if takes[l.Resource] > 0 && mine[l.Resource]+w.pledgedToUser(g, l.Resource) > l.Value {
			return fmt.Sprintf("limit of user %q: %d of %s", g.User, mine[l.Resource], l.Resource)
		}
	}
	return ""
}

// lending says how what the queues of the chain borrow of the resource breaks what others lend; "": it does not.
func (w *world) lending(chain []engine.Queue, resource, but string) string {
	kept, free := w.keptFrom(chain, resource, but), w.unused(resource)
	if kept > 0 && free < kept && !w.within(chain, resource, but) {
		return fmt.Sprintf("what others lend of %s: %d are free, and %d kept", resource, free, kept)
	}
	return ""
}

// decided is the world with those that the plan evicts on their way out, and the places that it holds held.
func (w *world) decided() *world {
	after := *w
	after.Evictions = append(slices.Clip(w.Evictions), w.plan.Evictions...)
	after.Holds = slices.Clip(w.Holds)
	for _, c := range w.plan.Changes {
		if c.Hold != nil {
			after.Holds = append(after.Holds, *c.Hold)
		}
	}
	return &after
}

// committed is what the queue's workloads will hold once what leaves is gone and what is held, but for one, is taken.
func (w *world) committed(queue, resource, but string) int64 {
	stay := filter(w.charged(queue), func(p engine.Pod) bool { return !w.leaving(p) })
	return w.charges(stay)[resource] + w.pledged(queue, resource, but)
}

// within says whether all of the queues are within their quota of the resource.
func (w *world) within(chain []engine.Queue, resource, but string) bool {
	return !some(chain, func(q engine.Queue) bool { return w.committed(q.Name, resource, but) > amount(q.Quota, resource) })
}

// unused is what of the resource is free, as queues count it.
func (w *world) unused(resource string) (free int64) {
	for _, n := range w.Nodes {
		left := amount(n.Allocatable, resource)
		if resource != w.gpu {
			free += left
			continue
		}
		sum := int64(0)
		for _, a := range n.Allocatable {
			sum += a.Value * w.ofGPU(n, a.Resource, "")
		}
		if len(n.Slices) > 0 {
			free += sum * w.rate(w.onlyModel(n))
			continue
		}
		free += sum
		for _, d := range n.Devices {
			if left > 0 {
				free += 1000 * (w.rate(d.Model) - 1)
				left--
			}
		}
	}
	return free - w.charges(w.up(w.Pods))[resource]
}

// onlyModel is the model of the node's GPUs where they are all of one, "" otherwise.
func (w *world) onlyModel(n engine.Node) string {
	if len(n.Devices) == 0 {
		return n.Model
	}
	if some(n.Devices, func(d engine.Device) bool { return d.Model != n.Devices[0].Model }) {
		return ""
	}
	return n.Devices[0].Model
}

// keptFrom is what queues beside the chain keep to themselves.
func (w *world) keptFrom(chain []engine.Queue, resource, but string) (total int64) {
	for _, q := range chain {
		for _, o := range w.Queues {
			if o.Parent == q.Parent && o.Name != q.Name {
				total += w.kept(o, resource, but)
			}
		}
	}
	return total
}

// kept is the unused quota of the queue, or of those below it, that no other queue may have.
func (w *world) kept(q engine.Queue, resource, but string) (below int64) {
	for _, c := range w.Queues {
		if c.Parent == q.Name {
			below += w.kept(c, resource, but)
		}
	}
	if !some(q.Lend, func(a engine.Amount) bool { return a.Resource == resource }) {
		return below
	}
	return max(below, amount(q.Quota, resource)-w.committed(q.Name, resource, but)-amount(q.Lend, resource))
}

// begins says whether the gang holds nothing but what is being tried, and what is on its way out.
func (w *world) begins(g engine.Gang) bool {
	return !some(w.Pods, func(p engine.Pod) bool { return p.Gang == g.Key && w.was[p.Key].node != "" && !w.leaving(p) })
}

// crowd is how many workloads of the queue hold something.
func (w *world) crowd(queue string) int {
	seen := map[string]bool{}
	for _, p := range w.charged(queue) {
		seen[p.Gang] = true
	}
	return len(seen)
}

// spent is what the queue used of a budget in the period that now is in.
func (w *world) spent(q engine.Queue, i int) int64 {
	b := q.Budgets[i]
	number := func(t time.Time) int64 {
		since := t.Sub(b.From)
		if b.From.IsZero() {
			since = time.Duration(t.UnixNano())
		}
		n := int64(since / b.Period)
		if since%b.Period < 0 {
			n--
		}
		return n
	}
	for _, s := range w.Usages {
		if s.Queue == q.Name && i < len(s.Spent) && number(s.At) == number(w.now) {
			return s.Spent[i]
		}
	}
	return 0
}

// siblings are the queues, on the ways up from a and b, that are next to each other; equal where one is above the other. A
// queue that has no effect, or one above it that has none, has no name and no quota: all that is in it is borrowed.
func (w *world) siblings(a, b string) (x, y engine.Queue) {
	up, _ := w.chain(a)
	other, whole := w.chain(b)
	slices.Reverse(up)
	slices.Reverse(other)
	if len(up) > 0 && (len(other) == 0 || !whole) {
		return up[0], engine.Queue{}
	}
	for i := range min(len(up), len(other)) {
		if x, y = up[i], other[i]; x.Name != y.Name {
			return x, y
		}
	}
	return x, y
}

// minRun is how long work of the queue runs before it may be evicted for others.
func (w *world) minRun(queue string) time.Duration {
	q, _ := w.queue(queue)
	return cmp.Or(q.MinRun, w.cfg.MinRun)
}
