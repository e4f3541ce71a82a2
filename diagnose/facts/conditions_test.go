package facts

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// Conditions of nodes are bad while they are True, unless they are named after health.
func TestNodeFault(t *testing.T) {
	for _, c := range []struct {
		kind, status string
		want         bool
	}{
		{"KernelDeadlock", "True", true}, {"KernelDeadlock", "False", false},
		{"NVLinkDown", "True", true}, {"NVLinkDown", "False", false}, {"IBPortFlapping", "True", true}, {"PCIeWidthReduced", "True", true}, {"RebootRequired", "True", true},
		{"GPUFabricReady", "False", true}, {"GPUFabricReady", "True", false}, {"EtcdIsVoter", "True", false}, {"EtcdIsVoter", "False", true}, {"StorageHealthy", "False", true},
		{"Unhealthy", "True", true}, {"Unhealthy", "False", false}, {"NVLinkInactive", "True", true}, {"NotReady", "True", true}, {"DisksUnavailable", "True", true},
		{"Drained", "True", false}, {"KernelReady", "Unknown", false},
	} {
		if got := NodeFault(corev1.NodeCondition{Type: corev1.NodeConditionType(c.kind), Status: corev1.ConditionStatus(c.status)}); got != c.want {
			t.Errorf("%s=%s is a fault: %v", c.kind, c.status, got)
		}
	}
}
