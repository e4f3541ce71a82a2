package doctor

import (
	"fmt"
	"regexp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var unattributedItem = Item{
	Code: "unattributed", Title: "every GPU that is held is somebody's", Owner: check.User, Needs: []string{"nodes", "pods"}, Find: unattributedFound,
	Meaning: "GPUs that nobody answers for are the first that stay allocated when the work is over.",
}

func unattributedFound(c *Cluster) Result {
	held := int64(0)
	for _, p := range c.pods {
		if p.Spec.NodeName != "" {
			held += p.total()
		}
	}
	r := Result{Looked: wording.Number(held, "GPU") + " held"}
	r.Findings = slices.Concat(c.nobodys(), c.lingering(), c.lostNodes(), c.idleClaims(), c.outside())
	return r
}

func (p *gpuPod) total() (n int64) {
	//archtest:any-order it only adds up
	for _, v := range p.asks {
		n += v
	}
	return n
}

// podsAs makes a finding about pods that hold GPUs; nil where there are none.
func podsAs(pods []gpuPod, f Finding, text, field string, value func(*corev1.Pod) string) []Finding {
	if len(pods) == 0 {
		return nil
	}
	sum := int64(0)
	var names []string
	for _, p := range pods {
		names = append(names, p.Namespace+"/"+p.Name)
		sum += p.total()
		ref := facts.RefTo(p.Pod).In()
		f.Objects = append(f.Objects, ref)
		f.Evidence = append(f.Evidence, facts.Evidence{Object: ref, Field: field, Value: value(p.Pod)})
	}
	f.Message = fmt.Sprintf("%s %s by %s %s %s", wording.Number(sum, "GPU"), wording.InNumber(sum, "is held", "are held"), wording.InNumber(len(pods), "pod", "pods"), wording.Few(names), text)
	return []Finding{f}
}

// whose are labels and annotations by which people say whose work it is.
var whose = regexp.MustCompile(`(?i)(^|[/._-])(team|owner|user|project|cost-?cent(er|re)|department|part-of|created-by|contact|tenant)([/._-]|$)`)

func saysWhose(o metav1.Object) bool {
	for _, m := range []map[string]string{o.GetLabels(), o.GetAnnotations()} {
		for k, v := range m {
			if v != "" && (k == v1alpha1.KeyUser || whose.MatchString(k)) {
				return true
			}
		}
	}
	return false
}

// nobodys are pods that hold GPUs, that nothing made, that are in no queue, and that have no person's name: neither on them
// nor on their namespace. A pod whose maker is gone counts as one that nothing made.
func (c *Cluster) nobodys() []Finding {
	spaces := make(map[string]bool)
	for _, n := range c.Namespaces {
		spaces[n.Name] = saysWhose(n)
	}
	var bare, orphans []gpuPod
	for _, p := range c.pods {
		if p.Spec.NodeName == "" || p.DeletionTimestamp != nil || saysWhose(p.Pod) || spaces[p.Namespace] {
			continue
		}
		if _, queue, _ := c.queueOf(p.Pod); queue != "" {
			continue
		}
		switch maker := metav1.GetControllerOfNoCopy(p.Pod); {
		case maker == nil && len(p.OwnerReferences) == 0:
			bare = append(bare, p)
		case maker != nil && c.gone(maker):
			orphans = append(orphans, p)
		}
	}
	next := "ask in namespace %s whose they are; a queue, a team label or a Job makes them somebody's"
	first := func(pods []gpuPod) string {
		if len(pods) == 0 {
			return ""
		}
		return fmt.Sprintf(next, pods[0].Namespace)
	}
	return slices.Concat(
		podsAs(bare, Finding{Severity: Warn, Next: first(bare)}, "without owner, queue or team", "metadata.ownerReferences", func(*corev1.Pod) string { return "" }),
		podsAs(orphans, Finding{Severity: Warn, Next: first(orphans)}, "whose owner does not exist any more", "metadata.ownerReferences", func(p *corev1.Pod) string {
			o := metav1.GetControllerOfNoCopy(p)
			return o.Kind + "/" + o.Name
		}))
}

