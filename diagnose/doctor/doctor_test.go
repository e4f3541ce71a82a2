package doctor_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/diagnose/doctor"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/engine"
)

// A cluster in which nothing is wrong has no finding, whoever made its GPUs. GPUs of a vendor that is not known give a
// note and no more.
func TestAHealthyClusterHasNoFinding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		c := w.checkup()
		strange := slices.ContainsFunc(w.pools, func(p *pool) bool { return p.vendor == "other" })
		for _, item := range c.Items {
			for _, f := range item.Findings {
				if item.Item == "labels" && f.Severity == doctor.Note && strange && strings.Contains(f.Message, "is not known here") {
					continue
				}
				t.Errorf("%s: %s: %s %v", item.Item, f.Severity, f.Message, f.Evidence)
			}
			if item.Severity == doctor.Unknown && !slices.Contains([]string{"xid", "ecc", "throttling", "fabric", "drivers"}, item.Item) {
				t.Errorf("%s is unknown: %s", item.Item, item.Summary)
			}
		}
	})
}

// breakage takes one thing of a healthy world away, and says whom the doctor must name.
type breakage struct {
	name string
	// do breaks it and returns the object at fault; "": there is nothing to break in this world.
	do func(t *rapid.T, w *world) string
	// least is how severe the finding must be.
	least doctor.Severity
}

