package device

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/fleet/gpu"
)

var start = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

func model(name string) gpu.Model {
	m, ok := gpu.Lookup(name)
	if !ok {
		panic("no model " + name)
	}
	return m
}

// h100 is a machine of n linked H100, two NUMA nodes, with a driver pod still to come.
func h100(n int) Config {
	return Config{
		Devices: gpu.Devices("node-0", []gpu.Group{{Model: model("h100"), Count: n, NVLink: true}}),
		Driver:  gpu.Driver{Version: "580.95.05", CUDA: "13.0"},
		Machine: "DGX H100",
	}
}

// fullStack is every pod of the GPU stack, ready.
func fullStack() []StackPod {
	return []StackPod{
		{Name: "gpu-operator/driver-x", Role: Driver, Ready: true},
		{Name: "gpu-operator/toolkit-x", Role: Toolkit, Ready: true},
		{Name: "gpu-operator/plugin-x", Role: Plugin, Ready: true, HostPaths: []string{"/var/lib/kubelet/device-plugins"}},
		{Name: "gpu-operator/gfd-x", Role: GFD, Ready: true, Env: map[string]string{"MIG_STRATEGY": "single"}},
		{Name: "gpu-operator/dcgm-x", Role: DCGM, Ready: true},
	}
}

// without is the full stack less the pods of a role.
func without(role Role) []StackPod {
	return slices.DeleteFunc(fullStack(), func(p StackPod) bool { return p.Role == role })
}

// serving is a manager whose plugin is registered.
func serving(cfg Config) *Manager {
	m := New(cfg)
	m.SetStack(fullStack(), start)
	return m
}

func indices(devices []gpu.Device) []int {
	var out []int
	for _, d := range devices {
		out = append(out, d.Index)
	}
	return out
}

