package v1alpha1

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

const (
	// KeyUnhealthyGPUs is on a Node: the GPUs that DCGM shows to be broken, as a JSON list of UnhealthyGPU. The scheduler writes it where
	// it measures, and gives none of these GPUs to new work. Where it does not, an agent on the node may write it.
	KeyUnhealthyGPUs = KeyPrefix + "unhealthy-gpus"
	// KeyTrustedGPUs is on a Node, by people: UUIDs of GPUs, with commas between, that are used whatever DCGM shows; TrustAll for all.
	KeyTrustedGPUs = KeyPrefix + "trusted-gpus"
	// TrustAll is the value of KeyTrustedGPUs that means every GPU of the node.
	TrustAll = "all"
	// AttributeUUID is the attribute by which drivers of resource claims name a GPU.
	AttributeUUID = "uuid"
)

// UnhealthyGPU is a GPU in the list under KeyUnhealthyGPUs.
type UnhealthyGPU struct {
	UUID  string `json:"uuid"`
	GPU   string `json:"gpu,omitempty"`   // its index on the node
	Why   string `json:"why"`             // as people read it: Xid 79
	Since string `json:"since,omitempty"` // RFC 3339
}

// Bounds of the list, which whoever may write Nodes writes.
const (
	maxUnhealthyBytes = 32 << 10
	maxUnhealthyGPUs  = 64
	maxUnhealthyText  = 128
)

// UnhealthyGPUs are the GPUs of the node that are listed as broken and that nobody vouches for. What cannot be read is no list.
func UnhealthyGPUs(n *corev1.Node) []UnhealthyGPU {
	text := n.Annotations[KeyUnhealthyGPUs]
	var all []UnhealthyGPU
	if text == "" || len(text) > maxUnhealthyBytes || json.Unmarshal([]byte(text), &all) != nil || len(all) > maxUnhealthyGPUs {
		return nil
	}
	trusted := n.Annotations[KeyTrustedGPUs]
	if trusted == TrustAll {
		return nil
	}
	list := strings.FieldsFunc(trusted, func(r rune) bool { return r == ',' || r == ' ' })
	seen := make(map[string]bool, len(all))
	return slices.DeleteFunc(all, func(g UnhealthyGPU) bool {
		twice := seen[g.UUID]
		seen[g.UUID] = true
		return twice || g.UUID == "" || len(g.UUID) > maxUnhealthyText || len(g.Why) > maxUnhealthyText || slices.Contains(list, g.UUID)
	})
}

// nvidia begins the names of resources that NVIDIA's device plugin advertises.
const nvidia = "nvidia.com/"

// OfferedUnhealthy are the broken GPUs of a node whose device plugin still advertises some of them; nil where it has withdrawn as many
// as are broken. Which GPUs it has withdrawn the node does not say, nor can anybody but its kubelet choose among those that are left.
func OfferedUnhealthy(n *corev1.Node) []UnhealthyGPU {
	broken := UnhealthyGPUs(n)
	if len(broken) == 0 || int64(len(broken)) <= withdrawn(n) {
		return nil
	}
	return broken
}

// withdrawn is how many GPUs the node has and does not offer. GPUs that are shared or divided count as often as they are advertised.
func withdrawn(n *corev1.Node) int64 {
	var units, offered int64
	for name, q := range n.Status.Capacity { //archtest:any-order they are added up
		if strings.HasPrefix(string(name), nvidia) && q.Value() > 0 {
			left := n.Status.Allocatable[name]
			units, offered = units+q.Value(), offered+max(0, min(left.Value(), q.Value()))
		}
	}
	if units <= 0 {
		return 0
	}
	gpus, err := strconv.ParseInt(n.Labels[nvidia+"gpu.count"], 10, 32)
	if err != nil || gpus <= 0 || gpus > units {
		gpus = units
	}
	return (units - offered) * gpus / units
}
