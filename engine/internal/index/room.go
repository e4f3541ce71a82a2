package index

import (
	"cmp"
	"math"
	"slices"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/device"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// Room returns how many pods of the class the free resources, devices and ports of the node hold at
// once, as if no other pods came. It is the least of what each of them holds, since each pod takes
// of all. The cheapest come first, and 0 ends it.
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
	// Two pods of the class would ask for the same host port.
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

// ClaimsOn are what has to be met with devices of the node, nil for nothing: where it gives resources by count, claims that
// stand for them are met by counting.
func (c *Class) ClaimsOn(n *cluster.Node) *api.Claims { return c.Shape.Spec.ClaimsOn(n.Spec) }

// Shut says whether GPUs of the class are had by count, and those of the node through claims alone.
func (c *Class) Shut(n *cluster.Node) bool {
	return c.Shape.HasGPU && n.GPUsByClaims && c.Shape.Spec.CountsGPUs(n.Spec)
}

// mostPods is how many pods with claims are counted on a node, which is done one after the other. No node has room for more.
const mostPods = 1024

// Quotient is the smallest of free/amount over the demands, rounded down, 0 where anything is
// short: how many pods resources hold. Demands are the scarcest first, so that most nodes end at
// the first. Amounts are above 0.
func Quotient(free quantity.Vector, demands []quantity.Demand) int64 {
	k := int64(math.MaxInt64)
	for i, d := range demands {
		f := free.At(d.Dim)
		//mutate: filter-resources
		if f < d.Amount {
			return 0
		}
		// A product is cheaper than a division, and rarely overflows: amounts are bounded. It says whether this resource
		// holds fewer than the k pods so far. For example, 8 pods are held by GPUs and each takes 24 cores: with 200 cores
		// free 8 * 24 = 192 fit, and nothing is divided; with 64 it is 64/24 = 2.
		if i == 0 || k > api.MaxAmount/d.Amount || f < k*d.Amount {
			k = min(k, f/d.Amount)
		}
	}
	return k
}

// deviceRoom returns how many pods the node's devices hold, GPU counts aside. Where pods hold
// devices and do not say which, any device may be theirs: it counts what is certain. A node whose
// devices are not known holds any number, as far as they go.
//
// For example, a node has two cliques of 4 GPUs, and one pod holds 3 GPUs that nobody has named. 8 - 3 = 5 GPUs are free
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

// devices are those of the node, of which the ones that will not do for the class are not free. The
// list is a copy if any could differ, and the node's own else: nobody writes to it.
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

// cards are those of the node, of which the ones that will not do for the class are closed.
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

// Takes says whether the node's device with this index will do for the class, all but its name and model aside.
func (c *Class) Takes(n *cluster.Node, i int) bool {
	return !c.named || c.Shape.Spec.GPU.Takes(n.Spec.Devices[i].ID, n.Devices[i].Model)
}

// lacksNamed says whether the node has fewer devices that will do for the class, by names and models, than one pod needs.
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

// islands says whether a pod's devices must lie together. One device always does.
func (c *Class) islands() bool {
	return c.Wants.Count > 1 && (c.Wants.Clique == device.Require || c.Wants.NUMA == device.Require)
}

// ChooseDevices picks the devices for one pod of the class, nil where they are not known. Those of
// its claims come last. The node has room for the pod. Package device says which it prefers; the
// choice depends on nothing but the node.
func ChooseDevices(c *Class, n *cluster.Node) []string {
	ids := chooseCounted(c, n)
	if claims := c.ClaimsOn(n); claims != nil {
		ids, _ = n.Offers.Choose(claims, ids)
	}
	return ids
}

// chooseCounted picks the devices behind the GPU count; nil where the kubelet picks.
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

// WaysOfDevices lists the different choices of devices for one pod of the class, and whether these
// are all. Devices that are alike but for their names are one choice, unless told apart, as they
// must be where others are yet to be placed that may have some of them only. It is for searches
// that take choices back; there are at most maxWays.
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

// markedDevices is the devices, with apart each with a mark of its own: devices of different marks
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

// sharesWith names a workload for whose sake the class may not take a GPU here: one that wants its
// nodes whole, or any other, if the class itself does. Who has a place held here counts as here.
// "": none. Of several it is the first by name, so that a certificate names the same one each time.
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

// KeepsOff says whether the class may not take a GPU where the place is held.
func (x *Index) KeepsOff(h *cluster.Hold, c *Class) bool {
	if h.Gang == "" || h.Gang == c.Whole || h.Requests.Get(x.m.Config.GPU) == 0 && len(h.Cards) == 0 {
		return false
	}
	g := x.m.Gangs[h.Gang]
	return c.Whole != "" || g != nil && g.Whole
}

// Put allocates the pod, which is of the class, until rolled back.
func (x *Index) Put(p *cluster.Pod, n *cluster.Node, c *Class) { x.m.PutOn(p, n, ChooseDevices(c, n)) }

// A score is, from its highest bits: what the pod itself prefers, whether its devices can lie together as
// it would like, and the policy's packing.
const (
	packBits = 40
	maxWish  = 1 << 20
)

// score is how good a place the node is for a pod of the class; more is better. It is compared
// between the nodes of one class only. From the top bits down: the wish, one bit for devices that
// lie together, packBits of packing.
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

// joined is the score with another wish in place of its own. It is how wishes are weighed anew
// without a look at the node.
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

// What priced gives is from pricedBase on, and costs are cut at pricedMost parts of a card.
const (
	pricedBase = 1 << 35
	pricedMost = 1 << 20
)

// usedShare is how much of the resources that the class asks for, GPUs and pods aside, is in use,
// from 0 to 1023: the mean over these resources. It only decides between nodes that are equal in
// GPUs.
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

// fragmentationGrowth is by how much the node's expected fragmentation would grow with one more pod
// of the class: the free GPUs that a pod of the expected workload could not use, weighted by how
// often it comes. It is shifted so that less is never negative.
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

// expectation is a Shape with its demands by dimension.
type expectation struct {
	demands []quantity.Demand
	weight  int64
}

// expect turns the shapes of the workload that is expected into demands.
func expect(d *quantity.Dims, workload []api.Shape) []expectation {
	out := make([]expectation, len(workload))
	for i, w := range workload {
		out[i] = expectation{demands: d.Demands(w.Requests), weight: w.Weight}
	}
	return out
}
