package device

import (
	"slices"

	"github.com/berth-dev/berth/fleet/gpu"
)

// domain is a set of devices that are close to each other.
type domain struct{ nvlink, numa int }

// prefer picks n of the free devices (positions in all, ascending, at least n), as NVIDIA's
// plugin would answer GetPreferredAllocation: linked devices on one NUMA node, else linked
// devices, else devices on one NUMA node, else any. Of several domains that have room it takes
// the one with the fewest free devices, so that large domains stay whole for large requests;
// ties go to the lowest index.
func prefer(all []gpu.Device, free []int, n int) []int {
	if n == 0 {
		return nil
	}
	linked := slices.DeleteFunc(slices.Clone(free), func(i int) bool { return all[i].NVLink < 0 })
	levels := []([][]int){
		split(linked, func(i int) domain { return domain{all[i].NVLink, all[i].NUMA} }),
		split(linked, func(i int) domain { return domain{nvlink: all[i].NVLink} }),
		split(free, func(i int) domain { return domain{numa: all[i].NUMA} }),
		{free},
	}
	if n == 1 {
		levels = levels[2:] // one device has nobody to talk to
	}
	for _, groups := range levels {
		if pool := tightest(groups, n); pool != nil {
			return gather(all, pool, n)
		}
	}
	return nil
}

// gather takes n devices of pool from as few domains as it can.
func gather(all []gpu.Device, pool []int, n int) []int {
	groups := split(pool, func(i int) domain { return domain{all[i].NVLink, all[i].NUMA} })
	var got []int
	for n > len(got) {
		if last := tightest(groups, n-len(got)); last != nil {
			got = append(got, last[:n-len(got)]...)
			break
		}
		largest := slices.MaxFunc(groups, func(a, b []int) int { return len(a) - len(b) })
		got = append(got, largest...)
		groups = slices.DeleteFunc(groups, func(g []int) bool { return g[0] == largest[0] })
	}
	slices.Sort(got)
	return got
}

// split groups positions by key; groups are in order of their lowest position.
func split(positions []int, key func(int) domain) [][]int {
	var groups [][]int
	at := map[domain]int{}
	for _, i := range positions {
		k := key(i)
		if _, ok := at[k]; !ok {
			at[k] = len(groups)
			groups = append(groups, nil)
		}
		groups[at[k]] = append(groups[at[k]], i)
	}
	return groups
}

// tightest is the smallest group with at least n devices, the first of equals; nil: none has.
func tightest(groups [][]int, n int) []int {
	var best []int
	for _, g := range groups {
		if len(g) >= n && (best == nil || len(g) < len(best)) {
			best = g
		}
	}
	return best
}
