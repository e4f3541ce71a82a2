package api

import (
	"fmt"
	"slices"
)

// Part is a request for a part of a GPU, or of each of several: an amount of its memory and a share of its compute. A card has
// either pods that hold it whole or pods that have parts of it. The parts of one pod are on different cards.
type Part struct {
	Cards int `json:"cards"`
	// Memory is MiB of each card. Where it is 0, Share is the part of each card's memory, in thousandths.
	Memory int64 `json:"memory,omitempty"`
	Share  int64 `json:"share,omitempty"`
	// Compute is the share of each card's compute, in thousandths; 0: whatever the others leave. A pod that wants all of it has
	// the card for itself.
	Compute int64 `json:"compute,omitempty"`
	// Spread takes those cards of a node of which the most is left, in place of those in use.
	Spread bool `json:"spread,omitempty"`
}

// Whole is the whole of a card's memory or compute in the units of Part.Share and Part.Compute.
const Whole = 1000

// MaxCardMemory bounds the memory of a card and of a request for it, in MiB, so that sums and products stay small. It is more
// than any card has by a factor of a million.
const MaxCardMemory = 1 << 40

// Of is how much memory of a card with so much of it the part takes, in MiB. Shares are rounded down, so that n parts of 1/n fit.
func (p *Part) Of(memory int64) int64 {
	if p.Memory > 0 {
		return p.Memory
	}
	return memory * p.Share / Whole
}

// PartsBy is by what of a card a queue counts parts.
type PartsBy string

const (
	ByLarger  PartsBy = "larger"  // the larger of its shares of compute and memory: what others cannot have any more. The default
	ByCompute PartsBy = "compute" // its share of compute; of memory where it asks for no share of compute
	ByMemory  PartsBy = "memory"  // its share of memory
)

func (b PartsBy) known() bool { return b == "" || b == ByLarger || b == ByCompute || b == ByMemory }

// Charge is what a part of a card with so much memory, 0 where that is not known, counts in queues, in thousandths of a GPU. Shares
// are rounded down, so that n parts of 1/n count no more than their card; but no part counts nothing. A part with all compute
// has the card to itself, and counts as all of it.
func (p *Part) Charge(memory int64, by PartsBy) int64 {
	share := p.Share
	if p.Memory > 0 {
		share = Whole
		if memory > 0 {
			share = min(Whole, p.Memory*Whole/memory)
		}
	}
	switch {
	case p.Compute == Whole:
		share = Whole
	case by == ByMemory || p.Compute == 0:
	case by == ByCompute:
		share = p.Compute
	default:
		share = max(share, p.Compute)
	}
	return max(1, share)
}

// Slice is a resource of a node of which one is a part of a GPU: an instance that MIG has cut, or a replica of a GPU that several
// pods share. Nodes count slices by their resource, and queues as what they are of a GPU.
type Slice struct {
	Resource string `json:"resource"`
	// Memory and Compute are what one is of a GPU, in thousandths.
	Memory  int64 `json:"memory"`
	Compute int64 `json:"compute"`
}

// Charge is what one slice counts in queues, in thousandths of a GPU.
func (s *Slice) Charge(by PartsBy) int64 {
	switch by {
	case ByCompute:
		return s.Compute
	case ByMemory:
		return s.Memory
	}
	return max(s.Memory, s.Compute)
}

// SameDevices says whether the nodes have the same devices, as far as anybody says which they are.
func (n *Node) SameDevices(o *Node) bool {
	return n.Model == o.Model && slices.Equal(n.Devices, o.Devices)
}

func (n *Node) checkSlices() string {
	for i, s := range n.Slices {
		if s.Resource == "" || s.Memory < 1 || s.Memory > Whole || s.Compute < 1 || s.Compute > Whole {
			return fmt.Sprintf("slice %q: %d thousandths of memory and %d of compute: want a resource, and 1 to %d of each", s.Resource, s.Memory, s.Compute, Whole)
		}
		if i > 0 && n.Slices[i-1].Resource >= s.Resource {
			return fmt.Sprintf("slice %q: slices are sorted by resource, each once", s.Resource)
		}
	}
	return ""
}

func (p *Part) equal(o *Part) bool {
	if p == nil || o == nil {
		return p == o
	}
	return *p == *o
}

// check says why the request makes no sense; "": it does.
func (p *Part) check(g *GPU) string {
	switch {
	case p == nil:
		return ""
	case p.Cards < 1 || p.Cards > MaxClaimDevices:
		return fmt.Sprintf("part: of %d cards: want 1 to %d", p.Cards, MaxClaimDevices)
	case p.Memory < 0 || p.Memory > MaxCardMemory:
		return fmt.Sprintf("part: %d MiB of memory: want 0 to %d", p.Memory, int64(MaxCardMemory))
	case p.Share < 0 || p.Share > Whole || p.Compute < 0 || p.Compute > Whole:
		return fmt.Sprintf("part: %d thousandths of memory and %d of compute: want 0 to %d of each", p.Share, p.Compute, Whole)
	case (p.Memory > 0) == (p.Share > 0):
		return "part: want memory either in MiB or as a share of the card"
	case g.Clique != "" || g.NUMA != "":
		return "part: NVLink and NUMA are for whole GPUs"
	}
	return ""
}
