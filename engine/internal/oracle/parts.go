package oracle

import (
	"fmt"
	"slices"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
)

// hasGPU says whether the pod asks for GPUs or for parts of some.
func (w *world) hasGPU(p engine.Pod) bool { return p.Part != nil || amount(p.Requests, w.gpu) > 0 }

// partRequest is what is asked for of a card.
func partRequest(p *engine.Part) (out []engine.Amount) {
	for _, a := range []engine.Amount{{Resource: why.CardCompute, Value: p.Compute}, {Resource: why.CardMemory, Value: p.Memory}, {Resource: why.CardShare, Value: p.Share}} {
		if a.Value > 0 {
			out = append(out, a)
		}
	}
	if p.Cards > 1 {
		out = append(out, engine.Amount{Resource: why.Cards, Value: int64(p.Cards)})
	}
	return out
}

// parts is every way to have the pod's parts on the node, each card once and alike cards being one.
func (w *world) parts(p engine.Pod, n engine.Node, model string) (ways [][]string) {
	if w.silent(n) > 0 {
		return nil
	}
	fit := filter(n.Devices, func(d engine.Device) bool { return w.lack(p, n, d, model) == "" })
	seen := map[string]bool{}
	for set := range 1 << len(fit) {
		var way, kinds []string
		for i, d := range fit {
			if set&(1<<i) != 0 {
				way, kinds = append(way, d.ID), append(kinds, w.cardKind(n, d))
			}
		}
		slices.Sort(kinds)
		if kind := fmt.Sprint(kinds); len(way) == p.Part.Cards && !seen[kind] {
			seen[kind] = true
			ways = append(ways, way)
		}
	}
	return ways
}

// cardKind is the same for cards of which as much is left, for the same pods.
func (w *world) cardKind(n engine.Node, d engine.Device) string {
	var memory, compute int64
	sharers := filter(w.on(n, d), func(q engine.Pod) bool { return q.Part != nil })
	for _, q := range sharers {
		memory, compute = memory+taken(q.Part, d), compute+q.Part.Compute
	}
	return fmt.Sprint(d.Model, d.Memory, d.Parts, memory, compute, len(sharers), w.named(d))
}

// lack is what the card lacks for a part of the pod; "": nothing.
func (w *world) lack(p engine.Pod, n engine.Node, d engine.Device, model string) string {
	whole := some(w.on(n, d), func(q engine.Pod) bool { return q.Part == nil })
	if whole || d.Unhealthy || d.Parts == 0 || !p.GPU.Takes(d.ID, d.Model) || len(p.GPU.Models) > 0 && d.Model != model {
		return "whole"
	}
	var memory, compute int64
	sharers := w.on(n, d)
	for _, q := range sharers {
		memory += taken(q.Part, d)
		compute += q.Part.Compute
	}
	switch {
	case memory+taken(p.Part, d) > d.Memory:
		return "memory"
	case compute >= 1000, compute+p.Part.Compute > 1000, p.Part.Compute == 1000 && len(sharers) > 0:
		return "compute"
	case len(sharers)+1 > d.Parts:
		return "pods"
	}
	return ""
}

// on lists the pods that have the device, or a part of it.
func (w *world) on(n engine.Node, d engine.Device) []engine.Pod {
	return filter(w.Pods, func(q engine.Pod) bool {
		return w.at[q.Key].node == n.Name && slices.Contains(w.at[q.Key].devices, d.ID)
	})
}

// taken is how much of the card's memory the part takes.
func taken(p *engine.Part, d engine.Device) int64 {
	if p.Memory > 0 {
		return p.Memory
	}
	return d.Memory * p.Share / 1000
}

// withoutParts is the world in which no pod has a part of a card that is given in parts. What is not known stays so.
func (w *world) withoutParts() *world {
	out := *w
	out.Pods, out.at = nil, map[string]spot{}
	for _, q := range w.Pods {
		at, placed := w.at[q.Key]
		if placed && q.Part != nil {
			shared := names(filter(w.node[at.node].Devices, func(d engine.Device) bool { return d.Parts > 0 && slices.Contains(at.devices, d.ID) }))
			part := *q.Part
			part.Cards -= len(shared)
			if q.Part, at.devices = &part, filter(at.devices, func(id string) bool { return !slices.Contains(shared, id) }); part.Cards <= 0 {
				continue
			}
		}
		out.Pods = append(out.Pods, q)
		if placed {
			out.at[q.Key] = at
		}
	}
	return &out
}

// partShort is what of the node's cards keeps the pod off it at the moment; "": nothing.
func (a *audit) partShort(n engine.Node) string {
	p := a.pod
	if p.Part == nil || claimed(p, n) || a.w.claimsOnly(n) || a.w.lacksNamed(p, n) || !some(n.Devices, func(d engine.Device) bool { return d.Parts > 0 }) || len(a.w.parts(p, n, a.cert.Model)) > 0 {
		return ""
	}
	if a.w.silent(n) > 0 {
		return why.UnknownCards
	}
	order, best := []string{"whole", "memory", "compute", "pods"}, -1
	for _, d := range n.Devices {
		healthy := d
		healthy.Unhealthy = false
		if (&world{}).lack(p, n, healthy, a.cert.Model) == "" {
			best = max(best, slices.Index(order, a.w.lack(p, n, d, a.cert.Model)))
		}
	}
	if best < 0 {
		return why.SmallCards
	}
	return order[best]
}

// partSupply is what the node has for the pod's part: of its largest card, and cards in all.
func (a *audit) partSupply(n engine.Node) (out []engine.Amount) {
	p := a.pod.Part
	if p == nil {
		return nil
	}
	cards := filter(n.Devices, func(d engine.Device) bool {
		return d.Parts > 0 && (len(a.pod.GPU.Models) == 0 || d.Model == a.cert.Model)
	})
	if len(cards) == 0 {
		return nil
	}
	largest := slices.MaxFunc(cards, func(x, y engine.Device) int { return int(x.Memory - y.Memory) }).Memory
	return partAmounts(p, 1000, largest, int64(len(cards)))
}

// partAmounts names what is asked for of a card, with these values in place of what is asked.
func partAmounts(p *engine.Part, share, memory, cards int64) (out []engine.Amount) {
	for _, a := range []struct {
		asked, value int64
		name         string
	}{
		{p.Compute, share, why.CardCompute}, {p.Memory, memory, why.CardMemory}, {p.Share, share, why.CardShare}, {int64(p.Cards) - 1, cards, why.Cards},
	} {
		if a.asked > 0 {
			out = append(out, engine.Amount{Resource: a.name, Value: a.value})
		}
	}
	return out
}

// partSets is how many pods with such parts the node's cards hold when no other pod is there and all are healthy.
func (a *audit) partSets(n engine.Node) int64 {
	empty := *a.w
	empty.Pods, empty.at = nil, map[string]spot{}
	n.Devices = slices.Clone(n.Devices)
	for i := range n.Devices {
		n.Devices[i].Unhealthy = false
	}
	return empty.mostParts(nameless(a.pod), n, a.cert.Model)
}

func (w *world) mostParts(p engine.Pod, n engine.Node, model string) (most int64) {
	p.Key += "'"
	for _, way := range w.parts(p, n, model) {
		w.Pods = append(w.Pods, p)
		w.at[p.Key] = spot{n.Name, way}
		most = max(most, 1+w.mostParts(p, n, model))
		delete(w.at, p.Key)
		w.Pods = w.Pods[:len(w.Pods)-1]
	}
	return most
}
