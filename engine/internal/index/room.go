package index

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/device"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// One node: how many pods of a class it has room for (Room), which devices a pod is given there (ChooseDevices), and how good
// a place it is (score). These functions are pure: they read the class, the node and the configuration, and keep nothing.
// What they answer holds while the node's number does (cluster/room.go), and class.go keeps it by that number. Under Packing
// priced the score also follows from the mix (price.go).
//
// They are the innermost loop of the index. Most calls end at the first shortage, after one comparison; a node with room costs
// some ten comparisons, and more where devices must be chosen one by one or preferences are weighed.

// Room returns how many pods of the class the free resources, devices and ports of the node hold at
// once, as if no other pods came. It is the least of what each of them holds, since each pod takes
// of all. The cheapest questions come first, and 0 ends them. Labels, taints and rules between pods are not asked: see measure
// in class.go.
//
// For example, a node has 8 GPUs and 64 cores free, and a pod asks for 2 GPUs, NVLinked, and 24
// cores: cores are for 2 pods and GPUs for 4. If only 3 pairs of the free GPUs are linked it is
// still 2.
func (x *Index) Room(c *Class, n *cluster.Node) int64 {
	// Places of nominated pods of the same or a higher priority are not free for the class; those
	// of lower ones are.
	free := n.Free
	//mutate: filter-nominated
	if len(n.Nominated) > 0 {
		free = n.LessNominated(c.Priority)
	}
	k := Quotient(free, c.Demands)
	if k == 0 {
		return 0
	}
	if claims := c.ClaimsOn(n); claims != nil {
		//mutate: filter-claims
		if k = min(k, n.Offers.Pods(claims, min(k, mostPods))); k == 0 {
			return 0
		}
	}
	if c.Shape.HasGPU {
		//mutate: filter-devices
		if k = min(k, deviceRoom(c, n)); k == 0 {
			return 0
		}
		//mutate: filter-whole-node
		if (x.m.WholeNodeGangs > 0 || c.Whole != "") && x.sharesWith(c, n) != "" {
			return 0
		}
	}
	// Two pods of the class would ask for the same port of the host, so that there is room for one at most.
	if len(c.Shape.Spec.Ports) > 0 {
		//mutate: filter-host-port
		if n.PortTaken(c.Shape.Spec.Ports, c.Priority) != "" {
			return 0
		}
		//mutate: filter-host-port-once
		k = 1
	}
	return k
}

// ClaimsOn is what a pod of the class must be given through resource claims on the node; nil: nothing. Where the node gives
// resources by count, claims that stand for them are met by counting, and are not listed.
func (c *Class) ClaimsOn(n *cluster.Node) *api.Claims { return c.Shape.Spec.ClaimsOn(n.Spec) }

// Shut says whether the class asks for GPUs by count and the node gives them through claims alone, so that no pod of the
// class can have one there.
func (c *Class) Shut(n *cluster.Node) bool {
	return c.Shape.HasGPU && n.GPUsByClaims && c.Shape.Spec.CountsGPUs(n.Spec)
}

// mostPods bounds how many pods with claims, or with parts, are counted on a node, because they are counted one after the
// other. No node runs more.
const mostPods = 1024

// Quotient is the smallest of free/amount over the demands, rounded down, and 0 where anything is short or free is negative:
// how many pods resources hold. Without demands it is the largest number. Demands are the scarcest first, so that most nodes
// end at the first. Amounts are above 0.
func Quotient(free quantity.Vector, demands []quantity.Demand) int64 {
	k := int64(math.MaxInt64)
	for _, d := range demands {
		f := free.At(d.Dim)
		//mutate: filter-resources
		if f < d.Amount {
			return 0
		}
		// For example, 8 pods are held by GPUs and each takes 24 cores: with 200 cores free 8 * 24 = 192 fit, and nothing is
		// divided; with 64 it is 64/24 = 2.
		if !holds(f, k, d.Amount) {
			k = f / d.Amount
		}
	}
	return k
}

// holds says whether so much that is free, which is not negative, holds k times the amount. A product, of 128 bits, is cheaper
// than a division.
func holds(free, k, amount int64) bool {
	over, product := bits.Mul64(uint64(k), uint64(amount))
	return over == 0 && product <= uint64(free)
}

