package provision

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
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
		end.Add(-time.Hour),
	)
	want := map[string]leaving{
		"z-launched": {end.Add(-20 * time.Minute), "reservation block"}, "a-fixed": {end.Add(-20 * time.Minute), "reservation block"},
		"karpenter": {end.Add(-45 * time.Minute), "reservation odcr"}, "here-a": {end.Add(-45 * time.Minute), "reservation cal.a"}, "selected": {end.Add(-45 * time.Minute), "reservation odcr"},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(leaving{})); diff != "" {
		t.Error(diff)
	}
}

// TestLeavingWithOneOfSeveral: a pool draws on a reservation that is over, on one that is to come and on one that is active, and its nodes
// do not name any. They go away with the active one; only the node on which the first was written stays with that. Nodes of other types and
// spot nodes are of none.
func TestLeavingWithOneOfSeveral(t *testing.T) {
	now := time.Date(2026, 11, 17, 18, 0, 0, 0, time.UTC)
	at := func(hours int) *metav1.Time { return &metav1.Time{Time: now.Add(time.Duration(hours) * time.Hour)} }
	reservation := func(name string, start, end int, state v1alpha1.ReservationState) v1alpha1.Reservation {
		r := v1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{Name: name}}
		r.Spec = v1alpha1.ReservationSpec{ID: "cr-" + name, InstanceType: "p5en.48xlarge", Instances: 2, GPUs: v1alpha1.ReservedGPUs{Count: 8}, Start: at(start), End: at(end)}
		r.Status.State = state
		return r
	}
	pool := v1alpha1.Pool{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	pool.Spec.Selects, pool.Spec.Reservations = &v1alpha1.NodeSelection{NodePool: "gpu"}, []string{"failed", "given-up", "over", "next", "current"}
	node := func(name, kind string, more ...string) corev1.Node {
		n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"karpenter.sh/nodepool": "gpu", corev1.LabelInstanceTypeStable: kind}}}
		for i := 0; i+1 < len(more); i += 2 {
			n.Labels[more[i]] = more[i+1]
		}
		return n
	}
	over := node("z-over", "p5en.48xlarge")
	over.Annotations = map[string]string{v1alpha1.KeyLeavesWith: "reservation over"}
	later := node("y-later", "p5en.48xlarge")
	later.Annotations = map[string]string{v1alpha1.KeyLeavesWith: "reservation current"}
	got := leavingNodes(
		[]corev1.Node{
			node("a", "p5en.48xlarge"), node("b", "p5en.48xlarge"), later, over, node("a100", "p4d.24xlarge"),
			node("spot", "p5en.48xlarge", "cloud.google.com/gke-spot", "true"), node("given-up", "p5en.48xlarge", "karpenter.k8s.aws/capacity-reservation-id", "cr-given-up"),
		},
		[]v1alpha1.Pool{pool},
		[]v1alpha1.Reservation{
			reservation("failed", -48, 48, v1alpha1.ReservationFailed), reservation("given-up", -48, 48, v1alpha1.ReservationExpired),
			reservation("over", -48, -1, ""), reservation("next", 24, 48, ""), reservation("current", -24, 12, ""),
		}, nil, now,
	)
	current := leaving{now.Add(12*time.Hour - leaveBefore), "reservation current"}
	want := map[string]leaving{"a": current, "y-later": current, "z-over": {now.Add(-time.Hour - leaveBefore), "reservation over"}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(leaving{})); diff != "" {
		t.Error(diff)
	}
}

// TestMaintenanceBeforeTheEnd: what others have written on a node stays, unless its reservation takes the node away sooner.
func TestMaintenanceBeforeTheEnd(t *testing.T) {
	now := time.Date(2026, 11, 17, 18, 0, 0, 0, time.UTC)
	f := &fake{now: now, nodes: map[string]engine.Node{}, notes: map[string]map[string]string{}}
	end := metav1.NewTime(now.Add(24 * time.Hour))
	block := v1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{Name: "block"}}
	block.Spec = v1alpha1.ReservationSpec{ID: "cr-1", Instances: 9, End: &end}
	for name, at := range map[string]string{"tonight": "2026-11-17T20:00:00Z", "next-week": "2026-11-24T20:00:00Z", "unread": "soon", "none": ""} {
		f.nodes[name] = engine.Node{Labels: map[string]string{"karpenter.k8s.aws/capacity-reservation-id": "cr-1"}}
		if f.notes[name] = map[string]string{}; at != "" {
			f.notes[name] = map[string]string{v1alpha1.KeyLeavesAt: at, v1alpha1.KeyLeavesWith: "driver 580"}
		}
	}
	c := &controller{store: f}
	if err := c.tellEnds(t.Context(), nil, []v1alpha1.Reservation{block}, nil, now); err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	for name, notes := range f.notes {
		got[name] = notes[v1alpha1.KeyLeavesAt] + " " + notes[v1alpha1.KeyLeavesWith]
	}
	taken := "2026-11-18T17:15:00Z reservation block"
	want := map[string]string{"tonight": "2026-11-17T20:00:00Z driver 580", "next-week": taken, "unread": taken, "none": taken}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
