package dra

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/fleet/gpu"
)

// GPUs that the driver's health checks find fault with have taints, and so have their parts; without the checks none has.
func TestTaintsOfGPUs(t *testing.T) {
	m := cutting(t) // an H100 whose parts are offered beside it, an A30 of which the parts alone are, and an L4
	said := func() map[string]string {
		out := map[string]string{}
		for _, s := range m.Slices(owner()) {
			for _, d := range s.Spec.Devices {
				for _, taint := range d.Taints {
					out[d.Name] += fmt.Sprintf("%s=%s:%s ", taint.Key, taint.Value, taint.Effect)
				}
			}
		}
		return out
	}
	if got := said(); len(got) > 0 {
		t.Errorf("without checks %v", got)
	}
	m.Trouble = map[int]gpu.Trouble{0: {Xid: 79, Lost: true}, 2: {Xid: 13}, 7: {Xid: 48}}
	want := map[string]string{"gpu-2": "gpu.nvidia.com/xid=13:None "}
	for _, d := range m.offered(m.GPUs[0]) {
		want[Name(d)] = "gpu.nvidia.com/gpu-lost=:NoSchedule gpu.nvidia.com/xid=79:NoSchedule "
	}
	if diff := cmp.Diff(want, said()); diff != "" {
		t.Error(diff)
	}
}

// The API server enters since when a taint is there. That alone is no news, and it stays while the taint does.
func TestTaintsKeepTheirTime(t *testing.T) {
	m := workstation(t)
	m.Trouble = map[int]gpu.Trouble{1: {Xid: 48}}
	have := m.Slices(owner())[0]
	since := metav1.NewTime(time.Date(2026, 11, 17, 12, 0, 0, 0, time.UTC))
	have.Spec.Devices[1].Taints[0].TimeAdded = &since
	there := map[string]*resourcev1.ResourceSlice{have.Name: have}
	if got := Next(there, m.Slices(owner())); got[0] != nil {
		t.Errorf("written again: %v", got[0].Spec.Devices[1].Taints)
	}
	m.Trouble = map[int]gpu.Trouble{0: {Xid: 95}, 1: {Xid: 48}}
	next := Next(there, m.Slices(owner()))[0]
	if next == nil || next.Spec.Pool.Generation != 2 || next.Spec.Devices[0].Taints[0].TimeAdded != nil || !next.Spec.Devices[1].Taints[0].TimeAdded.Equal(&since) {
		t.Errorf("a second one: %+v", next)
	}
	m.Trouble = map[int]gpu.Trouble{1: {Xid: 95}}
	if next := Next(there, m.Slices(owner()))[0]; next == nil || next.Spec.Devices[1].Taints[0].TimeAdded != nil {
		t.Errorf("another Xid: %+v", next)
	}
}
