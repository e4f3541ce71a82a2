package volcano

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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
func (w world) Objects(kind, _ string) []*dialect.Object {
	var out []*dialect.Object
	for _, key := range slices.Sorted(maps.Keys(w)) {
		if strings.HasPrefix(key, kind+"/") {
			out = append(out, w[key])
		}
	}
	return out
}
func (w world) Priority(class string) (int32, bool) {
	n, ok := map[string]int32{"high-priority": 1000}[class]
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

func queueText(name, spec string) string {
	return "{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: " + name + "}, spec: " + spec + "}"
}

func queue(t *testing.T, name, spec string) *unstructured.Unstructured {
	return dialecttest.Object(t, queueText(name, spec))
}

func TestQueue(t *testing.T) {
	rooted := worldOf(t, "{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: root}}")
	cases := map[string]struct {
		name, spec string
		world      dialect.World
		want       string // of the BerthQueue, as YAML
		unread     []string
		problem    string
	}{
		"shares by weight": {spec: "{weight: 3, reclaimable: true}", want: "weight: 3\n"},
		"nothing said":     {spec: "null", want: "weight: 1\n"},
		"capacity": {
			spec: `{reclaimable: true, deserved: {cpu: 64, memory: 128Gi, nvidia.com/gpu: "8"}, capability: {nvidia.com/gpu: 16}}`,
			want: `resources:
- name: cpu
  quota: "64"
- name: memory
  quota: 128Gi
- limit: "16"
  name: nvidia.com/gpu
  quota: "8"
weight: 1
`,
		},
		"what is guaranteed is not lent": {
			spec: `{guarantee: {resource: {nvidia.com/gpu: 2, cpu: 4}}, deserved: {nvidia.com/gpu: 8}, priority: 7}`,
			want: `priority: 7
resources:
- lend: "0"
  name: cpu
  quota: "4"
- lend: "6"
  name: nvidia.com/gpu
  quota: "8"
weight: 1
`,
		},
		"below another":         {spec: "{parent: eng}", want: "parent: eng\nweight: 1\n", world: rooted},
		"below default":         {spec: "{parent: default}", want: "parent: volcano-default\nweight: 1\n", world: rooted},
		"below root by name":    {spec: "{parent: root}", want: "parent: root\nweight: 1\n", world: rooted},
		"below root without it": {spec: "{}", want: "parent: root\nweight: 1\n", world: rooted},
		"nobody made root":      {spec: "{parent: root}", want: "weight: 1\n", world: world{}},
		"root is below nothing": {name: "root", spec: "{}", want: "weight: 1\n", world: rooted},
		"root has what those below it have": {
			name: "root", spec: "{deserved: {cpu: 100, memory: 1Gi}}",
			world: worldOf(t,
				queueText("a", "{deserved: {cpu: 4, nvidia.com/gpu: 4}}"), queueText("b", "{parent: root, guarantee: {resource: {nvidia.com/gpu: 2}}}"),
				queueText("c", "{parent: a, deserved: {nvidia.com/gpu: 4}}"), queueText("d", "{deserved: {nvidia.com/gpu: -1}}"), queueText("root", "{deserved: {cpu: 100}}")),
			want: `resources:
- name: cpu
  quota: "100"
- name: memory
  quota: 1Gi
- name: nvidia.com/gpu
  quota: "6"
weight: 1
`,
		},
		"root has no more than it may": {
			name: "root", spec: "{capability: {nvidia.com/gpu: 3}}", world: worldOf(t, queueText("a", "{deserved: {nvidia.com/gpu: 4}}")),
			want: "resources:\n- limit: \"3\"\n  name: nvidia.com/gpu\n  quota: \"3\"\nweight: 1\n",
		},
		"more than it may have":   {spec: "{deserved: {cpu: 8}, capability: {cpu: 4}}", want: "resources:\n- limit: \"4\"\n  name: cpu\n  quota: \"4\"\nweight: 1\n", unread: []string{"spec.deserved.cpu (above the capability, which counts)"}},
		"guaranteed more than it": {spec: "{guarantee: {resource: {cpu: 8}}, capability: {cpu: 4}}", want: "resources:\n- lend: \"0\"\n  limit: \"4\"\n  name: cpu\n  quota: \"4\"\nweight: 1\n", unread: []string{"spec.deserved.cpu (above the capability, which counts)"}},
		"fields without effect": {
			spec: "{weight: 1, reclaimable: false, dequeueStrategy: fifo, type: x, affinity: {nodeGroupAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [a]}}, guarantee: {nodes: 2}}",
			want: "queueingStrategy: StrictFIFO\nweight: 1\n",
			unread: []string{
				"spec.guarantee.nodes", "spec.type",
			},
		},
		"device classes": {
			spec: "{capability: {cpu: 4, deviceclass/gpu.example.com: 8, cores.deviceclass/part.example.com: 800}, guarantee: {resource: {memory.deviceclass/part.example.com: 1Gi}}}",
			want: "resources:\n- limit: \"4\"\n  name: cpu\nweight: 1\n",
			unread: []string{
				"spec.capability.cores.deviceclass/part.example.com (devices of claims are not counted by class)",
				"spec.capability.deviceclass/gpu.example.com (devices of claims are not counted by class)",
				"spec.guarantee.resource.memory.deviceclass/part.example.com (devices of claims are not counted by class)",
			},
		},
		"hostile": {
			spec: "{weight: 2000000000, deserved: {cpu: -5}, capability: [1], priority: many}",
			want: "resources:\n- name: cpu\nweight: 65536\n", unread: []string{"spec.capability (want an object)", "spec.priority (want a whole number)", "spec.deserved.cpu (below 0)"},
		},
		"too many resources": {
			spec: "{deserved: {a/1: 1, a/2: 1, a/3: 1, a/4: 1, a/5: 1, a/6: 1, a/7: 1, a/8: 1, a/9: 1, a/10: 1, a/11: 1, a/12: 1, a/13: 1, a/14: 1, a/15: 1, a/16: 1, a/17: 1}}",
			want: "weight: 1\n", problem: "it names 17 resources: the limit is 16",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := New().Read(queue(t, or(c.name, "q"), c.spec), c.world)
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
			if diff := cmp.Diff(c.problem, got.Problem); diff != "" {
				t.Error(diff)
			}
		})
	}
}

