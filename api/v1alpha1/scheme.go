package v1alpha1

import (
	_ "embed"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion of everything in this package.
var GroupVersion = schema.GroupVersion{Group: "berth.dev", Version: "v1alpha1"}

// CRD is the CustomResourceDefinition pools.berth.dev as YAML, generated from the types,
// QueueCRD is berthqueues.berth.dev, ReservationCRD is reservations.berth.dev, FaultCRD is faults.berth.dev, and MachineCRD is
// machines.berth.dev.
var (
	//go:embed berth.dev_pools.yaml
	CRD []byte
	//go:embed berth.dev_berthqueues.yaml
	QueueCRD []byte
	//go:embed berth.dev_reservations.yaml
	ReservationCRD []byte
	//go:embed berth.dev_faults.yaml
	FaultCRD []byte
	//go:embed berth.dev_machines.yaml
	MachineCRD []byte
)

// QueueKind and QueuePlural name the kind of queues. Queue alone would be the name of KAI's and Volcano's kinds too, and
// `kubectl get queue` would then be answered by whichever of them the API server lists first.
const (
	QueueKind   = "BerthQueue"
	QueuePlural = "berthqueues"
)

// SchemeBuilder adds the kinds of this package to a scheme, and AddToScheme is its shorthand.
var (
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)
	AddToScheme   = SchemeBuilder.AddToScheme
)

// Resource qualifies a resource of this group, for error messages and RBAC.
func Resource(resource string) schema.GroupResource {
	return GroupVersion.WithResource(resource).GroupResource()
}

func addKnownTypes(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &Pool{}, &PoolList{}, &BerthQueue{}, &BerthQueueList{}, &Reservation{}, &ReservationList{}, &Fault{}, &FaultList{}, &Machine{}, &MachineList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
