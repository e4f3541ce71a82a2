package cluster

import (
	"maps"
	"slices"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
)

// DefaultName is what pods put into spec.schedulerName to be scheduled by Berth.
const DefaultName = "berth"

// DefaultGPU is the engine's resource where its configuration names none.
const DefaultGPU = "nvidia.com/gpu"

// DefaultLevels are the topology that a fleet's pools describe, widest first.
func DefaultLevels() []engine.Level {
	return []engine.Level{
		{Name: "region", Label: v1alpha1.LabelRegion},
		{Name: "zone", Label: v1alpha1.LabelZone},
		{Name: "block", Label: v1alpha1.LabelBlock},
		{Name: "rack", Label: v1alpha1.LabelRack},
		{Name: "clique", Label: v1alpha1.LabelClique},
	}
}

func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