func nvidiaNode(t *rapid.T, w *world) *corev1.Node {
	var all []*corev1.Node
	for _, p := range w.pools {
		if p.vendor == "nvidia" {
			all = append(all, p.nodes...)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return rapid.SampledFrom(all).Draw(t, "node")
}

func anyNode(t *rapid.T, w *world) (*pool, *corev1.Node) {
	p := rapid.SampledFrom(w.pools).Draw(t, "pool")
	return p, rapid.SampledFrom(p.nodes).Draw(t, "node")
}

// label breaks one label of an NVIDIA node.
func label(key string, value func(t *rapid.T, was string) string) func(*rapid.T, *world) string {
	return func(t *rapid.T, w *world) string {
		n := nvidiaNode(t, w)
		if n == nil {
			return ""
		}
		n.Labels[key] = value(t, n.Labels[key])
		return "node/" + n.Name
	}
}

func metric(name string, values ...float64) func(*rapid.T, *world) string {
	return func(t *rapid.T, w *world) string {
		n := nvidiaNode(t, w)
		if n == nil {
			return ""
		}
		w.samples = append(w.samples, doctor.Sample{Name: name, Value: rapid.SampledFrom(values).Draw(t, "value"), Labels: map[string]string{"Hostname": n.Name, "gpu": "0"}})
		return "node/" + n.Name
	}
}

func setGPUs(n *corev1.Node, list corev1.ResourceList, name string, gpus int64) {
	list[corev1.ResourceName(name)] = *resource.NewQuantity(gpus, resource.DecimalSI)
}

var breakages = []breakage{
	{"a GPU is unhealthy", func(t *rapid.T, w *world) string {
		p, n := anyNode(t, w)
		setGPUs(n, n.Status.Allocatable, p.resource, rapid.Int64Range(0, p.gpus-1).Draw(t, "left"))
		return "node/" + n.Name
	}, doctor.Fail},
	{"a GPU is lost", func(t *rapid.T, w *world) string {
		p, n := anyNode(t, w)
		if p.gpus < 2 {
			return ""
		}
		left := rapid.Int64Range(1, p.gpus-1).Draw(t, "left")
		if p.vendor == "nvidia" && n.Labels["nvidia.com/gpu.replicas"] == "1" && rapid.Bool().Draw(t, "labelled anew") {
			n.Labels["nvidia.com/gpu.count"] = fmt.Sprint(left) // feature discovery counts what is left
		}
		setGPUs(n, n.Status.Capacity, p.resource, left)
		setGPUs(n, n.Status.Allocatable, p.resource, left)
		return "node/" + n.Name
	}, doctor.Note},
	{"a node offers nothing", func(t *rapid.T, w *world) string {
		p, n := anyNode(t, w)
		if p.vendor == "amd" && n.Labels["amd.com/gpu.product-name"] == "" {
			return "" // nothing says any more that it has GPUs
		}
		if p.vendor == "other" {
			return ""
		}
		delete(n.Status.Capacity, corev1.ResourceName(p.resource))
		delete(n.Status.Allocatable, corev1.ResourceName(p.resource))
		return "node/" + n.Name
	}, doctor.Fail},
	{"a node is not Ready", func(t *rapid.T, w *world) string {
		_, n := anyNode(t, w)
		n.Status.Conditions[0].Status = rapid.SampledFrom([]corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionUnknown}).Draw(t, "status")
		return "node/" + n.Name
	}, doctor.Fail},
	{"a node is cordoned", func(t *rapid.T, w *world) string {
		_, n := anyNode(t, w)
		n.Spec.Unschedulable = true
		return "node/" + n.Name
	}, doctor.Warn},
	{"the device plugin is gone from a node", func(t *rapid.T, w *world) string {
		var all []*corev1.Pod
		for _, p := range w.Pods {
			if p.Namespace == "gpu" {
				all = append(all, p)
			}
		}
		if len(all) == 0 {
			return ""
		}
		gone := rapid.SampledFrom(all).Draw(t, "plugin")
		w.Pods = slices.DeleteFunc(slices.Clone(w.Pods), func(p *corev1.Pod) bool { return p == gone })
		return "node/" + gone.Spec.NodeName
	}, doctor.Warn},
	{"the device plugin crashes", func(t *rapid.T, w *world) string {
		for _, p := range w.Pods {
			if p.Namespace == "gpu" {
				p.Status.Conditions[0].Status = corev1.ConditionFalse
				p.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: 4, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}}}
				return "node/" + p.Spec.NodeName
			}
		}
		return ""
	}, doctor.Warn},
	{"another driver", label("nvidia.com/cuda.driver-version.full", func(*rapid.T, string) string { return "525.60.13" }), doctor.Warn},
	{"no product", func(t *rapid.T, w *world) string {
		n := nvidiaNode(t, w)
		if n == nil {
			return ""
		}
		delete(n.Labels, "nvidia.com/gpu.product")
		return "node/" + n.Name
	}, doctor.Warn},
	{"any label missing", func(t *rapid.T, w *world) string {
		n := nvidiaNode(t, w)
		if n == nil {
			return ""
		}
		var keys []string
		for key := range n.Labels {
			if strings.HasPrefix(key, "nvidia.com/") {
				keys = append(keys, key)
			}
		}
		slices.Sort(keys)
		delete(n.Labels, rapid.SampledFrom(keys).Draw(t, "label"))
		return "node/" + n.Name
	}, doctor.Warn},
	{"another memory", label("nvidia.com/gpu.memory", func(t *rapid.T, _ string) string { return fmt.Sprint(rapid.IntRange(100, 9000).Draw(t, "memory")) }), doctor.Warn},
	{"another product", label("nvidia.com/gpu.product", func(t *rapid.T, was string) string {
		return rapid.SampledFrom([]string{"NVIDIA-B200", "Tesla-P4"}).Draw(t, "product")
	}), doctor.Note},
	{"another count", label("nvidia.com/gpu.count", func(t *rapid.T, was string) string {
		return rapid.SampledFrom([]string{"0", "-1", "many", "17", "32"}).Draw(t, "count")
	}), doctor.Warn},
	{"a condition of the GPU", func(t *rapid.T, w *world) string {
		_, n := anyNode(t, w)
		n.Status.Conditions = append(n.Status.Conditions, rapid.SampledFrom([]corev1.NodeCondition{
			{Type: "AcceleratedHardwareReady", Status: corev1.ConditionFalse, Reason: "NvidiaXID79Error"}, {Type: "AcceleratedHardwareReady", Status: corev1.ConditionFalse, Reason: "NvidiaNVLinkError"},
			{Type: "AcceleratedHardwareReady", Status: corev1.ConditionFalse, Reason: "NvidiaDoubleBitError"}, {Type: "GpuNvlinkWatch", Status: corev1.ConditionTrue, Reason: "GpuNvlinkWatchIsNotHealthy"},
		}).Draw(t, "condition"))
		return "node/" + n.Name
	}, doctor.Fail},
	{"an Xid", metric("DCGM_FI_DEV_XID_ERRORS", 48, 79, 95, 119), doctor.Fail},
	{"an Xid nobody knows", metric("DCGM_FI_DEV_XID_ERRORS", 777), doctor.Warn},
	{"double bit errors", metric("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", 1, 9000), doctor.Fail},
	{"no more spare rows", metric("DCGM_FI_DEV_ROW_REMAP_FAILURE", 1), doctor.Fail},
	{"throttling", metric("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", 0x8, 0x20, 0x40, 0x80|0x4, 0x20|0x1), doctor.Warn},
	{"NVLink errors", metric("DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", 12), doctor.Warn},
	{"a node without the pool's taint", func(t *rapid.T, w *world) string {
		p, n := anyNode(t, w)
		if !p.tainted {
			return ""
		}
		n.Spec.Taints = nil
		return "node/" + n.Name
	}, doctor.Warn},
	{"a taint that nobody tolerates", func(t *rapid.T, w *world) string {
		if len(w.Jobs) == 0 {
			return ""
		}
		_, n := anyNode(t, w)
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "kept-for", Value: "ceo", Effect: corev1.TaintEffectNoSchedule})
		for _, p := range w.Pods {
			p.Spec.Tolerations = []corev1.Toleration{{Key: "nvidia.com/gpu", Operator: corev1.TolerationOpExists}, {Key: "amd.com/gpu", Operator: corev1.TolerationOpExists}}
		}
		for _, j := range w.Jobs {
			j.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Key: "nvidia.com/gpu", Operator: corev1.TolerationOpExists}}
		}
		return "node/" + n.Name
	}, doctor.Note},
	{"two defaults", func(_ *rapid.T, w *world) string {
		for _, p := range w.PriorityClasses {
			p.GlobalDefault = true
		}
		return "priorityclass/urgent"
	}, doctor.Warn},
	{"a class that does not exist", func(t *rapid.T, w *world) string {
		if len(w.Jobs) == 0 {
			return ""
		}
		j := rapid.SampledFrom(w.Jobs).Draw(t, "job")
		j.Spec.Template.Spec.PriorityClassName = "hihg"
		return "job/team-a/" + j.Name
	}, doctor.Fail},
	{"work that never preempts", func(t *rapid.T, w *world) string {
		if len(w.Jobs) == 0 {
			return ""
		}
		p := gpuPod("team-a", "urgent", w.pools[0].resource, 1)
		never, high := corev1.PreemptNever, int32(1000)
		p.Spec.PreemptionPolicy, p.Spec.Priority, p.Spec.PriorityClassName = &never, &high, "urgent"
		w.Pods = append(w.Pods, p)
		return "pod/team-a/urgent"
	}, doctor.Warn},
	{"a queue that is promised too much", func(t *rapid.T, w *world) string {
		return promise(w, rapid.SampledFrom([]string{"research", "prod"}).Draw(t, "queue"), w.total(w.pools[0].resource)+1)
	}, doctor.Warn},
	{"children that are promised too much", func(t *rapid.T, w *world) string {
		return promise(w, rapid.SampledFrom([]string{"research-a", "research-b"}).Draw(t, "queue"), w.total(w.pools[0].resource))
	}, doctor.Warn},
	{"a queue below none", func(_ *rapid.T, w *world) string {
		unstructured.SetNestedField(queueIn(w, "research-a").Object, "resaerch", "spec", "parent")
		return "berthqueue/research-a"
	}, doctor.Fail},
	{"a queue of a model that nobody has", func(_ *rapid.T, w *world) string {
		w.Foreign["NodePool.karpenter.sh"], w.ConfigMaps = nil, nil
		queueIn(w, "prod").Object["spec"] = map[string]any{"resources": []any{map[string]any{"name": w.pools[0].resource, "gpuModel": "H300", "quota": "8"}}}
		return "berthqueue/prod"
	}, doctor.Fail},
	{"a limit below what waits", func(t *rapid.T, w *world) string {
		p := gpuPod("team-a", "big", w.pools[0].resource, 5)
		p.Annotations = map[string]string{"berth.dev/queue": "research-a"}
		w.Pods = append(w.Pods, p)
		name := rapid.SampledFrom([]string{"research", "research-a"}).Draw(t, "queue")
		spec := queueIn(w, name).Object["spec"].(map[string]any)
		spec["resources"] = []any{map[string]any{"name": w.pools[0].resource, "limit": "4"}}
		return "berthqueue/" + name
	}, doctor.Fail},
	{"work in no queue", func(_ *rapid.T, w *world) string {
		p := gpuPod("team-a", "lost", w.pools[0].resource, 1)
		p.Labels = map[string]string{"berth.dev/queue": "reserch"}
		w.Pods = append(w.Pods, p)
		return "pod/team-a/lost"
	}, doctor.Fail},
	{"a key that limits nothing", func(_ *rapid.T, w *world) string {
		hard := w.ResourceQuotas[0].Spec.Hard
		hard[corev1.ResourceName(w.pools[0].resource)] = hard[corev1.ResourceName("requests."+w.pools[0].resource)]
		return "resourcequota/team-a/gpus"
	}, doctor.Warn},
	{"a NodePool without limits", func(_ *rapid.T, w *world) string {
		for _, p := range w.Foreign["NodePool.karpenter.sh"] { // another breakage may have taken them away
			delete(p.Object["spec"].(map[string]any), "limits")
		}
		return "nodepool/gpu"
	}, doctor.Warn},
	{"a pod that nobody made", func(t *rapid.T, w *world) string {
		_, n := anyNode(t, w)
		p := gpuPod("somewhere", fmt.Sprintf("mine-%d", len(w.Pods)), w.pools[0].resource, 1) // it may be drawn twice
		p.Spec.NodeName, p.Status.Phase = n.Name, corev1.PodRunning
		w.Pods = append(w.Pods, p)
		return "pod/somewhere/" + p.Name
	}, doctor.Warn},
	{"a pod whose Job is gone", func(t *rapid.T, w *world) string {
		if len(w.Jobs) == 0 {
			return ""
		}
		j := rapid.SampledFrom(w.Jobs).Draw(t, "job")
		w.Jobs = slices.DeleteFunc(slices.Clone(w.Jobs), func(o *batchv1.Job) bool { return o == j })
		return "pod/team-a/" + j.Name + "-0"
	}, doctor.Warn},
	{"a quota with a slip in its key", func(t *rapid.T, w *world) string {
		if !strings.HasSuffix(w.pools[0].resource, "/gpu") {
			return "" // what is left of shorter names and of numbers may be another thing
		}
		key := "requests." + w.pools[0].resource + "s"
		w.ResourceQuotas = append(w.ResourceQuotas, &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "team-b", Name: "slip"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourceName(key): resource.MustParse("8")}}})
		return "resourcequota/team-b/slip"
	}, doctor.Warn},
	{"a plugin of volumes that crashes", func(t *rapid.T, w *world) string {
		_, n := anyNode(t, w)
		d := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "csi-node", UID: "csi-node"}}
		d.Spec.Template.Spec.PriorityClassName = "system-node-critical"
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "csi-node-x", UID: "csi-node-x", CreationTimestamp: metav1.NewTime(now.Add(-time.Hour)), OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("DaemonSet"))}}}
		p.Spec.NodeName, p.Status.Phase = n.Name, corev1.PodRunning
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(now.Add(-50 * time.Minute))}}
		w.DaemonSets, w.Pods = append(w.DaemonSets, d), append(w.Pods, p)
		return "pod/kube-system/csi-node-x"
	}, doctor.Warn},
	{"an operator that is not ready", reporting("nvidia.com/v1", "ClusterPolicy", says("Ready", "False", "OperandNotReady", "states not ready: [state-driver]")), doctor.Warn},
	{"an operator that says it in a word", reporting("mellanox.com/v1alpha1", "NicClusterPolicy", map[string]any{"state": "notReady", "appliedStates": []any{map[string]any{"name": "state-OFED", "state": "notReady"}}}), doctor.Warn},
	{"an operator nobody knows", reporting("gpus.example.com/v1", "GPUFleet", says("Degraded", "True", "ImageMissing", "driver image not found")), doctor.Warn},
	{"a node class that is not ready", reporting("karpenter.k8s.aws/v1", "EC2NodeClass", says("SubnetsReady", "False", "SubnetsNotFound", "no subnet matches")), doctor.Warn},
	{"an autoscaler that warns of its object", func(t *rapid.T, w *world) string {
		object := reporting("karpenter.k8s.aws/v1", "EC2NodeClass", map[string]any{})(t, w)
		warned(w, "EC2NodeClass", "", "broken", "FailedResolvingAMIs", "no AMI matches")
		return object
	}, doctor.Warn},
	{"a machine that a cloud refused", func(t *rapid.T, w *world) string {
		warned(w, "NodeClaim", "", "gpu-x7k2p", "InsufficientCapacityError", "NodeClaim gpu-x7k2p event: InsufficientInstanceCapacity: none left")
		return "nodeclaim/gpu-x7k2p"
	}, doctor.Warn},
	{"a DaemonSet that may make no pods", func(t *rapid.T, w *world) string {
		if len(w.DaemonSets) == 0 {
			return ""
		}
		d := w.DaemonSets[0]
		d.Status.DesiredNumberScheduled = 3
		warned(w, "DaemonSet", d.Namespace, d.Name, "FailedCreate", "pods are forbidden: violates PodSecurity")
		return "daemonset/" + d.Namespace + "/" + d.Name
	}, doctor.Warn},
	{"an operator without pods", func(t *rapid.T, w *world) string {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "anywhere", Name: rapid.SampledFrom([]string{"gpu-operator", "my-karpenter", "nfd-master", "network-operator"}).Draw(t, "operator")}}
		if rapid.Bool().Draw(t, "scaled to 0") {
			d.Spec.Replicas = new(int32)
		}
		w.Deployments = append(w.Deployments, d)
		return "deployment/anywhere/" + d.Name
	}, doctor.Warn},
	{"an autoscaler that has fallen silent", func(t *rapid.T, w *world) string {
		w.ConfigMaps = []*corev1.ConfigMap{{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cluster-autoscaler-status"}, Data: map[string]string{"status": "time: 2026-11-16 11:30:00.5 +0000 UTC\nautoscalerStatus: Running\n"}}}
		return "configmap/kube-system/cluster-autoscaler-status"
	}, doctor.Warn},
	{"a pod that does not end", func(t *rapid.T, w *world) string {
		for _, p := range w.Pods {
			if p.Namespace == "team-a" {
				p.DeletionTimestamp = &metav1.Time{Time: now.Add(-time.Hour)}
				return "pod/team-a/" + p.Name
			}
		}
		return ""
	}, doctor.Warn},
}

// reporting has an object of the operators' kinds report a fault.
func reporting(apiVersion, kind string, status map[string]any) func(*rapid.T, *world) string {
	return func(t *rapid.T, w *world) string {
		u := object(apiVersion, kind, "", "broken", nil)
		u.Object["status"] = status
		key := kind + "." + u.GroupVersionKind().Group
		w.Foreign[key] = append(w.Foreign[key], u)
		return strings.ToLower(kind) + "/broken"
	}
}

func says(kind, status, reason, message string) map[string]any {
	return map[string]any{"conditions": []any{map[string]any{"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": now.Add(-time.Hour).Format(time.RFC3339)}}}
}

// warned is an event that warns of the object.
func warned(w *world, kind, namespace, name, reason, message string) {
	w.Events = append(w.Events, &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: cmp.Or(namespace, "default"), Name: name + "." + reason}, Type: corev1.EventTypeWarning, Reason: reason, Message: message,
		InvolvedObject: corev1.ObjectReference{Kind: kind, Namespace: namespace, Name: name}, LastTimestamp: metav1.NewTime(now.Add(-time.Minute)),
	})
}

