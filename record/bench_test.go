package record

import (
	"fmt"
	"io"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/berth-dev/berth/engine"
)

const (
	benchNodes = 5_000
	benchPods  = 10_000
	benchBatch = 100 // pods in a cycle
)

var benchNow = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

// story is the life of benchPods pods on benchNodes nodes, one cycle after the other: the nodes come, then in
// batches pods are created and placed, seen bound, seen running, and deleted.
type story struct {
	rand    *rand.Rand
	state   *engine.State
	version uint64
	now     time.Time
	cycles  []cycle
}

func newStory() *story {
	s := &story{rand: rand.New(rand.NewPCG(1, 1)), state: engine.Load(engine.Snapshot{}, benchConfig()), now: benchNow}
	var nodes []engine.Change
	for i := range benchNodes {
		n := s.node(i)
		nodes = append(nodes, engine.Change{Node: &n})
	}
	s.cycle(nodes)
	for i := 0; i < benchPods; i += benchBatch {
		s.batch(i)
	}
	return s
}

func benchConfig() engine.Config {
	return engine.Config{Levels: []engine.Level{{Name: "rack", Label: "berth.dev/rack"}}}
}

func (s *story) next() uint64 {
	s.version += 1 << 20
	return s.version
}

func (s *story) node(i int) engine.Node {
	n := engine.Node{
		Name: fmt.Sprintf("node-%05d", i), Version: s.next(), Pool: fmt.Sprintf("pool-%d", i%10),
		Labels: map[string]string{
			"kubernetes.io/hostname": fmt.Sprintf("node-%05d", i), "berth.dev/rack": fmt.Sprintf("rack-%03d", i/100),
			"node.kubernetes.io/instance-type": "p5.48xlarge", "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
			"topology.kubernetes.io/zone": fmt.Sprintf("zone-%d", i%3), "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
		},
		Allocatable: engine.Resources{
			{Resource: engine.CPU, Value: 192_000}, {Resource: engine.Memory, Value: 2 << 40}, {Resource: engine.Pods, Value: 110},
			{Resource: "nvidia.com/gpu", Value: 8}, {Resource: "ephemeral-storage", Value: 1 << 40},
		},
	}
	for d := range 8 {
		n.Devices = append(n.Devices, engine.Device{ID: fmt.Sprintf("GPU-%05d-%d", i, d), Model: "H100", Clique: n.Name, NUMA: d / 4})
	}
	return n
}

// pod is one of a job's: all that differs between them is its name, UID and version.
func (s *story) pod(i int) engine.Pod {
	return engine.Pod{
		Key: fmt.Sprintf("team-%02d/job-%03d-%05d", i/benchBatch%20, i/benchBatch, i), Version: s.next(), Created: s.now.Truncate(time.Second),
		UID: fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", s.rand.Uint32(), s.rand.UintN(1<<16), s.rand.UintN(1<<12), s.rand.UintN(1<<12), s.rand.Uint64N(1<<48)),
		Spec: engine.Spec{
			Requests:    engine.Resources{{Resource: engine.CPU, Value: 8000}, {Resource: engine.Memory, Value: 64 << 30}, {Resource: "nvidia.com/gpu", Value: 1}},
			Selector:    map[string]string{"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"},
			Tolerations: []engine.Toleration{{Key: "nvidia.com/gpu", Op: "Exists"}, {Key: "node.kubernetes.io/not-ready", Op: "Exists", Effect: engine.NoExecute}},
		},
	}
}

// batch is the life of benchBatch pods, of which each moment is a cycle.
func (s *story) batch(first int) {
	pods := make([]engine.Pod, benchBatch)
	for i := range pods {
		pods[i] = s.pod(first + i)
	}
	plan := s.cycle(asChanges(pods))
	for _, start := range plan.Starts {
		p := start.Placements[0]
		for i := range pods {
			if pods[i].Key == p.Pod {
				pods[i].Node, pods[i].Devices = p.Node, p.Devices
			}
		}
	}
	for range 2 { // bound, running
		for i := range pods {
			pods[i].Version = s.next()
		}
		s.cycle(asChanges(pods))
	}
	var gone []engine.Change
	for i := range pods {
		gone = append(gone, engine.Change{Gone: &engine.Ref{Kind: engine.KindPod, Key: pods[i].Key, Version: s.next()}})
	}
	s.cycle(gone)
}

func asChanges(pods []engine.Pod) []engine.Change {
	own := append([]engine.Pod(nil), pods...)
	changes := make([]engine.Change, len(own))
	for i := range own {
		changes[i].Pod = &own[i]
	}
	return changes
}

