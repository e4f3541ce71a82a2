package l2

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/diagnose/internal/queue"
	"github.com/berth-dev/berth/diagnose/internal/supply"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/dialect"
)

var deviceNotAdvertisedCheck = check.Check{
	Cause: "device-not-advertised", Layer: check.L2, Owner: check.Platform, Stage: check.Place, Rank: 39,
	Title:   "No node advertises the device that is asked for",
	Meaning: "The pod asks for a device, such as nvidia.com/gpu, that no node of the cluster has in its status. Either no node has the hardware, or driver and device plugin are not there, or nodes with it have not registered yet. To ask for less does not help.",
	Remedy:  "Add nodes that have the device, install its driver and device plugin there, and see that status.allocatable of the nodes counts it.",
	Not:     "The pod asks for too much.",
	Find:    deviceNotAdvertised,
}

func deviceNotAdvertised(c *check.Case) []check.Finding {
	if c.Fit == nil {
		return notAdvertisedAsSaid(c)
	}
	f := place.Stuck(c)
	if f == nil || !check.AboutPlaces(f) || supply.NewNodeWouldSuit(c) {
		return nil
	}
	var out []check.Finding
	for _, device := range facts.ExtendedOf(c.Pod) {
		if d, _, _ := brokenPlugin(c, device); d != nil || !place.Gap(c, device) {
			continue
		}
		found := check.Finding{
			Fit: true, Probe: grantProbe(c, f),
			Message:  fmt.Sprintf("the pod asks for %s %s, and %s%s", why.Quantity(device, podspec.Requested(c.Pod, device)), device, advertisesNone(len(c.Nodes)), notYet(c, device)),
			Evidence: gapShown(c, device),
		}
		blameBeside(c, device, &found)
		known := slices.ContainsFunc(f.Nodes, func(n check.NodeFit) bool { return place.Matters(c, &n) })
		grows := supply.AutoscalerSaid(c).Refused("in backoff after failed scale-up", "max node group size reached", "max total nodes in cluster reached", "not ready for scale-up") > 0
		if known || grows || supply.Autoscaled(c) || len(c.AutoscalerStatus()) > 0 {
			found.Probe = edit.Nothing("a node with the device may come") // why it does not is for others to say
		}
		out = append(out, found)
	}
	for _, r := range podspec.Names(podspec.TotalRequests(c.Pod)) {
		if d, _, _ := brokenPlugin(c, string(r)); d != nil {
			continue
		}
		if name := string(r); place.Nowhere(c, name) && !place.Gap(c, name) {
			out = append(out, nowhere(c, f, name))
		}
	}
	return out
}

// nowhere words a resource of which no node has any: a name that is a near miss is its author's to correct.
func nowhere(c *check.Case, f *check.Fit, name string) check.Finding {
	found := check.Finding{
		Fit: true, Probe: grantProbe(c, f), Evidence: gapShown(c, name),
		Message: fmt.Sprintf("the pod asks for %s %s, and %s", why.Quantity(name, podspec.Requested(c.Pod, name)), name, advertisesNone(len(c.Nodes))),
	}
	if has := nodesOf(c.Nodes, func(n *corev1.Node) bool { q := n.Status.Capacity[corev1.ResourceName(name)]; return !q.IsZero() }); len(has) > 0 {
		slices.SortFunc(has, func(a, b *corev1.Node) int { return strings.Compare(a.Name, b.Name) })
		q := has[0].Status.Capacity[corev1.ResourceName(name)]
		found.Message = fmt.Sprintf("the pod asks for %s %s, and no node offers any: node %s has %s, and none of them can be used", why.Quantity(name, podspec.Requested(c.Pod, name)), name, has[0].Name, q.String())
		found.Evidence = []facts.Evidence{
			{Object: facts.RefTo(has[0]).In(), Field: fmt.Sprintf("status.capacity[%q]", name), Value: q.String()},
			{Object: facts.RefTo(has[0]).In(), Field: fmt.Sprintf("status.allocatable[%q]", name), Value: "0"},
		}
		found.Advice = fmt.Sprintf("Look at the device plugin of %s on node %s: it has stopped, or reports that none of its devices is well.", name, has[0].Name)
		return found
	}
	if blameBeside(c, name, &found) {
		return found
	}
	if near, e, ok := place.Renamed(c, name); ok {
		found.Owner, found.Edits = check.User, []edit.Edit{e}
		found.Message += fmt.Sprintf("; nodes have %s", near)
		found.Advice = fmt.Sprintf("Ask for %s, if that is what was meant.", near)
	} else if size, ok := strings.CutPrefix(name, corev1.ResourceHugePagesPrefix); ok {
		found.Advice = fmt.Sprintf("Set huge pages of %s aside on the nodes, at boot or with vm.nr_hugepages, and restart their kubelets, which count them once.", size)
	}
	return found
}

