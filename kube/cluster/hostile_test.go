package cluster

import (
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/kube/dialect/all"
	"github.com/berth-dev/berth/kube/dialect/controllers"
)

var hostile = flag.Int("hostile", 0, "how many clusters TestHostileObjects draws; 0: a few")

// TestHostileObjects gives the feed objects that nobody validated: each field missing, empty, negative, at the edge of its
// type or the value of another, names from so small a set that everything refers to everything and to itself. An API
// server would reject many of them; older ones, objects of other projects and a lost etcd do not. Whatever comes, the feed
// reads it and the engine plans with it, in time and without a panic, which would end the scheduler for everybody.
func TestHostileObjects(t *testing.T) {
	rounds, first := 40, uint64(time.Now().UnixNano()%1e6)
	if testing.Short() {
		rounds = 20
	}
	if *hostile > 0 {
		rounds = *hostile
	}
	foreigns, starts, waiting := manifestTrees(t), 0, 0
	for seed := first; seed < first+uint64(rounds); seed++ {
		start := time.Now()
		s, w, said := besieged(seed, foreigns)
		if said != "" {
			t.Errorf("seed %d: %s", seed, said)
		}
		starts, waiting = starts+s, waiting+w
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("seed %d took %s", seed, took)
		}
	}
	if t.Logf("%d starts, %d waited", starts, waiting); starts == 0 || waiting == 0 {
		t.Error("nothing that was drawn comes as far as the engine")
	}
}

// besieged plays one cluster. It returns how many workloads started and waited, and what went wrong.
func besieged(seed uint64, foreigns []map[string]any) (starts, waiting int, said string) {
	defer func() {
		if p := recover(); p != nil {
			said = fmt.Sprintf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	h := &horde{Rand: rand.New(rand.NewPCG(seed, 17))}
	w := newWatched()
	for _, d := range all.Dialects() {
		if h.IntN(2) == 0 {
			w.Speak(d)
		}
	}
	w.Speak(controllers.New())
	for i := range 60 {
		w.version(h.besiege(w, foreigns), i)
		if i%15 == 14 {
			w.Settle()
			w.state.Apply(w.changes.take()...)
			plan := w.state.Plan(w.now)
			w.state.Apply(plan.Changes...)
			starts, waiting = starts+len(plan.Starts), waiting+len(plan.Waiting)
			w.now = w.now.Add(time.Duration(h.IntN(100)) * time.Minute)
		}
	}
	for key := range w.members.pods {
		w.state.Explain(w.members.pods[key].workload, w.now, 100)
		break
	}
	w.state.Dump()
	w.state.Report()
	w.state.Forecast(w.now, 10)
	return starts, waiting, ""
}

func (w *watched) version(give func(version string), i int) { give(fmt.Sprint(i + 1)) }

// horde draws objects.
type horde struct {
	*rand.Rand
	share int // of the fields of an object that are drawn, in percent
}

func pick[T any](h *horde, from ...T) T { return from[h.IntN(len(from))] }

// besiege is one object, to be given with a version.
func (h *horde) besiege(w *watched, foreigns []map[string]any) func(string) {
	o := h.object(foreigns)
	return func(version string) {
		o.SetResourceVersion(version)
		remove := h.IntN(8) == 0
		if remove {
			w.Remove(o)
		} else {
			w.Set(o)
		}
	}
}

func (h *horde) object(foreigns []map[string]any) metav1.Object {
	if h.IntN(4) == 0 {
		u := &unstructured.Unstructured{Object: h.harm(foreigns[h.IntN(len(foreigns))], 0).(map[string]any)}
		u.SetName(h.name())
		u.SetNamespace(pick(h, "a", "b"))
		u.SetUID(types.UID(h.name()))
		return u
	}
	o := pick[metav1.Object](h, &corev1.Pod{}, &corev1.Pod{}, &corev1.Pod{}, &corev1.Pod{}, &corev1.Node{}, &corev1.Node{}, &schedulingv1beta1.PodGroup{}, &schedulingv1beta1.PodGroup{}, &schedulingv1alpha3.CompositePodGroup{}, &v1alpha1.BerthQueue{}, &schedulingv1.PriorityClass{},
		&resourcev1.ResourceClaim{}, &resourcev1.ResourceClaimTemplate{}, &resourcev1.ResourceSlice{}, &resourcev1.DeviceClass{}, &resourcev1.DeviceTaintRule{}, &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}, &storagev1.StorageClass{}, &storagev1.CSINode{}, &storagev1.CSIDriver{},
		&storagev1.CSIStorageCapacity{}, &policyv1.PodDisruptionBudget{}, &corev1.Namespace{}, &corev1.Service{}, &batchv1.Job{}, &appsv1.StatefulSet{}, &appsv1.Deployment{}, &appsv1.ReplicaSet{})
	o = reflect.New(reflect.TypeOf(o).Elem()).Interface().(metav1.Object)
	h.share = pick(h, 2, 6, 20, 60)
	h.fill(reflect.ValueOf(o).Elem(), "", 0)
	o.SetName(h.name())
	o.SetUID(types.UID(h.name()))
	switch o := o.(type) {
	case *corev1.Node:
		o.Namespace = ""
		if h.IntN(4) > 0 {
			o.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
			o.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("64"), "memory": resource.MustParse("256Gi"), "pods": resource.MustParse("110"), "nvidia.com/gpu": resource.MustParse("8")}
		}
	case *corev1.Pod:
		o.Spec.SchedulerName = pick(h, DefaultName, DefaultName, DefaultName, "kai-scheduler", "volcano", "default-scheduler", "")
		if h.IntN(4) > 0 {
			one := corev1.ResourceList{"cpu": resource.MustParse("1"), "nvidia.com/gpu": resource.MustParse(pick(h, "1", "4", "8"))}
			o.Spec.Containers = append(o.Spec.Containers, corev1.Container{Name: "main", Image: "x", Resources: corev1.ResourceRequirements{Requests: one, Limits: one}})
		}
		if h.IntN(4) > 0 {
			o.Spec.NodeName, o.Spec.SchedulingGates, o.DeletionTimestamp, o.Status.Phase = "", nil, nil, corev1.PodPending
		}
	}
	switch o.(type) {
	case *corev1.Node, *corev1.Namespace, *corev1.PersistentVolume, *resourcev1.ResourceSlice, *resourcev1.DeviceClass, *v1alpha1.BerthQueue:
	default:
		o.SetNamespace(pick(h, "a", "b"))
	}
	return o
}

