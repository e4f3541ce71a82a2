package provision

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/convert"
)

// killed is what ends a controller in the middle.
type killed struct{}

// fake is an API server, a provider and a scheduler.
type fake struct {
	now          time.Time
	pools        []v1alpha1.Pool
	reservations []v1alpha1.Reservation
	machines     []v1alpha1.Machine
	pods         map[string]engine.Pod
	nodes        map[string]engine.Node
	notes        map[string]map[string]string // annotations of nodes
	stock        map[string]int               // machines that the provider has, by zone
	uid          int
	version      uint64
	die          func() bool // whether the controller is killed here
	kills        int
}

func (f *fake) step() {
	if f.die != nil && f.die() {
		f.kills++
		panic(killed{})
	}
}

func (f *fake) Pools(context.Context) ([]v1alpha1.Pool, error) { f.step(); return f.pools, nil }
func (f *fake) Reservations(context.Context) ([]v1alpha1.Reservation, error) {
	f.step()
	return f.reservations, nil
}
func (f *fake) Machines(context.Context) ([]v1alpha1.Machine, error) {
	f.step()
	return slices.Clone(f.machines), nil
}

func (f *fake) Create(_ context.Context, m *v1alpha1.Machine) error {
	f.step()
	if f.at(m.Name) < 0 {
		f.uid++
		m.UID, m.CreationTimestamp = types.UID(fmt.Sprint(f.uid)), metav1.NewTime(f.now)
		f.machines = append(f.machines, *m)
	}
	f.step()
	return nil
}

func (f *fake) Delete(_ context.Context, m *v1alpha1.Machine) error {
	f.step()
	if i := f.at(m.Name); i >= 0 && f.machines[i].UID == m.UID {
		if f.machines[i].Status.Phase == v1alpha1.MachineLaunched {
			f.stock[m.Spec.Zone]++
		}
		f.machines = slices.Delete(f.machines, i, i+1)
		delete(f.nodes, m.Name)
	}
	f.step()
	return nil
}

func (f *fake) SetIdle(_ context.Context, m *v1alpha1.Machine, since time.Time) error {
	f.step()
	if i := f.at(m.Name); i >= 0 {
		f.machines[i].Status.IdleSince = nil
		if !since.IsZero() {
			f.machines[i].Status.IdleSince = &metav1.MicroTime{Time: since}
		}
	}
	f.step()
	return nil
}

func (f *fake) SetPool(_ context.Context, name string, s v1alpha1.PoolStatus) error {
	f.step()
	f.pools[0].Status = s
	f.step()
	return nil
}
func (f *fake) SetUsable(context.Context, *v1alpha1.Reservation) error { return nil }
func (f *fake) Nodes(context.Context) (out []corev1.Node, _ error) {
	for name, n := range f.nodes {
		o := corev1.Node{}
		o.Name, o.Labels, o.Annotations = name, n.Labels, f.notes[name]
		out = append(out, o)
	}
	return out, nil
}
func (f *fake) SetLeaves(_ context.Context, node, at, with string) error {
	f.notes[node] = map[string]string{v1alpha1.KeyLeavesAt: at, v1alpha1.KeyLeavesWith: with}
	return nil
}
func (f *fake) Drain(_ context.Context, name string, _ bool) error {
	n := f.nodes[name]
	n.Cordoned, n.Taints = true, []engine.Taint{{Key: drainTaint, Effect: engine.NoSchedule}}
	f.nodes[name] = n
	return nil
}
func (f *fake) Busy(_ context.Context, name string) (bool, error) {
	for _, p := range f.pods {
		if p.Node == name {
			return true, nil
		}
	}
	return false, nil
}

func (f *fake) at(name string) int {
	return slices.IndexFunc(f.machines, func(m v1alpha1.Machine) bool { return m.Name == name })
}

func (f *fake) Cycles() int64 { return 1 }

func (f *fake) Snapshot(context.Context) (engine.Snapshot, engine.Config, error) {
	f.step()
	s := engine.Snapshot{Version: engine.SnapshotVersion, Latest: f.version + 1}
	for _, n := range f.nodes {
		s.Nodes = append(s.Nodes, n)
	}
	slices.SortFunc(s.Nodes, func(a, b engine.Node) int { return strings.Compare(a.Name, b.Name) })
	gangs := make(map[string]bool)
	for _, p := range f.pods {
		s.Pods = append(s.Pods, p)
		if !gangs[p.Gang] {
			gangs[p.Gang] = true
			s.Gangs = append(s.Gangs, engine.Gang{Key: p.Gang, Version: 1, Group: engine.Group{Layout: engine.Layout{Required: "zone"}}})
		}
	}
	slices.SortFunc(s.Pods, func(a, b engine.Pod) int { return strings.Compare(a.Key, b.Key) })
	slices.SortFunc(s.Gangs, func(a, b engine.Gang) int { return strings.Compare(a.Key, b.Key) })
	return s, policy(), nil
}

