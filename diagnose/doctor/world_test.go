package doctor_test

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/diagnose/doctor"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/cluster"
)

var now = time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)

// world is a drawn cluster with nothing wrong in it.
type world struct {
	*facts.Facts
	samples []doctor.Sample
	pools   []*pool
}

// pool is nodes of one kind.
type pool struct {
	name, resource string
	vendor         string // "nvidia", "mig", "amd", "intel", "other"
	gpus           int64  // of a node
	nodes          []*corev1.Node
	tainted        bool
}

// products are models of NVIDIA, with the labels that go with them.
var products = []struct {
	name, memory, family, major, minor string
}{
	{"NVIDIA-H100-80GB-HBM3", "81559", "hopper", "9", "0"}, {"NVIDIA-A100-SXM4-80GB", "81920", "ampere", "8", "0"}, {"NVIDIA-A100-SXM4-40GB", "40960", "ampere", "8", "0"},
	{"NVIDIA-L40S", "46068", "ada-lovelace", "8", "9"}, {"Tesla-V100-SXM2-16GB", "16384", "volta", "7", "0"}, {"NVIDIA-H200", "143771", "hopper", "9", "0"}, {"NVIDIA-GB200", "189471", "blackwell", "10", "0"},
	{"Tesla-T4", "15360", "turing", "7", "5"},
}

func drawWorld(t *rapid.T, vendors ...string) *world {
	w := &world{Facts: &facts.Facts{At: now, Kubernetes: "v1.37.1"}}
	if len(vendors) == 0 {
		vendors = []string{"nvidia", "nvidia", "mig", "amd", "intel", "other"}
	}
	for i := range rapid.IntRange(1, 4).Draw(t, "pools") {
		w.drawPool(t, fmt.Sprintf("%s%d", rapid.StringMatching(`[a-z]{1,8}-`).Draw(t, "pool"), i), rapid.SampledFrom(vendors).Draw(t, "vendor"))
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "CPU nodes") {
		w.Nodes = append(w.Nodes, node(fmt.Sprintf("cpu-%d", i), nil, nil))
	}
	w.drawWork(t)
	w.drawQueues(t)
	w.drawOperators(t)
	if rapid.Bool().Draw(t, "measured") {
		w.measure(t)
	}
	w.shuffle(t)
	return w
}

func (w *world) shuffle(t *rapid.T) {
	w.Nodes = rapid.Permutation(w.Nodes).Draw(t, "order of nodes")
	w.Pods = rapid.Permutation(w.Pods).Draw(t, "order of pods")
}

func node(name string, labels map[string]string, gpus corev1.ResourceList) *corev1.Node {
	list := corev1.ResourceList{"cpu": resource.MustParse("64"), "memory": resource.MustParse("512Gi"), "pods": resource.MustParse("110")}
	for k, v := range gpus {
		list[k] = v
	}
	all := map[string]string{corev1.LabelHostname: name}
	for k, v := range labels {
		all[k] = v
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("node-" + name), CreationTimestamp: metav1.NewTime(now.Add(-24 * time.Hour)), Labels: all},
		Status: corev1.NodeStatus{Capacity: list, Allocatable: list.DeepCopy(), Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-23 * time.Hour))},
			{Type: "MemoryPressure", Status: corev1.ConditionFalse},
		}},
	}
}

