package facts

import (
	"reflect"
	"slices"
	"strings"
	"sync"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Objects are by kind, each list in no order.
type Objects struct {
	Namespaces             []*corev1.Namespace
	Nodes                  []*corev1.Node
	Pods                   []*corev1.Pod
	Events                 []*corev1.Event
	ResourceQuotas         []*corev1.ResourceQuota
	LimitRanges            []*corev1.LimitRange
	PersistentVolumeClaims []*corev1.PersistentVolumeClaim
	PersistentVolumes      []*corev1.PersistentVolume
	ConfigMaps             []*corev1.ConfigMap // cluster-autoscaler-status, and those that schedulers mount
	ServiceAccounts        []*corev1.ServiceAccount

	Deployments  []*appsv1.Deployment
	ReplicaSets  []*appsv1.ReplicaSet
	StatefulSets []*appsv1.StatefulSet
	DaemonSets   []*appsv1.DaemonSet
	// ControllerRevisions are earlier templates of StatefulSets and DaemonSets. Bundles have none of what is in them.
	ControllerRevisions []*appsv1.ControllerRevision
	Jobs                []*batchv1.Job
	CronJobs            []*batchv1.CronJob

	PriorityClasses      []*schedulingv1.PriorityClass
	PodGroups            []*schedulingv1beta1.PodGroup
	CompositePodGroups   []*schedulingv1alpha3.CompositePodGroup // where its gate is on
	RuntimeClasses       []*nodev1.RuntimeClass
	StorageClasses       []*storagev1.StorageClass
	CSINodes             []*storagev1.CSINode
	PodDisruptionBudgets []*policyv1.PodDisruptionBudget
	NetworkPolicies      []*networkingv1.NetworkPolicy
	Leases               []*coordinationv1.Lease // but those of nodes

	ResourceSlices         []*resourcev1.ResourceSlice
	DeviceTaintRules       []*resourcev1.DeviceTaintRule
	DeviceClasses          []*resourcev1.DeviceClass
	ResourceClaims         []*resourcev1.ResourceClaim
	ResourceClaimTemplates []*resourcev1.ResourceClaimTemplate

	ValidatingWebhookConfigurations   []*admissionv1.ValidatingWebhookConfiguration
	MutatingWebhookConfigurations     []*admissionv1.MutatingWebhookConfiguration
	ValidatingAdmissionPolicies       []*admissionv1.ValidatingAdmissionPolicy
	ValidatingAdmissionPolicyBindings []*admissionv1.ValidatingAdmissionPolicyBinding

	// Foreign are objects of kinds that other projects define, by "Kind.group".
	Foreign map[string][]*unstructured.Unstructured
}

// Object is any of them.
type Object interface {
	metav1.Object
	runtime.Object
}

// KindInfo is one kind of Objects.
type KindInfo struct {
	schema.GroupVersionKind
	Resource   string // plural
	Namespaced bool
	Foreign    bool // read where it is served, in whichever version is

	list func(*Objects) []Object
	add  func(*Objects, Object)
	set  func(*Objects, []Object)
	made func() Object
}

// Name is the resource as kubectl prints it: "pods", "clusterqueues.kueue.x-k8s.io".
func (k *KindInfo) Name() string {
	return schema.GroupResource{Group: k.Group, Resource: k.Resource}.String()
}

// List returns the objects of the kind.
func (k *KindInfo) List(o *Objects) []Object { return k.list(o) }

// Add appends one.
func (k *KindInfo) Add(o *Objects, object Object) { k.add(o, object) }

// New is an empty object of the kind.
func (k *KindInfo) New() Object { return k.made() }

func known[T any, P interface {
	*T
	Object
}](group, version, kind, resource string, namespaced bool, at func(*Objects) *[]P) *KindInfo {
	return &KindInfo{
		GroupVersionKind: schema.GroupVersionKind{Group: group, Version: version, Kind: kind}, Resource: resource, Namespaced: namespaced,
		list: func(o *Objects) []Object {
			out := make([]Object, len(*at(o)))
			for i, p := range *at(o) {
				out[i] = p
			}
			return out
		},
		add: func(o *Objects, object Object) { *at(o) = append(*at(o), object.(P)) },
		set: func(o *Objects, all []Object) {
			list := make([]P, len(all))
			for i := range all {
				list[i] = all[i].(P)
			}
			*at(o) = list
		},
		made: func() Object { return P(new(T)) },
	}
}

func foreign(group, version, kind, resource string, namespaced bool) *KindInfo {
	gvk := schema.GroupVersionKind{Group: group, Version: version, Kind: kind}
	key := kind + "." + group
	return &KindInfo{
		GroupVersionKind: gvk, Resource: resource, Namespaced: namespaced, Foreign: true,
		list: func(o *Objects) []Object {
			out := make([]Object, len(o.Foreign[key]))
			for i, p := range o.Foreign[key] {
				out[i] = p
			}
			return out
		},
		add: func(o *Objects, object Object) {
			if o.Foreign == nil {
				o.Foreign = make(map[string][]*unstructured.Unstructured)
			}
			o.Foreign[key] = append(o.Foreign[key], object.(*unstructured.Unstructured))
		},
		set: func(o *Objects, all []Object) {
			m := make(map[string][]*unstructured.Unstructured, len(o.Foreign)+1)
			for k, v := range o.Foreign {
				m[k] = v
			}
			m[key] = nil
			for _, u := range all {
				m[key] = append(m[key], u.(*unstructured.Unstructured))
			}
			o.Foreign = m
		},
		made: func() Object {
			u := &unstructured.Unstructured{}
			u.SetGroupVersionKind(gvk)
			return u
		},
	}
}

// Kinds are all kinds that are gathered. Of foreign ones the version is the one expected; others are read the same.
var Kinds = []*KindInfo{
	known("", "v1", "Namespace", "namespaces", false, func(o *Objects) *[]*corev1.Namespace { return &o.Namespaces }),
	known("", "v1", "Node", "nodes", false, func(o *Objects) *[]*corev1.Node { return &o.Nodes }),
	known("", "v1", "Pod", "pods", true, func(o *Objects) *[]*corev1.Pod { return &o.Pods }),
	known("", "v1", "Event", "events", true, func(o *Objects) *[]*corev1.Event { return &o.Events }),
	known("", "v1", "ResourceQuota", "resourcequotas", true, func(o *Objects) *[]*corev1.ResourceQuota { return &o.ResourceQuotas }),
	known("", "v1", "LimitRange", "limitranges", true, func(o *Objects) *[]*corev1.LimitRange { return &o.LimitRanges }),
	known("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", true, func(o *Objects) *[]*corev1.PersistentVolumeClaim { return &o.PersistentVolumeClaims }),
	known("", "v1", "PersistentVolume", "persistentvolumes", false, func(o *Objects) *[]*corev1.PersistentVolume { return &o.PersistentVolumes }),
	known("", "v1", "ConfigMap", "configmaps", true, func(o *Objects) *[]*corev1.ConfigMap { return &o.ConfigMaps }),
	known("", "v1", "ServiceAccount", "serviceaccounts", true, func(o *Objects) *[]*corev1.ServiceAccount { return &o.ServiceAccounts }),
	known("apps", "v1", "Deployment", "deployments", true, func(o *Objects) *[]*appsv1.Deployment { return &o.Deployments }),
	known("apps", "v1", "ReplicaSet", "replicasets", true, func(o *Objects) *[]*appsv1.ReplicaSet { return &o.ReplicaSets }),
	known("apps", "v1", "StatefulSet", "statefulsets", true, func(o *Objects) *[]*appsv1.StatefulSet { return &o.StatefulSets }),
	known("apps", "v1", "DaemonSet", "daemonsets", true, func(o *Objects) *[]*appsv1.DaemonSet { return &o.DaemonSets }),
	known("apps", "v1", "ControllerRevision", "controllerrevisions", true, func(o *Objects) *[]*appsv1.ControllerRevision { return &o.ControllerRevisions }),
	known("batch", "v1", "Job", "jobs", true, func(o *Objects) *[]*batchv1.Job { return &o.Jobs }),
	known("batch", "v1", "CronJob", "cronjobs", true, func(o *Objects) *[]*batchv1.CronJob { return &o.CronJobs }),
	known("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", false, func(o *Objects) *[]*schedulingv1.PriorityClass { return &o.PriorityClasses }),
	known("scheduling.k8s.io", "v1beta1", "PodGroup", "podgroups", true, func(o *Objects) *[]*schedulingv1beta1.PodGroup { return &o.PodGroups }),
	known("scheduling.k8s.io", "v1alpha3", "CompositePodGroup", "compositepodgroups", true, func(o *Objects) *[]*schedulingv1alpha3.CompositePodGroup { return &o.CompositePodGroups }),
	known("node.k8s.io", "v1", "RuntimeClass", "runtimeclasses", false, func(o *Objects) *[]*nodev1.RuntimeClass { return &o.RuntimeClasses }),
	known("storage.k8s.io", "v1", "StorageClass", "storageclasses", false, func(o *Objects) *[]*storagev1.StorageClass { return &o.StorageClasses }),
	known("storage.k8s.io", "v1", "CSINode", "csinodes", false, func(o *Objects) *[]*storagev1.CSINode { return &o.CSINodes }),
	known("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", true, func(o *Objects) *[]*policyv1.PodDisruptionBudget { return &o.PodDisruptionBudgets }),
	known("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies", true, func(o *Objects) *[]*networkingv1.NetworkPolicy { return &o.NetworkPolicies }),
	known("coordination.k8s.io", "v1", "Lease", "leases", true, func(o *Objects) *[]*coordinationv1.Lease { return &o.Leases }),
	known("resource.k8s.io", "v1", "ResourceSlice", "resourceslices", false, func(o *Objects) *[]*resourcev1.ResourceSlice { return &o.ResourceSlices }),
	known("resource.k8s.io", "v1", "DeviceTaintRule", "devicetaintrules", false, func(o *Objects) *[]*resourcev1.DeviceTaintRule { return &o.DeviceTaintRules }),
	known("resource.k8s.io", "v1", "DeviceClass", "deviceclasses", false, func(o *Objects) *[]*resourcev1.DeviceClass { return &o.DeviceClasses }),
	known("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims", true, func(o *Objects) *[]*resourcev1.ResourceClaim { return &o.ResourceClaims }),
	known("resource.k8s.io", "v1", "ResourceClaimTemplate", "resourceclaimtemplates", true, func(o *Objects) *[]*resourcev1.ResourceClaimTemplate { return &o.ResourceClaimTemplates }),
	known("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", false, func(o *Objects) *[]*admissionv1.ValidatingWebhookConfiguration {
		return &o.ValidatingWebhookConfigurations
	}),
	known("admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", false, func(o *Objects) *[]*admissionv1.MutatingWebhookConfiguration { return &o.MutatingWebhookConfigurations }),
	known("admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", false, func(o *Objects) *[]*admissionv1.ValidatingAdmissionPolicy { return &o.ValidatingAdmissionPolicies }),
	known("admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", false, func(o *Objects) *[]*admissionv1.ValidatingAdmissionPolicyBinding {
		return &o.ValidatingAdmissionPolicyBindings
	}),

	foreign("berth.dev", "v1alpha1", "BerthQueue", "berthqueues", false),
	foreign("berth.dev", "v1alpha1", "Pool", "pools", false),
	foreign("berth.dev", "v1alpha1", "Reservation", "reservations", false),
	foreign("berth.dev", "v1alpha1", "Machine", "machines", false),
	foreign("kueue.x-k8s.io", "v1beta2", "Workload", "workloads", true),
	foreign("kueue.x-k8s.io", "v1beta2", "LocalQueue", "localqueues", true),
	foreign("kueue.x-k8s.io", "v1beta2", "ClusterQueue", "clusterqueues", false),
	foreign("kueue.x-k8s.io", "v1beta2", "Cohort", "cohorts", false),
	foreign("kueue.x-k8s.io", "v1beta2", "ResourceFlavor", "resourceflavors", false),
	foreign("kueue.x-k8s.io", "v1beta2", "AdmissionCheck", "admissionchecks", false),
	foreign("kueue.x-k8s.io", "v1beta2", "Topology", "topologies", false),
	foreign("kueue.x-k8s.io", "v1beta2", "WorkloadPriorityClass", "workloadpriorityclasses", false),
	foreign("scheduling.run.ai", "v2", "Queue", "queues", false),
	foreign("scheduling.run.ai", "v2alpha2", "PodGroup", "podgroups", true),
	foreign("kai.scheduler", "v1alpha1", "Topology", "topologies", false),
	foreign("scheduling.x-k8s.io", "v1alpha1", "PodGroup", "podgroups", true),
	foreign("scheduling.x-k8s.io", "v1alpha1", "ElasticQuota", "elasticquotas", true),
	foreign("scheduling.volcano.sh", "v1beta1", "Queue", "queues", false),
	foreign("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups", true),
	foreign("topology.volcano.sh", "v1alpha1", "HyperNode", "hypernodes", false),
	foreign("batch.volcano.sh", "v1alpha1", "Job", "jobs", true),
	foreign("karpenter.sh", "v1", "NodePool", "nodepools", false),
	foreign("karpenter.sh", "v1", "NodeClaim", "nodeclaims", false),
	foreign("karpenter.k8s.aws", "v1", "EC2NodeClass", "ec2nodeclasses", false),
	foreign("karpenter.azure.com", "v1beta1", "AKSNodeClass", "aksnodeclasses", false),
	foreign("autoscaling.x-k8s.io", "v1", "ProvisioningRequest", "provisioningrequests", true),
	foreign("nvidia.com", "v1", "ClusterPolicy", "clusterpolicies", false),
	foreign("nvidia.com", "v1alpha1", "NVIDIADriver", "nvidiadrivers", false),
	foreign("resource.nvidia.com", "v1beta1", "ComputeDomain", "computedomains", true),
	foreign("readiness.node.x-k8s.io", "v1alpha1", "NodeReadinessRule", "nodereadinessrules", false),
	foreign("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets", true),
	foreign("leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet", "leaderworkersets", true),
	foreign("workload.codeflare.dev", "v1beta2", "AppWrapper", "appwrappers", true),
	foreign("kubeflow.org", "v1", "PyTorchJob", "pytorchjobs", true),
	foreign("kubeflow.org", "v2beta1", "MPIJob", "mpijobs", true),
	foreign("kubeflow.org", "v1", "TFJob", "tfjobs", true),
	foreign("kubeflow.org", "v1", "XGBoostJob", "xgboostjobs", true),
	foreign("kubeflow.org", "v1", "PaddleJob", "paddlejobs", true),
	foreign("kubeflow.org", "v1", "JAXJob", "jaxjobs", true),
	foreign("trainer.kubeflow.org", "v1alpha1", "TrainJob", "trainjobs", true),
	foreign("trainer.kubeflow.org", "v1alpha1", "TrainingRuntime", "trainingruntimes", true),
	foreign("trainer.kubeflow.org", "v1alpha1", "ClusterTrainingRuntime", "clustertrainingruntimes", false),
	foreign("scheduler.grove.io", "v1alpha1", "PodGang", "podgangs", true),
	foreign("ray.io", "v1", "RayJob", "rayjobs", true),
	foreign("ray.io", "v1", "RayCluster", "rayclusters", true),
}

// KindOf is the row of an object of the group and kind, nil where it is not gathered.
func KindOf(group, kind string) *KindInfo {
	for _, k := range Kinds {
		if k.Group == group && k.Kind == kind {
			return k
		}
	}
	return nil
}

// found are the rows of kinds that no table has, by group and kind: one each, so that rows can be compared.
var found sync.Map

// Found is the row of a kind that is read because the cluster has it, and that no check knows. Its resource is the usual
// plural of its name.
func Found(gvk schema.GroupVersionKind) *KindInfo {
	plural, _ := meta.UnsafeGuessKindToResource(gvk)
	return FoundAs(gvk, plural.Resource, true)
}

// FoundAs is Found for a kind whose resource the API server has named.
func FoundAs(gvk schema.GroupVersionKind, resource string, namespaced bool) *KindInfo {
	if k, ok := found.Load(gvk.GroupKind()); ok {
		return k.(*KindInfo)
	}
	k, _ := found.LoadOrStore(gvk.GroupKind(), foreign(gvk.Group, gvk.Version, gvk.Kind, resource, namespaced))
	return k.(*KindInfo)
}

// Kinds are the rows of Kinds, and of the kinds beside them of which there are objects, by name.
func (o *Objects) Kinds() []*KindInfo {
	var more []*KindInfo
	for _, all := range o.Foreign {
		if len(all) > 0 {
			if gvk := all[0].GroupVersionKind(); KindOf(gvk.Group, gvk.Kind) == nil {
				more = append(more, Found(gvk))
			}
		}
	}
	slices.SortFunc(more, func(a, b *KindInfo) int { return strings.Compare(a.Name(), b.Name()) })
	return slices.Concat(Kinds, more)
}

// KindOfObject is the row of the object. Typed objects need not carry their own kind.
func KindOfObject(o Object) *KindInfo {
	if u, ok := o.(*unstructured.Unstructured); ok {
		gvk := u.GroupVersionKind()
		if k := KindOf(gvk.Group, gvk.Kind); k != nil {
			return k
		}
		return Found(gvk)
	}
	return kindByType[reflect.TypeOf(o)]
}

var kindByType = func() map[reflect.Type]*KindInfo {
	m := make(map[reflect.Type]*KindInfo)
	for _, k := range Kinds {
		if !k.Foreign {
			m[reflect.TypeOf(k.made())] = k
		}
	}
	return m
}()
