package device

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/fleet/gpu"
)

// The texts are the kubelet's (pkg/kubelet/cm/devicemanager, v1.37): people search for them.
func TestRefusals(t *testing.T) {
	for _, tc := range []struct {
		name string
		set  func(m *Manager)
		want string
	}{
		{"too few free", func(m *Manager) { _, _ = m.Allocate("other", "main", Resource, 3) },
			"requested number of devices unavailable for nvidia.com/gpu. Requested: 2, Available: 1"},
		{"plugin just went", func(m *Manager) { m.SetStack(without(Plugin), start) },
			"no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu"},
		{"all unhealthy", func(m *Manager) {
			for _, d := range m.Devices() {
				m.SetHealthy(d.UUID, false)
			}
		}, "no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu"},
		{"plugin forgotten while others hold devices", func(m *Manager) {
			_, _ = m.Allocate("other", "main", Resource, 1)
			m.SetStack(without(Plugin), start)
			m.Advertise(start.Add(GracePeriod))
		}, "cannot allocate unregistered device nvidia.com/gpu"},
		{"asks for another number than before", func(m *Manager) { _, _ = m.Allocate("pod", "main", Resource, 3) },
			`pod "pod" container "main" changed request for resource "nvidia.com/gpu" from 3 to 2`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := serving(h100(4))
			tc.set(m)
			before := m.Held("pod", "main")
			got, err := m.Allocate("pod", "main", Resource, 2)
			if err == nil || err.Error() != tc.want || got != nil {
				t.Errorf("got %v and %v\nwant %s", indices(got), err, tc.want)
			}
			if diff := cmp.Diff(before, m.Held("pod", "main")); diff != "" {
				t.Errorf("a refusal changed what the pod holds: %s", diff)
			}
		})
	}
}

// A count that somebody wrote into the node's status is not the device manager's: the pod
// starts, without a GPU.
func TestNeverRegistered(t *testing.T) {
	m := New(h100(4))
	if got, err := m.Allocate("pod", "main", Resource, 2); got != nil || err != nil {
		t.Errorf("got %v, %v; want nothing", got, err)
	}
}

func TestForgottenPluginWithoutHolders(t *testing.T) {
	m := serving(h100(4))
	m.SetStack(without(Plugin), start)
	m.Advertise(start.Add(time.Hour))
	if got, err := m.Allocate("pod", "main", Resource, 2); got != nil || err != nil {
		t.Errorf("got %v, %v; want nothing", got, err)
	}
}

func TestAllocateAgain(t *testing.T) {
	m := serving(h100(4))
	first, err := m.Allocate("pod", "main", Resource, 2)
	if err != nil {
		t.Fatal(err)
	}
	m.SetStack(without(Plugin), start) // a restart of the container needs no plugin
	second, err := m.Allocate("pod", "main", Resource, 2)
	if diff := cmp.Diff(first, second); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestAllocateNothing(t *testing.T) {
	m := serving(h100(4))
	for _, n := range []int{0, -1} {
		if got, err := m.Allocate("pod", "main", Resource, n); got != nil || err != nil {
			t.Errorf("%d: %v, %v", n, got, err)
		}
	}
}

// Containers of one pod get different devices, except that an init container's devices are
// free again when the next container starts.
func TestInitContainers(t *testing.T) {
	m := serving(h100(4))
	type step struct {
		call      func(types.UID, string, string, int) ([]gpu.Device, error)
		container string
		n         int
		want      []int
	}
	for _, s := range []step{
		{m.AllocateInit, "prepare", 2, []int{0, 1}},
		{m.AllocateInit, "check", 3, []int{0, 1, 2}},
		{m.Allocate, "sidecar", 1, []int{0}},
		{m.Allocate, "main", 2, []int{1, 2}},
		{m.Allocate, "second", 1, []int{3}},
		{m.AllocateInit, "prepare", 2, []int{0, 1}},
	} {
		got, err := s.call("pod", s.container, Resource, s.n)
		if diff := cmp.Diff(s.want, indices(got)); diff != "" || err != nil {
			t.Fatalf("%s: %v\n%s", s.container, err, diff)
		}
	}
	if _, err := m.Allocate("pod", "third", Resource, 1); err == nil {
		t.Error("a fifth device was found")
	}
	m.Release("pod")
	if got, err := m.Allocate("next", "main", Resource, 4); err != nil || len(got) != 4 {
		t.Errorf("after release: %v, %v", indices(got), err)
	}
}

func TestRestore(t *testing.T) {
	m := New(h100(4)) // as after a restart: nothing has registered yet
	uuid := func(i int) string { return m.Devices()[i].UUID }
	if err := m.Restore("old", "main", Resource, []string{uuid(2), uuid(0)}); err != nil {
		t.Fatal(err)
	}
	if err := m.Restore("old", "main", Resource, []string{uuid(0), uuid(2)}); err != nil {
		t.Errorf("the same again: %v", err)
	}
	for _, tc := range []struct {
		uid   types.UID
		uuids []string
		want  string
	}{
		{"thief", []string{uuid(1), uuid(2)}, `restore devices of pod "thief" container "main": device ` + uuid(2) + ` is held by pod "old"`},
		{"lost", []string{"GPU-x"}, `restore devices of pod "lost" container "main": no device GPU-x in this machine`},
		{"old", []string{uuid(3)}, `restore devices of pod "old" container "main": it already holds 2 others`},
	} {
		if err := m.Restore(tc.uid, "main", Resource, tc.uuids); err == nil || err.Error() != tc.want {
			t.Errorf("got %v\nwant %s", err, tc.want)
		}
	}
	m.SetStack(fullStack(), start)
	if got, err := m.Allocate("new", "main", Resource, 2); err != nil || cmp.Diff([]int{1, 3}, indices(got)) != "" {
		t.Errorf("%v, %v; want what is left, 1 and 3", indices(got), err)
	}
	if diff := cmp.Diff([]int{0, 2}, indices(m.Held("old", "main"))); diff != "" {
		t.Error(diff)
	}
}
