package l4

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

// Events about a volume are gone after an hour, and the pod still waits. What keeps the volume from it stands in objects: the drivers
// of the node in its CSINode, and what became of attaching in the VolumeAttachment.

// attachTakes is how long attaching may take: a volume that another node holds is taken from it by force after six minutes.
const attachTakes = 7 * time.Minute

func readyNow(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(k corev1.PodCondition) bool { return k.Type == corev1.PodReady && k.Status == corev1.ConditionTrue })
}

// drivenVolume is a volume of the pod that a CSI driver brings. pv is nil for one that the pod itself describes.
type drivenVolume struct {
	driver, name string
	pv           *corev1.PersistentVolume
}

func drivenVolumes(c *check.Case) (out []drivenVolume) {
	for _, v := range c.Pod.Spec.Volumes {
		if v.CSI != nil {
			out = append(out, drivenVolume{driver: v.CSI.Driver, name: "volume " + v.Name})
		}
	}
	for _, name := range volumeClaims(c.Pod) {
		for _, claim := range c.PersistentVolumeClaims {
			if claim.Namespace != c.Pod.Namespace || claim.Name != name {
				continue
			}
			if pv := life.VolumeOf(c.Facts, claim); pv != nil && pv.Spec.CSI != nil {
				out = append(out, drivenVolume{driver: pv.Spec.CSI.Driver, name: "claim " + name, pv: pv})
			}
		}
	}
	return out
}

// standingVolumes are what objects say of the volumes that the pod waits for.
func standingVolumes(c *check.Case) []check.Finding {
	if !life.AwaitsContainers(c) {
		return nil
	}
	for _, v := range drivenVolumes(c) {
		if f, ok := driverAbsent(c, v); ok {
			return []check.Finding{f}
		}
	}
	for _, v := range drivenVolumes(c) {
		if f, ok := notAttached(c, v); ok {
			return []check.Finding{f}
		}
	}
	return nil
}

// driverAbsent says that the kubelet of the pod's node does not know the driver of the volume.
func driverAbsent(c *check.Case, v drivenVolume) (check.Finding, bool) {
	at := slices.IndexFunc(c.CSINodes, func(n *storagev1.CSINode) bool { return n.Name == c.Pod.Spec.NodeName })
	if at < 0 || slices.ContainsFunc(c.CSINodes[at].Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == v.driver }) {
		return check.Finding{}, false
	}
	f := check.Finding{
		Layer: check.L2, Owner: check.Platform,
		Message:  fmt.Sprintf("node %s cannot mount %s of pod %s: CSI driver %s has not registered there", c.Pod.Spec.NodeName, v.name, c.Pod.Name, v.driver),
		Evidence: []facts.Evidence{{Object: facts.RefTo(c.CSINodes[at]).In(), Field: "spec.drivers", Value: "no " + v.driver}},
		Advice:   fmt.Sprintf("Have the CSI driver's pod on node %s repaired: the kubelet does not know the driver.", c.Pod.Spec.NodeName),
	}
	n := c.NodeNamed(c.Pod.Spec.NodeName)
	for _, d := range c.DaemonSets {
		if n == nil || !servesDriver(&d.Spec.Template.Spec, v.driver) {
			continue
		}
		switch a, _ := gpustack.KeptOff(d, n); {
		case a.Taint != nil:
			f.Message += fmt.Sprintf("; DaemonSet %s does not tolerate the node's taint %s", d.Name, podspec.TaintText(*a.Taint))
			f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(d).In(), Field: "spec.template.spec.tolerations", Value: "none for " + podspec.TaintText(*a.Taint)})
			f.Advice = fmt.Sprintf("Let DaemonSet %s in namespace %s tolerate the taint %s: without its pod the node mounts no volumes of %s.", d.Name, d.Namespace, podspec.TaintText(*a.Taint), v.driver)
		case a.Key != "":
			f.Message += fmt.Sprintf("; DaemonSet %s runs where %s=%s, and there it is %q", d.Name, a.Key, a.Value, n.Labels[a.Key])
			f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(d).In(), Field: "spec.template.spec.nodeSelector", Value: a.Key + "=" + a.Value})
		default:
			for _, p := range c.PodsOn(n.Name) {
				if up := c.Controller(p); up != nil && up.GetUID() == d.UID && !readyNow(p) {
					f.Message += fmt.Sprintf("; its pod %s is %s", p.Name, gpustack.Trouble(p))
					f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(p).In(), Field: "status", Value: gpustack.Trouble(p)})
				}
			}
		}
		break
	}
	return f, true
}

