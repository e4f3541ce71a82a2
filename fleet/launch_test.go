package fleet

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/fleet/fault"
)

func asked(name, zone string, index int32, phase v1alpha1.MachinePhase) *v1alpha1.Machine {
	m := &v1alpha1.Machine{Spec: v1alpha1.MachineSpec{Pool: "p", Zone: zone, Index: index, CapacityType: v1alpha1.CapacitySpot, For: "team/train"}}
	m.Name, m.Status.Phase = name, phase
	return m
}

// TestLaunchedMachinesAreWanted makes nodes of Machines that were given, in their zone, and of no others.
func TestLaunchedMachinesAreWanted(t *testing.T) {
	pool := gpuPool("p", 0)
	pool.Spec.Nodes, pool.Spec.Launch = nil, &v1alpha1.LaunchPolicy{Zones: []string{"a", "b"}}
	pool.Spec.Topology.NodesPerRack = new(int32(2))
	gone := asked("gone", "a", 1, v1alpha1.MachineLaunched)
	gone.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	other := asked("other", "a", 1, v1alpha1.MachineLaunched)
	other.Spec.Pool = "elsewhere"
	list := []*v1alpha1.Machine{asked("new", "a", 0, ""), asked("failed", "a", 0, v1alpha1.MachineFailed), asked("train-0", "b", 3, v1alpha1.MachineLaunched), gone, other}
	got := launched([]*v1alpha1.Pool{pool}, list, nil)
	if len(got) != 1 || got[0].name() != "train-0" {
		t.Fatalf("%+v", got)
	}
	labels := gives(got[0]).Labels
	want := map[string]string{v1alpha1.LabelPool: "p", v1alpha1.LabelZone: "b", v1alpha1.LabelRack: "p-rack-1", v1alpha1.LabelCapacityType: "spot", "kubernetes.io/hostname": "train-0"}
	for key, value := range want {
		if labels[key] != value {
			t.Errorf("label %s is %q, want %q", key, labels[key], value)
		}
	}
	if pool.Spec.Topology.Zone != "" {
		t.Error("the pool was written to")
	}
}

// TestProviderAnswers gives machines as far as there are some, and else the error of the fault.
func TestProviderAnswers(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	zone := fault.Launch{Pool: "p", Zone: "a", Error: v1alpha1.ErrorInsufficientInstanceCapacity, Available: 2}
	for _, c := range []struct {
		zone    string
		failing []fault.Launch
		given   int
		want    v1alpha1.MachinePhase
		code    string
	}{
		{"a", nil, 9, v1alpha1.MachineLaunched, ""},
		{"a", []fault.Launch{zone}, 1, v1alpha1.MachineLaunched, ""},
		{"a", []fault.Launch{zone}, 2, v1alpha1.MachineFailed, "InsufficientInstanceCapacity"},
		{"b", []fault.Launch{zone}, 2, v1alpha1.MachineLaunched, ""},
		{"b", []fault.Launch{{Pool: "q", Error: v1alpha1.ErrorUnauthorized}}, 0, v1alpha1.MachineLaunched, ""},
		{"b", []fault.Launch{{Pool: "p", Error: v1alpha1.ErrorVcpuLimitExceeded}}, 0, v1alpha1.MachineFailed, "VcpuLimitExceeded"},
		{"b", []fault.Launch{{Pool: "p", Error: v1alpha1.ErrorReservationCapacityExceeded}}, 0, v1alpha1.MachineLaunched, ""}, // it is spot
		{"b", []fault.Launch{{Pool: "p", Error: v1alpha1.ErrorLaunchTimeout}}, 0, "", ""},
	} {
		got, answered := answerTo(asked("m", c.zone, 0, ""), c.failing, c.given, now)
		if answered != (c.want != "") || got.Phase != c.want || got.Error != c.code {
			t.Errorf("%s %+v given %d: %+v", c.zone, c.failing, c.given, got)
		}
		if want := c.want == v1alpha1.MachineLaunched; (got.LaunchedAt != nil) != want {
			t.Error(cmp.Diff(nil, got))
		}
	}
}
