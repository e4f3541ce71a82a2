package openb

import (
	"cmp"
	"slices"
)

// Room is what is left of a node.
type Room struct {
	CPU, Memory int64
	Cards       [MaxGPUs]int // thousandths that are free of each card; only the first GPUs of the node exist
	GPUs        int          // cards of the node
	Model       uint32       // the bit of its model
}

// Idle is what is free of the node's cards together, in thousandths.
func (r *Room) Idle() int {
	sum := 0
	for _, free := range r.Cards[:r.GPUs] {
		sum += free
	}
	return sum
}

// Class is a kind of pod: all of its pods ask for the same.
type Class struct {
	ID          int // dense, from 0
	CPU, Memory int64
	GPUs, Milli int
	Models      uint32 // bits of the models it accepts
	Count       int    // pods of the workload, before inflation
}

// Shared reports whether the class asks for a part of one card.
func (c *Class) Shared() bool { return c.GPUs == 1 && c.Milli < 1000 }

// Fits reports whether a pod of the class could run in the room.
func (c *Class) Fits(r *Room) bool {
	if c.CPU > r.CPU || c.Memory > r.Memory || c.Models&r.Model == 0 {
		return false
	}
	n := 0
	for _, free := range r.Cards[:r.GPUs] {
		if free >= c.Milli {
			n++
		}
	}
	return n >= c.GPUs
}

// Take puts a pod of the class into the room: a share on the card, whole cards from the first free one on.
func (c *Class) Take(r *Room, card int) {
	r.CPU -= c.CPU
	r.Memory -= c.Memory
	if c.Shared() {
		r.Cards[card] -= c.Milli
		return
	}
	for i, left := 0, c.GPUs; left > 0; i++ {
		if r.Cards[i] == 1000 {
			r.Cards[i] = 0
			left--
		}
	}
}

// Tightest is the card with the least room that holds a share of the class, -1 if none does.
func (c *Class) Tightest(r *Room) int {
	best := -1
	for i, free := range r.Cards[:r.GPUs] {
		if free >= c.Milli && (best < 0 || free < r.Cards[best]) {
			best = i
		}
	}
	return best
}

// Workload is a list of pods on the nodes of the trace, with names turned into numbers.
type Workload struct {
	Name    string
	Pods    []Pod
	Nodes   []Node
	Empty   []Room // by node
	Classes []Class
	Class   []int // by pod
}

// NewWorkload numbers the classes of the pods in the order of the pods.
func NewWorkload(name string, nodes []Node, pods []Pod) *Workload {
	w := &Workload{Name: name, Pods: pods, Nodes: nodes}
	bits := make(map[string]uint32)
	for i := range nodes {
		n := &nodes[i]
		if bits[n.Model] == 0 {
			bits[n.Model] = 1 << len(bits)
		}
		room := Room{CPU: n.CPU, Memory: n.Memory, GPUs: n.GPUs, Model: bits[n.Model]}
		for c := range n.GPUs {
			room.Cards[c] = 1000
		}
		w.Empty = append(w.Empty, room)
	}
	ids := make(map[Class]int)
	for i := range pods {
		p := &pods[i]
		c := Class{CPU: p.CPU, Memory: p.Memory, GPUs: p.GPUs, Milli: p.Milli}
		if p.Models == nil {
			c.Models = ^uint32(0)
		}
		for _, m := range p.Models {
			c.Models |= bits[m]
		}
		id, ok := ids[c]
		if !ok {
			id = len(w.Classes)
			ids[c] = id
			w.Classes = append(w.Classes, c)
			w.Classes[id].ID = id
		}
		w.Classes[id].Count++
		w.Class = append(w.Class, id)
	}
	return w
}

// Kind is a request of a typical pod as FGD knows it: without memory, with its share of the pods that are typical.
type Kind struct {
	CPU         int64
	GPUs, Milli int
	Models      uint32
	Share       float64
}

// Typical are the most frequent kinds of the workload that together are at least 95 % of its pods.
func (w *Workload) Typical() []Kind {
	counts := make(map[Kind]float64)
	for i := range w.Classes {
		c := &w.Classes[i]
		counts[Kind{CPU: c.CPU, GPUs: c.GPUs, Milli: c.Milli, Models: c.Models}] += float64(c.Count)
	}
	var all []Kind
	for k, n := range counts {
		k.Share = n
		all = append(all, k)
	}
	slices.SortFunc(all, func(a, b Kind) int {
		return cmp.Or(cmp.Compare(b.Share, a.Share), cmp.Compare(a.Milli, b.Milli), cmp.Compare(a.GPUs, b.GPUs), cmp.Compare(a.CPU, b.CPU), cmp.Compare(a.Models, b.Models))
	})
	sum, n := 0.0, 0
	for n < len(all) && sum < 0.95*float64(len(w.Pods)) {
		sum += all[n].Share
		n++
	}
	all = all[:n]
	for i := range all {
		all[i].Share /= sum
	}
	return all
}
