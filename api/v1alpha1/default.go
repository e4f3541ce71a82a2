package v1alpha1

import (
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Default fills what the user left out. It never changes what is there, and applying it
// twice is applying it once; empty labels and taints become nil, so that equal pools
// compare equal. Nodes stays nil where neither nodes nor nodeNames was given:
// Validate asks for it.
func Default(p *Pool) {
	p.APIVersion, p.Kind = GroupVersion.String(), "Pool"
	s := &p.Spec
	if s.Nodes == nil && s.NodeNames != nil {
		s.Nodes = new(int32(len(s.NodeNames)))
	}
	if s.Nodes == nil && (s.Launch != nil || s.Selects != nil) {
		s.Nodes = new(int32(0))
	}
	fill(&s.Role, RoleWorker)
	fill(&s.Pods, new(int32(110)))
	if len(s.Taints) == 0 {
		s.Taints = nil
	}
	if len(s.Labels) == 0 {
		s.Labels = nil
	}
	defaultMachine(s)
	defaultGPUs(s)
	defaultTopology(p.Name, &s.Topology)
	defaultBoot(&s.Boot)
	if s.Launch != nil {
		defaultLaunch(s)
	}
}

// defaultLaunch has reservations used where there are any, and nothing bought beside them that nobody asked for.
func defaultLaunch(s *PoolSpec) {
	l := s.Launch
	switch {
	case len(l.From) > 0:
	case len(s.Reservations) > 0:
		l.From = []CapacityType{CapacityReserved}
	default:
		l.From = []CapacityType{CapacityOnDemand}
	}
	if len(l.Zones) == 0 && s.Topology.Zone != "" {
		l.Zones = []string{s.Topology.Zone}
	}
	if l.Static == nil {
		fill(&l.Min, new(int32(0)))
		fill(&l.Max, new(int32(1000)))
		fill(&l.Headroom, new(int32(0)))
	}
	fill(&l.Consolidation, ConsolidateWhenEmpty)
	fill(&l.ConsolidateAfter, &metav1.Duration{Duration: 10 * time.Minute})
	fill(&l.DrainBefore, &metav1.Duration{Duration: 45 * time.Minute})
	fill(&l.ReadyWithin, &metav1.Duration{Duration: 20 * time.Minute})
}

// defaultMachine sizes a node by its GPUs, about as cloud machines are sized.
func defaultMachine(s *PoolSpec) {
	gpus := int64(0)
	for _, g := range s.GPUs {
		gpus += int64(g.Count)
	}
	cpu, memory := int64(16), int64(64)<<30
	if gpus > 0 {
		cpu, memory = 16*gpus, gpus*128<<30
	}
	fill(&s.CPU, resource.NewQuantity(cpu, resource.DecimalSI))
	fill(&s.Memory, resource.NewQuantity(memory, resource.BinarySI))
	fill(&s.EphemeralStorage, resource.NewQuantity(1<<40, resource.BinarySI))
}

func defaultGPUs(s *PoolSpec) {
	if len(s.GPUs) == 0 {
		fill(&s.GPUStack, GPUStackNone)
		return
	}
	fill(&s.NVLink, NVLinkAuto)
	fill(&s.Advertise, AdvertiseDevicePlugin)
	fill(&s.GPUStack, GPUStackOperator)
	defaultDriver(&s.Driver)
	switch {
	case s.MIG == (MIG{}):
	case s.Advertise == AdvertiseDRA:
		fill(&s.MIG.Strategy, MIGStrategyDynamic)
	case s.MIG.Strategy != MIGStrategyDynamic:
		fill(&s.MIG.Strategy, MIGStrategySingle)
		fill(&s.MIG.Config, "all-disabled")
	}
}

func defaultTopology(pool string, t *Topology) {
	if t.NodesPerBlock != nil {
		fill(&t.Block, pool+"-block")
	}
	if t.NodesPerRack != nil {
		fill(&t.Rack, pool+"-rack")
	}
	if t.NodesPerClique != nil {
		fill(&t.Clique, pool)
	}
}

// defaultBoot is a cloud GPU machine on a good day: some five minutes from launch to GPUs,
// most of it spent in the driver.
func defaultBoot(b *Boot) {
	fill(&b.Register, &metav1.Duration{Duration: 90 * time.Second})
	fill(&b.Ready, &metav1.Duration{Duration: 25 * time.Second})
	fill(&b.Driver, &metav1.Duration{Duration: 3 * time.Minute})
	fill(&b.DevicePlugin, &metav1.Duration{Duration: 20 * time.Second})
	fill(&b.ImagePull, &metav1.Duration{Duration: 15 * time.Second})
}

// fill sets *field if it has its zero value.
func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
