package share

import "slices"

// one is the whole total of a resource, in the fixed point in which parts of totals are computed:
// 44 bits after the point. An amount becomes a part of the total with an error below one unit for
// totals up to 2^44 units, and products of two parts are taken in 128 bits.
const one = 1 << 44

// ample is the most that a need counts as, in the same fixed point: 65,536 times the total. A need
// that large is never met.
const ample = 1 << 60

// fine is the number of parts of a unit that remainders are compared in: 1/4096 of a unit. It
// swallows what the fixed point rounds, so that remainders that are equal on paper are equal here,
// and the name decides.
const fine = 1 << 12

// race is one round of raising shares together. Racers are in the order of the group, by name.
//
// The picture: a level rises from 0. A racer at level t has t times its weight of its dominant
// resource, the one of which it needs the largest part of all there is, and of its other resources
// in the proportion in which it needs them. It stops when it has all that it needs, or when a
// resource that it needs ends. This is dominant resource fairness (DRF): a racer that is still running
// has, for its weight, the same dominant part as all others that are.
//
// For example, there are 9 CPUs and 18 GB. The tasks of a need 1 CPU and 4 GB each, those of b 3
// CPUs and 1 GB, and both have many. The dominant resource of a is memory and that of b is CPU. At
// level t, a has t of the memory and t/2 of the CPUs, b has t of the CPUs and t/6 of the memory.
// The CPUs end at t + t/2 = 1, which is t = 2/3, before the memory, at t + t/6 = 1. So a has 3 CPUs
// and 12 GB, and b has 6 CPUs and 2 GB. Both need CPUs, and stop. 4 GB are left that neither can use
// together with a CPU; the next round divides them by itself.
//
// Nothing is raised in small steps. Between two events every racer takes at a constant speed, so
// the next event is worked out and the race jumps there. There is at most one event for each racer
// and for each resource; an event costs a look at each resource, and the end of a resource a look
// at each racer. With n racers and r resources a race costs in the order of
// n*log(n) + n*r + r*r.
//
// Everything is in whole numbers, because shares must be the same on every machine and after every
// replay: amounts are parts of the total in fixed point, and quotients are compared by their cross
// products in 128 bits.
type race struct {
	racers []racer
	// byGoal is the racers by the level at which they have all that they need.
	byGoal []int32
	// need, goal, speed and got are by racer and resource, racer k at k*dims. need is in units.
	need []int64
	// goal is need as part of the total, rounded up.
	goal []int64
	// speed is how fast a racer takes of a resource. Only the proportions between speeds mean
	// anything: the dominant one is the weight, shifted.
	speed []int64
	// got is what a racer has once it stopped, as part of the total. Until then it is the goal.
	got []int64
	// room, pace and ended are by resource. room is what is there for those that still run, counted
	// from level 0: what those that stopped have got is taken off it, and what those that run have
	// so far is not. It is a part of the total.
	room []int64
	// pace is the sum of the speeds of those that still run. The resource ends at level room/pace.
	pace []int64
	// ended says that there is nothing left of the resource.
	ended []bool
	// parts is working memory of score.
	parts []part
	// shift is by how many bits speeds are weights shifted up, so that small ones keep their
	// precision.
	shift uint
}

// racer is one of the group that needs something that there is.
type racer struct {
	node     int32
	weight   int64 // with its past taken into account
	dominant int64 // the largest of its goals
	out      bool  // it stopped: it has all, or a resource that it needs ended
	full     bool  // it has all
}

// deal gives the group, which is of one priority, what is left, in rounds. A round ends when
// everybody has all, or has come to the end of a resource that it needs. What nobody can be given
// any more does not count as needed in the next.
func (d *divider) deal(group []int32) {
	// Each round but the last ends at least one resource, so there are no more rounds than resources, and one.
	for range d.dims + 1 {
		if !d.line(group) {
			return
		}
		d.run()
		if !d.score() {
			return
		}
	}
}

