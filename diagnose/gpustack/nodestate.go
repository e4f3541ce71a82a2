package gpustack

import (
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/kube/dialect"
)

// NodeState is the one thing about a node, beside its GPU software, that keeps pods off it. Of several, the one that
// explains the others counts: a node that is leaving is cordoned too.
type NodeState string

const (
	NodeLeaving      NodeState = "leaving"      // an autoscaler or a cloud takes it away
	NodeRepartitions NodeState = "repartitions" // the MIG manager is at work
	NodeUnready      NodeState = "unready"
	NodeUpgrades     NodeState = "upgrades" // its GPU driver
	NodeQuarantined  NodeState = "quarantined"
	NodeStartup      NodeState = "startup" // an agent has yet to say that it is fit for work
	NodePressed      NodeState = "pressed" // short of disk, memory or process IDs
	NodeCordoned     NodeState = "cordoned"
	NodeOpen         NodeState = ""
)

func (s *Stack) stateOf(f *facts.Facts, n *corev1.Node) NodeState {
	worker := WorkerOn(f, n)
	held := n.Spec.Unschedulable || len(ExcludingTaints(n, stateTaint)) > 0 || s.shortOfGPUs(n)
	switch {
	case n.DeletionTimestamp != nil || len(ExcludingTaints(n, LeavingTaint)) > 0 || worker != nil && worker.Leaves:
		return NodeLeaving
	case Repartitions(n):
		return NodeRepartitions
	case !facts.NodeReady(n) || len(ExcludingTaints(n, UnreadyTaint)) > 0:
		return NodeUnready
	case held && upgrades(n):
		return NodeUpgrades
	case quarantined(n) || worker != nil:
		return NodeQuarantined
	case len(ExcludingTaints(n, s.StartupTaint)) > 0:
		return NodeStartup
	case len(ExcludingTaints(n, PressureTaint)) > 0:
		return NodePressed
	case n.Spec.Unschedulable:
		return NodeCordoned
	}
	return NodeOpen
}

// ExcludingTaints are the node's taints that keep new pods off and are of the kind.
func ExcludingTaints(n *corev1.Node, kind func(key string) bool) (keys []string) {
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
	return LeavingTaint(key) || UnreadyTaint(key) || PressureTaint(key) || knownStartupTaint(key) || QuarantineTaint(key) || key == corev1.TaintNodeUnschedulable
}

// IsStateTaint also knows the startup taints that NodePools and readiness rules declare.
func IsStateTaint(f *facts.Facts, key string) bool {
	return stateTaint(key) || Of(f).StartupTaint(key)
}

// LeavingTaint reports whether the taint is of a node that is being removed.
func LeavingTaint(key string) bool {
	switch key {
	case "ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler", "karpenter.sh/disrupted", "karpenter.sh/disruption", "cloud.google.com/impending-node-termination":
		return true
	}
	return strings.HasPrefix(key, "aws-node-termination-handler/")
}

// UnreadyTaint reports whether the taint is of a node that is not Ready.
func UnreadyTaint(key string) bool {
	switch key {
	case corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable, corev1.TaintNodeNetworkUnavailable, "node.cloudprovider.kubernetes.io/shutdown":
		return true
	}
	return false
}

// PressureTaint reports whether the taint is of a node that is short of memory, disk or process IDs.
func PressureTaint(key string) bool {
	return key == corev1.TaintNodeDiskPressure || key == corev1.TaintNodeMemoryPressure || key == corev1.TaintNodePIDPressure
}

// startupWords end the keys of taints that say what is still being done to a node, by any tool.
var startupWords = regexp.MustCompile(`(?i)([/._-]|^)(not-?ready|uninitiali[sz]ed|initiali[sz]ing|pending|installing|bootstrapping|provisioning|validating|burn-?in|warm-?up)$`)

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
	return !UnreadyTaint(key) && startupWords.MatchString(key)
}

