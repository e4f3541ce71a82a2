package l3

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/kube/convert"
)

var volumeInAnotherZoneCheck = check.Check{
	Cause: "volume-in-another-zone", Layer: check.L3, Owner: check.Storage, Stage: check.Place, Rank: 19,
	Title:   "Its volume is where no suitable node has room",
	Meaning: "A volume that the pod uses can be reached from some nodes only, often those of one zone. The nodes with what else it needs are elsewhere.",
	Remedy:  "Copy the data to a volume in the zone of the GPUs, or get GPUs in the zone of the volume.",
	Not:     "There are no GPUs left.",
	Find:    volumeElsewhere,
}

func volumeElsewhere(c *check.Case) []check.Finding {
	f := c.Fit
	if f == nil {
		return place.OnlySaid(c,
			[2]string{"node(s) didn't match PersistentVolume's node affinity", "a volume of its own can be reached from none of the nodes that would do"},
			[2]string{"node(s) had no available volume zone", "a volume of its own is in another zone than the nodes that would do"},
		)
	}
	var out []check.Finding
	for _, v := range place.VolumesOf(c.Facts, c.Pod) {
		if !v.Bound() {
			continue
		}
		if pv := place.VolumeNamed(c.Facts, v.Claim.Spec.VolumeName); pv != nil {
			if lost := outOfReach(c, pv); len(lost) > 0 && !closedThere(c, pv) {
				out = append(out, volumeApart(c, &v, pv, lost))
			}
		}
	}
	return out
}

// outOfReach are the nodes that would hold the pod if the volume were there.
func outOfReach(c *check.Case, pv *corev1.PersistentVolume) []*corev1.Node {
	var out []*corev1.Node
	for i := range c.Fit.Nodes {
		n := &c.Fit.Nodes[i]
		if n.Empty > 0 && len(n.ExcludedBy) == 0 && onlyVolumes(n.Removed) && !convert.Reaches(pv, n.Node) {
			out = append(out, n.Node)
		}
	}
	return out
}

// closedThere says whether a node that reaches the volume would hold the pod but for its state, as a cordon: the volume is in the right
// place, and the reason is with the tool or person that closed the node.
func closedThere(c *check.Case, pv *corev1.PersistentVolume) bool {
	for i := range c.Fit.Nodes {
		n := &c.Fit.Nodes[i]
		if convert.Reaches(pv, n.Node) && place.ClosedByState(c, n) {
			return true
		}
	}
	return false
}

func volumeApart(c *check.Case, v *place.PodVolume, pv *corev1.PersistentVolume, lost []*corev1.Node) check.Finding {
	key, values := place.PlaceOf(pv)
	there := 0
	for _, n := range c.Nodes {
		if convert.Reaches(pv, n) {
			there++
		}
	}
	anywhere := pv.DeepCopy()
	anywhere.Spec.NodeAffinity, anywhere.Labels = nil, nil
	where := "other nodes"
	if key != "" {
		where = place.DomainWord(key) + " " + strings.Join(values, ", ")
	}
	found := check.Finding{
		Fit: true,
		Message: fmt.Sprintf("volume %s of claim %s is in %s, where %s can reach it and none has a place for the pod; %s elsewhere, such as %s, would hold it",
			pv.Name, v.Name, where, wording.NodesInWords(there), wording.NodesInWords(len(lost)), lost[0].Name),
		Evidence: []facts.Evidence{
			{Object: facts.RefTo(v.Claim).In(), Field: "spec.volumeName", Value: pv.Name},
			{Object: facts.RefTo(pv).In(), Field: "spec.nodeAffinity", Value: key + "=" + strings.Join(values, ",")},
		},
		Probe: &edit.Edit{Side: edit.Cluster, Text: "move volume " + pv.Name, Set: []facts.Object{anywhere}},
	}
	if key == corev1.LabelHostname && there == 0 {
		found.Message = fmt.Sprintf("volume %s of claim %s is on node %s, which there is not any more; %s, such as %s, would hold the pod", pv.Name, v.Name, strings.Join(values, ", "), wording.NodesInWords(len(lost)), lost[0].Name)
		found.Advice = "Bring the node back, or make the claim anew: what is on a disk of the node is lost with it."
		return found
	}
	if len(values) > 0 && unlabelled(lost, key) {
		found.Message = fmt.Sprintf("volume %s can be reached from nodes with %s=%s; %s would hold the pod, such as %s, and %s not have the label %s at all",
			pv.Name, key, values[0], wording.NodesInWords(len(lost)), lost[0].Name, wording.InNumber(len(lost), "does", "do"), key)
		return volumeNowhere(c, found, lost, key, values[0])
	}
	if n := movedSince(v.Claim, lost, key); n != nil && len(values) > 0 {
		found.Message = fmt.Sprintf("volume %s of claim %s was made for node %s, in %s: the node now has %s=%s",
			pv.Name, v.Name, n.Name, where, key, n.Labels[key])
		return volumeNowhere(c, found, lost, key, values[0])
	}
	if key != "" && key != corev1.LabelHostname && len(values) > 0 {
		found.Edits = append(found.Edits, edit.Edit{Side: edit.Cluster, Cost: 9, Text: fmt.Sprintf("add a node like %s in %s %s", lost[0].Name, place.DomainWord(key), values[0]),
			Set: []facts.Object{place.Another(lost[0], map[string]string{key: values[0]})}})
	}
	return found
}

