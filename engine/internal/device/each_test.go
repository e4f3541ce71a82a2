package device

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Every way that Each leaves out is one that it visits, up to devices that are alike.
func TestEachVisitsEveryWay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		devs := make([]Device, rapid.IntRange(0, 6).Draw(t, "devices"))
		for i := range devs {
			devs[i] = Device{
				Model: rapid.SampledFrom([]string{"A", "B"}).Draw(t, "model"), Clique: rapid.SampledFrom([]string{"", "c", "d"}).Draw(t, "clique"),
				NUMA: rapid.IntRange(0, 1).Draw(t, "numa"), Free: rapid.Bool().Draw(t, "free"),
			}
		}
		w := Want{
			Count: rapid.IntRange(1, 4).Draw(t, "count"), Model: rapid.SampledFrom([]string{"", "A"}).Draw(t, "want"),
			Clique: Wish(rapid.IntRange(0, 2).Draw(t, "wish")), NUMA: Wish(rapid.IntRange(0, 2).Draw(t, "wish")),
		}
		visited := map[string]int{}
		Each(devs, w, func(way []int) bool {
			if !slices.IsSorted(way) || len(way) != w.Count {
				t.Fatalf("way %v", way)
			}
			visited[like(devs, way)]++
			return true
		})
		for way := range subsets(len(devs)) {
			if len(way) == w.Count && lawful(devs, w, way) && visited[like(devs, way)] == 0 {
				t.Fatalf("%v is not among %v", way, visited)
			}
		}
		if got, want := len(visited) > 0, Fits(devs, w) > 0; got != want {
			t.Fatalf("ways: %v, but Fits says %v", visited, want)
		}
	})
}

// like names a way up to devices that are alike.
func like(devs []Device, way []int) string {
	var out []string
	for _, i := range way {
		s := fmt.Sprint(devs[i].Model, devs[i].Clique, devs[i].NUMA)
		if devs[i].Clique == "" {
			s += fmt.Sprint("#", i)
		}
		out = append(out, s)
	}
	slices.Sort(out)
	return fmt.Sprint(out)
}

func subsets(n int) func(func([]int) bool) {
	return func(yield func([]int) bool) {
		for bits := range 1 << n {
			var way []int
			for i := range n {
				if bits&(1<<i) != 0 {
					way = append(way, i)
				}
			}
			if !yield(way) {
				return
			}
		}
	}
}

func lawful(devs []Device, w Want, way []int) bool {
	for _, i := range way {
		d, first := devs[i], devs[way[0]]
		if !d.Free || w.Model != "" && d.Model != w.Model {
			return false
		}
		if i != way[0] && (w.Clique == Require && (d.Clique == "" || d.Clique != first.Clique) || w.NUMA == Require && d.NUMA != first.NUMA) {
			return false
		}
	}
	return true
}
