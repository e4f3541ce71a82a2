package scheduler

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/kube/convert"
)

// hostile is what tenant A writes under each key, "" for taking it off. Every key that decides about work over time is
// here: a new one fails TestATenantCannotChangeTheTermsOfAdmittedWork until it is.
var hostile = map[string][]string{
	v1alpha1.KeyQueue:             {"nowhere", "b", "default", ""},
	v1alpha1.KeyUser:              {"b-user", ""},
	v1alpha1.KeyPreemptible:       {"false", "surplus", "nonsense", ""},
	v1alpha1.KeyExpectedRun:       {"1s", "9000h", "nonsense", ""},
	v1alpha1.KeyMaxRun:            {"1s", "9000h", ""},
	v1alpha1.KeyCheckpoint:        {"9000h", "1s"},
	v1alpha1.KeyRestartCost:       {"9000h", "1s"},
	v1alpha1.KeyPreemptionDelay:   {"9000h", "1s"},
	v1alpha1.KeyGang:              {"train", "other", ""},
	v1alpha1.KeySubgroup:          {"part", ""},
	v1alpha1.KeyMinSubgroups:      {"1", "part=9", "nonsense"},
	v1alpha1.KeySubgroupTopology:  {"rack", "part=nonsense"},
	v1alpha1.KeyMin:               {"1000", "1", "nonsense", ""},
	v1alpha1.KeySize:              {"1000", "1"},
	v1alpha1.KeyTopologyRequired:  {"rack", "nonsense"},
	v1alpha1.KeyTopologyPreferred: {"rack"},
	v1alpha1.KeySegment:           {"1@rack", "nonsense"},
	v1alpha1.KeySpread:            {"rack"},
	v1alpha1.KeyWholeNodes:        {"true", "nonsense"},
	v1alpha1.KeyBalanced:          {"true"},
	v1alpha1.KeyGPUModel:          {"B200", "H100,A100"},
	v1alpha1.KeyGPUAlignment:      {"numa", "nvlink=preferred", "nonsense", ""},
	v1alpha1.KeyGPUFraction:       {"0.1"},
	v1alpha1.KeyGPUMemory:         {"1Gi", "1000"},
	v1alpha1.KeySurge:             {`{"set":"x","uid":"uid-x","hash":"h","for":"default/a-wait","to":"n2","until":"2000-01-01T02:00:00Z"}`},
	v1alpha1.KeyEvictAt:           {"2000-01-01T00:00:00Z", ""},
	v1alpha1.KeyCheckpointed:      {"2000-01-01T00:00:00Z"},
	v1alpha1.KeyWantedGPUs:        {`["GPU-0"]`},
	v1alpha1.KeyGPUs:              {`{"main":["GPU-0"]}`, "nonsense"},
	v1alpha1.KeyLease:             {"berth-scheduler/uid/9/another"},
	v1alpha1.KeyTerms:             {`{"v":1,"queue":"b"}`, ""},
	v1alpha1.KeySeal:              {strings.Repeat("0", 32), ""},
	"berth.dev/job-deadline":      {"1s", "9000h"},
	"gpu-fraction":                {"0.1"},
	"gpu-memory":                  {"1000"},
	"gpu-fraction-num-devices":    {"1", "2"},
	"gpu-fraction-container-name": {"main", "nobody"},
	"nvidia.com/use-gputype":      {"B200", "nonsense"},
	"nvidia.com/nouse-gputype":    {"H100", "nonsense"},
	"nvidia.com/use-gpuuuid":      {"GPU-0", "nonsense"},
	"nvidia.com/nouse-gpuuuid":    {"GPU-0", "nonsense"},
	"nvidia.com/vgpu-mode":        {"hami-core", "mig"},
	"nvidia.com/numa-bind":        {"true", "nonsense"},
	"volcano.sh/vgpu-mode":        {"hami-core", "mig"},

	"volcano.sh/vgpu-use-gpuuuid":   {"GPU-0", "nonsense"},
	"volcano.sh/vgpu-nouse-gpuuuid": {"GPU-0", "nonsense"},

	"hami.io/node-scheduler-policy": {"spread", "nonsense"},
	"hami.io/gpu-scheduler-policy":  {"spread", "nonsense"},

	"batch.kubernetes.io/job-completion-index": {"0", "1000"},
	"apps.kubernetes.io/pod-index":             {"0", "1000"},
	"leaderworkerset.sigs.k8s.io/worker-index": {"0", "1000"},
	"training.kubeflow.org/replica-index":      {"0", "1000"},
	"jobset.sigs.k8s.io/job-global-index":      {"0", "1000"},
}

