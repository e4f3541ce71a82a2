package bill

import (
	"cmp"
	"slices"
	"time"

	"github.com/berth-dev/berth/capacity"
	"github.com/berth-dev/berth/capacity/payer"
	"github.com/berth-dev/berth/engine"
)

// Step is one moment of a history: what became known, after the step before.
type Step struct {
	Now time.Time
	// Fresh says that the changes are all that is known: what was known before and is not among them is gone.
	Fresh bool
	// Unseen says that nobody watched between the step before and this one. That time is in no line.
	Unseen    bool
	Changes   []engine.Change
	Evictions []engine.Eviction // decided at this step
}

// Options is what a bill is of. The zero value is of everything, without prices.
type Options struct {
	From, To time.Time // To zero: until the last step
	Tariff   Tariff
	GPU      string // the resource that counts GPUs; "": nvidia.com/gpu
}

// Who is whom GPU-time is charged to. Empty fields are what nobody said.
type Who struct {
	Queue, Namespace, User, Experiment string
}

// Book adds up a history. It is not safe for concurrent use.
type Book struct {
	o          Options
	boundaries []time.Time

	started bool
	at      time.Time // of the last step
	elapsed int64     // milliseconds that were seen within From and To
	unseen  int64     // milliseconds that were not

	known map[engine.Ref]uint64 // versions of nodes, pods and gangs, by kind and key; those that are gone included
	gone  map[engine.Ref]bool
	nodes map[string]*node
	// shared is how many nodes there were of each machine when machines were last assigned.
	shared map[string]int
	pods   map[string]*pod // those with GPUs, or that may have some on a node that is not known yet
	gangs  map[string]*engine.Gang
	of     map[string]map[string]*pod // by gang
	// What was known before a step that is fresh, while that is taken in: what goes on keeps what is remembered of it.
	hadNodes map[string]*node
	hadPods  map[string]*pod

	slots    []slot // as Options.Tariff.Reservations
	payers   []payer.Reservation
	stale    bool // machines have to be assigned to reservations again
	uses     map[Who]*use
	unused   map[rate]*[beforeHeld]int64 // by how far the GPUs had come
	measured bool
	waits    []int64 // milliseconds that work waited which began, the latest; nil: nobody asks
}

// rate is what a machine is charged at.
type rate struct {
	price Price
	gpus  int64
}

type node struct {
	value   *engine.Node
	gpus    int64 // that it shows
	machine payer.Machine
	rate    rate // of what is paid for
	other   bool // another Node object stands for its machine, which is paid for there
	settled int64
	pods    map[string]*pod
}

type pod struct {
	value   *engine.Pod
	who     Who
	terms   engine.Terms
	node    string
	asked   int64 // thousandths of a GPU
	settled int64 // of a pod without a node
	since   time.Time
	busy    int64 // charged since it was last idle: a late measurement may find that it was idle for longer
	evicted engine.EvictionCause
	waited  bool
	asking  time.Time // when it was first seen without a node; zero: it had one from the start
}

// slot is the machines of a reservation that are no nodes.
type slot struct {
	left    int64
	settled int64
}

type use struct {
	byRate                     map[rate]int64 // thousandths of a GPU times milliseconds
	idle, waiting, lost, waits int64
	pods, evicted              int64
}

// New is a book in which nothing is written.
func New(o Options) *Book {
	o.GPU = cmp.Or(o.GPU, "nvidia.com/gpu")
	o.Tariff.ready()
	b := &Book{o: o, boundaries: o.Tariff.boundaries(), uses: make(map[Who]*use), unused: make(map[rate]*[beforeHeld]int64), shared: make(map[string]int), slots: make([]slot, len(o.Tariff.Reservations))}
	b.payers = b.o.Tariff.payers()
	b.forget()
	return b
}

func (b *Book) forget() {
	b.known, b.gone = make(map[engine.Ref]uint64), make(map[engine.Ref]bool)
	b.nodes, b.pods, b.gangs, b.of = make(map[string]*node), make(map[string]*pod), make(map[string]*engine.Gang), make(map[string]map[string]*pod)
	b.stale = true
}

// Add takes in the next step. Steps come in the order in which they were recorded; a clock that went back ends an interval, and no
// time counts for it.
func (b *Book) Add(s Step) {
	b.advance(s.Now, s.Unseen)
	if s.Fresh {
		b.refresh(s.Changes)
	} else {
		for i := range s.Changes {
			b.change(&s.Changes[i])
		}
	}
	for i := range s.Evictions {
		b.evict(&s.Evictions[i])
	}
}

// advance lets time pass. It stops where a reservation begins or ends, since others then pay for its machines.
func (b *Book) advance(now time.Time, unseen bool) {
	if !b.started {
		b.started, b.at = true, now
		b.assign()
		return
	}
	if unseen || now.Before(b.at) {
		if past := b.clip(b.at, now); past > 0 {
			b.unseen += past
		}
		b.settleAll()
		b.at, b.stale = now, true
		b.assign()
		return
	}
	b.assign()
	for _, edge := range b.boundaries {
		if edge.After(b.at) && !edge.After(now) {
			b.elapsed += b.clip(b.at, edge)
			b.settleAll()
			b.at, b.stale = edge, true
			b.assign()
		}
	}
	b.elapsed += b.clip(b.at, now)
	b.at = now
}

// clip is the milliseconds between two moments that are within the bill. Moments are cut to milliseconds first, so that parts of an
// interval add up to it.
func (b *Book) clip(from, to time.Time) int64 {
	if from.Before(b.o.From) {
		from = b.o.From
	}
	if !b.o.To.IsZero() && to.After(b.o.To) {
		to = b.o.To
	}
	return max(0, to.UnixMilli()-from.UnixMilli())
}

