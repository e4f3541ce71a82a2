package gpustack

import (
	"regexp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
)

// Fault is the one thing about its GPU software, or its GPUs, for which a node offers fewer than it has. What comes
// first on the way from the driver to the kubelet counts: without a driver no device plugin can work.
type Fault string

const (
	FaultDriver    Fault = "driver"  // or the container toolkit, which needs it and which the plugin needs
	FaultPlugin    Fault = "plugin"  // none runs on the node, or it is not ready
	FaultSilent    Fault = "silent"  // it runs and the kubelet does not know it
	FaultKubelet   Fault = "kubelet" // which has just started, and plugins have yet to register
	FaultUnhealthy Fault = "unhealthy"
	FaultUneven    Fault = "uneven"   // GPUs are divided in ways that one strategy cannot count
	FaultOperator  Fault = "operator" // the GPU Operator has deployed nothing
	FaultNone      Fault = ""
)

func (s *Stack) faultOf(f *facts.Facts, g *Node) Fault {
	switch s.States[g.Name] {
	case NodeUnready, NodeUpgrades, NodeLeaving, NodeRepartitions, NodeQuarantined:
		return FaultNone // they explain it
	}
	have := Offers(g.Node, WholeGPU)
	switch {
	case len(v1alpha1.OfferedUnhealthy(g.Node)) > 0 && !s.byClaim(g.Node):
		return FaultUnhealthy
	case have >= g.Units || s.byClaim(g.Node) || offersParts(g.Node):
		return FaultNone
	case have > 0:
		return FaultUnhealthy
	case strings.HasSuffix(g.Labels[LabelProduct], "-MIG-INVALID"):
		return FaultUneven
	case s.driverMissing(f, g):
		return FaultDriver
	}
	return s.pluginFault(f, g)
}

// offersParts says whether the node counts its GPUs under another name: MIG instances, shares.
func offersParts(n *corev1.Node) bool {
	for name, q := range n.Status.Allocatable {
		if strings.HasPrefix(string(name), "nvidia.com/") && name != WholeGPU && !q.IsZero() && !networkWords.MatchString(string(name)) {
			return true
		}
	}
	return false
}

// networkWords are in the names of what NVIDIA's other plugins count: network cards and their functions.
var networkWords = regexp.MustCompile(`(?i)/(.*(rdma|hca|hostdev|sriov|roce|mlnx)|(.*[^a-z])?(efa|nics?|ib|vfs?)([^a-z]|$))`)

// driverMissing says whether the driver that a DaemonSet should install, or the container toolkit, is not ready.
func (s *Stack) driverMissing(f *facts.Facts, g *Node) bool {
	if g.Unready(RoleToolkit) != nil || g.Unready(RoleDriver) != nil && len(g.Ready(RoleDriver)) == 0 {
		return true
	}
	waits := g.Unready(RolePlugin) != nil
	if waits && len(g.Pods[RoleToolkit]) == 0 && g.Labels[LabelDeploy+Operand[RoleToolkit]] == "true" && len(g.Ready(RoleDriver)) > 0 {
		return true
	}
	if len(g.Pods[RoleDriver]) > 0 || !driverByOperator(f) {
		return false
	}
	switch g.Labels[LabelDeploy+Operand[RoleDriver]] {
	case "pre-installed":
		return false
	case "true":
		return true
	}
	return len(s.Sets[RoleDriver]) > 0 && len(g.Pods[RolePlugin]) > 0
}

// pluginFault says what is wrong where the driver is well and the node offers nothing.
func (s *Stack) pluginFault(f *facts.Facts, g *Node) Fault {
	ready := g.Ready(RolePlugin)
	capacity := g.Status.Capacity[WholeGPU]
	switch {
	case len(g.Pods[RolePlugin]) == 0 && (len(s.Sets[RolePlugin]) == 0 && operatorUnwell(f) || operatorDown(f) != nil && !operatorLabelled(g.Node)):
		return FaultOperator
	case len(ready) == 0:
		return FaultPlugin
	case !slices.ContainsFunc(ready, func(p *corev1.Pod) bool { return MountsSockets(&p.Spec) }):
		return FaultSilent
	case !capacity.IsZero():
		return FaultUnhealthy // the plugin is connected, and reports none that is well
	case kubeletFresh(f, g.Node):
		return FaultKubelet
	}
	return FaultSilent
}

