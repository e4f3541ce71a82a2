package l4

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/kube/dialect"
)

// A ComputeDomain is made of the nodes on which pods have a claim for its channel. NVIDIA's driver labels each of them, which has a DaemonSet
// of the domain put a pod with the IMEX daemon there, and prepares the channel once that daemon is ready. A node is in one domain at a time.

const (
	computeDomain = "ComputeDomain.resource.nvidia.com"
	labelDomain   = "resource.nvidia.com/computeDomain" // of nodes, and of the pods of daemons: the domain's UID
)

// domainOf is the ComputeDomain for whose channel the pod has a claim; nil: there is none, or it is not seen. The claim says its UID, and the
// domain the template of the claim.
func domainOf(c *check.Case) *unstructured.Unstructured {
	id := domainClaimed(c)
	for _, d := range c.Foreign[computeDomain] {
		if id != "" {
			if string(d.GetUID()) == id {
				return d
			}
			continue
		}
		template := dialect.Text(d.Object, "spec", "channel", "resourceClaimTemplate", "name")
		if template != "" && d.GetNamespace() == c.Pod.Namespace && slices.ContainsFunc(c.Pod.Spec.ResourceClaims, func(k corev1.PodResourceClaim) bool {
			return k.ResourceClaimTemplateName != nil && *k.ResourceClaimTemplateName == template
		}) {
			return d
		}
	}
	return nil
}

// domainClaimed is the UID of the domain in the parameters of the pod's claims; "" for none.
func domainClaimed(c *check.Case) string {
	for _, s := range c.Pod.Status.ResourceClaimStatuses {
		for _, k := range c.ResourceClaims {
			if s.ResourceClaimName == nil || k.Name != *s.ResourceClaimName || k.Namespace != c.Pod.Namespace {
				continue
			}
			for _, g := range k.Spec.Devices.Config {
				if id := channelOf(g.DeviceConfiguration); id != "" {
					return id
				}
			}
		}
	}
	return ""
}

// channelOf is the UID of the domain in the parameters of a channel; "" where they are for something else.
func channelOf(g resourcev1.DeviceConfiguration) string {
	var channel struct {
		Kind     string `json:"kind"`
		DomainID string `json:"domainID"`
	}
	if g.Opaque == nil || json.Unmarshal(g.Opaque.Parameters.Raw, &channel) != nil || channel.Kind != "ComputeDomainChannelConfig" {
		return ""
	}
	return channel.DomainID
}

// waitsForDomain says that the pod's claim is for a channel of a ComputeDomain that has not all of its nodes yet.
func waitsForDomain(c *check.Case) (string, facts.Evidence) {
	if c.State != facts.Starting || !life.AwaitsContainers(c) {
		return "", facts.Evidence{}
	}
	d := domainOf(c)
	if d == nil || dialect.Text(d.Object, "status", "status") == "Ready" {
		return "", facts.Evidence{}
	}
	wanted, there := nodesOf(d)
	if there >= wanted {
		return "", facts.Evidence{}
	}
	return fmt.Sprintf("pod %s waits for ComputeDomain %s, which has %d of its %d nodes", c.Pod.Name, d.GetName(), there, wanted),
		facts.Evidence{Object: facts.RefTo(d).In(), Field: "status.status", Value: fmt.Sprintf("%s, %d of %d nodes", dialect.Text(d.Object, "status", "status"), there, wanted)}
}

// nodesOf are how many nodes the domain is to have, and has.
func nodesOf(d *unstructured.Unstructured) (wanted, there int64) {
	wanted, _ = dialect.Number(d.Object, "spec", "numNodes")
	return wanted, int64(len(dialect.Items(d.Object, "status", "nodes")))
}

// daemonReady says whether the domain reports that its daemon on the node is ready.
func daemonReady(d *unstructured.Unstructured, node string) bool {
	return slices.ContainsFunc(dialect.Items(d.Object, "status", "nodes"), func(n map[string]any) bool {
		return dialect.Text(n, "name") == node && dialect.Text(n, "status") == "Ready"
	})
}

