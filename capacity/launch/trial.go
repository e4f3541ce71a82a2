package launch

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/engine"
)

// trial is the cluster with machines that do not exist. It is the decider's own: nothing has to be undone in it.
type trial struct {
	state   *engine.State
	version uint64
	plan    engine.Plan // the last
	waiting map[string]bool
	demand  map[string]int
	offers  map[string]*offer // by node name; those of the present round, and those that were used
}

// offer is a node that could be launched.
type offer struct {
	pool  *pool
	zone  string
	from  Source
	index int
}

// newTrial is the cluster without what is leaving, and with what is on its way as nodes that are ready.
func (d *decider) newTrial() *trial {
	snap := d.w.Cluster
	own := d.byNode()
	nodes := make([]engine.Node, 0, len(snap.Nodes))
	there := make(map[string]bool, len(snap.Nodes))
	for _, n := range snap.Nodes {
		m := own[n.Name]
		switch {
		case m == nil:
		case m.gone:
			n.Cordoned = true
		case m.State == Launching:
			continue
		}
		there[n.Name] = true
		nodes = append(nodes, n)
	}
	for _, m := range d.machines {
		if m.gone || there[m.Name] {
			continue
		}
		n := d.byName[m.Pool].Like(m.Index, m.Zone, m.From)
		n.Name, n.Version = m.Name, 1
		nodes = append(nodes, n)
	}
	snap.Nodes = nodes
	snap.Holds = append(slices.Clip(snap.Holds), d.holds(snap.Latest)...)
	policy := d.w.Policy
	policy.Classes = max(policy.Classes, 4096)
	t := &trial{state: engine.Load(snap, policy), version: snap.Latest, offers: make(map[string]*offer)}
	t.demand = d.demands()
	return t
}

// byNode are the machines by the names of their nodes.
func (d *decider) byNode() map[string]*machine {
	out := make(map[string]*machine, len(d.machines))
	for _, m := range d.machines {
		out[m.Name] = m
	}
	return out
}

// holds keep machines that were launched for a gang for it, as far as it needs them: else others could have them first, and more
// would be launched for the gang.
func (d *decider) holds(version uint64) (out []engine.Hold) {
	asks, sums := make(map[string]bool), make(map[string]engine.Resources)
	for _, m := range d.machines {
		asks[m.For] = asks[m.For] || !m.gone
	}
	for i := range d.w.Cluster.Pods {
		p := &d.w.Cluster.Pods[i]
		if key := p.WorkloadKey(); p.Node == "" && asks[key] {
			sums[key] = plus(sums[key], p.Requests)
		}
	}
	for _, m := range d.machines {
		sum := sums[m.For]
		if m.gone || m.State == Ready && m.Idle.IsZero() || len(sum) == 0 {
			continue
		}
		have := d.byName[m.Pool].Like(m.Index, m.Zone, m.From).Allocatable
		hold := engine.Hold{Gang: m.For, Node: m.Name, Version: version + 1, Until: d.w.Now.Add(time.Hour)}
		for i := range sum {
			n := min(sum[i].Value, have.Get(sum[i].Resource))
			sum[i].Value -= n
			if n > 0 {
				hold.Requests = append(hold.Requests, engine.Amount{Resource: sum[i].Resource, Value: n})
			}
		}
		if len(hold.Requests) > 0 {
			out = append(out, hold)
		}
	}
	return out
}

// plus is the sum of two vectors. The first may be written to.
func plus(a, b engine.Resources) engine.Resources {
	for _, x := range b {
		i := slices.IndexFunc(a, func(o engine.Amount) bool { return o.Resource == x.Resource })
		if i < 0 {
			a = append(a, x)
		} else {
			a[i].Value += x.Value
		}
	}
	return a
}

// next plans.
func (t *trial) next(now time.Time) []engine.Start {
	t.plan = t.state.Sketch(now)
	for _, c := range t.plan.Changes {
		if ref, ok := c.Ref(); ok {
			t.version = max(t.version, ref.Version)
		}
	}
	return t.plan.Starts
}

// settle has what the last plan does be there in later ones, except what the refused gangs would do. Those for whom others are
// evicted leave the line: they have a place soon, and need no machine.
func (t *trial) settle(refused map[string]bool) {
	of, served := make(map[string]string), make(map[string]bool)
	for _, s := range t.plan.Starts {
		for _, p := range s.Placements {
			of[p.Pod] = s.Gang
		}
	}
	var changes []engine.Change
	for _, c := range t.plan.Changes {
		switch {
		case c.Assumption != nil && !refused[of[c.Assumption.Pod]], c.Hold != nil && !refused[c.Hold.Gang]:
			changes = append(changes, c)
		case c.Eviction != nil && !refused[c.Eviction.For]:
			changes = append(changes, c)
			served[c.Eviction.For] = c.Eviction.For != ""
		}
	}
	t.state.Apply(changes...)
	t.waiting = maps.Clone(refused)
	for _, w := range t.plan.Waiting {
		t.waiting[w.Gang] = true
	}
	if len(served) == 0 {
		return
	}
	for _, p := range t.state.Dump().Pods {
		if p.Node == "" && served[p.WorkloadKey()] {
			t.version++
			t.state.Apply(engine.Change{Gone: &engine.Ref{Kind: engine.KindPod, Key: p.Key, Version: t.version}})
		}
	}
}