func policy() engine.Config {
	return engine.Config{GPU: "nvidia.com/gpu", Levels: []engine.Level{{Name: "zone", Label: v1alpha1.LabelZone}}}
}

// node is a node of the pool, as Options.Like makes one.
func node(p *v1alpha1.Pool, i int) (*corev1.Node, error) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", p.Name, i), Labels: p.NodeLabels(i)}}
	n.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("128"), "memory": resource.MustParse("1Ti"), "pods": resource.MustParse("110"), "nvidia.com/gpu": resource.MustParse("8")}
	return n, nil
}

// submit adds a gang of so many pods of 8 GPUs.
func (f *fake) submit(gang string, pods int) {
	for i := range pods {
		f.version++
		p := engine.Pod{Key: fmt.Sprintf("%s-%d", gang, i), UID: fmt.Sprint(f.version), Version: f.version, Gang: gang, Rank: i, Created: f.now}
		p.Requests = engine.Resources{{Resource: "nvidia.com/gpu", Value: 8}}
		f.pods[p.Key] = p
	}
}

// world has the provider answer, machines come up and pods be bound, one of which happens at random.
func (f *fake) world(t *testing.T, r *rand.Rand) {
	f.now = f.now.Add(time.Duration(1+r.IntN(20)) * time.Second)
	for i := range f.machines {
		m := &f.machines[i]
		if r.IntN(2) == 0 {
			continue
		}
		switch _, up := f.nodes[m.Name]; {
		case m.Status.Phase == "" && f.stock[m.Spec.Zone] > 0:
			f.stock[m.Spec.Zone]--
			m.Status.Phase, m.Status.LaunchedAt = v1alpha1.MachineLaunched, &metav1.MicroTime{Time: f.now}
		case m.Status.Phase == "":
			m.Status.Phase, m.Status.Error = v1alpha1.MachineFailed, "InsufficientInstanceCapacity"
		case m.Status.Phase == v1alpha1.MachineLaunched && !up:
			p := f.pools[0].DeepCopy()
			v1alpha1.Default(p)
			like, _ := node(p.InZone(m.Spec.Zone, m.Spec.CapacityType), int(m.Spec.Index))
			n := convert.Node(like, convert.Options{})
			n.Name, n.Version = m.Name, 1
			f.nodes[m.Name] = n
		}
	}
	f.die = nil
	s, cfg, _ := f.Snapshot(t.Context())
	for _, start := range engine.Schedule(s, f.now, cfg).Starts {
		for _, at := range start.Placements {
			p := f.pods[at.Pod]
			f.version++
			p.Node, p.Version = at.Node, f.version
			f.pods[at.Pod] = p
		}
	}
}

// look runs the controller once, which may be killed on the way.
func (f *fake) look(t *testing.T, c *controller) {
	defer func() {
		if x := recover(); x != nil {
			if _, ok := x.(killed); !ok {
				panic(x)
			}
		}
	}()
	if _, err := c.look(t.Context(), f.now); err != nil {
		t.Fatal(err)
	}
}

func newFake(zones map[string]int) (*fake, *controller) {
	p := v1alpha1.Pool{}
	p.Name = "h200"
	p.Spec.GPUs = []v1alpha1.GPU{{Model: "H200", Count: 8}}
	p.Spec.Launch = &v1alpha1.LaunchPolicy{Max: new(int32(8)), ConsolidateAfter: &metav1.Duration{Duration: time.Second}}
	for zone := range zones {
		p.Spec.Launch.Zones = append(p.Spec.Launch.Zones, zone)
	}
	slices.Sort(p.Spec.Launch.Zones)
	f := &fake{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), pools: []v1alpha1.Pool{p}, pods: make(map[string]engine.Pod), nodes: make(map[string]engine.Node), notes: make(map[string]map[string]string), stock: zones}
	return f, &controller{Options: Options{Cluster: f, Like: node}.normal(), store: f}
}

