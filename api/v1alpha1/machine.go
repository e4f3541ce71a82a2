package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Machine is one that was asked of a provider, for a gang or for its pool. Berth writes it before it asks, so that a machine is
// neither asked for twice nor forgotten, and deletes it to give the machine back. Its node has its name.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=mc
// +kubebuilder:printcolumn:name="Pool",type=string,JSONPath=`.spec.pool`
// +kubebuilder:printcolumn:name="Zone",type=string,JSONPath=`.spec.zone`
// +kubebuilder:printcolumn:name="Capacity",type=string,JSONPath=`.spec.capacityType`
// +kubebuilder:printcolumn:name="Reservation",type=string,JSONPath=`.spec.reservation`,priority=1
// +kubebuilder:printcolumn:name="For",type=string,JSONPath=`.spec.for`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Error",type=string,JSONPath=`.status.error`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$')",message="metadata.name becomes the name of a node: at most 63 of a-z, 0-9 and -, with a letter or digit at both ends"
// +kubebuilder:validation:XValidation:rule="self.spec == oldSelf.spec",message="a machine does not change; delete it and launch another"
type Machine struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec MachineSpec `json:"spec"`
	// Status is written by who has the machines.
	// +optional
	Status MachineStatus `json:"status,omitzero"`
}

// MachineList is a list of Machines.
//
// +kubebuilder:object:root=true
type MachineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []Machine `json:"items"`
}

// MachineSpec is what was asked for.
//
// +kubebuilder:validation:XValidation:rule="(self.capacityType == 'reserved') == has(self.reservation)",message="reservation is required for capacityType reserved, and has no meaning for others"
type MachineSpec struct {
	// Pool that it is of.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=50
	Pool string `json:"pool"`
	// Index is its number in the pool, which decides where it stands.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Index int32 `json:"index"`
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Zone string `json:"zone,omitempty"`
	// CapacityType is how it is paid for.
	CapacityType CapacityType `json:"capacityType"`
	// Reservation that pays for it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Reservation string `json:"reservation,omitempty"`
	// For is the gang that it was launched for, as namespace/name, or the pool itself.
	// +kubebuilder:validation:MaxLength=512
	For string `json:"for"`
}

// MachineStatus is what the provider said.
type MachineStatus struct {
	// Phase is empty until the provider has answered.
	// +optional
	// +kubebuilder:validation:Enum=Launched;Failed
	Phase MachinePhase `json:"phase,omitempty"`
	// LaunchedAt is when the provider gave it.
	// +optional
	LaunchedAt *metav1.MicroTime `json:"launchedAt,omitempty"`
	// Error is why the provider gave none, by its own name: InsufficientInstanceCapacity.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Error string `json:"error,omitempty"`
	// Message is what else it said.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// IdleSince is since when no work is on its node.
	// +optional
	IdleSince *metav1.MicroTime `json:"idleSince,omitempty"`
}

// MachinePhase is where a machine is in its life. Whether it is a node that work can be placed on its Node tells.
type MachinePhase string

const (
	MachineLaunched MachinePhase = "Launched"
	MachineFailed   MachinePhase = "Failed"
)

// LabelCapacityType is on nodes of machines that were launched: reserved, on-demand or spot.
const LabelCapacityType = KeyPrefix + "capacity-type"
