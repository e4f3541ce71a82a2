package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/dialect/kai"
)

// kaiModel is a cluster of one node with eight GPUs where KAI's manifests are read.
func kaiModel() *Model {
	m := NewModel(ModelOptions{For: []string{DefaultName, kai.SchedulerName}})
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n"}}
	n.Status.Allocatable = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8"), "cpu": resource.MustParse("64"), "memory": resource.MustParse("1Ti"), "pods": resource.MustParse("110")}
	n.Status.Capacity = n.Status.Allocatable
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	m.Set(n)
	return m
}

func kaiObject(apiVersion, kind, namespace, name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiVersion, "kind": kind, "spec": spec,
		"metadata": map[string]any{"name": name, "namespace": namespace, "uid": kind + "/" + name},
	}}
}

func kaiQueue(name string, gpu map[string]any) *unstructured.Unstructured {
	return kaiObject("scheduling.run.ai/v2", "Queue", "", name, map[string]any{"resources": map[string]any{"gpu": gpu}})
}

func kaiPod(name string, gpus int, labels, annotations map[string]string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: types.UID(name), Labels: labels, Annotations: annotations}}
	p.Spec.SchedulerName = kai.SchedulerName
	limits := corev1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(int64(gpus), resource.DecimalSI)}
	p.Spec.Containers = []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: limits, Limits: limits}}}
	return p
}

func verdict(m *Model, pod string) string {
	e, starts, _ := m.Try("a/"+pod, time.Unix(0, 0))
	if e.Verdict == why.Placed {
		return fmt.Sprintf("%s %d", e.Verdict, len(starts))
	}
	return fmt.Sprintf("%s %s", e.Verdict, e.Cause)
}

func TestForeignQuota(t *testing.T) {
	m := kaiModel()
	m.Set(kaiQueue("q", map[string]any{"quota": 2.0, "limit": -1.0}))
	queue := map[string]string{kai.QueueLabel: "q"}
	firm := map[string]string{kai.QueueLabel: "q", "kai.scheduler/preemptibility": "non-preemptible"}
	m.Set(kaiPod("borrows", 4, queue, nil), kaiPod("firm", 4, firm, nil), kaiPod("within", 2, firm, nil), kaiPod("lost", 1, map[string]string{kai.QueueLabel: "nobody"}, nil))
	for pod, want := range map[string]string{"borrows": "placed 1", "firm": "blocked over-quota", "within": "placed 1", "lost": "blocked queue-missing"} {
		if got := verdict(m, pod); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", pod, got, want)
		}
	}
}

// A pod waits for the PodGroup that it names, and then for the group's minimum. Keys of our own count first.
func TestForeignGroup(t *testing.T) {
	m := kaiModel()
	in := map[string]string{"pod-group-name": "g"}
	m.Set(kaiQueue("q", map[string]any{"quota": 8.0, "limit": -1.0}), kaiPod("p0", 1, nil, in), kaiPod("p1", 1, nil, in))
	if got := verdict(m, "p0"); !strings.HasPrefix(got, "invalid") {
		t.Errorf("without its PodGroup the pod is %s", got)
	}
	m.Set(kaiObject("scheduling.run.ai/v2alpha2", "PodGroup", "a", "g", map[string]any{"minMember": int64(3), "queue": "q"}))
	if got := verdict(m, "p0"); !strings.Contains(got, string(why.GangIncomplete)) {
		t.Errorf("two of three are %s", got)
	}
	m.Set(kaiPod("p2", 1, nil, in))
	if got := verdict(m, "p0"); got != "placed 3" {
		t.Errorf("three of three are %s", got)
	}
	own := map[string]string{"pod-group-name": "g", v1alpha1.KeyGang: "mine", v1alpha1.KeyMin: "1"}
	m.Set(kaiPod("own", 1, nil, own))
	if got := m.feed.members.pods["a/own"].workload; got != "a/gang/mine" {
		t.Errorf("a pod with keys of our own is in %s", got)
	}
}

// A Job's annotation makes a gang; the group that KAI would make for it is known.
func TestForeignOwner(t *testing.T) {
	m := kaiModel()
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Namespace: "a", Name: "train", UID: "j", Labels: map[string]string{kai.QueueLabel: "q"}, Annotations: map[string]string{"kai.scheduler/batch-min-member": "2"},
	}}
	m.Set(kaiQueue("q", map[string]any{"quota": 8.0, "limit": -1.0}), job)
	for i := range 2 {
		p := kaiPod(fmt.Sprintf("p%d", i), 1, nil, nil)
		yes := true
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "train", UID: "j", Controller: &yes}}
		m.Set(p)
	}
	if got := verdict(m, "p0"); got != "placed 2" {
		t.Errorf("the gang is %s", got)
	}
	groups := m.feed.ForeignGroups()
	if len(groups) != 1 || groups[0].Ref.Name != "pg-train-j" || groups[0].State.Pending != 2 || groups[0].State.Min != 2 || groups[0].Ref.Make == nil {
		t.Errorf("got %+v", groups)
	}
}

// A BerthQueue counts before a foreign queue of its name; without it the foreign one is back.
func TestForeignQueueOfTheSameName(t *testing.T) {
	m := kaiModel()
	own := &v1alpha1.BerthQueue{ObjectMeta: metav1.ObjectMeta{Name: "q"}, Spec: v1alpha1.QueueSpec{Weight: 7}}
	weight := func() int32 { return m.feed.Queues()[0].Spec.Weight }
	m.Set(kaiQueue("q", map[string]any{"overQuotaWeight": 3.0}))
	m.Set(own)
	if got := m.feed.ForeignQueues(); weight() != 7 || !strings.Contains(got[0].Problem, "BerthQueue q has the same name") {
		t.Errorf("weight %d, %+v", weight(), got)
	}
	m.Set(kaiQueue("q", map[string]any{"overQuotaWeight": 4.0}))
	if weight() != 7 {
		t.Error("a foreign queue displaced ours")
	}
	m.Delete(own)
	if weight() != 4 {
		t.Errorf("weight %d once ours is gone", weight())
	}
	m.Delete(kaiQueue("q", nil))
	m.feed.Settle()
	if len(m.feed.Queues()) != 0 {
		t.Error("a queue is left")
	}
}