// deviceRoom returns how many pods of the class the node's devices hold, whatever the count of free GPUs says. It may be
// asked only for a class that asks for GPUs. Where pods hold devices and it is not known which, any device may be theirs: it
// counts what is certain. A node whose devices are not known holds any number, unless the class asks for devices of a kind
// that cannot be promised there.
//
// For example, a node has two cliques of 4 GPUs, and one pod holds 3 GPUs of which it is not known which they are. 8 - 3 = 5 GPUs are free
// wherever those are, so 5 pods of one GPU fit, or one of 4. A pod of 2 that requires one clique fits in any case too, and
// still the answer for it is 0: which GPUs it would be given is not known here.
func deviceRoom(c *Class, n *cluster.Node) int64 {
	//mutate: filter-by-claims
	if c.Shut(n) {
		return 0
	}
	//mutate: filter-parts
	if part := c.Shape.Spec.Part; part != nil {
		if n.UnknownDevices > 0 {
			return 0
		}
		return device.PartPods(c.cards(n), part, c.Wants.Model, mostPods)
	}
	if len(n.Devices) == 0 {
		if c.Wants.Model != "" && !slices.Contains(n.Models, c.Wants.Model) || c.islands() {
			return 0
		}
		return math.MaxInt64
	}
	//mutate: filter-islands
	if c.islands() {
		//mutate: filter-unknown-devices
		if n.UnknownDevices > 0 {
			return 0
		}
		return int64(device.Fits(c.devices(n), c.Wants))
	}
	//mutate: filter-named
	if c.named {
		if n.UnknownDevices > 0 {
			return 0
		}
		return int64(device.Fits(c.devices(n), c.Wants))
	}
	free := n.FreeDevices - n.UnknownDevices
	if c.Wants.Model != "" && !(n.Uniform && n.Devices[0].Model == c.Wants.Model) {
		// Of several models, whose devices are not all known, the kubelet may give any: no model is sure, and none can be charged.
		//mutate: filter-unknown-model
		if n.UnknownDevices > 0 {
			return 0
		}
		free = 0
		for i := range n.Devices {
			if d := &n.Devices[i]; d.Free && d.Model == c.Wants.Model {
				free++
			}
		}
	}
	if count := int64(c.Wants.Count); count > 1 {
		return max(0, free) / count
	}
	return max(0, free)
}

// devices are those of the node, in the same order; those that will not do for the class are marked as not free. The list is
// a copy if any could differ, and the node's own otherwise: callers must not write to it.
func (c *Class) devices(n *cluster.Node) []device.Device {
	if !c.named {
		return n.Devices
	}
	out := slices.Clone(n.Devices)
	for i := range out {
		if !c.Takes(n, i) {
			out[i].Free = false
		}
	}
	return out
}

// cards are those of the node, in the same order; those that will not do for the class are closed. Callers must not write to
// the list, as with devices.
func (c *Class) cards(n *cluster.Node) []device.Card {
	if !c.named {
		return n.Cards
	}
	out := slices.Clone(n.Cards)
	for i := range out {
		if !c.Takes(n, i) {
			out[i].Closed = true
		}
	}
	return out
}

// Takes says whether the node's i-th device will do for the class by its name and model: whether it is free is not asked.
func (c *Class) Takes(n *cluster.Node, i int) bool {
	return !c.named || c.Shape.Spec.GPU.Takes(n.Spec.Devices[i].ID, n.Devices[i].Model)
}

// lacksNamed says whether the node has fewer devices that will do for the class, by names and models, than one pod needs,
// free or not. Such a node is excluded whatever ends there. The class must name devices (named).
func (c *Class) lacksNamed(n *cluster.Node) bool {
	gpu, need := &c.Shape.Spec.GPU, int(c.Shape.GPUs)
	if part := c.Shape.Spec.Part; part != nil {
		need = part.Cards
	}
	switch {
	case n.GPUsByClaims || !c.Shape.Spec.CountsGPUs(n.Spec):
		return false // claims say which devices
	case len(n.Devices) == 0:
		return !slices.ContainsFunc(n.Models, func(m string) bool { return gpu.Takes("", m) })
	}
	for i := range n.Devices {
		if c.Takes(n, i) {
			need--
		}
	}
	return need > 0
}

