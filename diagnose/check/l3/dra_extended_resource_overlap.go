package l3

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var draExtendedResourceOverlapCheck = check.Check{
	Cause: "dra-extended-resource-overlap", Layer: check.L3, Owner: check.Platform, Stage: check.Place, Rank: 34,
	Title:   "A device plugin and a DRA driver offer the same GPUs",
	Meaning: "A DeviceClass says that an extended resource stands for its devices, and on some nodes a device plugin counts the resource too. There the plugin's number decides, and devices that the driver offers are not given to pods that ask for the resource.",
	Remedy:  "Run either the device plugin or the DRA driver on a node, not both.",
	Not:     "The cluster is full: the driver's ResourceSlices show free devices.",
	Find:    draOverlap,
}

func draOverlap(c *check.Case) []check.Finding {
	f := c.Fit
	if f == nil {
		return nil
	}
	var out []check.Finding
	for _, name := range facts.ExtendedOf(c.Pod) {
		if class := place.StandsFor(c.Facts, corev1.ResourceName(name)); class != nil {
			if found := overlap(c, f, class, corev1.ResourceName(name)); found != nil {
				out = append(out, *found)
			}
		}
	}
	return out
}

// overlap words nodes whose plugin offers less than their driver.
func overlap(c *check.Case, f *check.Fit, class *resourcev1.DeviceClass, name corev1.ResourceName) *check.Finding {
	var nodes []string
	found := &check.Finding{Fit: true, Evidence: []facts.Evidence{{Object: facts.RefTo(class).In(), Field: "spec.extendedResourceName", Value: string(name)}}}
	e := edit.Edit{Side: edit.Cluster, Cost: 5, Text: "take the device plugin off the nodes whose GPUs the DRA driver offers", Assumes: "the device plugin follows the label nvidia.com/gpu.deploy.device-plugin, and the kubelet then counts none"}
	for i := range f.Nodes {
		n := f.Nodes[i].Node
		plugin := n.Status.Allocatable[name]
		devices := place.Unclaimed(c.Facts, n, class)
		if plugin.IsZero() || int64(devices) <= plugin.Value() || len(f.Nodes[i].Removed) > 0 {
			continue
		}
		nodes = append(nodes, n.Name)
		if len(found.Evidence) < 4 {
			found.Evidence = append(found.Evidence, facts.Evidence{Object: facts.RefTo(n).In(), Field: fmt.Sprintf("status.allocatable[%q]", name), Value: plugin.String()})
		}
		after := n.DeepCopy()
		delete(after.Status.Allocatable, name)
		delete(after.Status.Capacity, name)
		e.Set = append(e.Set, after)
		if e.Command != "" {
			e.Command += "\n"
		}
		e.Command += fmt.Sprintf("kubectl label node %s nvidia.com/gpu.deploy.device-plugin=false --overwrite", n.Name)
	}
	if len(nodes) == 0 {
		return nil
	}
	found.Message = fmt.Sprintf("%s stands for devices of class %s, and on %s (%s) a device plugin offers fewer of it than the driver has devices: there the plugin's number counts", name, class.Name, wording.NodesInWords(len(nodes)), wording.Few(nodes))
	found.Edits = []edit.Edit{e}
	return found
}
