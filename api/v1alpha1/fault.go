package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Fault is something that goes wrong in the simulated fleet: what, where and when. While it is active the fleet shows what
// the real trouble would show. It heals when its time is over or when it is deleted.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name="Node",type=string,JSONPath=`.spec.node`
// +kubebuilder:printcolumn:name="Pool",type=string,JSONPath=`.spec.pool`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Hit",type=integer,JSONPath=`.status.hit`
// +kubebuilder:printcolumn:name="Times",type=integer,JSONPath=`.status.times`,priority=1
// +kubebuilder:printcolumn:name="Since",type=date,JSONPath=`.status.activeSince`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="metadata.name has at most 63 characters"
type Fault struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec FaultSpec `json:"spec"`
	// Status is written by Berth.
	// +optional
	Status FaultStatus `json:"status,omitzero"`
}

// FaultList is a list of Faults.
//
// +kubebuilder:object:root=true
type FaultList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []Fault `json:"items"`
}

// FaultType is what goes wrong; see docs/faults.md for what each shows.
//
// +kubebuilder:validation:Enum=xid;gpu-lost;ecc;row-remap;thermal-throttle;power-brake;nvlink-down;fabric-manager-down;driver-crash;driver-upgrade;plugin-crash;gfd-failure;toolkit-failure;kubelet-restart;node-down;node-partitioned;disk-pressure;cni-not-ready;startup-taint-stays;node-readiness-taint;boot-slow;boot-fails;boot-never-registers;quarantine;registry-down;registry-slow;numa-refusal;clock-skew;launch-fails;claim-prepare-fails;runtime-handler-missing
type FaultType string

const (
	FaultXid                FaultType = "xid"
	FaultGPULost            FaultType = "gpu-lost"
	FaultECC                FaultType = "ecc"
	FaultRowRemap           FaultType = "row-remap"
	FaultThermalThrottle    FaultType = "thermal-throttle"
	FaultPowerBrake         FaultType = "power-brake"
	FaultNVLinkDown         FaultType = "nvlink-down"
	FaultFabricManagerDown  FaultType = "fabric-manager-down"
	FaultDriverCrash        FaultType = "driver-crash"
	FaultDriverUpgrade      FaultType = "driver-upgrade"
	FaultPluginCrash        FaultType = "plugin-crash"
	FaultGFDFailure         FaultType = "gfd-failure"
	FaultToolkitFailure     FaultType = "toolkit-failure"
	FaultKubeletRestart     FaultType = "kubelet-restart"
	FaultNodeDown           FaultType = "node-down"
	FaultNodePartitioned    FaultType = "node-partitioned"
	FaultDiskPressure       FaultType = "disk-pressure"
	FaultCNINotReady        FaultType = "cni-not-ready"
	FaultStartupTaintStays  FaultType = "startup-taint-stays"
	FaultNodeReadinessTaint FaultType = "node-readiness-taint"
	FaultBootSlow           FaultType = "boot-slow"
	FaultBootFails          FaultType = "boot-fails"
	FaultBootNeverRegisters FaultType = "boot-never-registers"
	FaultQuarantine         FaultType = "quarantine"
	FaultRegistryDown       FaultType = "registry-down"
	FaultRegistrySlow       FaultType = "registry-slow"
	FaultNUMARefusal        FaultType = "numa-refusal"
	FaultClockSkew          FaultType = "clock-skew"
	FaultLaunchFails        FaultType = "launch-fails"
	FaultClaimPrepareFails  FaultType = "claim-prepare-fails"
	FaultRuntimeHandlerGone FaultType = "runtime-handler-missing"
)