// blameBeside adds the fault that an object of others reports of a node which counts the resource, and has none of it; false: there is none.
func blameBeside(c *check.Case, name string, found *check.Finding) bool {
	for _, n := range c.Nodes {
		if _, counts := n.Status.Capacity[corev1.ResourceName(name)]; !counts {
			continue
		}
		for _, w := range gpustack.ReportsOn(c.Facts, n) {
			if !w.Fault {
				continue
			}
			found.Message += fmt.Sprintf("; %s says of node %s that %s", w.Ref(), n.Name, wording.Shortened(wording.FirstLine(w.Says), 200))
			found.Evidence = append(found.Evidence, facts.Evidence{Object: w.Ref().In(), Field: w.Field, Value: wording.Shortened(w.Says, 200)})
			found.Advice = fmt.Sprintf("Look at %s and at the controller that reports it: it is about a node that should offer %s.", w.Ref(), name)
			return true
		}
	}
	return false
}

func advertisesNone(nodes int) string {
	switch nodes {
	case 0:
		return "the cluster has no nodes"
	case 1:
		return "the only node advertises none"
	}
	return fmt.Sprintf("none of the %d nodes advertises any", nodes)
}

// notYet says which nodes may still come to advertise the device, in words after a sentence; "" for none that is known.
func notYet(c *check.Case, device string) string {
	var words []string
	for _, p := range c.Foreign[gpustack.BerthPools] {
		units, _ := gpustack.PooledGPUs(c.Facts, p.GetName())
		wanted, ok := dialect.Number(p.Object, "spec", "nodes")
		if named := dialect.Strings(p.Object, "spec", "nodeNames"); !ok {
			wanted = int64(len(named))
		}
		have := int64(0)
		for _, n := range c.Nodes {
			if n.Labels[v1alpha1.LabelPool] == p.GetName() {
				have++
			}
		}
		if units > 0 && have < wanted && strings.HasPrefix(device, "nvidia.com/") {
			words = append(words, fmt.Sprintf("%d of %d nodes of pool %s, with %d GPUs each, have not registered", wanted-have, wanted, p.GetName(), units))
		}
	}
	if unready := len(nodesOf(c.Nodes, func(n *corev1.Node) bool { return !facts.NodeReady(n) })); unready > 0 {
		words = append(words, wording.NodesInWords(unready)+" not Ready")
	}
	slices.Sort(words)
	if len(words) == 0 {
		return ""
	}
	return ": " + strings.Join(words, ", ")
}

func nodesOf(nodes []*corev1.Node, is func(*corev1.Node) bool) []*corev1.Node {
	return slices.DeleteFunc(slices.Clone(nodes), func(n *corev1.Node) bool { return !is(n) })
}

// notAdvertisedAsSaid goes by the scheduler's words where nodes cannot be seen: a node that would not have one device even
// when empty has none.
func notAdvertisedAsSaid(c *check.Case) []check.Finding {
	s, ok := place.SaidOf(c)
	if !ok {
		if !place.SaidOfNone(c) {
			return nil
		}
		return queue.BerthSaid(c, why.LargerThanAnyNode)
	}
	if c.State != facts.Pending || !place.TellsSize(c.Facts) || !s.Evicting.Known || s.Evicting.Nobody > 0 {
		return nil
	}
	for _, device := range facts.ExtendedOf(c.Pod) {
		if s.Short(device) == s.Nodes && s.Nodes > 0 && podspec.Requested(c.Pod, device) == 1 {
			return []check.Finding{{
				Message:  fmt.Sprintf("the pod asks for 1 %s, and the scheduler found none on any of %s, even if they were empty", device, wording.NodesInWords(s.Nodes)),
				Evidence: place.SaidEvidence(c),
			}}
		}
	}
	return nil
}
