package openb

import "slices"

// life is a pod that runs: its class, and the cards that it has a part of.
type life struct {
	class *Class
	cards uint8
}

// cut are the cards of which there is less than before.
func cut(before, after *[MaxGPUs]int) (cards uint8) {
	for i := range before {
		if after[i] < before[i] {
			cards |= 1 << i
		}
	}
	return cards
}

// leave gives back what a pod has in the room.
func (l *life) leave(r *Room) {
	r.CPU += l.class.CPU
	r.Memory += l.class.Memory
	for i := range r.GPUs {
		if l.cards>>i&1 == 1 {
			r.Cards[i] += l.class.Milli
		}
	}
}

// depth is how many pods may be moved one for the other to place one, and tries how many sets of pods are tried at each depth.
const depth = 3

var tries = [depth + 1]int{0, 32, 16, 16}

// makeRoom places a pod that fits nowhere by moving others: one pod, or two shares of one card, go to the nodes that suit them
// best, or make room there in turn by moving smaller ones. It returns the number of moves, 0 if nothing was found; it then has
// changed nothing. It tries few moves before many, and among equals moves as little of cards as possible. A class for
// which nothing was found is not tried again before something has moved.
func (b *board) makeRoom(s Scorer, c *Class, most int) (int, error) {
	if b.stuck[c.ID] {
		return 0, nil
	}
	for d := 1; d <= min(most, depth); d++ {
		moves, err := b.displace(s, c, d, most)
		if moves > 0 || err != nil {
			clear(b.none)
			clear(b.stuck)
			return moves, err
		}
	}
	b.stuck[c.ID] = most >= depth
	return 0, nil
}

// displace is makeRoom with chains of so many pods.
func (b *board) displace(s Scorer, c *Class, d, most int) (int, error) {
	at := homes{b, make(map[*Class]bool)}
	var sets []leaving
	for node := range b.rooms {
		if b.rooms[node].Model&c.Models != 0 {
			sets = b.leavers(sets, c, node, at, d, most)
		}
	}
	slices.SortStableFunc(sets, func(a, b leaving) int { return a.milli - b.milli })
	for i, set := range sets {
		if i == tries[d] {
			break
		}
		mark := len(b.undo)
		moves, err := b.exchange(s, c, set, d, most)
		if moves > 0 || err != nil {
			return moves, err
		}
		b.rollback(mark)
	}
	return 0, nil
}

// homes remembers of which classes a pod has a place as things are.
type homes struct {
	b     *board
	known map[*Class]bool
}

func (h homes) has(c *Class) bool {
	has, ok := h.known[c]
	if !ok {
		has = h.b.anyFit(c) >= 0
		h.known[c] = has
	}
	return has
}

// leaving is a set of pods of one node, as indices into its lives, after whose going a pod would fit there.
type leaving struct {
	node  int
	who   []int // ascending
	milli int
}

// leavers appends the sets of one pod, or of two shares of a card, whose going makes room on a node. They have homes, or are
// smaller than the pod and may displace others in turn.
func (b *board) leavers(out []leaving, c *Class, node int, at homes, d, most int) []leaving {
	lives := b.lives[node]
	for i := range lives {
		l := &lives[i]
		if b.frees(c, node, l) && at.mayGo(l, c, d) {
			out = append(out, leaving{node, []int{i}, l.milli()})
		}
		if !l.class.Shared() || most < 2 {
			continue
		}
		for j := i + 1; j < len(lives); j++ {
			if o := &lives[j]; o.class.Shared() && o.cards == l.cards && b.frees(c, node, l, o) && at.mayGo(l, c, d) && at.mayGo(o, c, d) {
				out = append(out, leaving{node, []int{i, j}, l.milli() + o.milli()})
			}
		}
	}
	return out
}

// mayGo says whether a pod has a home, or may look for one by displacing others.
func (h homes) mayGo(l *life, c *Class, d int) bool {
	return d > 1 && l.class.Shared() && l.class.Milli < c.Milli || h.has(l.class)
}

func (l *life) milli() int { return l.class.GPUs * l.class.Milli }

// frees says whether a pod would fit on a node without those.
func (b *board) frees(c *Class, node int, who ...*life) bool {
	room := b.rooms[node]
	for _, l := range who {
		l.leave(&room)
	}
	return c.Fits(&room)
}

// exchange takes the pods off their node, places the new one there, and then finds places for them. It returns the number of
// moves, 0 if one has no place; the caller then rolls back.
func (b *board) exchange(s Scorer, c *Class, set leaving, d, most int) (int, error) {
	b.save(set.node)
	var gone []*Class
	for _, i := range slices.Backward(set.who) {
		l := b.lives[set.node][i]
		l.leave(&b.rooms[set.node])
		gone = append(gone, l.class)
		b.lives[set.node] = slices.Delete(b.lives[set.node], i, i+1)
	}
	b.version[set.node]++
	if err := b.place(c, set.node, c.Tightest(&b.rooms[set.node])); err != nil {
		return 0, err
	}
	moves := len(gone)
	for _, l := range gone {
		b.none[l.ID] = false
		if node, card := b.best(s, l); node >= 0 {
			b.save(node)
			if err := b.place(l, node, card); err != nil {
				return 0, err
			}
			continue
		}
		if d == 1 || moves >= most {
			return 0, nil
		}
		more, err := b.displace(s, l, d-1, most-moves)
		if more == 0 || err != nil {
			return 0, err
		}
		moves += more
	}
	if moves > most {
		return 0, nil
	}
	return moves, nil
}

// saved is a node as it was.
type saved struct {
	node  int
	room  Room
	lives []life
}

func (b *board) save(node int) {
	b.undo = append(b.undo, saved{node, b.rooms[node], slices.Clone(b.lives[node])})
}

func (b *board) rollback(mark int) {
	for len(b.undo) > mark {
		u := b.undo[len(b.undo)-1]
		b.undo = b.undo[:len(b.undo)-1]
		b.rooms[u.node], b.lives[u.node] = u.room, u.lives
		b.version[u.node]++
	}
}
