package submit

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/kube/cluster"
	"github.com/berth-dev/berth/kube/dialect/all"
	"github.com/berth-dev/berth/kube/manifest"
)

var now = time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)

// clusterOf has nodes of eight GPUs, of which the first have a pod on each that takes them all.
func clusterOf(nodes, busy int) *facts.Facts {
	f := &facts.Facts{At: now, Kubernetes: "v1.37.1"}
	old := metav1.NewTime(now.Add(-time.Hour))
	has := corev1.ResourceList{"cpu": resource.MustParse("64"), "memory": resource.MustParse("512Gi"), "pods": resource.MustParse("110"), "nvidia.com/gpu": resource.MustParse("8")}
	for i := range nodes {
		name := fmt.Sprintf("node-%d", i)
		f.Nodes = append(f.Nodes, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: old, Labels: map[string]string{
				"kubernetes.io/hostname": name, "rack": fmt.Sprint(i / 20), "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.count": "8", "nvidia.com/gpu.present": "true",
			}},
			Status: corev1.NodeStatus{Capacity: has, Allocatable: has, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: old}}},
		})
	}
	for i := range busy {
		name := fmt.Sprintf("busy-%d", i)
		asks := corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")}
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: name, UID: types.UID(name), CreationTimestamp: old},
			Spec:       corev1.PodSpec{NodeName: fmt.Sprintf("node-%d", i), SchedulerName: "default-scheduler", Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: asks, Limits: asks}}}},
			Status:     corev1.PodStatus{Phase: corev1.PodRunning},
		}
		f.Pods = append(f.Pods, p)
	}
	return f
}

