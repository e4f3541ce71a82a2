package dra

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	resourcev1 "k8s.io/api/resource/v1"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/fleet/gpu"
)

// cutting is a machine whose claims cut what can be cut: of a GPU without MIG and of one whose mode needs a reset too.
func cutting(t *testing.T) Machine {
	m := workstation(t)
	m.Dynamic = true
	m.GPUs = gpu.Devices("alice", []gpu.Group{{Model: model(t, "h100"), Count: 1}, {Model: model(t, "a30"), Count: 1}, {Model: model(t, "l4"), Count: 1}})
	return m
}

func TestSlicesOfParts(t *testing.T) {
	var all []byte
	for _, s := range cutting(t).Slices(owner()) {
		text, err := yaml.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		all = append(append(all, "---\n"...), text...)
	}
	golden(t, "parts.yaml", all)
}

// A machine without a GPU that could be cut says what it would say anyway.
func TestNothingToCut(t *testing.T) {
	m := workstation(t)
	m.GPUs = gpu.Devices("alice", []gpu.Group{{Model: model(t, "l4"), Count: 4}})
	want := m.Slices(owner())
	m.Dynamic = true
	if diff := cmp.Diff(want, m.Slices(owner())); diff != "" {
		t.Error(diff)
	}
}

// The API server refuses slices beyond its limits, and a scheduler ignores a pool that is not complete.
func TestSlicesAreWithinLimits(t *testing.T) {
	m := Machine{Node: "alice", Dynamic: true, GPUs: gpu.Devices("alice", []gpu.Group{{Model: model(t, "h200"), Count: 64}})}
	names, devices, sets := map[string]bool{}, 0, 0
	all := m.Slices(owner())
	for _, s := range all {
		names[s.Name] = true
		devices, sets = devices+len(s.Spec.Devices), sets+len(s.Spec.SharedCounters)
		if len(s.Spec.Devices) > resourcev1.ResourceSliceMaxDevicesWithAdvancedFeatures || len(s.Spec.SharedCounters) > resourcev1.ResourceSliceMaxCounterSets ||
			len(s.Spec.Devices) > 0 == (len(s.Spec.SharedCounters) > 0) || s.Spec.Pool.ResourceSliceCount != int64(len(all)) {
			t.Errorf("%s: %d devices, %d counter sets, %d slices", s.Name, len(s.Spec.Devices), len(s.Spec.SharedCounters), s.Spec.Pool.ResourceSliceCount)
		}
		for _, set := range s.Spec.SharedCounters {
			if len(set.Counters) > resourcev1.ResourceSliceMaxCountersPerCounterSet {
				t.Errorf("%s: %d counters", set.Name, len(set.Counters))
			}
		}
		for _, d := range s.Spec.Devices {
			if len(d.Attributes)+len(d.Capacity) > resourcev1.ResourceSliceMaxAttributesAndCapacitiesPerDevice {
				t.Errorf("%s: %d attributes and capacities", d.Name, len(d.Attributes)+len(d.Capacity))
			}
		}
	}
	if len(names) != len(all) || len(all) != 64+8 || sets != 64 || devices != len(m.Devices()) || devices != 64*(1+7+7+4+3+2+1+1) {
		t.Errorf("%d slices, %d names, %d counter sets, %d devices", len(all), len(names), sets, devices)
	}
}

// The counters allow the parts that MIG can make beside each other, and no others.
func TestCountersAreMIGsRules(t *testing.T) {
	var models []gpu.Model
	for _, m := range gpu.Models() {
		if m.MIG {
			models = append(models, m)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		m := Machine{Node: "alice", Dynamic: true, GPUs: gpu.Devices("alice", []gpu.Group{{Model: rapid.SampledFrom(models).Draw(t, "model"), Count: 1}})}
		left := shared(m.GPUs[0]).Counters
		var have []gpu.Instance
		for range rapid.IntRange(1, 12).Draw(t, "tries") {
			d := rapid.SampledFrom(m.Devices()).Draw(t, "device")
			need := m.device(d).ConsumesCounters[0].Counters
			allowed := true
			for name, c := range need {
				l, known := left[name]
				allowed = allowed && known && l.Value.Cmp(c.Value) >= 0
			}
			var next []gpu.Instance
			possible := len(have) == 0 // the whole GPU
			if d.MIG != nil {
				var err error
				next, _, err = d.Model.Create(have, d.MIG.Profile, d.MIG.Start, true)
				possible = err == nil
			}
			if allowed != possible {
				t.Fatalf("%s beside %d instances: counters say %t, MIG says %t", Name(d), len(have), allowed, possible)
			}
			if !possible || d.MIG == nil {
				continue
			}
			have = next
			for name, c := range need {
				l := left[name]
				l.Value.Sub(c.Value)
				left[name] = l
			}
		}
	})
}
