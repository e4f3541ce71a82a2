package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Pool is one kind of node and how many there are of it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.status.nodes`
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.ready`
// +kubebuilder:printcolumn:name="GPUs",type=integer,JSONPath=`.status.gpus`
// +kubebuilder:printcolumn:name="Model",type=string,JSONPath=`.spec.gpus[0].model`
// +kubebuilder:printcolumn:name="Machines",type=integer,JSONPath=`.status.machines`,priority=1,description="Launched, or on their way."
// +kubebuilder:printcolumn:name="Max",type=integer,JSONPath=`.spec.launch.max`,priority=1
// +kubebuilder:printcolumn:name="Placement",type=string,JSONPath=`.spec.placement`,priority=1
// +kubebuilder:printcolumn:name="Class",type=string,JSONPath=`.spec.workloadClass`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([-a-z0-9]{0,48}[a-z0-9])?$')",message="metadata.name becomes part of node names and labels: at most 50 of a-z, 0-9 and -, with a letter or digit at both ends"
type Pool struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec PoolSpec `json:"spec"`
	// Status is written by Berth.
	// +optional
	Status PoolStatus `json:"status,omitzero"`
}

// PoolList is a list of Pools.
//
// +kubebuilder:object:root=true
type PoolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []Pool `json:"items"`
}

