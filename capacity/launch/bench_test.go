package launch_test

import (
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/berth-dev/berth/capacity/launch"
	"github.com/berth-dev/berth/engine"
)

// crowd is pools without machines, and gangs of 1 to 4 machines that wait for them. Each selects one of so many kinds of pools.
func crowd(pools, gangs, kinds int) launch.World {
	w := newWorld()
	w.Now = start
	x := launch.World{Now: w.Now, Policy: w.Policy, Cluster: engine.Snapshot{Version: engine.SnapshotVersion, Latest: 1}}
	for i := range pools {
		name := fmt.Sprintf("pool-%04d", i)
		p := launch.Pool{Name: name, Zones: []string{"a", "b"}, From: []launch.Source{{Capacity: launch.OnDemand}}, Max: 16, IdleFor: time.Minute}
		if i%4 == 0 {
			r := fmt.Sprintf("block-%04d", i)
			p.From = append([]launch.Source{{Capacity: launch.Reserved, Reservation: r}}, p.From...)
			x.Reservations = append(x.Reservations, launch.Reservation{Name: r, Zone: "a", Instances: 4})
		}
		p.Like = nodeLike(fmt.Sprintf("kind-%04d", i%kinds), 8, 0)
		x.Pools = append(x.Pools, p)
	}
	for i := range gangs {
		key := fmt.Sprintf("team/gang-%05d", i)
		x.Cluster.Gangs = append(x.Cluster.Gangs, engine.Gang{Key: key, Version: 1, Created: start.Add(time.Duration(i) * time.Second)})
		for j := range 1 + i%4 {
			p := engine.Pod{Key: fmt.Sprintf("%s-%d", key, j), UID: fmt.Sprintf("%d-%d", i, j), Version: 1, Gang: key, Rank: j}
			p.Requests = engine.Resources{{Resource: "nvidia.com/gpu", Value: 8}}
			p.Selector = map[string]string{"pool": fmt.Sprintf("kind-%04d", i%kinds)}
			x.Cluster.Pods = append(x.Cluster.Pods, p)
		}
	}
	return x
}

// later is the world after its first decision was carried out: everything that was launched is on its way.
func later(w launch.World) launch.World {
	for _, d := range launch.Decide(w).Of(launch.Launch) {
		w.Machines = append(w.Machines, launch.Machine{Name: d.Machine, Pool: d.Pool, Index: d.Index, Zone: d.Zone, From: d.From, For: d.For, State: launch.Launching, Launched: w.Now})
	}
	w.Now = w.Now.Add(time.Second)
	return w
}

// empty is the world when its providers have nothing left in the zones.
func empty(w launch.World, zones ...string) launch.World {
	for _, p := range w.Pools {
		for _, zone := range zones {
			w.Stockouts = append(w.Stockouts, launch.Stockout{Pool: p.Name, Zone: zone, Error: "InsufficientInstanceCapacity", Until: w.Now.Add(time.Minute)})
		}
	}
	return w
}

// counted is the world with reservations of which the provider said how much is left, and pools that keep a machine free.
func counted(w launch.World) launch.World {
	for i := range w.Reservations {
		w.Reservations[i].Available, w.Reservations[i].Observed = new(3), w.Now
	}
	for i := range w.Pools {
		w.Pools[i].Headroom = 1
	}
	return w
}

// within is the world whose gangs each ask for one domain of the level.
func within(w launch.World, level string) launch.World {
	for i := range w.Cluster.Gangs {
		w.Cluster.Gangs[i].Layout.Required = level
	}
	return w
}

// BenchmarkDecide decides about 1,000 pools and 10,000 gangs. Its bar is one second of processor time on one core: cpu-ns/op, which
// other work on the machine does not lengthen.
func BenchmarkDecide(b *testing.B) {
	for _, kinds := range []int{20, 1000} {
		first := func() launch.World { return crowd(1000, 10_000, kinds) }
		for _, c := range []struct {
			name string
			w    func() launch.World
		}{
			{"first", first},
			{"launching", func() launch.World { return later(first()) }},
			{"zone-empty", func() launch.World { return empty(first(), "a") }},
			{"all-empty", func() launch.World { return empty(later(first()), "a", "b") }},
			{"counted", func() launch.World { return counted(first()) }},
			{"counted-launching", func() launch.World { return later(counted(first())) }},
			{"one-zone", func() launch.World { return within(first(), "zone") }},
		} {
			b.Run(fmt.Sprintf("kinds=%d/%s", kinds, c.name), func(b *testing.B) {
				w := c.w()
				n := 0
				runtime.GC()
				before := cpuTime(b)
				for b.Loop() {
					n = len(launch.Decide(w).Of(launch.Launch))
				}
				b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
				b.ReportMetric(float64(n), "launches")
			})
		}
	}
}

// cpuTime is the processor time that the process has used.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
