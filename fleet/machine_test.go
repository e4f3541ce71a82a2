package fleet

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/fleet/clock"
	"github.com/berth-dev/berth/fleet/device"
)

func TestColdMachineBootsOnTheFleetClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// 90 s to register and 25 s to be Ready, ten times as fast
		m := newMachine(machineOptions{Want: want{pool: gpuPool("p", 1), index: 0}, Cold: true, Clock: clock.Clock{Speed: 10}, Now: time.Now()})
		start := time.Now()
		for _, step := range []struct {
			at   time.Duration
			want phase
			next time.Duration // 0: none
		}{
			{0, off, 9 * time.Second},
			{8999 * time.Millisecond, off, 9 * time.Second},
			{9 * time.Second, booting, 11500 * time.Millisecond},
			{11499 * time.Millisecond, booting, 11500 * time.Millisecond},
			{11500 * time.Millisecond, running, 0},
		} {
			time.Sleep(time.Until(start.Add(step.at)))
			now := time.Now()
			if got := m.phase(now); got != step.want {
				t.Errorf("after %s: phase %d, want %d", step.at, got, step.want)
			}
			if down := m.handle.Down(); down != (step.want != running) {
				t.Errorf("after %s: pods stand still: %t", step.at, down)
			}
			next := time.Duration(0)
			if at := m.next(now); !at.IsZero() {
				next = at.Sub(start)
			}
			if next != step.next {
				t.Errorf("after %s: next change at %s, want %s", step.at, next, step.next)
			}
		}
		if got := m.handle.StartTime(device.Driver); got != 3*time.Minute {
			t.Errorf("the driver takes %s of simulated time", got)
		}
		if got := m.handle.PullTime; got != 15*time.Second {
			t.Errorf("an image takes %s", got)
		}
	})
}

func TestWarmMachineIsUpAtOnceAndAfterPowerLoss(t *testing.T) {
	m := newMachine(machineOptions{Want: want{pool: gpuPool("p", 1), index: 0}, Now: noon})
	if m.phase(noon) != running || m.handle.StartTime != nil || m.handle.PullTime != 0 {
		t.Error("a warm machine plays its boot")
	}
	if !m.setPower(true, noon) || m.setPower(true, noon) {
		t.Error("power loss is news once")
	}
	if m.phase(noon) != off || !m.next(noon).IsZero() {
		t.Error("without power a machine does not come up by itself")
	}
	if !m.setPower(false, noon) || m.phase(noon) != running {
		t.Error("power is back, the machine is not")
	}
}

func wants(pools ...*v1alpha1.Pool) []want {
	nodes, _ := wanted(pools)
	return nodes
}

func TestMachinesKeepTheirSlots(t *testing.T) {
	ms := &machines{node: func(string) *corev1.Node { return nil }}
	registered := map[string]slot{"b-0": 0, "foreign": 2}
	slotsOf := func() map[string]slot {
		out := map[string]slot{}
		for name, m := range ms.byName {
			out[name] = m.slot
		}
		return out
	}
	changed := ms.set(wants(plainPool("a", 2), plainPool("b", 1)), registered, noon)
	if diff := cmp.Diff([]string{"a-0", "a-1", "b-0"}, changed); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]slot{"a-0": 1, "a-1": 3, "b-0": 0}, slotsOf()); diff != "" {
		t.Error(diff)
	}
	if again := ms.set(wants(plainPool("a", 2), plainPool("b", 1)), registered, noon); len(again) > 0 {
		t.Errorf("setting the same again changes %v", again)
	}
	// a-1 goes while its node is still there; c-0 must not get its addresses
	registered["a-1"] = 3
	changed = ms.set(wants(plainPool("a", 1), plainPool("b", 1), plainPool("c", 1)), registered, noon)
	if diff := cmp.Diff([]string{"c-0", "a-1"}, changed); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]slot{"a-0": 1, "b-0": 0, "c-0": 4}, slotsOf()); diff != "" {
		t.Error(diff)
	}
}

func TestOtherHardwareIsAnotherMachine(t *testing.T) {
	ms := &machines{node: func(string) *corev1.Node { return nil }}
	pool := gpuPool("p", 1)
	ms.set(wants(pool), nil, noon)
	before := ms.get("p-0")

	bigger := pool.DeepCopy()
	bigger.Generation++
	bigger.Spec.CPU.Add(*pool.Spec.CPU)
	bigger.Spec.Labels = map[string]string{"team": "a"}
	if changed := ms.set(wants(bigger), nil, noon); !cmp.Equal(changed, []string{"p-0"}) || ms.get("p-0") != before {
		t.Errorf("more CPU and a label: changed %v, same machine %t", changed, ms.get("p-0") == before)
	}
	other := bigger.DeepCopy()
	other.Generation++
	other.Spec.GPUs[0].Model = "a100"
	ms.set(wants(other), nil, noon)
	after := ms.get("p-0")
	if after == before || after.slot != before.slot || len(after.devices.Devices()) != 8 {
		t.Error("other GPUs: want another machine at the same addresses")
	}
}

// The same hardware written in another way is the same machine.
func TestHardwareID(t *testing.T) {
	pool := gpuPool("p", 1)
	same := pool.DeepCopy()
	same.Name, same.Spec.GPUs[0].Model, same.Spec.NVLink = "q", "NVIDIA-H100-80GB-HBM3", v1alpha1.NVLinkFull
	if hardwareID(pool, 0) != hardwareID(same, 0) {
		t.Error("another name for the model makes another machine")
	}
	for what, edit := range map[string]func(*v1alpha1.PoolSpec){
		"count":     func(s *v1alpha1.PoolSpec) { s.GPUs[0].Count = 4 },
		"pairs":     func(s *v1alpha1.PoolSpec) { s.NVLink = v1alpha1.NVLinkPairs },
		"no links":  func(s *v1alpha1.PoolSpec) { s.NVLink = v1alpha1.NVLinkNone },
		"driver":    func(s *v1alpha1.PoolSpec) { s.Driver.Version = "570.1.1" },
		"in image":  func(s *v1alpha1.PoolSpec) { s.Driver.Preinstalled = true },
		"advertise": func(s *v1alpha1.PoolSpec) { s.Advertise = v1alpha1.AdvertiseDRA },
	} {
		other := pool.DeepCopy()
		edit(&other.Spec)
		if hardwareID(pool, 0) == hardwareID(other, 0) {
			t.Errorf("%s: the same machine", what)
		}
	}
}

func TestPairsShareNVLinkTwoByTwo(t *testing.T) {
	pool := gpuPool("p", 1)
	pool.Spec.NVLink, pool.Spec.GPUs[0].Count = v1alpha1.NVLinkPairs, 5
	var links []int
	for _, d := range hardware(want{pool: pool}).Devices {
		links = append(links, d.NVLink)
	}
	if diff := cmp.Diff([]int{0, 0, 1, 1, -1}, links); diff != "" {
		t.Error(diff)
	}
}