func queueIn(w *world, name string) *unstructured.Unstructured {
	for _, q := range w.Foreign["BerthQueue.berth.dev"] {
		if q.GetName() == name {
			return q
		}
	}
	return nil
}

func promise(w *world, name string, quota int64) string {
	spec := queueIn(w, name).Object["spec"].(map[string]any)
	spec["resources"].([]any)[0].(map[string]any)["quota"] = fmt.Sprint(quota)
	return "berthqueue/" + name
}

// broken is a world in which one thing was broken, as the doctor sees it.
type broken struct {
	breakage
	object  string // "": there was nothing to break
	checkup doctor.Checkup
}

func drawBroken(t *rapid.T, b breakage) broken {
	w := drawWorld(t)
	out := broken{breakage: b, object: b.do(t, w)}
	if out.object != "" {
		out.checkup = w.checkup()
	}
	return out
}

// problem is what the doctor missed; "": nothing.
func (b *broken) problem() string {
	var all []string
	for _, item := range b.checkup.Items {
		for _, f := range item.Findings {
			if slices.Contains(f.Objects, b.object) && f.Severity.Rank() >= b.least.Rank() {
				if f.Next == "" || f.Owner == "" || len(f.Evidence) == 0 {
					return fmt.Sprintf("%s: no next step, owner or evidence: %+v", item.Item, f)
				}
				return ""
			}
			all = append(all, fmt.Sprintf("%s: %s: %s %v", item.Item, f.Severity, f.Message, f.Objects))
		}
	}
	return fmt.Sprintf("nothing of severity %s or worse names %s:\n%s", b.least, b.object, strings.Join(all, "\n"))
}

