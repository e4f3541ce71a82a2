package census

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// QueueUse is a queue in numbers. What its workloads hold, want and are is of those of the queues below it too, as
// its account is. All amounts are sorted, and those of 0 are left out.
type QueueUse struct {
	api.Queue          // of one that does not exist, the name alone
	Known     bool     // it exists
	Problem   string   // why it has no effect; "": it has
	Warnings  []string // what it promises and may not be able to keep
	Depth     int      // how many queues are above it

	Used api.Resources
	// Borrowed is what is used beyond the quota, of resources that some queue is promised.
	Borrowed api.Resources
	// Lent is what of the unused quota others use. Among siblings, what they use beyond their quotas is taken first
	// from what is promised to nobody: of nodes at the top, less what work without a queue has, and of their parent's
	// quota below. The rest comes from those
	// that use less than their quotas and lend it, in proportion to what each could lend, and beyond that from above.
	// A queue's lent part is made up of its children's in the same way. So at the top the lent are the borrowed, less
	// what is in no queue's quota.
	Lent   api.Resources
	Wanted api.Resources // what pods without a place ask for
	Share  api.Resources // its fair share, as of the last plan
	// Parts and PartsWanted are what parts of GPUs come to that pods have, and that pods without a place ask for at least: in
	// thousandths of a GPU, and before the rates of models. Used and Wanted include them.
	Parts, PartsWanted int64

	Running, Waiting Crowd

	GPUSeconds int64     // used since it was first seen, as of At
	Spent      []int64   // of each of its budgets, in seconds, in the period that At is in
	At         time.Time // zero: nothing was counted yet
}

// Crowd is workloads and the GPUs that they ask for. A workload that lacks members of its minimum waits, and counts
// with what it does not hold yet.
type Crowd struct {
	Workloads int
	GPUs      int64
}

// QueueUses lists the queues that exist: each, then those below it, siblings by name. Then, by name, those that do not
// exist and yet are charged or named.
func QueueUses(m *cluster.Model) []QueueUse {
	c := census{m: m, rows: make(map[string]*useRow, len(m.Queues))}
	for _, q := range m.Tree.Top {
		c.enter(q, 0)
	}
	c.countWorkloads()
	c.countWanted()
	for _, dim := range m.Tree.PromisedDims {
		c.balance(dim)
	}
	return c.list()
}

// census is a count of all queues that is being made.
type census struct {
	m     *cluster.Model
	rows  map[string]*useRow
	order []*useRow // of the tree
}

// useRow is one queue in it.
type useRow struct {
	QueueUse
	of                     *cluster.Queue // nil: known by name alone
	borrowed, lent, wanted quantity.Vector
}

// enter makes the rows of the queue and of those below it.
func (c *census) enter(q *cluster.Queue, depth int) {
	r := c.row(q.Name)
	r.of, r.Depth, r.Known, r.Problem = q, depth, q.Spec != nil, c.problem(q)
	if r.Known {
		r.Queue = *q.Spec
	}
	for _, w := range c.m.Tree.Warnings {
		if w.Key == q.Name {
			r.Warnings = append(r.Warnings, w.Reason)
		}
	}
	if sp := c.m.Usages[q.Name]; sp != nil {
		r.GPUSeconds, r.Spent, r.At = sp.Total, sp.Spent, sp.At
	}
	for _, child := range q.Children {
		c.enter(child, depth+1)
	}
}

// row is that of the name, made where there is none.
func (c *census) row(name string) *useRow {
	r := c.rows[name]
	if r == nil {
		r = &useRow{QueueUse: QueueUse{Queue: api.Queue{Name: name}}}
		c.rows[name] = r
		c.order = append(c.order, r)
	}
	return r
}

func (c *census) problem(q *cluster.Queue) string {
	if q.Spec == nil {
		return ""
	}
	return cmp.Or(c.m.Invalid[api.Ref{Kind: api.KindQueue, Key: q.Name}], q.Problem, q.Trouble())
}

// up are the rows of the queue and of those above it.
func (c *census) up(name string) []*useRow {
	r := c.row(name)
	out := []*useRow{r}
	if r.of == nil {
		return out
	}
	for q := r.of.Parent; q != nil; q = q.Parent {
		out = append(out, c.rows[q.Name])
	}
	return out
}

func (c *census) countWorkloads() {
	for _, t := range tallies(c.m, "") {
		if t.Queue == "" {
			continue
		}
		for _, r := range c.up(t.Queue) {
			if t.Placed == 0 || t.Placed < t.Min {
				r.Waiting.Workloads++
				r.Waiting.GPUs += t.GPUs - t.Held
			} else {
				r.Running.Workloads++
				r.Running.GPUs += t.GPUs
			}
		}
	}
}

func (c *census) countWanted() {
	//archtest:any-order it only adds up
	for _, p := range c.m.Pods {
		name := chargedTo(c.m, p)
		if name == "" || !p.Waits() && p.Host == nil {
			continue
		}
		for _, r := range c.up(name) {
			if !p.Waits() {
				r.Parts += c.m.PartsOf(p)
				continue
			}
			r.PartsWanted += c.m.PartsOf(p)
			for _, d := range c.m.AllCounts(p) {
				r.wanted.Add(d.Dim, d.Amount)
			}
		}
	}
}

