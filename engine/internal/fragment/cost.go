package fragment

import "math"

// Weights say how much each kind of loss counts, in thousandths of what it is measured in. They
// were found by replaying public workloads, with one set for all of them. Cost is a sum of losses,
// each in millionths of a card and each worked out as the difference between before and after, so
// that a placement is never charged for what was lost already.
type Weights struct {
	// Card is of the worth that the remainder of a card loses to a share.
	Card int64
	// Cores is of the idle GPUs for which the node lacks cores.
	Cores int64
	// Need is how many cores a GPU is taken to need, in thousandths of what GPUs have been
	// requested with on average.
	Need int64
	// Blur is how far from balance a lack of cores begins to count, in thousandths of a core. It
	// must be above 0.
	Blur int64
	// Unfit is of the idle GPUs of the node that a typical request could not use.
	Unfit int64
	// Fresh is of a card, for beginning a node none of whose cards is in use.
	Fresh int64
	// Model is of the pressure on the node's model by requests that accept few models.
	Model int64
	// Coarse is no weight: costs that differ by less than one part in so many of a card are equal.
	// It must be above 0.
	Coarse int64
}

// Default is one set for every workload. docs/packing.md says how it was found.
var Default = Weights{Card: 1500, Cores: 300, Need: 1200, Blur: 5_000, Unfit: 200, Fresh: 100, Model: 500, Coarse: 50}

// Room is what is free on a node. Cards that are free altogether, or not at all, need not be listed
// one by one: nodes that give out whole cards list none, and take the short way through Cost. The
// caller writes it for each node, before the request is placed.
type Room struct {
	// CPU is in thousandths of a core.
	CPU int64
	// Free is thousandths of each card that is listed, 0 to 1000, in the caller's order.
	Free []int
	// Whole is how many further cards there are of which all is free.
	Whole int
	// Taken is how many further cards there are of which nothing is.
	Taken int
	// Model is the number of the model's bit in Kind.Models.
	Model int
}

// Table has the prices that follow from a mix. It does not change, and any number of readers may
// use it at once.
type Table struct {
	w Weights
	// value is the worth of a card by what is left of it, in hundredths; in millionths of a card.
	value [levels]int64
	// kinds are the typical requests, total is the sum of their weights; 0: nothing is known, and
	// nothing is unfit.
	kinds []typical
	total int64 // weight of kinds
	// need is how many thousandths of a core a GPU will need; 0: no request for GPUs is known.
	need int64
	// pressure is by model, in millionths of a card per card taken.
	pressure []int64
}

// Table makes the prices of the mix. See worth for what it costs.
func (m *Mix) Table(w Weights) *Table {
	t := &Table{w: w}
	t.kinds, t.total = m.typicals()
	var count [levels]int64
	// cores and milli are what all requests for GPUs ask for, of cores and of cards, in
	// thousandths. Requests without GPUs say nothing about the cores that a GPU needs.
	var cores, milli int64
	for i := range m.kinds {
		k := &m.kinds[i]
		if k.Cards == 0 {
			continue
		}
		cores += k.CPU * m.counts[i]
		milli += k.milli() * m.counts[i]
		if k.Shares() {
			count[(k.Milli+9)/10] += m.counts[i]
		}
	}
	// A table has 101 levels of what is left of a card, in hundredths. Shares are rounded up to a level, so that a card is never
	// taken to hold one more than it does.
	t.value = worth(&count)
	if milli > 0 {
		t.need = cores * 1000 / milli * w.Need / 1000
	}
	t.pressure = m.pressure(milli, w.Model)
	return t
}

// pressure is what it costs to take a card of each model: the part of its cards that requests which
// do not accept every model would take if all cards were requested in the proportions of the mix,
// each spread evenly over what it accepts. At most 5/4 of it counts, so that
// one model in great demand does not outweigh every other loss.
func (m *Mix) pressure(milli, weight int64) []int64 {
	out := make([]int64, len(m.supply))
	// all has the bits of the models that there are cards of. A request that accepts all of these
	// is no pressure on any of them, and one that accepts none of them cannot be placed.
	all, cards := uint64(0), int64(0)
	for i, n := range m.supply {
		if n > 0 {
			all |= 1 << i
			cards += n
		}
	}
	for i := range m.kinds {
		k := &m.kinds[i]
		if k.Cards == 0 || k.Models&all == all || k.Models&all == 0 {
			continue
		}
		accepted := int64(0)
		for j, n := range m.supply {
			if k.Models>>j&1 == 1 {
				accepted += n
			}
		}
		// For example, half of all requested GPU time is for H100 alone, and a quarter of the cards are H100: they are asked for
		// at twice their number, and taking one for a request that accepts any model costs the most that pressure may.
		load := k.milli() * m.counts[i] * unit / milli * cards / accepted
		for j := range m.supply {
			if k.Models>>j&1 == 1 {
				out[j] += load
			}
		}
	}
	for i := range out {
		out[i] = min(out[i], unit*5/4) * weight / 1000
	}
	return out
}

