package engine

import (
	"math"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/device"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// room returns how many pods of the class the free resources, devices and ports of the node hold at once.
func (s *State) room(c *class, n *node) int64 {
	free := n.free
	//mutate: filter-nominated
	if len(n.nominated) > 0 {
		free = n.lessNominated(c.priority)
	}
	k := quotient(free, c.demands)
	if k == 0 {
		return 0
	}
	if c.shape.gpus > 0 {
		//mutate: filter-devices
		if k = min(k, deviceRoom(c, n)); k == 0 {
			return 0
		}
		//mutate: filter-whole-node
		if (s.wholes > 0 || c.whole != "") && s.spoiled(c, n) != "" {
			return 0
		}
	}
	if len(c.shape.spec.Ports) > 0 {
		//mutate: filter-host-port
		if n.portTaken(c) != "" {
			return 0
		}
		//mutate: filter-host-port-once
		k = 1
	}
	return k
}

// quotient is the smallest of free/amount over the demands, 0 where anything is short.
func quotient(free quantity.Vector, demands []quantity.Demand) int64 {
	k := int64(math.MaxInt64)
	for i, d := range demands {
		f := free.At(d.Dim)
		//mutate: filter-resources
		if f < d.Amount {
			return 0
		}
		// A product is cheaper than a division, and rarely overflows: amounts are bounded.
		if i == 0 || k > api.MaxAmount/d.Amount || f < k*d.Amount {
			k = min(k, f/d.Amount)
		}
	}
	return k
}

// lessNominated is what is free once nominated pods of the same or higher priority have their room.
func (n *node) lessNominated(priority int32) quantity.Vector {
	free := append(quantity.Vector(nil), n.free...)
	for _, p := range n.nominated {
		//mutate: filter-nominated-priority
		if p.Priority >= priority {
			for _, d := range p.demands {
				free.Add(d.Dim, -d.Amount)
			}
		}
	}
	return free
}

// deviceRoom returns how many pods the node's devices hold, GPU counts aside. Where pods hold devices and do
// not say which, any device may be theirs: it counts what is certain.
func deviceRoom(c *class, n *node) int64 {
	if len(n.devices) == 0 {
		if c.want.Model != "" || c.islands() {
			return 0
		}
		return math.MaxInt64
	}
	//mutate: filter-islands
	if c.islands() {
		//mutate: filter-unknown-devices
		if n.blind > 0 {
			return 0
		}
		return int64(device.Fits(n.devices, c.want))
	}
	free := n.loose - n.blind
	if c.want.Model != "" && !(n.kind.uniform && n.devices[0].Model == c.want.Model) {
		free = -n.blind
		for i := range n.devices {
			if d := &n.devices[i]; d.Free && d.Model == c.want.Model {
				free++
			}
		}
	}
	if count := int64(c.want.Count); count > 1 {
		return max(0, free) / count
	}
	return max(0, free)
}

// islands says whether a pod's devices must lie together. One device always does.
func (c *class) islands() bool {
	return c.want.Count > 1 && (c.want.Clique == device.Require || c.want.NUMA == device.Require)
}

// chooseDevices picks the devices for one pod of the class, nil where they are not known.
func chooseDevices(c *class, n *node) []string {
	if c.shape.gpus == 0 || len(n.devices) == 0 || n.blind > 0 {
		return nil
	}
	var buf [16]int
	chosen := device.Choose(n.devices, c.want, buf[:0])
	if len(chosen) == 0 {
		return nil
	}
	return n.deviceIDs(chosen)
}

func (n *node) deviceIDs(devices []int) []string {
	out := make([]string, len(devices))
	for i, d := range devices {
		out[i] = n.spec.Devices[d].ID
	}
	return out
}

// waysOfDevices lists the different choices of devices for one pod of the class, and whether these are all.
func waysOfDevices(c *class, n *node) (ways [][]string, all bool) {
	if c.shape.gpus == 0 || len(n.devices) == 0 || n.blind > 0 {
		return [][]string{nil}, true
	}
	all = true
	device.Each(n.devices, c.want, func(way []int) bool {
		all = len(ways) < maxWays
		if all {
			ways = append(ways, n.deviceIDs(way))
		}
		return all
	})
	return ways, all
}

// maxWays bounds the choices of devices that are tried on a node.
const maxWays = 64

// spoiled names a workload for whose sake the class may not take a GPU here: one that wants its nodes whole, or any other,
// if the class itself does. Who has a place held here counts as here. "": none.
func (s *State) spoiled(c *class, n *node) string {
	found := ""
	for _, p := range n.occ {
		key := p.WorkloadKey()
		if p.amount(quantity.DimGPU) == 0 || c.whole != "" && p.Gang == c.whole {
			continue
		}
		if (c.whole != "" || p.gang != nil && p.gang.whole) && (found == "" || key < found) {
			found = key
		}
	}
	for _, h := range n.held {
		//mutate: filter-whole-node-held
		if s.spoils(h, c) && (found == "" || h.Gang < found) {
			found = h.Gang
		}
	}
	return found
}

// spoils says whether the class may not take a GPU where the place is held.
func (s *State) spoils(h *hold, c *class) bool {
	if h.Gang == "" || h.Gang == c.whole || h.Requests.Get(s.cfg.GPU) == 0 {
		return false
	}
	g := s.gangs[h.Gang]
	return c.whole != "" || g != nil && g.whole
}

// portTaken returns the first port of the class that a pod on the node has, "" if none.
func (n *node) portTaken(c *class) string {
	for _, want := range n.contended(c.shape.spec.Ports) {
		for _, p := range n.occ {
			for _, has := range p.Ports {
				if want.Conflicts(has) {
					return want.String()
				}
			}
		}
		for _, p := range n.nominated {
			for _, has := range p.Ports {
				if p.Priority >= c.priority && want.Conflicts(has) {
					return want.String()
				}
			}
		}
	}
	return ""
}

// contended returns those of the ports whose number a pod on the node, or nominated to it, has too. It looks once at each
// port of a pod, not at each pair.
func (n *node) contended(ports []Port) []Port {
	if len(ports) == 0 {
		return nil
	}
	var has [1 << 16 / 64]uint64
	for _, pods := range [][]*pod{n.occ, n.nominated} {
		for _, p := range pods {
			for _, q := range p.Ports {
				has[uint16(q.Port)/64] |= 1 << (uint16(q.Port) % 64)
			}
		}
	}
	var out []Port
	for _, p := range ports {
		if has[uint16(p.Port)/64]&(1<<(uint16(p.Port)%64)) != 0 {
			out = append(out, p)
		}
	}
	return out
}

// A score is, from its highest bits: what the pod itself prefers, whether its devices can lie together as
// it would like, and the policy's packing.
const (
	packBits = 40
	maxWish  = 1 << 20
)

func (s *State) score(c *class, n *node, wish int64) int64 {
	wish = max(-maxWish, min(wish, maxWish))
	score := wish << (packBits + 1)
	if c.wishesIslands() && len(n.devices) > 0 {
		strict := c.want
		strict.Clique, strict.NUMA = harden(strict.Clique), harden(strict.NUMA)
		if n.blind == 0 && device.Fits(n.devices, strict) > 0 {
			score += 1 << packBits
		}
	}
	return score + s.packing(c, n)
}

func (c *class) wishesIslands() bool {
	return c.shape.gpus > 0 && (c.want.Clique == device.Prefer || c.want.NUMA == device.Prefer)
}

func harden(w device.Wish) device.Wish {
	if w == device.Prefer {
		return device.Require
	}
	return w
}

// packing is between 0 and 1<<packBits; more is better.
func (s *State) packing(c *class, n *node) int64 {
	gpus := max(0, min(n.free.At(quantity.DimGPU), 1<<15))
	used := s.usedShare(c, n)
	switch s.cfg.Packing {
	case api.Loose:
		return gpus<<20 | (1023 - used)
	case api.LeastF:
		return max(0, 1<<29-s.fragmentationGrowth(c, n))<<10 | used
	}
	pack := (1<<15-gpus)<<10 | used
	if c.shape.gpus == 0 && n.kind.size.At(quantity.DimGPU) == 0 {
		pack += 1 << 30
	}
	return pack
}

// usedShare is how much of the resources that the class asks for, GPUs and pods aside, is in use, from 0
// to 1023.
func (s *State) usedShare(c *class, n *node) int64 {
	var used float64
	parts := 0
	k := n.kind
	for _, d := range c.demands {
		if d.Dim == quantity.DimGPU || d.Dim == quantity.DimPods || d.Dim >= len(k.size) || k.size[d.Dim] == 0 {
			continue
		}
		used += max(0, min(float64(k.size[d.Dim]-n.free[d.Dim])*k.scale[d.Dim], 1023))
		parts++
	}
	if parts == 2 {
		used *= 0.5
	} else if parts > 2 {
		used /= float64(parts)
	}
	return int64(used)
}

// fragmentationGrowth is by how much the node's expected fragmentation would grow with one more pod of the
// class: the free GPUs that a pod of the expected workload could not use, weighted by how often it comes.
// It is shifted so that less is never negative.
func (s *State) fragmentationGrowth(c *class, n *node) int64 {
	after := append(quantity.Vector(nil), n.free...)
	for _, d := range c.demands {
		after.Add(d.Dim, -d.Amount)
	}
	return s.fragmentation(after) - s.fragmentation(n.free) + 1<<28
}

func (s *State) fragmentation(free quantity.Vector) int64 {
	var sum int64
	gpus := max(0, free.At(quantity.DimGPU))
	for _, w := range s.workload {
		if quotient(free, w.demands) == 0 {
			sum += w.weight * gpus
		}
	}
	return min(sum, 1<<27)
}

// expectation is a Shape with its demands by dimension.
type expectation struct {
	demands []quantity.Demand
	weight  int64
}

func expect(d *quantity.Dims, workload []api.Shape) []expectation {
	out := make([]expectation, len(workload))
	for i, w := range workload {
		out[i] = expectation{demands: d.Demands(w.Requests), weight: w.Weight}
	}
	return out
}
