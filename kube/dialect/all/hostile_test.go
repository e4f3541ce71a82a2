package all

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/kube/dialect"
	"github.com/berth-dev/berth/kube/dialect/dialecttest"
)

// samples are objects of every kind with the fields that are understood, in the shape of each project's reference.
var samples = []string{
	`{apiVersion: scheduling.run.ai/v2, kind: Queue, metadata: {name: o}, spec: {parentQueue: top, priority: 7, preemptMinRuntime: 5m, reclaimMinRuntime: 6m,
	  resources: {gpu: {quota: 4, limit: 8, overQuotaWeight: 3}, cpu: {quota: 4000, limit: 8000, overQuotaWeight: 3}, memory: {quota: 4000, limit: 8000, overQuotaWeight: 3}}}}`,
	`{apiVersion: scheduling.run.ai/v2alpha2, kind: PodGroup, metadata: {name: o, namespace: n}, spec: {minMember: 3, queue: q, priorityClassName: train, preemptibility: preemptible, preemptionDelay: 60s,
	  topologyConstraint: {topology: t, requiredTopologyLevel: rack, preferredTopologyLevel: host}, subGroups: [{name: a, minMember: 1}, {name: b, minMember: 2, parent: c}, {name: c, minSubGroup: 1}]}}`,
	`{apiVersion: kai.scheduler/v1alpha1, kind: Topology, metadata: {name: o}, spec: {levels: [{nodeLabel: rack}, {nodeLabel: kubernetes.io/hostname}]}}`,
	`{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: o}, spec: {weight: 3, parent: root, priority: 5, reclaimable: false, dequeueStrategy: fifo, deserved: {cpu: 4, nvidia.com/gpu: 8},
	  capability: {cpu: 8, nvidia.com/gpu: 16}, guarantee: {resource: {cpu: 1}}}}`,
	`{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: o, namespace: n}, spec: {minMember: 3, queue: q, priorityClassName: high, minTaskMember: {a: 1, b: 2}, networkTopology: {mode: hard, highestTierAllowed: 2}}}`,
	`{apiVersion: topology.volcano.sh/v1alpha1, kind: HyperNode, metadata: {name: o}, spec: {tier: 2, members: [{type: Node, selector: {exactMatch: {name: node-0}}}, {type: HyperNode, selector: {regexMatch: {pattern: "s.*"}}}]}}`,
	`{apiVersion: kueue.x-k8s.io/v1beta2, kind: ClusterQueue, metadata: {name: o}, spec: {cohortName: c, queueingStrategy: StrictFIFO, stopPolicy: Hold, namespaceSelector: {matchLabels: {a: b}}, fairSharing: {weight: 2},
	  preemption: {withinClusterQueue: LowerPriority, reclaimWithinCohort: Any}, flavorFungibility: {whenCanBorrow: TryNextFlavor, whenCanPreempt: TryNextFlavor}, admissionChecksStrategy: {admissionChecks: [{name: x}]},
	  resourceGroups: [{coveredResources: [cpu, nvidia.com/gpu], flavors: [{name: f, resources: [{name: cpu, nominalQuota: 10, borrowingLimit: 2, lendingLimit: 3}, {name: nvidia.com/gpu, nominalQuota: 8}]}]}]}}`,
	`{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: o, namespace: n}, spec: {clusterQueue: q, stopPolicy: Hold}}`,
	`{apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: o}, spec: {nodeLabels: {a: b}, nodeTaints: [{key: k, value: v, effect: NoSchedule}], tolerations: [{key: k, operator: Exists, effect: NoSchedule}]}}`,
	`{apiVersion: kueue.x-k8s.io/v1beta2, kind: Cohort, metadata: {name: o}, spec: {parentName: p, fairSharing: {weight: 2}, resourceGroups: [{coveredResources: [cpu], flavors: [{name: f, resources: [{name: cpu, nominalQuota: 10, borrowingLimit: 2, lendingLimit: 3}]}]}]}}`,
	`{apiVersion: kueue.x-k8s.io/v1beta2, kind: WorkloadPriorityClass, metadata: {name: o}, value: 100}`,
	`{apiVersion: kueue.x-k8s.io/v1beta2, kind: Topology, metadata: {name: o}, spec: {levels: [{nodeLabel: block}, {nodeLabel: rack}]}}`,
	`{apiVersion: kueue.x-k8s.io/v1beta2, kind: AdmissionCheck, metadata: {name: o}, spec: {controllerName: example.com/check}}`,
	`{apiVersion: scheduling.x-k8s.io/v1alpha1, kind: PodGroup, metadata: {name: o, namespace: n}, spec: {minMember: 3, scheduleTimeoutSeconds: 10, minResources: {cpu: 3}}}`,
	`{apiVersion: scheduling.x-k8s.io/v1alpha1, kind: ElasticQuota, metadata: {name: o, namespace: n}, spec: {min: {cpu: 4, nvidia.com/gpu: 8}, max: {cpu: 8, nvidia.com/gpu: 16}}}`,
	`{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: o, namespace: n}, spec: {replicatedJobs: [{name: a, replicas: 2, template: {spec: {parallelism: 3, completions: 3}}}]}}`,
	`{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, metadata: {name: o, namespace: n}, spec: {replicas: 2, leaderWorkerTemplate: {size: 3}}}`,
	`{apiVersion: kubeflow.org/v1, kind: PyTorchJob, metadata: {name: o, namespace: n}, spec: {pytorchReplicaSpecs: {Master: {replicas: 1}, Worker: {replicas: 3}}, runPolicy: {schedulingPolicy: {minAvailable: 2}}}}`,
	`{apiVersion: kubeflow.org/v2beta1, kind: MPIJob, metadata: {name: o, namespace: n}, spec: {mpiReplicaSpecs: {Launcher: {replicas: 1}, Worker: {replicas: 3}}, runPolicy: {schedulingPolicy: {minAvailable: 2}}}}`,
	`{apiVersion: ray.io/v1, kind: RayCluster, metadata: {name: o, namespace: n}, spec: {headGroupSpec: {template: {spec: {}}}, workerGroupSpecs: [{groupName: g, replicas: 3, minReplicas: 2, maxReplicas: 4, numOfHosts: 2}]}}`,
}