// Value is the worth of what is left of a card, in millionths of a card; free is in thousandths, 0
// to 1000, and rounded down to hundredths.
func (t *Table) Value(free int) int64 { return t.value[free/10] }

// Cost is what a request of the kind costs in a room that it fits into, and the card on which a
// share costs least: its place in Free, or after the last for one of those that are not listed; -1
// for other requests. Less is better, and the unit is the coarse one of the weights. A cost below
// zero is a gain: the node was of little use before. Equal costs are equal on purpose: the caller's
// own order of nodes decides, and if it is always the same it fills one node after the other.
//
// It is the sum of five losses:
//
//	Cores   idle GPUs that will lack cores                   cores
//	Model   a model that others cannot do without            pressure
//	Fresh   a node that was empty                            Weights.Fresh
//	Card    what is left of a card, of shares only           worth
//	Unfit   idle GPUs that typical requests cannot use       unfit, growth, taken, cut
//
// For example, 1 card of an empty node with 8 cards, while half of the requests ask for 8 cards and
// half for 1, and cores abound: Fresh is 100/1000 of a card, Unfit is 200/1000 of 3.5 cards, and
// the cost is 0.8 cards, which is 40 in units of 1/50.
func (t *Table) Cost(r *Room, k *Kind) (cost int64, card int) {
	// idle is what is free of all cards, in thousandths of a card.
	idle, used := r.Whole*whole, r.Taken > 0
	for _, f := range r.Free {
		idle += f
		used = used || f < whole
	}
	// What does not depend on the card: cores, the pressure on the model, and beginning a node that was empty.
	fixed := t.cores(int64(idle)-k.milli(), r.CPU-k.CPU) - t.cores(int64(idle), r.CPU)
	if k.Cards > 0 {
		if r.Model < len(t.pressure) {
			fixed += t.pressure[r.Model] * k.milli() / whole
		}
		if !used {
			fixed += t.w.Fresh * (unit / 1000)
		}
	}
	// The common case: whole cards on a node of whole cards. One pass, without a table of what fits.
	if len(r.Free) == 0 && !k.Shares() {
		return t.coarse(fixed + t.growth(r, k, idle)), -1
	}
	var fits [most]fitting
	before := t.unfit(r, idle, &fits)
	if !k.Shares() {
		return t.coarse(fixed + t.taken(r, k, idle, &fits) - before), -1
	}
	cost, card = math.MaxInt64, -1
	for i, f := range r.Free {
		// Cards with the same remainder cost the same; each remainder is looked at once.
		if f < k.Milli || seen(r.Free[:i], f) {
			continue
		}
		c := fixed + (t.value[f/10]-t.value[(f-k.Milli)/10])*t.w.Card/1000
		c = t.coarse(c + t.cut(r, k, idle, f, &fits) - before)
		// Of equal costs the fuller card, so that others stay whole.
		if c < cost || c == cost && f < r.Free[card] {
			cost, card = c, i
		}
	}
	if r.Whole > 0 {
		c := fixed + (t.value[whole/10]-t.value[(whole-k.Milli)/10])*t.w.Card/1000
		if c = t.coarse(c + t.cut(r, k, idle, whole, &fits) - before); c < cost {
			cost, card = c, len(r.Free)
		}
	}
	return cost, card
}

// seen says whether the list has the value. Nodes have few cards, so looking is cheaper than a set.
func seen(list []int, v int) bool {
	for _, x := range list {
		if x == v {
			return true
		}
	}
	return false
}

// coarse rounds to the nearest unit in which costs are compared, halves up. Differences below a
// fiftieth of a card are noise of the mix. Without rounding they would scatter work over nodes;
// with it, equal nodes are filled one after the other.
func (t *Table) coarse(c int64) int64 {
	step := unit / t.w.Coarse
	c += step / 2
	// Division rounds towards zero; below zero it must round down, or a unit around zero would be
	// twice as wide as others.
	if c < 0 {
		return -((-c + step - 1) / step)
	}
	return c / step
}

