package l3

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
)

var gpuRenamedBySharingCheck = check.Check{
	Cause: "gpu-renamed-by-sharing", Layer: check.L3, Owner: check.User, Stage: check.Place, Rank: 11,
	Title:   "The nodes offer shares of GPUs under another name",
	Meaning: "The device plugin shares GPUs by time-slicing or MPS with renameByDefault, so that nodes advertise nvidia.com/gpu.shared and no nvidia.com/gpu. The pod asks for nvidia.com/gpu.",
	Remedy:  "Ask for the shared name, if a share is enough, or for nodes whose GPUs are not shared.",
	Not:     "The device plugin does not work: it advertises all GPUs.",
	Find:    gpuRenamedBySharing,
}

// sharedSuffix is what the device plugin adds to the name of a resource that it shares and renames.
const sharedSuffix = ".shared"

func gpuRenamedBySharing(c *check.Case) []check.Finding {
	f := place.Stuck(c)
	if f == nil || !check.AboutPlaces(f) {
		return nil
	}
	var out []check.Finding
	for _, name := range facts.ExtendedOf(c.Pod) {
		if nodes := sharing(c, f, corev1.ResourceName(name)); len(nodes) > 0 {
			out = append(out, renamedFinding(c, nodes, name))
		}
	}
	return out
}

// sharing are the nodes for the pod that offer the resource under its shared name; none where a node has it under its own.
func sharing(c *check.Case, f *check.Fit, name corev1.ResourceName) []*check.NodeFit {
	if !strings.HasPrefix(string(name), "nvidia.com/") || strings.HasSuffix(string(name), sharedSuffix) {
		return nil
	}
	all := place.Attracted(c, f)
	if slices.ContainsFunc(all, func(n *check.NodeFit) bool { return gpustack.Offers(n.Node, name) > 0 }) {
		return nil
	}
	return place.NodesWhere(all, func(n *corev1.Node) bool { return gpustack.Offers(n, name+sharedSuffix) > 0 })
}

func renamedFinding(c *check.Case, nodes []*check.NodeFit, name string) check.Finding {
	shared := corev1.ResourceName(name + sharedSuffix)
	n := podspec.Requested(c.Pod, name)
	found := check.Finding{
		Fit: true,
		Message: fmt.Sprintf("the pod asks for %d %s, and %s, whose GPUs are shared, %s %d %s instead", n, name, place.NamesOf(nodes), place.Verb(nodes, "offers", "offer"),
			gpustack.Offers(nodes[0].Node, shared), shared),
		Evidence: place.NodesShow(nodes, func(n *corev1.Node) []facts.Evidence {
			return []facts.Evidence{place.QuantityShown(n.Status.Allocatable, "status.allocatable", corev1.ResourceName(name)), place.QuantityShown(n.Status.Allocatable, "status.allocatable", shared)}
		}),
		Probe: place.NodeProbe(nodes, func(n *corev1.Node) { place.Grant(c, n) }),
	}
	// Of more than one share the plugin may refuse to give any, and two shares are of no more use than one.
	e := place.AskInstead(c, shared, 1, fmt.Sprintf("ask for 1 %s instead of %d %s", shared, n, name))
	e.Assumes = "a share is enough: others run on the same GPU, and unless MPS limits them they may use up its memory"
	if n > 1 {
		e.Cost, e.Assumes = edit.CostLess, "one GPU is enough, and "+e.Assumes
	}
	found.Edits = []edit.Edit{e}
	return found
}