// FaultSpec says what goes wrong, where and when. Durations are simulated time.
//
// +kubebuilder:validation:XValidation:rule="has(self.node) || has(self.pool) || has(self.selector)",message="say where: node, pool or selector ({} selects every node)"
// +kubebuilder:validation:XValidation:rule="(self.type == 'xid') == has(self.xid)",message="xid is required for type xid, and has no meaning for others"
// +kubebuilder:validation:XValidation:rule="!(has(self.gpus) || has(self.uuids) || has(self.gpuCount)) || self.type in ['xid', 'gpu-lost', 'ecc', 'row-remap', 'thermal-throttle', 'power-brake', 'nvlink-down']",message="this type is about whole nodes: gpus, uuids and gpuCount have no meaning"
// +kubebuilder:validation:XValidation:rule="!has(self.gpuCount) || !has(self.gpus) && !has(self.uuids)",message="gpuCount draws GPUs: leave out gpus and uuids"
// +kubebuilder:validation:XValidation:rule="!has(self.upgradeState) || self.type == 'driver-upgrade'",message="upgradeState is for type driver-upgrade"
// +kubebuilder:validation:XValidation:rule="!has(self.condition) || self.type == 'quarantine'",message="condition is for type quarantine"
// +kubebuilder:validation:XValidation:rule="!has(self.taint) || self.type in ['startup-taint-stays', 'node-readiness-taint']",message="taint is for types startup-taint-stays and node-readiness-taint"
// +kubebuilder:validation:XValidation:rule="!has(self.by) || self.type in ['boot-slow', 'registry-slow', 'clock-skew']",message="by is for types boot-slow, registry-slow and clock-skew"
// +kubebuilder:validation:XValidation:rule="(self.type == 'launch-fails') == has(self.error)",message="error is required for type launch-fails, and has no meaning for others"
// +kubebuilder:validation:XValidation:rule="self.type == 'launch-fails' || !has(self.zone) && !has(self.available)",message="zone and available are for type launch-fails"
// +kubebuilder:validation:XValidation:rule="self.type != 'launch-fails' || has(self.pool) && !has(self.node) && !has(self.selector) && !has(self.count)",message="launch-fails is about a pool: give pool, and no node, selector or count"
// +kubebuilder:validation:XValidation:rule="!has(self.every) || has(self.for)",message="every needs for: how long it lasts each time"
// +kubebuilder:validation:XValidation:rule="!has(self.every) || duration(self.every) > duration(self.for)",message="every must be longer than for"
// +kubebuilder:validation:XValidation:rule="!has(self.probability) || has(self.every)",message="probability needs every: it is drawn each time"
// +kubebuilder:validation:XValidation:rule="self.type == oldSelf.type",message="type cannot change; make another Fault"
type FaultSpec struct {
	Type FaultType `json:"type"`

	// Node is the one node that is hit.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Node string `json:"node,omitempty"`

	// Pool is the pool whose nodes are hit.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Pool string `json:"pool,omitempty"`

	// Selector is the labels of the nodes that are hit; {} selects every node. With node or pool, both must match.
	// +optional
	// +kubebuilder:validation:MaxProperties=20
	Selector *map[string]string `json:"selector,omitempty"`

	// Count is how many of those nodes are hit, drawn by seed. Default: all.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	Count *int32 `json:"count,omitempty"`

	// GPUs are the indices of the GPUs that are hit on each node. Default: one, drawn by seed; with a type that slows a
	// GPU down, all.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:Minimum=0
	// +kubebuilder:validation:items:Maximum=63
	GPUs []int32 `json:"gpus,omitempty"`

	// UUIDs are the GPUs that are hit, by UUID.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=64
	UUIDs []string `json:"uuids,omitempty"`

	// GPUCount is how many GPUs are hit on each node, drawn by seed.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	GPUCount *int32 `json:"gpuCount,omitempty"`

	// Xid is the number that the driver reports.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=999
	Xid *int32 `json:"xid,omitempty"`

	// UpgradeState keeps a driver upgrade in one state. Default: it goes through all of them.
	// +optional
	// +kubebuilder:validation:Enum=upgrade-required;cordon-required;wait-for-jobs-required;pod-deletion-required;drain-required;pod-restart-required;validation-required;uncordon-required;upgrade-failed
	UpgradeState string `json:"upgradeState,omitempty"`

	// Condition is what a health system writes on the node. Default: GpuXidErrorWatch, True.
	// +optional
	Condition *FaultCondition `json:"condition,omitempty"`

	// Taint is the key of the taint. Default: one that an autoscaler waits for, or that a NodeReadinessRule sets.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`
	Taint string `json:"taint,omitempty"`

	// Error is what the provider answers, by its own name.
	// +optional
	Error LaunchError `json:"error,omitempty"`

	// Zone in which it does. Default: all.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Zone string `json:"zone,omitempty"`

	// Available is how many machines of the pool it has there nevertheless. Default: 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	Available *int32 `json:"available,omitempty"`

	// By is how much slower, or by how much a clock is wrong.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) <= duration('8760h') && duration(self) >= duration('-8760h')",message="is at most a year"
	By *metav1.Duration `json:"by,omitempty"`

	// After is how long after its creation it first happens. Default: at once.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('8760h')",message="is from 0s to a year"
	After *metav1.Duration `json:"after,omitempty"`

	// For is how long it lasts. Default: until it is deleted.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('8760h')",message="is from 1s to a year"
	For *metav1.Duration `json:"for,omitempty"`

	// Every is the time from one start to the next.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('2s') && duration(self) <= duration('8760h')",message="is from 2s to a year"
	Every *metav1.Duration `json:"every,omitempty"`

	// Probability in percent with which it happens each time, drawn by seed. Default: 100.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Probability *int32 `json:"probability,omitempty"`

	// Seed of what is drawn. Faults of the same spec and seed do the same, whatever their names. Default: the name decides.
	// +optional
	Seed *int64 `json:"seed,omitempty"`
}