// nowhere is a world in which nothing is.
type nowhere struct{}

func (nowhere) Object(string, string, string) *dialect.Object { return nil }
func (nowhere) Objects(string, string) []*dialect.Object      { return nil }
func (nowhere) Priority(string) (int32, bool)                 { return 0, false }

// reader is the dialect that reads the object.
func reader(t rapid.TB, o *unstructured.Unstructured) dialect.Dialect {
	t.Helper()
	for _, d := range Readers() {
		for _, k := range d.Kinds() {
			if k.Kind == o.GetKind() && k.Group == o.GroupVersionKind().Group {
				return d
			}
		}
	}
	t.Fatalf("nobody reads %s", o.GroupVersionKind())
	return nil
}

// leaves are the paths of the tree's values, in order: keys of maps, and positions in lists.
func leaves(tree any, at []any) (out [][]any) {
	switch v := tree.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			out = append(out, slices.Concat(at, []any{key}))
			out = append(out, leaves(v[key], slices.Concat(at, []any{key}))...)
		}
	case []any:
		for i := range v {
			out = append(out, leaves(v[i], slices.Concat(at, []any{i}))...)
		}
	}
	return out
}

// with is the tree with the value at the path, or, with the value gone, without it; where the path leads nowhere, the tree.
func with(tree any, path []any, value any) any {
	switch v := tree.(type) {
	case map[string]any:
		key, ok := path[0].(string)
		if !ok {
			break
		}
		out := maps.Clone(v)
		switch {
		case len(path) > 1:
			out[key] = with(v[key], path[1:], value)
		case value == gone:
			delete(out, key)
		default:
			out[key] = value
		}
		return out
	case []any:
		i, ok := path[0].(int)
		if !ok || i >= len(v) {
			break
		}
		out := slices.Clone(v)
		if out[i] = value; len(path) > 1 {
			out[i] = with(v[i], path[1:], value)
		}
		return out
	}
	return tree
}

// gone is no value of an object's.
var gone any = new(int)

// TestHostileObjects gives every field of every kind values of other types, values without measure and words that nobody knows. Reading
// them never fails, and is never silent: what is not carried out is told, so an object never reads as if the field were not there. Of
// workload controllers' objects few fields are read, and the projects' own definitions refuse what those cannot be.
func TestHostileObjects(t *testing.T) {
	hostile := []any{
		"", "-1", "x y", "Bogus", strings.Repeat("z", 300), int64(-1), int64(0), int64(1) << 62, -1e300, 0.5, true, false, []any{}, []any{"x"}, []any{nil}, map[string]any{}, map[string]any{"x": "y"}, nil,
	}
	for _, text := range samples {
		o := dialecttest.Object(t, text)
		d := reader(t, o)
		_, controller := d.(dialect.Maker)
		read := func(tree map[string]any) dialect.Object {
			u := &unstructured.Unstructured{Object: tree}
			d.Trim(u)
			return d.Read(u, nowhere{})
		}
		whole := read(o.DeepCopy().Object)
		if len(whole.Unread) > 0 || whole.Problem != "" {
			t.Errorf("%s: the sample itself: %q %s", o.GetKind(), whole.Unread, whole.Problem)
		}
		for _, path := range leaves(o.Object, nil) {
			if path[0] != "spec" && path[0] != "value" || len(path) == 1 && path[0] == "spec" {
				continue
			}
			copied := func(value any) map[string]any {
				return (&unstructured.Unstructured{Object: with(o.Object, path, value).(map[string]any)}).DeepCopy().Object
			}
			absent := read(copied(gone))
			for _, value := range hostile {
				got := read(copied(value))
				if controller || empty(value) || len(got.Unread) > 0 || got.Problem != "" || got.Shut != (dialect.Shut{}) && got.Shut != absent.Shut {
					continue
				}
				if reflect.DeepEqual(got.Queue, absent.Queue) && reflect.DeepEqual(got.Value, absent.Value) && !reflect.DeepEqual(absent, whole) {
					t.Errorf("%s %s: %v reads as if it were not there", o.GetKind(), told(path), value)
				}
			}
		}
	}
}