// bound counts the gang's pods that have a node.
func (f *fake) bound(gang string) (n int) {
	for _, p := range f.pods {
		if p.Gang == gang && p.Node != "" {
			n++
		}
	}
	return n
}

// TestKilledAtAnyMoment kills the controller 1,000 times, before and after each of its reads and writes, while gangs come and go and the
// first zone has too few machines. No need has more machines than it needs, and none is left in the end.
func TestKilledAtAnyMoment(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	f, c := newFake(map[string]int{"a": 2, "b": 6})
	for gang := 0; f.kills < 1000; gang++ {
		name := fmt.Sprintf("team/g%d", gang)
		need := 1 + r.IntN(4)
		f.submit(name, need)
		for turn := 0; f.bound(name) < need; turn++ {
			if turn > 2000 {
				t.Fatalf("gang %s of %d does not start: %+v", name, need, f.machines)
			}
			at := r.IntN(12)
			f.die = func() bool { at--; return at < 0 }
			f.look(t, c)
			f.never(t, name, need)
			f.world(t, r)
		}
		f.die = nil
		for key, p := range f.pods {
			if p.Gang == name {
				delete(f.pods, key)
			}
		}
		for turn := 0; len(f.machines) > 0; turn++ {
			if turn > 2000 {
				t.Fatalf("machines are forgotten: %+v", f.machines)
			}
			at := r.IntN(30)
			f.die = func() bool { at--; return at < 0 }
			f.look(t, c)
			f.world(t, r)
		}
		if f.stock["a"]+f.stock["b"] != 8 {
			t.Fatalf("the provider has %v of 8 machines, and none is in use", f.stock)
		}
	}
}

// never holds what is never so: more machines given for a gang than it needs in one zone, or two for one number.
func (f *fake) never(t *testing.T, gang string, need int) {
	zones, index := make(map[string]int), make(map[int32]bool)
	for _, m := range f.machines {
		if m.Spec.For != gang || m.Status.Phase == v1alpha1.MachineFailed {
			continue
		}
		zones[m.Spec.Zone]++
		if index[m.Spec.Index] {
			t.Fatalf("two machines have number %d: %+v", m.Spec.Index, f.machines)
		}
		index[m.Spec.Index] = true
		if zones[m.Spec.Zone] > need {
			t.Fatalf("%d machines in %s for %s, which needs %d: %+v", zones[m.Spec.Zone], m.Spec.Zone, gang, need, f.machines)
		}
	}
}

// TestShortage leaves nothing launched where only three of four machines can be had, and says so in the Pool.
func TestShortage(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	f, c := newFake(map[string]int{"a": 3})
	f.submit("team/train", 4)
	for range 40 {
		f.look(t, c)
		f.world(t, r)
		if s := f.pools[0].Status; len(s.Shortages) > 0 && len(f.machines) == 0 {
			break
		}
	}
	f.look(t, c)
	s := f.pools[0].Status
	want := []v1alpha1.Shortage{{Workload: "team/train", Need: 4, Have: 3, Because: "InsufficientInstanceCapacity in a"}}
	if !slices.Equal(s.Shortages, want) || len(f.machines) > 0 || f.stock["a"] != 3 {
		t.Errorf("shortages %+v, machines %+v, stock %v", s.Shortages, f.machines, f.stock)
	}
	if len(s.Stockouts) != 1 || s.Stockouts[0].Failures != 1 || !s.Stockouts[0].Until.After(f.now) {
		t.Errorf("stockouts %+v at %s", s.Stockouts, f.now)
	}
}