type says = map[string]string

func podOf(scheduler string, labels, annotations says, owners ...dialect.Owner) *dialect.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p", UID: "u", Labels: labels, Annotations: annotations}}
	p.Spec.SchedulerName = scheduler
	return &dialect.Pod{Pod: p, Owners: owners}
}

func owner(kind string, annotations says) dialect.Owner {
	return dialect.Owner{Kind: kind, Name: "o", UID: "ou", Meta: metav1.ObjectMeta{Annotations: annotations}}
}

func group(name, spec string) string {
	return "{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: " + name + ", namespace: a}, spec: " + spec + "}"
}

func TestPod(t *testing.T) {
	w := worldOf(t,
		group("g", "{minMember: 4, queue: q, priorityClassName: high-priority, minResources: {cpu: 3, memory: 2048Mi}}"),
		group("plain", "{}"),
		group("tasks", "{minMember: 3, minTaskMember: {master: 1, worker: 2}, queue: q}"),
		group("zero", "{minMember: 2, minTaskMember: {master: 0}}"),
		group("bad", "{minMember: -1}"),
		group("worse", "{minTaskMember: {a: -1}}"),
	)
	high := int32(1000)
	cases := map[string]struct {
		pod      *dialect.Pod
		keys     says
		priority *int32
		awaits   string
		unread   []string
		group    string
	}{
		"a pod alone":   {pod: podOf(SchedulerName, nil, nil), keys: says{v1alpha1.KeyQueue: "volcano-default"}, group: "podgroup-u"},
		"in a queue":    {pod: podOf(SchedulerName, nil, says{queueKey: "q"}), keys: says{v1alpha1.KeyQueue: "q"}, group: "podgroup-u"},
		"by its label":  {pod: podOf(SchedulerName, says{jobQueueKey: "q"}, nil), keys: says{v1alpha1.KeyQueue: "q"}, group: "podgroup-u"},
		"of a Job":      {pod: podOf(SchedulerName, nil, nil, owner("Job", nil)), keys: says{v1alpha1.KeyQueue: "volcano-default"}, group: "podgroup-ou"},
		"not preempted": {pod: podOf(SchedulerName, says{preemptable: "false"}, nil), keys: says{v1alpha1.KeyQueue: "volcano-default", v1alpha1.KeyPreemptible: "false"}, group: "podgroup-u"},
		"a Job with a minimum": {
			pod:  podOf(SchedulerName, nil, nil, owner("Job", says{minMemberKey: "3", queueKey: "q"})),
			keys: says{v1alpha1.KeyQueue: "q", v1alpha1.KeyGang: "podgroup-ou", v1alpha1.KeyMin: "3"}, group: "podgroup-ou",
		},
		"in a PodGroup": {
			pod:  podOf(SchedulerName, nil, says{groupKey: "g", queueKey: "other"}),
			keys: says{v1alpha1.KeyQueue: "q", v1alpha1.KeyGang: "g", v1alpha1.KeyMin: "4"}, priority: &high, group: "g",
		},
		"by the key of Kubernetes": {
			pod:  podOf(SchedulerName, nil, says{kubeGroupKey: "plain"}),
			keys: says{v1alpha1.KeyQueue: "volcano-default", v1alpha1.KeyGang: "plain", v1alpha1.KeyMin: "1"}, group: "plain",
		},
		"as Volcano's job controller makes it": {
			pod:  podOf(SchedulerName, says{"volcano.sh/job-name": "j", "volcano.sh/queue-name": "q", taskKey: "worker"}, says{kubeGroupKey: "tasks", taskKey: "worker", "volcano.sh/job-version": "0", "volcano.sh/template-uid": "j-worker"}),
			keys: says{v1alpha1.KeyQueue: "q", v1alpha1.KeyGang: "tasks", v1alpha1.KeySubgroup: "worker", v1alpha1.KeyMin: "2", v1alpha1.KeyMinSubgroups: "2"}, group: "tasks",
		},
		"of a task without a minimum": {pod: podOf(SchedulerName, nil, says{groupKey: "tasks", taskKey: "logs"}), keys: says{v1alpha1.KeyQueue: "q"}, group: "tasks"},
		"no task has a minimum":       {pod: podOf(SchedulerName, nil, says{groupKey: "zero", taskKey: "master"}), keys: says{v1alpha1.KeyQueue: "volcano-default", v1alpha1.KeyGang: "zero", v1alpha1.KeyMin: "2"}, group: "zero"},
		"no such PodGroup":            {pod: podOf(SchedulerName, nil, says{groupKey: "nobody"}), keys: says{}, awaits: "PodGroup nobody does not exist", group: "nobody"},
		"a PodGroup without sense":    {pod: podOf(SchedulerName, nil, says{groupKey: "bad"}), keys: says{}, awaits: "PodGroup bad: spec.minMember: want a number up to 1000000", group: "bad"},
		"tasks without sense":         {pod: podOf(SchedulerName, nil, says{groupKey: "worse"}), keys: says{}, awaits: "PodGroup worse: spec.minTaskMember: want numbers of pods", group: "worse"},
		"keys without effect": {
			pod:  podOf(SchedulerName, says{"volcano.sh/cooldown-time": "600s"}, says{"volcano.sh/vgpu-mode": "mig", preemptable: "maybe", "volcano.sh/sla-waiting-time": "1h"}, owner("Job", says{minMemberKey: "-3", "volcano.sh/revocable-zone": "*"})),
			keys: says{v1alpha1.KeyQueue: "volcano-default"}, group: "podgroup-ou",
			unread: []string{
				"scheduling.volcano.sh/group-min-member is -3: want a whole number above 0", "volcano.sh/cooldown-time", "volcano.sh/preemptable is maybe: want true or false",
				"volcano.sh/revocable-zone", "volcano.sh/sla-waiting-time", "volcano.sh/vgpu-mode is mig: want hami-core",
			},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := New().Pod(c.pod, w)
			group := ""
			if got.Group != nil {
				group = got.Group.Name
			}
			for what, diff := range map[string]string{
				"keys": cmp.Diff(c.keys, got.Keys), "priority": cmp.Diff(c.priority, got.Priority), "awaits": cmp.Diff(c.awaits, got.Awaits),
				"unread": cmp.Diff(c.unread, got.Unread), "group": cmp.Diff(c.group, group),
			} {
				if diff != "" {
					t.Errorf("%s:\n%s", what, diff)
				}
			}
		})
	}
	if got := New().Pod(podOf("berth", nil, nil), w); got != nil {
		t.Errorf("a pod of another scheduler, without a key, is read: %v", got)
	}
	if got := New().Pod(podOf("berth", nil, says{groupKey: "g"}), w); got == nil || got.Group.Name != "g" {
		t.Errorf("a pod with Volcano's key is %v", got)
	}
}

