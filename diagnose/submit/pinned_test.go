package submit

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A pod that names its node is refused there where it finds no room, and no scheduler looks further.
func TestNodesThatAreNamedRefuse(t *testing.T) {
	for _, c := range []struct{ more, want string }{
		{"\n      nodeName: node-1", "starts now on node node-1"},
		{"\n      nodeName: node-0", "spec.nodeName puts it on node node-0 past every scheduler, and 0 of the 1 nvidia.com/gpu that it asks for are free there: the kubelet refuses it"},
		{"\n      nodeName: gone", "spec.nodeName is gone, and there is no node of that name: the pod is deleted again"},
		{"\n      nodeName: node-1\n      nodeSelector: {zone: a}", "spec.nodeName is node-1, which is none of the nodes that the pod's selector or affinity asks for: its kubelet refuses it"},
	} {
		w := Check(World{Facts: clusterOf(2, 1)}, "default", items(t, job("j", 1, 1, c.more))).Workloads[0]
		if w.Summary != c.want || (w.Verdict == Starts) != strings.HasPrefix(c.want, "starts") {
			t.Errorf("%s: %s, %s", c.more, w.Verdict, w.Summary)
		}
		for _, x := range w.Fixes {
			if !x.Verified || x.Then != Starts {
				t.Errorf("%s: %+v", c.more, x)
			}
		}
	}
}

// A pod that waits for room is said to evict others where another scheduler than Berth decides, and its priority is higher.
func TestWaitsSayWhoIsEvicted(t *testing.T) {
	for priority, want := range map[string]bool{"high": true, "polite": false, "low": false} {
		f := clusterOf(1, 1)
		never := corev1.PreemptNever
		f.PriorityClasses = []*schedulingv1.PriorityClass{
			{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 1000},
			{ObjectMeta: metav1.ObjectMeta{Name: "polite"}, Value: 1000, PreemptionPolicy: &never},
			{ObjectMeta: metav1.ObjectMeta{Name: "low"}},
		}
		w := Check(World{Facts: f}, "default", items(t, job("j", 1, 8, "\n      priorityClassName: "+priority))).Workloads[0]
		if got := strings.Contains(w.Summary, "may evict pods of lower priority for it, such as other/busy-0"); got != want || w.Verdict != Waits {
			t.Errorf("%s: %s, %s", priority, w.Verdict, w.Summary)
		}
	}
}
