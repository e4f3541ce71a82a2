package diagnose

import (
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/kube/dialect"
)

// nodeState is the one thing about a node, beside its GPU software, that keeps pods off it. Of several, the one that
// explains the others counts: a node that is leaving is cordoned too.
type nodeState string

const (
	nodeLeaving      nodeState = "leaving"      // an autoscaler or a cloud takes it away
	nodeRepartitions nodeState = "repartitions" // the MIG manager is at work
	nodeUnready      nodeState = "unready"
	nodeUpgrades     nodeState = "upgrades" // its GPU driver
	nodeQuarantined  nodeState = "quarantined"
	nodeStartup      nodeState = "startup" // an agent has yet to say that it is fit for work
	nodePressed      nodeState = "pressed" // short of disk, memory or process IDs
	nodeCordoned     nodeState = "cordoned"
	nodeOpen         nodeState = ""
)

// stateOfNode says which of them holds.
func stateOfNode(f *facts.Facts, n *corev1.Node) nodeState { return stack(f).states[n.Name] }

func (s *stackIndex) stateOf(n *corev1.Node) nodeState {
	held := n.Spec.Unschedulable || len(barringTaints(n, stateTaint)) > 0 || s.shortOfGPUs(n)
	switch {
	case n.DeletionTimestamp != nil || len(barringTaints(n, leavingTaint)) > 0:
		return nodeLeaving
	case repartitions(n):
		return nodeRepartitions
	case !nodeReady(n) || len(barringTaints(n, unreadyTaint)) > 0:
		return nodeUnready
	case held && upgrades(n):
		return nodeUpgrades
	case quarantined(n):
		return nodeQuarantined
	case len(barringTaints(n, s.startupTaint)) > 0:
		return nodeStartup
	case len(barringTaints(n, pressureTaint)) > 0:
		return nodePressed
	case n.Spec.Unschedulable:
		return nodeCordoned
	}
	return nodeOpen
}

// barringTaints are the node's taints that keep new pods off and are of the kind.
func barringTaints(n *corev1.Node, kind func(key string) bool) (keys []string) {
	for _, t := range n.Spec.Taints {
		if t.Effect != corev1.TaintEffectPreferNoSchedule && kind(t.Key) {
			keys = append(keys, t.Key)
		}
	}
	return keys
}

// stateTaint says whether a taint of the key tells of a state that passes, or has to be repaired. It is never right to
// tolerate one in order to get a place: the pod would land on a node that is not fit for it.
func stateTaint(key string) bool {
	return leavingTaint(key) || unreadyTaint(key) || pressureTaint(key) || knownStartupTaint(key) || quarantineTaint(key) || key == corev1.TaintNodeUnschedulable
}

// isStateTaint also knows the startup taints that NodePools and readiness rules declare.
func isStateTaint(f *facts.Facts, key string) bool {
	return stateTaint(key) || stack(f).startupTaint(key)
}

func leavingTaint(key string) bool {
	switch key {
	case "ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler", "karpenter.sh/disrupted", "karpenter.sh/disruption", "cloud.google.com/impending-node-termination":
		return true
	}
	return strings.HasPrefix(key, "aws-node-termination-handler/")
}

func unreadyTaint(key string) bool {
	switch key {
	case corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable, corev1.TaintNodeNetworkUnavailable, corev1.TaintNodeOutOfService, "node.cloudprovider.kubernetes.io/shutdown":
		return true
	}
	return false
}

func pressureTaint(key string) bool {
	return key == corev1.TaintNodeDiskPressure || key == corev1.TaintNodeMemoryPressure || key == corev1.TaintNodePIDPressure
}