// Whatever one thing breaks in a healthy cluster, the doctor notices, and names the object.
func TestWhatIsBrokenIsNamed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := drawBroken(t, rapid.SampledFrom(breakages).Draw(t, "breakage"))
		if b.object == "" {
			return
		}
		if problem := b.problem(); problem != "" {
			t.Fatalf("%s: %s", b.name, problem)
		}
	})
}

// Every way to break a cluster is seen, whatever is drawn above.
func TestEveryBreakageIsNamed(t *testing.T) {
	for _, breakage := range breakages {
		tried := 0
		for seed := 0; tried < 3 && seed < 30; seed++ {
			b := rapid.Custom(func(t *rapid.T) broken { return drawBroken(t, breakage) }).Example(seed)
			if b.object == "" {
				continue
			}
			tried++
			if problem := b.problem(); problem != "" {
				t.Errorf("%s, example %d: %s", breakage.name, seed, problem)
			}
		}
		if tried == 0 {
			t.Errorf("%s: there is nothing to break in any world", breakage.name)
		}
	}
}

// The order in which objects were read does not matter.
func TestTheOrderOfObjectsDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		for range 3 {
			rapid.SampledFrom(breakages).Draw(t, "breakage").do(t, w)
		}
		before := asJSON(t, w.checkup())
		w.shuffle(t)
		w.DaemonSets = rapid.Permutation(w.DaemonSets).Draw(t, "DaemonSets")
		w.Foreign["BerthQueue.berth.dev"] = rapid.Permutation(w.Foreign["BerthQueue.berth.dev"]).Draw(t, "queues")
		w.PriorityClasses = rapid.Permutation(w.PriorityClasses).Draw(t, "classes")
		w.samples = rapid.Permutation(w.samples).Draw(t, "samples")
		if diff := gocmp.Diff(before, asJSON(t, w.checkup())); diff != "" {
			t.Error(diff)
		}
	})
}

