package scheduler

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// A node is cordoned when its maintenance begins and not before, once: who opens it by hand is not overruled. Nodes that leave with a
// reservation are not touched.
func TestNodesAreCordonedAsTheyLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := time.Now().Add(time.Minute).UTC().Format(time.RFC3339)
		leaving, block := node("n1", "r1", 2), node("n2", "r1", 2)
		leaving.Annotations = map[string]string{v1alpha1.KeyLeavesAt: at, v1alpha1.KeyLeavesWith: "driver 580"}
		block.Annotations = map[string]string{v1alpha1.KeyLeavesAt: at, v1alpha1.KeyLeavesWith: "reservation block"}
		w := newWorld(t, leaving, block, node("n3", "r1", 2))
		w.start()
		cordoned := func(want bool) {
			t.Helper()
			for _, name := range []string{"n1", "n2", "n3"} {
				n, err := w.client.CoreV1().Nodes().Get(context.Background(), name, metav1.GetOptions{})
				if err != nil || n.Spec.Unschedulable != (want && name == "n1") {
					t.Errorf("%s: cordoned %t, %v", name, n.Spec.Unschedulable, err)
				}
			}
		}
		w.after(50 * time.Second)
		cordoned(false)
		w.after(20 * time.Second)
		cordoned(true)
		n, err := w.client.CoreV1().Nodes().Get(context.Background(), "n1", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		n.Spec.Unschedulable = false
		if _, err := w.client.CoreV1().Nodes().Update(context.Background(), n, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.after(time.Minute)
		cordoned(false)
	})
}