// domainTooLarge is about a domain for more nodes than the work has pods: it never has them. Nil: it may come to have them, or what it lacks
// is something else.
func domainTooLarge(c *check.Case) []check.Finding {
	how, e := waitsForDomain(c)
	d := domainOf(c)
	if how == "" || !daemonReady(d, c.Pod.Spec.NodeName) {
		return nil
	}
	wanted, _ := nodesOf(d)
	pods := int64(len(crew(c.Facts, c.Pod)) + 1)
	if absent, _ := absentPeers(c.Facts, c.Pod); absent > 0 || pods >= wanted || len(waitingPeers(c.Facts, c.Pod)) > 0 {
		return nil
	}
	return []check.Finding{{
		Owner:   check.User,
		Message: fmt.Sprintf("%s: spec.numNodes is %d, and the work has %s", how, wanted, wording.Number(pods, "pod")),
		Evidence: []facts.Evidence{
			{Object: facts.RefTo(d).In(), Field: "spec.numNodes", Value: fmt.Sprint(wanted)}, e,
		},
		Advice: fmt.Sprintf("Make the ComputeDomain anew with numNodes: %d, or start %d pods. What a ComputeDomain is to have cannot be changed.", pods, wanted),
	}}
}

// brokenDomain says what keeps the pod's ComputeDomain from being ready on the pod's node: another domain has the node, or the domain's daemon
// does not run there. "" where neither is known.
func brokenDomain(c *check.Case) (why, advice string, out []facts.Evidence) {
	id := domainClaimed(c)
	d := domainOf(c)
	if d != nil {
		id = string(d.GetUID())
	}
	n := c.NodeNamed(c.Pod.Spec.NodeName)
	if id == "" || n == nil {
		return "", "", nil
	}
	if has := n.Labels[labelDomain]; has != "" && has != id {
		return inOtherDomain(c, n, has)
	}
	if d == nil {
		if !c.Sees("computedomains.resource.nvidia.com", "") {
			return "", "", nil
		}
		return fmt.Sprintf("its claim is for a channel of a ComputeDomain that does not exist any more (UID %s)", id), "Make the ComputeDomain, and then the pods, anew: claims keep the UID of the domain that they were made for.", nil
	}
	for _, p := range c.Pods {
		if p.Labels[labelDomain] != id || p.DeletionTimestamp != nil || readyNow(p) || p.Spec.NodeName != n.Name || p == c.Pod {
			continue
		}
		why = fmt.Sprintf("the daemon of ComputeDomain %s there, pod %s of namespace %s, is %s", d.GetName(), p.Name, p.Namespace, gpustack.Trouble(p))
		out = []facts.Evidence{{Object: facts.RefTo(p).In(), Field: "status", Value: gpustack.Trouble(p)}}
		for _, k := range life.ContainersOf(p) {
			if line := wording.LastLine(life.LastTail(c.Facts, p, &k)); line != "" {
				why += " and says " + fmt.Sprintf("%q", wording.Shortened(line, 120))
				out = append(out, facts.Evidence{Object: facts.RefTo(p).In(), Field: "log of " + k.Name, Value: wording.Shortened(line, 200)})
				break
			}
		}
		return why, fmt.Sprintf("Have pod %s of namespace %s repaired. Where its log says that the IMEX session is in use, the host runs nvidia-imex itself: it has to be off on nodes whose domains the driver manages.", p.Name, p.Namespace), out
	}
	return "", "", nil
}

// inOtherDomain is about a node that is in another domain, which may be gone.
func inOtherDomain(c *check.Case, n *corev1.Node, has string) (why, advice string, out []facts.Evidence) {
	out = []facts.Evidence{{Object: facts.RefTo(n).In(), Field: fmt.Sprintf("metadata.labels[%q]", labelDomain), Value: has}}
	for _, o := range c.Foreign[computeDomain] {
		if string(o.GetUID()) == has {
			out = append(out, facts.Evidence{Object: facts.RefTo(o).In(), Field: "metadata.uid", Value: has})
			return fmt.Sprintf("the node is in ComputeDomain %s of namespace %s, and in one at a time", o.GetName(), o.GetNamespace()),
				fmt.Sprintf("Wait until the pods of ComputeDomain %s of namespace %s are gone, or keep these pods off its nodes.", o.GetName(), o.GetNamespace()), out
		}
	}
	if !c.Sees("computedomains.resource.nvidia.com", "") {
		return "the node is in another ComputeDomain, and in one at a time", "Ask which ComputeDomain has the node.", out
	}
	return "the node has the label of a ComputeDomain that does not exist any more", fmt.Sprintf("Have the label taken off: kubectl label node %s %s-.", n.Name, labelDomain), out
}

// ofDomain says whether the words are about a ComputeDomain.
func ofDomain(words string) bool { return strings.Contains(words, "ComputeDomain") }