// place asks the engine, round by round. Each source of a zone is offered together with those before it, so that a gang can have the
// last machines of a reservation and the rest on demand; and zones are offered together only when none is enough.
func (d *decider) place() {
	d.use(d.trial.next(d.w.Now))
	ranks, zones := 0, 0
	for _, p := range d.pools {
		if p.Static == nil {
			ranks, zones = max(ranks, len(p.From)), max(zones, len(p.Zones))
		}
	}
	for rank := range ranks {
		for zone := range zones {
			d.round(rank, zone, zone+1)
		}
		if zones > 1 {
			d.round(rank, 0, zones)
		}
	}
}

// round offers machines of the first sources in some of the zones. Every pool is offered all that it could have, so that two may be
// offered the same machines of a reservation: who comes too late is refused, and has another turn with what is left. Where nobody could
// have what was offered, as one gang wants the same machines from two pools, each machine is offered once.
func (d *decider) round(rank, from, to int) {
	once := false
	for again := true; again && len(d.trial.waiting) > 0; {
		fresh := false
		var changes []engine.Change
		shared := make(map[string]int) // machines of a reservation that were offered
		for _, p := range d.pools {
			drawn := make(map[string]int)
			if once {
				drawn = shared
			}
			added, last := d.offer(p, rank, from, to, drawn)
			fresh = fresh || last
			changes = append(changes, added...)
		}
		again = false
		if fresh { // else nothing is new since the last round
			d.trial.state.Apply(changes...)
			refusals, used := d.use(d.trial.next(d.w.Now))
			again = refusals && (used || !once)
			once = once || refusals && !used
		}
		d.withdraw()
	}
}

// offer lists nodes of the pool that could be launched, less what was drawn of reservations, and says whether any is of the last source.
func (d *decider) offer(p *pool, rank, from, to int, drawn map[string]int) (changes []engine.Change, last bool) {
	if p.Static != nil || rank >= len(p.From) {
		return nil, false
	}
	room := min(p.Max-p.count, d.trial.demand[p.Name])
	index := 0
	for z := from; z < min(to, len(p.Zones)) && room > 0; z++ {
		for r, source := range p.From[:rank+1] {
			n := min(room, d.left(p, p.Zones[z], source)-drawn[source.Reservation])
			for range n {
				for p.indices[index] {
					index++
				}
				name := fmt.Sprintf("~%02d-%02d-%s-%06d", r, z, p.Name, index)
				changes = append(changes, d.trial.imagine(name, &offer{pool: p, zone: p.Zones[z], from: source, index: index}))
				index++
				last = last || r == rank
			}
			room -= max(0, n)
			if source.Capacity == Reserved {
				drawn[source.Reservation] += max(0, n)
			}
		}
	}
	return changes, last
}

// imagine makes a node of an offer.
func (t *trial) imagine(name string, o *offer) engine.Change {
	node := o.pool.Like(o.index, o.zone, o.from)
	t.version++
	node.Name, node.Version = name, t.version
	t.offers[name] = o
	return engine.Change{Node: &node}
}

// withdraw takes back what was offered and not used.
func (d *decider) withdraw() {
	var changes []engine.Change
	for _, name := range sortedKeys(d.trial.offers) {
		d.trial.version++
		changes = append(changes, engine.Change{Gone: &engine.Ref{Kind: engine.KindNode, Key: name, Version: d.trial.version}})
	}
	clear(d.trial.offers)
	d.trial.state.Apply(changes...)
}

// use launches what the starts of the last plan are on, and notes which machines they use. A start whose machines cannot all be
// had any more, as those before it took them, is refused whole. It says whether any was refused, and whether any was not.
func (d *decider) use(starts []engine.Start) (refusals, used bool) {
	at := d.byNode()
	refused := make(map[string]bool)
	for _, s := range starts {
		nodes := nodesOf(s)
		if refused[s.Gang] || !d.canLaunch(nodes) {
			refused[s.Gang] = true
			continue
		}
		d.placed[s.Gang], used = true, true
		for _, node := range nodes {
			if o := d.trial.offers[node]; o != nil {
				delete(d.trial.offers, node) // it stays in the trial, with its gang
				m := d.launch(o.pool, o.zone, o.from, o.index, s.Gang, ForGang)
				m.usedBy = s.Gang
				at[node] = m
			} else if m := at[node]; m != nil && m.usedBy == "" {
				m.usedBy = s.Gang
			}
		}
	}
	d.trial.settle(refused)
	return len(refused) > 0, used
}