// LaunchError is why a provider gives no machine. LaunchTimeout is none of a provider's: it never answers.
//
// +kubebuilder:validation:Enum=InsufficientInstanceCapacity;ReservationCapacityExceeded;VcpuLimitExceeded;ZONE_RESOURCE_POOL_EXHAUSTED;QUOTA_EXCEEDED;AllocationFailed;Unauthorized;LaunchTimeout
type LaunchError string

const (
	ErrorInsufficientInstanceCapacity LaunchError = "InsufficientInstanceCapacity" // aws: none of the type in the zone
	ErrorReservationCapacityExceeded  LaunchError = "ReservationCapacityExceeded"  // aws: the reservation is used up
	ErrorVcpuLimitExceeded            LaunchError = "VcpuLimitExceeded"            // aws: the account's quota
	ErrorZoneResourcePoolExhausted    LaunchError = "ZONE_RESOURCE_POOL_EXHAUSTED" // gcp: none in the zone
	ErrorQuotaExceeded                LaunchError = "QUOTA_EXCEEDED"               // gcp: the project's quota
	ErrorAllocationFailed             LaunchError = "AllocationFailed"             // azure: none in the zone
	ErrorUnauthorized                 LaunchError = "Unauthorized"
	ErrorLaunchTimeout                LaunchError = "LaunchTimeout"
)

// OfZone says whether the error is of one zone: another may have machines.
func (e LaunchError) OfZone() bool {
	return e != ErrorVcpuLimitExceeded && e != ErrorQuotaExceeded && e != ErrorUnauthorized
}

// FaultCondition is a condition of a node.
type FaultCondition struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z]([A-Za-z0-9_.-]*[A-Za-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="!(self in ['Ready', 'DiskPressure', 'MemoryPressure', 'PIDPressure'])",message="is the kubelet's own"
	Type string `json:"type"`
	// Status that is bad: True for NVSentinel's conditions, False for those of EKS.
	// +kubebuilder:validation:Enum="True";"False"
	Status string `json:"status"`
	// +optional
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`
	Reason string `json:"reason,omitempty"`
	// Cordon says whether the health system cordons the node as well. Default: true.
	// +optional
	Cordon *bool `json:"cordon,omitempty"`
}

// FaultPhase is where a fault is in its life.
type FaultPhase string

const (
	FaultWaiting FaultPhase = "Waiting" // for its time, or between two
	FaultActive  FaultPhase = "Active"
	FaultHealed  FaultPhase = "Healed" // and does not happen again
	FaultMissed  FaultPhase = "Missed" // it would be active, and nothing that it could hit is there
)

// FaultStatus is what the fault does now.
type FaultStatus struct {
	// +optional
	Phase FaultPhase `json:"phase,omitempty"`
	// ActiveSince is when the present occurrence began.
	// +optional
	ActiveSince *metav1.Time `json:"activeSince,omitempty"`
	// HealedAt is when the last occurrence ended.
	// +optional
	HealedAt *metav1.Time `json:"healedAt,omitempty"`
	// Times is how often it has begun.
	// +optional
	Times int64 `json:"times,omitempty"`
	// Hit is the number of nodes that are hit now.
	// +optional
	Hit int32 `json:"hit,omitempty"`
	// Targets are the first 32 of them, as NODE or NODE/GPU-INDEX,INDEX.
	// +optional
	// +listType=atomic
	Targets []string `json:"targets,omitempty"`
	// Message says why nothing is hit.
	// +optional
	Message string `json:"message,omitempty"`
}
