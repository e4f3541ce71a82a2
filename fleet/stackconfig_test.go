package fleet

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/fleet/device"
	"github.com/berth-dev/berth/fleet/gpu"
)

func TestPluginConfig(t *testing.T) {
	slicing := "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: %}]}}"
	for _, c := range []struct {
		text string
		want device.PluginConfig
		err  string
	}{
		{"", device.PluginConfig{}, ""},
		{"version: v1\nflags: {migStrategy: mixed, failOnInitError: true}", device.PluginConfig{MIGStrategy: "mixed"}, ""},
		{strings.ReplaceAll(slicing, "%", "4"), device.PluginConfig{Sharing: device.Sharing{Strategy: "time-slicing", Replicas: map[string]int{"nvidia.com/gpu": 4}}}, ""},
		{"sharing: {mps: {renameByDefault: true, resources: [{name: nvidia.com/gpu, replicas: 2}]}}",
			device.PluginConfig{Sharing: device.Sharing{Strategy: "mps", Rename: true, FailMany: true, Replicas: map[string]int{"nvidia.com/gpu": 2}}}, ""},
		{"sharing: {timeSlicing: {failRequestsGreaterThanOne: true, resources: [{name: nvidia.com/gpu, replicas: 2}]}}",
			device.PluginConfig{Sharing: device.Sharing{Strategy: "time-slicing", FailMany: true, Replicas: map[string]int{"nvidia.com/gpu": 2}}}, ""},
		{strings.ReplaceAll(slicing, "%", "1"), device.PluginConfig{}, "number of replicas must be >= 2"},
		{strings.ReplaceAll(slicing, "%", "100000000"), device.PluginConfig{}, "at most 1000 times"},
		{"sharing: {timeSlicing: {}}", device.PluginConfig{}, "no resources specified"},
		{"sharing: {timeSlicing: {resources: [{replicas: 2}]}}", device.PluginConfig{}, "no resource name specified"},
		{"sharing: {timeSlicing: {resources: [{name: x}]}}", device.PluginConfig{}, "no replicas specified"},
		{"flags: {migStrategy: both}", device.PluginConfig{}, "unknown strategy: both"},
		{"version: v2", device.PluginConfig{}, "unknown version: v2"},
		{"[", device.PluginConfig{}, "yaml"},
		{strings.Repeat("#", maxConfig+1), device.PluginConfig{}, "longer than"},
	} {
		got, err := parsePluginConfig(c.text)
		if c.err == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%q: %v, want %q", c.text, err, c.err)
		}
		if diff := cmp.Diff(c.want, got); err == nil && diff != "" {
			t.Errorf("%q: %s", c.text, diff)
		}
	}
}

func TestMIGConfig(t *testing.T) {
	const text = `
version: v1
mig-configs:
  custom:
  - device-filter: "0x233010DE"
    devices: [0, 1]
    mig-enabled: true
    mig-devices: {"1g.10gb": 2, "3g.40gb": 1}
  - device-filter: [a, b]
    devices: all
    mig-enabled: false
`
	got, found, err := parseMIGConfig(text, "custom")
	want := []gpu.MIGSpec{
		{Filter: []string{"0x233010DE"}, Devices: []int{0, 1}, Enabled: true, Counts: map[string]int{"1g.10gb": 2, "3g.40gb": 1}},
		{Filter: []string{"a", "b"}, All: true},
	}
	if diff := cmp.Diff(want, got); diff != "" || !found || err != nil {
		t.Error(found, err, diff)
	}
	if _, found, err := parseMIGConfig(text, "all-balanced"); found || err != nil {
		t.Error(found, err)
	}
	for _, bad := range []string{"version: v9", "version: v1\nmig-configs: {a: [{devices: some}]}", "version: v1\nmig-configs: {a: [{devices: [x]}]}", "{"} {
		if _, _, err := parseMIGConfig(bad, "a"); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

// Whatever a user writes into a ConfigMap, the fleet either says what is wrong or offers a bounded number of devices.
func FuzzStackConfig(f *testing.F) {
	for _, text := range []string{"", "version: v1", "sharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 3}]}}",
		"version: v1\nmig-configs: {a: [{devices: all, mig-enabled: true, mig-devices: {1g.10gb: 9999999999}}]}",
		"version: v1\nmig-configs: {a: [{devices: [-1, 0], mig-enabled: true, mig-devices: {'0': -1}}]}"} {
		f.Add(text)
	}
	h100, _ := gpu.Lookup("h100")
	devices := gpu.Devices("n", []gpu.Group{{Model: h100, Count: 2}})
	f.Fuzz(func(t *testing.T, text string) {
		if c, err := parsePluginConfig(text); err == nil {
			for _, n := range c.Sharing.Replicas {
				if n < 2 || n > maxReplicas {
					t.Errorf("%d replicas", n)
				}
			}
		}
		specs, _, err := parseMIGConfig(text, "a")
		if err != nil {
			return
		}
		m := device.New(device.Config{Devices: devices})
		if parts, err := gpu.ApplyMIG(specs, devices, m.Partitions()); err == nil {
			if err := m.Repartition(parts); err != nil {
				t.Error(err)
			}
		}
	})
}
