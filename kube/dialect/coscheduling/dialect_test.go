package coscheduling

import (
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

// world is what the tests' objects say, in the order of their names.
type world []*dialect.Object

func (w world) Object(kind, namespace, name string) *dialect.Object {
	for _, o := range w.Objects(kind, namespace) {
		if o.Name == name {
			return o
		}
	}
	return nil
}

func (w world) Objects(kind, namespace string) (out []*dialect.Object) {
	for _, o := range w {
		if o.Kind == kind && o.Namespace == namespace {
			out = append(out, o)
		}
	}
	return out
}

func (w world) Priority(string) (int32, bool) { return 0, false }

func of(kind, namespace, name, spec string) string {
	return "{apiVersion: scheduling.x-k8s.io/v1alpha1, kind: " + kind + ", metadata: {name: " + name + ", namespace: " + namespace + "}, spec: " + spec + "}"
}

func worldOf(t *testing.T, texts ...string) (w world) {
	for _, text := range texts {
		o := dialecttest.Object(t, text)
		v := New().Read(o, w)
		v.Kind, v.Namespace, v.Name = o.GetKind()+"."+o.GroupVersionKind().Group, o.GetNamespace(), o.GetName()
		w = append(w, &v)
	}
	return w
}

func TestElasticQuota(t *testing.T) {
	const selector = "namespaceSelector:\n  matchLabels:\n    kubernetes.io/metadata.name: quota1\n"
	cases := map[string]struct {
		namespace, spec string
		world           dialect.World
		want            string // of the queue, as YAML; "": there is none
		unread          []string
		problem         string
	}{
		"as documented": {spec: "{min: {cpu: 4}, max: {cpu: 6}}", want: selector + "resources:\n- limit: \"6\"\n  name: cpu\n  quota: \"4\"\n"},
		"of GPUs":       {spec: `{min: {nvidia.com/gpu: "8"}}`, want: selector + "resources:\n- name: nvidia.com/gpu\n  quota: \"8\"\n"},
		"nothing said":  {spec: "null", want: selector},
		"without sense": {
			spec: "{min: {cpu: 8, memory: -1}, max: {cpu: 4}, borrow: true}", want: selector + "resources:\n- limit: \"4\"\n  name: cpu\n  quota: \"4\"\n- name: memory\n",
			unread: []string{"spec.borrow", "spec.min.cpu (above the maximum, which counts)", "spec.min.memory (below 0)"},
		},
		"a second":    {spec: "{min: {cpu: 4}}", world: worldOf(t, of("ElasticQuota", "quota1", "a", "{}")), problem: "another ElasticQuota of the namespace comes before it: one counts"},
		"a long name": {namespace: strings.Repeat("n", 61), spec: "{}", problem: "its namespace's name is longer than 60 characters, the limit"},
		"too much": {
			spec: "{min: {a/1: 1, a/2: 1, a/3: 1, a/4: 1, a/5: 1, a/6: 1, a/7: 1, a/8: 1, a/9: 1}, max: {b/1: 1, b/2: 1, b/3: 1, b/4: 1, b/5: 1, b/6: 1, b/7: 1, b/8: 1}}", problem: "it names 17 resources: the limit is 16",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			namespace := c.namespace
			if namespace == "" {
				namespace = "quota1"
			}
			got := New().Read(dialecttest.Object(t, of("ElasticQuota", namespace, "q", c.spec)), c.world)
			text := ""
			if got.Queue != nil {
				b, err := yaml.Marshal(got.Queue.Spec)
				if err != nil {
					t.Fatal(err)
				}
				text = string(b)
				if got.Queue.Name != "eq-quota1" {
					t.Errorf("the queue's name is %s", got.Queue.Name)
				}
			}
			for what, diff := range map[string]string{"queue": cmp.Diff(c.want, text), "unread": cmp.Diff(c.unread, got.Unread), "problem": cmp.Diff(c.problem, got.Problem)} {
				if diff != "" {
					t.Errorf("%s:\n%s", what, diff)
				}
			}
		})
	}
}

