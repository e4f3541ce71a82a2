package record

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-dev/berth/engine"
)

var noon = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

var rackLevels = engine.Config{Levels: []engine.Level{{Name: "rack", Label: "rack"}}, AssumeFor: 10 * time.Second}

func pick[E any](t *rapid.T, of ...E) E { return rapid.SampledFrom(of).Draw(t, "pick") }

// anyChange makes a change of a small world whose objects come, change, go and come back. Versions come late, twice,
// and with two contents, and what is settled is broken at times: whatever the engine makes of it, so must we.
func anyChange(t *rapid.T, newest uint64) engine.Change {
	version := newest - min(newest-1, pick[uint64](t, 0, 0, 0, 0, 1, 2, 5))
	switch pick(t, "pod", "pod", "pod", "member", "member", "node", "gang", "queue", "gone", "gone", "refusal", "hold", "assumption", "settled") {
	case "node":
		n := engine.Node{Name: pick(t, "n0", "n1", "n2"), Version: version, Labels: map[string]string{"rack": pick(t, "a", "b")}, Cordoned: pick(t, false, false, true)}
		n.Allocatable = engine.Resources{{Resource: "nvidia.com/gpu", Value: pick[int64](t, 1, 2, 4)}, {Resource: engine.Pods, Value: 9}}
		return engine.Change{Node: &n}
	case "member":
		p := anyPod(t, pick(t, "ns/g-0", "ns/g-1", "ns/g-2"), version)
		p.Gang = "ns/g"
		return engine.Change{Pod: &p}
	case "gang":
		return engine.Change{Gang: &engine.Gang{Key: "ns/g", Version: version, Group: engine.Group{Min: pick(t, 1, 2, 3), Layout: engine.Layout{Required: pick(t, "", "rack")}}}}
	case "queue":
		return engine.Change{Queue: &engine.Queue{Name: "q", Version: version, Limits: engine.Resources{{Resource: "nvidia.com/gpu", Value: pick[int64](t, 0, 1, 3, -1)}}}}
	case "gone":
		return engine.Change{Gone: anyRef(t, version)}
	case "refusal":
		return engine.Change{Refusal: &engine.Refusal{Pod: pick(t, "ns/a", "ns/g-0"), Version: version, Node: pick(t, "n0", "n1"), Reason: pick(t, "no", "never"), Until: soon(t)}}
	case "hold":
		return engine.Change{Hold: &engine.Hold{Gang: pick(t, "ns/a", "ns/g"), Version: version, Node: "n0", Requests: engine.Resources{{Resource: "nvidia.com/gpu", Value: 1}}, Until: soon(t)}}
	case "assumption":
		return engine.Change{Assumption: &engine.Assumption{Pod: pick(t, "ns/b", "ns/g-1"), UID: "u", Version: version, Node: pick(t, "n0", "n1"), Until: soon(t)}}
	case "settled":
		return engine.Change{Settled: newest - min(newest-1, pick[uint64](t, 0, 3, 8))}
	}
	p := anyPod(t, pick(t, "ns/a", "ns/b", "ns/c"), version)
	p.Queue = pick(t, "", "q")
	return engine.Change{Pod: &p}
}

func anyPod(t *rapid.T, key string, version uint64) engine.Pod {
	p := engine.Pod{Key: key, UID: pick(t, "u", "v"), Version: version, Node: pick(t, "", "", "", "n0", "n9"), Created: noon.Add(-time.Minute)}
	p.Requests = engine.Resources{{Resource: "nvidia.com/gpu", Value: pick[int64](t, 1, 2, 5, -1)}}
	if pick(t, false, false, true) {
		p.Affinity = pick(t, nil, []engine.Term{}, []engine.Term{{Labels: []engine.Requirement{{Key: "rack", Op: engine.In, Values: []string{"a"}}}}})
	}
	return p
}

func anyRef(t *rapid.T, version uint64) *engine.Ref {
	kind := pick(t, append(kinds[:], "moon")...)
	key := map[engine.Kind]string{
		engine.KindPod: pick(t, "ns/a", "ns/b", "ns/g-0"), engine.KindNode: pick(t, "n0", "n1"), engine.KindGang: "ns/g", engine.KindQueue: "q",
		engine.KindAssumption: pick(t, "ns/a", "ns/b", "ns/g-1"), engine.KindRefusal: pick(t, "ns/a@n0", "ns/g-0@n1"), engine.KindHold: pick(t, "ns/a@n0", "ns/g@n0"),
	}[kind]
	return &engine.Ref{Kind: kind, Key: key, Version: version}
}

