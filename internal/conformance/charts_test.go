package conformance

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// The shapes of pods that popular charts render, written anew from what their documentation says of replicas, rules, volumes,
// sidecars and ports. Requests are typical ones.

// shape is the pods of one controller.
type shape struct {
	chart, part string
	kind        string // Deployment, StatefulSet or DaemonSet, which has a pod on every node
	replicas    int
	cpu, memory string
	gpus        int64
	rules       []func(spec *corev1.PodSpec, peers *metav1.LabelSelector)
	disks       int   // of each pod
	sidecar     bool  // a mesh's, as a restartable init container
	hostPort    int32 // 0: none
}

func apart(spec *corev1.PodSpec) *corev1.PodAntiAffinity {
	a := affinity(spec)
	if a.PodAntiAffinity == nil {
		a.PodAntiAffinity = &corev1.PodAntiAffinity{}
	}
	return a.PodAntiAffinity
}

// hard and soft are what charts call their presets of anti-affinity.
func hard(spec *corev1.PodSpec, peers *metav1.LabelSelector) {
	a := apart(spec)
	a.RequiredDuringSchedulingIgnoredDuringExecution = append(a.RequiredDuringSchedulingIgnoredDuringExecution, corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: peers})
}

func soft(key string) func(*corev1.PodSpec, *metav1.LabelSelector) {
	return func(spec *corev1.PodSpec, peers *metav1.LabelSelector) {
		a := apart(spec)
		a.PreferredDuringSchedulingIgnoredDuringExecution = append(a.PreferredDuringSchedulingIgnoredDuringExecution, corev1.WeightedPodAffinityTerm{Weight: 100, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: key, LabelSelector: peers}})
	}
}

func spread(key string, when corev1.UnsatisfiableConstraintAction) func(*corev1.PodSpec, *metav1.LabelSelector) {
	return func(spec *corev1.PodSpec, peers *metav1.LabelSelector) {
		spec.TopologySpreadConstraints = append(spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: when, LabelSelector: peers})
	}
}

// besides has the pods be in the zone of another part of the same chart.
func besides(part string) func(*corev1.PodSpec, *metav1.LabelSelector) {
	return func(spec *corev1.PodSpec, peers *metav1.LabelSelector) {
		of := peers.DeepCopy()
		of.MatchLabels["app.kubernetes.io/component"] = part
		affinity(spec).PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelTopologyZone, LabelSelector: of}}}
	}
}

type rulesOf = []func(*corev1.PodSpec, *metav1.LabelSelector)

const zone, host = corev1.LabelTopologyZone, corev1.LabelHostname

