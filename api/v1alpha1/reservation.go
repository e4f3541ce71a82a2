package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Reservation is a paid claim on machines of a provider: a capacity block, an on-demand capacity reservation, a future or
// calendar reservation, a capacity reservation group. It makes no machine by itself: a Pool that names it does, or whoever
// makes nodes on a real cluster. `berth capacity import` writes Reservations from what the clouds' command lines print.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="Provider",type=string,JSONPath=`.spec.provider`
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.instanceType`
// +kubebuilder:printcolumn:name="Zone",type=string,JSONPath=`.spec.zone`
// +kubebuilder:printcolumn:name="Instances",type=integer,JSONPath=`.spec.instances`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Start",type=date,JSONPath=`.spec.start`
// +kubebuilder:printcolumn:name="End",type=string,JSONPath=`.spec.end`
// +kubebuilder:printcolumn:name="Model",type=string,JSONPath=`.spec.gpus.model`,priority=1
// +kubebuilder:printcolumn:name="GPUs",type=integer,JSONPath=`.spec.gpus.count`,priority=1,description="GPUs in one instance."
// +kubebuilder:printcolumn:name="Price",type=string,JSONPath=`.spec.price.perInstanceHour`,priority=1,description="Of one instance for an hour."
// +kubebuilder:printcolumn:name="Match",type=string,JSONPath=`.spec.match`,priority=1
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="metadata.name is named in tables and labels: at most 63 characters"
type Reservation struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec ReservationSpec `json:"spec"`
	// Status is what the provider last said, and what Berth makes of it.
	// +optional
	Status ReservationStatus `json:"status,omitzero"`
}

// ReservationList is a list of Reservations.
//
// +kubebuilder:object:root=true
type ReservationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []Reservation `json:"items"`
}

// ReservationSpec is what was bought.
//
// +kubebuilder:validation:XValidation:rule="!has(self.start) || !has(self.end) || self.start < self.end",message="end must be after start"
type ReservationSpec struct {
	// Provider is whose machines they are.
	// +kubebuilder:validation:Enum=aws;gcp;azure;other
	Provider Provider `json:"provider"`
	// ID is the provider's own name of the reservation: cr-0a1b2c3d, a resource name, an ARM id. Nodes that carry it in a
	// label are counted for this reservation.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	ID string `json:"id,omitempty"`
	// InstanceType is the provider's name for the machines: p5en.48xlarge, a3-ultragpu-8g.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	InstanceType string `json:"instanceType"`
	// GPUs are those of one instance.
	GPUs ReservedGPUs `json:"gpus"`
	// Instances is how many machines are reserved.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100000
	Instances int32 `json:"instances"`
	// Zone that the machines are in, as the label topology.kubernetes.io/zone of nodes has it. Without it, any.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Zone string `json:"zone,omitempty"`
	// Start is when the machines can first be had. Without it, they can.
	// +optional
	Start *metav1.Time `json:"start,omitempty"`
	// End is when they are taken back. Without it, they are not.
	// +optional
	End *metav1.Time `json:"end,omitempty"`
	// Match is who may have the machines: open, any instance of the type in the zone; targeted (default), only those that
	// name the reservation.
	// +optional
	// +kubebuilder:validation:Enum=open;targeted
	Match ReservationMatch `json:"match,omitempty"`
	// Price of an instance. Without it the money of this reservation is unknown, and is said to be.
	// +optional
	Price *Price `json:"price,omitempty"`
}

// Provider is a cloud; other is everybody else, one's own machines included.
type Provider string

const (
	ProviderAWS   Provider = "aws"
	ProviderGCP   Provider = "gcp"
	ProviderAzure Provider = "azure"
	ProviderOther Provider = "other"
)

// ReservationMatch is who may have machines of a reservation.
type ReservationMatch string

const (
	MatchOpen     ReservationMatch = "open"
	MatchTargeted ReservationMatch = "targeted"
)

// ReservedGPUs are the GPUs of one reserved instance.
type ReservedGPUs struct {
	// Model by any of its names: H200, NVIDIA-H200.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Model string `json:"model,omitempty"`
	// Count in one instance.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	Count int32 `json:"count"`
}

// Price is money for machines.
type Price struct {
	// PerInstanceHour is what one machine costs for an hour, whether or not anybody uses it: "63.296". At most six digits
	// after the point: money is counted in millionths.
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^[0-9]{1,9}(\.[0-9]{1,6})?$`
	PerInstanceHour string `json:"perInstanceHour"`
	// Currency by its code in ISO 4217. Default: USD.
	// +optional
	// +kubebuilder:default=USD
	// +kubebuilder:validation:Pattern=`^[A-Z]{3}$`
	Currency string `json:"currency,omitempty"`
}

// ReservationStatus is what the provider said last.
type ReservationStatus struct {
	// State in the words that the clouds share.
	// +optional
	// +kubebuilder:validation:Enum=scheduled;active;expiring;expired;failed
	State ReservationState `json:"state,omitempty"`
	// Available is how many of the machines nobody has, in any cluster or account. Without it the provider did not say.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Available *int32 `json:"available,omitempty"`
	// ObservedAt is when the provider said so.
	// +optional
	ObservedAt *metav1.Time `json:"observedAt,omitempty"`
	// Reported is what else the provider's command line printed, by path, as far as it is no field of this kind.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(key, size(key) <= 256 && size(self[key]) <= 512)",message="a path has at most 256 characters, and a value 512"
	Reported map[string]string `json:"reported,omitempty"`
	// Conditions of the reservation; the type is ReservationUsable.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ReservationState is where a reservation is in its life.
type ReservationState string

const (
	ReservationScheduled ReservationState = "scheduled" // bought, and not begun
	ReservationActive    ReservationState = "active"
	ReservationExpiring  ReservationState = "expiring" // about to end: no new machine comes of it
	ReservationExpired   ReservationState = "expired"  // over, or cancelled
	ReservationFailed    ReservationState = "failed"   // the provider could not give it, or was not paid
)

// ReservationUsable is the type of a condition: machines of the reservation can become nodes here. Where it is False, the
// reason is one of the causes of `berth why` in camel case.
const ReservationUsable = "Usable"