// PoolSpec is what the user asks for. Pointers tell "not given" from zero; Default fills
// them, so that code behind Default may dereference all of them.
//
// +kubebuilder:validation:XValidation:rule="has(self.nodes) || has(self.nodeNames) || has(self.launch) || has(self.selects)",message="nodes, nodeNames, launch or selects is required"
// +kubebuilder:validation:XValidation:rule="!has(self.launch) || !has(self.nodeNames) && (!has(self.nodes) || self.nodes == 0)",message="launch decides how many nodes there are: leave out nodes and nodeNames"
// +kubebuilder:validation:XValidation:rule="!has(self.selects) || !has(self.launch) && !has(self.nodeNames) && (!has(self.nodes) || self.nodes == 0) && !has(self.gpus)",message="selects is for nodes that others make: leave out launch, nodes, nodeNames and gpus"
// +kubebuilder:validation:XValidation:rule="!has(self.nodes) || !has(self.nodeNames) || self.nodes == size(self.nodeNames)",message="nodes must equal the number of nodeNames; leave nodes out"
// +kubebuilder:validation:XValidation:rule="has(self.gpus) || !has(self.nvlink)",message="nvlink has no meaning without gpus"
// +kubebuilder:validation:XValidation:rule="has(self.gpus) || !has(self.driver)",message="driver has no meaning without gpus"
// +kubebuilder:validation:XValidation:rule="has(self.gpus) || !has(self.mig)",message="mig has no meaning without gpus"
// +kubebuilder:validation:XValidation:rule="!has(self.mig) || !has(self.advertise) || self.advertise != 'dra' || !has(self.mig.config) && (!has(self.mig.strategy) || self.mig.strategy == 'dynamic')",message="with advertise: dra, mig has no config and no strategy but dynamic"
// +kubebuilder:validation:XValidation:rule="!has(self.mig) || !has(self.mig.strategy) || self.mig.strategy != 'dynamic' || has(self.advertise) && self.advertise == 'dra'",message="mig.strategy: dynamic needs advertise: dra"
// +kubebuilder:validation:XValidation:rule="!has(self.mig) || !has(self.gpuStack) || self.gpuStack != 'none'",message="mig needs gpuStack: operator"
// +kubebuilder:validation:XValidation:rule="has(self.gpus) || !has(self.advertise)",message="advertise has no meaning without gpus"
// +kubebuilder:validation:XValidation:rule="has(self.gpus) || !has(self.sharing)",message="sharing has no meaning without gpus"
// +kubebuilder:validation:XValidation:rule="!has(self.sharing) || !has(self.mig) && (self.sharing == 'hami' || !has(self.advertise) || self.advertise != 'dra') && (!has(self.gpuStack) || self.gpuStack != 'none')",message="sharing needs gpuStack: operator and no mig, and volcano and berth need advertise: device-plugin"
// +kubebuilder:validation:XValidation:rule="has(self.gpus) || !has(self.gpuStack) || self.gpuStack == 'none'",message="gpuStack: operator has no meaning without gpus"
// +kubebuilder:validation:XValidation:rule="!has(self.gpus) || self.gpus.map(g, g.count).sum() <= 64",message="a node has at most 64 GPUs"
type PoolSpec struct {
	// Nodes is how many nodes the pool has. Node i (from 0) is named POOL-i unless nodeNames
	// says otherwise. Zero is a pool that is empty for now.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	Nodes *int32 `json:"nodes,omitempty"`

	// NodeNames names every node of the pool, in place of POOL-i; nodes is then its length
	// and may be left out.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100000
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	NodeNames []string `json:"nodeNames,omitempty"`

	// Role is worker (default) or control-plane; the latter adds the label and the NoSchedule
	// taint that kubeadm gives such a node.
	// +optional
	Role Role `json:"role,omitempty"`

	// GPUs in each node, in index order. More than one entry makes a node with mixed models.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	GPUs []GPU `json:"gpus,omitempty"`

	// NVLink is how the GPUs of one node are linked: auto (default; full for models that have
	// NVLink, none for others), none, pairs (bridges between 0-1, 2-3, ...) or full.
	// +optional
	NVLink NVLink `json:"nvlink,omitempty"`

	// CPU is the cores of a node. Default: 16, or 16 for each GPU.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0'))",message="must be more than 0"
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('10k')) <= 0",message="must be at most 10k cores"
	CPU *resource.Quantity `json:"cpu,omitempty"`

	// Memory of a node. Default: 64Gi, or 128Gi for each GPU.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('128Mi')) >= 0",message="must be at least 128Mi; write a unit, such as 64Gi"
	Memory *resource.Quantity `json:"memory,omitempty"`

	// EphemeralStorage is the node's disk for images, logs and scratch. Default: 1Ti.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('128Mi')) >= 0",message="must be at least 128Mi; write a unit, such as 64Gi"
	EphemeralStorage *resource.Quantity `json:"ephemeralStorage,omitempty"`

	// Pods is the most pods a node runs. Default: 110, as a kubelet has it.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	Pods *int32 `json:"pods,omitempty"`

	// ExtendedResources are what device plugins other than those of GPUs offer on every node, such as
	// google.com/tpu: 4 or rdma/hca_shared_devices_a: 63. Containers that request them start; nothing
	// more of such a device is simulated.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	ExtendedResources map[string]int32 `json:"extendedResources,omitempty"`

	// Labels of every node, beside those Berth sets.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// Taints of every node, beside the one that role adds.
	// +optional
	// +listType=atomic
	Taints []Taint `json:"taints,omitempty"`

	// Topology says where the nodes stand.
	// +optional
	Topology Topology `json:"topology,omitzero"`

	// Driver is the GPU driver of every node.
	// +optional
	Driver Driver `json:"driver,omitzero"`

	// MIG cuts the GPUs of every node into instances. Without it the GPUs stay whole, and no MIG
	// manager runs on the nodes.
	// +optional
	MIG MIG `json:"mig,omitzero"`

	// Advertise is how GPUs reach the scheduler: device-plugin (default) as the extended
	// resource nvidia.com/gpu, or dra, as devices of a ResourceSlice that pods claim. Never both.
	// +optional
	Advertise Advertise `json:"advertise,omitempty"`

	// Sharing is who gives pods parts of the GPUs: hami, which is HAMi's device plugin in place of NVIDIA's or, with advertise: dra, its
	// DRA driver, of whose devices claims have shares; volcano, which is Volcano's device plugin for vGPUs in place of NVIDIA's; or berth, an
	// agent that gives what the scheduler wrote into berth.dev/wanted-gpus. Default: nobody; GPUs are given whole, or as often as the device
	// plugin's configuration says.
	// +optional
	Sharing Sharing `json:"sharing,omitempty"`

	// GPUStack is who installs driver, toolkit, device plugin, GFD and DCGM exporter: operator
	// (default where there are GPUs) or none (nobody; whoever wants GPUs brings DaemonSets).
	// +optional
	GPUStack GPUStack `json:"gpuStack,omitempty"`

	// Placement is how work is laid on the pool: pack (fill a node before the next), spread, or
	// wholeNode (a node belongs to one workload, which nobody enforces). Default: as the scheduler is
	// configured. A queue may say otherwise for its work.
	// +optional
	Placement Placement `json:"placement,omitempty"`

	// WorkloadClass is what the pool is meant for. Default: anything.
	// +optional
	WorkloadClass WorkloadClass `json:"workloadClass,omitempty"`

	// Boot is how long each step of a node's cold start takes.
	// +optional
	Boot Boot `json:"boot,omitzero"`

	// Reservations are the names of Reservations that pay for the pool's machines, the first first. Machines beyond them,
	// in the order of their names, are paid for at price.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	Reservations []string `json:"reservations,omitempty"`

	// Price of a node that no reservation pays for. Without it, it is unknown.
	// +optional
	Price *Price `json:"price,omitempty"`

	// SpotPrice of a spot node. Default: price.
	// +optional
	SpotPrice *Price `json:"spotPrice,omitempty"`

	// Launch has machines launched for work that waits, and released when nobody needs them, in place of a fixed number of nodes.
	// +optional
	Launch *LaunchPolicy `json:"launch,omitempty"`

	// Selects names the nodes of the pool on a cluster where others make them. Such a pool has no hardware fields: nodes tell what
	// they have.
	// +optional
	Selects *NodeSelection `json:"selects,omitempty"`
}

