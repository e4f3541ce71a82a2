package inventory

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/convert"
)

// Devices that several nodes reach, over a network or a fabric. Each node that reaches one offers it to the engine under the same ID, which
// gives it to one pod wherever that is. They are no GPUs of a node: a pod that has one is charged for it, and no node is larger by it.

// mostFar is how many such devices are decided about: each is offered by every node that reaches it.
const mostFar = 256

// manyFar says whether there are more than that.
func (v *Inventory) manyFar() bool { return len(v.far.Devices) > mostFar }

// HasFar says whether there are such devices.
func (v *Inventory) HasFar() bool { return len(v.far.Devices) > 0 }

// reach is which nodes reach a device.
type reach struct {
	convert.Reach
	name     string                     // equal for the same nodes
	selector *nodeaffinity.NodeSelector // nil: there is none, or none that makes sense
}

func newReach(of convert.Reach) reach {
	r := reach{Reach: of, name: of.String()}
	if r.Selector != nil {
		if s, err := nodeaffinity.NewNodeSelector(r.Selector); err == nil {
			r.selector = s
		}
	}
	return r
}

// holds says whether the node reaches the device, as upstream decides (k8s.io/dynamic-resource-allocation v0.37.1, NodeMatches).
func (r *reach) holds(n *corev1.Node) bool {
	switch {
	case r.Node != "":
		return n.Name == r.Node
	case r.All:
		return true
	}
	return r.selector != nil && r.selector.Match(n)
}

// reached is how a node sees a device that several nodes reach.
type reached struct {
	name string
	here bool // the node reaches it; else it is there for the counters that it draws on
}

// withFar adds to what the node has the devices that it reaches besides. Of a pool that has counters it adds all that draw on some: a pod
// that holds one that the node does not reach leaves less of them. Of a slice whose devices say by themselves which nodes reach
// them it adds all for which a selector fails: upstream evaluates it before it asks.
func (v *Inventory) withFar(own convert.Offered, n *corev1.Node) (convert.Offered, []reached) {
	if len(v.far.Devices) == 0 || n == nil || v.manyFar() {
		return own, nil
	}
	out := convert.Offered{Unsure: own.Unsure, Invalid: own.Invalid, Devices: own.Devices[:len(own.Devices):len(own.Devices)], Counters: own.Counters[:len(own.Counters):len(own.Counters)]}
	here, pools, from := make([]bool, len(v.far.Devices)), make(map[string]bool), make(map[string]bool)
	for i := range v.far.Devices {
		if here[i] = v.reaches[i].holds(n); here[i] {
			pools[v.far.Devices[i].Pool], from[v.far.Devices[i].Slice] = true, true
		}
	}
	fails := func(dev *convert.OfferedDevice) bool {
		_, fails, _ := v.matching(dev, false)
		return len(fails) > 0
	}
	var list []reached
	for i := range v.far.Devices {
		dev := &v.far.Devices[i]
		if (here[i] || pools[dev.Pool] && dev.Draws() || from[dev.Slice] && fails(dev)) && len(out.Devices) < engine.MaxOffers {
			out.Devices, list = append(out.Devices, *dev), append(list, reached{v.reaches[i].name, here[i]})
		}
	}
	for _, c := range v.far.Counters {
		if pools[convert.PoolOfCounter(c.Name)] {
			out.Counters = append(out.Counters, c)
		}
	}
	return out, list
}

// unsure says whether it is not known which devices the node reaches: no claim for all of them is met then.
func (v *Inventory) unsure(offered *convert.Offered, n *corev1.Node) bool {
	return slices.ContainsFunc(slices.Concat(offered.Unsure, v.far.Unsure), func(r convert.Reach) bool {
		at := newReach(r)
		return n != nil && at.holds(n)
	})
}

// Invalid are the pools of devices that contradict themselves, in no order, and a function that says whether the node reaches one of them.
func (v *Inventory) Invalid() (pools []convert.InvalidPool, reaches func(*corev1.Node) bool) {
	pools = slices.Clone(v.far.Invalid)
	//archtest:any-order the caller looks for the least
	for _, offered := range v.offered {
		pools = append(pools, offered.Invalid...)
	}
	var at []reach
	for _, p := range pools {
		for _, r := range p.Reach {
			at = append(at, newReach(r))
		}
	}
	return pools, func(n *corev1.Node) bool {
		return slices.ContainsFunc(at, func(r reach) bool { return r.holds(n) })
	}
}
