package cluster

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// Flavors of nodes. Which flavor a pod counts in follows from its queue and from its node, and is kept nowhere: wherever a pod comes
// to be, its charge is right. A Choice is what is decided before there is a node: it narrows the nodes of a gang's members to those of
// one flavor of each group, by shapes that ask for the flavor's labels (Flavored), so that all else sees one more selector.

// flavorGroup is an api.FlavorGroup by dimension.
type flavorGroup struct {
	*api.FlavorGroup
	of   []int   // of its resources
	dims [][]int // by flavor: of the resources as far as they are of it
}

// compileFlavors numbers what the queue counts apart.
func (m *Model) compileFlavors(q *Queue) {
	for i := range q.Spec.Flavors {
		g := flavorGroup{FlavorGroup: &q.Spec.Flavors[i]}
		for _, r := range g.Resources {
			g.of = append(g.of, m.Dims.ID(r))
		}
		for _, f := range g.Flavors {
			dims := make([]int, len(g.Resources))
			for k, r := range g.Resources {
				dims[k] = m.Dims.ID(api.OfFlavor(r, f.Name))
			}
			g.dims = append(g.dims, dims)
		}
		q.flavors = append(q.flavors, g)
	}
	m.Tree.Flavored = m.Tree.Flavored || len(q.flavors) > 0
}

// HasFlavors says whether some of what the queue's workloads hold counts apart by flavor.
func (q *Queue) HasFlavors() bool { return q != nil && len(q.flavors) > 0 }

// HasFlavors says whether it matters to the gang's queue which flavors of nodes its members get.
func (m *Model) HasFlavors(g *Gang) bool { return m.flavoredQueue(g) != nil }

// FlavoredDim is the resource that the dimension is of a flavor of, if the queue counts it.
func (q *Queue) FlavoredDim(dim int) (of int, ok bool) {
	for i := range q.flavors {
		for _, dims := range q.flavors[i].dims {
			if k := slices.Index(dims, dim); k >= 0 {
				return q.flavors[i].of[k], true
			}
		}
	}
	return 0, false
}

// OfFlavor says whether the dimension is of one flavor of nodes; how much of that there is in all is not counted.
func (m *Model) OfFlavor(dim int) bool {
	if !m.Tree.Flavored {
		return false
	}
	_, _, ok := api.FlavorOf(m.Dims.Names[dim])
	return ok
}

// chargeFlavors is the charge to the queue of what is on the node with what of it counts in flavors; gpus are before the rate of their
// model.
func (m *Model) chargeFlavors(q *Queue, n *Node, charge []quantity.Demand, gpus int64) []quantity.Demand {
	if !m.Tree.Flavored || !q.HasFlavors() || n == nil || n.Spec == nil {
		return charge
	}
	out := slices.Clone(charge)
	for i := range q.flavors {
		g := &q.flavors[i]
		at := g.Of(n.Spec.Labels)
		if at < 0 {
			continue
		}
		for _, d := range charge {
			k := slices.Index(g.of, d.Dim)
			if k < 0 {
				continue
			}
			if d.Dim == quantity.DimGPU {
				d.Amount = gpus
			}
			//mutate: charge-flavor
			out = append(out, quantity.Demand{Dim: g.dims[at][k], Amount: d.Amount})
		}
	}
	return out
}

// pick is one flavor of each group that covers something.
type pick struct {
	key    string // tells it from other picks of the queue
	of     []int  // dimensions of resources that count in flavors
	dims   []int  // in the order of of: those that they count in
	names  []string
	labels map[string]string
	apart  []map[string]string // a node lacks one label of each
}

// Choice is which flavors the members of a gang get. nil leaves it open.
type Choice struct {
	sets []choiceSet
}

// choiceSet is the members that request the same as one of them.
type choiceSet struct {
	like *Pod
	pick *pick
}

// requestsLike says whether the pods request the same amounts.
func (p *Pod) requestsLike(o *Pod) bool {
	return slices.Equal(p.Demands, o.Demands) && p.Claimed == o.Claimed && (p.Part == o.Part || p.Part != nil && o.Part != nil && *p.Part == *o.Part)
}

func (c *Choice) of(p *Pod) *pick {
	if c == nil {
		return nil
	}
	for i := range c.sets {
		if p.requestsLike(c.sets[i].like) {
			return c.sets[i].pick
		}
	}
	return nil
}