// A tenant that edits its pods, or who makes them, once they are in a queue changes nothing that another relies on: what
// is charged to whom, who is reclaimed, and who waits. It does not matter whether a scheduler runs at the time.
func TestATenantCannotChangeTheTermsOfAdmittedWork(t *testing.T) {
	for _, key := range append(convert.FixedKeys(), convert.GuardedKeys()...) {
		if hostile[key] == nil {
			t.Errorf("nothing is tried under %s", key)
		}
	}
	want := contest(t, false, nil)
	if !slices.Contains(want, "a: used 2 borrowed 0 waiting 2") || !slices.Contains(want, "b: used 6 borrowed 0 waiting 0") {
		t.Fatalf("without an attack: %q", want)
	}
	for _, key := range slices.Sorted(maps.Keys(hostile)) {
		for _, value := range hostile[key] {
			for _, down := range []bool{false, true} {
				if down && (key == v1alpha1.KeyTerms || key == v1alpha1.KeySeal) {
					continue // the policy does not let it: the story of terms shows that
				}
				t.Run(fmt.Sprintf("%s=%s, down %v", key, value, down), func(t *testing.T) {
					got := contest(t, down, func(o metav1.Object) { setKey(o, key, value, down) })
					if diff := cmp.Diff(want, got); diff != "" {
						t.Error(diff)
					}
				})
			}
		}
	}
}

// Nor does it by editing only who makes its pods.
func TestATenantCannotChangeTheTermsByItsControllers(t *testing.T) {
	want := contest(t, false, nil)
	for _, down := range []bool{false, true} {
		for key, value := range map[string]string{
			v1alpha1.KeyQueue: "b", v1alpha1.KeyPreemptible: "false", v1alpha1.KeyGang: "other", v1alpha1.KeyMin: "1000", v1alpha1.KeyUser: "b-user",
		} {
			got := contest(t, down, func(o metav1.Object) {
				if _, isPod := o.(*corev1.Pod); !isPod {
					setKey(o, key, value, false)
				}
				if g, ok := o.(*schedulingv1beta1.PodGroup); ok {
					g.Spec.SchedulingPolicy.Gang.MinCount = 1000
				}
			})
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s=%s, down %v: %s", key, value, down, diff)
			}
		}
	}
}

// What a tenant can do beside editing keys: have other controllers, or none; take its PodGroup away; and create pods that
// come to its gangs and say other things.
func TestATenantCannotChangeTheTermsBesideTheKeys(t *testing.T) {
	want := contest(t, false, nil)
	joins := func(name string, annotations ...string) func(*world) {
		return func(w *world) {
			p := pod(name, 0, append([]string{"gang", "train"}, annotations...)...)
			p.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
			w.add(p)
		}
	}
	for name, attack := range map[string]func(*world){
		"no controllers": func(w *world) { w.rewrite(func(o metav1.Object) { o.SetOwnerReferences(nil) }) },
		"the PodGroup is gone": func(w *world) {
			at := schema.GroupVersionResource{Group: "scheduling.k8s.io", Version: "v1beta1", Resource: "podgroups"}
			if err := w.client.Tracker().Delete(at, "default", "pg"); err != nil {
				t.Fatal(err)
			}
		},
		"the Job is gone": func(w *world) {
			if err := w.client.Tracker().Delete(schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}, "default", "train"); err != nil {
				t.Fatal(err)
			}
		},
		"one more, lower-named, in another queue": joins("aaa", "queue", "b", "min", "1000"),
		"one more, not to be evicted":             joins("aaa", "preemptible", "false", "min", "1000", "size", "1000"),
		"one more, in a subgroup":                 joins("aaa", "subgroup", "x", "min", "1000"),
		"one more, that makes no sense":           joins("aaa", "min", "x", "preemptible", "y", "segment", "z"),
	} {
		for _, down := range []bool{false, true} {
			got := contestOf(t, down, attack)
			if diff := cmp.Diff(want, withoutJoined(got)); diff != "" {
				t.Errorf("%s, down %v: %s", name, down, diff)
			}
		}
	}
}

// withoutJoined leaves out the pod that came to the gang, which is small and may be evicted or wait.
func withoutJoined(seen []string) []string {
	out := slices.Clone(seen)
	for i := range out {
		out[i] = strings.ReplaceAll(strings.ReplaceAll(out[i], "ended aaa ", "ended "), "waiting 3", "waiting 2")
	}
	return out
}

// setKey puts the value under the key: as a label and no annotation, or as an annotation and no label.
func setKey(o metav1.Object, key, value string, asLabel bool) {
	annotations, labels := maps.Clone(o.GetAnnotations()), maps.Clone(o.GetLabels())
	if annotations == nil {
		annotations = make(map[string]string)
	}
	if labels == nil {
		labels = make(map[string]string)
	}
	delete(annotations, key)
	delete(labels, key)
	switch {
	case value == "":
	case asLabel && key != v1alpha1.KeySurge:
		labels[key] = value
	default:
		annotations[key] = value
	}
	o.SetAnnotations(annotations)
	o.SetLabels(labels)
}