// chargedTo is the name of the queue that the pod is charged to, "" for none.
func chargedTo(m *cluster.Model, p *cluster.Pod) string {
	if p.Foreign {
		return ""
	}
	if p.Gang == "" {
		return p.Queue
	}
	if g := m.Gangs[p.Gang]; g != nil && g.Spec != nil {
		return g.Spec.Queue
	}
	return ""
}

// balance works out what is borrowed and lent of a dimension.
func (c *census) balance(dim int) {
	for _, r := range c.order {
		if r.of != nil {
			r.borrowed.Add(dim, max(0, r.of.Used.At(dim)-c.quota(r.of, dim)))
		}
	}
	nobodys, strangers := c.m.InAll(dim)
	for _, q := range c.m.Tree.Top {
		nobodys -= c.quota(q, dim)
		strangers -= q.Used.At(dim)
	}
	c.lend(c.m.Tree.Top, dim, c.beyond(c.m.Tree.Top, dim)-max(0, nobodys-max(0, strangers)))
}

// quota is what the queue is promised, as far as that has an effect.
func (c *census) quota(q *cluster.Queue, dim int) int64 {
	if !c.m.Valid(q) {
		return 0
	}
	return c.m.Quota(q, dim)
}

// beyond is what the siblings use beyond their quotas together.
func (c *census) beyond(siblings []*cluster.Queue, dim int) (sum int64) {
	for _, q := range siblings {
		sum += c.rows[q.Name].borrowed.At(dim)
	}
	return sum
}

// lend shares the amount out among the siblings that can lend, as far as they can, and among those below them.
func (c *census) lend(siblings []*cluster.Queue, dim int, amount int64) {
	can := make([]int64, len(siblings))
	for i, q := range siblings {
		can[i] = c.lendable(q, dim)
	}
	unit := c.m.Unit(dim)
	//mutate: lent-in-whole-gpus
	if amount%unit != 0 || slices.ContainsFunc(can, func(n int64) bool { return n%unit != 0 }) {
		unit = 1
	}
	for i := range can {
		can[i] /= unit
	}
	for i, part := range inProportion(amount/unit, can) {
		q := siblings[i]
		part *= unit
		c.rows[q.Name].lent.Add(dim, part)
		if len(q.Children) == 0 {
			continue
		}
		c.lend(q.Children, dim, part+c.beyond(q.Children, dim)-c.spare(q, dim)-c.rows[q.Name].borrowed.At(dim))
	}
}

// spare is what is promised to the queue and to none of its children, less what its own workloads have.
func (c *census) spare(q *cluster.Queue, dim int) int64 {
	spare, own := c.quota(q, dim), q.Used.At(dim)
	for _, child := range q.Children {
		spare -= c.quota(child, dim)
		own -= child.Used.At(dim)
	}
	return max(0, spare) - own
}

// lendable is the unused quota that the queue lends.
func (c *census) lendable(q *cluster.Queue, dim int) int64 {
	idle := max(0, c.quota(q, dim)-q.Used.At(dim))
	if idle == 0 {
		return 0
	}
	name := c.m.Dims.Names[dim]
	if i := slices.IndexFunc(q.Spec.Lend, func(a api.Amount) bool { return a.Resource == name }); i >= 0 {
		_, lends := c.m.Booked(q.Spec.Lend[i])
		return min(idle, lends)
	}
	return idle
}

// inProportion shares the amount, or all that there is if that is less, in whole parts; what is left by rounding goes
// to those that lost most by it, the first of equals.
func inProportion(amount int64, of []int64) []int64 {
	var sum int64
	for _, v := range of {
		sum += v
	}
	out, lost := make([]int64, len(of)), make([]uint64, len(of))
	amount = min(amount, sum)
	if amount <= 0 {
		return out
	}
	left, order := amount, make([]int, len(of))
	for i, v := range of {
		hi, lo := bits.Mul64(uint64(amount), uint64(v))
		part, rest := bits.Div64(hi, lo, uint64(sum))
		out[i], lost[i], order[i] = int64(part), rest, i
		left -= out[i]
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(lost[b], lost[a]) })
	for _, i := range order[:left] {
		out[i]++
	}
	return out
}

// list is the rows that have something to say, in the order of the tree.
func (c *census) list() []QueueUse {
	slices.SortStableFunc(c.order, func(a, b *useRow) int {
		switch {
		case a.Known != b.Known:
			return cluster.Before(a.Known)
		case a.Known:
			return 0
		}
		return strings.Compare(a.Name, b.Name)
	})
	var out []QueueUse
	for _, r := range c.order {
		if r.of != nil {
			r.Used, r.Share = c.amounts(r.of.Used), c.amounts(r.of.Fair)
		}
		r.Borrowed, r.Lent, r.Wanted = c.amounts(r.borrowed), c.amounts(r.lent), c.amounts(r.wanted)
		if r.Known || len(r.Used) > 0 || r.Running.Workloads+r.Waiting.Workloads > 0 {
			out = append(out, r.QueueUse)
		}
	}
	return out
}

// amounts names what is not nothing.
func (c *census) amounts(v quantity.Vector) (out api.Resources) {
	for dim, n := range v {
		if n != 0 && dim != quantity.DimPods {
			out = append(out, c.m.Told(dim, n))
		}
	}
	if out == nil {
		return nil
	}
	return out.Sorted()
}