// line gets the racers ready and says whether there are any. Those that need nothing that there is
// are left out, so that their weights cost the others nothing.
func (d *divider) line(group []int32) bool {
	c := &d.race
	c.racers, c.need, c.goal = c.racers[:0], c.need[:0], c.goal[:0]
	for _, i := range group {
		x := racer{node: i}
		for r, total := range d.total {
			need := d.want[int(i)*d.dims+r] - d.share[int(i)*d.dims+r]
			// What there is nothing left of is not needed: a queue that also wants GPUs of which there are none must not be kept
			// from the CPU.
			if need <= 0 || d.left[r] <= 0 || total <= 0 {
				need = 0
			}
			// Rounded up, so that a need of one unit of a huge total is not 0 and its racer not left at the start.
			goal := partUp(need, total)
			c.need, c.goal = append(c.need, need), append(c.goal, goal)
			x.dominant = max(x.dominant, goal)
		}
		if x.dominant == 0 {
			c.need, c.goal = c.need[:len(c.need)-d.dims], c.goal[:len(c.goal)-d.dims]
			continue
		}
		c.racers = append(c.racers, x)
	}
	if len(c.racers) == 0 {
		return false
	}
	d.handicap()
	d.pace()
	return true
}

const (
	// heaviest is the most that a weight counts as. With fewer than 2^23 racers no sum of weights,
	// each at most 2*heaviest*grain, overflows.
	heaviest = 1 << 20
	// grain is the unit of weights that the past has changed: they are in parts of it.
	grain = 1 << 16
	// mildest is the part of itself that the past leaves a weight at least: a tenth.
	mildest = 10
)

// handicap works out the racers' weights. With w' a racer's part of all weights and u' its part of
// all past use, it is w' + (w' - u'), and at least a tenth of w'. Where no queue used anything
// weights stay as they are.
//
// For example, two queues of weight 1, of which one used three quarters of all that both used: w'
// is 1/2 for each, u' is 3/4 and 1/4, and their weights become 1/4 and 3/4. The past is paid back
// without anybody being shut out.
func (d *divider) handicap() {
	c := &d.race
	var weights, used int64
	for k := range c.racers {
		x := &c.racers[k]
		x.weight = min(max(1, d.nodes[x.node].Weight), heaviest)
		weights += x.weight
		used = min(most, used+d.used(x.node))
	}
	for k := range c.racers {
		x := &c.racers[k]
		if used > 0 {
			past, _ := mulDivMod(min(used, d.used(x.node)), weights*grain, used)
			// In parts of a grain of the sum of weights: 2*w' - u' times weights*grain, which is a common factor and so changes
			// no proportion.
			x.weight = max(x.weight*grain/mildest, 2*x.weight*grain-past)
		}
	}
}

// used is what the node used in the past, in whatever unit the caller counts; only proportions
// matter.
func (d *divider) used(i int32) int64 { return min(max(0, d.nodes[i].Used), most) }

// pace works out how fast racers take what they need: in proportion to it, and so that the dominant
// part, divided by the weight, rises alike for all. The speed of the dominant resource is the
// weight, and that of another is the weight times the ratio of the two goals.
func (d *divider) pace() {
	c := &d.race
	var weights int64
	for k := range c.racers {
		weights += c.racers[k].weight
	}
	// Speeds are shifted up as far as their sums cannot overflow: the ratio of a small need to a dominant one keeps up to 40
	// bits.
	c.shift = 0
	for weights<<(c.shift+1) < 1<<61 && c.shift < 40 {
		c.shift++
	}
	c.speed, c.pace, c.room, c.ended, c.byGoal = c.speed[:0], c.pace[:0], c.room[:0], c.ended[:0], c.byGoal[:0]
	for r, total := range d.total {
		c.pace, c.ended = append(c.pace, 0), append(c.ended, false)
		c.room = append(c.room, partDown(d.left[r], total))
	}
	for k := range c.racers {
		x := &c.racers[k]
		c.byGoal = append(c.byGoal, int32(k))
		for r, goal := range c.goal[k*d.dims : (k+1)*d.dims] {
			speed := x.weight << c.shift
			if goal < x.dominant {
				// It takes of this resource in proportion to its need, so that all its needs are met at the same level. At least
				// 1, or a racer with a tiny need would never end the resource that it waits for.
				ratio, _ := mulDivMod(goal, 1<<c.shift, x.dominant)
				speed = x.weight * ratio
				if goal > 0 {
					speed = max(1, speed)
				}
			}
			c.speed = append(c.speed, speed)
			c.pace[r] += speed
		}
	}
	// By dominant/weight, the level at which the racer has everything, as cross products; equals stay in the order of the group,
	// by name.
	slices.SortFunc(c.byGoal, func(a, b int32) int {
		x, y := &c.racers[a], &c.racers[b]
		if o := compareProducts(x.dominant, y.weight, y.dominant, x.weight); o != 0 {
			return o
		}
		return int(a - b)
	})
}

