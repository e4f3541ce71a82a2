package quantity

import (
	"slices"
	"testing"

	"github.com/berth-dev/berth/engine/internal/api"
)

const gpu = "nvidia.com/gpu"

func TestDimsNumberEachNameOnce(t *testing.T) {
	d := NewDims(gpu)
	if d.ID(api.Pods) != DimPods || d.ID(gpu) != DimGPU {
		t.Fatalf("pods and GPUs have the numbers %d and %d", d.ID(api.Pods), d.ID(gpu))
	}
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i"}
	var first []int
	for _, name := range names {
		first = append(first, d.ID(name))
	}
	for i, name := range names {
		if d.ID(name) != first[i] || d.Names[first[i]] != name {
			t.Errorf("%s was number %d and is number %d", name, first[i], d.ID(name))
		}
	}
}

func TestVectorsAreZeroBeyondTheirEnd(t *testing.T) {
	var v Vector
	v.Add(3, 5)
	v.Add(3, -2)
	if got := []int64{v.At(0), v.At(3), v.At(9)}; !slices.Equal(got, []int64{0, 3, 0}) {
		t.Errorf("amounts are %v", got)
	}
}

func TestDemandsArePositiveAndCountThePodItself(t *testing.T) {
	d := NewDims(gpu)
	got := d.Demands(api.Resources{{Resource: gpu, Value: 2}, {Resource: "cpu", Value: 0}})
	if want := []Demand{{DimPods, 1}, {DimGPU, 2}}; !slices.Equal(got, want) {
		t.Errorf("demands are %v, not %v", got, want)
	}
}