// within says whether what happens now is in the bill.
func (b *Book) within() bool {
	return !b.at.Before(b.o.From) && (b.o.To.IsZero() || !b.at.After(b.o.To))
}

// assign gives each machine to what pays for it, where something changed.
func (b *Book) assign() {
	if !b.stale {
		return
	}
	b.stale = false
	b.settleAll()
	t := &b.o.Tariff
	for i := range t.Reservations {
		b.payers[i].Paid = t.Reservations[i].paid(b.at)
		b.slots[i].left = 0
		if b.payers[i].Paid {
			b.slots[i].left = max(0, int64(t.Reservations[i].Instances))
		}
	}
	names := b.machines()
	machines := make([]payer.Machine, len(names))
	for i, name := range names {
		machines[i] = b.nodes[name].machine
	}
	for i, of := range payer.Assign(machines, b.payers) {
		n := b.nodes[names[i]]
		if of < 0 {
			p := t.Pools[t.poolOf(n.value.Labels)]
			n.rate = rate{p.price(&n.machine), n.gpus}
			continue
		}
		// What is paid for are the reservation's GPUs, whatever the node shows.
		n.rate = rate{t.Reservations[of].Price, cmp.Or(int64(t.Reservations[of].GPUs), n.gpus)}
		b.slots[of].left--
	}
}

// machines are the names of the nodes that machines are paid for as, sorted. Of the nodes of one machine that is the likeliest; the machine
// has as many GPUs as any of them ever showed.
func (b *Book) machines() []string {
	names := make([]string, 0, len(b.nodes))
	//archtest:any-order sorted below
	for name := range b.nodes {
		names = append(names, name)
	}
	slices.Sort(names)
	best := make(map[string]*node)
	clear(b.shared)
	for _, name := range names {
		n := b.nodes[name]
		n.other = false
		id := n.value.Machine
		if id == "" {
			continue
		}
		b.shared[id]++
		if have := best[id]; have == nil {
			best[id] = n
		} else if likelier(n.value, have.value) {
			n.grow(have)
			best[id], have.other, have.rate = n, true, rate{}
		} else {
			have.grow(n)
			n.other, n.rate = true, rate{}
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return b.nodes[name].other })
}

// likelier says whether of two nodes of one machine n is the one that its kubelet keeps: the one that is ready, else the one of which
// something was heard last.
func likelier(n, than *engine.Node) bool {
	if is := ready(n); is != ready(than) {
		return is
	}
	return n.Version > than.Version
}

// grow gives the node the GPUs that another one of its machine showed.
func (n *node) grow(other *node) {
	if sameMachine(n.value, other.value) && other.gpus > n.gpus {
		n.gpus, n.machine.GPUs = other.gpus, int(other.gpus)
	}
}

func (b *Book) settleAll() {
	//archtest:any-order each is settled by itself
	for _, n := range b.nodes {
		b.settle(n)
	}
	//archtest:any-order each is settled by itself
	for _, p := range b.pods {
		if b.nodes[p.node] == nil {
			b.settlePending(p)
		}
	}
	for i := range b.slots {
		s, r := &b.slots[i], &b.o.Tariff.Reservations[i]
		if past := b.elapsed - s.settled; past > 0 && s.left > 0 {
			b.leave(rate{r.Price, int64(r.GPUs)}, capacity.Paid, past*s.left*int64(r.GPUs)*whole)
		}
		s.settled = b.elapsed
	}
}

// settle charges the time since the machine was last settled to those who hold its GPUs. Where they hold more than it has, each is
// charged its part; what nobody holds is unused.
func (b *Book) settle(n *node) {
	past := b.elapsed - n.settled
	n.settled = b.elapsed
	if past <= 0 {
		return
	}
	all, held := n.rate.gpus*whole, int64(0)
	//archtest:any-order they are added up
	for _, p := range n.pods {
		held += p.asked
	}
	charged := int64(0)
	//archtest:any-order each is charged by itself
	for _, p := range n.pods {
		part := p.asked
		if held > all {
			part = part * all / held
		}
		if part == 0 {
			continue
		}
		charged += part
		u := b.use(p.who)
		u.byRate[n.rate] += past * part
		if p.value.Idle.IsZero() {
			p.busy += past * part
		} else {
			u.idle += past * part
		}
	}
	for stage, free := range stagesOf(n.value, n.rate.gpus, all-charged, b.o.GPU) {
		b.leave(n.rate, capacity.Stage(stage), past*free)
	}
}

// leave notes time of GPUs that nobody held.
func (b *Book) leave(r rate, stage capacity.Stage, time int64) {
	if time <= 0 {
		return
	}
	if b.unused[r] == nil {
		b.unused[r] = new([beforeHeld]int64)
	}
	b.unused[r][stage] += time
}

func (b *Book) settlePending(p *pod) {
	past := b.elapsed - p.settled
	p.settled = b.elapsed
	if past <= 0 || p.node != "" || p.value.Terminating || p.asked == 0 {
		return
	}
	u := b.use(p.who)
	u.waiting = plus(u.waiting, past*p.asked)
	u.waits += past
	if !p.waited {
		p.waited = true
		u.pods++
	}
}

func (b *Book) use(w Who) *use {
	u := b.uses[w]
	if u == nil {
		u = &use{byRate: make(map[rate]int64)}
		b.uses[w] = u
	}
	return u
}
