package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
)

// A cluster in which all is well, and what each check says when one thing of it is changed.
func TestChecksFindWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(*look)
		want  []string // kinds of findings
	}{
		{"all is well", func(*look) {}, nil},
		{"a device under two pods", func(l *look) { hold(&l.pods[1], "GPU-0", "GPU-5", "GPU-6", "GPU-7") }, []string{"device given twice"}},
		{"a pod that is over holds nothing", func(l *look) {
			hold(&l.pods[1], "GPU-0", "GPU-1", "GPU-2", "GPU-3")
			l.pods[1].Status.Phase = corev1.PodFailed
			l.pods[0].Annotations[keyMin] = "1"
		}, nil},
		{"fewer devices than asked for", func(l *look) { hold(&l.pods[1], "GPU-4") }, []string{"wrong devices"}},
		{"more pods than the node has GPUs", func(l *look) {
			l.nodes[0].Status.Allocatable[gpu] = resource.MustParse("6")
		}, []string{"node overbooked", "node missing"}},
		{"a member of the gang failed", func(l *look) { l.pods[1].Status.Phase = corev1.PodFailed }, []string{"gang under its minimum"}},
		{"a member of the gang is done", func(l *look) { l.pods[1].Status.Phase = corev1.PodSucceeded }, nil},
		{"a member waits for one that is done", func(l *look) {
			l.pods[0].Status.Phase = corev1.PodSucceeded
			l.pods[1].Spec.NodeName = ""
			l.pods[1].Status = l.pods[2].Status
			l.pods[1].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "GangIncomplete", Message: "1 of 2"}}
		}, []string{"waits for members that are done", "waits beside free GPUs"}},
		{"a member that goes away does not run", func(l *look) {
			l.pods[1].DeletionTimestamp = &metav1.Time{Time: time.Now()}
		}, []string{"gang under its minimum", "does not go away"}},
		{"a gang in two racks", func(l *look) {
			l.pods[0].Annotations["berth.dev/topology-required"] = "rack"
			l.pods[1].Spec.NodeName, l.pods[3].Spec.NodeName = node(15), node(0)
			l.pods[0].Spec.Containers[0].Resources, l.pods[1].Spec.Containers[0].Resources = gpus(0), gpus(0)
			delete(l.pods[0].Annotations, "berth.dev/gpus")
			delete(l.pods[1].Annotations, "berth.dev/gpus")
			l.pods[2].Status.Phase = corev1.PodFailed
		}, []string{"gang apart"}},
		{"bare pods are not let go", func(l *look) {
			l.pods[1].Status.Phase = corev1.PodFailed
			l.pods[0].OwnerReferences = nil
		}, nil},
		{"nothing said to a pod that waits", func(l *look) { l.pods[2].Status.Conditions = nil }, []string{"waits and is not told why"}},
		{"something else said than is so", func(l *look) {
			l.pods[2].Status.Conditions[0].Reason = "GangIncomplete"
		}, []string{"told another reason"}},
		{"room for a pod that waits", func(l *look) {
			l.pods[2].Spec.Containers[0].Resources = gpus(0)
		}, []string{"waits beside free GPUs"}},
		{"a start that nobody makes", func(l *look) {
			l.plans[0] = engine.Plan{Starts: []engine.Start{{Gang: "chaos/c", Placements: []engine.Placement{{Pod: "chaos/c"}}}}}
		}, []string{"forgotten"}},
		{"a queue that holds more than it may", func(l *look) {
			for i := range l.pods {
				l.pods[i].Annotations[v1alpha1.KeyQueue] = "team-c"
			}
		}, []string{"queue over its limit"}},
		{"a pod that was to be evicted and runs on", func(l *look) {
			l.pods[1].Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "Reclaimed"}}
		}, []string{"marked and not evicted"}},
		{"room that is never there", func(l *look) { l.pods[2].Status.Conditions[0].Reason = "MakingRoom" }, []string{"told another reason", "room is made and never there"}},
		{"an eviction that nobody makes", func(l *look) {
			l.plans[0].Evictions = []engine.Eviction{{Pod: "chaos/a", Cause: engine.Reclaimed, For: "chaos/c"}, {Pod: "chaos/b", Cause: engine.Moved}}
		}, []string{"would evict"}},
		{"a pod that its node does not start", func(l *look) { l.pods[1].Status.Phase = corev1.PodPending }, []string{"does not start"}},
		{"a node that does not come back", func(l *look) { l.nodes = l.nodes[:nodes-1] }, []string{"node missing", "on a node that is gone"}},
		{"a node that nobody may use", func(l *look) { l.nodes[3].Spec.Unschedulable = true }, []string{"node missing"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := well()
			c.spoil(l)
			var got []string
			for _, f := range l.check() {
				got = append(got, f.kind)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAFindingMustLast(t *testing.T) {
	f := finding{kind: "forgotten", subject: "x"}
	since := make(map[string]time.Time)
	start := time.Now()
	for _, c := range []struct {
		name  string
		after time.Duration
		found []finding
		old   []finding
	}{
		{"seen", 0, []finding{f}, nil},
		{"seen just before patience ends", patience - 1, []finding{f}, nil},
		{"gone for a moment", patience, nil, nil},
		{"seen again, as new", patience + 1, []finding{f}, nil},
		{"seen for longer than patience", 2*patience + 1, []finding{f}, []finding{f}},
	} {
		_, old := judge(c.found, since, start.Add(c.after))
		if diff := cmp.Diff(c.old, old, cmp.AllowUnexported(finding{})); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

// well is sixteen full nodes with a gang of two on the first and a pod that waits for a whole node.
func well() *look {
	l := &look{pods: []corev1.Pod{pod("a", node(0), 4), pod("b", node(0), 4), pod("c", "", 8)}}
	for i := range l.pods[:2] {
		p := &l.pods[i]
		p.Annotations[keyMin] = "2"
		p.Labels = map[string]string{labelWorkload: "gang"}
		yes := true
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: "gang", UID: "gang", Controller: &yes}}
	}
	hold(&l.pods[0], "GPU-0", "GPU-1", "GPU-2", "GPU-3")
	hold(&l.pods[1], "GPU-4", "GPU-5", "GPU-6", "GPU-7")
	l.pods[2].Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "no room",
	}}}
	l.expected = (&world{}).expected()
	for i := range nodes {
		l.nodes = append(l.nodes, corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: node(i), Labels: map[string]string{"berth.dev/rack": fmt.Sprint("r-", i/4)}},
			Status:     corev1.NodeStatus{Allocatable: corev1.ResourceList{gpu: resource.MustParse("8")}},
		})
		if i > 0 {
			filler := pod("filler-"+node(i), node(i), 8)
			filler.Namespace = "other"
			l.pods = append(l.pods, filler)
		}
	}
	l.plans = []engine.Plan{{Waiting: []engine.Waiting{{Gang: "chaos/c", Verdict: why.Impossible}}}}
	return l
}

func pod(name, on string, n int64) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name), Annotations: map[string]string{}},
		Spec: corev1.PodSpec{NodeName: on, SchedulerName: one, Containers: []corev1.Container{{
			Name: "c", Resources: gpus(n),
		}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

func gpus(n int64) corev1.ResourceRequirements {
	list := corev1.ResourceList{gpu: *resource.NewQuantity(n, resource.DecimalSI)}
	return corev1.ResourceRequirements{Limits: list, Requests: list}
}

func hold(p *corev1.Pod, ids ...string) {
	list := `"` + ids[0] + `"`
	for _, id := range ids[1:] {
		list += `,"` + id + `"`
	}
	p.Annotations["berth.dev/gpus"] = `{"c":[` + list + `]}`
}