// operatorLabelled says whether the GPU Operator has said of the node what is to run there.
func operatorLabelled(n *corev1.Node) bool {
	return slices.ContainsFunc(SortedKeys(n.Labels), func(key string) bool { return strings.HasPrefix(key, LabelDeploy) })
}

func operatorUnwell(f *facts.Facts) bool {
	reason, _, _ := OperatorSays(f)
	return reason != ""
}

// Settling is how long a kubelet that started, or a plugin, may take until GPUs are counted again.
const Settling = 2 * time.Minute

// kubeletFresh says whether the node's kubelet has just started. Its start is an event and nothing else; a Ready
// condition that is new shows it too.
func kubeletFresh(f *facts.Facts, n *corev1.Node) bool {
	if c := facts.ConditionOf(n, corev1.NodeReady); c != nil && fresh(f.At.Sub(c.LastTransitionTime.Time)) {
		return true
	}
	for _, e := range f.EventsNamed("Node", "", n.Name, "Starting", "Rebooted") {
		if fresh(f.At.Sub(facts.EventTime(e))) && strings.HasPrefix(facts.Emitter(e), "kubelet") {
			return true
		}
	}
	return false
}

func fresh(age time.Duration) bool { return age >= 0 && age < Settling }

// Absence is why no pod of a role is on a node.
type Absence struct {
	Set   *appsv1.DaemonSet // the one that comes closest; nil: there is none
	Key   string            // of a label that the DaemonSet selects by and the node does not have as it should
	Value string            // that it should have
	Taint *corev1.Taint     // that the DaemonSet does not tolerate
	Other bool              // its rules keep it off in another way
}

// WhyAbsent finds out. Where the DaemonSet may run on the node, nothing is set but it.
func (s *Stack) WhyAbsent(r Role, n *corev1.Node) Absence {
	best, rating := Absence{}, -1
	for _, d := range s.Sets[r] {
		a, points := KeptOff(d, n)
		if points > rating {
			best, rating = a, points
		}
	}
	return best
}

// KeptOff is what keeps the DaemonSet off the node, and how close it comes.
func KeptOff(d *appsv1.DaemonSet, n *corev1.Node) (Absence, int) {
	a := Absence{Set: d}
	spec := &d.Spec.Template.Spec
	for _, key := range SortedKeys(spec.NodeSelector) {
		if n.Labels[key] != spec.NodeSelector[key] {
			a.Key, a.Value = key, spec.NodeSelector[key]
			return a, 0
		}
	}
	if ok, err := nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: *spec}).Match(n); err != nil || !ok {
		a.Other = true
		return a, 1
	}
	for _, t := range podspec.Untolerated(&corev1.Pod{Spec: *spec}, n) {
		if !everywhere(t.Key) {
			a.Taint = &t
			return a, 2
		}
	}
	return a, 3
}

// everywhere says whether all DaemonSets tolerate taints of the key: the API server sees to it.
func everywhere(key string) bool {
	return key == corev1.TaintNodeNotReady || key == corev1.TaintNodeUnreachable || PressureTaint(key) || key == corev1.TaintNodeUnschedulable
}

// SortedKeys are the keys of the map, sorted.
func SortedKeys(m map[string]string) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// Id is the same for absences that one change ends.
func (a *Absence) ID() string {
	switch {
	case a.Set == nil:
		return "no set"
	case a.Taint != nil:
		return a.Set.Namespace + "/" + a.Set.Name + " taint " + a.Taint.Key + string(a.Taint.Effect)
	}
	return a.Set.Namespace + "/" + a.Set.Name + " label " + a.Key + "=" + a.Value
}
