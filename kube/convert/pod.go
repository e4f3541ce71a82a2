package convert

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	schedulinghelper "k8s.io/component-helpers/scheduling/corev1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
)

// Pod is the pod as the engine sees it. The nodes that its volumes allow are not in it: see AllowedNodes.
// Nor are the disruption budgets that cover it. What others schedule is never evictable.
func Pod(p *corev1.Pod, o Options) engine.Pod {
	gang, subgroup := GangOf(p)
	return pod(p, gang, subgroup, nil, o)
}

// PodOf is Pod for one that is a workload of its own in a PodGroup: see Independent. What the group says holds for the pod, and where it
// says nothing what the pod says, as for gangs (GroupTerms).
func PodOf(g *schedulingv1beta1.PodGroup, p *corev1.Pod, o Options) engine.Pod {
	return pod(p, "", "", g, o)
}

// pod is the pod in the gang, or for "" as a workload of its own, which may be in a PodGroup.
func pod(p *corev1.Pod, gang, subgroup string, g *schedulingv1beta1.PodGroup, o Options) engine.Pod {
	out := engine.Pod{
		Key:       key(p),
		UID:       string(p.UID),
		Version:   version(&p.ObjectMeta),
		Labels:    p.Labels,
		Gang:      gang,
		Subgroup:  subgroup,
		Rank:      Rank(p),
		Queue:     asked(&p.ObjectMeta, v1alpha1.KeyQueue),
		Priority:  schedulinghelper.PodPriority(p),
		Created:   p.CreationTimestamp.UTC(),
		Node:      p.Spec.NodeName,
		Nominated: p.Status.NominatedNodeName,
		Foreign:   !o.Ours(p.Spec.SchedulerName),
		Started:   started(p),
		Idle:      idle(p),
		Endless:   p.Spec.RestartPolicy == corev1.RestartPolicyAlways,
	}
	out.Evictable = !out.Foreign && Evictable(p) && !indispensable(p)
	if !out.Foreign {
		out.Owner = ownerOf(p)
	}
	over := overLimits(p)
	if len(over) == 0 {
		out.Spec = spec(p, o)
		if !out.Foreign && p.Spec.NodeName == "" {
			out.Images = imagesOf(p)
		}
		if !out.Foreign && gang == "" && len(p.Spec.TopologySpreadConstraints) == 0 && out.Requests.Get(o.GPUResource()) == 0 {
			if c := peersSpread(p, o); len(c) > 0 {
				r := *out.Rules()
				r.Spread = c
				out.PodRules = &r
			}
		}
	} else {
		out.Spec = overLimit(p)
	}
	gpus := out.Requests.Get(o.GPUResource())
	if out.Part != nil {
		gpus = int64(out.Part.Cards)
	}
	out.Devices = held(p, gpus)
	if gang == "" && !out.Foreign {
		loneTerms(p, g, &out, over)
	}
	if p.DeletionTimestamp != nil {
		out.Terminating = true
		out.ReleaseAt = p.DeletionTimestamp.UTC() // the API server has added the grace period to it
	}
	return out
}

// criticalPriority is that of system-cluster-critical; only the system's own classes have as much.
const criticalPriority = 2_000_000_000

// indispensable says whether the pod is not to be evicted for others whatever its author says: it would be back on the
// same node at once, or the cluster needs it. Anybody can make a pod look like this, and gains no more than by
// v1alpha1.KeyPreemptible: what may not be evicted does not borrow.
func indispensable(p *corev1.Pod) bool {
	if schedulinghelper.PodPriority(p) >= criticalPriority || p.Annotations[corev1.MirrorPodAnnotationKey] != "" {
		return true
	}
	if source := p.Annotations[keyConfigSource]; source != "" && source != "api" {
		return true
	}
	c := ControllerOf(p)
	return c != nil && c.Kind == "DaemonSet" && strings.HasPrefix(c.APIVersion, "apps/")
}

// keyConfigSource is on pods that a kubelet runs from elsewhere than the API: from a file, or a URL.
const keyConfigSource = "kubernetes.io/config.source"

// ownerOf names who makes the pod again when it is gone; "": nobody does.
func ownerOf(p *corev1.Pod) string {
	c := ControllerOf(p)
	if c == nil {
		return ""
	}
	return p.Namespace + "/" + strings.ToLower(c.Kind) + "/" + c.Name
}

// Schedulable says whether the pod is for the engine at all: one that has ended holds nothing any more, and
// one with scheduling gates is not to be looked at yet.
func Schedulable(p *corev1.Pod) bool {
	ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	return !ended && len(p.Spec.SchedulingGates) == 0
}

func key(p *corev1.Pod) string { return p.Namespace + "/" + p.Name }

func spec(p *corev1.Pod, o Options) engine.Spec {
	var nodes corev1.NodeAffinity
	if a := p.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		nodes = *a.NodeAffinity
	}
	takes := requests(p)
	out := engine.Spec{
		Requests:    takes,
		Selector:    needing(p),
		Affinity:    required(nodes.RequiredDuringSchedulingIgnoredDuringExecution),
		Preferred:   preferred(nodes.PreferredDuringSchedulingIgnoredDuringExecution),
		Tolerations: tolerations(p.Spec.Tolerations),
		Ports:       hostPorts(p),
		GPU:         gpuOf(&p.ObjectMeta),
		Features:    features(p),
	}
	partOf(p).give(&out)
	named(&out)
	between(p, &out, o)
	return out
}

// Rank is the pod's index in the controller that made it; of a JobSet's pods, that of the Job comes first.
func Rank(p *corev1.Pod) int {
	index := func(key string) (int, bool) {
		n, err := strconv.Atoi(asked(&p.ObjectMeta, key))
		if err != nil || n < 0 || n > MaxGangSize {
			return 0, false
		}
		return n, true
	}
	job, _ := index(jobOfSet)
	for _, key := range rankKeys() {
		if n, ok := index(key); ok && key != jobOfSet {
			return job*(MaxGangSize+1) + n
		}
	}
	return job * (MaxGangSize + 1)
}

// hostPorts are those of the containers that run as long as the pod does, as upstream's NodePorts counts
// them.
func hostPorts(p *corev1.Pod) []engine.Port {
	var out []engine.Port
	add := func(c *corev1.Container) {
		for _, port := range c.Ports {
			got := engine.Port{IP: port.HostIP, Protocol: string(port.Protocol), Port: port.HostPort}
			if got.Check() == nil { // a host port of 0 is none
				out = append(out, got)
			}
		}
	}
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			add(c)
		}
	}
	for i := range p.Spec.Containers {
		add(&p.Spec.Containers[i])
	}
	return out
}