func (w *world) drawPool(t *rapid.T, name, vendor string) {
	p := &pool{name: name, vendor: vendor, gpus: int64(rapid.SampledFrom([]int{1, 2, 4, 8, 16}).Draw(t, "GPUs")), tainted: rapid.Bool().Draw(t, "tainted")}
	labels := map[string]string{rapid.SampledFrom([]string{"karpenter.sh/nodepool", "cloud.google.com/gke-nodepool", "eks.amazonaws.com/nodegroup", "gpu-pool"}).Draw(t, "pool label"): name}
	if rapid.Bool().Draw(t, "typed") {
		labels[corev1.LabelInstanceTypeStable] = "metal." + name
	}
	switch vendor {
	case "nvidia":
		p.resource = "nvidia.com/gpu"
		m := rapid.SampledFrom(products).Draw(t, "product")
		labels["nvidia.com/gpu.product"], labels["nvidia.com/gpu.memory"], labels["nvidia.com/gpu.family"] = m.name, m.memory, m.family
		labels["nvidia.com/gpu.compute.major"], labels["nvidia.com/gpu.compute.minor"] = m.major, m.minor
		labels["nvidia.com/gpu.count"], labels["nvidia.com/gpu.present"], labels["nvidia.com/gpu.replicas"] = fmt.Sprint(p.gpus), "true", "1"
		driver := rapid.SampledFrom([]string{"550.54.15", "535.161.08", "570.86.10"}).Draw(t, "driver")
		labels["nvidia.com/cuda.driver-version.full"], labels["nvidia.com/cuda.runtime-version.full"] = driver, map[string]string{"550.54.15": "12.4", "535.161.08": "12.2", "570.86.10": "12.8"}[driver]
		if rapid.Bool().Draw(t, "shared") {
			replicas := int64(rapid.IntRange(2, 10).Draw(t, "replicas"))
			labels["nvidia.com/gpu.replicas"], labels["nvidia.com/gpu.product"] = fmt.Sprint(replicas), m.name+"-SHARED"
			p.gpus *= replicas
		}
	case "mig": // of the mixed strategy
		p.resource = "nvidia.com/mig-1g.10gb"
		labels["nvidia.com/gpu.product"], labels["nvidia.com/gpu.count"], labels["nvidia.com/gpu.present"] = "NVIDIA-A100-SXM4-80GB", fmt.Sprint(p.gpus), "true"
		labels["nvidia.com/mig.strategy"], labels["nvidia.com/mig.capable"], labels["nvidia.com/mig.config.state"] = "mixed", "true", "success"
		p.gpus *= 7
		labels[p.resource+".count"] = fmt.Sprint(p.gpus)
	case "amd":
		p.resource = "amd.com/gpu"
		if rapid.Bool().Draw(t, "labelled") {
			labels["amd.com/gpu.product-name"], labels["amd.com/gpu.vram"], labels["amd.com/gpu.family"], labels["amd.com/gpu.driver-version"] = "AMD_Instinct_MI300X_OAM", "192G", "AI", "6.10.5"
		}
	case "intel":
		p.resource = rapid.SampledFrom([]string{"gpu.intel.com/i915", "gpu.intel.com/xe"}).Draw(t, "resource")
		labels["intel.feature.node.kubernetes.io/gpu"] = "true"
	case "other":
		p.resource = rapid.SampledFrom([]string{"metax-tech.com/gpu", "huawei.com/npu", "example.com/gpu"}).Draw(t, "resource")
	}
	count := rapid.IntRange(3, 7).Draw(t, "nodes")
	plugin := w.plugin(p, rapid.Bool().Draw(t, "plugin seen"))
	for i := range count {
		n := node(fmt.Sprintf("%s-%d", name, i), labels, corev1.ResourceList{corev1.ResourceName(p.resource): *resource.NewQuantity(p.gpus, resource.DecimalSI)})
		if p.tainted {
			n.Spec.Taints = []corev1.Taint{{Key: p.resource, Value: "present", Effect: corev1.TaintEffectNoSchedule}}
		}
		p.nodes, w.Nodes = append(p.nodes, n), append(w.Nodes, n)
		if plugin != nil {
			w.daemon(plugin, n)
		}
	}
	w.pools = append(w.pools, p)
}

// plugin is the DaemonSet of the pool's device plugin; nil where it is part of the machines.
func (w *world) plugin(p *pool, seen bool) *appsv1.DaemonSet {
	app := map[string]string{"nvidia": "nvidia-device-plugin-daemonset", "mig": "nvidia-device-plugin-daemonset", "amd": "amdgpu-device-plugin-daemonset", "intel": "intel-gpu-plugin"}[p.vendor]
	if app == "" || !seen {
		return nil
	}
	d := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "gpu", Name: app + "-" + p.name, UID: types.UID("ds-" + p.name), Labels: map[string]string{"app": app}}}
	d.Spec.Template.Labels = map[string]string{"app": app}
	d.Spec.Template.Spec = corev1.PodSpec{
		NodeSelector: map[string]string{"pool-of-plugin": p.name},
		Tolerations:  []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		Volumes:      []corev1.Volume{{Name: "sockets", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/var/lib/kubelet/device-plugins"}}}},
		Containers:   []corev1.Container{{Name: "plugin", Image: "plugin:1", VolumeMounts: []corev1.VolumeMount{{Name: "sockets", MountPath: "/var/lib/kubelet/device-plugins"}}}},
	}
	w.DaemonSets = append(w.DaemonSets, d)
	return d
}

// daemon puts the DaemonSet's pod on the node.
func (w *world) daemon(d *appsv1.DaemonSet, n *corev1.Node) {
	n.Labels["pool-of-plugin"] = d.Spec.Template.Spec.NodeSelector["pool-of-plugin"]
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name + "-" + n.Name, UID: types.UID(d.Name + n.Name), Labels: d.Spec.Template.Labels}, Spec: *d.Spec.Template.Spec.DeepCopy()}
	p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("DaemonSet"))}
	p.Spec.NodeName, p.Status.Phase = n.Name, corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	w.Pods = append(w.Pods, p)
}

