package inventory

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/convert"
)

// Taken is what claims of which no pod is on a node have of devices, by device: the whole, or shares.
type Taken map[string][]string

// Offer adds to the node what its devices are, and those that it reaches besides. own and far are what is taken of either.
func (v *Inventory) Offer(n *engine.Node, object *corev1.Node, own, far Taken) {
	if v.selects == nil {
		return
	}
	offered := v.offered[n.Name]
	local := len(offered.Devices)
	offered, reached := v.withFar(offered, object)
	if len(offered.Devices) == 0 {
		return
	}
	attributes, gpus, cards := sorted(v.attributes), int64(0), false
	n.Counters = offered.Counters
	unsure := v.unsure(&offered, object)
	for _, i := range upstreamOrder(&offered) {
		dev := &offered.Devices[i]
		isFar := i >= local
		matches, fails, blocks := v.matching(dev, unsure)
		if dev.TakesOfNode() || dev.Skips && !convert.MaySkipOperations(object) {
			matches, blocks = keptFrom(matches, blocks)
		}
		if isFar && !reached[i-local].here { // it is not offered; its holder draws on its counters all the same, and selectors see it
			matches, blocks = nil, nil
		}
		o := dev.Offer(matches, fails, blocks, attributes, v.derive(dev))
		of := own[o.ID]
		if isFar {
			of, o.Reach = far[o.ID], reached[i-local].name
		}
		for _, text := range of {
			if o.Taken = o.Taken || text == o.ID || !o.Shared; text != o.ID && o.Shared {
				o.Held = append(o.Held, text)
			}
		}
		n.Offers = append(n.Offers, o)
		if !isFar && dev.WholeGPU() {
			gpus++
		}
		cards = cards || !isFar && dev.OfGPUs()
	}
	// A device plugin beside a driver of GPUs counts the same cards: to give one of them to a pod of each kind is what must not happen. A card
	// that several nodes reach is none of those that the plugin counts.
	if cards {
		n.ByClaims = append(n.ByClaims, v.gpu)
	}
	if gpus > 0 {
		n.Allocatable = convert.Plus(n.Allocatable, v.gpu, gpus)
	}
	for _, resource := range sorted(v.resources) {
		if count := v.matched(n, resource); count > 0 && n.Allocatable.Get(resource) == 0 {
			n.Allocatable = convert.Plus(n.Allocatable, resource, count)
			n.ByClaims = append(n.ByClaims, resource)
		}
	}
	slices.Sort(n.ByClaims)
}

// keptFrom is what a device that the node cannot have is to selections: it matches none, and blocks those that want all devices.
func keptFrom(matches []convert.Selection, blocks []string) ([]convert.Selection, []string) {
	for i := range matches {
		if matches[i].All {
			blocks = append(blocks, matches[i].Name)
		}
	}
	slices.Sort(blocks)
	return nil, blocks
}

// upstreamOrder is the order in which upstream's allocator tries the devices of a node: by driver and pool, those last whose devices have to be
// attached.
func upstreamOrder(offered *convert.Offered) []int {
	attaches := make(map[string]bool)
	out := make([]int, len(offered.Devices))
	for i := range offered.Devices {
		out[i] = i
		if offered.Devices[i].BindingConditions != nil {
			attaches[offered.Devices[i].Pool] = true
		}
	}
	slices.SortStableFunc(out, func(a, b int) int {
		x, y := &offered.Devices[a], &offered.Devices[b]
		if attaches[x.Pool] != attaches[y.Pool] {
			if attaches[x.Pool] {
				return 1
			}
			return -1
		}
		return cmp.Or(strings.Compare(x.Driver, y.Driver), strings.Compare(x.Pool, y.Pool))
	})
	return out
}

// matched counts the node's devices that a resource is had from. Of parts of a card it is more than can be had at once, which the
// choice of devices sees to.
func (v *Inventory) matched(n *engine.Node, resource string) (count int64) {
	selection := v.resources[resource]
	for i := range n.Offers {
		if n.Offers[i].Matches(selection.Name) {
			count++
		}
	}
	return count
}
