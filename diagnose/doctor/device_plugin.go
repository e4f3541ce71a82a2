package doctor

import (
	"cmp"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var devicePluginItem = Item{
	Code: "device-plugin", Title: "driver and device plugin work on all GPU nodes", Owner: check.Platform, Needs: []string{"nodes", "pods", "daemonsets.apps"}, Find: devicePluginFound,
	Meaning: "Without them the node's GPUs are not offered to anybody.",
}

// lack is why a node's GPUs are not offered, or will not be for long.
type lack struct {
	severity Severity
	text     string // after the nodes' names
	next     string
	evidence facts.Evidence
	lasts    bool // on a new node too: nothing that is still being installed will end it
}

func devicePluginFound(c *Cluster) Result {
	r := Result{Looked: wording.Number(len(c.gpus), "node") + " with GPUs"}
	lacks := make(map[string]lack)
	for _, n := range c.gpus {
		if l, ok := c.lackOf(n); ok {
			lacks[n.Name] = l
		}
	}
	key := func(n *gpuNode) string {
		l, ok := lacks[n.Name]
		if !ok {
			return ""
		}
		return string(l.severity) + l.text
	}
	for _, nodes := range gather(c.gpus, key) {
		l := lacks[nodes[0].Name]
		r.Findings = append(r.Findings, nodesAs(Finding{Severity: l.severity, Message: named(nodes) + ": " + l.text, Next: l.next}, nodes, func(n *gpuNode) []facts.Evidence {
			return []facts.Evidence{lacks[n.Name].evidence}
		}))
	}
	return r
}

// lackOf says what the node's GPU software lacks. States of the node that explain it are another item's.
func (c *Cluster) lackOf(n *gpuNode) (lack, bool) {
	for _, v := range n.vendors {
		var l lack
		var ok bool
		if v == nvidia {
			l, ok = c.nvidiaLack(n)
		} else {
			l, ok = c.otherLack(n, v)
		}
		if !ok {
			continue
		}
		if c.young(n.Node) && l.severity == Fail && !l.lasts {
			l.severity, l.text, l.next = Note, l.text+", and the node is new", "wait: the node's software is being installed"
		}
		return l, true
	}
	return lack{}, false
}

func (c *Cluster) nvidiaLack(n *gpuNode) (lack, bool) {
	g := c.stack.Nodes[n.Name]
	if g == nil {
		return lack{}, false
	}
	offers := n.evidence(`status.allocatable["nvidia.com/gpu"]`, fmt.Sprint(n.allocatable("nvidia.com/gpu")))
	switch c.stack.Faults[n.Name] {
	case gpustack.FaultDriver:
		return c.driverLack(g, offers), true
	case gpustack.FaultPlugin:
		return c.pluginLack(n, gpustack.RolePlugin, g.Unready(gpustack.RolePlugin), c.stack.Sets[gpustack.RolePlugin], offers), true
	case gpustack.FaultSilent:
		return lack{Fail, "the device plugin runs, and the kubelet does not know it", "check that its pod mounts " + gpustack.PluginSockets + ", then restart it", offers, false}, true
	case gpustack.FaultKubelet:
		return lack{Note, "the kubelet has just started, and the device plugin has yet to register", "wait a minute", offers, false}, true
	case gpustack.FaultUneven:
		return lack{Fail, "its GPUs are divided in ways that one MIG strategy cannot count", "divide all GPUs of the node alike, or set the MIG strategy to mixed", n.evidence(labelField(gpustack.LabelProduct), n.Labels[gpustack.LabelProduct]), true}, true
	case gpustack.FaultOperator:
		reason, message, e := gpustack.OperatorSays(c.Facts)
		return lack{Fail, "the GPU Operator has deployed nothing: " + wording.Shortened(cmp.Or(message, reason), 120), "read the log of the GPU Operator", e, false}, true
	case gpustack.FaultUnhealthy:
		return lack{}, false // another item's
	}
	if p := g.Unready(gpustack.RolePlugin); p != nil && n.state == gpustack.NodeOpen && len(g.Ready(gpustack.RolePlugin)) == 0 {
		return lack{Warn, "the device plugin is not ready: " + gpustack.Trouble(p), "read the log of its pod", podEvidence(p), false}, true
	}
	if len(g.Pods[gpustack.RolePlugin]) == 0 {
		return c.absent(n, c.stack.Sets[gpustack.RolePlugin])
	}
	return lack{}, false
}

func (c *Cluster) driverLack(g *gpustack.Node, offers facts.Evidence) lack {
	for _, r := range []gpustack.Role{gpustack.RoleDriver, gpustack.RoleToolkit} {
		if p := g.Unready(r); p != nil {
			return lack{Fail, fmt.Sprintf("the %s is not ready: %s", r, gpustack.Trouble(p)), "read the log of its pod", podEvidence(p), false}
		}
	}
	return lack{Fail, "no driver or container toolkit is installed", "install the driver, or let its DaemonSet onto the node", offers, false}
}

// pluginLack says why no device plugin works on the node, which offers nothing.
func (c *Cluster) pluginLack(n *gpuNode, what gpustack.Role, unready *corev1.Pod, sets []*appsv1.DaemonSet, offers facts.Evidence) lack {
	if unready != nil {
		return lack{Fail, fmt.Sprintf("the %s is not ready: %s", what, gpustack.Trouble(unready)), "read the log of its pod", podEvidence(unready), false}
	}
	if l, ok := c.absent(n, sets); ok {
		l.severity = Fail
		return l
	}
	if len(sets) == 0 {
		return lack{Fail, "no " + string(what) + " is installed in the cluster", "install the vendor's device plugin, or its operator", offers, true}
	}
	a, _ := gpustack.KeptOff(sets[0], n.Node)
	if a.Key != "" {
		return lack{Fail, fmt.Sprintf("DaemonSet %s/%s does not run there: it selects %s=%s", a.Set.Namespace, a.Set.Name, a.Key, a.Value), "give the node the label, or change the DaemonSet's selector", n.evidence(labelField(a.Key), n.Labels[a.Key]), n.Labels[a.Key] != ""}
	}
	return lack{Fail, fmt.Sprintf("DaemonSet %s/%s does not run there: its affinity excludes the node", sets[0].Namespace, sets[0].Name), "change the DaemonSet's affinity, or the node's labels", offers, false}
}

// absent says that a DaemonSet which is meant for the node has no pod there. One that selects other nodes is not meant.
func (c *Cluster) absent(n *gpuNode, sets []*appsv1.DaemonSet) (lack, bool) {
	if n.state == gpustack.NodeUnready || n.state == gpustack.NodeLeaving || c.byClaim(n) {
		return lack{}, false
	}
	for _, d := range sets {
		a, points := gpustack.KeptOff(d, n.Node)
		name := d.Namespace + "/" + d.Name
		switch {
		case a.Taint != nil:
			return lack{Warn, fmt.Sprintf("DaemonSet %s does not tolerate the taint %s", name, podspec.TaintText(*a.Taint)), "add the toleration to DaemonSet " + name, n.evidence("spec.taints", a.Taint.ToString()), true}, true
		case points == 3 && a.Key == "" && !a.Other:
			return lack{Warn, "DaemonSet " + name + " has no pod there, and nothing keeps it away", "look at the DaemonSet's events", facts.Evidence{Object: facts.RefTo(d).In(), Field: "status.numberReady", Value: fmt.Sprintf("%d of %d", d.Status.NumberReady, d.Status.DesiredNumberScheduled)}, false}, true
		}
	}
	return lack{}, false
}

// otherLack looks for what can be told of a vendor whose stack is not known in detail.
func (c *Cluster) otherLack(n *gpuNode, v *vendor) (lack, bool) {
	sets := c.plugins[v]
	units, _ := n.offered(v)
	var here, unready *corev1.Pod
	for _, p := range c.PodsOn(n.Name) {
		if !v.runs(p.Labels, &p.Spec) || p.DeletionTimestamp != nil {
			continue
		}
		here = p
		if !slices.ContainsFunc(p.Status.Conditions, func(s corev1.PodCondition) bool {
			return s.Type == corev1.PodReady && s.Status == corev1.ConditionTrue
		}) {
			unready = p
		}
	}
	role := gpustack.Role(v.name + " " + string(gpustack.RolePlugin))
	switch {
	case units == 0 && n.state == gpustack.NodeOpen && !c.byClaim(n):
		return c.pluginLack(n, role, unready, sets, n.evidence("status.capacity", "no "+v.name+" GPU")), true
	case unready != nil && n.state == gpustack.NodeOpen:
		return lack{Warn, fmt.Sprintf("the %s is not ready: %s", role, gpustack.Trouble(unready)), "read the log of its pod", podEvidence(unready), false}, true
	case here == nil:
		return c.absent(n, sets)
	}
	return lack{}, false
}