// StartupTaint reports whether the taint is one that nodes have until they are set up.
func (s *Stack) StartupTaint(key string) bool {
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

var quarantineWords = regexp.MustCompile(`(?i)quarantin|nvsentinel|unhealthy|(^|[^a-z])(xid|repair|broken|faulty?|degraded|suspect|maint|maintenance|health|failed|failure|sick|remediat(ion|e|ing|or)|problem|deadlock|corrupt|unschedulable|reboot|rebooting|drain|draining|upgrade|upgrading)([^a-z]|$)`)

// QuarantineTaint goes by words: every health system has its own names. A node is put out of service by hand, and put back by hand: no
// condition of it tells.
func QuarantineTaint(key string) bool {
	return key == corev1.TaintNodeOutOfService || key != corev1.TaintNodeUnschedulable && quarantineWords.MatchString(key)
}

var maintenanceWords = regexp.MustCompile(`(?i)maintenance|(^|[^a-z])(maint|reboot|rebooting|drain|draining|upgrade|upgrading)([^a-z]|$)`)

// Maintained says whether the node is closed for maintenance that was planned: nothing says that it is unhealthy.
func Maintained(n *corev1.Node) bool {
	key, _ := MaintainedBy(n)
	return (key != "" || len(ExcludingTaints(n, maintenanceWords.MatchString)) > 0) && Sickness(n) == nil && n.Annotations[SentinelEvent] == ""
}

// What those who reboot, drain and upgrade nodes write on them while they are at it, and how they say that they are.
var (
	workOnNode  = regexp.MustCompile(`(?i)reboot|maint(enance|ain)|drain|upgrad|updat|machineconfig`)
	workGoesOn  = regexp.MustCompile(`(?i)in-?progress|ongoing`)
	workStands  = regexp.MustCompile(`(?i)(reboot|rebooting|maintenance|drain|draining|upgrading|updating)$`)
	workNow     = regexp.MustCompile(`(?i)^(in-?progress|ongoing|working|draining|rebooting|upgrading|updating|started|active|drain-.+)$`)
	workIsNone  = regexp.MustCompile(`(?i)^(|false|no|none|0|done|idle)$`)
	workIsGoing = regexp.MustCompile(`(?i)^(true|yes|1)$`)
)

// MaintainedBy is the annotation or label with which a tool that works on a cordoned node says so; "" for none.
func MaintainedBy(n *corev1.Node) (key, value string) {
	if !n.Spec.Unschedulable {
		return "", ""
	}
	for _, said := range []map[string]string{n.Annotations, n.Labels} {
		for _, k := range SortedKeys(said) {
			v := said[k]
			switch {
			case !workOnNode.MatchString(k) || workIsNone.MatchString(v) || k == LabelUpgrade:
			case workGoesOn.MatchString(k), workNow.MatchString(v), workStands.MatchString(k) && workIsGoing.MatchString(v):
				return k, v
			}
		}
	}
	return "", ""
}

// quarantined says whether a system that watches the node's health has closed it.
func quarantined(n *corev1.Node) bool {
	if len(ExcludingTaints(n, QuarantineTaint)) > 0 || len(ExcludingTaints(n, AppliedTaint(n))) > 0 {
		return true
	}
	key, _ := MaintainedBy(n)
	return n.Spec.Unschedulable && (key != "" || n.Annotations[SentinelCordon] != "" || n.Annotations[SentinelEvent] != "" || Sickness(n) != nil)
}

// Annotations of NVSentinel, which closes nodes whose GPUs it finds sick.
const (
	SentinelEvent  = "quarantineHealthEvent"
	SentinelCordon = "quarantineHealthEventIsCordoned"
	sentinelTaints = "quarantineHealthEventAppliedTaints"
)

// AppliedTaint knows the taints that NVSentinel noted as its own.
func AppliedTaint(n *corev1.Node) func(string) bool {
	noted := n.Annotations[sentinelTaints]
	return func(key string) bool { return strings.Contains(noted, `"`+key+`"`) }
}

// kubelets are the conditions that say what the kubelet, or the network, is short of.
var kubelets = []corev1.NodeConditionType{corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure, corev1.NodeNetworkUnavailable}

// Sickness is the condition of the node that says its hardware is not well. Some conditions are good when True, and
// others bad: their names tell.
func Sickness(n *corev1.Node) *corev1.NodeCondition {
	for i := range n.Status.Conditions {
		c := &n.Status.Conditions[i]
		good := strings.HasSuffix(string(c.Type), "Ready") || strings.HasSuffix(string(c.Type), "Healthy")
		gpu := strings.Contains(strings.ToLower(string(c.Type)), "gpu") || c.Type == "AcceleratedHardwareReady"
		switch {
		case good && gpu && c.Status == corev1.ConditionFalse, !good && gpu && c.Status == corev1.ConditionTrue:
			return c
		case strings.HasSuffix(c.Reason, "IsNotHealthy") && c.Status == corev1.ConditionTrue:
			return c
		case n.Spec.Unschedulable && !slices.Contains(kubelets, c.Type) && facts.NodeFault(*c):
			return c // of a cordoned node, what node-problem-detector and its like report is why
		}
	}
	return nil
}

// upgrades says whether the GPU Operator is at work on the node's driver. A node that waits for its turn is open.
func upgrades(n *corev1.Node) bool {
	switch n.Labels[LabelUpgrade] {
	case "", "upgrade-done", "upgrade-required":
		return false
	}
	return true
}

// Repartitions says whether the MIG manager has not finished, or failed.
func Repartitions(n *corev1.Node) bool {
	switch n.Labels[LabelMIGState] {
	case "pending", "rebooting", "failed":
		return true
	}
	return false
}

// shortOfGPUs says whether the node offers fewer GPUs than it should: not where they are in parts.
func (s *Stack) shortOfGPUs(n *corev1.Node) bool {
	g := s.Nodes[n.Name]
	return g != nil && !OffersMIG(n) && Offers(n, WholeGPU) < g.Units
}

// YoungNode is how long a machine may take from its registration until it is fit for work.
const YoungNode = 5 * time.Minute

// DeviceHealthTaint says whether the taint of a device tells that it is broken or not watched: NVIDIA's driver has
// gpu.nvidia.com/xid, gpu-lost and unmonitored.
func DeviceHealthTaint(key string) bool { return deviceHealthWords.MatchString(key) }

var deviceHealthWords = regexp.MustCompile(`(?i)xid|lost|unmonitored|unhealthy|health|fail|error|fault|broken|ecc`)
