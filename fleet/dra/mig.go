package dra

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/fleet/gpu"
)

// cuttable says whether claims cut the GPU: the driver offers every instance that MIG could make of it as a device by
// itself. What keeps two that overlap apart are the counters on which all devices of the GPU draw.
func (m Machine) cuttable(d gpu.Device) bool { return m.Dynamic && len(d.Model.Profiles()) > 0 }

// offered are the devices of one GPU, in order of name: the GPU itself and the parts that could be made of it. Of a GPU
// that needs a reset to leave MIG mode, as all before Hopper, the parts alone are offered.
func (m Machine) offered(d gpu.Device) []gpu.Device {
	if !m.cuttable(d) {
		return []gpu.Device{d}
	}
	var out []gpu.Device
	if !d.Model.MIGNeedsReset() {
		out = append(out, d)
	}
	for _, p := range d.Model.Profiles() {
		for _, start := range p.Starts {
			part := d
			part.MIG = &gpu.Instance{Profile: p, Start: start, Compute: true}
			out = append(out, part)
		}
	}
	slices.SortFunc(out, func(a, b gpu.Device) int { return cmp.Compare(Name(a), Name(b)) })
	return out
}

// partName is the name of a MIG device: its GPU, its profile by name and number, and the first of its memory slots.
func partName(d gpu.Device) string {
	profile := strings.NewReplacer(".", "", "+", "-").Replace(d.MIG.Profile.Name)
	return fmt.Sprintf("gpu-%d-mig-%s-%d-%d", d.Index, profile, d.MIG.Profile.ID, d.MIG.Start)
}

// part is a device that is cut out of its GPU when a claim that has it is prepared. It has no UUID before that.
func (m Machine) part(d gpu.Device) resourcev1.Device {
	a := m.attributes(d)
	a["type"], a["parentUUID"], a["profile"] = text("mig"), text(d.UUID), text(d.MIG.Profile.Name)
	c := capacityOf(d.MIG.Profile)
	return resourcev1.Device{Name: Name(d), Attributes: a, Capacity: c, ConsumesCounters: draws(d, c, d.MIG.Start, d.MIG.Profile.Size)}
}

// capacityOf is what an instance of the profile has.
func capacityOf(p gpu.Profile) capacities {
	out := capacities{}
	for name, n := range map[resourcev1.QualifiedName]int{
		"multiprocessors": p.SMs, "copyEngines": p.Engines.Copy, "decoders": p.Engines.Decoder, "encoders": p.Engines.Encoder,
		"jpegEngines": p.Engines.JPEG, "ofaEngines": p.Engines.OFA, "memory": p.MemoryMiB << 20,
	} {
		out[name] = resourcev1.DeviceCapacity{Value: *resource.NewQuantity(int64(n), resource.BinarySI)}
	}
	return out
}

// largest is what the GPU has of each kind: the most that one of its profiles has, or as many instances of it as there can be.
// The latter is more only where the table of profiles has less of the whole GPU than of its parts together.
func largest(m gpu.Model) capacities {
	out := capacities{}
	for _, p := range m.Profiles() {
		for name, c := range capacityOf(p) {
			c.Value.Set(c.Value.Value() * int64(p.Max))
			if have, known := out[name]; !known || have.Value.Cmp(c.Value) < 0 {
				out[name] = c
			}
		}
	}
	return out
}

// counters are what devices of one GPU draw on: a counter for each kind of capacity, and one for each memory slot.
func counters(c capacities, start, size int) map[string]resourcev1.Counter {
	out := map[string]resourcev1.Counter{}
	for name, value := range c {
		out[counterName(name)] = resourcev1.Counter{Value: value.Value}
	}
	for i := start; i < start+size; i++ {
		out[fmt.Sprintf("memory-slice-%d", i)] = resourcev1.Counter{Value: *resource.NewQuantity(1, resource.BinarySI)}
	}
	return out
}

// counterName is a capacity as counters are named, without capitals: copyEngines is copy-engines.
func counterName(capacity resourcev1.QualifiedName) string {
	var out strings.Builder
	for _, r := range string(capacity) {
		if r >= 'A' && r <= 'Z' {
			out.WriteByte('-')
			r += 'a' - 'A'
		}
		out.WriteRune(r)
	}
	return out.String()
}

func counterSet(d gpu.Device) string { return fmt.Sprintf("gpu-%d-counter-set", d.Index) }

func draws(d gpu.Device, c capacities, start, size int) []resourcev1.DeviceCounterConsumption {
	return []resourcev1.DeviceCounterConsumption{{CounterSet: counterSet(d), Counters: counters(c, start, size)}}
}

// shared is the counters of a GPU, all of which the whole GPU draws.
func shared(d gpu.Device) resourcev1.CounterSet {
	return resourcev1.CounterSet{Name: counterSet(d), Counters: counters(largest(d.Model), 0, d.Model.Slots())}
}