func items(t testing.TB, text string) []Item {
	t.Helper()
	docs, err := manifest.Parse("m.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	out := make([]Item, len(docs))
	for i := range docs {
		out[i] = Item{File: docs[i].File, Line: docs[i].Line, Object: docs[i].Object}
	}
	return out
}

func job(name string, pods, gpus int, more string) string {
	return fmt.Sprintf(`
apiVersion: batch/v1
kind: Job
metadata: {name: %s}
spec:
  completions: %d
  parallelism: %d
  template:
    spec:
      restartPolicy: Never%s
      containers:
      - {name: a, image: x, resources: {limits: {nvidia.com/gpu: %d}}}
`, name, pods, pods, more, gpus)
}

// TestVerdicts holds the line between what waits and what can never start.
func TestVerdicts(t *testing.T) {
	quota := func(hard, used string) func(*facts.Facts) {
		return func(f *facts.Facts) {
			q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "q", UID: "q"}}
			q.Spec.Hard = corev1.ResourceList{"requests.nvidia.com/gpu": resource.MustParse(hard)}
			q.Status = corev1.ResourceQuotaStatus{Hard: q.Spec.Hard, Used: corev1.ResourceList{"requests.nvidia.com/gpu": resource.MustParse(used)}}
			f.ResourceQuotas = []*corev1.ResourceQuota{q}
		}
	}
	for _, c := range []struct {
		name, text  string
		nodes, busy int
		change      func(*facts.Facts)
		want        Verdict
		cause       string
		says        string
	}{
		{name: "free", text: job("j", 2, 8, ""), nodes: 2, want: Starts, says: "on 2 nodes: node-0, node-1"},
		{name: "busy", text: job("j", 2, 8, ""), nodes: 2, busy: 2, want: Waits, cause: "cluster-full"},
		{name: "half busy", text: job("j", 2, 8, ""), nodes: 2, busy: 1, want: Waits, says: "1 of 2 pods start now"},
		{name: "too large", text: job("j", 1, 9, ""), nodes: 2, busy: 2, want: Never, cause: "larger-than-any-node"},
		{name: "more than fit at once, one after the other", text: job("j", 3, 8, ""), nodes: 2, want: Waits, says: "2 of 3 pods start now"},
		{name: "more replicas than fit", text: strings.NewReplacer("kind: Job", "kind: Deployment", "batch/v1", "apps/v1", "completions: 3", "replicas: 3", "parallelism: 3", "selector: {matchLabels: {a: b}}", "restartPolicy: Never", "restartPolicy: Always", "  template:\n", "  template:\n    metadata: {labels: {a: b}}\n").Replace(job("d", 3, 8, "")), nodes: 2, want: Never, says: "at most 2 of its 3 pods"},
		{name: "no such label", text: job("j", 1, 1, "\n      nodeSelector: {pool: gone}"), nodes: 2, want: Never},
		{name: "quota used by others", text: job("j", 1, 8, ""), nodes: 2, change: quota("8", "8"), want: Waits, cause: "quota-exceeded"},
		{name: "quota too small", text: job("j", 1, 8, ""), nodes: 2, change: quota("4", "0"), want: Never, cause: "quota-exceeded"},
		{name: "no such priority class", text: job("j", 1, 8, "\n      priorityClassName: high"), nodes: 2, want: Never, cause: "priority-class-missing"},
		{name: "cordoned", text: job("j", 1, 8, ""), nodes: 1, change: func(f *facts.Facts) { f.Nodes[0].Spec.Unschedulable = true }, want: Never, cause: "node-cordoned"},
		{name: "spread of its own pods", text: strings.NewReplacer("kind: Job", "kind: Deployment", "batch/v1", "apps/v1", "completions: 3", "replicas: 3", "parallelism: 3", "selector: {matchLabels: {a: b}}", "restartPolicy: Never", "restartPolicy: Always", "  template:\n", "  template:\n    metadata: {labels: {a: b}}\n").Replace(job("d", 3, 1, "\n      affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{labelSelector: {matchLabels: {a: b}}, topologyKey: kubernetes.io/hostname}]}}")), nodes: 2, want: Never},
		{name: "anti-affinity with room", text: strings.NewReplacer("kind: Job", "kind: Deployment", "batch/v1", "apps/v1", "completions: 2", "replicas: 2", "parallelism: 2", "selector: {matchLabels: {a: b}}", "restartPolicy: Never", "restartPolicy: Always", "  template:\n", "  template:\n    metadata: {labels: {a: b}}\n").Replace(job("d", 2, 1, "\n      affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{labelSelector: {matchLabels: {a: b}}, topologyKey: kubernetes.io/hostname}]}}")), nodes: 2, want: Starts, says: "on 2 nodes"},
		{name: "broken", text: "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\nspec: {parallelism: lots}", nodes: 1, want: Never, cause: "invalid-manifest", says: "spec.parallelism"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := clusterOf(c.nodes, c.busy)
			if c.change != nil {
				c.change(f)
			}
			r := Check(World{Facts: f, Against: "cluster"}, "default", items(t, c.text))
			w := r.Workloads[0]
			if w.Verdict != c.want || c.cause != "" && string(w.Cause) != c.cause || !strings.Contains(w.Summary, c.says) {
				t.Errorf("%s %s: %s", w.Verdict, w.Cause, w.Summary)
			}
			for _, fix := range w.Fixes {
				if fix.Patch != nil && !fix.Verified {
					t.Errorf("a fix was printed that nobody tried: %+v", fix)
				}
			}
			if len(f.Nodes) != c.nodes || len(f.Pods) != c.busy {
				t.Error("the facts were written to")
			}
		})
	}
}

