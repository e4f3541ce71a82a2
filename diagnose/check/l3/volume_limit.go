package l3

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var volumeLimitCheck = check.Check{
	Cause: "volume-limit", Layer: check.L3, Owner: check.Storage, Stage: check.Place, Rank: 18,
	Title:   "A volume cannot be used by one more",
	Meaning: "One of the pod's volumes is for one pod at a time and another pod has it, or the nodes take no more volumes of its storage driver, or do not have the driver.",
	Remedy:  "Wait until the other pod ends, use a claim of its own, or add nodes.",
	Not:     "The cluster is full: GPUs may be free.",
	Find:    volumeLimit,
}

func volumeLimit(c *check.Case) []check.Finding {
	if !c.Waits() {
		return nil
	}
	var out []check.Finding
	for _, v := range place.VolumesOf(c.Facts, c.Pod) {
		if v.Claim != nil && slices.Contains(v.Claim.Spec.AccessModes, corev1.ReadWriteOncePod) {
			if user := userOf(c, &v); user != nil {
				out = append(out, inUse(c, &v, user))
			}
		}
	}
	f := c.Fit
	if f == nil {
		return append(out, place.OnlySaid(c,
			[2]string{"node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use", "another pod uses a claim that is for one pod at a time"},
			[2]string{"node(s) exceed max volume count", "nodes take no more volumes of its storage driver"},
		)...)
	}
	for _, kind := range []check.ExclusionKind{check.ByAttachLimit, check.ByCSIDriver} {
		if b := f.Exclusion(kind); b != nil {
			if held := f.Held(b); len(held) > 0 {
				out = append(out, noAttaching(c, b, held))
			}
		}
	}
	return out
}

// userOf is the pod that has the claim: one on a node, by name the first.
func userOf(c *check.Case, v *place.PodVolume) *corev1.Pod {
	var user *corev1.Pod
	for _, p := range c.Pods {
		if p.Namespace != c.Pod.Namespace || p.Spec.NodeName == "" || facts.Ended(p) || p.Name == c.Pod.Name || user != nil && user.Name < p.Name {
			continue
		}
		for i := range p.Spec.Volumes {
			if name, _ := place.ClaimOf(p, &p.Spec.Volumes[i]); name == v.Name {
				user = p
			}
		}
	}
	return user
}

// inUse words a claim for one pod that another has.
func inUse(c *check.Case, v *place.PodVolume, user *corev1.Pod) check.Finding {
	found := check.Finding{
		Owner:    check.User,
		Message:  fmt.Sprintf("claim %s is for one pod at a time, and pod %s on node %s uses it", v.Name, user.Name, user.Spec.NodeName),
		Evidence: []facts.Evidence{{Object: facts.RefTo(v.Claim).In(), Field: "spec.accessModes", Value: "ReadWriteOncePod"}, {Object: facts.RefTo(user).In(), Field: "spec.volumes", Value: v.Name}},
	}
	if r := rolloutBy(c, func(p *corev1.Pod) bool { return p == user }); r != nil {
		r.told(c, &found, "it")
		return found
	}
	if place.OfTarget(c, user) {
		if e, ok := place.FewerPods(c); ok {
			found.Edits = append(found.Edits, e)
		}
		return found
	}
	wait := edit.Edit{Side: edit.Cluster, Cost: 6, Text: fmt.Sprintf("wait until pod %s ends", user.Name), Gone: []facts.Object{user}}
	found.Edits = append(found.Edits, wait)
	if c.Controller(user) == nil {
		wait.Cost, wait.Text, wait.Command = 7, fmt.Sprintf("delete pod %s", user.Name), fmt.Sprintf("kubectl delete pod %s -n %s", user.Name, user.Namespace)
		found.Edits = append(found.Edits, wait)
	}
	return found
}

// noAttaching words nodes to which its volumes cannot be attached. No edit would take that away.
func noAttaching(c *check.Case, b *check.Exclusion, held []string) check.Finding {
	found := check.Finding{
		Fit:     true,
		Message: fmt.Sprintf("%s that could hold it cannot take its volumes: %s", wording.NodesInWords(len(held)), b.Nodes[held[0]]),
		Probe:   &edit.Edit{Side: edit.Cluster, Text: "let the nodes take more volumes"},
	}
	wants := place.DisksIn(c.Facts).Attached(c.Pod)
	for _, n := range c.CSINodes {
		if b.Nodes[n.Name] != "" {
			found.Evidence = append(found.Evidence, facts.Evidence{Object: facts.RefTo(n).In(), Field: "spec.drivers", Value: b.Nodes[n.Name]})
			found.Probe.Set = append(found.Probe.Set, roomier(n, wants))
		}
	}
	found.Evidence = found.Evidence[:min(3, len(found.Evidence))]
	e := edit.Edit{Side: edit.Cluster, Cost: 9, Text: "add a node like " + held[0], Set: []facts.Object{place.Another(c.NodeNamed(held[0]), nil)}, Assumes: "it has the storage driver, and no volumes yet"}
	found.Edits = append(found.Edits, e)
	return found
}

// roomier is the node's drivers without limits, and with those that are wanted.
func roomier(n *storagev1.CSINode, wants map[string]string) *storagev1.CSINode {
	out := n.DeepCopy()
	for i := range out.Spec.Drivers {
		out.Spec.Drivers[i].Allocatable = nil
	}
	for _, driver := range slices.Sorted(maps.Values(wants)) {
		if !slices.ContainsFunc(out.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == driver }) {
			out.Spec.Drivers = append(out.Spec.Drivers, storagev1.CSINodeDriver{Name: driver, NodeID: n.Name})
		}
	}
	return out
}
