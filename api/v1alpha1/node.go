package v1alpha1

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
)

// Labels that a pool puts on its nodes. NVIDIA's own (nvidia.com/*) come from the GPU stack
// on the node, never from here.
const (
	LabelPool          = "berth.dev/pool"
	LabelPlacement     = "berth.dev/placement"
	LabelWorkloadClass = "berth.dev/workload-class"
	LabelBlock         = "berth.dev/block"
	LabelRack          = "berth.dev/rack"
	LabelRegion        = corev1.LabelTopologyRegion
	LabelZone          = corev1.LabelTopologyZone
	LabelClique        = "nvidia.com/gpu.clique"
	LabelControlPlane  = "node-role.kubernetes.io/control-plane"
	// LabelNoLoadBalancer is what kubeadm sets beside the control-plane label.
	LabelNoLoadBalancer = "node.kubernetes.io/exclude-from-external-load-balancers"
)

// The methods below read a pool that went through Default; i is the index of a node, from 0.

// NodeName is the name of node i.
func (p *Pool) NodeName(i int) string {
	if len(p.Spec.NodeNames) > 0 {
		return p.Spec.NodeNames[i]
	}
	return fmt.Sprintf("%s-%d", p.Name, i)
}

// NodeLabels are the labels node i registers with: the user's own and those that carry the
// pool, its policy and the node's place. The caller owns the map. The clique is not among
// them: GPU Feature Discovery finds it on the device (see NodeClique).
func (p *Pool) NodeLabels(i int) map[string]string {
	t := p.Spec.Topology
	labels := maps.Clone(p.Spec.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	for key, value := range map[string]string{
		LabelPool:          p.Name,
		LabelPlacement:     string(p.Spec.Placement),
		LabelWorkloadClass: string(p.Spec.WorkloadClass),
		LabelRegion:        t.Region,
		LabelZone:          t.Zone,
		LabelBlock:         numbered(t.Block, "-", i, t.NodesPerBlock),
		LabelRack:          numbered(t.Rack, "-", i, t.NodesPerRack),
	} {
		if value != "" {
			labels[key] = value
		}
	}
	if p.Spec.Role == RoleControlPlane {
		labels[LabelControlPlane] = ""
		labels[LabelNoLoadBalancer] = ""
	}
	return labels
}

// NodeClique is the multi-node NVLink domain that the GPUs of node i are in; empty: none.
func (p *Pool) NodeClique(i int) string {
	t := p.Spec.Topology
	return numbered(t.Clique, ".", i, t.NodesPerClique)
}

// NodeTaints are the taints every node of the pool registers with. The caller owns the slice.
func (p *Pool) NodeTaints() []corev1.Taint {
	var taints []corev1.Taint
	if p.Spec.Role == RoleControlPlane {
		taints = append(taints, corev1.Taint{Key: LabelControlPlane, Effect: corev1.TaintEffectNoSchedule})
	}
	for _, t := range p.Spec.Taints {
		taints = append(taints, corev1.Taint{Key: t.Key, Value: t.Value, Effect: t.Effect})
	}
	return taints
}

// GPUsPerNode counts the GPUs of all models in one node.
func (p *Pool) GPUsPerNode() int {
	n := 0
	for _, g := range p.Spec.GPUs {
		n += int(g.Count)
	}
	return n
}

// numbered is name itself, or name and the number of the group of per nodes that i is in.
func numbered(name, separator string, i int, per *int32) string {
	if per == nil {
		return name
	}
	return fmt.Sprintf("%s%s%d", name, separator, i/int(*per))
}