// knownStartupTaint goes by names that are known, or that say it themselves.
func knownStartupTaint(key string) bool {
	switch key {
	case "node.cloudprovider.kubernetes.io/uninitialized", "karpenter.sh/unregistered":
		return true
	}
	for _, prefix := range []string{"readiness.k8s.io/", "startup-taint.cluster-autoscaler.kubernetes.io/", "status-taint.cluster-autoscaler.kubernetes.io/", "ignore-taint.cluster-autoscaler.kubernetes.io/"} {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return !unreadyTaint(key) && (strings.HasSuffix(key, "not-ready") || strings.HasSuffix(key, "NotReady"))
}

func (s *stackIndex) startupTaint(key string) bool {
	return knownStartupTaint(key) || slices.Contains(s.startup, key)
}

// declaredStartupTaints are the keys that Karpenter's NodePools and readiness rules name.
func declaredStartupTaints(f *facts.Facts) (keys []string) {
	for _, p := range f.Foreign["NodePool.karpenter.sh"] {
		for _, t := range dialect.Items(p.Object, "spec", "template", "spec", "startupTaints") {
			keys = append(keys, dialect.Text(t, "key"))
		}
	}
	for _, r := range f.Foreign["NodeReadinessRule.readiness.node.x-k8s.io"] {
		keys = append(keys, dialect.Text(r.Object, "spec", "taint", "key"))
	}
	return slices.DeleteFunc(keys, func(key string) bool { return key == "" })
}

var quarantineWords = regexp.MustCompile(`(?i)quarantin|nvsentinel|unhealthy|(^|[^a-z])(xid|repair|broken|faulty?|degraded|suspect|maintenance)([^a-z]|$)`)

// quarantineTaint goes by words: every health system has its own names.
func quarantineTaint(key string) bool { return quarantineWords.MatchString(key) }

// quarantined says whether a system that watches the node's health has closed it.
func quarantined(n *corev1.Node) bool {
	if len(barringTaints(n, quarantineTaint)) > 0 || len(barringTaints(n, appliedTaint(n))) > 0 {
		return true
	}
	return n.Spec.Unschedulable && (n.Annotations[sentinelCordon] != "" || n.Annotations[sentinelEvent] != "" || sickness(n) != nil)
}

// Annotations of NVSentinel, which closes nodes whose GPUs it finds sick.
const (
	sentinelEvent  = "quarantineHealthEvent"
	sentinelCordon = "quarantineHealthEventIsCordoned"
	sentinelTaints = "quarantineHealthEventAppliedTaints"
)

// appliedTaint knows the taints that NVSentinel noted as its own.
func appliedTaint(n *corev1.Node) func(string) bool {
	noted := n.Annotations[sentinelTaints]
	return func(key string) bool { return strings.Contains(noted, `"`+key+`"`) }
}

// sickness is the condition of the node that says its hardware is not well. Some conditions are good when True, and
// others bad: their names tell.
func sickness(n *corev1.Node) *corev1.NodeCondition {
	for i := range n.Status.Conditions {
		c := &n.Status.Conditions[i]
		good := strings.HasSuffix(string(c.Type), "Ready") || strings.HasSuffix(string(c.Type), "Healthy")
		gpu := strings.Contains(strings.ToLower(string(c.Type)), "gpu") || c.Type == "AcceleratedHardwareReady"
		switch {
		case good && gpu && c.Status == corev1.ConditionFalse, !good && gpu && c.Status == corev1.ConditionTrue:
			return c
		case strings.HasSuffix(c.Reason, "IsNotHealthy") && c.Status == corev1.ConditionTrue:
			return c
		}
	}
	return nil
}

// upgrades says whether the GPU Operator is at work on the node's driver. A node that waits for its turn is open.
func upgrades(n *corev1.Node) bool {
	switch n.Labels[labelUpgrade] {
	case "", "upgrade-done", "upgrade-required":
		return false
	}
	return true
}

// repartitions says whether the MIG manager has not finished, or failed.
func repartitions(n *corev1.Node) bool {
	switch n.Labels[labelMIGState] {
	case "pending", "rebooting", "failed":
		return true
	}
	return false
}

// shortOfGPUs says whether the node offers fewer GPUs than it should: not where they are in parts.
func (s *stackIndex) shortOfGPUs(n *corev1.Node) bool {
	g := s.nodes[n.Name]
	return g != nil && !offersMIG(n) && offers(n, wholeGPU) < g.Units
}

// youngNode is how long a machine may take from its registration until it is fit for work.
const youngNode = 5 * time.Minute

func nodeReady(n *corev1.Node) bool {
	c := conditionOf(n, corev1.NodeReady)
	return c == nil || c.Status == corev1.ConditionTrue
}

// silent says whether the node once spoke and no longer does: that is no boot.
func silent(n *corev1.Node) bool {
	ready := conditionOf(n, corev1.NodeReady)
	return ready != nil && ready.Status == corev1.ConditionUnknown
}

func conditionOf(n *corev1.Node, kind corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range n.Status.Conditions {
		if n.Status.Conditions[i].Type == kind {
			return &n.Status.Conditions[i]
		}
	}
	return nil
}