// gone says whether a maker of pods of a kind that was read does not exist.
func (c *Cluster) gone(maker *metav1.OwnerReference) bool {
	for _, k := range facts.Kinds {
		if k.Kind == maker.Kind && !k.Foreign && c.Sees(k.Name(), "") {
			return c.ObjectOf(maker.UID) == nil
		}
	}
	return false
}

// lingering are pods that were to be gone some time ago and still hold GPUs.
func (c *Cluster) lingering() []Finding {
	const patience = 10 * time.Minute
	var out []gpuPod
	for _, p := range c.pods {
		if p.DeletionTimestamp != nil && p.Spec.NodeName != "" && c.At.Sub(p.DeletionTimestamp.Time) > patience {
			out = append(out, p)
		}
	}
	return podsAs(out, Finding{Severity: Warn, Owner: check.Platform, Next: "look at the kubelet of the node and at the pod's finalizers"}, "that should have ended more than 10 minutes ago", "metadata.deletionTimestamp", func(p *corev1.Pod) string {
		return p.DeletionTimestamp.UTC().Format(time.RFC3339)
	})
}

// lostNodes are pods on nodes that do not exist.
func (c *Cluster) lostNodes() []Finding {
	var out []gpuPod
	for _, p := range c.pods {
		if p.Spec.NodeName != "" && c.NodeNamed(p.Spec.NodeName) == nil {
			out = append(out, p)
		}
	}
	return podsAs(out, Finding{Severity: Warn, Owner: check.Platform, Next: "delete the pods, or find out why the pod garbage collector does not"}, "on nodes that do not exist", "spec.nodeName", func(p *corev1.Pod) string { return p.Spec.NodeName })
}

// idleClaims are resource claims that have devices and that no pod which exists uses.
func (c *Cluster) idleClaims() []Finding {
	f := Finding{Severity: Warn, Next: "delete the claims if nobody needs their devices any more"}
	devices := 0
	for _, k := range c.ResourceClaims {
		if k.Status.Allocation == nil || !c.Sees("pods", "") {
			continue
		}
		used := false
		for _, r := range k.Status.ReservedFor {
			p := c.PodNamed(k.Namespace, r.Name)
			used = used || r.Resource != "pods" || p != nil && !facts.Ended(p)
		}
		if used || c.At.Sub(k.CreationTimestamp.Time) < time.Minute {
			continue
		}
		devices += len(k.Status.Allocation.Devices.Results)
		f.Objects = append(f.Objects, facts.RefTo(k).In())
		f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(k).In(), Field: "status.reservedFor", Value: fmt.Sprint(len(k.Status.ReservedFor))})
	}
	if len(f.Objects) == 0 {
		return nil
	}
	slices.Sort(f.Objects)
	f.Message = fmt.Sprintf("%s %s allocated to %s that no pod uses", wording.Number(devices, "device"), wording.InNumber(devices, "is", "are"), wording.Number(len(f.Objects), "claim"))
	return []Finding{f}
}

// outside are GPUs that were measured to be busy on nodes where no pod holds any: a process outside of Kubernetes.
func (c *Cluster) outside() []Finding {
	var faults []fault
	for i := range c.devices {
		m := &c.devices[i]
		n := c.byName[m.node]
		if n == nil || m.pod != "" || len(n.held) > 0 || c.byClaim(n) {
			continue
		}
		for _, metric := range []string{"DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"} {
			busy := 10.0 // percent
			if metric == "DCGM_FI_PROF_GR_ENGINE_ACTIVE" {
				busy = 0.1
			}
			if v, ok := m.value(metric); ok && v > busy {
				faults = append(faults, fault{severity: Warn, text: "busy GPUs that no pod holds", next: "look for processes outside of Kubernetes on the machine (nvidia-smi there)", object: m.object(), gpu: m.gpu, evidence: m.evidence(metric, v)})
				break
			}
		}
	}
	return findings(faults)
}
