package v1alpha1

import corev1 "k8s.io/api/core/v1"

// Role of a node in the cluster.
// +kubebuilder:validation:Enum=worker;control-plane
type Role string

const (
	RoleWorker       Role = "worker"
	RoleControlPlane Role = "control-plane"
)

// Taint keeps pods off that do not tolerate it.
type Taint struct {
	// Key such as nvidia.com/gpu.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=316
	Key string `json:"key"`
	// Value that a toleration must equal, or be silent about.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Value string `json:"value,omitempty"`
	// Effect is NoSchedule, PreferNoSchedule or NoExecute.
	// +kubebuilder:validation:Enum=NoSchedule;PreferNoSchedule;NoExecute
	Effect corev1.TaintEffect `json:"effect"`
}

// Topology is where the nodes of a pool stand, from the widest to the narrowest. By default
// all nodes stand in one place. With nodesPerBlock, nodesPerRack or nodesPerClique set, the
// name beside it is a prefix and every so many nodes get the next number: rack r with
// nodesPerRack 4 puts nodes 0-3 in r-0 and nodes 4-7 in r-1.
//
// +kubebuilder:validation:XValidation:rule="!has(self.nodesPerBlock) || !has(self.nodesPerRack) || self.nodesPerBlock % self.nodesPerRack == 0",message="nodesPerBlock must be a multiple of nodesPerRack, or a rack would stand in two blocks"
type Topology struct {
	// Region becomes the label topology.kubernetes.io/region.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`
	Region string `json:"region,omitempty"`
	// Zone becomes the label topology.kubernetes.io/zone.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`
	Zone string `json:"zone,omitempty"`
	// Block of racks behind one network spine; becomes the label berth.dev/block. Default:
	// none, or POOL-block where nodesPerBlock is set.
	// +optional
	// +kubebuilder:validation:MaxLength=57
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`
	Block string `json:"block,omitempty"`
	// Rack becomes the label berth.dev/rack. Default: none, or POOL-rack where nodesPerRack
	// is set.
	// +optional
	// +kubebuilder:validation:MaxLength=57
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`
	Rack string `json:"rack,omitempty"`
	// Clique is the multi-node NVLink domain (NVL72 and kin); GPU Feature Discovery shows it
	// as the label nvidia.com/gpu.clique. Numbered with a dot: CLIQUE.0, CLIQUE.1. Default:
	// none, or POOL where nodesPerClique is set.
	// +optional
	// +kubebuilder:validation:MaxLength=57
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`
	Clique string `json:"clique,omitempty"`
	// NodesPerBlock numbers the blocks.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	NodesPerBlock *int32 `json:"nodesPerBlock,omitempty"`
	// NodesPerRack numbers the racks.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	NodesPerRack *int32 `json:"nodesPerRack,omitempty"`
	// NodesPerClique numbers the NVLink domains.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	NodesPerClique *int32 `json:"nodesPerClique,omitempty"`
}

// Placement is how work is laid on the nodes of a pool.
// +kubebuilder:validation:Enum=pack;spread;wholeNode
type Placement string

const (
	PlacementPack      Placement = "pack"
	PlacementSpread    Placement = "spread"
	PlacementWholeNode Placement = "wholeNode"
)

// QueuePlacement is how the work of a queue is laid on nodes.
// +kubebuilder:validation:Enum=pack;spread
type QueuePlacement string

const (
	QueuePlacementPack   QueuePlacement = "pack"
	QueuePlacementSpread QueuePlacement = "spread"
)

// CountPartsBy is by what of a card a queue counts parts of GPUs.
// +kubebuilder:validation:Enum=larger;compute;memory
type CountPartsBy string

// QueueingStrategy is whether work of a queue may be passed. The values are Kueue's.
// +kubebuilder:validation:Enum=BestEffortFIFO;StrictFIFO
type QueueingStrategy string

const (
	BestEffortFIFO QueueingStrategy = "BestEffortFIFO"
	StrictFIFO     QueueingStrategy = "StrictFIFO"
)

// StopPolicy is whether work starts from a queue. The values are Kueue's.
// +kubebuilder:validation:Enum=None;Hold;HoldAndDrain
type StopPolicy string

const (
	StopNone  StopPolicy = "None"
	StopHold  StopPolicy = "Hold"
	StopDrain StopPolicy = "HoldAndDrain"
)

// WorkloadClass is a kind of work.
// +kubebuilder:validation:Enum=training;inference;batch;interactive;system
type WorkloadClass string

const (
	ClassTraining    WorkloadClass = "training"
	ClassInference   WorkloadClass = "inference"
	ClassBatch       WorkloadClass = "batch"
	ClassInteractive WorkloadClass = "interactive"
	ClassSystem      WorkloadClass = "system"
)