// charts are in the order in which they are installed.
var charts = []shape{
	{chart: "cilium", part: "agent", kind: "DaemonSet", cpu: "100m", memory: "512Mi", hostPort: 9962},
	{chart: "nvidia-device-plugin", part: "plugin", kind: "DaemonSet", cpu: "50m", memory: "64Mi"},
	{chart: "node-exporter", part: "exporter", kind: "DaemonSet", cpu: "50m", memory: "64Mi", hostPort: 9100},
	{chart: "fluent-bit", part: "agent", kind: "DaemonSet", cpu: "100m", memory: "128Mi"},
	{chart: "coredns", part: "dns", kind: "Deployment", replicas: 5, cpu: "100m", memory: "70Mi", rules: rulesOf{soft(host), spread(zone, corev1.ScheduleAnyway)}},
	{chart: "metrics-server", part: "server", kind: "Deployment", replicas: 2, cpu: "100m", memory: "200Mi", rules: rulesOf{hard}},
	{chart: "cert-manager", part: "controller", kind: "Deployment", replicas: 2, cpu: "50m", memory: "128Mi"},
	{chart: "ingress-nginx", part: "controller", kind: "Deployment", replicas: 9, cpu: "500m", memory: "512Mi", rules: rulesOf{soft(host), spread(zone, corev1.DoNotSchedule)}},
	{chart: "traefik", part: "edge", kind: "Deployment", replicas: 4, cpu: "500m", memory: "256Mi", hostPort: 8443},
	{chart: "istio", part: "istiod", kind: "Deployment", replicas: 3, cpu: "500m", memory: "2Gi", rules: rulesOf{soft(host)}},
	{chart: "linkerd", part: "destination", kind: "Deployment", replicas: 3, cpu: "200m", memory: "256Mi", sidecar: true, rules: rulesOf{hard, soft(zone)}},
	{chart: "postgresql-ha", part: "postgresql", kind: "StatefulSet", replicas: 3, cpu: "2", memory: "8Gi", disks: 1, rules: rulesOf{soft(host)}},
	{chart: "postgresql-ha", part: "pgpool", kind: "Deployment", replicas: 2, cpu: "500m", memory: "512Mi", rules: rulesOf{besides("postgresql")}},
	{chart: "mongodb", part: "mongod", kind: "StatefulSet", replicas: 3, cpu: "2", memory: "8Gi", disks: 2, rules: rulesOf{hard}},
	{chart: "cassandra", part: "node", kind: "StatefulSet", replicas: 6, cpu: "4", memory: "16Gi", disks: 1, rules: rulesOf{hard, spread(zone, corev1.DoNotSchedule)}},
	{chart: "redis-cluster", part: "redis", kind: "StatefulSet", replicas: 6, cpu: "500m", memory: "2Gi", disks: 1, rules: rulesOf{soft(host)}},
	{chart: "elasticsearch", part: "master", kind: "StatefulSet", replicas: 3, cpu: "1", memory: "4Gi", disks: 1, rules: rulesOf{hard}},
	{chart: "elasticsearch", part: "data", kind: "StatefulSet", replicas: 9, cpu: "4", memory: "16Gi", disks: 1, rules: rulesOf{hard, spread(zone, corev1.DoNotSchedule)}},
	{chart: "kafka", part: "broker", kind: "StatefulSet", replicas: 5, cpu: "2", memory: "8Gi", disks: 3, rules: rulesOf{hard}},
	{chart: "zookeeper", part: "server", kind: "StatefulSet", replicas: 5, cpu: "500m", memory: "1Gi", disks: 1, rules: rulesOf{hard}},
	{chart: "rabbitmq", part: "broker", kind: "StatefulSet", replicas: 3, cpu: "1", memory: "2Gi", disks: 1, rules: rulesOf{spread(zone, corev1.DoNotSchedule)}},
	{chart: "prometheus", part: "prometheus", kind: "StatefulSet", replicas: 2, cpu: "4", memory: "16Gi", disks: 1, rules: rulesOf{soft(host), soft(zone)}},
	{chart: "prometheus", part: "alertmanager", kind: "StatefulSet", replicas: 3, cpu: "100m", memory: "256Mi", disks: 1, rules: rulesOf{hard}},
	{chart: "loki", part: "write", kind: "StatefulSet", replicas: 3, cpu: "1", memory: "2Gi", disks: 1, rules: rulesOf{hard}},
	{chart: "loki", part: "read", kind: "Deployment", replicas: 3, cpu: "1", memory: "2Gi", rules: rulesOf{hard}},
	{chart: "minio", part: "server", kind: "StatefulSet", replicas: 8, cpu: "1", memory: "4Gi", disks: 4, rules: rulesOf{spread(host, corev1.DoNotSchedule)}},
	{chart: "vault", part: "server", kind: "StatefulSet", replicas: 5, cpu: "500m", memory: "1Gi", disks: 1, rules: rulesOf{hard}},
	{chart: "argo-cd", part: "redis-ha", kind: "StatefulSet", replicas: 3, cpu: "200m", memory: "256Mi", rules: rulesOf{hard, soft(zone)}},
	{chart: "argo-cd", part: "server", kind: "Deployment", replicas: 2, cpu: "200m", memory: "256Mi", rules: rulesOf{soft(host)}},
	{chart: "bookinfo", part: "reviews", kind: "Deployment", replicas: 30, cpu: "200m", memory: "256Mi", sidecar: true},
	{chart: "vllm", part: "decode", kind: "Deployment", replicas: 12, cpu: "8", memory: "32Gi", gpus: 1, rules: rulesOf{spread(zone, corev1.DoNotSchedule)}},
	{chart: "triton", part: "server", kind: "Deployment", replicas: 6, cpu: "8", memory: "32Gi", gpus: 2, rules: rulesOf{hard}},
	{chart: "kuberay", part: "worker", kind: "Deployment", replicas: 8, cpu: "16", memory: "64Gi", gpus: 4, rules: rulesOf{soft(host)}},
}

// mixedFleet is 140 machines without GPUs and 60 with eight, in three zones. GPU machines have the usual taint.
func mixedFleet() (nodes []*corev1.Node, drivers []*storagev1.CSINode) {
	for i := range 200 {
		name := fmt.Sprintf("cpu-%03d", i)
		list := corev1.ResourceList{"cpu": resource.MustParse("16"), "memory": resource.MustParse("64Gi"), "pods": resource.MustParse("110"), "ephemeral-storage": resource.MustParse("200Gi")}
		labels := map[string]string{zone: fmt.Sprintf("zone-%d", i%3), corev1.LabelTopologyRegion: "region"}
		var taints []corev1.Taint
		if i >= 140 {
			name = fmt.Sprintf("gpu-%03d", i)
			list["cpu"], list["memory"], list["nvidia.com/gpu"] = resource.MustParse("128"), resource.MustParse("1Ti"), resource.MustParse("8")
			labels["nvidia.com/gpu.product"], labels["nvidia.com/gpu.count"] = "NVIDIA-H100-80GB-HBM3", "8"
			taints = []corev1.Taint{{Key: "nvidia.com/gpu", Effect: corev1.TaintEffectNoSchedule}}
		}
		labels[host] = name
		nodes = append(nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, ResourceVersion: "1"}, Spec: corev1.NodeSpec{Taints: taints}, Status: corev1.NodeStatus{Allocatable: list}})
		drivers = append(drivers, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: "disks.example", Allocatable: &storagev1.VolumeNodeResources{Count: new(int32(6))}}}}})
	}
	return nodes, drivers
}

