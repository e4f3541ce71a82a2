package diagnose

import (
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/berth-dev/berth/diagnose/facts"
)

// gpuFault is the one thing about its GPU software, or its GPUs, for which a node offers fewer than it has. What comes
// first on the way from the driver to the kubelet counts: without a driver no device plugin can work.
type gpuFault string

const (
	faultDriver    gpuFault = "driver"  // or the container toolkit, which needs it and which the plugin needs
	faultPlugin    gpuFault = "plugin"  // none runs on the node, or it is not ready
	faultSilent    gpuFault = "silent"  // it runs and the kubelet does not know it
	faultKubelet   gpuFault = "kubelet" // which has just started, and plugins have yet to register
	faultUnhealthy gpuFault = "unhealthy"
	faultUneven    gpuFault = "uneven"   // GPUs are divided in ways that one strategy cannot count
	faultOperator  gpuFault = "operator" // the GPU Operator has deployed nothing
	faultNone      gpuFault = ""
)

func (s *stackIndex) faultOf(f *facts.Facts, g *gpuNode) gpuFault {
	switch s.states[g.Name] {
	case nodeUnready, nodeUpgrades, nodeLeaving, nodeRepartitions, nodeQuarantined:
		return faultNone // they explain it
	}
	have := offers(g.Node, wholeGPU)
	switch {
	case have >= g.Units || s.byClaim(g.Node) || offersParts(g.Node):
		return faultNone
	case have > 0:
		return faultUnhealthy
	case strings.HasSuffix(g.Labels[labelProduct], "-MIG-INVALID"):
		return faultUneven
	case s.driverMissing(f, g):
		return faultDriver
	}
	return s.pluginFault(f, g)
}

// offersParts says whether the node counts its GPUs under another name: MIG instances, shares.
func offersParts(n *corev1.Node) bool {
	for name, q := range n.Status.Allocatable {
		if name != wholeGPU && strings.HasPrefix(string(name), "nvidia.com/") && !q.IsZero() {
			return true
		}
	}
	return false
}

// driverMissing says whether the driver that a DaemonSet should install, or the container toolkit, is not ready.
func (s *stackIndex) driverMissing(f *facts.Facts, g *gpuNode) bool {
	if g.unready(roleToolkit) != nil || g.unready(roleDriver) != nil && len(g.ready(roleDriver)) == 0 {
		return true
	}
	waits := g.unready(rolePlugin) != nil
	if waits && len(g.Pods[roleToolkit]) == 0 && g.Labels[labelDeploy+operand[roleToolkit]] == "true" && len(g.ready(roleDriver)) > 0 {
		return true
	}
	if len(g.Pods[roleDriver]) > 0 || !driverByOperator(f) {
		return false
	}
	switch g.Labels[labelDeploy+operand[roleDriver]] {
	case "pre-installed":
		return false
	case "true":
		return true
	}
	return len(s.sets[roleDriver]) > 0 && len(g.Pods[rolePlugin]) > 0
}

// pluginFault says what is wrong where the driver is well and the node offers nothing.
func (s *stackIndex) pluginFault(f *facts.Facts, g *gpuNode) gpuFault {
	ready := g.ready(rolePlugin)
	capacity := g.Status.Capacity[wholeGPU]
	switch {
	case len(g.Pods[rolePlugin]) == 0 && len(s.sets[rolePlugin]) == 0 && operatorUnwell(f):
		return faultOperator
	case len(ready) == 0:
		return faultPlugin
	case !slices.ContainsFunc(ready, func(p *corev1.Pod) bool { return mountsSockets(&p.Spec) }):
		return faultSilent
	case !capacity.IsZero():
		return faultUnhealthy // the plugin is connected, and reports none that is well
	case kubeletFresh(f, g.Node):
		return faultKubelet
	}
	return faultSilent
}

func operatorUnwell(f *facts.Facts) bool {
	reason, _, _ := operatorSays(f)
	return reason != ""
}

// settling is how long a kubelet that started, or a plugin, may take until GPUs are counted again.
const settling = 2 * time.Minute

// kubeletFresh says whether the node's kubelet has just started. Its start is an event and nothing else; a Ready
// condition that is new shows it too.
func kubeletFresh(f *facts.Facts, n *corev1.Node) bool {
	if c := conditionOf(n, corev1.NodeReady); c != nil && fresh(f.At.Sub(c.LastTransitionTime.Time)) {
		return true
	}
	for _, e := range f.EventsNamed("Node", "", n.Name, "Starting", "Rebooted") {
		if fresh(f.At.Sub(facts.EventTime(e))) && strings.HasPrefix(facts.Emitter(e), "kubelet") {
			return true
		}
	}
	return false
}

func fresh(age time.Duration) bool { return age >= 0 && age < settling }

// absence is why no pod of a role is on a node.
type absence struct {
	set   *appsv1.DaemonSet // the one that comes closest; nil: there is none
	key   string            // of a label that the DaemonSet selects by and the node does not have as it should
	value string            // that it should have
	taint *corev1.Taint     // that the DaemonSet does not tolerate
	other bool              // its rules keep it off in another way
}

// whyAbsent finds out. Where the DaemonSet may run on the node, nothing is set but it.
func (s *stackIndex) whyAbsent(r stackRole, n *corev1.Node) absence {
	best, rating := absence{}, -1
	for _, d := range s.sets[r] {
		a, points := keptOff(d, n)
		if points > rating {
			best, rating = a, points
		}
	}
	return best
}

// keptOff is what keeps the DaemonSet off the node, and how close it comes.
func keptOff(d *appsv1.DaemonSet, n *corev1.Node) (absence, int) {
	a := absence{set: d}
	spec := &d.Spec.Template.Spec
	for _, key := range sortedKeys(spec.NodeSelector) {
		if n.Labels[key] != spec.NodeSelector[key] {
			a.key, a.value = key, spec.NodeSelector[key]
			return a, 0
		}
	}
	if ok, err := nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: *spec}).Match(n); err != nil || !ok {
		a.other = true
		return a, 1
	}
	for _, t := range untolerated(&corev1.Pod{Spec: *spec}, n) {
		if !everywhere(t.Key) {
			a.taint = &t
			return a, 2
		}
	}
	return a, 3
}

// everywhere says whether all DaemonSets tolerate taints of the key: the API server sees to it.
func everywhere(key string) bool {
	return key == corev1.TaintNodeNotReady || key == corev1.TaintNodeUnreachable || pressureTaint(key) || key == corev1.TaintNodeUnschedulable
}

func sortedKeys(m map[string]string) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// faulty are the nodes with the fault that would have room for the pod if nothing were wrong with them.
func (c *Case) faulty(fault gpuFault) []*NodeFit {
	if !wantsGPU(c.Pod) || c.stuck() == nil {
		return nil
	}
	s := stack(c.Facts)
	return c.barredNodes(func(n *corev1.Node) bool { return s.faults[n.Name] == fault })
}

// inState are the nodes in the state that would have room for the pod if nothing were wrong with them.
func (c *Case) inState(state nodeState) []*NodeFit {
	if c.stuck() == nil {
		return nil
	}
	s := stack(c.Facts)
	return c.barredNodes(func(n *corev1.Node) bool { return s.states[n.Name] == state })
}

// repaired is the node with its GPUs, and nothing else changed.
func (c *Case) repaired(n *corev1.Node) {
	giveGPUs(c.Facts, n)
	c.wish(n)
}