// oneNode says whether one node at a time may have the volume.
func oneNode(v *corev1.PersistentVolume) bool {
	return len(v.Spec.AccessModes) > 0 && !slices.ContainsFunc(v.Spec.AccessModes, func(m corev1.PersistentVolumeAccessMode) bool {
		return m == corev1.ReadWriteMany || m == corev1.ReadOnlyMany
	})
}

// servesDriver says whether pods of the spec are the driver's on their node: they have its folder at the kubelet.
func servesDriver(spec *corev1.PodSpec, driver string) bool {
	return slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool {
		return v.HostPath != nil && slices.Contains(strings.Split(v.HostPath.Path, "/"), driver)
	})
}

// notAttached says what became of attaching the volume to the pod's node.
func notAttached(c *check.Case, v drivenVolume) (check.Finding, bool) {
	if v.pv == nil {
		return check.Finding{}, false
	}
	for _, u := range c.Foreign["VolumeAttachment.storage.k8s.io"] {
		if of, _, _ := unstructured.NestedString(u.Object, "spec", "source", "persistentVolumeName"); of != v.pv.Name {
			continue
		}
		node, _, _ := unstructured.NestedString(u.Object, "spec", "nodeName")
		said, _, _ := unstructured.NestedString(u.Object, "status", "attachError", "message")
		attached, _, _ := unstructured.NestedBool(u.Object, "status", "attached")
		at := facts.RefTo(u).In()
		switch {
		case node == c.Pod.Spec.NodeName && !attached && said != "":
			return check.Finding{
				Message:  fmt.Sprintf("node %s cannot attach %s of pod %s: %s", node, v.name, c.Pod.Name, wording.Shortened(said, 200)),
				Evidence: []facts.Evidence{{Object: at, Field: "status.attachError.message", Value: said}},
			}, true
		case node == c.Pod.Spec.NodeName && !attached && c.Now.Sub(u.GetCreationTimestamp().Time) > attachTakes:
			return check.Finding{
				Message:  fmt.Sprintf("%s of pod %s has been waiting for %s to be attached to node %s", v.name, c.Pod.Name, wording.Minutes(c.Now.Sub(u.GetCreationTimestamp().Time)), node),
				Evidence: []facts.Evidence{{Object: at, Field: "status.attached", Value: "false"}},
				Advice:   fmt.Sprintf("Look at the controller of CSI driver %s, which attaches its volumes, and at its log.", v.driver),
			}, true
		case node != c.Pod.Spec.NodeName && attached && oneNode(v.pv):
			f := check.Finding{
				Message:  fmt.Sprintf("%s of pod %s can be on one node at a time, and is still attached to node %s", v.name, c.Pod.Name, node),
				Evidence: []facts.Evidence{{Object: at, Field: "spec.nodeName", Value: node}, {Object: at, Field: "status.attached", Value: "true"}},
			}
			if holder, _ := volumeHolder(c); holder != nil {
				f.Owner, f.Message = check.User, f.Message+fmt.Sprintf(", where pod %s has it", holder.Name)
				f.Advice = fmt.Sprintf("End pod %s, or have both run on one node.", holder.Name)
			} else if n := c.NodeNamed(node); n == nil && c.Sees("nodes", "") {
				f.Owner, f.Message = check.Platform, f.Message+", which is gone"
				f.Advice = fmt.Sprintf("Make sure that the machine of node %s is off for good, then delete %s: the volume is detached from it, and attached here.", node, facts.RefTo(u))
			} else if n != nil && !facts.NodeReady(n) {
				f.Owner, f.Message = check.Platform, f.Message+", which is not Ready"
				f.Advice = fmt.Sprintf("Have node %s repaired, or, once its machine is off for good, taint it with node.kubernetes.io/out-of-service: only then is the volume detached from it.", node)
			}
			return f, true
		}
	}
	return check.Finding{}, false
}

// volumeHolder is another pod with a claim of this one, on another node.
func volumeHolder(c *check.Case) (*corev1.Pod, string) {
	for _, mine := range volumeClaims(c.Pod) {
		for _, p := range c.Pods {
			if p.Namespace == c.Pod.Namespace && p.Name != c.Pod.Name && p.Spec.NodeName != "" && p.Spec.NodeName != c.Pod.Spec.NodeName && !facts.Ended(p) && slices.Contains(volumeClaims(p), mine) {
				return p, mine
			}
		}
	}
	return nil, ""
}

// volumeClaims are the volume claims that the pod names.
func volumeClaims(p *corev1.Pod) []string {
	var out []string
	for _, v := range p.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			out = append(out, v.PersistentVolumeClaim.ClaimName)
		}
	}
	return out
}