// LaunchPolicy is how many machines of a pool there may be, where, and what pays for them.
//
// +kubebuilder:validation:XValidation:rule="!has(self.static) || !has(self.min) && !has(self.max) && !has(self.headroom)",message="static is how many machines there are: leave out min, max and headroom"
// +kubebuilder:validation:XValidation:rule="!has(self.min) || !has(self.max) || self.min <= self.max",message="min must be at most max"
type LaunchPolicy struct {
	// From is what machines are had from, the first first: reserved (the pool's reservations, in their order), on-demand, spot.
	// Default: reserved where the pool has reservations, else on-demand.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=3
	From []CapacityType `json:"from,omitempty"`
	// Zones that machines may be in, the first first. Default: topology.zone.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`
	Zones []string `json:"zones,omitempty"`
	// Min is how many machines there always are. Default: 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	Min *int32 `json:"min,omitempty"`
	// Max is how many machines there are at most. Default: 1000.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	Max *int32 `json:"max,omitempty"`
	// Static is how many machines there are, whatever waits.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	Static *int32 `json:"static,omitempty"`
	// Headroom is how many machines are kept free beyond what work needs. Default: 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	Headroom *int32 `json:"headroom,omitempty"`
	// Consolidation is which machines are released: WhenEmpty (default), those that no work is on; Never, none.
	// +optional
	Consolidation Consolidation `json:"consolidation,omitempty"`
	// ConsolidateAfter is how long a machine is empty before it is released. Default: 10m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^(0|([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+)$`
	ConsolidateAfter *metav1.Duration `json:"consolidateAfter,omitempty"`
	// DrainBefore is how long before the end of their reservation machines are drained, so that work can save a checkpoint.
	// Default: 45m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^(0|([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+)$`
	DrainBefore *metav1.Duration `json:"drainBefore,omitempty"`
	// ReadyWithin is how long a machine may take until work can be placed on it; then another is launched in its place.
	// Default: 20m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^(0|([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+)$`
	ReadyWithin *metav1.Duration `json:"readyWithin,omitempty"`
}

// CapacityType is a way to have a machine. The words are Karpenter's.
// +kubebuilder:validation:Enum=reserved;on-demand;spot
type CapacityType string

const (
	CapacityReserved CapacityType = "reserved"
	CapacityOnDemand CapacityType = "on-demand"
	CapacitySpot     CapacityType = "spot"
)

// Consolidation is which machines are released.
// +kubebuilder:validation:Enum=WhenEmpty;Never
type Consolidation string

const (
	ConsolidateWhenEmpty Consolidation = "WhenEmpty"
	ConsolidateNever     Consolidation = "Never"
)

// NodeSelection names nodes that others make, by labels or by Karpenter's NodePool.
//
// +kubebuilder:validation:XValidation:rule="has(self.labels) != has(self.nodePool)",message="give labels or nodePool, one of them"
type NodeSelection struct {
	// Labels that the nodes have.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=20
	Labels map[string]string `json:"labels,omitempty"`
	// NodePool of Karpenter that makes the nodes.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	NodePool string `json:"nodePool,omitempty"`
}

// Stockout is what a provider said it has not. It is not asked again before Until.
type Stockout struct {
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Zone string `json:"zone,omitempty"`
	// CapacityType and Reservation are what it was asked for.
	// +optional
	CapacityType CapacityType `json:"capacityType,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Reservation string `json:"reservation,omitempty"`
	// Error is the provider's own name of it: InsufficientInstanceCapacity.
	// +kubebuilder:validation:MaxLength=256
	Error string `json:"error"`
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// Until is when it may be asked again.
	Until metav1.Time `json:"until"`
	// Failures is how often it said so, one after the other: each doubles the wait.
	// +optional
	Failures int32 `json:"failures,omitempty"`
	// Got is how many machines it gave for the same need before.
	// +optional
	Got int32 `json:"got,omitempty"`
}

// Shortage is a gang that no machines can be launched for.
type Shortage struct {
	// Workload is the gang, as namespace/name.
	// +kubebuilder:validation:MaxLength=512
	Workload string `json:"workload"`
	// Need is how many machines it needs, and Have how many can be had.
	Need int32 `json:"need"`
	Have int32 `json:"have"`
	// Because is what keeps it from more.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Because string `json:"because,omitempty"`
}

// PoolStatus is what is there, as last counted.
type PoolStatus struct {
	// Nodes registered with the API server.
	// +optional
	Nodes int32 `json:"nodes,omitempty"`
	// Ready nodes.
	// +optional
	Ready int32 `json:"ready,omitempty"`
	// GPUs that can be scheduled: the sum of what the nodes advertise.
	// +optional
	GPUs int32 `json:"gpus,omitempty"`
	// Machines that are launched, or on their way; of a pool with launch.
	// +optional
	Machines int32 `json:"machines,omitempty"`
	// Stockouts are what the provider said it has not.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Stockouts []Stockout `json:"stockouts,omitempty"`
	// Shortages are the first gangs that no machines can be launched for.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Shortages []Shortage `json:"shortages,omitempty"`
	// Conditions of the pool; the types are PoolReady and PoolValid.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Types of conditions in PoolStatus.
const (
	PoolReady = "Ready" // all nodes are Ready and advertise all their GPUs
	PoolValid = "Valid" // the spec can be carried out; the message says what is wrong with it
)