func TestGroupFieldsWithoutEffect(t *testing.T) {
	got := New().Read(dialecttest.Object(t, group("g", "{minMember: 5, minTaskMember: {a: 1, b: 2}, networkTopology: {mode: hard, highestTierAllowed: 1}, subGroupPolicy: [{name: x}], somethingNew: 1}")), nil)
	want := []string{"spec.somethingNew", "spec.minMember (above the 3 of spec.minTaskMember, which count)", "spec.subGroupPolicy (without a size and a hard networkTopology)"}
	if diff := cmp.Diff(want, got.Unread); diff != "" {
		t.Error(diff)
	}
}

func TestMadeGroup(t *testing.T) {
	got := New().Pod(podOf(SchedulerName, nil, nil, owner("Job", says{minMemberKey: "3"})), world{}).Group.Make()
	want := dialecttest.Object(t, `
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata:
  name: podgroup-ou
  namespace: a
  labels: {app.kubernetes.io/managed-by: berth}
  ownerReferences: [{apiVersion: batch/v1, kind: Job, name: o, uid: ou}]
spec: {queue: default}
`)
	want.Object["spec"].(map[string]any)["minMember"] = int64(3)
	if diff := cmp.Diff(want.Object, got.Object); diff != "" {
		t.Error(diff)
	}
}