func asJSON(t *rapid.T, v any) string {
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// What models count together is what the engine counts.
func TestModelsAddUpToTheEnginesCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		for _, k := range w.checkup("utilisation").GPUs {
			var gpus, allocated, inUse int64
			for _, u := range k.Models {
				gpus, allocated, inUse = gpus+u.GPUs, allocated+u.Allocated, inUse+u.InUse
			}
			if k.All.GPUs != gpus || k.All.Allocated != allocated || k.All.InUse != inUse {
				t.Errorf("%s: %+v is not the sum of %+v", k.Resource, k.All, k.Models)
			}
			for _, l := range k.Largest {
				if l.GPUs > gpus-allocated {
					t.Errorf("%+v: more than the %d that are free", l, gpus-allocated)
				}
			}
		}
	})
}

// A job cannot start on nodes that are closed, whatever closes them.
func TestClosedNodesStartNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t, "nvidia")
		for _, n := range w.Nodes {
			switch rapid.IntRange(0, 2).Draw(t, "how") {
			case 0:
				n.Spec.Unschedulable = true
			case 1:
				n.Status.Conditions[0].Status = corev1.ConditionUnknown
			case 2:
				n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "nvsentinel.example.com/quarantine", Effect: corev1.TaintEffectNoSchedule})
			}
		}
		for _, k := range w.checkup("utilisation").GPUs {
			if len(k.Largest) > 0 {
				t.Errorf("a job could start: %+v", k.Largest)
			}
		}
	})
}

