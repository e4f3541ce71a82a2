package cluster

// Room on nodes has a number in every state that it is in. Each change of a node's room gives a number that was never given
// before to the node, to its bucket and to all nodes together; a rollback gives back the numbers from before. So equal numbers
// mean equal room, and what was derived at a number holds whenever the number is there again: trials that were rolled back
// cost whoever did not look meanwhile nothing.

// room numbers the states of all nodes' room.
type room struct {
	Now    uint64 // the state that it is in
	Moment uint64 // changes ever; never goes back
	Nodes  int    // Node.Index is below it

	steps []step       // the latest changes, by number; older ones are overwritten. Its length is a power of two
	moved map[spot]int // by node: how many changes more than were undone there were undone elsewhere; see undoneElsewhere
}

// step is a change: the state of a number came about from the one before, which has a lower number, in the bucket alone.
type step struct {
	number, before uint64
	bucket         *Bucket // nil: of a node in none
}

const (
	fewSteps     = 64  // are kept of a small cluster
	stepsPerNode = 16  // are kept of a large one: about those of one plan's trials
	MostSteps    = 128 // are followed one by one
)

// Since adds the buckets in which room differs from what it was at the number, and maybe others; false: these are not known
// any more, and any may. States are a tree, for a rollback goes back to an earlier one: from both states it goes back to
// where they part, in at most MostSteps.
func (r *room) Since(then uint64, buckets []*Bucket) ([]*Bucket, bool) {
	now := r.Now
	for range MostSteps {
		if now == then {
			return buckets, true
		}
		at := max(now, then)
		if len(r.steps) == 0 {
			break
		}
		s := &r.steps[at%uint64(len(r.steps))]
		if s.number != at {
			break
		}
		if s.bucket != nil {
			buckets = append(buckets, s.bucket)
		}
		if now > then {
			now = s.before
		} else {
			then = s.before
		}
	}
	return nil, false
}

// keep notes the step, in place of an older one if there is no more room.
func (r *room) keep(s step) {
	if n := uint64(len(r.steps)); s.number >= n && (n == 0 || n < uint64(r.Nodes)*stepsPerNode) {
		was := r.steps
		r.steps = make([]step, max(fewSteps, 2*n))
		for _, o := range was { // n is a power of two: each has a slot of its own
			r.steps[o.number%uint64(len(r.steps))] = o
		}
	}
	r.steps[s.number%uint64(len(r.steps))] = s
}

// numbers are those of the room from before a change.
type numbers struct {
	now     uint64
	bucket  *Bucket // of the node that is changed; nil: none
	epoch   uint64  // of the bucket
	slot    int     // of the node
	touched uint64  // of the bucket
	node    uint64
}

// touched notes that the node's room changed.
func (m *Model) touched(n *Node) {
	m.Room.Moment++
	//mutate: index-step-of-room
	m.Room.keep(step{number: m.Room.Moment, before: m.Room.Now, bucket: n.Bucket})
	m.Room.Now = m.Room.Moment
	if b := n.Bucket; b != nil {
		//mutate: index-rows-of-certificates
		b.Touched = m.Room.Now
		//mutate: index-number-of-node
		b.Numbers[n.Slot] = m.Room.Now
	}
}

// numbersOf returns the numbers, as they are, that a change of the node's room changes.
func (m *Model) numbersOf(n *Node) numbers {
	was := numbers{now: m.Room.Now}
	if n != nil && n.Bucket != nil {
		b := n.Bucket
		was.bucket, was.epoch, was.slot, was.touched, was.node = b, b.Epoch, n.Slot, b.Touched, b.Numbers[n.Slot]
	}
	return was
}

// of says whether the numbers are those that a change of the node changes. Pods of one class may have changed places since
// (place deals ranks): what is undone then is a change of another node, and leaves room in a state of its own.
func (was *numbers) of(n *Node) bool {
	return n.Bucket == was.bucket && (n.Bucket == nil || n.Slot == was.slot)
}

// spot is a node's place in the topology.
type spot struct {
	bucket *Bucket
	slot   int
}

// undoneElsewhere notes that the change of one node was undone on another. Until as much has been undone on every node as was
// done there, room is in none of the states that the journal knows.
func (r *room) undoneElsewhere(was *numbers, on *Node) {
	if r.moved == nil {
		r.moved = make(map[spot]int)
	}
	count := func(s spot, by int) {
		if r.moved[s] += by; r.moved[s] == 0 {
			delete(r.moved, s)
		}
	}
	count(spot{was.bucket, was.slot}, 1)
	count(spot{on.Bucket, on.Slot}, -1)
}

// restore gives the numbers back once the change is undone. Where nodes have been sorted anew since, the new bucket's stay:
// they are of no other state.
func (m *Model) restore(was *numbers) {
	//mutate: rollback-number
	m.Room.Now = was.now
	if b := was.bucket; b != nil && b.Epoch == was.epoch {
		b.Touched, b.Numbers[was.slot] = was.touched, was.node
	}
}