// CountsIn is what the pod counts at least of the dimension, which is of a flavor.
func (m *Model) CountsIn(c *Choice, p *Pod, dim int) int64 {
	k := c.of(p)
	if k == nil {
		return 0
	}
	if at := slices.Index(k.dims, dim); at >= 0 {
		return m.Counts(p, k.of[at])
	}
	return 0
}

// Dims are the dimensions of flavors that the choice counts in, sorted.
func (c *Choice) Dims() (out []int) {
	if c == nil {
		return nil
	}
	for i := range c.sets {
		if k := c.sets[i].pick; k != nil {
			out = append(out, k.dims...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// mostChoices bounds what is tried for one gang: the first in order.
const mostChoices = 64

// Choices lists the flavors that the gang may get, in the order in which they are tried: of its members that wait and request the same those
// that their node selectors and affinities leave them, or the ones that some of them have already. It is one nil where flavors do not
// matter to it, and empty where no flavor is for it.
func (m *Model) Choices(g *Gang) []*Choice {
	q := m.flavoredQueue(g)
	if q == nil {
		return []*Choice{nil}
	}
	var sets []choiceSet
	var options [][]*pick
	for _, p := range g.All() {
		// A member that runs has its node, whether or not that is of a flavor.
		//mutate: flavor-set-by-request
		if p.Host != nil || p.Leaving() || p.Foreign || slices.ContainsFunc(sets, func(s choiceSet) bool { return p.requestsLike(s.like) }) {
			continue
		}
		list, covered := m.picks(q, g, p)
		if !covered {
			continue
		}
		if len(list) == 0 {
			return nil
		}
		sets = append(sets, choiceSet{like: p})
		options = append(options, list)
	}
	if len(sets) == 0 {
		return []*Choice{nil}
	}
	var out []*Choice
	at := make([]int, len(sets))
	for len(out) < mostChoices {
		c := &Choice{sets: slices.Clone(sets)}
		for i := range c.sets {
			c.sets[i].pick = options[i][at[i]]
		}
		out = append(out, c)
		i := len(at) - 1
		for ; i >= 0; i-- {
			if at[i]++; at[i] < len(options[i]) {
				break
			}
			at[i] = 0
		}
		if i < 0 {
			break
		}
	}
	return out
}

// flavoredQueue is the queue of the gang if it counts flavors, nil otherwise.
func (m *Model) flavoredQueue(g *Gang) *Queue {
	if !m.Tree.Flavored {
		return nil
	}
	if q := m.Queues[g.Queue()]; q.HasFlavors() {
		return q
	}
	return nil
}

// picks lists what members of the gang like the pod may get, if any group covers what they request.
func (m *Model) picks(q *Queue, g *Gang, like *Pod) (out []*pick, covered bool) {
	out = []*pick{{}}
	for i := range q.flavors {
		group := &q.flavors[i]
		if !slices.ContainsFunc(group.of, func(dim int) bool { return m.Counts(like, dim) > 0 }) {
			continue
		}
		var next []*pick
		flavors := openTo(group, g, like)
		for _, k := range out {
			for _, f := range flavors {
				if !clash(k.labels, group.Flavors[f].Labels) && len(next) < mostChoices {
					next = append(next, k.with(group, i, f))
				}
			}
		}
		out, covered = next, true
	}
	return out, covered
}

// clash says whether the two give one label different values.
func clash(a, b map[string]string) bool {
	for key, value := range a { //archtest:any-order it asks whether there is one
		if got, ok := b[key]; ok && got != value {
			return true
		}
	}
	return false
}

// openTo lists the flavors of the group that members like the pod may get: those that some of them have, which is one unless others
// bound them, else those that contradict nothing that they ask of labels.
func openTo(group *flavorGroup, g *Gang, like *Pod) (out []int) {
	shut, has := make([]bool, len(group.Flavors)), make([]bool, len(group.Flavors))
	for _, p := range g.All() {
		if p.Leaving() || p.Foreign || !p.requestsLike(like) {
			continue
		}
		if p.Host != nil && p.Host.Spec != nil {
			if at := group.Of(p.Host.Spec.Labels); at >= 0 {
				has[at] = true
			}
		}
		for i := range shut {
			//mutate: flavor-contradicts
			shut[i] = shut[i] || p.Host == nil && contradicts(&p.Spec, group.Flavors[i].Labels)
		}
	}
	//mutate: flavor-of-those-that-run -> false
	if slices.Contains(has, true) {
		shut = has
		for i := range shut {
			shut[i] = !shut[i]
		}
	}
	for i := range shut {
		if !shut[i] {
			out = append(out, i)
		}
	}
	return out
}

// contradicts says whether the spec's selector, or each term of its affinity, asks for other values of the labels.
func contradicts(spec *api.Spec, labels map[string]string) bool {
	return clash(spec.Selector, labels) || spec.Affinity != nil && !slices.ContainsFunc(spec.Affinity, func(t api.Term) bool {
		return !slices.ContainsFunc(t.Labels, func(r api.Requirement) bool {
			_, ok := labels[r.Key]
			return ok && !r.Matches(labels)
		})
	})
}

// with is the pick with the flavor of the group too, which is the i-th of its queue.
func (k *pick) with(group *flavorGroup, i, flavor int) *pick {
	f := &group.Flavors[flavor]
	out := &pick{
		key: k.key + strconv.Itoa(i) + ":" + strconv.Itoa(flavor) + ",", of: slices.Concat(k.of, group.of), dims: slices.Concat(k.dims, group.dims[flavor]),
		names: append(slices.Clone(k.names), f.Name), labels: make(map[string]string, len(k.labels)+len(f.Labels)), apart: slices.Concat(k.apart, group.Apart(flavor)),
	}
	maps.Copy(out.labels, k.labels)
	maps.Copy(out.labels, f.Labels)
	slices.Sort(out.names)
	return out
}

// flavoredShapes are shapes narrowed to flavors.
type flavoredShapes struct {
	version uint64 // Tree.Version that they are of
	by      map[flavoredShape]*Shape
}

type flavoredShape struct {
	of   *Shape
	q    *Queue
	pick string
}

// Flavored is the shape of the pod as far as it is on nodes of the flavors that it gets.
func (m *Model) Flavored(c *Choice, p *Pod) *Shape {
	base, k := m.ShapeOf(p), c.of(p)
	if k == nil {
		return base
	}
	t := &m.flavored
	if t.version != m.Tree.Version || len(t.by) >= maxShapes {
		*t = flavoredShapes{version: m.Tree.Version, by: make(map[flavoredShape]*Shape)}
	}
	key := flavoredShape{base, m.QueueOf(p), k.key}
	sh := t.by[key]
	if sh == nil {
		sh = &Shape{}
		*sh = *base
		sh.Spec = k.narrow(base.Spec)
		sh.Keys, sh.Flavors = sh.Spec.Keys(), k.names
		t.by[key] = sh
	}
	sh.Own = base.Own // rules between pods come and go
	return sh
}

// narrow is the spec with what a node of the flavors has and lacks.
func (k *pick) narrow(spec *api.Spec) *api.Spec {
	out := *spec
	out.Selector = maps.Clone(spec.Selector)
	if out.Selector == nil {
		out.Selector = make(map[string]string, len(k.labels))
	}
	if clash(out.Selector, k.labels) { // no node has both: others of the gang run on nodes that it may not be on
		out.Affinity = []api.Term{}
	} else {
		maps.Copy(out.Selector, k.labels)
	}
	for _, more := range k.apart {
		out.Affinity = without(out.Affinity, more)
	}
	return &out
}

// without is the affinity to nodes that, besides, lack one of the labels.
func without(terms []api.Term, labels map[string]string) []api.Term {
	if terms == nil {
		terms = []api.Term{{}}
	}
	out := make([]api.Term, 0, len(terms)*len(labels))
	for _, t := range terms {
		for _, key := range slices.Sorted(maps.Keys(labels)) {
			t := t
			t.Labels = append(slices.Clip(t.Labels), api.Requirement{Key: key, Op: api.NotIn, Values: []string{labels[key]}})
			out = append(out, t)
		}
	}
	return out
}

// inFlavor says whether the name is of a flavor of the resource.
func inFlavor(name, resource string) bool {
	return strings.HasPrefix(name, resource) && strings.HasPrefix(name[len(resource):], "#")
}