// islands says whether a pod's devices must lie together, in one NVLink clique or at one NUMA node. One device always does.
func (c *Class) islands() bool {
	return c.Wants.Count > 1 && (c.Wants.Clique == device.Require || c.Wants.NUMA == device.Require)
}

// ChooseDevices picks the devices for one pod of the class, by id; nil where they are not known and the kubelet picks. Those
// of its claims come last. The node must have room for the pod (Room). Package device says which are preferred; the choice
// depends on nothing but the class and the node.
func ChooseDevices(c *Class, n *cluster.Node) []string {
	ids := chooseCounted(c, n)
	if claims := c.ClaimsOn(n); claims != nil {
		ids, _ = n.Offers.Choose(claims, ids)
	}
	return ids
}

// chooseCounted picks the devices behind the GPU count, or the cards of which the pod gets a part; nil where the pod asks for
// none, and where the kubelet picks.
func chooseCounted(c *Class, n *cluster.Node) []string {
	var buf [16]int
	if !c.Shape.HasGPU || len(n.Devices) == 0 || n.UnknownDevices > 0 {
		return nil
	}
	if part := c.Shape.Spec.Part; part != nil {
		return n.DeviceIDs(device.ChooseParts(c.cards(n), part, c.Wants.Model, buf[:0]))
	}
	chosen := device.Choose(c.devices(n), c.Wants, buf[:0])
	if len(chosen) == 0 {
		return nil
	}
	return n.DeviceIDs(chosen)
}

// WaysOfDevices lists the different choices of devices for one pod of the class, at most maxWays, and whether these are all.
// It is for searches that take choices back (place/search.go). Devices that are alike but for their names are one choice.
// apart tells them apart, as is needed where pods that may have some of them only are yet to be placed. A node whose devices
// are not known has one way, nil.
//
// For example, a pod of 2 GPUs on a node with two cliques of four like GPUs has three ways: two of the one clique, two of the
// other, and one of each. Told apart, there are 28.
func WaysOfDevices(c *Class, n *cluster.Node, apart bool) (ways [][]string, all bool) {
	if claims := c.ClaimsOn(n); claims != nil {
		more, all := n.Offers.Ways(claims, maxWays)
		counted := chooseCounted(c, n)
		for _, way := range more {
			ways = append(ways, slices.Concat(counted, way))
		}
		return ways, all && len(counted) == 0
	}
	if part := c.Shape.Spec.Part; part != nil {
		all = true
		device.EachParts(markedCards(c.cards(n), apart), part, c.Wants.Model, func(way []int) bool {
			if all = len(ways) < maxWays; all {
				ways = append(ways, n.DeviceIDs(way))
			}
			return all
		})
		return ways, all
	}
	if c.Shape.GPUs == 0 || len(n.Devices) == 0 || n.UnknownDevices > 0 {
		return [][]string{nil}, true
	}
	all = true
	device.Each(markedDevices(c.devices(n), apart), c.Wants, func(way []int) bool {
		all = len(ways) < maxWays
		if all {
			ways = append(ways, n.DeviceIDs(way))
		}
		return all
	})
	return ways, all
}

// markedDevices is the devices; with apart it is a copy in which each has a mark of its own, since devices of different marks
// are never alike.
func markedDevices(devices []device.Device, apart bool) []device.Device {
	if apart {
		devices = slices.Clone(devices)
		for i := range devices {
			devices[i].Mark = int32(i)
		}
	}
	return devices
}

// markedCards is the same for cards.
func markedCards(cards []device.Card, apart bool) []device.Card {
	if apart {
		cards = slices.Clone(cards)
		for i := range cards {
			cards[i].Mark = int32(i)
		}
	}
	return cards
}

// maxWays bounds the choices of devices that are tried on a node.
const maxWays = 64

// sharesWith names a workload for whose sake the class may not take a GPU on the node: one that has its nodes to itself or,
// if the class's own gang wants that, any other with GPUs. A workload that has a place held on the node counts as there.
// "": none. Of several it is the first by name, so that a certificate names the same one each time. It costs a look at the
// pods of the node.
func (x *Index) sharesWith(c *Class, n *cluster.Node) string {
	found := ""
	for _, p := range n.Pods {
		key := p.WorkloadKey()
		if !p.HasGPU() || c.Whole != "" && p.Gang == c.Whole {
			continue
		}
		if (c.Whole != "" || p.In != nil && p.In.Whole) && (found == "" || key < found) {
			found = key
		}
	}
	for _, h := range n.Held {
		//mutate: filter-whole-node-held
		if x.KeepsOff(h, c) && (found == "" || h.Gang < found) {
			found = h.Gang
		}
	}
	return found
}