// empty says whether clients write the value where they have none.
func empty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case bool:
		return !v
	case int64:
		return v == 0
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

func told(path []any) string {
	var out []string
	for _, p := range path {
		out = append(out, fmt.Sprint(p))
	}
	return strings.Join(out, ".")
}

// TestHostileTrees reads objects that are drawn: any tree below spec, with the fields' names in places of their own and of others.
func TestHostileTrees(t *testing.T) {
	var objects []*unstructured.Unstructured
	for _, text := range samples {
		objects = append(objects, dialecttest.Object(t, text))
	}
	rapid.Check(t, func(t *rapid.T) {
		o := rapid.SampledFrom(objects).Draw(t, "sample")
		tree := any(o.DeepCopy().Object)
		paths := slices.DeleteFunc(leaves(o.Object, nil), func(path []any) bool { return path[0] != "spec" && path[0] != "value" })
		for i := range rapid.IntRange(1, 6).Draw(t, "edits") {
			tree = with(tree, rapid.SampledFrom(paths).Draw(t, "path"+strconv.Itoa(i)), anything(3).Draw(t, "value"+strconv.Itoa(i)))
		}
		d := reader(t, o)
		u := &unstructured.Unstructured{Object: tree.(map[string]any)}
		d.Trim(u)
		if got := d.Read(u, nowhere{}); len(got.Unread) > 2*dialect.MaxUnread+8 {
			t.Fatalf("%d fields are told", len(got.Unread))
		}
	})
}

// anything is a JSON tree.
func anything(depth int) *rapid.Generator[any] {
	scalar := rapid.OneOf(rapid.Just[any](nil), rapid.Map(rapid.Bool(), func(b bool) any { return b }), rapid.Map(rapid.Int64(), func(n int64) any { return n }),
		rapid.Map(rapid.Float64Range(-1e300, 1e300), func(f float64) any { return f }), rapid.Map(rapid.SampledFrom([]string{"", "x", "-1", "1e99", "10Gi", "9999999999Ei", "a/b/c", "*", "(", "\x00"}), func(s string) any { return s }))
	if depth == 0 {
		return scalar
	}
	key := rapid.SampledFrom([]string{"name", "quota", "limit", "cpu", "resources", "flavors", "levels", "", "minMember", "replicas", "a/b"})
	return rapid.OneOf(scalar, rapid.Map(rapid.SliceOfN(anything(depth-1), 0, 3), func(l []any) any { return l }),
		rapid.Map(rapid.MapOfN(key, anything(depth-1), 0, 3), func(m map[string]any) any { return m }))
}

// TestHostileKeys gives pods and their controllers every key of the dialects' tables, with values that nobody knows. Reading them never
// fails, and what is read has bounds.
func TestHostileKeys(t *testing.T) {
	var keys []string
	for _, d := range Readers() {
		for _, domain := range d.Domains() {
			keys = append(keys, domain+"/x")
		}
		for _, f := range d.Fields() {
			if f.Kind == "label" || f.Kind == "annotation" || f.Kind == "annotation, label" {
				for key := range strings.SplitSeq(f.Field, ", ") {
					keys = append(keys, strings.TrimSpace(key))
				}
			}
		}
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	rapid.Check(t, func(t *rapid.T) {
		drawn := rapid.MapOfN(rapid.SampledFrom(keys), rapid.SampledFrom([]string{"", " ", "-1", "0", "1", "3", "99999999999999999999", "1e9", "true", "x", "x,y", "NaN", "-5m", "9999h", "\x00", strings.Repeat("y", 5000)}), 0, 8)
		meta := func(name string) metav1.ObjectMeta {
			return metav1.ObjectMeta{Namespace: "n", Name: name, UID: "u", Labels: drawn.Draw(t, "labels of "+name), Annotations: drawn.Draw(t, "annotations of "+name)}
		}
		for _, d := range Readers() {
			pod := &dialect.Pod{Pod: &corev1.Pod{ObjectMeta: meta("p")}, Owners: []dialect.Owner{{Kind: rapid.SampledFrom([]string{"Job", "StatefulSet", "ReplicaSet", "JobSet"}).Draw(t, "kind"), Name: "o", UID: "o", Meta: meta("o"), Pods: rapid.IntRange(-1, 1<<30).Draw(t, "pods")}}}
			if names := d.SchedulerNames(); len(names) > 0 {
				pod.Spec.SchedulerName = names[0]
			}
			if got := d.Pod(pod, nowhere{}); got != nil && len(got.Unread) > 4*dialect.MaxUnread {
				t.Fatalf("%d keys are told", len(got.Unread))
			}
		}
	})
}
