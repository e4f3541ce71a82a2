package fleet

import (
	"fmt"
	"strings"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/fleet/device"
	"github.com/berth-dev/berth/fleet/gpu"
)

// hardware is what is inside a wanted node: all that fleet/device needs to know of it.
func hardware(w want) device.Config {
	s := &w.pool.Spec
	return device.Config{
		Devices:    gpu.Devices(w.name(), gpuGroups(s)),
		Driver:     gpu.Driver{Version: s.Driver.Version, CUDA: s.Driver.CUDA},
		HostDriver: s.Driver.Preinstalled,
		Advertise:  string(s.Advertise),
		DynamicMIG: cutByClaims(s),
		Shares:     s.Sharing == v1alpha1.SharingHAMi && s.Advertise == v1alpha1.AdvertiseDRA,
		Parts:      agentParts(s),
		Clique:     w.pool.NodeClique(w.index),
		Machine:    instanceType(s),
	}
}

// hardwareID changes exactly when the machine would have to be another one: a running machine
// cannot swap its GPUs or its driver under the pods that hold them. CPU, memory, labels and the
// pool's name can change under it.
func hardwareID(pool *v1alpha1.Pool, i int) string {
	var text strings.Builder
	for _, g := range gpuGroups(&pool.Spec) {
		fmt.Fprintf(&text, "%s %d %d %t,", g.Model.Name, g.Count, g.MemoryMiB, g.NVLink)
	}
	d := pool.Spec.Driver
	fmt.Fprintf(&text, "%s %s %t %s %s", d.Version, d.CUDA, d.Preinstalled, pool.Spec.Advertise, pool.NodeClique(i))
	if cutByClaims(&pool.Spec) {
		text.WriteString(" dynamic")
	}
	if s := pool.Spec.Sharing; s != "" {
		text.WriteString(" " + string(s))
	}
	return fmt.Sprintf("%x", fingerprint("hardware", text.String()))[:12]
}

// agentParts is how many pods the agent of Berth's own gives parts of one GPU: as many as HAMi does, unless there is none.
func agentParts(s *v1alpha1.PoolSpec) int {
	if s.Sharing != v1alpha1.SharingBerth {
		return 0
	}
	return device.HAMiSplit
}

// cutByClaims says whether claims cut the pool's GPUs by MIG.
func cutByClaims(s *v1alpha1.PoolSpec) bool { return s.MIG.Strategy == v1alpha1.MIGStrategyDynamic }

// gpuGroups turns the pool's GPUs into groups that share NVLink.
func gpuGroups(s *v1alpha1.PoolSpec) []gpu.Group {
	var groups []gpu.Group
	for _, g := range s.GPUs {
		group := gpu.Group{Model: modelOf(g), Count: int(g.Count), NVLink: s.NVLink != v1alpha1.NVLinkNone}
		if g.Memory != nil {
			group.MemoryMiB = int(g.Memory.Value() >> 20)
		}
		if s.NVLink != v1alpha1.NVLinkPairs {
			groups = append(groups, group)
			continue
		}
		for left := group.Count; left > 0; left -= 2 {
			group.Count = min(left, 2)
			groups = append(groups, group)
		}
	}
	return groups
}

// modelOf falls back to the bare name: a Pool may have a model that Berth does not know, and
// then gives its memory.
func modelOf(g v1alpha1.GPU) gpu.Model {
	if m, ok := gpu.Lookup(g.Model); ok {
		return m
	}
	return gpu.Model{Name: g.Model, Product: g.Model}
}

// instanceType names the machine for node.kubernetes.io/instance-type: "sim.8x-h100-sxm5-80gb",
// "sim.16cpu". Mixed models are joined, as far as a label value has room.
func instanceType(s *v1alpha1.PoolSpec) string {
	if len(s.GPUs) == 0 {
		return fmt.Sprintf("sim.%dcpu", s.CPU.Value())
	}
	var parts []string
	for _, g := range s.GPUs {
		parts = append(parts, fmt.Sprintf("%dx-%s", g.Count, strings.ReplaceAll(strings.ToLower(modelOf(g).Name), " ", "-")))
	}
	name := "sim." + strings.Join(parts, ".")
	return strings.TrimRight(name[:min(len(name), 63)], "-._")
}
