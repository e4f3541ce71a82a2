package openb

import (
	"fmt"
	"math"
)

// Scorer says how well a node suits a pod.
type Scorer interface {
	// Arrive tells of the next pod before it is placed. It reports whether scores given earlier no longer hold.
	Arrive(c *Class) bool
	// Score rates a room that a pod of the class fits into, and says on which card a share goes. More is better.
	// It depends on nothing but the room, the class and what Arrive was told.
	Score(r *Room, c *Class) (score int64, card int)
}

// Result is what became of one arrival list.
type Result struct {
	Unallocated [131]float64 // percent of GPUs, by how many percent of them the pods so far ask for; NaN where no pod ends there
	Dropped     int          // pods that fitted nowhere
	Placed      int
	Moved       int // moves of pods that ran, to make room for one that fitted nowhere
}

// Run replays the arrivals. A pod goes to the node with the best score, among equals to the one with the smallest rank. An
// error says that a policy broke the rules: that a pod was dropped or misplaced.
//
// Scores are kept by class and node until the node changes, so that a run costs one evaluation per class and changed node
// and a scan of the kept scores per pod.
func Run(w *Workload, a Arrivals, s Scorer) (*Result, error) { return RunMoving(w, a, s, 0) }

// RunMoving is Run with moves: a pod that fits nowhere may have others moved to make room, as long as no more than so many
// moves have been made in a thousand placed pods.
func RunMoving(w *Workload, a Arrivals, s Scorer, moves int) (*Result, error) {
	b := newBoard(w, a.Rank)
	if moves > 0 {
		b.lives = make([][]life, len(w.Empty))
	}
	var capacity, used, arrived int64
	for i := range w.Empty {
		capacity += int64(w.Empty[i].Idle())
	}
	var sum [131]float64
	var count [131]int
	res := &Result{}
	for _, p := range a.Pods {
		c := &w.Classes[w.Class[p]]
		if s.Arrive(c) {
			b.forget()
		}
		arrived += w.Pods[p].total()
		if node, card := b.best(s, c); node >= 0 {
			if err := b.place(c, node, card); err != nil {
				return nil, fmt.Errorf("pod %s: %w", w.Pods[p].Name, err)
			}
			used += w.Pods[p].total()
			res.Placed++
		} else {
			if n := b.anyFit(c); n >= 0 {
				return nil, fmt.Errorf("pod %s was dropped and fits on node %s", w.Pods[p].Name, w.Nodes[n].Name)
			}
			if left := res.Placed*moves/1000 - res.Moved; c.GPUs > 0 && left > 0 {
				n, err := b.makeRoom(s, c, left)
				if err != nil {
					return nil, fmt.Errorf("pod %s: %w", w.Pods[p].Name, err)
				}
				if n > 0 {
					res.Moved += n
					res.Placed++
					used += w.Pods[p].total()
				}
			}
		}
		column := int(math.Round(float64(arrived) * 100 / float64(capacity)))
		if column < len(sum) {
			sum[column] += math.Round(float64(used)*10000/float64(capacity)) / 100
			count[column]++
		}
	}
	res.Dropped = len(a.Pods) - res.Placed
	for i := range sum {
		res.Unallocated[i] = 100 - sum[i]/float64(count[i])
	}
	return res, nil
}

// board is the cluster during a run, with the scores that still hold.
type board struct {
	w       *Workload
	rank    []int
	rooms   []Room
	version []int32 // by node: how often it has changed
	scores  [][]score
	none    []bool   // by class: it fits nowhere, and will not until a pod has moved
	lives   [][]life // by node: the pods that run there; nil where nobody asks
	undo    []saved  // what moves that are being tried have changed
	stuck   []bool   // by class: no moves were found since the last that were made
}

type score struct {
	version int32 // of the node, plus 1
	fits    bool
	card    int8
	value   int64
}

func newBoard(w *Workload, rank []int) *board {
	b := &board{w: w, rank: rank, rooms: append([]Room(nil), w.Empty...), version: make([]int32, len(w.Empty)), scores: make([][]score, len(w.Classes)), none: make([]bool, len(w.Classes)), stuck: make([]bool, len(w.Classes))}
	for i := range b.scores {
		b.scores[i] = make([]score, len(w.Empty))
	}
	return b
}

func (b *board) forget() {
	for i := range b.scores {
		clear(b.scores[i])
	}
}

// best is the node for a pod of the class, and the card for a share; -1 where it fits nowhere.
func (b *board) best(s Scorer, c *Class) (node, card int) {
	if b.none[c.ID] {
		return -1, -1
	}
	best := -1
	row := b.scores[c.ID]
	for n := range row {
		k := &row[n]
		if k.version != b.version[n]+1 {
			*k = score{version: b.version[n] + 1, fits: c.Fits(&b.rooms[n])}
			if k.fits {
				value, card := s.Score(&b.rooms[n], c)
				k.value, k.card = value, int8(card)
			}
		}
		if k.fits && (best < 0 || k.value > row[best].value || k.value == row[best].value && b.rank[n] < b.rank[best]) {
			best = n
		}
	}
	if best < 0 {
		b.none[c.ID] = true
		return -1, -1
	}
	return best, int(row[best].card)
}

// place puts a pod on a node, and refuses what does not fit.
func (b *board) place(c *Class, node, card int) error {
	r := &b.rooms[node]
	if !c.Fits(r) || c.Shared() && (card < 0 || card >= r.GPUs || r.Cards[card] < c.Milli) {
		return fmt.Errorf("does not fit on node %s, card %d", b.w.Nodes[node].Name, card)
	}
	before := r.Cards
	c.Take(r, card)
	b.version[node]++
	if b.lives != nil {
		b.lives[node] = append(b.lives[node], life{c, cut(&before, &r.Cards)})
	}
	return nil
}

// anyFit is a node that the class fits on, -1 if there is none. It asks every node again, and no policy.
func (b *board) anyFit(c *Class) int {
	for n := range b.rooms {
		if c.Fits(&b.rooms[n]) {
			return n
		}
	}
	return -1
}
