package device

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/fleet/gpu"
)

// bank describes devices as (NVLink, NUMA) pairs in order of index.
func bank(pairs ...[2]int) []gpu.Device {
	var out []gpu.Device
	for i, p := range pairs {
		out = append(out, gpu.Device{Index: i, NVLink: p[0], NUMA: p[1]})
	}
	return out
}

func TestPrefer(t *testing.T) {
	switched := bank([2]int{0, 0}, [2]int{0, 0}, [2]int{0, 0}, [2]int{0, 0}, [2]int{0, 1}, [2]int{0, 1}, [2]int{0, 1}, [2]int{0, 1})
	pcie := bank([2]int{-1, 0}, [2]int{-1, 0}, [2]int{-1, 1}, [2]int{-1, 1})
	pairs := bank([2]int{0, 0}, [2]int{0, 1}, [2]int{1, 0}, [2]int{1, 1})
	partly := bank([2]int{-1, 0}, [2]int{-1, 0}, [2]int{0, 0}, [2]int{0, 0})
	for _, tc := range []struct {
		name string
		all  []gpu.Device
		free []int
		n    int
		want []int
	}{
		{"none", switched, []int{0, 1}, 0, nil},
		{"lowest index of an empty machine", switched, []int{0, 1, 2, 3, 4, 5, 6, 7}, 1, []int{0}},
		{"one NUMA node", switched, []int{0, 1, 2, 3, 4, 5, 6, 7}, 4, []int{0, 1, 2, 3}},
		{"the fuller NUMA node for a small request", switched, []int{0, 1, 2, 3, 6, 7}, 2, []int{6, 7}},
		{"the fuller NUMA node for one", switched, []int{0, 1, 2, 3, 7}, 1, []int{7}},
		{"all of one node and the rest of the other", switched, []int{0, 1, 2, 4, 5, 6, 7}, 5, []int{0, 4, 5, 6, 7}},
		{"everything", switched, []int{0, 1, 2, 3, 4, 5, 6, 7}, 8, []int{0, 1, 2, 3, 4, 5, 6, 7}},
		{"NUMA where there is no NVLink", pcie, []int{1, 2, 3}, 2, []int{2, 3}},
		{"any where nothing fits", pcie, []int{0, 2}, 2, []int{0, 2}},
		{"NVLink before NUMA", pairs, []int{0, 2, 3}, 2, []int{2, 3}},
		{"linked for a pair", partly, []int{0, 1, 2, 3}, 2, []int{2, 3}},
		{"one from the unlinked", partly, []int{1, 2, 3}, 1, []int{1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, prefer(tc.all, tc.free, tc.n)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
