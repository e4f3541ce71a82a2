package kai

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/kube/dialect"
	"github.com/berth-dev/berth/kube/dialect/dialecttest"
)

// world is what the tests' objects say, by kind, namespace and name.
type world map[string]*dialect.Object

func (w world) Object(kind, namespace, name string) *dialect.Object {
	return w[kind+"/"+namespace+"/"+name]
}
func (w world) Objects(kind, _ string) (out []*dialect.Object) {
	for _, key := range slices.Sorted(maps.Keys(w)) {
		if strings.HasPrefix(key, kind+"/") {
			out = append(out, w[key])
		}
	}
	return out
}
func (w world) Priority(class string) (int32, bool) {
	n, ok := map[string]int32{"train": 50, "build-preemptible": 75, "build": 100, "inference": 125}[class]
	return n, ok
}

func worldOf(t *testing.T, texts ...string) world {
	w := make(world)
	for _, text := range texts {
		o := dialecttest.Object(t, text)
		v := New().Read(o, w)
		v.Name = o.GetName()
		w[o.GetKind()+"."+o.GroupVersionKind().Group+"/"+o.GetNamespace()+"/"+o.GetName()] = &v
	}
	return w
}

func TestQueue(t *testing.T) {
	cases := map[string]struct {
		spec   string
		want   string // of the BerthQueue, as YAML
		unread []string
	}{
		"as documented": {
			spec: "{displayName: A, parentQueue: dept, priority: 200, resources: {gpu: {quota: 8, limit: -1, overQuotaWeight: 3}, cpu: {quota: -1, limit: -1}, memory: {quota: 4096, limit: 8192}}}",
			want: `parent: dept
priority: 200
resources:
- name: nvidia.com/gpu
  quota: "8"
- name: cpu
  quota: 1073741824m
- limit: 8192M
  name: memory
  quota: 4096M
weight: 3
`,
		},
		"no limit given means the quota": {
			spec: "{resources: {gpu: {quota: 2}}}",
			want: `priority: 100
resources:
- limit: "2"
  name: nvidia.com/gpu
  quota: "2"
weight: 1
`,
		},
		"fields without effect": {
			spec: "{shard: a, resources: {gpu: {quota: 1.5, limit: -1, burst: 2}, cpu: {overQuotaWeight: 7, limit: -1}, tpu: {quota: 1}}, reclaimMinRuntime: soon}",
			want: `priority: 100
resources:
- name: nvidia.com/gpu
  quota: 1500m
- name: cpu
  quota: "0"
weight: 1
`,
			unread: []string{
				"spec.resources.gpu.burst", "spec.resources.tpu", "spec.shard",
				"spec.resources.cpu.overQuotaWeight (that of gpu counts)", "spec.reclaimMinRuntime (want a time, such as 5m)",
			},
		},
		"hostile": {
			spec: "{resources: {gpu: {quota: 1e300, limit: 1e301, overQuotaWeight: 1e99}, memory: many}, priority: many}",
			want: `priority: 100
resources:
- name: nvidia.com/gpu
  quota: "1073741824"
weight: 65536
`,
			unread: []string{"spec.priority (want a whole number)", "spec.resources.memory (want an object)", "spec.resources.gpu.overQuotaWeight (65536 counts: weights are whole numbers from 1 to 65536)"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := New().Read(dialecttest.Object(t, "{apiVersion: scheduling.run.ai/v2, kind: Queue, metadata: {name: a}, spec: "+c.spec+"}"), nil)
			text, err := yaml.Marshal(got.Queue.Spec)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, string(text)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(c.unread, got.Unread); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func podOf(scheduler string, labels, annotations map[string]string, owners ...dialect.Owner) *dialect.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p", UID: "u", Labels: labels, Annotations: annotations}}
	p.Spec.SchedulerName = scheduler
	return &dialect.Pod{Pod: p, Owners: owners}
}

func owner(kind string, labels, annotations map[string]string) dialect.Owner {
	return dialect.Owner{Kind: kind, Name: "o", UID: "ou", Meta: metav1.ObjectMeta{Labels: labels, Annotations: annotations}}
}

type says = map[string]string

func TestPod(t *testing.T) {
	groups := []string{
		"{apiVersion: kai.scheduler/v1alpha1, kind: Topology, metadata: {name: t}, spec: {levels: [{nodeLabel: x/rack, alias: rack}, {nodeLabel: kubernetes.io/hostname}]}}",
		"{apiVersion: scheduling.run.ai/v2alpha2, kind: PodGroup, metadata: {name: g, namespace: a}, spec: {minMember: 4, queue: q, priorityClassName: build, topologyConstraint: {topology: t, requiredTopologyLevel: rack}}}",
		"{apiVersion: scheduling.run.ai/v2alpha2, kind: PodGroup, metadata: {name: tree, namespace: a}, spec: {queue: q, minSubGroup: 1, subGroups: [{name: serve, minSubGroup: 2}, {name: decode, parent: serve, minMember: 3, topologyConstraint: {topology: t, requiredTopologyLevel: rack}}, {name: prefill, parent: serve, minMember: 2}, {name: lone}]}}",
		"{apiVersion: scheduling.run.ai/v2alpha2, kind: PodGroup, metadata: {name: circle, namespace: a}, spec: {subGroups: [{name: x, parent: z}, {name: z, parent: x}]}}",
		"{apiVersion: scheduling.run.ai/v2, kind: Queue, metadata: {name: two}, spec: {resources: {gpu: {quota: 2, limit: 2}}}}",
		"{apiVersion: scheduling.run.ai/v2, kind: Queue, metadata: {name: all}, spec: {resources: {gpu: {quota: -1, limit: -1}, cpu: {quota: 4}}}}",
		"{apiVersion: scheduling.run.ai/v2alpha2, kind: PodGroup, metadata: {name: both, namespace: a}, spec: {minMember: 2, minSubGroup: 2}}",
	}
	cases := map[string]struct {
		pod      *dialect.Pod
		keys     says
		priority int32
		awaits   string
		unread   []string
	}{
		"a pod alone": {pod: podOf(SchedulerName, says{QueueLabel: "q"}, nil), keys: says{v1alpha1.KeyQueue: "q"}, priority: 50},
		"no queue":    {pod: podOf(SchedulerName, nil, nil), keys: says{v1alpha1.KeyQueue: "default-queue"}, priority: 50},
		"by project":  {pod: podOf(SchedulerName, says{"project": "x", "kai.scheduler/node-pool": "y"}, nil), keys: says{v1alpha1.KeyQueue: "x-y"}, priority: 50},
		"a part of a GPU": {
			pod:  podOf(SchedulerName, says{QueueLabel: "two"}, says{"gpu-fraction": "0.5"}),
			keys: says{v1alpha1.KeyQueue: "two"}, priority: 50,
		},
		"a part of a GPU without a quota": {pod: podOf(SchedulerName, says{QueueLabel: "all"}, says{"gpu-memory": "500"}), keys: says{v1alpha1.KeyQueue: "all"}, priority: 50},
		"a Deployment serves": {
			pod:  podOf(SchedulerName, says{QueueLabel: "q"}, nil, owner("ReplicaSet", nil, nil), owner("Deployment", nil, says{minMember: "10"})),
			keys: says{v1alpha1.KeyQueue: "q", v1alpha1.KeyPreemptible: "false"}, priority: 125, unread: []string{minMember},
		},
		"a Deployment that trains": {
			pod:  podOf(SchedulerName, nil, nil, owner("ReplicaSet", nil, nil), owner("Deployment", says{QueueLabel: "q", priorityLabel: "train"}, nil)),
			keys: says{v1alpha1.KeyQueue: "q"}, priority: 50,
		},
		"a Job is no gang by itself": {pod: podOf(SchedulerName, nil, nil, owner("Job", says{QueueLabel: "q"}, nil)), keys: says{v1alpha1.KeyQueue: "q"}, priority: 50},
		"a Job with a minimum": {
			pod:  podOf(SchedulerName, says{QueueLabel: "other"}, nil, owner("Job", says{QueueLabel: "q"}, says{minMember: "10", preemptionDelay: "10m"})),
			keys: says{v1alpha1.KeyQueue: "q", v1alpha1.KeyGang: "pg-o-ou", v1alpha1.KeyMin: "10", v1alpha1.KeyPreemptionDelay: "10m0s"}, priority: 50,
		},
		"values that make no sense": {
			pod:  podOf(SchedulerName, says{priorityLabel: "nobody", preemptibilityLabel: "maybe"}, says{segmentSize: "x"}, owner("Job", nil, says{minMember: "-1", preemptionDelay: "soon"})),
			keys: says{v1alpha1.KeyQueue: "default-queue"}, priority: 50,
			unread: []string{
				"kai.scheduler/batch-min-member is -1: want a whole number above 0", "kai.scheduler/preemptibility is maybe: want preemptible or non-preemptible",
				"kai.scheduler/preemption-delay is soon: want a time, such as 10m", "kai.scheduler/segment-size is x: want a number above 1, with kai.scheduler/segment-topology-required-placement",
				"priorityClassName is nobody: want a PriorityClass that exists",
			},
		},
		"segments in racks": {
			pod:  podOf(SchedulerName, nil, says{segmentSize: "4", segmentRequired: "rack", topologyName: "t"}, owner("Job", nil, says{minMember: "8"})),
			keys: says{v1alpha1.KeyQueue: "default-queue", v1alpha1.KeyGang: "pg-o-ou", v1alpha1.KeyMin: "8", v1alpha1.KeySegment: "4@x/rack"}, priority: 50,
		},
		"in a PodGroup": {
			pod:  podOf(SchedulerName, says{"kai.scheduler/x": "1"}, says{groupAnnotation: "g"}),
			keys: says{v1alpha1.KeyQueue: "q", v1alpha1.KeyGang: "g", v1alpha1.KeyMin: "4", v1alpha1.KeyTopologyRequired: "x/rack", v1alpha1.KeyPreemptible: "false"}, priority: 100,
			unread: []string{"kai.scheduler/x"},
		},
		"in a tree": {
			pod: podOf(SchedulerName, says{SubgroupLabel: "decode"}, says{groupAnnotation: "tree"}),
			keys: says{
				v1alpha1.KeyQueue: "q", v1alpha1.KeyGang: "tree", v1alpha1.KeySubgroup: "serve/decode", v1alpha1.KeyMin: "3", v1alpha1.KeyMinSubgroups: "1,serve=2",
				v1alpha1.KeySubgroupTopology: "x/rack",
			}, priority: 50,
		},
		"no such PodGroup":       {pod: podOf(SchedulerName, nil, says{groupAnnotation: "nobody"}), keys: says{}, awaits: "PodGroup nobody does not exist"},
		"no such subgroup":       {pod: podOf(SchedulerName, says{SubgroupLabel: "z"}, says{groupAnnotation: "tree"}), keys: says{}, awaits: "PodGroup tree has no subgroup z, or none above it that it names"},
		"in no subgroup":         {pod: podOf(SchedulerName, nil, says{groupAnnotation: "tree"}), keys: says{}, awaits: "PodGroup tree has subgroups, and the pod has no label kai.scheduler/subgroup-name"},
		"in the middle":          {pod: podOf(SchedulerName, says{SubgroupLabel: "serve"}, says{groupAnnotation: "tree"}), keys: says{}, awaits: "subgroup serve of PodGroup tree has subgroups: pods are in those without"},
		"in a circle":            {pod: podOf(SchedulerName, says{SubgroupLabel: "x"}, says{groupAnnotation: "circle"}), keys: says{}, awaits: "PodGroup circle has no subgroup x, or none above it that it names"},
		"a group with two rules": {pod: podOf(SchedulerName, nil, says{groupAnnotation: "both"}), keys: says{}, awaits: "PodGroup both: spec.minMember and spec.minSubGroup: want one of them"},
	}
	w := worldOf(t, groups...)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := New().Pod(c.pod, w)
			if diff := cmp.Diff(c.keys, got.Keys); diff != "" {
				t.Error(diff)
			}
			if got.Priority != nil && *got.Priority != c.priority || got.Priority == nil && c.priority != 0 {
				t.Errorf("priority %v, want %d", got.Priority, c.priority)
			}
			if diff := cmp.Diff(c.awaits, got.Awaits); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(c.unread, got.Unread); diff != "" {
				t.Error(diff)
			}
		})
	}
	if got := New().Pod(podOf("berth", nil, nil), w); got != nil {
		t.Errorf("a pod of another scheduler, without a key, is read: %v", got)
	}
	if got := New().Pod(podOf("berth", says{QueueLabel: "q"}, nil), w); got == nil || got.Keys[v1alpha1.KeyQueue] != "q" {
		t.Errorf("a pod with KAI's key is %v", got)
	}
}

