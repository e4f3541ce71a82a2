package check

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
)

// Fit is what the engine says of a pod that waits.
type Fit struct {
	why.Explanation
	Starts     []engine.Placement // where the pods of its workload would go, if they would
	Missing    []string           // sentences about its volume claims that keep it from running anywhere
	Nodes      []NodeFit          // by name
	Exclusions []Exclusion        // what the engine does not know and keeps the pod from nodes
	Nominated  []*corev1.Pod      // others that wait, on the nodes that their scheduler keeps for them
	Together   int                // how many of the target's pods find places at once, where each would alone; 0: that was not tried
}

// NodeFit is why the pod does or does not fit on a node.
type NodeFit struct {
	*corev1.Node
	Fits    int64
	Removed []why.Clause // whatever is free
	Short   []why.Short  // resources of which too little is free, whether or not a clause excludes the node too
	// Empty is how many such pods the node would hold if nothing else were on it, clauses aside.
	Empty int64
	// ExcludedBy are reasons of Bars that exclude the node.
	ExcludedBy []string
}

// Open says whether nothing but room keeps the pod off the node.
func (n *NodeFit) Open() bool { return len(n.Removed) == 0 && len(n.ExcludedBy) == 0 }

// Placed says whether the pod's workload would start now.
func (f *Fit) Placed() bool { return f.Verdict == why.Placed && len(f.Missing) == 0 }

// AboutPlaces says whether the engine looked for a place and found none: no gate before that is shut.
func AboutPlaces(f *Fit) bool {
	switch f.Cause {
	case why.ClusterFull, why.Fragmented, why.TopologyFragmented, why.LargerThanAnyNode, why.Stranded, why.NoMatchingNode, why.PodRules, why.SearchBudget:
		return !f.Placed()
	}
	return false
}

// ExclusionKind says what kind of rule keeps a pod from nodes.
type ExclusionKind string

const (
	ByAntiAffinity ExclusionKind = "anti-affinity"      // the pod's own rule
	ByOthersRule   ExclusionKind = "others-rule"        // anti-affinity of pods that have a node
	ByPodAffinity  ExclusionKind = "pod-affinity"       // all terms together: a pod has to match all of them
	BySpread       ExclusionKind = "topology-spread"    // too many of its kind there already
	BySpreadLabel  ExclusionKind = "spread-label"       // the node is in no domain of the constraint
	ByAttachLimit  ExclusionKind = "attach-limit"       // the node takes no more volumes of a driver
	ByCSIDriver    ExclusionKind = "csi-driver-missing" // the node does not have a driver that one of its volumes needs
	ByDevices      ExclusionKind = "devices"            // claims of devices cannot be met there
)

// Exclusion is a rule that keeps the pod from nodes and that the engine does not know: about other pods, attached volumes
// or claims of devices.
type Exclusion struct {
	Kind  ExclusionKind
	Term  int               // which of the pod's terms, constraints or claims; of ByOthersRule: of the terms of Pods
	Nodes map[string]string // why, by node
	Pods  []*corev1.Pod     // that it is about: those to keep away from, those with the rule, or those to be near
}

// Exclusion returns the first exclusion of the kind.
func (f *Fit) Exclusion(kind ExclusionKind) *Exclusion {
	for i := range f.Exclusions {
		if f.Exclusions[i].Kind == kind {
			return &f.Exclusions[i]
		}
	}
	return nil
}

// Held are the nodes that the exclusion keeps the pod from and that would hold it when empty: those that matter to it.
func (f *Fit) Held(b *Exclusion) []string {
	var out []string
	for i := range f.Nodes {
		if n := &f.Nodes[i]; b.Nodes[n.Name] != "" && n.Empty > 0 && len(n.Removed) == 0 {
			out = append(out, n.Name)
		}
	}
	return out
}

// ShortOf is how much of the resource the node has too little free.
func (n *NodeFit) ShortOf(resource string) int64 {
	for _, s := range n.Short {
		if s.Resource == resource {
			return s.By
		}
	}
	return 0
}

// PodsLacking is how many pods of the workload have to find a place and do not: 1 for a pod alone.
func (f *Fit) PodsLacking() int {
	if cert := f.proof(); cert != nil {
		return max(1, cert.Need-int(min(cert.Total, int64(cert.Need))))
	}
	return 1
}

// PodsNeeded is how many pods of the workload have to find a place at once: 1 for a pod alone.
func (f *Fit) PodsNeeded() int {
	if cert := f.proof(); cert != nil {
		return max(1, cert.Need)
	}
	return 1
}

// proof is the certificate of the first gate that has one, or nil.
func (f *Fit) proof() *why.Certificate {
	for _, g := range f.Gates {
		if g.Certificate >= 0 && g.Certificate < len(f.Certificates) {
			return &f.Certificates[g.Certificate]
		}
	}
	return nil
}

// Untolerated are the node's taints that the pod does not tolerate, a cordon's aside.
func (n *NodeFit) Untolerated() []corev1.Taint {
	var out []corev1.Taint
	for _, c := range n.Removed {
		if c.Kind != why.ByTaint {
			continue
		}
		if i := slices.IndexFunc(n.Spec.Taints, func(t corev1.Taint) bool { return podspec.TaintText(t) == c.Detail }); i >= 0 {
			out = append(out, n.Spec.Taints[i])
		}
	}
	return out
}