func soon(t *rapid.T) time.Time { return noon.Add(pick(t, time.Second, time.Minute, -time.Second)) }

// anyLife is the cycles of a state: changes, and plans that are taken for real. The clock may go back.
func anyLife(t *rapid.T, cfg engine.Config) (cycles []cycle) {
	s := engine.Load(engine.Snapshot{}, cfg)
	now, newest := noon, uint64(0)
	for range rapid.IntRange(1, 12).Draw(t, "cycles") {
		now = now.Add(pick(t, time.Second, 5*time.Millisecond, 0, time.Minute, -3*time.Second))
		var changes []engine.Change
		for range rapid.IntRange(0, 6).Draw(t, "changes") {
			newest++
			changes = append(changes, anyChange(t, newest))
		}
		cycles = append(cycles, live1(s, now, changes))
		newest = max(newest, s.Dump().Latest)
	}
	return cycles
}

// live1 is one cycle as the scheduler does it.
func live1(s *engine.State, now time.Time, changes []engine.Change) cycle {
	s.Apply(changes...)
	plan := s.Plan(now)
	s.Apply(plan.Changes...)
	return cycle{now, changes, plan}
}

// gangLife is a small story in which things start, wait, and end: n cycles of it.
func gangLife(n int) (cycles []cycle) {
	s := engine.Load(engine.Snapshot{}, rackLevels)
	for i := range n {
		v := uint64(i+1) << 8
		pod := engine.Pod{Key: fmt.Sprintf("ns/p-%d", i), UID: fmt.Sprint("uid-", i), Version: v, Spec: engine.Spec{Requests: engine.Resources{{Resource: "nvidia.com/gpu", Value: 1}}}}
		changes := []engine.Change{{Pod: &pod}}
		if i%3 == 0 {
			node := engine.Node{Name: fmt.Sprintf("n%d", i), Version: v + 1, Labels: map[string]string{"rack": "a"}, Allocatable: engine.Resources{{Resource: "nvidia.com/gpu", Value: 1}, {Resource: engine.Pods, Value: 5}}}
			changes = append(changes, engine.Change{Node: &node})
		}
		if i%4 == 3 {
			changes = append(changes, engine.Change{Gone: &engine.Ref{Kind: engine.KindPod, Key: fmt.Sprintf("ns/p-%d", i-3), Version: v + 2}})
		}
		cycles = append(cycles, live1(s, noon.Add(time.Duration(i)*time.Second), changes))
	}
	return cycles
}

// write records the cycles into the folder, with a flush after each.
func write(o Options, cfg engine.Config, cycles []cycle) *Writer {
	w := newWriter(o, cfg)
	for _, c := range cycles {
		w.Cycle(c.now, c.changes, c.plan)
		w.write()
	}
	w.end()
	return w
}

// plans is the plans' JSON.
func plans(t rapid.TB, cycles []cycle) []string {
	t.Helper()
	var out []string
	for i := range cycles {
		out = append(out, asJSON(t, cycles[i].plan))
	}
	return out
}

func asJSON(t rapid.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatalf("marshal: %v", err)
	}
	return string(b)
}

// replayed is the plans' JSON of all cycles that the log in the folder gives.
func replayed(t rapid.TB, dir string) []string {
	t.Helper()
	log, err := Open(dir)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	var out []string
	for c, err := range log.Cycles(time.Time{}, noon.AddDate(1, 0, 0)) {
		if err != nil {
			t.Fatalf("cycle %d: %v", len(out), err)
		}
		out = append(out, asJSON(t, c.Plan))
	}
	return out
}

// disk hands out files in memory that stop taking bytes when there is no room.
type disk struct {
	room  int
	files map[string]*[]byte
}

type diskFile struct {
	disk *disk
	data *[]byte
}

func (d *disk) create(path string) (io.WriteCloser, error) {
	data := new([]byte)
	if d.files == nil {
		d.files = map[string]*[]byte{}
	}
	d.files[path] = data
	return diskFile{d, data}, nil
}

func (f diskFile) Write(p []byte) (int, error) {
	n := min(len(p), f.disk.room)
	f.disk.room -= n
	*f.data = append(*f.data, p[:n]...)
	if n < len(p) {
		return n, fmt.Errorf("no space left on device")
	}
	return n, nil
}

func (f diskFile) Close() error { return nil }