// unlabelled says whether the nodes are not elsewhere but nowhere: they lack the label by which the volume knows its place.
func unlabelled(nodes []*corev1.Node, key string) bool {
	return key != "" && key != corev1.LabelHostname && !slices.ContainsFunc(nodes, func(n *corev1.Node) bool { return n.Labels[key] != "" })
}

// movedSince is the node that the claim's volume was made for, where that is another place by now: nodes do not move, so that
// its label was changed. nil where it is not, or that is unknown.
func movedSince(claim *corev1.PersistentVolumeClaim, lost []*corev1.Node, key string) *corev1.Node {
	name := claim.Annotations["volume.kubernetes.io/selected-node"]
	i := slices.IndexFunc(lost, func(n *corev1.Node) bool { return n.Name == name })
	if i < 0 || key == "" || key == corev1.LabelHostname {
		return nil
	}
	return lost[i]
}

// volumeNowhere is the finding about nodes that do not say where they are, or say it wrong: their operator has to correct that.
func volumeNowhere(c *check.Case, found check.Finding, lost []*corev1.Node, key, value string) check.Finding {
	found.Owner = check.Platform
	labelled := edit.Edit{Side: edit.Cluster, Cost: edit.CostSmall, Assumes: "the nodes are in " + place.DomainWord(key) + " " + value}
	var names []string
	for _, n := range lost {
		found.Evidence = append(found.Evidence, facts.Evidence{Object: facts.RefTo(n).In(), Field: fmt.Sprintf("metadata.labels[%q]", key), Value: cmp.Or(n.Labels[key], "absent")})
		labelled.Set = append(labelled.Set, gpustack.ChangedNode(n, func(n *corev1.Node) { n.Labels = gpustack.WithLabel(n.Labels, key, value) }))
		names = append(names, n.Name)
	}
	labelled.Text = fmt.Sprintf("give %s the label %s=%s", wording.AtMost(3, names), key, value)
	labelled.Command = fmt.Sprintf("kubectl label node %s %s=%s --overwrite", strings.Join(names, " "), key, value)
	if p, patch, ok := place.PlacePatch(c.Facts, lost, key, value); ok {
		had := "no label " + key
		if v := lost[0].Labels[key]; v != "" {
			had = key + "=" + v
		}
		labelled.Text = fmt.Sprintf("give pool %s %s %s: its nodes have %s", p.GetName(), place.DomainWord(key), value, had)
		labelled.Command = edit.PatchLine(p, "merge", patch)
		found.Evidence = append([]facts.Evidence{{Object: "pool/" + p.GetName(), Field: "spec.topology." + place.DomainWord(key), Value: cmp.Or(lost[0].Labels[key], "absent")}}, found.Evidence...)
	}
	found.Edits = append([]edit.Edit{labelled}, found.Edits...)
	return found
}
