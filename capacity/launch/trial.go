package launch

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/berth-dev/berth/engine"
)

// trial is the cluster with machines that do not exist. It is the decider's own: nothing has to be undone in it.
type trial struct {
	state   *engine.State
	version uint64
	plan    engine.Plan // the last
	waiting map[string]bool
	needs   []*need
	demand  map[string]int    // machines that what waited at first could use, by pool
	placed  map[string]bool   // pods that have a place
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
	t := &trial{state: engine.Load(snap, policy), version: snap.Latest, placed: make(map[string]bool), offers: make(map[string]*offer)}
	t.needs, t.demand = d.needs()
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

// wanted are the pools on whose machines a pod fits that has no place yet, and whether such a pod asks for a label in which they differ.
func (t *trial) wanted() map[*pool]bool {
	out := make(map[*pool]bool)
	for _, n := range t.needs {
		if slices.ContainsFunc(n.pods, func(key string) bool { return !t.placed[key] }) {
			for p, tells := range n.pools { //archtest:any-order each pool is by itself
				out[p] = out[p] || tells
			}
		}
	}
	return out
}

// round offers machines of the first sources in some of the zones. Every pool is offered all that it could have, so that two may be
// offered the same machines of a reservation: who comes too late is refused, and has another turn with what is left. Where nobody could
// have what was offered, as one gang wants the same machines from two pools, each machine is offered once. Of pools that nobody needs any
// more nothing is offered.
func (d *decider) round(rank, from, to int) {
	once := false
	for again := true; again && len(d.trial.waiting) > 0; {
		fresh := false
		var changes []engine.Change
		shared := make(map[string]int) // machines of a reservation that were offered
		wanted := d.trial.wanted()
		for _, p := range d.pools {
			tells, wants := wanted[p]
			if !wants && !d.offersAll {
				continue
			}
			drawn := make(map[string]int)
			if once {
				drawn = shared
			}
			added, last := d.offer(p, rank, from, to, drawn, tells)
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
// It is as many as are wanted together, from each source what those before it do not have. Where somebody tells sources apart, as many
// are offered of each: who wants a machine on demand has none of those that are reserved. That may be more than the pool may have, and
// who comes too late is refused.
func (d *decider) offer(p *pool, rank, from, to int, drawn map[string]int, tells bool) (changes []engine.Change, last bool) {
	if p.Static != nil || rank >= len(p.From) {
		return nil, false
	}
	most := min(p.Max-p.count, d.trial.demand[p.Name])
	room := most
	index := 0
	for z := from; z < min(to, len(p.Zones)) && (room > 0 || tells); z++ {
		for r, source := range p.From[:rank+1] {
			if tells {
				room = most
			}
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
		for _, p := range s.Placements {
			d.trial.placed[p.Pod] = true
		}
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

// need is pods that wait and fit alike, and the pools on whose machines they do.
type need struct {
	spec  *engine.Spec
	wide  bool           // the gang asks for a domain below a zone
	apart bool           // not all that there is room for may share a machine
	gangs map[string]int // members that wait
	pods  []string
	pools map[*pool]bool // whether it asks for a label in which the pool's machines differ
}

// needs finds which pods wait for machines of which pools, and bounds the machines of each pool that they could use: pods that fit side
// by side share one, unless something else than room may keep them apart. A gang that asks for a domain below a zone may find those
// that are begun too small, so it is offered more.
func (d *decider) needs() (needs []*need, demand map[string]int) {
	wide, whole := make(map[string]bool), make(map[string]bool)
	for i := range d.w.Cluster.Gangs {
		g := &d.w.Cluster.Gangs[i]
		note := func(l *engine.Layout) {
			if l.Required != "" || l.Segment > 0 || l.Spread != "" {
				wide[g.Key] = true
			}
			if l.WholeNodes {
				whole[g.Key] = true
			}
		}
		note(&g.Layout)
		for j := range g.Groups {
			note(&g.Groups[j].Layout)
		}
	}
	byShape := make(map[string]*need)
	var key []byte
	for i := range d.w.Cluster.Pods {
		p := &d.w.Cluster.Pods[i]
		if p.Node != "" || p.Foreign || p.Terminating {
			continue
		}
		gang := p.WorkloadKey()
		apart := whole[gang] || keepsApart(&p.Spec)
		key = shape(key[:0], &p.Spec, wide[gang], apart)
		n := byShape[string(key)]
		if n == nil {
			n = &need{spec: &p.Spec, wide: wide[gang], apart: apart, gangs: make(map[string]int), pools: make(map[*pool]bool)}
			byShape[string(key)] = n
			needs = append(needs, n)
		}
		n.gangs[gang]++
		n.pods = append(n.pods, p.Key)
	}
	demand = make(map[string]int)
	samples := d.samples()
	for _, n := range needs {
		machines := make(map[int]int) // by pods to a machine
		for _, s := range samples.matching(n.spec.Selector) {
			per := s.fits(n.spec)
			if per == 0 {
				continue
			}
			n.pools[s.pool] = s.tells(n.spec.Selector)
			if n.apart {
				per = 1
			}
			if _, known := machines[per]; !known {
				//archtest:any-order they are added up
				for _, count := range n.gangs {
					m := (count + per - 1) / per
					if n.wide {
						m *= 3
					}
					machines[per] += m
				}
			}
			demand[s.pool.Name] += machines[per]
		}
	}
	return needs, demand
}

// keepsApart says whether something else than room may keep two pods of the spec off one machine.
func keepsApart(s *engine.Spec) bool {
	return s.PodRules != nil || len(s.Ports) > 0 || s.Claims != nil || s.Part != nil || s.GPU.Names() || s.GPU.Clique == engine.Require || s.GPU.NUMA == engine.Require
}

// shape appends what decides how many pods fit on a machine, as a key.
func shape(b []byte, s *engine.Spec, wide, apart bool) []byte {
	for _, a := range s.Requests.Sorted() {
		b = append(append(b, a.Resource...), '=')
		b = strconv.AppendInt(append(strconv.AppendInt(b, a.Value, 10), '.'), int64(a.Milli), 10)
		b = append(b, ';')
	}
	if len(s.Selector) > 0 {
		for _, key := range sortedKeys(s.Selector) {
			b = append(append(append(append(b, key...), ':'), s.Selector[key]...), ';')
		}
	}
	return strconv.AppendBool(strconv.AppendBool(b, wide), apart)
}

// sample is the machines of a pool as one node.
type sample struct {
	pool *pool
	node engine.Node
	own  map[string]bool // labels in which they differ: by zone, by what pays for them, by rack
}

// samples are those of the pools that launch machines for gangs; and by label, so that a selector is not held against each of a
// thousand pools.
type samples struct {
	all     []*sample
	byLabel map[label][]*sample
	byOwn   map[string][]*sample // that have the label as their own
}

type label struct{ key, value string }

func (d *decider) samples() *samples {
	out := &samples{byLabel: make(map[label][]*sample), byOwn: make(map[string][]*sample)}
	for _, p := range d.pools {
		if p.Static != nil || len(p.From) == 0 {
			continue
		}
		x := p.sample()
		out.all = append(out.all, x)
		for key, value := range x.node.Labels { //archtest:any-order each label is by itself
			if !x.own[key] {
				out.byLabel[label{key, value}] = append(out.byLabel[label{key, value}], x)
			}
		}
		for key := range x.own { //archtest:any-order each label is by itself
			out.byOwn[key] = append(out.byOwn[key], x)
		}
	}
	return out
}

// sample looks at the first machine and the last, of each zone and source.
func (p *pool) sample() *sample {
	x := &sample{pool: p, node: p.Like(0, p.Zones[0], p.From[0]), own: map[string]bool{hostname: true}}
	differ := func(a, b map[string]string) {
		for key, value := range a { //archtest:any-order each label is by itself
			if have, ok := b[key]; !ok || have != value {
				x.own[key] = true
			}
		}
	}
	for _, zone := range p.Zones {
		for _, from := range p.From {
			for _, index := range []int{0, max(0, p.Max-1)} {
				labels := p.Like(index, zone, from).Labels
				differ(labels, x.node.Labels)
				differ(x.node.Labels, labels)
			}
		}
	}
	return x
}

// tells says whether the selector asks for a label in which the machines differ.
func (x *sample) tells(selector map[string]string) bool {
	for key := range selector { //archtest:any-order one is enough
		if x.own[key] {
			return true
		}
	}
	return false
}

// matching are the samples that may have all labels of the selector: those that may have the rarest.
func (s *samples) matching(selector map[string]string) []*sample {
	out := s.all
	for key, value := range selector { //archtest:any-order any list will do: who is not meant does not fit
		if have, own := s.byLabel[label{key, value}], s.byOwn[key]; len(have)+len(own) < len(out) {
			out = slices.Concat(have, own)
		}
	}
	return out
}

// fits bounds how many pods of the spec a machine has room for. What else keeps them out the engine knows.
func (x *sample) fits(s *engine.Spec) int {
	for key, value := range s.Selector { //archtest:any-order one that differs is enough
		if have, ok := x.node.Labels[key]; (!ok || have != value) && !x.own[key] {
			return 0
		}
	}
	per := int64(1 << 20)
	for _, a := range s.Requests {
		if a.Value > 0 {
			per = min(per, x.node.Allocatable.Get(a.Resource)/a.Value)
		}
	}
	return int(cmp.Or(min(per, max(1, x.node.Allocatable.Get(engine.Pods))), 0))
}

const hostname = "kubernetes.io/hostname"