// TestUsable gives each reservation that gives no machine its own reason.
func TestUsable(t *testing.T) {
	now := time.Date(2026, 11, 17, 12, 0, 0, 0, time.UTC)
	pool := v1alpha1.Pool{Spec: v1alpha1.PoolSpec{GPUs: []v1alpha1.GPU{{Model: "H200", Count: 8}}, Reservations: []string{"r"}, Launch: &v1alpha1.LaunchPolicy{Zones: []string{"a", "b"}}}}
	at := func(d time.Duration) *metav1.Time { return &metav1.Time{Time: now.Add(d)} }
	for _, c := range []struct {
		want  string
		pools []v1alpha1.Pool
		edit  func(*v1alpha1.Reservation)
	}{
		{"Usable", []v1alpha1.Pool{pool}, func(*v1alpha1.Reservation) {}},
		{"Usable", []v1alpha1.Pool{pool}, func(r *v1alpha1.Reservation) { r.Spec.Zone = "b" }},
		{"ReservationNotStarted", []v1alpha1.Pool{pool}, func(r *v1alpha1.Reservation) { r.Spec.Start = at(time.Hour) }},
		{"ReservationNotStarted", []v1alpha1.Pool{pool}, func(r *v1alpha1.Reservation) { // it is late
			r.Spec.Start, r.Status.State, r.Status.ObservedAt = at(-time.Hour), v1alpha1.ReservationScheduled, at(-time.Minute)
		}},
		{"ReservationEnded", []v1alpha1.Pool{pool}, func(r *v1alpha1.Reservation) { r.Spec.End = at(-time.Hour) }},
		{"ReservationEnded", []v1alpha1.Pool{pool}, func(r *v1alpha1.Reservation) { r.Spec.End = at(time.Minute) }},
		{"ReservationWrongZone", []v1alpha1.Pool{pool}, func(r *v1alpha1.Reservation) { r.Spec.Zone = "c" }},
		{"ReservationWrongType", []v1alpha1.Pool{pool}, func(r *v1alpha1.Reservation) { r.Spec.GPUs.Count = 4 }},
		{"ReservationConsumedElsewhere", []v1alpha1.Pool{pool}, func(r *v1alpha1.Reservation) { r.Status.Available = new(int32(0)) }},
		{"Usable", []v1alpha1.Pool{pool}, func(r *v1alpha1.Reservation) { // imported before it began, when it had nothing to give yet
			r.Spec.Start, r.Status.State, r.Status.Available, r.Status.ObservedAt = at(-time.Hour), v1alpha1.ReservationScheduled, new(int32(0)), at(-24*time.Hour)
		}},
		{"ReservationUnusedByProvisioner", nil, func(*v1alpha1.Reservation) {}},
	} {
		r := &v1alpha1.Reservation{Spec: v1alpha1.ReservationSpec{InstanceType: "p5en.48xlarge", Instances: 2, GPUs: v1alpha1.ReservedGPUs{Model: "H200", Count: 8}}}
		r.Name = "r"
		c.edit(r)
		got := usable(r, c.pools, nil, now)
		if got.Reason != c.want || (got.Status == metav1.ConditionTrue) != (c.want == "Usable") {
			t.Errorf("%+v, want %s", got, c.want)
		}
		meta.SetStatusCondition(&r.Status.Conditions, got)
	}
}

// TestLateReservation gives no machine: its provider said after its start that it had not begun.
func TestLateReservation(t *testing.T) {
	now := time.Date(2026, 11, 17, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration) *metav1.Time { return &metav1.Time{Time: now.Add(d)} }
	for _, c := range []struct {
		start, observed *metav1.Time
		want            bool
	}{{at(-time.Hour), at(-time.Minute), true}, {at(-time.Hour), at(-2 * time.Hour), false}, {nil, at(-time.Minute), true}} {
		r := &v1alpha1.Reservation{Spec: v1alpha1.ReservationSpec{Start: c.start}, Status: v1alpha1.ReservationStatus{State: v1alpha1.ReservationScheduled, ObservedAt: c.observed}}
		if got := reservation(r, &view{now: now}); got.Failed != c.want {
			t.Errorf("start %v, observed %v: gives nothing: %t", c.start, c.observed, got.Failed)
		}
	}
}

// TestCountedBeforeItBegan has what a provider said was left of a block before its start say nothing of what is left since.
func TestCountedBeforeItBegan(t *testing.T) {
	now := time.Date(2026, 11, 17, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration) *metav1.Time { return &metav1.Time{Time: now.Add(d)} }
	for _, c := range []struct {
		observed *metav1.Time
		state    v1alpha1.ReservationState
		want     bool
	}{{at(-24 * time.Hour), v1alpha1.ReservationScheduled, false}, {at(-2 * time.Hour), "", false}, {nil, v1alpha1.ReservationScheduled, false}, {at(-time.Minute), v1alpha1.ReservationActive, true}, {nil, "", true}} {
		r := &v1alpha1.Reservation{Spec: v1alpha1.ReservationSpec{Start: at(-time.Hour)}, Status: v1alpha1.ReservationStatus{State: c.state, Available: new(int32(0)), ObservedAt: c.observed}}
		if got := reservation(r, &view{now: now}); (got.Available != nil) != c.want {
			t.Errorf("observed %v as %q: left %v", c.observed, c.state, got.Available)
		}
	}
}
