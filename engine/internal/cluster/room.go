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

	steps [recentSteps]step // the latest changes, by number; older ones are overwritten
}

// recentSteps is how many changes can be followed one by one.
const recentSteps = 64

// step is a change: the state of a number came about from the one before, in the bucket alone.
type step struct {
	number, before uint64
	bucket         *Bucket // nil: of a node in none
}

// Since adds the buckets in which room changed since it had the number; false: these are not known any more, and any may
// have.
func (r *room) Since(then uint64, buckets []*Bucket) ([]*Bucket, bool) {
	for at, n := r.Now, 0; n < recentSteps; n++ {
		if at == then {
			return buckets, true
		}
		s := &r.steps[at%recentSteps]
		if s.number != at {
			break
		}
		if s.bucket != nil {
			buckets = append(buckets, s.bucket)
		}
		at = s.before
	}
	return nil, false
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
	m.Room.steps[m.Room.Moment%recentSteps] = step{number: m.Room.Moment, before: m.Room.Now, bucket: n.Bucket}
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

// restore gives the numbers back once the change is undone. Where nodes have been sorted anew since, the new bucket's stay:
// they are of no other state.
func (m *Model) restore(was *numbers) {
	//mutate: rollback-number
	m.Room.Now = was.now
	if b := was.bucket; b != nil && b.Epoch == was.epoch {
		b.Touched, b.Numbers[was.slot] = was.touched, was.node
	}
}