type says = map[string]string

func podOf(scheduler, namespace string, labels says) *dialect.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p", UID: "u", Labels: labels}}
	p.Spec.SchedulerName = scheduler
	return &dialect.Pod{Pod: p}
}

func TestPod(t *testing.T) {
	w := worldOf(t,
		of("PodGroup", "a", "nginx", "{minMember: 3, scheduleTimeoutSeconds: 10, minResources: {cpu: 9}}"),
		of("PodGroup", "a", "plain", "{}"),
		of("PodGroup", "a", "bad", "{minMember: -1}"),
		of("ElasticQuota", "quota", "q", "{min: {cpu: 4}}"),
		of("PodGroup", "quota", "nginx", "{minMember: 2}"),
	)
	cases := map[string]struct {
		pod    *dialect.Pod
		keys   says
		awaits string
		unread []string
		group  string
	}{
		"in a PodGroup":            {pod: podOf(SchedulerName, "a", says{groupLabel: "nginx"}), keys: says{v1alpha1.KeyGang: "nginx", v1alpha1.KeyMin: "3"}, group: "nginx"},
		"of another scheduler":     {pod: podOf("default-scheduler", "a", says{groupLabel: "plain"}), keys: says{v1alpha1.KeyGang: "plain", v1alpha1.KeyMin: "1"}, group: "plain"},
		"alone":                    {pod: podOf(SchedulerName, "a", nil), keys: says{}},
		"charged to its namespace": {pod: podOf(SchedulerName, "quota", nil), keys: says{v1alpha1.KeyQueue: "eq-quota"}},
		"both":                     {pod: podOf("berth", "quota", says{groupLabel: "nginx"}), keys: says{v1alpha1.KeyQueue: "eq-quota", v1alpha1.KeyGang: "nginx", v1alpha1.KeyMin: "2"}, group: "nginx"},
		"no such PodGroup":         {pod: podOf(SchedulerName, "a", says{groupLabel: "nobody"}), keys: says{}, awaits: "PodGroup nobody does not exist", group: "nobody"},
		"a PodGroup without sense": {pod: podOf(SchedulerName, "a", says{groupLabel: "bad"}), keys: says{}, awaits: "PodGroup bad: spec.minMember: want a number up to 1000000", group: "bad"},
		"before there were groups": {pod: podOf(SchedulerName, "a", says{oldNameLabel: "nginx", oldLeastLabel: "4"}), keys: says{v1alpha1.KeyGang: "nginx", v1alpha1.KeyMin: "4"}},
		"a minimum without sense":  {pod: podOf(SchedulerName, "a", says{oldNameLabel: "nginx", oldLeastLabel: "-4"}), keys: says{v1alpha1.KeyGang: "nginx", v1alpha1.KeyMin: "1"}, unread: []string{"pod-group.scheduling.sigs.k8s.io/min-available is -4: want a whole number above 0"}},
		"labels that nobody reads": {pod: podOf(SchedulerName, "a", says{"scheduling.x-k8s.io/other": "x"}), keys: says{}, unread: []string{"scheduling.x-k8s.io/other"}},
	}
	again := podOf(SchedulerName, "a", says{groupLabel: "nginx"})
	again.Owners = []dialect.Owner{{Kind: "ReplicaSet", Meta: metav1.ObjectMeta{Labels: says{groupLabel: "nginx"}}}}
	other := podOf(SchedulerName, "a", says{groupLabel: "nginx"})
	other.Owners = []dialect.Owner{{Kind: "ReplicaSet", Meta: metav1.ObjectMeta{Labels: says{groupLabel: "plain"}}}}
	nginx := cases["in a PodGroup"]
	nginx.pod = again
	cases["whose controller says the same"] = nginx
	nginx.pod, nginx.unread = other, []string{groupLabel}
	cases["whose controller says another"] = nginx
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := New().Pod(c.pod, w)
			group := ""
			if got.Group != nil {
				group = got.Group.Name
			}
			for what, diff := range map[string]string{"keys": cmp.Diff(c.keys, got.Keys), "awaits": cmp.Diff(c.awaits, got.Awaits), "unread": cmp.Diff(c.unread, got.Unread), "group": cmp.Diff(c.group, group)} {
				if diff != "" {
					t.Errorf("%s:\n%s", what, diff)
				}
			}
		})
	}
	if got := New().Pod(podOf("berth", "quota", nil), w); got != nil {
		t.Errorf("a pod of another scheduler, without a key, is read: %v", got)
	}
}