// run raises the level from one event to the next until no racer runs: a racer has all that it needs,
// or a resource ends, and all stop that need it. What racers got, rounding apart, is in got.
//
// Invariant: those that are out have stopped at a level no higher than the next event, and room and
// pace are of those that still run. The next resource to end does so no earlier than the last one
// that ended, because a racer that stops takes out of room at most what its speed would have taken by
// then. Levels so never go back.
func (d *divider) run() {
	c := &d.race
	c.got = append(c.got[:0], c.goal...)
	// Racers are visited in the order in which they would come home. Before one does, every resource that ends at a lower level
	// ends first, which stops others and so slows the pace of what is left: the resource that ends next is looked for anew each
	// time.
	for _, k := range c.byGoal {
		x := &c.racers[k]
		for !x.out {
			r := c.scarcest()
			// The level, times a power of two, is room over pace; the racer's goal is at dominant over weight.
			if r < 0 || compareProducts(x.dominant, c.pace[r], x.weight<<c.shift, c.room[r]) <= 0 {
				x.full = true
				d.stop(int(k))
				break
			}
			d.end(r)
		}
	}
}

// scarcest returns the resource that ends first at the pace of those that run, -1 if none does:
// then nobody runs that needs anything. Of equals it is the first; all of them end at the same
// level, whichever is first.
func (c *race) scarcest() int {
	worst := -1
	for r, pace := range c.pace {
		// room/pace is the level at which the resource ends if no racer stops before.
		if pace > 0 && (worst < 0 || compareProducts(c.room[r], c.pace[worst], c.room[worst], pace) < 0) {
			worst = r
		}
	}
	return worst
}

// end stops all that need the resource at the level at which it ends, room/pace. What each has of
// every resource by then is its speed times that level.
func (d *divider) end(r int) {
	c := &d.race
	c.ended[r] = true
	// Taken before anybody stops: all stop at this one level, and stop changes both.
	room, pace := c.room[r], c.pace[r]
	for k := range c.racers {
		if c.racers[k].out || c.speed[k*d.dims+r] == 0 {
			continue
		}
		for o := k * d.dims; o < (k+1)*d.dims; o++ {
			got, _ := mulDivMod(c.speed[o], room, pace)
			c.got[o] = min(c.goal[o], got)
		}
		d.stop(k)
	}
}

// stop takes the racer and what it got out of the race: its speed out of the pace, and its part out
// of the room.
func (d *divider) stop(k int) {
	c := &d.race
	c.racers[k].out = true
	for r := range c.pace {
		c.pace[r] -= c.speed[k*d.dims+r]
		// Rounding may have given away a grain more than there was; room is never less than nothing.
		c.room[r] = max(0, c.room[r]-c.got[k*d.dims+r])
	}
}

// score makes whole units of what racers got: rounded down, and of a resource that ended the rest
// one by one to the largest remainders. Of the others the rest is for the next round. It says
// whether anybody got anything; if not, another round would be the same again.
func (d *divider) score() bool {
	c := &d.race
	moved := false
	for r, total := range d.total {
		// Parts of the total become units again. Rounded down, they can only leave something over, never hand out more than there
		// is.
		left := d.left[r]
		if total <= 0 || left <= 0 {
			continue
		}
		c.parts = c.parts[:0]
		for k := range c.racers {
			x, need := &c.racers[k], c.need[k*d.dims+r]
			if need == 0 {
				continue
			}
			whole, rest := need, int64(0)
			// A queue that gets all that it needs is given its need itself, and not the fixed-point value of it.
			if !x.full {
				whole, rest = units(c.got[k*d.dims+r], total)
			}
			whole = min(whole, need, left)
			if whole < need {
				c.parts = append(c.parts, part{x.node, rest})
			}
			d.share[int(x.node)*d.dims+r] += whole
			left -= whole
		}
		// Of a resource that ended, less than one unit for each racer is left over. The largest remainders get them, equals by
		// name: the method of Hamilton, which no order of the nodes changes.
		if c.ended[r] {
			d.handOut(r, c.parts, left)
			left = 0 // but for what the fixed point lost of a very large total
		}
		moved = moved || left < d.left[r]
		d.left[r] = left
	}
	return moved
}