func (h *horde) name() string { return pick(h, "x", "y", "z", "x-0", "x-1", "y-2147483648", "q") }

var hostileKeys = strings.Fields(`berth.dev/queue berth.dev/gang berth.dev/min berth.dev/max-run berth.dev/max-runs berth.dev/subgroup berth.dev/topology-required berth.dev/topology-preferred berth.dev/surge berth.dev/placement berth.dev/gpu-fraction berth.dev/preemptible
	berth.dev/job-deadline berth.dev/workload-class berth.dev/hold berth.dev/lease berth.dev/idle-since berth.dev/user berth.dev/gpu-memory berth.dev/checkpoint-every berth.dev/models berth.dev/size
	volcano.sh/queue-name scheduling.volcano.sh/group-name scheduling.k8s.io/group-name volcano.sh/task-spec volcano.sh/job-name volcano.sh/vgpu-memory pod-group.scheduling.sigs.k8s.io/name pod-group.scheduling.sigs.k8s.io/min-available kueue.x-k8s.io/queue-name kueue.x-k8s.io/pod-group-name kueue.x-k8s.io/pod-group-total-count
	kai.scheduler/queue pod-group-name leaderworkerset.sigs.k8s.io/worker-index leaderworkerset.sigs.k8s.io/size jobset.sigs.k8s.io/jobset-name training.kubeflow.org/replica-index nvidia.com/gpumem nvidia.com/use-gputype kubernetes.io/hostname topology.kubernetes.io/zone berth.dev/rack berth.dev/block nvidia.com/gpu.product nvidia.com/gpu.memory nvidia.com/gpu.count nvidia.com/mig.config
	batch.kubernetes.io/job-completion-index x y`)

func (h *horde) text() string {
	switch h.IntN(12) {
	case 0:
		return ""
	case 1:
		return pick(h, "-1", "0", "1", "3", "9223372036854775807", "-9223372036854775808", "1e400", "NaN", "Inf", "0x10", "1.5", "99999999999999999999", "2147483648", "１")
	case 2:
		return pick(h, "1h", "-1h", "2562047h47m16s", "1ns", "P1D", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "2026-11-15T12:00:00Z", "infinite", "never")
	case 3:
		return pick(h, "true", "false", "Exists", "In", "NotIn", "Gt", "Lt", "DoesNotExist", "NoSchedule", "NoExecute", "DoNotSchedule", "All", "ExactCount", "Always", "Running", "Pending", "Succeeded", "Failed", "Bound", "Indexed", "PodGroup")
	case 4:
		return pick(h, "{}", "[]", "{\"a\":", "[[[[[[", "null", "\x00", "\xff\xfe", "a/b/c", "/", "..", "a b", "é", strings.Repeat("x", 300), strings.Repeat("1,", 2000))
	case 5:
		return pick(h, "device.driver == 'x'", "true", "device.attributes['x'].y > 0", "size(device.attributes) > 0 && ", "[1,2,3].all(x, [1,2,3].all(y, x > y))")
	case 6:
		return hostileKeys[h.IntN(len(hostileKeys))]
	}
	return h.name()
}

var (
	quantityType = reflect.TypeFor[resource.Quantity]()
	timeType     = reflect.TypeFor[metav1.Time]()
	microType    = reflect.TypeFor[metav1.MicroTime]()
	durationType = reflect.TypeFor[metav1.Duration]()
	intstrType   = reflect.TypeFor[intstr.IntOrString]()
)

func (h *horde) quantity() resource.Quantity {
	q, err := resource.ParseQuantity(pick(h, "0", "1", "8", "-1", "1m", "500m", "1n", "9223372036854775807", "9223372036854775807Ki", "-9223372036854775808", "1e18", "12E", "1Gi", "3.7", "100k", "1e-9"))
	if err != nil {
		panic(err)
	}
	return q
}