func TestStatus(t *testing.T) {
	at := time.Date(2026, 11, 17, 6, 0, 0, 0, time.UTC)
	report := New().(dialect.Reporter)
	for name, c := range map[string]struct {
		state dialect.GroupState
		want  map[string]any
	}{
		"waits":    {state: dialect.GroupState{Min: 3, Pending: 3}, want: map[string]any{"phase": "Pending", "occupiedBy": "x"}},
		"runs":     {state: dialect.GroupState{Min: 3, Running: 3, Begun: true}, want: map[string]any{"phase": "Running", "occupiedBy": "x", "running": int64(3), "scheduleStartTime": "2026-11-17T06:00:00Z"}},
		"in part":  {state: dialect.GroupState{Min: 3, Running: 1, Pending: 2}, want: map[string]any{"phase": "Unknown", "occupiedBy": "x", "running": int64(1)}},
		"finished": {state: dialect.GroupState{Min: 3, Succeeded: 3}, want: map[string]any{"phase": "Finished", "occupiedBy": "x", "succeeded": int64(3)}},
		"failed":   {state: dialect.GroupState{Min: 3, Running: 2, Failed: 1}, want: map[string]any{"phase": "Failed", "occupiedBy": "x", "running": int64(2), "failed": int64(1)}},
	} {
		if diff := cmp.Diff(c.want, report.GroupStatus(dialecttest.Object(t, "{status: {occupiedBy: x}}"), c.state, at)); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
	got := report.QueueStatus(dialecttest.Object(t, "{}"), dialect.QueueState{Allocated: corev1.ResourceList{"cpu": resource.MustParse("4")}}, at)
	if diff := cmp.Diff(map[string]any{"used": map[string]any{"cpu": "4"}}, got); diff != "" {
		t.Error(diff)
	}
}

// Whatever an object says, reading it ends, and a queue of it makes sense.
func FuzzRead(f *testing.F) {
	f.Add("ElasticQuota", `{"min":{"cpu":"1"},"max":{"cpu":"9e99"}}`)
	f.Add("PodGroup", `{"minMember":3}`)
	f.Fuzz(func(t *testing.T, kind, spec string) {
		var tree any
		if yaml.Unmarshal([]byte(spec), &tree) != nil {
			return
		}
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": kind, "metadata": map[string]any{"name": "g", "namespace": "a"}, "spec": tree}}
		got := New().Read(o, world{})
		if got.Queue != nil {
			for _, r := range got.Queue.Spec.Resources {
				if r.Quota != nil && (r.Quota.Sign() < 0 || r.Limit != nil && r.Quota.Cmp(*r.Limit) > 0) || r.Limit != nil && r.Limit.Sign() < 0 {
					t.Errorf("%+v", r)
				}
			}
		}
		got.Kind, got.Namespace, got.Name = PodGroups, "a", "g"
		if terms := New().Pod(podOf(SchedulerName, "a", says{groupLabel: "g"}), world{&got}); terms.Awaits == "" && terms.Keys[v1alpha1.KeyMin] == "" {
			t.Errorf("no minimum: %+v", terms)
		}
	})
}