// KeepsOff says whether the class may not take a GPU on the node where the place is held, because the workload that it is
// held for, or the class's own gang, has its nodes to itself. A hold for no workload, and one without GPUs, keeps none off.
func (x *Index) KeepsOff(h *cluster.Hold, c *Class) bool {
	if h.Gang == "" || h.Gang == c.Whole || h.Requests.Get(x.m.Config.GPU) == 0 && len(h.Cards) == 0 {
		return false
	}
	g := x.m.Gangs[h.Gang]
	return c.Whole != "" || g != nil && g.Whole
}

// Put allocates the pod, which is of the class, until rolled back.
func (x *Index) Put(p *cluster.Pod, n *cluster.Node, c *Class) { x.m.PutOn(p, n, ChooseDevices(c, n)) }

// The layout of a score: the bits of the packing, and the bound of the wish above them.
const (
	packBits = 40
	maxWish  = 1 << 20
)

// score is how good a place the node is for a pod of the class; more is better. It is compared between the nodes of one class
// only. From the top bits down it is the wish, which is what the pod itself prefers (points), cut at maxWish; one bit, whether
// its devices can lie together as it prefers; and packBits of the packing policy. So a preference of the pod always goes
// before the policy:
//
//	63       wish        41   40          39        packing        0
//	[ -maxWish..maxWish ]   [ together ]   [ 0 .. 1<<packBits - 1 ]
func (x *Index) score(c *Class, n *cluster.Node, wish int64) int64 {
	score := joined(wish, 0)
	if c.wishesIslands() && len(n.Devices) > 0 {
		strict := c.Wants
		strict.Clique, strict.NUMA = harden(strict.Clique), harden(strict.NUMA)
		if n.UnknownDevices == 0 && device.Fits(c.devices(n), strict) > 0 {
			score += 1 << packBits
		}
	}
	return score + x.packing(c, n)
}

// joined is the score with another wish in place of its own. By it wishes are weighed anew without a look at the node
// (weigh in wishes.go).
func joined(wish, score int64) int64 {
	return max(-maxWish, min(wish, maxWish))<<(packBits+1) | score&(1<<(packBits+1)-1)
}

// wishesIslands says whether the class would like its devices to lie together, and does not require
// it.
func (c *Class) wishesIslands() bool {
	return c.Shape.GPUs > 0 && (c.Wants.Clique == device.Prefer || c.Wants.NUMA == device.Prefer)
}

// harden turns a preference into a requirement, to ask whether it can be met.
func harden(w device.Wish) device.Wish {
	if w == device.Prefer {
		return device.Require
	}
	return w
}

