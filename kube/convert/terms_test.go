package convert

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
)

// alone is a pod of ours by itself with annotations: key, value, key, value...
func alone(name string, keys ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Annotations: map[string]string{}}, Spec: corev1.PodSpec{SchedulerName: "berth"}}
	for i := 0; i+1 < len(keys); i += 2 {
		p.Annotations[v1alpha1.KeyPrefix+keys[i]] = keys[i+1]
	}
	return p
}

func TestLoneTerms(t *testing.T) {
	edit := func(p *corev1.Pod, how func(*corev1.Pod)) *corev1.Pod { how(p); return p }
	for _, c := range []struct {
		name string
		pod  *corev1.Pod
		want engine.Pod
	}{
		{"nothing said", alone("a"), engine.Pod{Evictable: true}},
		{
			"all of it", alone("a", "user", "ann", "expected-run", "90m", "max-run", "2h", "checkpoint", "10m", "restart-cost", "3m", "preemption-delay", "5m", "preemptible", "true"),
			engine.Pod{Evictable: true, User: "ann", Terms: engine.Terms{
				Expected: 90 * time.Minute, Max: 2 * time.Hour, Checkpoint: 10 * time.Minute, Restart: 3 * time.Minute, Delay: 5 * time.Minute,
			}},
		},
		{"not to be evicted", alone("a", "preemptible", "false"), engine.Pod{}},
		{"a pod has no surplus", alone("a", "preemptible", "surplus"), engine.Pod{}},
		{
			"what cannot be read", alone("a", "preemptible", "flase", "max-run", "soon", "checkpoint", "-1m", "restart-cost", "0s"),
			engine.Pod{Invalid: `berth.dev/max-run of pod a is "soon": want a time above 0, such as 90m; ` +
				`berth.dev/checkpoint of pod a is "-1m": want a time above 0, such as 90m; ` +
				`berth.dev/restart-cost of pod a is "0s": want a time above 0, such as 90m; ` +
				`berth.dev/preemptible of pod a is "flase": want true, false or surplus`},
		},
		{
			"of what runs it does not count", edit(alone("a", "preemptible", "flase", "max-run", "soon"), func(p *corev1.Pod) { p.Spec.NodeName = "n" }),
			engine.Pod{Node: "n"},
		},
		{
			"what Kubernetes has for it", edit(alone("a", "max-run", "2h"), func(p *corev1.Pod) {
				p.Spec.ActiveDeadlineSeconds, p.Spec.TerminationGracePeriodSeconds = ptr(int64(3600)), ptr(int64(45))
				p.Spec.PreemptionPolicy = ptr(corev1.PreemptNever)
			}),
			engine.Pod{Evictable: true, Terms: engine.Terms{Max: time.Hour, Grace: 45 * time.Second, Patient: true}},
		},
		{
			"the job's time is shorter", edit(alone("a", "max-run", "2h", "job-deadline", "30m0s"), func(p *corev1.Pod) { p.Spec.PreemptionPolicy = ptr(corev1.PreemptLowerPriority) }),
			engine.Pod{Evictable: true, Terms: engine.Terms{Max: 30 * time.Minute}},
		},
		{
			"when it got its node, and was idle from", edit(alone("a"), func(p *corev1.Pod) {
				p.Spec.NodeName, p.Status.StartTime = "n", ptr(elsewhere(noon.Add(time.Second)))
				p.Status.Conditions = []corev1.PodCondition{{Type: v1alpha1.PodIdle, Status: corev1.ConditionTrue, LastTransitionTime: elsewhere(noon)}, {Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: elsewhere(noon.Add(time.Minute))}, {Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: elsewhere(noon)}}
			}),
			engine.Pod{Evictable: true, Node: "n", Started: noon, Idle: noon},
		},
		{
			"its author says that it is idle", edit(alone("a", "idle-since", "2026-11-15T13:00:00+01:00"), func(p *corev1.Pod) { p.Spec.NodeName, p.Status.StartTime = "n", ptr(elsewhere(noon)) }),
			engine.Pod{Evictable: true, Node: "n", Started: noon},
		},
		{
			"it is busy again", edit(alone("a"), func(p *corev1.Pod) {
				p.Spec.NodeName, p.Status.StartTime = "n", ptr(elsewhere(noon))
				p.Status.Conditions = []corev1.PodCondition{{Type: v1alpha1.PodIdle, Status: corev1.ConditionFalse, LastTransitionTime: elsewhere(noon)}}
			}),
			engine.Pod{Evictable: true, Node: "n", Started: noon},
		},
		{
			"it has no node", edit(alone("a"), func(p *corev1.Pod) {
				p.Status.StartTime = ptr(elsewhere(noon))
				p.Status.Conditions = []corev1.PodCondition{{Type: v1alpha1.PodIdle, Status: corev1.ConditionTrue, LastTransitionTime: elsewhere(noon)}}
			}),
			engine.Pod{Evictable: true},
		},
		{
			"another scheduler's", edit(alone("a", "user", "ann", "preemptible", "true", "max-run", "soon"), func(p *corev1.Pod) { p.Spec.SchedulerName = "other" }),
			engine.Pod{Foreign: true},
		},
		{
			"made by a job", edit(alone("a"), func(p *corev1.Pod) {
				p.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: "train-7", UID: "u", Controller: ptr(true)}}
			}),
			engine.Pod{Evictable: true, Owner: "ns/job/train-7", Terms: engine.Terms{Like: "ns/Job/train x1"}},
		},
		{"a member's is its gang's", alone("a", "gang", "g", "user", "ann", "max-run", "soon"), engine.Pod{Evictable: true, Gang: "ns/gang/g"}},
	} {
		c.want.Key = "ns/a"
		if diff := cmp.Diff(c.want, Pod(c.pod, Options{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// A gang's terms are what the lowest-named of its pods says that says it; what Kubernetes has holds for all.
func TestGangTerms(t *testing.T) {
	a, b, c := alone("a", "gang", "g", "min", "3"), alone("b", "gang", "g", "preemptible", "surplus", "max-run", "3h"), alone("c", "gang", "g", "user", "ann", "max-run", "1h", "checkpoint", "5m")
	b.Spec.TerminationGracePeriodSeconds, c.Spec.TerminationGracePeriodSeconds = ptr(int64(10)), ptr(int64(60))
	c.Spec.ActiveDeadlineSeconds = ptr(int64(7200))
	a.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: "train-resnet-7", UID: "u", Controller: ptr(true)}}
	want := engine.Gang{
		Key: "ns/gang/g", User: "ann", Core: true, Group: engine.Group{Min: 3},
		Terms: engine.Terms{Max: 2 * time.Hour, Checkpoint: 5 * time.Minute, Grace: time.Minute, Like: "ns/Job/train-resnet x3"},
	}
	if diff := cmp.Diff(want, NativeGang([]*corev1.Pod{c, a, b}, nil, nil)); diff != "" {
		t.Error(diff)
	}
	bad := NativeGang([]*corev1.Pod{alone("a", "gang", "g", "expected-run", "1d")}, nil, nil)
	if diff := cmp.Diff(`berth.dev/expected-run of pod a is "1d": want a time above 0, such as 90m`, bad.Invalid); diff != "" {
		t.Error(diff)
	}
}

// What is written on a PodGroup counts before what is written on its pods, but for whose they are.
func TestGroupTerms(t *testing.T) {
	g := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g", Annotations: map[string]string{v1alpha1.KeyUser: "bob", v1alpha1.KeyMaxRun: "1h"}}}
	g.Spec.SchedulingPolicy.Gang = &schedulingv1beta1.GangSchedulingPolicy{MinCount: 2}
	pods := []*corev1.Pod{alone("b", "user", "ann", "max-run", "2h", "expected-run", "30m"), alone("a")}
	pods[0].Spec.PreemptionPolicy = ptr(corev1.PreemptNever)
	pods[1].Spec.Containers = []corev1.Container{{Image: "registry.example/train:1"}}
	got := engine.Gang{}
	GroupTerms(&got, g, pods)
	want := engine.Gang{User: "ann", Terms: engine.Terms{Max: time.Hour, Expected: 30 * time.Minute, Patient: true, Like: "ns/registry.example/train:1 x2"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	g.Spec.PreemptionPolicy = ptr(schedulingv1beta1.PreemptLowerPriority)
	g.Annotations[v1alpha1.KeyPreemptible] = "maybe"
	GroupTerms(&got, g, nil)
	want = engine.Gang{User: "bob", Terms: engine.Terms{Max: time.Hour}, Invalid: `berth.dev/preemptible of PodGroup g is "maybe": want true, false or surplus`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A Job's deadline reaches its pods, whatever these say themselves.
func TestDeadlineOfJob(t *testing.T) {
	o, _ := OwnerOf(&batchv1.Job{Spec: batchv1.JobSpec{ActiveDeadlineSeconds: ptr(int64(60))}})
	p := Pod(WithOwners(alone("a", "max-run", "1h"), o.Keys), Options{})
	if p.Terms.Max != time.Minute {
		t.Errorf("it has %s", p.Terms.Max)
	}
	if got := Unheeded(WithOwners(alone("a"), o.Keys)); got != nil {
		t.Errorf("unheeded: %q", got)
	}
}

func TestStem(t *testing.T) {
	for name, want := range map[string]string{
		"train": "train", "train-7": "train", "nightly-28391823": "nightly", "llama-70b-train-3": "llama-70b-train", "a-1-2-x9": "a",
		"7": "7", "7-8": "7-8", "-7": "-7", "": "", "train-abc": "train-abc", "web-": "web-",
	} {
		if got := stem(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