// gpuPod is a pod that asks for GPUs and tolerates everything.
func gpuPod(namespace, name, resourceName string, gpus int64) *corev1.Pod {
	list := corev1.ResourceList{corev1.ResourceName(resourceName): *resource.NewQuantity(gpus, resource.DecimalSI)}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + name), CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))},
		Spec: corev1.PodSpec{
			SchedulerName: "default-scheduler", Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{Name: "train", Image: "train:1", Resources: corev1.ResourceRequirements{Requests: list, Limits: list}}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
}

// drawWork puts Jobs on nodes.
func (w *world) drawWork(t *rapid.T) {
	w.Namespaces = append(w.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-a", Labels: map[string]string{"kubernetes.io/metadata.name": "team-a"}}})
	for i, p := range w.pools {
		for j, n := range p.nodes {
			held := rapid.Int64Range(0, p.gpus).Draw(t, "held")
			if held == 0 {
				continue
			}
			job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: fmt.Sprintf("job-%d-%d", i, j), UID: types.UID(fmt.Sprintf("job-%d-%d", i, j))}}
			pod := gpuPod("team-a", job.Name+"-0", p.resource, held)
			job.Spec.Template.Spec = *pod.Spec.DeepCopy()
			pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))}
			pod.Spec.NodeName, pod.Status.Phase = n.Name, corev1.PodRunning
			w.Jobs, w.Pods = append(w.Jobs, job), append(w.Pods, pod)
		}
	}
}

// drawOperators puts operators there that are content, in the words of several.
func (w *world) drawOperators(t *rapid.T) {
	since := now.Add(-time.Hour).Format(time.RFC3339)
	says := func(u *unstructured.Unstructured, state string, conditions ...string) *unstructured.Unstructured {
		var list []any
		for _, k := range conditions {
			kind, value, _ := strings.Cut(k, "=")
			list = append(list, map[string]any{"type": kind, "status": value, "reason": "AsExpected", "message": "", "lastTransitionTime": since})
		}
		u.Object["status"] = map[string]any{"conditions": list}
		if state != "" {
			u.Object["status"].(map[string]any)["state"] = state
		}
		return u
	}
	for _, u := range []*unstructured.Unstructured{
		says(object("nvidia.com/v1", "ClusterPolicy", "", "cluster-policy", map[string]any{"driver": map[string]any{"enabled": false}}), "ready", "Ready=True", "Error=False"),
		says(object("mellanox.com/v1alpha1", "NicClusterPolicy", "", "nic", nil), "ready"),
		says(object("karpenter.k8s.aws/v1", "EC2NodeClass", "", "gpu", nil), "", "Ready=True", "AMIsReady=True", "SubnetsReady=True"),
		says(object("nfd.openshift.io/v1", "NodeFeatureDiscovery", "gpu", "nfd", nil), "", "Available=True", "Progressing=False", "Degraded=False", "Upgradeable=True"),
		says(object("machineconfiguration.openshift.io/v1", "MachineConfigPool", "", "gpu", nil), "", "Updated=True", "Updating=False", "Degraded=False", "NodeDegraded=False"),
		says(object("cluster.x-k8s.io/v1beta2", "Machine", "default", "gpu", nil), "", "Ready=True", "Paused=False", "Deleting=False", "ScalingUp=False", "RollingOut=False", "Remediating=False"),
		says(object("karpenter.sh/v1", "NodeClaim", "", "gpu-1", nil), "", "Launched=True", "Registered=True", "Initialized=True", "Consolidatable=True", "Drifted=True", "DisruptionReason=True"),
	} {
		if rapid.Bool().Draw(t, "has "+u.GetKind()) {
			u.SetLabels(map[string]string{"karpenter.sh/nodepool": "gpu"})
			key := u.GetKind() + "." + u.GroupVersionKind().Group
			w.Foreign[key] = append(w.Foreign[key], u)
		}
	}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "gpu", Name: rapid.SampledFrom([]string{"gpu-operator", "karpenter", "node-feature-discovery-master", "web"}).Draw(t, "operator")}}
	d.Status.AvailableReplicas = 1
	w.Deployments = append(w.Deployments, d)
	if rapid.Bool().Draw(t, "autoscaler") {
		w.ConfigMaps = append(w.ConfigMaps, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "cluster-autoscaler-status"}, Data: map[string]string{
			"status": "time: " + now.Format("2006-01-02 15:04:05.999999999 -0700 MST") + "\nautoscalerStatus: Running\nclusterWide: {health: {status: Healthy}}\nnodeGroups: []\n",
		}})
	}
}

