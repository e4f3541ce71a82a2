package device

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/fleet/gpu"
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
	all := m.Devices()
	ids := uuids(all)
	try := func(pod, claim types.UID, devices []gpu.Device, want string) {
		t.Helper()
		got := ""
		if err := m.Prepare(pod, claim, devices); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s for %s: %q, want %q", claim, pod, got, want)
		}
	}
	try("p1", "c1", all[:2], "")
	try("p1", "c1", all[:2], "")
	try("p2", "c1", all[:2], "") // shared
	try("p3", "c2", all[1:3], fmt.Sprintf("device %s is already in use by claim c1", ids[1]))
	try("p3", "c1", all[:1], "claim c1 is already prepared with other devices")
	try("p3", "c3", []gpu.Device{{UUID: "GPU-x"}}, "requested device is not allocatable: GPU-x")
	try("p3", "c4", all[2:], "")
	m.Release("p1")
	try("p4", "c2", all[1:2], fmt.Sprintf("device %s is already in use by claim c1", ids[1]))
	m.Release("p2")
	try("p4", "c2", all[1:2], "")
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
				to := rapid.IntRange(from, 6).Draw(t, "to")
				ids, gpus := all[from:to], m.Devices()[from:to]
				if m.Prepare(p, c, gpus) == nil {
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

// cutMachine has a GPU of each kind: one that changes its MIG mode at any time, one that needs a reset for it, one without MIG.
func cutMachine(t *testing.T) *Manager {
	t.Helper()
	var groups []gpu.Group
	for _, name := range []string{"h100", "a100", "l40s"} {
		model, ok := gpu.Lookup(name)
		if !ok {
			t.Fatal(name)
		}
		groups = append(groups, gpu.Group{Model: model, Count: 1})
	}
	return New(Config{Devices: gpu.Devices("n", groups), Driver: gpu.Driver{Version: "580.95.05"}, HostDriver: true, Advertise: ByDRA, DynamicMIG: true})
}

// part is a device that MIG could make of the i-th GPU.
func part(t *testing.T, m *Manager, i int, profile string, start int) gpu.Device {
	t.Helper()
	d := m.Devices()[i]
	p, ok := d.Model.Profile(profile)
	if !ok {
		t.Fatal(profile)
	}
	d.MIG = &gpu.Instance{Profile: p, Start: start, Compute: true}
	return d
}

func TestClaimsCutGPUs(t *testing.T) {
	m := cutMachine(t)
	whole := m.Devices()
	three, other, half := part(t, m, 0, "3g.40gb", 0), part(t, m, 0, "1g.10gb", 2), part(t, m, 0, "3g.40gb", 4)
	small := part(t, m, 1, "1g.10gb", 0)
	try := func(pod, claim types.UID, want string, devices ...gpu.Device) {
		t.Helper()
		got := ""
		before := m.Partitions()
		if err := m.Prepare(pod, claim, devices); err != nil {
			got = err.Error()
			if !SamePartitions(before, m.Partitions()) {
				t.Errorf("%s for %s failed and cut GPUs", claim, pod)
			}
		}
		if got != want {
			t.Errorf("%s for %s: %q, want %q", claim, pod, got, want)
		}
	}
	state := func(what string, want ...string) {
		t.Helper()
		var got []string
		for _, p := range m.Partitions() {
			text := fmt.Sprint(p.Enabled)
			for _, in := range p.Instances {
				text += fmt.Sprintf(" %s@%d", in.Profile.Name, in.Start)
			}
			got = append(got, text)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	state("at the start", "false", "true", "false")
	try("p2", "c2", fmt.Sprintf("device %s: In use by another client", whole[1].UUID), whole[2], whole[1])
	try("p2", "c2", "prepare devices failed: error creating MIG device: error creating GPU instance for 3g.40gb on "+whole[0].UUID+": Invalid Argument", part(t, m, 0, "3g.40gb", 1))
	try("p1", "c1", "", three, small)
	try("p1", "c1", "", three, small)
	state("two parts", "true 3g.40gb@0", "true 1g.10gb@0", "false")
	try("p2", "c2", "prepare devices failed: error creating MIG device: error creating GPU instance for 1g.10gb on "+whole[0].UUID+": Insufficient Resources", half, other)
	try("p2", "c2", fmt.Sprintf("device %s is already in use by claim c1", whole[0].UUID), whole[0])
	try("p2", "c2", fmt.Sprintf("device %s is already in use by claim c1", three.ID()), three)
	try("p2", "c2", "", half)
	try("p3", "c1", "", three, small) // shared
	m.Release("p1")
	state("somebody shares the claim", "true 3g.40gb@0 3g.40gb@4", "true 1g.10gb@0", "false")
	m.Release("p3")
	state("its parts are gone", "true 3g.40gb@4", "true", "false")
	m.Release("p2")
	state("whole again", "false", "true", "false")
	try("p4", "c4", "", whole[0], whole[2])
	if a := m.Advertise(start); a.Partitions != "" {
		t.Errorf("the node remembers %s", a.Partitions)
	}
	plain := New(Config{Devices: whole, Driver: gpu.Driver{Version: "580.95.05"}, HostDriver: true, Advertise: ByDRA})
	if err := plain.Prepare("p", "c", []gpu.Device{three}); err == nil {
		t.Error("a claim cut a GPU of a driver that does not do that")
	}
}

// Whatever claims come and go, no two of them have anything of a GPU in common, and nothing stays when all are gone.
func TestPartsOfClaims(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		m := cutMachine(t)
		held := map[types.UID][]gpu.Device{}
		r.Repeat(map[string]func(*rapid.T){
			"prepare": func(r *rapid.T) {
				at := rapid.IntRange(0, 2).Draw(r, "gpu")
				d := m.Devices()[at]
				if profiles := d.Model.Profiles(); len(profiles) > 0 && rapid.Bool().Draw(r, "part") {
					p := rapid.SampledFrom(profiles).Draw(r, "profile")
					d.MIG = &gpu.Instance{Profile: p, Start: rapid.SampledFrom(p.Starts).Draw(r, "start"), Compute: true}
				}
				uid := types.UID(fmt.Sprint(len(held), "-", rapid.IntRange(0, 1<<20).Draw(r, "uid")))
				if m.Prepare(uid, uid, []gpu.Device{d}) == nil {
					held[uid] = []gpu.Device{d}
				}
			},
			"release": func(r *rapid.T) {
				for uid := range held {
					m.Release(uid)
					delete(held, uid)
					break
				}
			},
			"": func(r *rapid.T) {
				slots := map[string]bool{}
				take := func(d gpu.Device, slot int) {
					key := fmt.Sprint(d.UUID, slot)
					if slots[key] {
						r.Fatalf("slot %d of GPU %d has two holders", slot, d.Index)
					}
					slots[key] = true
				}
				parts := 0
				for _, list := range held {
					d := list[0]
					if from, to := 0, max(d.Model.Slots(), 1); d.MIG == nil {
						for s := from; s < to; s++ {
							take(d, s)
						}
						continue
					}
					parts++
					for s := range d.MIG.Profile.Size {
						take(d, d.MIG.Start+s)
					}
				}
				for i, p := range m.Partitions() {
					parts -= len(p.Instances)
					if want := len(p.Instances) > 0 || m.Devices()[i].Model.MIGNeedsReset(); p.Enabled != want {
						r.Fatalf("GPU %d: MIG mode %t with %d instances", i, p.Enabled, len(p.Instances))
					}
				}
				if parts != 0 {
					r.Fatalf("%d parts more in claims than on GPUs", parts)
				}
			},
		})
	})
}

// Claims have shares of one GPU side by side, and give them back one by one.
func TestShares(t *testing.T) {
	cfg := Config{Devices: []gpu.Device{{Index: 0, UUID: "GPU-0"}}, Advertise: ByDRA, Shares: true}
	m := New(cfg)
	for i := range 12 {
		id := types.UID(fmt.Sprint(i))
		for range 2 { // the kubelet may ask again
			if err := m.Prepare("pod-"+id, "claim-"+id, cfg.Devices); err != nil {
				t.Fatalf("share %d: %v", i, err)
			}
		}
	}
	if err := m.Prepare("pod-x", "claim-x", []gpu.Device{{UUID: "GPU-9"}}); err == nil {
		t.Error("a share of a GPU that is not there")
	}
	m.Release("pod-3")
	if err := m.Prepare("pod-y", "claim-y", cfg.Devices); err != nil {
		t.Error(err)
	}
}

// A driver with health checks sees what is wrong with GPUs; by default it does not look.
func TestWhatTheDRADriverSees(t *testing.T) {
	for gates, want := range map[string]bool{"": false, "NVMLDeviceHealthCheck=true": true, "DynamicMIG=true,NVMLDeviceHealthCheck=true": true, "NVMLDeviceHealthCheck=false": false} {
		m := New(Config{Devices: gpu.Devices("n", []gpu.Group{{Count: 2}}), HostDriver: true, Driver: gpu.Driver{Version: "580.95.05"}, Advertise: ByDRA})
		m.SetStack([]StackPod{{Name: "x/dra", Role: DRA, Ready: true, Env: map[string]string{"FEATURE_GATES": gates}}}, time.Now())
		m.SetTrouble(map[int]gpu.Trouble{1: {Xid: 79}}, false)
		if got := m.Seen()[1].Xid == 79; got != want {
			t.Errorf("with %q: %t", gates, got)
		}
	}
}
