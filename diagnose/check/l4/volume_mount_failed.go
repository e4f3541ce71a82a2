package l4

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var volumeMountFailedCheck = check.Check{
	Cause: "volume-mount-failed", Layer: check.L4, Owner: check.Storage, Stage: check.Start, Rank: 26,
	Title:   "A volume cannot be attached or mounted",
	Meaning: "The pod has its node, and one of its volumes does not get there: it is still attached elsewhere, its driver is not on the node, or the storage does not answer. The pod stays in ContainerCreating.",
	Remedy:  "Free the volume from the node that holds it, or have the storage driver repaired.",
	Not:     "The pod is Pending for lack of GPUs: it holds them already, and keeps them while it waits.",
	Find:    volumeMountFailed,
}

func volumeMountFailed(c *check.Case) []check.Finding {
	all := slices.DeleteFunc(life.Troubles(c, "FailedAttachVolume", "FailedMount", "FailedMapVolume"), func(e *corev1.Event) bool { return saidOfClaim(c, e) })
	if len(all) == 0 {
		return append(changesOwners(c), standingVolumes(c)...)
	}
	e := all[0]
	if _, ok := parseMissing(c.Pod, e.Message); ok {
		return nil // config-missing
	}
	if wording.Mentions(e.Message, "failed to fetch token: serviceaccounts") && wording.Mentions(e.Message, "not found") {
		return nil // service-account-missing
	}
	if f, ok := attachedElsewhere(c, e); ok {
		return []check.Finding{f}
	}
	if field, object, ok := namedByVolume(c.Pod, e.Message); ok {
		return []check.Finding{{
			Owner: check.User, Message: fmt.Sprintf("node %s cannot mount a volume of pod %s: it names %s, which does not exist", c.Pod.Spec.NodeName, c.Pod.Name, object),
			Evidence: []facts.Evidence{{Object: facts.RefTo(c.Pod).In(), Field: field, Value: object}, life.Shown(e)},
			Advice:   fmt.Sprintf("Create %s in namespace %s, or correct the name in the volume.", object, c.Pod.Namespace),
		}}
	}
	for _, v := range drivenVolumes(c) {
		if f, ok := driverAbsent(c, v); ok {
			f.Evidence = append(f.Evidence, life.Shown(e))
			return []check.Finding{f}
		}
	}
	f := check.Finding{
		Message:  fmt.Sprintf("node %s cannot mount a volume of pod %s: %s", c.Pod.Spec.NodeName, c.Pod.Name, wording.Shortened(e.Message, 200)),
		Evidence: []facts.Evidence{life.Shown(e)},
	}
	for _, name := range volumeClaims(c.Pod) {
		for _, claim := range c.PersistentVolumeClaims {
			if v := life.VolumeOf(c.Facts, claim); v != nil && claim.Namespace == c.Pod.Namespace && claim.Name == name {
				all := life.Disagreements(claim, v)
				for i, d := range all {
					if f.Evidence = append(f.Evidence, d.Evidence); i == 0 {
						f.Message = fmt.Sprintf("claim %s of pod %s and its volume %s do not agree: of the volume, %s", name, c.Pod.Name, v.Name, d.Text)
					}
				}
				if edit, ok := life.Agreeing(claim, v, all); ok {
					f.Edits = append(f.Edits, edit)
				}
			}
		}
	}
	switch {
	case ofKubelet(c.Pod, e.Message):
		f.Owner, f.Advice = check.Platform, fmt.Sprintf("Look at the kubelet of node %s: no storage is behind this volume, the kubelet makes it from what the API server tells it.", c.Pod.Spec.NodeName)
	case inline(c.Pod, e.Message) != "":
		f.Owner, f.Advice = check.Platform, fmt.Sprintf("Look at driver %s and what it asks for the pod: it makes the volume for this pod alone, and no storage is behind it.", inline(c.Pod, e.Message))
	case wording.Mentions(e.Message, "hostpath type check failed"):
		f.Owner, f.Advice = check.User, "Correct the hostPath in the pod: the node has nothing of that type there."
	case wording.Mentions(e.Message, "but is specified in volumemounts", "but is specified in volumedevices"):
		f.Owner, f.Advice = check.User, "A volume of mode Block belongs into volumeDevices of a container, and one of mode Filesystem into volumeMounts: correct the container, or make the claim anew with the other volumeMode."
	case wording.Mentions(e.Message, "not found in the list of registered csi drivers"):
		f.Layer, f.Owner, f.Advice = check.L2, check.Platform, fmt.Sprintf("Have the CSI driver's pod on node %s repaired: the kubelet does not know the driver.", c.Pod.Spec.NodeName)
	}
	return []check.Finding{f}
}

// ownersIn is how long the kubelet may change owners of files before it is strange; it speaks every minute while it does.
const ownersIn = 10 * time.Minute

// changesOwners is about a volume of so many files that to give each to the pod's fsGroup takes long. The pod starts when it is done; to make it
// anew would begin from the start.
func changesOwners(c *check.Case) []check.Finding {
	all := life.Troubles(c, "VolumePermissionChangeInProgress")
	if len(all) == 0 || c.Pod.Spec.SecurityContext == nil || c.Pod.Spec.SecurityContext.FSGroup == nil || c.Now.Sub(life.Since(c.Pod)) < ownersIn {
		return nil
	}
	return []check.Finding{{
		Owner:   check.User,
		Message: fmt.Sprintf("the kubelet of node %s has been giving every file of a volume of pod %s to group %d for %s: %s", c.Pod.Spec.NodeName, c.Pod.Name, *c.Pod.Spec.SecurityContext.FSGroup, wording.Minutes(c.Now.Sub(life.Since(c.Pod))), wording.Shortened(all[0].Message, 200)),
		Evidence: []facts.Evidence{
			{Object: facts.RefTo(c.Pod).In(), Field: "spec.securityContext.fsGroup", Value: fmt.Sprint(*c.Pod.Spec.SecurityContext.FSGroup)}, life.Shown(all[0]),
		},
		Advice: "Let it finish: the pod starts then. For the pods to come, set fsGroupChangePolicy: OnRootMismatch in their securityContext, so that a volume whose files have the group already is left as it is.",
	}}
}