// What a node advertises follows from its stack's pods alone.
func TestRegistration(t *testing.T) {
	change := func(role Role, edit func(*StackPod)) []StackPod {
		pods := fullStack()
		for i := range pods {
			if pods[i].Role == role {
				edit(&pods[i])
			}
		}
		return pods
	}
	unready := func(p *StackPod) { p.Ready = false }
	mounts := func(paths ...string) func(*StackPod) { return func(p *StackPod) { p.HostPaths = paths } }
	host := func(c *Config) { c.HostDriver = true }
	for _, tc := range []struct {
		name string
		edit func(*Config)
		pods []StackPod
		want bool
	}{
		{"nothing runs", nil, nil, false},
		{"everything runs", nil, fullStack(), true},
		{"no plugin", nil, without(Plugin), false},
		{"plugin not ready", nil, change(Plugin, unready), false},
		{"plugin without the kubelet's directory", nil, change(Plugin, mounts("/run/nvidia")), false},
		{"with a trailing slash", nil, change(Plugin, mounts("/var/lib/kubelet/device-plugins/")), true},
		{"with a directory above", nil, change(Plugin, mounts("/var/lib/kubelet")), true},
		{"with the whole host", nil, change(Plugin, mounts("/")), true},
		{"with a directory of a similar name", nil, change(Plugin, mounts("/var/lib/kube")), false},
		{"with a directory below", nil, change(Plugin, mounts("/var/lib/kubelet/device-plugins/x")), false},
		{"no driver", nil, without(Driver), false},
		{"driver not ready", nil, change(Driver, unready), false},
		{"driver in the image", host, without(Driver), true},
		{"driver in the image, no toolkit pod", host, slices.DeleteFunc(without(Driver), func(p StackPod) bool { return p.Role == Toolkit }), true},
		{"toolkit not ready", nil, change(Toolkit, unready), false},
		{"no GFD, no exporter", nil, fullStack()[:3], true},
		{"no GPUs", func(c *Config) { c.Devices = nil }, fullStack(), false},
		{"no driver version", func(c *Config) { c.Driver = gpu.Driver{} }, fullStack(), false},
		{"advertised by DRA", func(c *Config) { c.Advertise = ByDRA }, fullStack(), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := h100(8)
			if tc.edit != nil {
				tc.edit(&cfg)
			}
			m := New(cfg)
			m.SetStack(tc.pods, start)
			got := m.Advertise(start)
			got.Labels = nil
			want := Advertisement{}
			if tc.want {
				want = Advertisement{Resources: []Offer{{Resource, true, 8, 8}}}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A plugin that goes takes allocatable at once and capacity after the kubelet's grace period;
// one that comes back in between changes nothing else.
func TestPluginGoesAndReturns(t *testing.T) {
	m := serving(h100(4))
	held, err := m.Allocate("pod", "main", Resource, 2)
	if err != nil {
		t.Fatal(err)
	}
	at := func(after time.Duration) Advertisement {
		a := m.Advertise(start.Add(after))
		a.Labels = nil
		return a
	}
	gone := start.Add(time.Minute)
	m.SetStack(without(Plugin), gone)
	m.SetStack(without(Plugin), gone.Add(time.Minute)) // the same news again does not restart the clock
	stopped := Advertisement{Resources: []Offer{{Resource, false, 4, 0}}, Changes: gone.Add(GracePeriod)}
	steps := []struct {
		after time.Duration
		want  Advertisement
	}{
		{time.Minute, stopped},
		{6*time.Minute - time.Second, stopped},
		{6 * time.Minute, Advertisement{}},
		{time.Hour, Advertisement{}},
	}
	for _, s := range steps {
		if diff := cmp.Diff(s.want, at(s.after)); diff != "" {
			t.Errorf("after %v: %s", s.after, diff)
		}
	}
	if diff := cmp.Diff(held, m.Held("pod", "main")); diff != "" {
		t.Errorf("the holder lost its devices: %s", diff)
	}
	m.SetStack(fullStack(), start.Add(2*time.Hour))
	if diff := cmp.Diff(Advertisement{Resources: []Offer{{Resource, true, 4, 4}}}, at(2*time.Hour)); diff != "" {
		t.Error(diff)
	}
	if got, err := m.Allocate("next", "main", Resource, 2); err != nil || cmp.Diff([]int{2, 3}, indices(got)) != "" {
		t.Errorf("after the return: %v, %v", indices(got), err)
	}
}

func TestUnhealthy(t *testing.T) {
	m := serving(h100(4))
	m.SetHealthy(m.Devices()[1].UUID, false)
	m.SetHealthy("GPU-of-another-machine", false)
	if a := m.Advertise(start).Resources[0]; a.Capacity != 4 || a.Allocatable != 3 {
		t.Errorf("capacity %d, allocatable %d; want 4 and 3", a.Capacity, a.Allocatable)
	}
	if got, err := m.Allocate("pod", "main", Resource, 3); err != nil || cmp.Diff([]int{0, 2, 3}, indices(got)) != "" {
		t.Errorf("%v, %v", indices(got), err)
	}
	m.SetHealthy(m.Devices()[1].UUID, true)
	if a := m.Advertise(start).Resources[0]; a.Allocatable != 4 {
		t.Errorf("allocatable %d after recovery, want 4", a.Allocatable)
	}
}

func TestDriverVersion(t *testing.T) {
	m := New(h100(1))
	if got := m.Driver(); got != (gpu.Driver{}) || m.DriverReady() {
		t.Errorf("a driver before its pod: %v", got)
	}
	m.SetStack(fullStack(), start)
	if diff := cmp.Diff(gpu.Driver{Version: "580.95.05", CUDA: "13.0"}, m.Driver()); diff != "" || !m.DriverReady() {
		t.Error(diff)
	}
}

// Pods come and go at the same time while others look: run with -race.
func TestConcurrent(t *testing.T) {
	m := serving(h100(8))
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			uid := types.UID(fmt.Sprint("pod-", i))
			for n := range 200 {
				got, err := m.Allocate(uid, "main", Resource, 1+n%2)
				if err == nil && len(got) != 1+n%2 {
					t.Errorf("asked for %d, got %d", 1+n%2, len(got))
				}
				m.Advertise(start)
				m.SetStack(fullStack(), start)
				m.SetHealthy(m.Devices()[i].UUID, n%3 > 0)
				m.Release(uid)
			}
		})
	}
	wg.Wait()
	for _, d := range m.Devices() {
		m.SetHealthy(d.UUID, true)
	}
	if got, err := m.Allocate("last", "main", Resource, 8); err != nil || len(got) != 8 {
		t.Errorf("%d devices, %v: something leaked", len(got), err)
	}
}