// total is how many units of the resource the nodes have.
func (w *world) total(resourceName string) (n int64) {
	for _, p := range w.pools {
		if p.resource == resourceName {
			n += p.gpus * int64(len(p.nodes))
		}
	}
	return n
}

func (w *world) drawQueues(t *rapid.T) {
	w.PriorityClasses = append(w.PriorityClasses, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "normal"}, Value: 100, GlobalDefault: rapid.Bool().Draw(t, "default class")}, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "urgent"}, Value: 1000})
	res := w.pools[0].resource
	half := w.total(res) / 2
	w.Foreign = map[string][]*unstructured.Unstructured{
		"BerthQueue.berth.dev": {
			queue("research", "", res, half), queue("research-a", "research", res, half/2), queue("research-b", "research", res, half-half/2), queue("prod", "", res, w.total(res)-half),
		},
		"NodePool.karpenter.sh": {object("karpenter.sh/v1", "NodePool", "", "gpu", map[string]any{"limits": map[string]any{res: strconv.FormatInt(2*w.total(res), 10)}})},
	}
	w.ResourceQuotas = append(w.ResourceQuotas, &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "gpus"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
		corev1.ResourceName("requests." + res): *resource.NewQuantity(w.total(res), resource.DecimalSI), "cpu": resource.MustParse("1k"),
	}}})
}

func object(apiVersion, kind, namespace, name string, spec map[string]any) *unstructured.Unstructured {
	meta := map[string]any{"name": name, "uid": kind + namespace + name}
	if namespace != "" {
		meta["namespace"] = namespace
	}
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": meta, "spec": spec}}
}

func queue(name, parent, res string, quota int64) *unstructured.Unstructured {
	spec := map[string]any{"resources": []any{map[string]any{"name": res, "quota": strconv.FormatInt(quota, 10)}}}
	if parent != "" {
		spec["parent"] = parent
	}
	return object("berth.dev/v1alpha1", "BerthQueue", "", name, spec)
}

// measure draws what exporters say of GPUs that are well.
func (w *world) measure(t *rapid.T) {
	host := rapid.SampledFrom([]string{"Hostname", "hostname", "node"}).Draw(t, "host label")
	for _, p := range w.pools {
		if p.vendor != "nvidia" {
			continue
		}
		for _, n := range p.nodes {
			gpus, _ := strconv.Atoi(n.Labels["nvidia.com/gpu.count"])
			for g := range gpus {
				for _, metric := range []string{"DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_ROW_REMAP_FAILURE", "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL"} {
					w.samples = append(w.samples, doctor.Sample{Name: metric, Labels: map[string]string{host: n.Name, "gpu": fmt.Sprint(g)}})
				}
			}
		}
	}
}

// checkup examines the world as berth doctor does.
func (w *world) checkup(codes ...string) doctor.Checkup {
	fresh := &facts.Facts{At: w.At, Kubernetes: w.Kubernetes, Objects: w.Objects, Unseen: w.Unseen} // without an index of before
	return doctor.Examine(doctor.Input{Facts: fresh, Samples: w.samples, Report: func(resourceName string) engine.Report {
		m := cluster.NewModel(cluster.ModelOptions{Engine: engine.Config{GPU: resourceName}})
		m.Set(doctor.Objects(fresh, resourceName)...)
		return m.Report()
	}}, codes...)
}