// cores is the idle GPUs for which there will be no cores, weighed, in millionths: nothing where
// cores abound, all that are lacking where they are scarce, and a parabola between. idle is in
// thousandths of a card, cpu in thousandths of a core.
//
// For example, a GPU needs 10 cores, and a node has 4 idle GPUs and 20 cores: 20 cores are lacking,
// which are 2 GPUs before they are weighed.
func (t *Table) cores(idle, cpu int64) int64 {
	if t.need == 0 {
		return 0
	}
	// The parabola joins both branches without a step in value or slope: at -blur it is 0 with
	// slope 0, at +blur it is the lack itself with slope 1. A hard corner would make costs jump
	// between two nodes that differ by one core.
	lack, blur := idle*t.need/whole-cpu, t.w.Blur
	switch {
	case lack <= -blur || idle <= 0:
		return 0
	case lack < blur:
		lack = (lack + blur) * (lack + blur) / (4 * blur)
	}
	return lack * unit / t.need * t.w.Cores / 1000
}

// fitting is, for one kind, how many cards of a room have enough left for it, and what is left of
// the others together, in thousandths. It is worked out once for a node, and changed for each
// choice.
type fitting struct{ cards, small int }

// unfit is the idle GPUs of the room that a typical request could not use, weighed, in millionths:
// all of them where it does not fit at all, else those on cards with too little left. It is the
// fragmentation of the FGD paper. It fills in fits, which must be zero before.
func (t *Table) unfit(r *Room, idle int, fits *[most]fitting) int64 {
	sum := int64(0)
	for i := range t.kinds {
		k, f := &t.kinds[i], &fits[i]
		f.cards = r.Whole
		for _, free := range r.Free {
			if free >= k.Milli {
				f.cards++
			} else {
				f.small += free
			}
		}
		sum += k.weight * int64(k.useless(r, r.CPU, idle, *f))
	}
	return t.weigh(sum)
}

// growth is by how much unfit grows with a request for whole cards, or for none, in a room without
// parts of cards. It is what taken less unfit is, in one pass: without parts of cards a kind can
// use all idle cards or none.
func (t *Table) growth(r *Room, k *Kind, idle int) int64 {
	before, after := int64(0), int64(0)
	cpu, cards := r.CPU-k.CPU, r.Whole-k.Cards
	for i := range t.kinds {
		// Kinds that could not use the node before cannot use it now, and count on both sides; those that could and cannot any
		// more are what the request costs.
		switch o := &t.kinds[i]; {
		case o.Models>>r.Model&1 == 0 || o.CPU > r.CPU || r.Whole < o.Cards:
			before += o.weight
			after += o.weight
		case o.CPU > cpu || cards < o.Cards:
			after += o.weight
		}
	}
	return t.weigh(after*int64(idle-k.Cards*whole)) - t.weigh(before*int64(idle))
}

// taken is unfit after a request for whole cards, or for none. Whole cards have enough for every
// kind, so that each one taken is one less that fits.
func (t *Table) taken(r *Room, k *Kind, idle int, fits *[most]fitting) int64 {
	sum := int64(0)
	for i := range t.kinds {
		o, f := &t.kinds[i], fits[i]
		f.cards -= k.Cards
		sum += o.weight * int64(o.useless(r, r.CPU-k.CPU, idle-k.Cards*whole, f))
	}
	return t.weigh(sum)
}

// cut is unfit after a share was cut from a card of which so much was free. Only that card has
// changed, so that fits of before is adjusted and not made anew: one pass over the kinds instead of
// one for each card.
func (t *Table) cut(r *Room, k *Kind, idle, free int, fits *[most]fitting) int64 {
	sum := int64(0)
	left := free - k.Milli
	for i := range t.kinds {
		o, f := &t.kinds[i], fits[i]
		switch {
		// The card was too small for the kind before, and only gets smaller.
		case free < o.Milli:
			f.small -= k.Milli
		// It was large enough and is not any more: one card less that fits, and what is left of it is useless to the kind.
		case left < o.Milli:
			f.cards--
			f.small += left
		}
		sum += o.weight * int64(o.useless(r, r.CPU-k.CPU, idle-k.Milli, f))
	}
	return t.weigh(sum)
}

// weigh turns a sum over the kinds, of weight times thousandths of a card, into millionths of a
// card: Unfit is in thousandths, too.
func (t *Table) weigh(sum int64) int64 {
	if t.total == 0 {
		return 0
	}
	return sum * t.w.Unfit / t.total
}

// useless is how much of the idle cards the kind could not use, in thousandths of a card.
func (k *typical) useless(r *Room, cpu int64, idle int, f fitting) int {
	if k.CPU > cpu || f.cards < k.Cards || k.Models>>r.Model&1 == 0 {
		return idle
	}
	return f.small
}