// What could not be read is unknown, and never fine.
func TestWhatIsNotSeenIsUnknown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		w.Nodes, w.Unseen = nil, []facts.Unseen{{Resource: "nodes", Reason: "forbidden"}}
		for _, item := range w.checkup().Items {
			switch item.Item {
			case "priorities", "autoscaler", "operators": // need no nodes
			default:
				if item.Severity != doctor.Unknown {
					t.Errorf("%s: %s: %s", item.Item, item.Severity, item.Summary)
				}
			}
		}
	})
}

// Objects are whatever somebody wrote: the answer stays short, and nothing panics.
func TestHostileObjects(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		junk := rapid.SampledFrom([]string{strings.Repeat("A", 1<<12), "\x1b]0;x\a", "$(reboot)", "-9223372036854775808", "99999999999999999999", "\xff\xfe", "a\nb"})
		for _, n := range w.Nodes {
			for key := range n.Labels {
				if rapid.Bool().Draw(t, "break") {
					n.Labels[key] = junk.Draw(t, "label")
				}
			}
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: junk.Draw(t, "taint"), Effect: corev1.TaintEffect(junk.Draw(t, "effect"))})
		}
		for _, q := range w.Foreign["BerthQueue.berth.dev"] {
			q.Object["spec"] = map[string]any{"parent": q.GetName(), "resources": []any{map[string]any{"name": "nvidia.com/gpu", "quota": junk.Draw(t, "quota"), "gpuModel": junk.Draw(t, "model")}, junk.Draw(t, "entry")}}
		}
		w.PriorityClasses = append(w.PriorityClasses, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: junk.Draw(t, "class")}, GlobalDefault: true})
		w.samples = append(w.samples, doctor.Sample{Name: "DCGM_FI_DEV_XID_ERRORS", Value: 1e300, Labels: map[string]string{"Hostname": junk.Draw(t, "host"), "gpu": junk.Draw(t, "gpu")}})
		for _, item := range w.checkup().Items {
			for _, f := range item.Findings {
				if len(f.Message) > 2000 || len(f.Objects) > doctor.MaxListed || len(f.Evidence) > doctor.MaxListed {
					t.Errorf("%s: %d characters, %d objects, %d pieces of evidence", item.Item, len(f.Message), len(f.Objects), len(f.Evidence))
				}
				if strings.ContainsAny(f.Command, "$`;|&\n\x1b") {
					t.Errorf("%s: a command for a shell: %q", item.Item, f.Command)
				}
			}
		}
	})
}