// TestFixesWork submits every manifest again with each fix that is printed, and it starts, or waits, as the fix says.
func TestFixesWork(t *testing.T) {
	for name, text := range map[string]string{
		"label":  job("j", 2, 4, "\n      nodeSelector: {nvidia.com/gpu.product: H100}"),
		"large":  job("j", 1, 9, ""),
		"taint":  job("j", 1, 1, ""),
		"jobset": `{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: s}, spec: {replicatedJobs: [{name: w, replicas: 2, template: {spec: {template: {spec: {restartPolicy: Never, nodeSelector: {nvidia.com/gpu.product: H100}, containers: [{name: a, image: x, resources: {limits: {nvidia.com/gpu: 1}}}]}}}}}]}}`,
		"pod":    `{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {nodeSelector: {nvidia.com/gpu.product: H100}, containers: [{name: a, image: x, resources: {limits: {nvidia.com/gpu: 1}}}]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			f := clusterOf(3, 1)
			if name == "taint" {
				for _, n := range f.Nodes {
					n.Spec.Taints = []corev1.Taint{{Key: "nvidia.com/gpu", Effect: corev1.TaintEffectNoSchedule}}
				}
			}
			given := items(t, text)
			w := Check(World{Facts: f}, "default", given).Workloads[0]
			if w.Verdict != Never {
				t.Fatalf("%s: %s", w.Verdict, w.Summary)
			}
			tried := 0
			for _, fix := range w.Fixes {
				if fix.Patch == nil {
					continue
				}
				tried++
				object, err := edit.PatchTree(given[0].Object, fix.Patch)
				if err != nil {
					t.Fatal(err)
				}
				again := Check(World{Facts: f}, "default", []Item{{Object: object}}).Workloads[0]
				if again.Verdict != fix.Then {
					t.Errorf("%s: then %s, and in fact %s: %s", fix.Edit, fix.Then, again.Verdict, again.Summary)
				}
			}
			if tried == 0 {
				t.Errorf("no fix of the file: %+v", w)
			}
		})
	}
}

// Versions that Kubernetes serves no more are refused, of workloads and of what these refer to: read as another version they would be planned
// on terms that nobody has.
func TestVersionsThatAreGone(t *testing.T) {
	r := Check(World{Facts: clusterOf(1, 0), Bare: true}, "default", items(t, `
apiVersion: scheduling.k8s.io/v1alpha2
kind: PodGroup
metadata: {name: g}
spec: {schedulingPolicy: {gang: {minCount: 1}}}
---
apiVersion: extensions/v1beta1
kind: Deployment
metadata: {name: d}
spec: {template: {spec: {containers: [{name: c, image: registry.example/c:1}]}}}
`))
	want := []string{"Kubernetes 1.37 has no kind PodGroup of scheduling.k8s.io/v1alpha2", "Kubernetes 1.37 has no kind Deployment of extensions/v1beta1"}
	for i, w := range r.Workloads {
		if w.Verdict != Never || w.Cause != Refused || w.Summary != want[i] {
			t.Errorf("%+v", w)
		}
	}
	if len(r.Workloads) != len(want) {
		t.Errorf("%d workloads", len(r.Workloads))
	}
}

// An object without a name is one that the API server refuses, whatever its kind: none of it is planned, and nothing breaks.
func TestNamelessObjects(t *testing.T) {
	for _, object := range []string{
		"{apiVersion: berth.dev/v1alpha1, kind: BerthQueue, spec: {}}",
		"{apiVersion: kueue.x-k8s.io/v1beta2, kind: ClusterQueue, spec: {namespaceSelector: {}}}",
		"{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {namespace: default}, spec: {clusterQueue: x}}",
		"{apiVersion: scheduling.run.ai/v2, kind: Queue, spec: {}}",
		"{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, spec: {minMember: 2}}",
		"{apiVersion: scheduling.x-k8s.io/v1alpha1, kind: ElasticQuota, spec: {}}",
		"{apiVersion: v1, kind: Namespace}",
		"{apiVersion: v1, kind: Pod, spec: {containers: [{name: c, image: registry.example/c:1}]}}",
		"{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, spec: {replicatedJobs: []}}",
	} {
		f := clusterOf(1, 0)
		f.Speaks = all.Names()
		w := World{Facts: f, Bare: true, Model: cluster.ModelOptions{For: []string{"berth"}, Dialects: all.Names()}}
		r := Check(w, "default", items(t, object))
		if len(r.Workloads) != 1 || r.Workloads[0].Verdict != Never || !strings.Contains(r.Workloads[0].Summary, "metadata.name") {
			t.Errorf("%s: %+v", object, r.Workloads)
		}
	}
	r := Check(World{Facts: clusterOf(1, 0), Bare: true}, "default", items(t, "{apiVersion: v1, kind: Pod, metadata: {generateName: a-}, spec: {containers: [{name: c, image: registry.example/c:1}]}}"))
	if r.Workloads[0].Verdict != Starts {
		t.Errorf("%+v", r.Workloads)
	}
}
