package provision

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// TestLeavingNodes: which nodes go away with a reservation. It takes no more nodes than it has instances, and none that is paid for
// otherwise.
func TestLeavingNodes(t *testing.T) {
	end := time.Date(2026, 11, 17, 18, 0, 0, 0, time.UTC)
	node := func(name string, labels ...string) corev1.Node {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
		for i := 0; i+1 < len(labels); i += 2 {
			n.Labels[labels[i]] = labels[i+1]
		}
		return n
	}
	pool := v1alpha1.Pool{ObjectMeta: metav1.ObjectMeta{Name: "h200"}}
	pool.Spec.GPUs, pool.Spec.Reservations = []v1alpha1.GPU{{Model: "H200", Count: 8}}, []string{"block"}
	pool.Spec.Launch = &v1alpha1.LaunchPolicy{DrainBefore: &metav1.Duration{Duration: 20 * time.Minute}}
	selecting := v1alpha1.Pool{ObjectMeta: metav1.ObjectMeta{Name: "made-by-others"}}
	selecting.Spec.Selects, selecting.Spec.Reservations = &v1alpha1.NodeSelection{NodePool: "gpu"}, []string{"odcr"}
	reservation := func(name, id string, instances int32, end *metav1.Time) v1alpha1.Reservation {
		r := v1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{Name: name}}
		r.Spec = v1alpha1.ReservationSpec{ID: id, Instances: instances, GPUs: v1alpha1.ReservedGPUs{Model: "H200", Count: 8}, Zone: "a", End: end}
		return r
	}
	at := metav1.NewTime(end)
	machine := func(name string, paid v1alpha1.CapacityType, with string) v1alpha1.Machine {
		return v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.MachineSpec{Pool: "h200", CapacityType: paid, Reservation: with}}
	}
	got := leavingNodes(
		[]corev1.Node{
			node("z-launched", v1alpha1.LabelPool, "h200"), node("y-bought", v1alpha1.LabelPool, "h200"),
			node("a-fixed", v1alpha1.LabelPool, "h200"), node("b-fixed", v1alpha1.LabelPool, "h200"),
			node("karpenter", "karpenter.k8s.aws/capacity-reservation-id", "cr-2"),
			node("selected", "karpenter.sh/nodepool", "gpu", corev1.LabelTopologyZone, "a"), node("spot", "karpenter.sh/nodepool", "gpu", "karpenter.sh/capacity-type", "spot"),
			node("here-a", "cloud.google.com/reservation-name", "cal", corev1.LabelTopologyZone, "a"), node("there-b", "cloud.google.com/reservation-name", "cal", corev1.LabelTopologyZone, "b"),
			node("elsewhere", "karpenter.sh/nodepool", "gpu", corev1.LabelTopologyZone, "b"), node("other"),
		},
		[]v1alpha1.Pool{pool, selecting},
		[]v1alpha1.Reservation{reservation("block", "cr-1", 2, &at), reservation("odcr", "cr-2", 4, &at), reservation("endless", "cr-3", 4, nil), reservation("cal.a", "zones/a/reservations/cal", 4, &at)},
		[]v1alpha1.Machine{machine("z-launched", v1alpha1.CapacityReserved, "block"), machine("y-bought", v1alpha1.CapacityOnDemand, "")},
	)
	want := map[string]leaving{
		"z-launched": {end.Add(-20 * time.Minute), "reservation block"}, "a-fixed": {end.Add(-20 * time.Minute), "reservation block"},
		"karpenter": {end.Add(-45 * time.Minute), "reservation odcr"}, "here-a": {end.Add(-45 * time.Minute), "reservation cal.a"}, "selected": {end.Add(-45 * time.Minute), "reservation odcr"},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(leaving{})); diff != "" {
		t.Error(diff)
	}
}
