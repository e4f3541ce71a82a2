package provisioner

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Karpenter's kinds, as far as they are played (pkg/apis/v1/nodepool.go, nodeclaim.go, nodeclaim_status.go).
var (
	karpenterVersion  = schema.GroupVersion{Group: "karpenter.sh", Version: "v1"}
	nodePoolResource  = karpenterVersion.WithResource("nodepools")
	nodeClaimResource = karpenterVersion.WithResource("nodeclaims")
)

// Labels, annotations, taints and finalizers of Karpenter (pkg/apis/v1/labels.go, taints.go).
const (
	nodePoolLabel        = "karpenter.sh/nodepool"
	capacityTypeLabel    = "karpenter.sh/capacity-type"
	registeredLabel      = "karpenter.sh/registered"
	initializedLabel     = "karpenter.sh/initialized"
	reservationLabel     = "karpenter.k8s.aws/capacity-reservation-id"
	doNotDisrupt         = "karpenter.sh/do-not-disrupt"
	unregisteredTaint    = "karpenter.sh/unregistered" // NoExecute
	disruptedTaint       = "karpenter.sh/disrupted"    // NoSchedule
	terminationFinalizer = "karpenter.sh/termination"
)

// Conditions of NodeClaims and NodePools (pkg/apis/v1/nodeclaim_status.go, nodepool_status.go).
const (
	condLaunched       = "Launched"
	condRegistered     = "Registered"
	condInitialized    = "Initialized"
	condConsolidatable = "Consolidatable"
	condDrifted        = "Drifted"
	condDisruption     = "DisruptionReason"
	condDrained        = "Drained"
	condVolumes        = "VolumesDetached"
	condTerminating    = "InstanceTerminating"
	condReady          = "Ready"
	condValid          = "ValidationSucceeded"
	condClassReady     = "NodeClassReady"
	condHealthy        = "NodeRegistrationHealthy"
)

type nodePool struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              nodePoolSpec   `json:"spec"`
	Status            nodePoolStatus `json:"status,omitempty"`
}

type nodePoolSpec struct {
	Template struct {
		Metadata struct {
			Labels      map[string]string `json:"labels,omitempty"`
			Annotations map[string]string `json:"annotations,omitempty"`
		} `json:"metadata,omitempty"`
		Spec nodeClaimSpec `json:"spec"`
	} `json:"template"`
	Disruption disruption          `json:"disruption,omitempty"`
	Limits     corev1.ResourceList `json:"limits,omitempty"`
	Weight     int32               `json:"weight,omitempty"`
	Replicas   *int64              `json:"replicas,omitempty"`
}

type disruption struct {
	ConsolidateAfter    string   `json:"consolidateAfter,omitempty"` // a duration, or Never
	ConsolidationPolicy string   `json:"consolidationPolicy,omitempty"`
	Budgets             []budget `json:"budgets,omitempty"`
}

type budget struct {
	Nodes    string   `json:"nodes"`
	Reasons  []string `json:"reasons,omitempty"`
	Schedule string   `json:"schedule,omitempty"`
	Duration string   `json:"duration,omitempty"`
}

type nodePoolStatus struct {
	Resources  corev1.ResourceList `json:"resources,omitempty"`
	Nodes      int64               `json:"nodes"`
	Conditions []metav1.Condition  `json:"conditions,omitempty"`

	NodeClassObservedGeneration int64 `json:"nodeClassObservedGeneration,omitempty"`
}

type nodeClaim struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              nodeClaimSpec   `json:"spec"`
	Status            nodeClaimStatus `json:"status,omitempty"`
}

type nodeClaimSpec struct {
	NodeClassRef           classRef                         `json:"nodeClassRef"`
	Requirements           []corev1.NodeSelectorRequirement `json:"requirements,omitempty"`
	Resources              claimResources                   `json:"resources,omitempty"`
	Taints                 []corev1.Taint                   `json:"taints,omitempty"`
	StartupTaints          []corev1.Taint                   `json:"startupTaints,omitempty"`
	ExpireAfter            string                           `json:"expireAfter,omitempty"` // a duration, or Never
	TerminationGracePeriod string                           `json:"terminationGracePeriod,omitempty"`
}

type classRef struct {
	Group string `json:"group"`
	Kind  string `json:"kind"`
	Name  string `json:"name"`
}

type claimResources struct {
	Requests corev1.ResourceList `json:"requests,omitempty"`
}

type nodeClaimStatus struct {
	NodeName         string              `json:"nodeName,omitempty"`
	ProviderID       string              `json:"providerID,omitempty"`
	ImageID          string              `json:"imageID,omitempty"`
	Capacity         corev1.ResourceList `json:"capacity,omitempty"`
	Allocatable      corev1.ResourceList `json:"allocatable,omitempty"`
	Conditions       []metav1.Condition  `json:"conditions,omitempty"`
	LastPodEventTime *metav1.Time        `json:"lastPodEventTime,omitempty"`
}