// installed is a chart's objects: its pods in the order of their making, and all that the schedulers read beside them.
type installed struct {
	shape
	pods    []*corev1.Pod
	objects []runtime.Object
}

func (s shape) install(nodes []*corev1.Node) installed {
	out := installed{shape: s}
	labels := map[string]string{"app.kubernetes.io/name": s.chart, "app.kubernetes.io/instance": "prod", "app.kubernetes.io/component": s.part}
	peers := &metav1.LabelSelector{MatchLabels: labels}
	name := s.chart + "-" + s.part
	meta := metav1.ObjectMeta{Namespace: s.chart, Name: name, UID: types.UID(name)}
	owner := metav1.OwnerReference{APIVersion: "apps/v1", Kind: s.kind, Name: name, UID: meta.UID, Controller: new(true)}
	switch s.kind {
	case "StatefulSet":
		out.objects = append(out.objects, &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: new(int32(s.replicas)), Selector: peers, PodManagementPolicy: appsv1.ParallelPodManagement}})
	case "Deployment":
		owner.Kind = "ReplicaSet"
		out.objects = append(out.objects, &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(s.replicas)), Selector: peers}})
	}
	out.objects = append(out.objects, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: s.chart, Name: name}, Spec: corev1.ServiceSpec{Selector: labels}})
	count := s.replicas
	if s.kind == "DaemonSet" {
		count = len(nodes)
	}
	for i := range count {
		p := s.pod(fmt.Sprintf("%s-%d", name, i), labels, owner)
		if s.kind == "DaemonSet" {
			p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
			affinity(&p.Spec).NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: "In", Values: []string{nodes[i].Name}}},
			}}}}
		}
		for d := range s.disks {
			claim := &corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Namespace: s.chart, Name: fmt.Sprintf("data-%d-%s", d, p.Name), ResourceVersion: "1"},
				Spec:       corev1.PersistentVolumeClaimSpec{StorageClassName: new("disks"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("50Gi")}}},
				Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
			}
			out.objects = append(out.objects, claim)
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: fmt.Sprint("data-", d), VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name}}})
		}
		for _, rule := range s.rules {
			rule(&p.Spec, peers.DeepCopy())
		}
		out.pods = append(out.pods, p)
	}
	return out
}

func (s shape) pod(name string, labels map[string]string, owner metav1.OwnerReference) *corev1.Pod {
	c := corev1.Container{Name: s.part, Image: "registry.example/" + s.chart, Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse(s.cpu), "memory": resource.MustParse(s.memory)}}}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.chart, Name: name, UID: types.UID(name), Labels: labels, OwnerReferences: []metav1.OwnerReference{owner}, CreationTimestamp: metav1.NewTime(noon)}}
	p.Spec.SchedulerName, p.Spec.RestartPolicy, p.Spec.Priority = corev1.DefaultSchedulerName, corev1.RestartPolicyAlways, new(int32(0))
	if s.gpus > 0 {
		c.Resources.Requests["nvidia.com/gpu"] = *resource.NewQuantity(s.gpus, resource.DecimalSI)
		p.Spec.Tolerations = []corev1.Toleration{{Key: "nvidia.com/gpu", Operator: corev1.TolerationOpExists}}
	}
	if s.hostPort > 0 {
		c.Ports = []corev1.ContainerPort{{HostPort: s.hostPort, ContainerPort: s.hostPort, Protocol: corev1.ProtocolTCP}}
	}
	if s.sidecar {
		proxy := corev1.Container{Name: "proxy", RestartPolicy: new(corev1.ContainerRestartPolicyAlways), Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("128Mi")}}}
		p.Spec.InitContainers = []corev1.Container{proxy}
	}
	p.Spec.Containers = []corev1.Container{c}
	return p
}

// String names what was installed.
func (i installed) String() string { return strings.TrimSuffix(i.chart+" "+i.part, " ") }

// shared are the objects that all charts use.
func shared(drivers []*storagev1.CSINode) []runtime.Object {
	out := []runtime.Object{&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "disks"}, Provisioner: "disks.example", VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer)}}
	for _, d := range drivers {
		out = append(out, d)
	}
	seen := make(map[string]bool)
	for _, s := range charts {
		if !seen[s.chart] {
			out = append(out, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.chart}})
		}
		seen[s.chart] = true
	}
	return out
}
