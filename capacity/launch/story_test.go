package launch_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/berth-dev/berth/capacity/launch"
	"github.com/berth-dev/berth/engine"
)

var update = flag.Bool("update", false, "rewrite the decisions in testdata")

// TestStories plays testdata/*.txtar: a world, decisions about it, what happens then. A decision is carried out as it is printed:
// what is launched is launching, what is released is gone.
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(err, "no stories")
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { playFile(t, file) })
	}
}

func playFile(t *testing.T, file string) {
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld()
	for i := range archive.Files {
		f := &archive.Files[i]
		if f.Name != "decide" {
			for _, line := range strings.Split(string(f.Data), "\n") {
				if words := strings.Fields(line); len(words) > 0 {
					if err := w.tell(words); err != nil {
						t.Fatalf("%s: %s: %v", file, line, err)
					}
				}
			}
			continue
		}
		got := w.decide(true)
		if *update {
			f.Data = []byte(got)
		} else if diff := cmp.Diff(string(f.Data), got); diff != "" {
			t.Errorf("decide %d (-want +got):\n%s", i, diff)
		}
	}
	if *update {
		if err := os.WriteFile(file, txtar.Format(archive), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// world is a cluster with a provider, in tests. Machines that are ready are nodes; pods are bound by the engine.
type world struct {
	launch.World
	pools   map[string]launch.Pool
	version uint64
	bound   map[string]string // pod -> node
	pods    map[string]engine.Pod
	gangs   map[string]engine.Gang
	queues  map[string]engine.Queue
	whole8  bool // pods have whole machines
}

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newWorld() *world {
	w := &world{pools: make(map[string]launch.Pool), bound: make(map[string]string), pods: make(map[string]engine.Pod), gangs: make(map[string]engine.Gang), queues: make(map[string]engine.Queue)}
	w.Now = start
	w.Policy = engine.Config{Levels: []engine.Level{{Name: "zone", Label: "topology.kubernetes.io/zone"}, {Name: "rack", Label: "rack"}}}
	return w
}

func (w *world) next() uint64 { w.version++; return w.version }

// nodeLike makes nodes of a pool: gpus each, with racks of so many machines.
func nodeLike(pool string, gpus, rack int) func(int, string, launch.Source) engine.Node {
	return func(i int, zone string, from launch.Source) engine.Node {
		labels := map[string]string{"pool": pool, "topology.kubernetes.io/zone": zone, "capacity": string(from.Capacity)}
		if rack > 0 {
			labels["rack"] = fmt.Sprintf("%s-%s-%d", pool, zone, i/rack)
		}
		return engine.Node{Pool: pool, Labels: labels, Allocatable: engine.Resources{
			{Resource: engine.CPU, Value: 128_000}, {Resource: engine.Memory, Value: 1 << 40}, {Resource: engine.Pods, Value: 110}, {Resource: "nvidia.com/gpu", Value: int64(gpus)},
		}}
	}
}

func source(word string) launch.Source {
	if name, ok := strings.CutPrefix(word, "reserved:"); ok {
		return launch.Source{Capacity: launch.Reserved, Reservation: name}
	}
	return launch.Source{Capacity: launch.Capacity(word)}
}

func (w *world) at(word string) time.Time {
	d, err := time.ParseDuration(word)
	if err != nil {
		panic(err)
	}
	return w.Now.Add(d)
}

// tell reads one line: a verb, a name, and key=value.
func (w *world) tell(words []string) error {
	verb, name := words[0], ""
	if len(words) > 1 {
		name = words[1]
	}
	v := make(map[string]string)
	for _, word := range words[min(2, len(words)):] {
		key, value, _ := strings.Cut(word, "=")
		v[key] = value
	}
	number := func(key string, or int) int {
		if v[key] == "" {
			return or
		}
		n, err := strconv.Atoi(v[key])
		if err != nil {
			panic(err)
		}
		return n
	}
	length := func(key string, or time.Duration) time.Duration {
		if v[key] == "" {
			return or
		}
		d, err := time.ParseDuration(v[key])
		if err != nil {
			panic(err)
		}
		return d
	}
	switch verb {
	case "pool":
		p := launch.Pool{Name: name, Min: number("min", 0), Max: number("max", 100), Headroom: number("headroom", 0), IdleFor: length("idle", 10*time.Minute), DrainBefore: length("drain", 30*time.Minute), ReadyWithin: length("ready", 20*time.Minute)}
		if v["static"] != "" {
			p.Static = new(number("static", 0))
		}
		if v["zones"] != "" {
			p.Zones = strings.Split(v["zones"], ",")
		}
		for _, s := range strings.Split(v["from"], ",") {
			p.From = append(p.From, source(s))
		}
		p.Like = nodeLike(name, number("gpus", 8), number("rack", 0))
		w.pools[name] = p
	case "reservation":
		r := launch.Reservation{Name: name, Zone: v["zone"], Instances: number("instances", 1), Failed: v["failed"] == "true"}
		if v["start"] != "" {
			r.Start = w.at(v["start"])
		}
		if v["end"] != "" {
			r.End = w.at(v["end"])
		}
		if v["available"] != "" {
			r.Available, r.Observed = new(number("available", 0)), w.Now
		}
		w.Reservations = append(slices.DeleteFunc(w.Reservations, func(o launch.Reservation) bool { return o.Name == name }), r)
	case "stockout":
		s := launch.Stockout{Pool: name, Zone: v["zone"], Error: v["error"], Until: w.at(v["for"]), Got: number("got", 0)}
		if v["from"] != "" {
			s.From = source(v["from"])
		}
		w.Stockouts = append(w.Stockouts, s)
	case "gang":
		g := engine.Gang{Key: name, Version: w.next(), Created: w.Now, Queue: v["queue"], Group: engine.Group{Layout: engine.Layout{Required: v["required"]}}}
		w.gangs[name] = g
		for i := range number("pods", 1) {
			p := engine.Pod{Key: fmt.Sprintf("%s-%d", name, i), UID: fmt.Sprintf("%s-%d-%d", name, i, w.version), Version: w.next(), Gang: name, Rank: i, Created: w.Now, Evictable: true}
			p.Requests = engine.Resources{{Resource: "nvidia.com/gpu", Value: int64(number("gpus", 8))}}
			if v["port"] != "" {
				p.Ports = []engine.Port{{Protocol: "TCP", Port: int32(number("port", 0))}}
			}
			for _, key := range []string{"pool", "capacity", "rack"} {
				if v[key] != "" {
					if p.Selector == nil {
						p.Selector = make(map[string]string)
					}
					p.Selector[key] = v[key]
				}
			}
			w.pods[p.Key] = p
		}
	case "queue":
		w.queues[name] = engine.Queue{Name: name, Version: w.next(), Limits: engine.Resources{{Resource: "nvidia.com/gpu", Value: int64(number("limit", 0))}}}
	case "done": // the gang is over
		w.forget(name)
	case "ready": // machines are up; all of them without a name
		for i := range w.Machines {
			m := &w.Machines[i]
			if m.State == launch.Launching && (name == "" || m.Name == name) {
				m.State, m.Idle = launch.Ready, w.Now
			}
		}
	case "fails":
		for i := range w.Machines {
			if m := &w.Machines[i]; m.Name == name {
				m.State, m.Error, m.Launched = launch.Failed, v["error"], time.Time{}
			}
		}
	case "bind":
		w.bind()
	case "after":
		w.Now = w.at(name)
	default:
		return fmt.Errorf("unknown verb %s", verb)
	}
	return nil
}

func (w *world) forget(gang string) {
	delete(w.gangs, gang)
	for key, p := range w.pods {
		if p.Gang != gang {
			continue
		}
		node := w.bound[key]
		delete(w.pods, key)
		delete(w.bound, key)
		w.idle(node)
	}
}

// idle notes since when nothing is on the machine.
func (w *world) idle(node string) {
	for _, n := range w.bound {
		if n == node {
			return
		}
	}
	for i := range w.Machines {
		if m := &w.Machines[i]; m.Name == node {
			m.Idle = w.Now
		}
	}
}

// snapshot is the cluster as the engine is told: nodes of machines that are ready.
func (w *world) snapshot() engine.Snapshot {
	s := engine.Snapshot{Version: engine.SnapshotVersion, Latest: w.version}
	for _, m := range w.Machines {
		if m.State == launch.Ready {
			n := w.pools[m.Pool].Like(m.Index, m.Zone, m.From)
			n.Name, n.Version, n.Cordoned = m.Name, 1, m.Draining
			s.Nodes = append(s.Nodes, n)
		}
	}
	slices.SortFunc(s.Nodes, func(a, b engine.Node) int { return strings.Compare(a.Name, b.Name) })
	for _, key := range slices.Sorted(maps.Keys(w.pods)) {
		p := w.pods[key]
		p.Node = w.bound[key]
		s.Pods = append(s.Pods, p)
	}
	for _, key := range slices.Sorted(maps.Keys(w.gangs)) {
		s.Gangs = append(s.Gangs, w.gangs[key])
	}
	for _, key := range slices.Sorted(maps.Keys(w.queues)) {
		s.Queues = append(s.Queues, w.queues[key])
	}
	return s
}

// bind does what the scheduler would do.
func (w *world) bind() {
	for _, s := range engine.Schedule(w.snapshot(), w.Now, w.Policy).Starts {
		for _, p := range s.Placements {
			w.bound[p.Pod] = p.Node
			for i := range w.Machines {
				if w.Machines[i].Name == p.Node {
					w.Machines[i].Idle = time.Time{}
				}
			}
		}
	}
}

func (w *world) look() launch.World {
	x := w.World
	x.Cluster = w.snapshot()
	x.Pools = nil
	for _, key := range slices.Sorted(maps.Keys(w.pools)) {
		x.Pools = append(x.Pools, w.pools[key])
	}
	return x
}

// carryOut does what a decision says.
func (w *world) carryOut(d launch.Decision) {
	at := slices.IndexFunc(w.Machines, func(m launch.Machine) bool { return m.Name == d.Machine })
	switch d.Do {
	case launch.Launch:
		if at < 0 {
			w.Machines = append(w.Machines, launch.Machine{Name: d.Machine, Pool: d.Pool, Index: d.Index, Zone: d.Zone, From: d.From, For: d.For, State: launch.Launching, Launched: w.Now})
		}
	case launch.Release:
		if at >= 0 {
			w.Machines = slices.Delete(w.Machines, at, at+1)
		}
		for key, node := range w.bound {
			if node == d.Machine {
				delete(w.bound, key)
			}
		}
	case launch.Drain:
		w.Machines[at].Draining = true
	}
}

// decide decides, prints the decisions and, if asked to, carries them out.
func (w *world) decide(carryOut bool) string {
	var b strings.Builder
	out := launch.Decide(w.look())
	for _, d := range out.All {
		b.WriteString(d.String() + "\n")
		if carryOut {
			w.carryOut(d)
		}
	}
	if !out.WakeAt.IsZero() {
		fmt.Fprintf(&b, "look again at +%s\n", out.WakeAt.Sub(start))
	}
	return b.String()
}