func TestMadeGroup(t *testing.T) {
	got := New().Pod(podOf(SchedulerName, says{QueueLabel: "q"}, nil, owner("Job", nil, says{minMember: "10", topologyRequired: "x/rack"})), world{}).Group.Make()
	want := dialecttest.Object(t, `
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata:
  name: pg-o-ou
  namespace: a
  labels: {app.kubernetes.io/managed-by: berth}
  ownerReferences: [{apiVersion: batch/v1, kind: Job, name: o, uid: ou}]
spec: {queue: q, priorityClassName: train, topologyConstraint: {requiredTopologyLevel: x/rack}}
`)
	want.Object["spec"].(map[string]any)["minMember"] = int64(10)
	if diff := cmp.Diff(want.Object, got.Object); diff != "" {
		t.Error(diff)
	}
}

func TestStatusOfAGroupThatWaits(t *testing.T) {
	at := time.Date(2026, 11, 17, 6, 0, 0, 0, time.UTC)
	o := dialecttest.Object(t, "{status: {schedulingConditions: [{type: UnschedulableOnNodePool, lastTransitionTime: '2026-11-17T05:00:00Z'}], kept: x}}")
	s := dialect.GroupState{Pending: 2, Message: "no room", Cause: "over-quota"}
	got := New().(dialect.Reporter).GroupStatus(o, s, at)
	c := got["schedulingConditions"].([]any)[0].(map[string]any)
	if c["lastTransitionTime"] != "2026-11-17T05:00:00Z" || got["kept"] != "x" || got["phase"] != "Pending" || dialect.Text(c["reasons"].([]any)[0], "reason") != "NonPreemptibleOverQuota" {
		t.Errorf("got %v", got)
	}
	s = dialect.GroupState{Running: 2}
	if got := New().(dialect.Reporter).GroupStatus(o, s, at); got["schedulingConditions"] != nil || got["phase"] != "Running" {
		t.Errorf("got %v", got)
	}
}