// What has no effect is told, of pods and of queues, and what is read is not.
func TestForeignUnread(t *testing.T) {
	m := kaiModel()
	m.Set(kaiPod("p", 1, map[string]string{kai.QueueLabel: "q", "kai.scheduler/node-pool": "x"}, map[string]string{"kai.scheduler/staleness-grace-period": "1m", "volcano.sh/x": "1"}))
	want := []string{"volcano.sh/x (a key of another scheduler)", "kai.scheduler/node-pool (without effect)", "kai.scheduler/staleness-grace-period (without effect)"}
	if diff := cmp.Diff(want, m.feed.unheeded(m.feed.members.pods["a/p"])); diff != "" {
		t.Error(diff)
	}
}

// What a pod's controllers ask other schedulers for is told on the pod, which does not have their keys; those of a dialect that is in use
// are its to tell.
func TestForeignKeysOfOwners(t *testing.T) {
	m := kaiModel()
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "j", UID: "j", Labels: map[string]string{kai.QueueLabel: "q"}, Annotations: map[string]string{
		"slurmjob.slinky.slurm.net/partition": "debug", "volcano.sh/x": "1", "example.com/scheduling-window": "night", "example.com/note": "x"}}}
	p := kaiPod("p", 1, nil, map[string]string{"volcano.sh/x": "1"})
	controller := true
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "j", UID: "j", Controller: &controller}}
	m.Set(j, p)
	want := []string{
		"volcano.sh/x (a key of another scheduler)", "example.com/scheduling-window (a key of another scheduler)",
		"slurmjob.slinky.slurm.net/partition (a key of another scheduler)",
	}
	if diff := cmp.Diff(want, m.Unheeded("a/p")); diff != "" {
		t.Error(diff)
	}
}

// A namespace and a priority class that ask another scheduler for something are told of themselves.
func TestForeignKeysOfOthers(t *testing.T) {
	s := newStage(t, "kai")
	s.Set(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "dev", UID: "dev", Labels: map[string]string{"kubernetes.io/metadata.name": "dev"}, Annotations: map[string]string{"yunikorn.apache.org/namespace.quota": "{}"}}})
	s.Set(&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "kept", UID: "kept", Annotations: map[string]string{"yunikorn.apache.org/allow-preemption": "false"}}})
	s.Set(&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "plain", UID: "plain"}})
	var got []string
	for _, o := range sortedNames(s.told) {
		got = append(got, s.told[o]...)
	}
	slices.Sort(got)
	if diff := cmp.Diff([]string{"metadata: yunikorn.apache.org/allow-preemption", "metadata: yunikorn.apache.org/namespace.quota"}, got); diff != "" {
		t.Error(diff)
	}
}

// A cluster whose scheduler does not answer KAI's name does not read its objects.
func TestForeignNotSpoken(t *testing.T) {
	m := NewModel(ModelOptions{})
	m.Set(kaiQueue("q", map[string]any{"quota": 2.0}), kaiPod("p", 1, map[string]string{kai.QueueLabel: "q"}, nil))
	if m.feed.members.pods["a/p"].foreign != nil || len(m.feed.Queues()) != 0 || slices.Contains(m.feed.SchedulerNames(), kai.SchedulerName) {
		t.Error("KAI's objects are read where nobody speaks it")
	}
}

// A name is of one queue: of two dialects' objects with it the first by kind counts, and the other says so, once.
func TestForeignQueuesOfTheSameName(t *testing.T) {
	m := NewModel(ModelOptions{For: []string{DefaultName, kai.SchedulerName, "volcano"}})
	told := &notes{}
	m.feed.listen = told
	other := kaiObject("scheduling.volcano.sh/v1beta1", "Queue", "", "q", map[string]any{"weight": int64(5)})
	other.SetUID("volcano")
	m.Set(other)
	m.feed.Settle()
	if got := m.feed.Queues()[0].Spec.Weight; got != 5 || len(told.of) != 0 {
		t.Fatalf("alone it has weight %d, and is told %q", got, told.of)
	}
	m.Set(kaiQueue("q", map[string]any{"overQuotaWeight": 3.0}))
	m.feed.Settle()
	want := "Queue.scheduling.run.ai q has the same name, and counts: workloads of both are charged to it"
	if got := m.feed.Queues()[0].Spec.Weight; got != 3 || len(told.of) != 1 || told.of[0] != want {
		t.Errorf("weight %d, told %q", got, told.of)
	}
	for _, q := range m.feed.ForeignQueues() {
		if is := q.Kind.Group == "scheduling.volcano.sh"; is != (q.Problem == want) {
			t.Errorf("%s: %q", q.Kind.Name(), q.Problem)
		}
	}
	m.Set(kaiQueue("q", map[string]any{"overQuotaWeight": 4.0}))
	m.feed.Settle()
	if len(told.of) != 1 {
		t.Errorf("told again: %q", told.of)
	}
	m.Delete(kaiQueue("q", nil))
	m.feed.Settle()
	if got := m.feed.Queues()[0].Spec.Weight; got != 5 {
		t.Errorf("weight %d once the other is gone", got)
	}
}

// notes has what is told to be without effect.
type notes struct {
	silence
	of []string
}

func (n *notes) NotHonoured(_ Object, what []string) { n.of = append(n.of, what...) }