// packing is between 0 and 1<<packBits; more is better. Where nodes differ in their policy, what tight gives is above what
// loose gives, what priced gives above both, and what fgd gives above all. Pods without GPUs go to nodes without. Under priced
// equal costs stay equal: that the first of such nodes is filled before the next is a part of the policy.
//
// For whole GPUs the values are, with free the GPUs that are free on the node, at most 2^14, and used below 2^10:
//
//	loose    free<<10 | 1023-used               from 0
//	tight    (2^15-free)<<10 | used             from 2^24
//	priced   2^35 + 2^20 - cost                 from 2^35
//	fgd      (2^29-growth)<<10 | used           from 2^37
//
// A node without GPUs gets 2^30 more, for a pod without GPUs, which is above every tight or loose node with GPUs. Of two
// nodes with 3 and 5 GPUs free tight takes the one with 3: 2^15 - 3 is more than 2^15 - 5.
//
// For parts of GPUs every policy but loose takes the card that the part fills best (device.Snugness), from 2^34.
func (x *Index) packing(c *Class, n *cluster.Node) int64 {
	//mutate: score-packing-of-queue-or-node -> x.m.Config.Packing
	policy := cmp.Or(c.Packing, n.Spec.Packing, x.m.Config.Packing)
	if part := c.Shape.Spec.Part; part != nil && policy != api.Loose {
		return 1<<34 | device.Snugness(c.cards(n), part, c.Wants.Model)<<10 | x.usedShare(c, n)
	}
	bare := !c.Shape.HasGPU && x.Kind(n).size.At(quantity.DimGPU) == 0
	base := int64(0)
	if policy == api.Priced && x.prices != nil {
		//mutate: score-priced-above-others
		base = pricedBase
		if !bare {
			return base + pricedMost - max(-pricedMost, min(x.cost(c, n), pricedMost))
		}
	}
	// A node has at most 2^14 GPUs here, and used takes the ten bits below.
	gpus := max(0, min(n.Free.At(quantity.DimGPU), 1<<14))
	used := x.usedShare(c, n)
	pack := base
	switch policy {
	case api.LeastF:
		return max(0, 1<<29-x.fragmentationGrowth(c, n))<<10 | used
	case api.Loose:
		pack += gpus<<10 | (1023 - used)
	default:
		pack += (1<<15-gpus)<<10 | used
	}
	if bare {
		pack += 1 << 30
	}
	return pack
}

// What priced gives is from pricedBase on. Costs, in coarse parts of a card, are cut at pricedMost.
const (
	pricedBase = 1 << 35
	pricedMost = 1 << 20
)

// usedShare is how much of the resources that the class asks for, GPUs and pods aside, is in use on the node, from 0 to 1023:
// the mean over these resources. It only decides between nodes that are equal in GPUs. Floating point is exact enough here,
// and the same on all machines: the operations are few and in a fixed order, and the result is a whole number.
func (x *Index) usedShare(c *Class, n *cluster.Node) int64 {
	var used float64
	parts := 0
	k := x.Kind(n)
	for _, d := range c.Demands {
		if d.Dim == quantity.DimGPU || d.Dim == quantity.DimPods || d.Dim >= len(k.size) || k.size[d.Dim] == 0 {
			continue
		}
		used += max(0, min(float64(k.size[d.Dim]-n.Free[d.Dim])*k.scale[d.Dim], 1023))
		parts++
	}
	if parts == 2 {
		used *= 0.5
	} else if parts > 2 {
		used /= float64(parts)
	}
	return int64(used)
}

// fragmentationGrowth is by how much the node's expected fragmentation would grow with one more pod of the class: the free
// GPUs that a pod of the expected workload could not use, weighted by how often it comes. 2^28 is added, so that it is never
// negative.
//
// For example, pods of 4 GPUs have weight 3 and pods of 1 GPU have weight 1. A pod of 1 GPU comes to a node with 4 free:
// before it both fit, and the sum is 0; after it 3 are free, of which pods of 4 can use none: 3 * 3 = 9. On a node with 3
// free it is 3 * 3 = 9 before and 3 * 2 = 6 after: the growth is -3, and that node is taken.
func (x *Index) fragmentationGrowth(c *Class, n *cluster.Node) int64 {
	after := append(quantity.Vector(nil), n.Free...)
	for _, d := range c.Demands {
		after.Add(d.Dim, -d.Amount)
	}
	return x.fragmentation(after) - x.fragmentation(n.Free) + 1<<28
}

// fragmentation is the sum, over the requests of the expected workload that do not fit into what is
// free, of their weight times the free GPUs. It is cut so that scores cannot overflow.
func (x *Index) fragmentation(free quantity.Vector) int64 {
	var sum int64
	gpus := max(0, free.At(quantity.DimGPU))
	for _, w := range x.workload {
		if Quotient(free, w.demands) == 0 {
			sum += w.weight * gpus
		}
	}
	return min(sum, 1<<27)
}

// expectation is a request of the expected workload (Config.Workload), with its demands by dimension.
type expectation struct {
	demands []quantity.Demand
	weight  int64
}

// expect turns the requests of the expected workload into demands by dimension. It is called once, when the index is made.
func expect(d *quantity.Dims, workload []api.Shape) []expectation {
	out := make([]expectation, len(workload))
	for i, w := range workload {
		out[i] = expectation{demands: d.Demands(w.Requests), weight: w.Weight}
	}
	return out
}
