package cluster

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// booked are the nodes of each booking that the engine knows.
func (m *Model) booked() map[string][]string {
	out := make(map[string][]string)
	for _, b := range m.Snapshot().Bookings {
		out[b.Name] = b.Nodes
	}
	return out
}

// A booking follows the nodes and the queue, and does not leave nodes that it has without need.
func TestBookings(t *testing.T) {
	from := metav1.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	booking := func(name string, nodes int32) v1alpha1.QueueBooking {
		return v1alpha1.QueueBooking{Name: name, Nodes: nodes, From: from, To: metav1.NewTime(from.Add(time.Hour)), NodeSelector: map[string]string{"rack": "r1"}}
	}
	q := limit("q", 8, nil)
	q.Spec.Bookings = []v1alpha1.QueueBooking{booking("exam", 2)}
	m := NewModel(ModelOptions{})
	m.Set(node("n3", "r1", 8), q, limit("other", 8, nil), node("n4", "r1", 8), node("n1", "r2", 8))
	if diff := cmp.Diff(map[string][]string{"q/exam": {"n3", "n4"}}, m.booked()); diff != "" {
		t.Fatal(diff)
	}
	m.Set(node("n2", "r1", 8))
	if diff := cmp.Diff(map[string][]string{"q/exam": {"n3", "n4"}}, m.booked()); diff != "" {
		t.Error("a node came:", diff)
	}
	m.Delete(node("n3", "r1", 8))
	if diff := cmp.Diff(map[string][]string{"q/exam": {"n2", "n4"}}, m.booked()); diff != "" {
		t.Error("a node went:", diff)
	}
	m.Set(node("n4", "r2", 8))
	if diff := cmp.Diff(map[string][]string{"q/exam": {"n2"}}, m.booked()); diff != "" {
		t.Error("a node was moved:", diff)
	}
	q = q.DeepCopy()
	q.Spec.Bookings = []v1alpha1.QueueBooking{booking("again", 1)}
	m.Set(q)
	if diff := cmp.Diff(map[string][]string{"q/again": {"n2"}}, m.booked()); diff != "" {
		t.Error("another booking:", diff)
	}
	q = q.DeepCopy()
	q.Spec.Bookings = nil
	m.Set(q)
	if got := m.booked(); len(got) > 0 {
		t.Errorf("booked for nobody: %v", got)
	}
	q = q.DeepCopy()
	q.Spec.Bookings = []v1alpha1.QueueBooking{booking("exam", 1)}
	m.Set(q)
	m.settle()
	m.Delete(q)
	if got := m.booked(); len(got) > 0 {
		t.Errorf("booked for a queue that is gone: %v", got)
	}
}

// Nodes that go away are booked for nobody, and no more once they say otherwise.
func TestNodesThatLeave(t *testing.T) {
	leaves := func(name, at, with string) *corev1.Node {
		n := node(name, "r1", 8)
		n.Annotations = map[string]string{v1alpha1.KeyLeavesAt: at, v1alpha1.KeyLeavesWith: with}
		return n
	}
	m := NewModel(ModelOptions{})
	m.Set(leaves("n1", "2026-11-20T08:00:00Z", "reservation block"), leaves("n2", "2026-11-20T08:00:00Z", "reservation block"), leaves("n3", "tomorrow", ""), node("n4", "r1", 8))
	block := "end of reservation block at 2026-11-20 08:00:00 UTC"
	if diff := cmp.Diff(map[string][]string{block: {"n1", "n2"}}, m.booked()); diff != "" {
		t.Fatal(diff)
	}
	m.Set(leaves("n2", "", ""), leaves("n3", "2026-11-20T09:00:00+01:00", ""))
	if diff := cmp.Diff(map[string][]string{block: {"n1"}, "end of its nodes at 2026-11-20 08:00:00 UTC": {"n3"}}, m.booked()); diff != "" {
		t.Error("another says so:", diff)
	}
	m.Delete(node("n1", "r1", 8))
	m.Delete(node("n3", "r1", 8))
	if got := m.booked(); len(got) > 0 {
		t.Errorf("booked for nobody: %v", got)
	}
}