// Every item has a name of its own, and says what it is about.
func TestItemsAreDescribed(t *testing.T) {
	seen := make(map[string]bool)
	for _, item := range doctor.Items {
		if item.Code == "" || seen[item.Code] || item.Title == "" || item.Meaning == "" || item.Owner == "" || item.Find == nil {
			t.Errorf("%+v", item)
		}
		seen[item.Code] = true
	}
}

// BenchmarkExamine is the checklist for 5,000 nodes with 8 GPUs and 10,000 pods, once they are read: what berth doctor
// costs beside the reading. The bar is a second.
func BenchmarkExamine(b *testing.B) {
	w := &world{Facts: &facts.Facts{At: now}}
	p := &pool{name: "big", resource: "nvidia.com/gpu", gpus: 8}
	for i := range 5000 {
		n := node(fmt.Sprintf("node-%d", i), map[string]string{
			"gpu-pool": fmt.Sprint("pool-", i%20), "topology.kubernetes.io/zone": fmt.Sprint("zone-", i%3), "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.count": "8", "nvidia.com/gpu.present": "true",
			"nvidia.com/gpu.memory": "81559", "nvidia.com/cuda.driver-version.full": "550.54.15",
		}, corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8")})
		p.nodes, w.Nodes = append(p.nodes, n), append(w.Nodes, n)
		for j := range 2 {
			pod := gpuPod(fmt.Sprintf("team-%d", i%50), fmt.Sprintf("pod-%d-%d", i, j), "nvidia.com/gpu", 2)
			pod.Spec.NodeName, pod.Status.Phase = n.Name, corev1.PodRunning
			w.Pods = append(w.Pods, pod)
		}
	}
	w.pools = []*pool{p}
	b.ResetTimer()
	for b.Loop() {
		if c := w.checkup(); c.GPUs[0].All.GPUs != 40000 || c.GPUs[0].Largest[0].Level != "" || c.GPUs[0].Largest[len(c.GPUs[0].Largest)-1].Level != engine.NodeLevel {
			b.Fatal(c.GPUs)
		}
	}
}
