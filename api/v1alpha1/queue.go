package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Queue is what workloads are charged to: how much they may hold together, and which namespaces
// may use it. A pod, or the PodGroup it is in, names its queue under the key berth.dev/queue; one
// that names none is charged to the queue that its namespace names under the same key, else to
// the queue called default where there is one, else to none.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=bq
// +kubebuilder:printcolumn:name="GPUs",type=string,JSONPath=`.spec.resources[?(@.name=="nvidia.com/gpu")].limit`,description="The most GPUs that its workloads may hold together."
// +kubebuilder:printcolumn:name="Used",type=string,JSONPath=`.status.resources[?(@.name=="nvidia.com/gpu")].used`,description="GPUs that its workloads hold."
// +kubebuilder:printcolumn:name="Waiting",type=integer,JSONPath=`.status.waiting`,description="Workloads that wait for a place."
// +kubebuilder:printcolumn:name="Wanted",type=string,JSONPath=`.status.resources[?(@.name=="nvidia.com/gpu")].wanted`,priority=1,description="GPUs that they wait for."
// +kubebuilder:printcolumn:name="Running",type=integer,JSONPath=`.status.running`,priority=1,description="Workloads that hold something."
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="metadata.name is named in labels: at most 63 characters"
type Queue struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// Spec is what the queue allows. Without it the queue is open to all and limits nothing.
	// +optional
	Spec QueueSpec `json:"spec,omitzero"`
	// Status is written by Berth.
	// +optional
	Status QueueStatus `json:"status,omitzero"`
}

// QueueList is a list of Queues.
//
// +kubebuilder:object:root=true
type QueueList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []Queue `json:"items"`
}

// QueueSpec is what the queue allows. A change holds at once for what waits; what runs is left
// alone, also where it is then above the limit or not allowed any more.
type QueueSpec struct {
	// Resources says how much of each resource the queue's workloads may hold together. What is
	// not listed is not limited.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	Resources []QueueResource `json:"resources,omitempty"`

	// NamespaceSelector selects, by their labels, the namespaces whose workloads may use the
	// queue; workloads of others wait with the reason QueueForbidden. Absent, as well as empty
	// ({}): all namespaces. The label kubernetes.io/metadata.name selects a namespace by name.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn', 'Exists', 'DoesNotExist'])",message="operator must be In, NotIn, Exists or DoesNotExist"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator.endsWith('In') == (has(e.values) && size(e.values) > 0))",message="In and NotIn need values, Exists and DoesNotExist have none"
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
}

// QueueResource is one resource of a queue.
//
// +kubebuilder:validation:XValidation:rule="!self.name.contains('/') || quantity(string(self.limit)).isInteger()",message="limit must be a whole number: nobody can have part of such a resource"
type QueueResource struct {
	// Name of the resource as pods request it: nvidia.com/gpu, cpu, memory.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`
	Name string `json:"name"`

	// Limit is the most that the queue's running workloads may hold of it together. 0 lets
	// nothing start that asks for any.
	// +kubebuilder:validation:XValidation:rule="!quantity(string(self)).isLessThan(quantity('0'))",message="must not be negative"
	Limit resource.Quantity `json:"limit"`
}

// QueueStatus is what the queue's workloads hold and ask for, as last counted. It follows within
// seconds; what is decided does not depend on it.
type QueueStatus struct {
	// Running is how many workloads hold something. A gang is one workload.
	// +optional
	Running int32 `json:"running,omitempty"`
	// Waiting is how many workloads have pods without a place.
	// +optional
	Waiting int32 `json:"waiting,omitempty"`
	// Resources are nvidia.com/gpu and those that spec lists.
	// +optional
	// +listType=map
	// +listMapKey=name
	Resources []QueueUse `json:"resources,omitempty"`
	// Conditions of the queue; the type is QueueValid.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// QueueUse is how much of one resource is held and asked for.
type QueueUse struct {
	// Name of the resource.
	Name string `json:"name"`
	// Used is what pods that have a node hold, until they are gone.
	Used resource.Quantity `json:"used"`
	// Wanted is what pods without a place ask for.
	Wanted resource.Quantity `json:"wanted"`
}

// QueueValid is the type of the condition that says whether the spec can be carried out; its
// message says what is wrong. A queue whose selector makes no sense is open to nobody.
const QueueValid = "Valid"

// DefaultQueue is the name of the queue that workloads are charged to when neither they nor their
// namespaces name one.
const DefaultQueue = "default"
