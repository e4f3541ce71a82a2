package l2

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var devicePluginNotRegisteredCheck = check.Check{
	Cause: "device-plugin-not-registered", Layer: check.L2, Owner: check.Platform, Stage: check.Place, Rank: 36,
	Title:   "The device plugin runs and the kubelet does not know it",
	Meaning: "A pod of the device plugin is ready on the node, and the node still offers no GPUs: the plugin has not registered. It needs the host's folder /var/lib/kubelet/device-plugins.",
	Remedy:  "Mount the host's /var/lib/kubelet/device-plugins into the device plugin, or restart it.",
	Not:     "The plugin is fine because its pod is Running.",
	Find:    devicePluginNotRegistered,
}

func devicePluginNotRegistered(c *check.Case) []check.Finding {
	nodes := place.Faulty(c, gpustack.FaultSilent)
	if len(nodes) == 0 {
		return nil
	}
	plugin := func(n *corev1.Node) *corev1.Pod {
		return gpustack.NodeNamed(c.Facts, n.Name).Ready(gpustack.RolePlugin)[0]
	}
	first := plugin(nodes[0].Node)
	f := check.Finding{Fit: true, Probe: place.NodeProbe(nodes, func(n *corev1.Node) { place.Repaired(c, n) }), Evidence: place.NodesShow(nodes, place.GpusShown)}
	mounted := gpustack.MountsSockets(&first.Spec)
	what := fmt.Sprintf("the device plugin on %s runs, and %s no GPUs", place.NamesOf(nodes), place.Verb(nodes, "the node offers", "the nodes offer"))
	if line := findsNothing(c, first); line != "" {
		f.Message = what + ": it finds none, and says " + strconv.Quote(wording.Shortened(line, 160))
		f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(first).In(), Field: "log", Value: wording.Shortened(line, 200)})
		f.Advice = "Have the driver and the container toolkit of the node looked at: its runtime shows the plugin no GPUs, so that it has none to register."
		return []check.Finding{f}
	}
	if mounted {
		f.Message = what + ": it has not registered with the kubelet"
		f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(first).In(), Field: "status.conditions[type=Ready]", Value: "True"})
		if e, ok := restart(c, gpustack.RolePlugin, nodes, func(g *gpustack.Node) *corev1.Pod { return g.Ready(gpustack.RolePlugin)[0] }); ok {
			f.Edits = append(f.Edits, e)
		}
		return []check.Finding{f}
	}
	f.Message = what + fmt.Sprintf(": pod %s does not mount the host's %s and cannot register", first.Name, gpustack.PluginSockets)
	f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(first).In(), Field: "spec.volumes", Value: "no hostPath " + gpustack.PluginSockets})
	if d, ok := c.Controller(first).(*appsv1.DaemonSet); ok && !gpustack.MountsSockets(&d.Spec.Template.Spec) {
		of := place.NodesWhere(nodes, func(n *corev1.Node) bool { o := c.Controller(plugin(n)); return o != nil && o.GetUID() == d.UID })
		if e, ok := mountSockets(c, d, of); ok {
			f.Edits = append(f.Edits, e)
		}
	} else if ok {
		if e, ok := restart(c, gpustack.RolePlugin, nodes, func(g *gpustack.Node) *corev1.Pod { return g.Ready(gpustack.RolePlugin)[0] }); ok {
			f.Edits = append(f.Edits, e)
		}
	}
	return []check.Finding{f}
}

// noDevices is how device plugins say that they see no device: to start such a one again brings none.
var noDevices = regexp.MustCompile(`(?i)no devices found|incompatible (strategy|platform|device)|(could not|failed to|unable to) (load|initiali[sz]e|init) nvml|nvml: .*not found|no (supported )?gpus? (was |were )?(found|detected)|if this is a gpu node`)

// findsNothing is the line with which the plugin's log says so; "" for none, or where it was not read.
func findsNothing(c *check.Case, p *corev1.Pod) string {
	for _, k := range p.Spec.Containers {
		for line := range strings.SplitSeq(life.Tail(c.Facts, p, k.Name), "\n") {
			if noDevices.MatchString(line) {
				return strings.TrimSpace(line)
			}
		}
	}
	return ""
}