// What is installed reads without a field that has no effect.
func TestInstall(t *testing.T) {
	for _, text := range New().Install().Objects {
		o := dialecttest.Object(t, text)
		if o.GetKind() != "Queue" {
			continue
		}
		if got := New().Read(o, nil); len(got.Unread) > 0 || got.Problem != "" {
			t.Errorf("%s: %v %s", o.GetName(), got.Unread, got.Problem)
		}
	}
}

// Berth has a queue called default itself, which would count before KAI's.
func TestDefaultQueue(t *testing.T) {
	d := New()
	if got := d.Read(dialecttest.Object(t, "{apiVersion: scheduling.run.ai/v2, kind: Queue, metadata: {name: default}}"), nil).Queue.Name; got != "kai-default" {
		t.Errorf("it is called %s", got)
	}
	if got := d.Read(dialecttest.Object(t, "{apiVersion: scheduling.run.ai/v2, kind: Queue, metadata: {name: a}, spec: {parentQueue: default}}"), nil).Queue.Spec.Parent; got != "kai-default" {
		t.Errorf("it is below %s", got)
	}
	got := d.Pod(podOf(SchedulerName, says{QueueLabel: "default"}, nil), world{})
	if got.Keys[v1alpha1.KeyQueue] != "kai-default" || dialect.Text(got.Group.Make().Object, "spec", "queue") != "default" {
		t.Errorf("a pod of it is in %s, its PodGroup in %v", got.Keys[v1alpha1.KeyQueue], got.Group.Make().Object["spec"])
	}
	status := d.(dialect.Reporter).QueueStatus(dialecttest.Object(t, "{}"), dialect.QueueState{Children: []string{"kai-default"}}, time.Time{})
	if diff := cmp.Diff([]any{"default"}, status["childQueues"]); diff != "" {
		t.Error(diff)
	}
}

// Ray's objects have a label of their own for a priority class, which KAI takes before the others.
func TestRayPriority(t *testing.T) {
	ray := owner("RayCluster", says{"ray.io/priority-class-name": "build", priorityLabel: "train"}, nil)
	if got := New().Pod(podOf(SchedulerName, nil, nil, ray), world{}); got.Priority == nil || *got.Priority != 100 || got.Keys[v1alpha1.KeyPreemptible] != "false" {
		t.Errorf("got %+v", got)
	}
}