func (h *horde) whole() int64 {
	return pick[int64](h, 0, 1, 2, 3, 8, -1, -2, 100, 1_000_000, math.MaxInt32, math.MinInt32, math.MaxInt64, math.MinInt64)
}

func (h *horde) moment() time.Time {
	return pick(h, time.Time{}, noon, noon.Add(-time.Hour), noon.Add(time.Hour), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), time.Unix(0, 0), time.Date(1, 1, 2, 0, 0, 0, 0, time.UTC))
}

// fill draws the value; field is its name.
func (h *horde) fill(v reflect.Value, field string, depth int) {
	switch v.Type() {
	case quantityType:
		v.Set(reflect.ValueOf(h.quantity()))
		return
	case timeType:
		v.Set(reflect.ValueOf(metav1.NewTime(h.moment())))
		return
	case microType:
		v.Set(reflect.ValueOf(metav1.NewMicroTime(h.moment())))
		return
	case durationType:
		v.Set(reflect.ValueOf(metav1.Duration{Duration: time.Duration(h.whole())}))
		return
	case intstrType:
		v.Set(reflect.ValueOf(pick(h, intstr.FromInt32(int32(h.whole())), intstr.FromString(pick(h, "50%", "-1%", "1000%", "x", "")))))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if h.IntN(5) > 1 && depth < 14 {
			v.Set(reflect.New(v.Type().Elem()))
			h.fill(v.Elem(), field, depth+1)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && (depth == 0 || h.IntN(100) < h.share) && f.Name != "ManagedFields" {
				h.fill(v.Field(i), f.Name, depth+1)
			}
		}
	case reflect.Slice:
		if depth > 12 || v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		n := pick(h, 0, 0, 1, 1, 2, 3)
		if n > 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
		}
		for i := range n {
			h.fill(v.Index(i), field, depth+1)
		}
	case reflect.Map:
		if depth > 12 {
			return
		}
		v.Set(reflect.MakeMap(v.Type()))
		for range pick(h, 0, 1, 2, 3) {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			if key.Kind() == reflect.String {
				key.SetString(pick(h, hostileKeys[h.IntN(len(hostileKeys))], "cpu", "memory", "nvidia.com/gpu", "pods", h.name()))
			}
			h.fill(value, field, depth+1)
			v.SetMapIndex(key, value)
		}
	case reflect.String:
		v.SetString(h.string(field))
	case reflect.Bool:
		v.SetBool(h.IntN(2) == 0)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(h.whole()) // cut to its size
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(h.whole()))
	}
}

func (h *horde) string(field string) string {
	switch {
	case field == "Namespace":
		return pick(h, "a", "b", "")
	case h.IntN(2) == 0 && (strings.HasSuffix(field, "Name") || field == "UID" || field == "Parent"):
		return h.name()
	case field == "Kind" && h.IntN(2) == 0:
		return pick(h, "Job", "ReplicaSet", "StatefulSet", "Deployment", "PodGroup", "CompositePodGroup", "Pod", "RayCluster", "JobSet")
	case field == "Operator" && h.IntN(4) > 0:
		return pick(h, "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Equal")
	case field == "Resource" && h.IntN(2) == 0:
		return "nvidia.com/gpu"
	}
	return h.text()
}

// harm is the tree with some of it changed.
func (h *horde) harm(v any, depth int) any {
	if depth > 1 && h.IntN(14) == 0 {
		return pick[any](h, nil, "", int64(-1), h.whole(), 1.5, math.MaxFloat64, h.text(), []any{}, map[string]any{}, []any{nil}, map[string]any{"x": nil}, true, []any{map[string]any{}}, h.name())
	}
	switch v := v.(type) {
	case map[string]any:
		out := maps.Clone(v)
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if out[key] = h.harm(v[key], depth+1); depth > 0 && h.IntN(30) == 0 {
				delete(out, key)
			}
		}
		return out
	case []any:
		out := slices.Clone(v)
		for i := range out {
			out[i] = h.harm(out[i], depth+1)
		}
		return out
	}
	return v
}

// manifestTrees are the objects of the manifests that the dialects are tried on.
func manifestTrees(t *testing.T) (out []map[string]any) {
	t.Helper()
	files, err := filepath.Glob("testdata/manifests/*/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range txtar.Parse(text).Files {
			for _, doc := range strings.Split(string(f.Data), "\n---") {
				var tree map[string]any
				if strings.HasSuffix(f.Name, ".yaml") && yaml.Unmarshal([]byte(doc), &tree) == nil && tree["kind"] != nil && tree["metadata"] != nil {
					whole(tree)
					out = append(out, tree)
				}
			}
		}
	}
	return out
}

// whole makes the numbers those that the API's decoder makes.
func whole(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key := range v {
			v[key] = whole(v[key])
		}
	case []any:
		for i := range v {
			v[i] = whole(v[i])
		}
	case float64:
		if v == math.Trunc(v) {
			return int64(v)
		}
	}
	return v
}
