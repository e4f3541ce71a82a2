package v1alpha1

// The conditions that the scheduler writes into the status of pods, beside those of Kubernetes.
const (
	// PodAdmitted is of a pod that is in a queue: its message is the terms that it entered with (kube/convert.Record).
	PodAdmitted = "berth.dev/Admitted"
	// PodEviction is of a pod that is, or will be, evicted: its message is JSON (kube/report.Eviction).
	PodEviction = "berth.dev/Eviction"
	// PodEvictionPlanned is of a pod that will be evicted: its message begins with the time.
	PodEvictionPlanned = "berth.dev/EvictionPlanned"
	// PodPendingCause is why a pod waits: its reason is the cause and its message JSON (kube/report.Pending). It holds
	// while PodScheduled is False: of a pod that has a node it is what the pod waited for last.
	PodPendingCause = "berth.dev/PendingCause"
	// PodPlaceHeld is of a pod that waits while room is made for it on the node that it is nominated for.
	PodPlaceHeld = "berth.dev/PlaceHeld"
)

// NotUnderstood is the condition of another project's object that has fields without effect: its message names them.
const NotUnderstood = "berth.dev/NotUnderstood"

// AnnotationCause is on events: what the note says, as JSON (kube/report.Pending or kube/report.Eviction).
const AnnotationCause = "berth.dev/cause"
