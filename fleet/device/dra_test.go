package device

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// draPod is a DRA driver's pod as NVIDIA's chart makes it.
func draPod() StackPod {
	return StackPod{Name: "gpu-operator/dra", Role: DRA, Ready: true, HostPaths: []string{"/var/lib/kubelet/plugins", "/var/lib/kubelet/plugins_registry/"}}
}

func draMachine() *Manager {
	cfg := h100(4)
	cfg.Advertise, cfg.HostDriver = ByDRA, true
	return New(cfg)
}

func TestSlicesFollowTheDriver(t *testing.T) {
	m := draMachine()
	step := func(what string, pods []StackPod, after time.Duration, want SliceState) {
		t.Helper()
		m.SetStack(pods, start.Add(after))
		if diff := cmp.Diff(want, m.Slices(start.Add(after))); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
		if m.DRAReady() != want.Publish {
			t.Errorf("%s: ready to prepare claims: %t", what, m.DRAReady())
		}
	}
	blind, half := draPod(), draPod()
	blind.HostPaths, half.HostPaths = nil, half.HostPaths[:1]
	waiting := SliceState{Keep: true, Changes: start.Add(WipingDelay)}
	step("what an earlier kubelet left stays a while", nil, 0, waiting)
	step("no mounts", []StackPod{blind}, time.Second, waiting)
	step("one of two mounts", []StackPod{half}, 2*time.Second, waiting)
	step("nobody came", nil, WipingDelay, SliceState{})
	step("ready", []StackPod{draPod()}, time.Minute, SliceState{Publish: true, Keep: true})
	step("gone", nil, 2*time.Minute, SliceState{Keep: true, Changes: start.Add(2*time.Minute + WipingDelay)})
	step("back in time", []StackPod{draPod()}, 2*time.Minute+WipingDelay-1, SliceState{Publish: true, Keep: true})
}

func TestNoSliceWithoutTheMachinesConsent(t *testing.T) {
	plugin, driverless, empty := h100(4), h100(4), h100(0)
	plugin.HostDriver, empty.HostDriver = true, true
	driverless.Advertise, empty.Advertise = ByDRA, ByDRA
	for what, cfg := range map[string]Config{"device-plugin pool": plugin, "no driver": driverless, "no GPUs": empty} {
		m := New(cfg)
		m.SetStack([]StackPod{draPod()}, start)
		if m.Slices(start).Publish {
			t.Errorf("%s: publishes", what)
		}
	}
}

func TestPrepare(t *testing.T) {
	m := draMachine()
	ids := uuids(m.Devices())
	try := func(pod, claim types.UID, devices []string, want string) {
		t.Helper()
		got := ""
		if err := m.Prepare(pod, claim, devices); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s for %s: %q, want %q", claim, pod, got, want)
		}
	}
	try("p1", "c1", ids[:2], "")
	try("p1", "c1", ids[:2], "")
	try("p2", "c1", ids[:2], "") // shared
	try("p3", "c2", ids[1:3], fmt.Sprintf("device %s is already in use by claim c1", ids[1]))
	try("p3", "c1", ids[:1], "claim c1 is already prepared with other devices")
	try("p3", "c3", []string{"GPU-x"}, "requested device is not allocatable: GPU-x")
	try("p3", "c4", ids[2:], "")
	m.Release("p1")
	try("p4", "c2", ids[1:2], fmt.Sprintf("device %s is already in use by claim c1", ids[1]))
	m.Release("p2")
	try("p4", "c2", ids[1:2], "")
	if got, err := m.Allocate("p5", "c", Resource, 1); got != nil || err != nil {
		t.Errorf("a resource that nobody registered: %v, %v", got, err)
	}
}

// However pods come by devices, one is never under two of them unless they share the claim.
func TestOneDeviceOneHolder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := h100(6)
		cfg.HostDriver = true
		m := New(cfg)
		m.SetStack(fullStack(), start)
		all := uuids(m.Devices())
		holder := map[string]string{}                // device -> claim or pod
		claims := map[types.UID]map[types.UID]bool{} // claim -> pods
		pod := func() types.UID { return types.UID(rapid.SampledFrom([]string{"p1", "p2", "p3"}).Draw(t, "pod")) }
		take := func(ids []string, who types.UID) {
			for _, id := range ids {
				if o := holder[id]; o != "" && o != string(who) {
					t.Fatalf("%s is under %s and %s", id, o, who)
				}
				holder[id] = string(who)
			}
		}
		drop := func(who types.UID) {
			for id, o := range holder {
				if o == string(who) {
					delete(holder, id)
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"allocate": func(t *rapid.T) {
				p := pod()
				if got, err := m.Allocate(p, "c", Resource, rapid.IntRange(1, 3).Draw(t, "n")); err == nil {
					take(uuids(got), p)
				}
			},
			"prepare": func(t *rapid.T) {
				p, c := pod(), types.UID(rapid.SampledFrom([]string{"c1", "c2"}).Draw(t, "claim"))
				from := rapid.IntRange(0, 5).Draw(t, "from")
				ids := all[from:rapid.IntRange(from, 6).Draw(t, "to")]
				if m.Prepare(p, c, ids) == nil {
					take(ids, c)
					if claims[c] == nil {
						claims[c] = map[types.UID]bool{}
					}
					claims[c][p] = true
				}
			},
			"release": func(t *rapid.T) {
				p := pod()
				m.Release(p)
				drop(p)
				for c, pods := range claims {
					if delete(pods, p); len(pods) == 0 {
						drop(c)
						delete(claims, c)
					}
				}
			},
			"": func(t *rapid.T) {
				if len(holder) != len(m.owner) {
					t.Fatalf("%d devices are held, and %d marked as taken", len(holder), len(m.owner))
				}
			},
		})
	})
}