func (s *story) cycle(changes []engine.Change) engine.Plan {
	s.now = s.now.Add(50 * time.Millisecond)
	s.state.Apply(changes...)
	plan := s.state.Plan(s.now)
	s.state.Apply(plan.Changes...)
	s.cycles = append(s.cycles, cycle{s.now, changes, plan})
	return plan
}

type nowhere struct{}

func (nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (nowhere) Close() error                { return nil }

// cpuTime is what this process has used, the collector included: other work on the machine does not count.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkWrite is what recording costs, per change of a pod: digest, lines, compression, and keeping track of
// what is live. The figures are of the pods' changes alone, which come after the nodes.
func BenchmarkWrite(b *testing.B) {
	s := newStory()
	changes := 0
	for _, c := range s.cycles[1:] {
		changes += len(c.changes)
	}
	var plain, onDisk int64
	var took time.Duration
	for b.Loop() {
		w := newWriter(Options{Dir: b.TempDir()}, benchConfig())
		w.folder.create = func(string) (io.WriteCloser, error) { return nowhere{}, nil }
		w.record(s.cycles[0])
		w.write()
		plain, onDisk = w.segment.plain.n, w.segment.file.n
		begin := cpuTime(b)
		for i, c := range s.cycles[1:] {
			w.record(c)
			if i%20 == 19 { // a second
				w.write()
			}
		}
		w.write()
		took += cpuTime(b) - begin
		plain, onDisk = w.segment.plain.n-plain, w.segment.file.n-onDisk
	}
	b.ReportMetric(float64(took.Nanoseconds())/float64(b.N*changes), "cpu-ns/change")
	b.ReportMetric(float64(plain)/float64(changes), "line-bytes/change")
	b.ReportMetric(float64(onDisk)/float64(changes), "disk-bytes/change")
}

// BenchmarkHandOver is what the scheduler's own cycle pays for a cycle of benchBatch pods.
func BenchmarkHandOver(b *testing.B) {
	s := newStory()
	w := newWriter(Options{Dir: b.TempDir()}, benchConfig())
	c := s.cycles[1]
	for b.Loop() {
		w.Cycle(c.now, c.changes, c.plan)
		if w.pending > mostPending/2 {
			w.take()
		}
	}
}

// BenchmarkOpening is the beginning of a segment with benchNodes nodes and ten pods on each.
func BenchmarkOpening(b *testing.B) {
	s := &story{rand: rand.New(rand.NewPCG(1, 1)), now: benchNow}
	known := newLive()
	for i := range benchNodes {
		n := s.node(i)
		known.apply([]engine.Change{{Node: &n}})
		for j := range 10 {
			p := s.pod(10*i + j)
			p.Node, p.Devices = n.Name, []string{n.Devices[j%8].ID}
			known.apply([]engine.Change{{Pod: &p}})
		}
	}
	var seg *segment
	begin := cpuTime(b)
	for b.Loop() {
		var err error
		if seg, err = newSegment("", nowhere{}, head{}, known); err != nil {
			b.Fatal(err)
		}
		if _, err := seg.close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric((cpuTime(b)-begin).Seconds()/float64(b.N), "cpu-s/op")
	b.ReportMetric(float64(seg.plain.n)/(1<<20), "line-MiB")
	b.ReportMetric(float64(seg.file.n)/(1<<20), "disk-MiB")
}

// BenchmarkPlay is `berth replay --at` the end of the story: everything is read, applied, planned and checked.
func BenchmarkPlay(b *testing.B) {
	s, log := recordedStory(b)
	begin := cpuTime(b)
	for b.Loop() {
		if c, err := log.At(s.now); err != nil || c.Number != len(s.cycles) {
			b.Fatal(c.Number, err)
		}
	}
	perChange(b, s, cpuTime(b)-begin)
}

// BenchmarkSummarize is `berth replay` without a time.
func BenchmarkSummarize(b *testing.B) {
	s, log := recordedStory(b)
	begin := cpuTime(b)
	for b.Loop() {
		if sum, err := log.Segments()[0].Summarize(); err != nil || sum.Cycles != len(s.cycles) {
			b.Fatal(sum, err)
		}
	}
	perChange(b, s, cpuTime(b)-begin)
}

func recordedStory(b *testing.B) (*story, *Log) {
	b.Helper()
	s, dir := newStory(), b.TempDir()
	write(Options{Dir: dir}, benchConfig(), s.cycles)
	log, err := Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	return s, log
}

func perChange(b *testing.B, s *story, took time.Duration) {
	changes := 0
	for _, c := range s.cycles {
		changes += len(c.changes)
	}
	b.ReportMetric(float64(took.Nanoseconds())/float64(b.N*changes), "cpu-ns/change")
}