func TestStatus(t *testing.T) {
	at := time.Date(2026, 11, 17, 6, 0, 0, 0, time.UTC)
	const since = "2026-11-17T05:00:00Z"
	was := dialecttest.Object(t, "{status: {phase: Pending, kept: x, conditions: [{type: Unschedulable, status: 'True', reason: NotEnoughResources, transitionID: '4', lastTransitionTime: '"+since+"'}]}}")
	report := New().(dialect.Reporter)
	unschedulable := func(reason, message, id, since string) map[string]any {
		return map[string]any{"type": "Unschedulable", "status": "True", "reason": reason, "message": message, "transitionID": id, "lastTransitionTime": since}
	}
	for name, c := range map[string]struct {
		state dialect.GroupState
		want  map[string]any
	}{
		"waits for a place": {
			state: dialect.GroupState{Min: 2, Pending: 2, Message: "no room", Cause: "fragmented"},
			want:  map[string]any{"phase": "Inqueue", "kept": "x", "conditions": []any{unschedulable("NotEnoughResources", "no room", "4", since)}},
		},
		"waits for its queue": {
			state: dialect.GroupState{Min: 2, Pending: 2, Message: "full", Cause: "over-queue-limit"},
			want:  map[string]any{"phase": "Pending", "kept": "x", "conditions": []any{unschedulable("NotEnoughResources", "full", "4", since)}},
		},
		"waits for pods": {
			state: dialect.GroupState{Min: 2, Pending: 1, Message: "1 of 2", Cause: "gang-incomplete"},
			want:  map[string]any{"phase": "Inqueue", "kept": "x", "conditions": []any{unschedulable("NotEnoughTasks", "1 of 2", "5", "2026-11-17T06:00:00Z")}},
		},
		"runs": {
			state: dialect.GroupState{Min: 2, Running: 2, Succeeded: 1},
			want: map[string]any{"phase": "Running", "kept": "x", "running": int64(2), "succeeded": int64(1), "conditions": []any{
				map[string]any{"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "transitionID": "4", "lastTransitionTime": since},
				map[string]any{"type": "Scheduled", "status": "True", "reason": "tasks in gang are ready to be scheduled", "message": "", "transitionID": "5", "lastTransitionTime": "2026-11-17T06:00:00Z"},
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, report.GroupStatus(was, c.state, at)); diff != "" {
				t.Error(diff)
			}
		})
	}
	for name, c := range map[string]struct {
		state dialect.GroupState
		want  string
	}{
		"half of it runs": {state: dialect.GroupState{Min: 2, Running: 1}, want: "Unknown"},
		"has ended":       {state: dialect.GroupState{Min: 2, Succeeded: 2}, want: "Completed"},
		"nobody came":     {state: dialect.GroupState{Min: 2}, want: "Pending"},
	} {
		if got := report.GroupStatus(was, c.state, at)["phase"]; got != c.want {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
	}
	got := report.QueueStatus(dialecttest.Object(t, "{status: {state: Closed}}"), dialect.QueueState{Running: 1, Waiting: 2, Allocated: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")}}, at)
	if diff := cmp.Diff(map[string]any{"state": "Closed", "running": int64(1), "pending": int64(2), "allocated": map[string]any{"nvidia.com/gpu": "8"}}, got); diff != "" {
		t.Error(diff)
	}
}

// Berth has a queue called default itself, which would count before Volcano's.
func TestDefaultQueue(t *testing.T) {
	if got := New().Read(queue(t, "default", "{}"), nil).Queue.Name; got != "volcano-default" {
		t.Errorf("it is called %s", got)
	}
}

// What is installed reads without a field that has no effect.
func TestInstall(t *testing.T) {
	for _, text := range New().Install().Objects {
		o := dialecttest.Object(t, text)
		if o.GetKind() != "Queue" {
			continue
		}
		if got := New().Read(o, nil); len(got.Unread) > 0 || got.Problem != "" || got.Queue == nil {
			t.Errorf("%s: %v %s", text, got.Unread, got.Problem)
		}
	}
}

// Whatever an object says, reading it ends, keeps little, and a pod in it gets no key that makes no sense.
func FuzzRead(f *testing.F) {
	f.Add("Queue", `{"deserved":{"cpu":"1"},"guarantee":{"resource":{"cpu":"9e99"}}}`, "worker")
	f.Add("PodGroup", `{"minMember":3,"minTaskMember":{"worker":2}}`, "worker")
	f.Fuzz(func(t *testing.T, kind, spec, task string) {
		var tree any
		if yaml.Unmarshal([]byte(spec), &tree) != nil {
			return
		}
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": kind, "metadata": map[string]any{"name": "g", "namespace": "a"}, "spec": tree}}
		got := New().Read(o, world{})
		if len(got.Unread) > dialect.MaxUnread+40 {
			t.Errorf("%d fields are told", len(got.Unread))
		}
		if got.Queue != nil {
			for _, r := range got.Queue.Spec.Resources {
				if r.Quota != nil && (r.Quota.Sign() < 0 || r.Limit != nil && r.Quota.Cmp(*r.Limit) > 0) || r.Lend != nil && (r.Lend.Sign() < 0 || r.Lend.Cmp(*r.Quota) > 0) {
					t.Errorf("%+v", r)
				}
			}
		}
		terms := New().Pod(podOf(SchedulerName, nil, says{groupKey: "g", taskKey: task}), world{PodGroups + "/a/g": &got})
		if terms.Awaits == "" && terms.Keys[v1alpha1.KeyQueue] == "" {
			t.Errorf("no queue: %+v", terms)
		}
	})
}

// TestNodeGroups has pods on the node groups of their queue, as Volcano's plugin nodegroup does.
func TestNodeGroups(t *testing.T) {
	const required, preferred = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"
	for name, c := range map[string]struct {
		affinity string
		want     string
		awaits   string
	}{
		"none":              {affinity: "{}"},
		"required":          {affinity: "{nodeGroupAffinity: {" + required + ": [a, b]}}", want: "a=100 b=100"},
		"and preferred":     {affinity: "{nodeGroupAffinity: {" + required + ": [a], " + preferred + ": [b, a]}}", want: "a=100 b=50"},
		"but":               {affinity: "{nodeGroupAffinity: {" + required + ": [a, b]}, nodeGroupAntiAffinity: {" + required + ": [b]}}", want: "a=100"},
		"rather not":        {affinity: "{nodeGroupAffinity: {" + required + ": [a, b]}, nodeGroupAntiAffinity: {" + preferred + ": [b]}}", want: "a=100 b=0"},
		"only what is out":  {affinity: "{nodeGroupAntiAffinity: {" + required + ": [b]}}", awaits: "Queue team: its affinity names no node group that its workloads may have"},
		"out, rather not":   {affinity: "{nodeGroupAntiAffinity: {" + required + ": [b], " + preferred + ": [b]}}", want: "b=0"},
		"without any group": {affinity: "{nodeGroupAffinity: {}}"},
	} {
		t.Run(name, func(t *testing.T) {
			w := worldOf(t, queueText("team", "{affinity: "+c.affinity+"}"), queueText("below", "{parent: team}"))
			if o := w.Object(Queues, "", "team"); len(o.Unread) > 0 || !o.Steers {
				t.Errorf("not read: %q", o.Unread)
			}
			for _, queue := range []string{"team", "below"} {
				p := &dialect.Pod{Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "a", Annotations: map[string]string{queueKey: queue}}, Spec: corev1.PodSpec{SchedulerName: SchedulerName}}}
				terms := New().Pod(p, w)
				var got []string
				for _, f := range terms.Flavors {
					got = append(got, fmt.Sprintf("%s=%d", f.Labels[nodeGroupKey], f.Prefer))
				}
				if strings.Join(got, " ") != c.want || terms.Awaits != c.awaits {
					t.Errorf("%s: %v, awaits %q", queue, got, terms.Awaits)
				}
			}
		})
	}
}

// A policy divides the pods that it selects, and of several each those of its task; what comes to the same as the minimum is not told.
func TestSubGroupPolicies(t *testing.T) {
	const near = "networkTopology: {mode: hard, highestTierAllowed: 1}"
	of := func(task string, size, least int) string {
		return fmt.Sprintf("{name: %s, subGroupSize: %d, minSubGroups: %d, labelSelector: {matchLabels: {volcano.sh/task-spec: %s}}, %s}", task, size, least, task, near)
	}
	for name, c := range map[string]struct {
		spec   string
		want   map[string]string // by task, its segments
		unread []string
	}{
		"of one task":  {spec: "{minMember: 9, minTaskMember: {a: 8, b: 1}, subGroupPolicy: [" + of("a", 4, 2) + "]}", want: map[string]string{"a": "4@volcano.sh/tier-1"}},
		"of each task": {spec: "{minMember: 12, minTaskMember: {a: 8, b: 4}, subGroupPolicy: [" + of("a", 4, 2) + ", " + of("b", 2, 2) + "]}", want: map[string]string{"a": "4@volcano.sh/tier-1", "b": "2@volcano.sh/tier-1"}},
		"of all":       {spec: "{minMember: 8, subGroupPolicy: [{name: x, subGroupSize: 4, " + near + "}]}", want: map[string]string{"a": "4@volcano.sh/tier-1", "b": "4@volcano.sh/tier-1"}},
		"of one task twice": {spec: "{minMember: 8, minTaskMember: {a: 8}, subGroupPolicy: [" + of("a", 4, 2) + ", " + of("a", 2, 4) + "]}",
			unread: []string{"spec.subGroupPolicy (of several that do not select one task of spec.minTaskMember each, none counts)"}},
		"fewer than start": {spec: "{minMember: 8, minTaskMember: {a: 8}, subGroupPolicy: [" + of("a", 4, 1) + "]}", want: map[string]string{"a": "4@volcano.sh/tier-1"},
			unread: []string{"spec.subGroupPolicy.minSubGroups (spec.minMember counts)"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := New().Read(dialecttest.Object(t, group("g", c.spec)), nil)
			if diff := cmp.Diff(c.unread, g.Unread); diff != "" {
				t.Error(diff)
			}
			h := New().Read(dialecttest.Object(t, "{kind: HyperNode, metadata: {name: h}, spec: {tier: 1}}"), nil)
			w := world{PodGroups + "/a/g": &g, HyperNodes + "//h": &h}
			for _, task := range []string{"a", "b"} {
				got := New().Pod(podOf(SchedulerName, nil, says{groupKey: "g", taskKey: task}), w)
				if got.Keys[v1alpha1.KeySegment] != c.want[task] {
					t.Errorf("pods of task %s: %v", task, got.Keys)
				}
			}
		})
	}
}