var processedClaim = regexp.MustCompile(`error processing PVC ([^/ ]+)/([^: ]+): `)

// saidOfClaim says whether the kubelet only repeats what the API server told it of a claim and its volume, and that is told from
// those objects: the claim is lost (volume-unbound), or an edit has both agree.
func saidOfClaim(c *check.Case, e *corev1.Event) bool {
	m := processedClaim.FindStringSubmatch(e.Message)
	if m == nil {
		return false
	}
	for _, claim := range c.PersistentVolumeClaims {
		if claim.Namespace != m[1] || claim.Name != m[2] || claim.DeletionTimestamp != nil {
			continue
		}
		v := life.VolumeOf(c.Facts, claim)
		return claim.Status.Phase == corev1.ClaimLost || c.WasEdited(claim) && v != nil && len(life.Disagreements(claim, v)) == 0
	}
	return false
}

var namedVolume = regexp.MustCompile(`volume "([^"]+)"`)

// ofKubelet says whether the volume that the message names is one that the kubelet itself fills: with objects of the API, or with
// nothing.
func ofKubelet(p *corev1.Pod, message string) bool {
	m := namedVolume.FindStringSubmatch(message)
	if m == nil {
		return false
	}
	at := slices.IndexFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == m[1] })
	if at < 0 {
		return strings.HasPrefix(m[1], "kube-api-access-") // which the API server adds
	}
	v := &p.Spec.Volumes[at]
	return v.Projected != nil || v.Secret != nil || v.ConfigMap != nil || v.DownwardAPI != nil || v.EmptyDir != nil
}

// inline is the CSI driver that makes the volume which the message names for its pod alone, such as those that hand out certificates and
// secrets; "": the volume is another.
func inline(p *corev1.Pod, message string) string {
	if m := namedVolume.FindStringSubmatch(message); m != nil {
		for i := range p.Spec.Volumes {
			if v := &p.Spec.Volumes[i]; v.Name == m[1] && v.CSI != nil {
				return v.CSI.Driver
			}
		}
	}
	return ""
}

// attachedElsewhere is about a volume that one node at a time may have, and another has.
func attachedElsewhere(c *check.Case, e *corev1.Event) (check.Finding, bool) {
	if !strings.Contains(e.Message, "Multi-Attach error") {
		return check.Finding{}, false
	}
	f := check.Finding{Evidence: []facts.Evidence{life.Shown(e)}}
	holder, claim := volumeHolder(c)
	if holder == nil {
		f.Message = fmt.Sprintf("a volume of pod %s is still attached to another node: %s", c.Pod.Name, wording.Shortened(e.Message, 160))
		return f, true
	}
	f.Message = fmt.Sprintf("volume claim %s can be on one node at a time, and pod %s holds it on node %s", claim, holder.Name, holder.Spec.NodeName)
	f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(holder).In(), Field: "spec.nodeName", Value: holder.Spec.NodeName})
	f.Owner = check.User
	if holder.DeletionTimestamp != nil {
		f.Message += ", where it is being deleted"
		f.Owner, f.Advice = check.Platform, fmt.Sprintf("Have node %s repaired, or, once its machine is off for good, taint it with node.kubernetes.io/out-of-service: only then is the volume detached from it.", holder.Spec.NodeName)
		return f, true // nothing can end it sooner
	}
	if d, ok := c.Owners[0].(*appsv1.Deployment); ok && madeBy(c, holder, d) {
		f.Edits = []edit.Edit{recreated(c, d, holder)}
	}
	return f, true
}

// madeBy says whether the pod is of the Deployment, through any of its ReplicaSets.
func madeBy(c *check.Case, p *corev1.Pod, d *appsv1.Deployment) bool {
	rs := c.Controller(p)
	return rs != nil && c.Controller(rs) != nil && c.Controller(rs).GetUID() == d.UID
}

// recreated has the Deployment end the old pod before it starts the new one.
func recreated(c *check.Case, d *appsv1.Deployment, holder *corev1.Pod) edit.Edit {
	n := d.DeepCopy()
	n.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	stuck := life.Alike(c, func(p *corev1.Pod) bool { return facts.StateOf(p) == facts.Starting })
	return edit.Edit{
		Side: edit.Workload, Text: fmt.Sprintf("have deployment %s end its old pod before it starts the new one: strategy Recreate", d.Name), Cost: 2,
		Set: append(life.Running(stuck), n), Gone: []facts.Object{holder},
		Command: fmt.Sprintf(`kubectl patch deployment %s -n %s --type=merge -p '{"spec":{"strategy":{"type":"Recreate","rollingUpdate":null}}}'`, d.Name, d.Namespace),
		Assumes: "the volume detaches when the old pod has ended", Outcome: fmt.Sprintf("pod %s ends, the volume moves to node %s, and the new pod starts", holder.Name, c.Pod.Spec.NodeName),
	}
}
