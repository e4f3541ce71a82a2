package doctor_test

import (
	"fmt"
	"math"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/diagnose/doctor"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/engine"
)

// tally is the formulas of docs/doctor.md by hand: U = sum g / G, fragmentation = 1 - sum g / G of the nodes in use.
type tally struct{ g, all, inUse, free, best int64 }

func (s *tally) add(gpus, held int64, open bool) {
	s.g, s.all = s.g+held, s.all+gpus
	if held > 0 {
		s.inUse += max(gpus, held)
	}
	if open && gpus > held {
		s.free += gpus - held
		s.best = max(s.best, gpus-held)
	}
}

func (s *tally) check(t *rapid.T, what string, u doctor.Usage) {
	if u.GPUs != s.all || u.Allocated != s.g || u.InUse != s.inUse {
		t.Fatalf("%s: %+v, and by hand %+v", what, u, *s)
	}
	near := func(got float64, above, below int64, from float64) bool {
		want := 0.0
		if below > 0 {
			want = math.Abs(from - float64(above)/float64(below))
		}
		return math.Abs(got-want) < 0.0001
	}
	if !near(u.Utilisation, s.g, s.all, 0) || s.inUse > 0 && !near(u.Fragmentation, s.g, s.inUse, 1) {
		t.Fatalf("%s: U %v and fragmentation %v, by hand %+v", what, u.Utilisation, u.Fragmentation, *s)
	}
}

// largest checks the most that a job could get on one node, and in the cluster over all models together.
func (s *tally) largest(t *rapid.T, what string, all []engine.Largest) {
	var best, free int64
	for _, l := range all {
		switch l.Level {
		case engine.NodeLevel:
			best = max(best, l.GPUs)
		case "":
			free += l.GPUs
		}
	}
	if best != s.best || free != s.free {
		t.Fatalf("%s: largest on a node %d, in the cluster %d; by hand %d and %d: %+v", what, best, free, s.best, s.free, all)
	}
}

// TestCountsByHand counts the GPUs of drawn clusters again from their nodes and pods.
func TestCountsByHand(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		for _, n := range w.Nodes {
			n.Spec.Unschedulable = rapid.IntRange(0, 4).Draw(t, "cordoned") == 0
		}
		for _, k := range w.checkup("utilisation").GPUs {
			var all tally
			name := corev1.ResourceName(k.Resource)
			for _, n := range w.Nodes {
				if c := n.Status.Capacity[name]; c.IsZero() {
					continue
				}
				gpus, held := n.Status.Allocatable[name], int64(0)
				for _, p := range w.Pods {
					if p.Spec.NodeName == n.Name && !facts.Ended(p) {
						for _, c := range p.Spec.Containers {
							q := c.Resources.Limits[name]
							held += q.Value()
						}
					}
				}
				all.add(gpus.Value(), held, !n.Spec.Unschedulable)
			}
			all.check(t, k.Resource, k.All)
			all.largest(t, k.Resource, k.Largest)
		}
	})
}

// TestClaimedGPUsAreCounted has GPUs, whole and in parts, in ResourceSlices and allocated to claims.
func TestClaimedGPUsAreCounted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const driver = "gpu.nvidia.com"
		text := func(s string) resourcev1.DeviceAttribute { return resourcev1.DeviceAttribute{StringValue: &s} }
		w := &world{Facts: &facts.Facts{At: now, Kubernetes: "v1.37.1"}}
		all := &tally{}
		models := make(map[string]*tally)
		for i := range rapid.IntRange(1, 5).Draw(t, "nodes") {
			name := fmt.Sprint("n", i)
			n := node(name, nil, nil)
			n.Spec.Unschedulable = rapid.IntRange(0, 4).Draw(t, "cordoned") == 0
			w.Nodes = append(w.Nodes, n)
			product := rapid.SampledFrom([]string{"NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-40GB"}).Draw(t, "product")
			s := &resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{Driver: driver, NodeName: &name, Pool: resourcev1.ResourcePool{Name: name, Generation: 2, ResourceSliceCount: 1}}}
			s.Name = name
			old := s.DeepCopy()
			old.Name, old.Spec.Pool.Generation = name+"-old", 1
			old.Spec.Devices = []resourcev1.Device{{Name: "gpu-99", Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"type": text("gpu")}}}
			gpus, held := int64(rapid.IntRange(1, 8).Draw(t, "GPUs")), int64(0)
			usable := gpus
			for g := range gpus {
				whole := resourcev1.Device{Name: fmt.Sprint("gpu-", g), Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"type": text("gpu"), "productName": text(product)}}
				allocated := []string{}
				switch rapid.IntRange(0, 4).Draw(t, "use") {
				case 0:
					allocated = []string{whole.Name}
				case 1: // two parts of it, for two claims, are one GPU
					counters := []resourcev1.DeviceCounterConsumption{{CounterSet: fmt.Sprint("set-", g)}}
					whole.ConsumesCounters = counters
					for part := range 3 {
						s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{Name: fmt.Sprintf("gpu-%d-mig-%d", g, part), Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"type": text("mig")}, ConsumesCounters: counters})
					}
					allocated = []string{fmt.Sprintf("gpu-%d-mig-0", g), fmt.Sprintf("gpu-%d-mig-2", g)}
				case 2:
					whole.Taints = []resourcev1.DeviceTaint{{Key: "xid", Effect: resourcev1.DeviceTaintEffectNoSchedule}}
					usable--
				}
				s.Spec.Devices = append(s.Spec.Devices, whole)
				if len(allocated) > 0 {
					held++
				}
				for _, device := range allocated {
					c := &resourcev1.ResourceClaim{}
					c.Namespace, c.Name = "a", name+"-"+device
					c.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{{Request: "r", Driver: driver, Pool: name, Device: device}}}}
					w.ResourceClaims = append(w.ResourceClaims, c)
				}
			}
			w.ResourceSlices = append(w.ResourceSlices, old, s)
			if models[product] == nil {
				models[product] = &tally{}
			}
			all.add(usable, held, !n.Spec.Unschedulable)
			models[product].add(usable, held, !n.Spec.Unschedulable)
		}
		w.shuffle(t)
		got := w.checkup("utilisation").GPUs
		if len(got) != 1 || got[0].Resource != driver {
			t.Fatalf("%+v", got)
		}
		all.check(t, "all", got[0].All)
		all.largest(t, "all", got[0].Largest)
		for _, m := range got[0].Models {
			models[m.Model].check(t, m.Model, m)
		}
	})
}