// contest plays two tenants. A, with a quota of 2 and a limit of 6 of the 8 GPUs, runs work on 5 and has two pods that
// wait; B, with a quota of 6, runs work on 2. Then A attacks, and B asks for the rest of its quota. It returns what B
// can see of it.
func contest(t *testing.T, down bool, edit func(metav1.Object)) (seen []string) {
	t.Helper()
	return contestOf(t, down, func(w *world) {
		if edit != nil {
			w.rewrite(edit)
		}
	})
}

func contestOf(t *testing.T, down bool, attack func(*world)) (seen []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := contested(t)
		ends := w.ends(time.Second)
		stop := w.start()
		w.add(pod("a-wait", 2, "queue", "a"))
		w.add(pod("a-wait-long", 3, "queue", "a", "expected-run", "2h"))
		w.after(5 * time.Second)
		if diff := cmp.Diff([]string{"False OverQueueLimit", "False OverQueueLimit"}, w.conditions("a-wait", "a-wait-long")); diff != "" {
			t.Fatal(diff)
		}
		if down {
			if err := stop(); err != nil {
				t.Fatal(err)
			}
		}
		attack(w)
		if down {
			w.start()
		}
		w.after(5 * time.Second)
		for i := range 4 {
			w.add(inTeamB(pod(fmt.Sprint("b-new-", i), 1, "queue", "b")))
		}
		w.after(20 * time.Second)
		seen = append(seen, "ended "+strings.Join(names(ends.ended()), " "))
		for _, name := range []string{"a", "b"} {
			s, used, borrowed := w.queues.status(name), int64(-1), int64(-1)
			for _, r := range s.Resources {
				if r.Name == "nvidia.com/gpu" {
					used = r.Used.Value()
					borrowed = r.Borrowed.Value()
				}
			}
			seen = append(seen, fmt.Sprintf("%s: used %d borrowed %d waiting %d", name, used, borrowed, s.Waiting))
		}
		for _, p := range w.all() {
			if p.Namespace == "team-b" {
				seen = append(seen, p.Name+" at a node: "+fmt.Sprint(p.Spec.NodeName != ""))
			}
		}
	})
	return seen
}

func contested(t *testing.T) *world {
	a, b := promised("a", 2), promised("b", 6)
	a.Spec.Resources[0].Limit = resource.NewQuantity(6, resource.DecimalSI)
	a.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
	b.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "b"}}
	b.Spec.ReclaimIdleAfter = &metav1.Duration{Duration: time.Minute}
	a.Spec.FairUsers = true
	other := tenant("team", "b")
	other.Name = "team-b"
	group, lone := group("pg", 2), pod("a-run", 1, "queue", "a", "expected-run", "1h", "user", "a-user")
	group.Annotations = map[string]string{"berth.dev/queue": "a"}
	return newWorld(t, node("n1", "r1", 4), node("n2", "r2", 4), a, b, &v1alpha1.BerthQueue{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultQueue}},
		tenant("team", "a"), other, lone,
		job("train", 2, "queue", "a", "gang", "train", "min", "1", "preemptible", "surplus"), ownedPod("train", 0), ownedPod("train", 1),
		group, grouped("pg-0", "pg"), grouped("pg-1", "pg"),
		inTeamB(pod("b-run", 2, "queue", "b")))
}

func inTeamB(p *corev1.Pod) *corev1.Pod {
	p.Namespace = "team-b"
	return p
}

// names are the first words, sorted.
func names(lines []string) []string {
	out := make([]string, len(lines))
	for i, line := range lines {
		out[i], _, _ = strings.Cut(line, " ")
	}
	slices.Sort(out)
	return out
}

// all are the pods, by namespace and name.
func (w *world) all() []corev1.Pod {
	w.t.Helper()
	list, err := w.client.CoreV1().Pods("").List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int { return strings.Compare(keyOf(&a), keyOf(&b)) })
	return list.Items
}

// rewrite edits all that tenant A may edit, as it would with rights to do so in its namespace and none to write status.
func (w *world) rewrite(edit func(metav1.Object)) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for at, o := range map[schema.GroupVersionResource]runtime.Object{
		podsResource: &corev1.PodList{},
		{Group: "batch", Version: "v1", Resource: "jobs"}:                       &batchv1.JobList{},
		{Group: "scheduling.k8s.io", Version: "v1beta1", Resource: "podgroups"}: &schedulingv1beta1.PodGroupList{},
	} {
		kind := schema.GroupVersionKind{Group: at.Group, Version: at.Version, Kind: strings.TrimSuffix(fmt.Sprintf("%T", o)[strings.LastIndexByte(fmt.Sprintf("%T", o), '.')+1:], "List")}
		list, err := w.client.Tracker().List(at, kind, "default")
		if err != nil {
			w.t.Fatal(err)
		}
		items, err := meta.ExtractList(list)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, item := range items {
			item = item.DeepCopyObject()
			m := item.(metav1.Object)
			edit(m)
			m.SetResourceVersion(w.next())
			if err := w.client.Tracker().Update(at, item, "default"); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}