// canLaunch says whether all the nodes that are offers can be had together.
func (d *decider) canLaunch(nodes []string) bool {
	type want struct {
		pool *pool
		zone string
		from Source
	}
	wants, pools, reserved := make(map[want]int), make(map[*pool]int), make(map[string]int)
	for _, node := range nodes {
		o := d.trial.offers[node]
		if o == nil {
			continue
		}
		k := want{o.pool, o.zone, o.from}
		wants[k]++
		pools[o.pool]++
		reserved[o.from.Reservation]++
		if wants[k] > d.left(o.pool, o.zone, o.from) || pools[o.pool] > o.pool.Max-o.pool.count || o.from.Capacity == Reserved && reserved[o.from.Reservation] > d.leftOf(o.from.Reservation, o.zone) {
			return false
		}
	}
	return true
}

// nodesOf are the nodes of a start, each once, in order.
func nodesOf(s engine.Start) []string {
	var out []string
	for _, p := range s.Placements {
		out = append(out, p.Node)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// demands bounds the machines of each pool that what waits could use: pods that fit side by side share one. A gang that asks for a
// domain below a zone may find those that are begun too small, so it is offered more.
func (d *decider) demands() map[string]int {
	type kind struct {
		spec  engine.Spec
		gangs map[string]int // members that wait
		wide  bool
	}
	wide, whole := make(map[string]bool), make(map[string]bool)
	for i := range d.w.Cluster.Gangs {
		g := &d.w.Cluster.Gangs[i]
		for _, part := range append(slices.Clone(g.Groups), g.Group) {
			wide[g.Key] = wide[g.Key] || part.Layout.Required != "" || part.Layout.Segment > 0 || part.Layout.Spread != ""
			whole[g.Key] = whole[g.Key] || part.Layout.WholeNodes
		}
	}
	kinds := make(map[string]*kind)
	for i := range d.w.Cluster.Pods {
		p := &d.w.Cluster.Pods[i]
		if p.Node != "" || p.Foreign || p.Terminating {
			continue
		}
		key := p.WorkloadKey()
		id := shape(&p.Spec, wide[key])
		k := kinds[id]
		if k == nil {
			k = &kind{spec: p.Spec, gangs: make(map[string]int), wide: wide[key]}
			kinds[id] = k
		}
		k.gangs[key]++
	}
	out := make(map[string]int)
	samples := make([]engine.Node, len(d.pools))
	for i, p := range d.pools {
		samples[i] = p.sample()
	}
	for _, id := range sortedKeys(kinds) {
		k := kinds[id]
		need := make(map[int]int) // machines, by pods to a machine
		for i, p := range d.pools {
			if p.Static != nil || len(p.From) == 0 {
				continue
			}
			per := fits(&k.spec, &samples[i])
			if per == 0 {
				continue
			}
			if _, known := need[per]; !known {
				//archtest:any-order they are added up
				for gang, n := range k.gangs {
					at := per
					if whole[gang] || k.spec.PodRules != nil {
						at = 1
					}
					m := (n + at - 1) / at
					if k.wide {
						m *= 3
					}
					need[per] += m
				}
			}
			out[p.Name] += need[per]
		}
	}
	return out
}

// sample is a machine of the pool, whichever.
func (p *pool) sample() engine.Node {
	from := Source{}
	if len(p.From) > 0 {
		from = p.From[0]
	}
	return p.Like(0, p.Zones[0], from)
}

// shape is what decides how many pods fit on a node, as a key.
func shape(s *engine.Spec, wide bool) string {
	var b strings.Builder
	for _, a := range s.Requests.Sorted() {
		fmt.Fprintf(&b, "%s=%d;", a.Resource, a.Value)
	}
	for _, key := range sortedKeys(s.Selector) {
		fmt.Fprintf(&b, "%s:%s;", key, s.Selector[key])
	}
	if s.PodRules != nil || wide {
		fmt.Fprintf(&b, "%t%t", s.PodRules != nil, wide)
	}
	return b.String()
}

// fits bounds how many pods of the spec a node of the kind has room for. What else keeps them out the engine knows.
func fits(s *engine.Spec, n *engine.Node) int {
	for key, value := range s.Selector { //archtest:any-order one that differs is enough
		if have, ok := n.Labels[key]; (!ok || have != value) && key != hostname && key != zoneLabel {
			return 0
		}
	}
	per := int64(1 << 20)
	for _, a := range s.Requests {
		if a.Value > 0 {
			per = min(per, n.Allocatable.Get(a.Resource)/a.Value)
		}
	}
	return int(cmp.Or(min(per, max(1, n.Allocatable.Get(engine.Pods))), 0))
}

const (
	hostname  = "kubernetes.io/hostname"
	zoneLabel = "topology.kubernetes.io/zone"
)
