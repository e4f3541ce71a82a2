package v1alpha1

// The conditions that the scheduler writes into the status of pods, beside those of Kubernetes.
const (
	// PodEvictionPlanned is of a pod that will be evicted: its message begins with the time.
	PodEvictionPlanned = "berth.dev/EvictionPlanned"
	// PodPlaceHeld is of a pod that waits while room is made for it on the node that it is nominated for.
	PodPlaceHeld = "berth.dev/PlaceHeld"
)
