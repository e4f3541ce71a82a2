package kubelet

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/fleet/device"
	"github.com/berth-dev/berth/fleet/gpu"
)

func (w *world) readings() []gpu.Reading {
	w.k.mu.Lock()
	h := w.k.hosts["n0"]
	w.k.mu.Unlock()
	return w.k.read(h, w.machines["n0"])
}

// What a program did is in the energy of its GPUs although nobody looked while it ran: to its end, or until the loss of a
// peer left it waiting.
func TestEnergyOfWorkThatNobodyWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(testPod("idle", "busybox", command("sleep", "1000"), gpus(1))) // the meters begin
		train := func(name, key, value string, more ...func(*corev1.Pod)) {
			w.create(testPod(name, "pytorch", append(more, command("python", "train.py"), gpus(1), policy(corev1.RestartPolicyNever), annotate(key, value))...))
		}
		pair := func(p *corev1.Pod) {
			annotate("sim.berth.dev/world", "2")(p)
			annotate("sim.berth.dev/group", "pair")(p)
		}
		train("short", "sim.berth.dev/run", "1m")
		train("fails", "sim.berth.dev/fail-after", "2m", pair)
		train("waits", "sim.berth.dev/timeout", "3h", pair)
		time.Sleep(time.Hour)
		got := map[string]float64{} // minutes at 90 %
		for name, r := range map[string]gpu.Reading{"idle": w.readings()[0], "short": w.readings()[1], "fails": w.readings()[2], "waits": w.readings()[3]} {
			idle := 3600 * float64(r.Model.IdleWatts)
			got[name] = math.Round((float64(r.EnergyMillijoules)/1000-idle)/0.9/float64(r.Model.PowerWatts-r.Model.IdleWatts)) / 60
		}
		if diff := cmp.Diff(map[string]float64{"idle": 0, "short": 1, "fails": 2, "waits": 2}, got); diff != "" {
			t.Error(diff)
		}
	})
}

// An instance at full load is so much of its GPU as its compute slices are, and its container sees no other.
func TestReadingsOfInstances(t *testing.T) {
	h100, _ := gpu.Lookup("h100")
	list, err := h100.Layout(map[string]int{"1g.10gb": 1, "3g.40gb": 1})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		offering(w, 1, device.PluginConfig{MIGStrategy: "mixed"}, gpu.Partition{Enabled: true, Instances: list})
		w.create(testPod("three", "pytorch", request("nvidia.com/mig-3g.40gb", "1"), command("python", "train.py"), annotate("sim.berth.dev/gpu-util", "100")))
		w.create(testPod("one", "pytorch", request("nvidia.com/mig-1g.10gb", "1"), command("sleep", "1000")))
		time.Sleep(5 * time.Minute)
		r := w.readings()[0]
		type shown struct {
			Activity float64
			UsedMiB  int
		}
		got := map[string]shown{"gpu": {math.Round(10 * r.Activity), r.MemUsedMiB}}
		for _, p := range r.Parts {
			got[p.Profile.Name] = shown{math.Round(10 * p.Activity), p.UsedMiB}
		}
		want := map[string]shown{"gpu": {4, contextMiB}, "1g.10gb": {0, 0}, "3g.40gb": {10, contextMiB}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		p, err := w.k.processFor(ref("one"))
		if err != nil {
			t.Fatal(err)
		}
		mine := p.readings()
		if len(mine) != 1 || len(mine[0].Parts) != 1 || mine[0].MemUsedMiB != 0 || len(mine[0].Processes) != 0 || mine[0].PowerWatts != r.PowerWatts {
			t.Errorf("the pod on 1g.10gb sees %+v", mine)
		}
	})
}
