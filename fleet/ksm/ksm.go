// Package ksm writes what kube-state-metrics would tell of pods and nodes: the families that rules and dashboards about GPU clusters
// use, with their names, labels and types (those of kube-state-metrics 2.x). It says so in its help texts, which are its own.
//
// It decides nothing and reads nothing: fleet/kubelet gives it objects and serves what it makes, in containers of the image
// kube-state-metrics.
package ksm

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// family is one metric: its samples come from objects of one kind.
type family[T any] struct {
	name, kind, help string
	samples          func(T, func(value float64, labels ...string)) // labels are names and values in turn, after those that all have
}

// Append appends the page about the objects, in the order of namespaces and names.
func Append(b []byte, nodes []*corev1.Node, pods []*corev1.Pod) []byte {
	slices.SortFunc(nodes, func(a, c *corev1.Node) int { return strings.Compare(a.Name, c.Name) })
	slices.SortFunc(pods, func(a, c *corev1.Pod) int {
		return cmp.Or(strings.Compare(a.Namespace, c.Namespace), strings.Compare(a.Name, c.Name))
	})
	for _, f := range nodeFamilies {
		b = f.head(b)
		for _, n := range nodes {
			f.samples(n, func(v float64, labels ...string) { b = sample(b, f.name, v, []string{"node", n.Name}, labels) })
		}
	}
	for _, f := range podFamilies {
		b = f.head(b)
		for _, p := range pods {
			f.samples(p, func(v float64, labels ...string) {
				b = sample(b, f.name, v, []string{"namespace", p.Namespace, "pod", p.Name, "uid", string(p.UID)}, labels)
			})
		}
	}
	return b
}

func (f *family[T]) head(b []byte) []byte {
	b = append(append(append(append(b, "# HELP "...), f.name...), ' '), f.help...)
	return append(append(append(append(append(b, "\n# TYPE "...), f.name...), ' '), f.kind...), '\n')
}

func sample(b []byte, name string, value float64, common, labels []string) []byte {
	b = append(append(b, name...), '{')
	for i, list := range [][]string{common, labels} {
		for j := 0; j+1 < len(list); j += 2 {
			if i+j > 0 {
				b = append(b, ',')
			}
			b = append(append(append(b, list[j]...), `="`...), escape.Replace(list[j+1])...)
			b = append(b, '"')
		}
	}
	b = append(b, "} "...)
	if value == math.Trunc(value) && math.Abs(value) < 1e15 {
		b = strconv.AppendInt(b, int64(value), 10)
	} else {
		b = strconv.AppendFloat(b, value, 'g', -1, 64)
	}
	return append(b, '\n')
}

var escape = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

const gauge, counter = "gauge", "counter"

var nodeFamilies = []family[*corev1.Node]{
	{"kube_node_info", gauge, "About a node, in labels (simulated kube-state-metrics).", func(n *corev1.Node, put func(float64, ...string)) {
		i, address := n.Status.NodeInfo, ""
		for _, a := range n.Status.Addresses {
			if a.Type == corev1.NodeInternalIP {
				address = a.Address
			}
		}
		put(1, "kernel_version", i.KernelVersion, "os_image", i.OSImage, "container_runtime_version", i.ContainerRuntimeVersion, "kubelet_version", i.KubeletVersion,
			"kubeproxy_version", "deprecated", "provider_id", n.Spec.ProviderID, "pod_cidr", n.Spec.PodCIDR, "system_uuid", i.SystemUUID, "internal_ip", address)
	}},
	{"kube_node_created", gauge, "When the node was created, in seconds since 1970.", func(n *corev1.Node, put func(float64, ...string)) { moment(&n.CreationTimestamp, put) }},
	{"kube_node_role", gauge, "A role of the node.", func(n *corev1.Node, put func(float64, ...string)) {
		for _, key := range sortedKeys(n.Labels) {
			if role, ok := strings.CutPrefix(key, "node-role.kubernetes.io/"); ok {
				put(1, "role", role)
			}
		}
	}},
	{"kube_node_spec_taint", gauge, "A taint of the node.", func(n *corev1.Node, put func(float64, ...string)) {
		for _, t := range n.Spec.Taints {
			put(1, "key", t.Key, "value", t.Value, "effect", string(t.Effect))
		}
	}},
	{"kube_node_spec_unschedulable", gauge, "Whether the node is cordoned.", func(n *corev1.Node, put func(float64, ...string)) { put(yes(n.Spec.Unschedulable)) }},
	{"kube_node_status_allocatable", gauge, "What of a resource pods can have.", func(n *corev1.Node, put func(float64, ...string)) { amounts(n.Status.Allocatable, put) }},
	{"kube_node_status_capacity", gauge, "What of a resource the node has.", func(n *corev1.Node, put func(float64, ...string)) { amounts(n.Status.Capacity, put) }},
	{"kube_node_status_condition", gauge, "Whether a condition of the node has a status.", func(n *corev1.Node, put func(float64, ...string)) {
		for _, c := range n.Status.Conditions {
			for _, s := range statuses {
				put(yes(c.Status == s), "condition", string(c.Type), "status", strings.ToLower(string(s)))
			}
		}
	}},
}

var statuses = []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown}

var podFamilies = []family[*corev1.Pod]{
	{"kube_pod_info", gauge, "About a pod, in labels (simulated kube-state-metrics).", func(p *corev1.Pod, put func(float64, ...string)) {
		kind, name := "<none>", "<none>"
		if o := metav1.GetControllerOf(p); o != nil {
			kind, name = o.Kind, o.Name
		}
		put(1, "host_ip", p.Status.HostIP, "pod_ip", p.Status.PodIP, "node", p.Spec.NodeName, "created_by_kind", kind, "created_by_name", name,
			"priority_class", p.Spec.PriorityClassName, "host_network", strconv.FormatBool(p.Spec.HostNetwork))
	}},
	{"kube_pod_owner", gauge, "An owner of the pod.", func(p *corev1.Pod, put func(float64, ...string)) {
		if len(p.OwnerReferences) == 0 {
			put(1, "owner_kind", "<none>", "owner_name", "<none>", "owner_is_controller", "<none>")
		}
		for _, o := range p.OwnerReferences {
			put(1, "owner_kind", o.Kind, "owner_name", o.Name, "owner_is_controller", strconv.FormatBool(o.Controller != nil && *o.Controller))
		}
	}},
	{"kube_pod_created", gauge, "When the pod was created, in seconds since 1970.", func(p *corev1.Pod, put func(float64, ...string)) { moment(&p.CreationTimestamp, put) }},
	{"kube_pod_start_time", gauge, "When a kubelet took the pod in, in seconds since 1970.", func(p *corev1.Pod, put func(float64, ...string)) { moment(p.Status.StartTime, put) }},
	{"kube_pod_completion_time", gauge, "When the last of its containers ended, in seconds since 1970.", func(p *corev1.Pod, put func(float64, ...string)) {
		var last metav1.Time
		for _, c := range p.Status.ContainerStatuses {
			if t := c.State.Terminated; t != nil && last.Before(&t.FinishedAt) {
				last = t.FinishedAt
			}
		}
		moment(&last, put)
	}},
	{"kube_pod_deletion_timestamp", gauge, "When the pod is to be gone, in seconds since 1970.", func(p *corev1.Pod, put func(float64, ...string)) { moment(p.DeletionTimestamp, put) }},
	{"kube_pod_scheduler", gauge, "The scheduler that the pod names.", func(p *corev1.Pod, put func(float64, ...string)) { put(1, "name", p.Spec.SchedulerName) }},
	{"kube_pod_status_phase", gauge, "Whether the pod is in a phase.", func(p *corev1.Pod, put func(float64, ...string)) {
		for _, phase := range []corev1.PodPhase{corev1.PodPending, corev1.PodSucceeded, corev1.PodFailed, corev1.PodUnknown, corev1.PodRunning} {
			if p.Status.Phase != "" {
				put(yes(p.Status.Phase == phase), "phase", string(phase))
			}
		}
	}},
	{"kube_pod_status_ready", gauge, "Whether the condition Ready has a status.", conditions(corev1.PodReady)},
	{"kube_pod_status_ready_time", gauge, "Since when the pod is ready, in seconds since 1970.", since(corev1.PodReady, corev1.ConditionTrue)},
	{"kube_pod_status_scheduled", gauge, "Whether the condition PodScheduled has a status.", conditions(corev1.PodScheduled)},
	{"kube_pod_status_scheduled_time", gauge, "Since when the pod has a node, in seconds since 1970.", since(corev1.PodScheduled, corev1.ConditionTrue)},
	{"kube_pod_status_unschedulable", gauge, "1 for a pod that has no node.", func(p *corev1.Pod, put func(float64, ...string)) {
		if c := condition(p, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse {
			put(1)
		}
	}},
	{"kube_pod_status_reason", gauge, "Why the pod is as it is.", func(p *corev1.Pod, put func(float64, ...string)) { reasonsOf(p, put) }},
	{"kube_pod_status_qos_class", gauge, "Whether the pod is of a class of service.", func(p *corev1.Pod, put func(float64, ...string)) {
		for _, c := range []corev1.PodQOSClass{corev1.PodQOSBestEffort, corev1.PodQOSBurstable, corev1.PodQOSGuaranteed} {
			if p.Status.QOSClass != "" {
				put(yes(p.Status.QOSClass == c), "qos_class", string(c))
			}
		}
	}},
	{"kube_pod_container_info", gauge, "About a container, in labels.", func(p *corev1.Pod, put func(float64, ...string)) {
		for _, s := range p.Status.ContainerStatuses {
			image := ""
			for _, c := range p.Spec.Containers {
				if c.Name == s.Name {
					image = c.Image
				}
			}
			put(1, "container", s.Name, "image_spec", image, "image", s.Image, "image_id", s.ImageID, "container_id", s.ContainerID)
		}
	}},
	{"kube_pod_container_resource_requests", gauge, "What a container requests of a resource.", requests(func(r *corev1.ResourceRequirements) corev1.ResourceList { return r.Requests })},
	{"kube_pod_container_resource_limits", gauge, "What a container may use of a resource.", requests(func(r *corev1.ResourceRequirements) corev1.ResourceList { return r.Limits })},
	{"kube_pod_container_status_ready", gauge, "Whether a container is ready.", containers(func(s *corev1.ContainerStatus) float64 { return yes(s.Ready) })},
	{"kube_pod_container_status_restarts_total", counter, "How often a container was started again.", containers(func(s *corev1.ContainerStatus) float64 { return float64(s.RestartCount) })},
	{"kube_pod_container_status_running", gauge, "Whether a container runs.", containers(func(s *corev1.ContainerStatus) float64 { return yes(s.State.Running != nil) })},
	{"kube_pod_container_status_terminated", gauge, "Whether a container has ended.", containers(func(s *corev1.ContainerStatus) float64 { return yes(s.State.Terminated != nil) })},
	{"kube_pod_container_status_waiting", gauge, "Whether a container waits.", containers(func(s *corev1.ContainerStatus) float64 { return yes(s.State.Waiting != nil) })},
	{"kube_pod_container_status_waiting_reason", gauge, "Why a container waits.", because(func(s *corev1.ContainerStatus) string {
		if s.State.Waiting == nil {
			return ""
		}
		return s.State.Waiting.Reason
	})},
	{"kube_pod_container_status_terminated_reason", gauge, "Why a container has ended.", because(func(s *corev1.ContainerStatus) string { return ended(s.State.Terminated) })},
	{"kube_pod_container_status_last_terminated_reason", gauge, "Why a container ended the last time.", because(func(s *corev1.ContainerStatus) string { return ended(s.LastTerminationState.Terminated) })},
}

func yes(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func moment(t *metav1.Time, put func(float64, ...string)) {
	if !t.IsZero() {
		put(float64(t.Unix()))
	}
}

func condition(p *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == kind {
			return c
		}
	}
	return nil
}

func conditions(kind corev1.PodConditionType) func(*corev1.Pod, func(float64, ...string)) {
	return func(p *corev1.Pod, put func(float64, ...string)) {
		if c := condition(p, kind); c != nil {
			for _, s := range statuses {
				put(yes(c.Status == s), "condition", strings.ToLower(string(s)))
			}
		}
	}
}

func since(kind corev1.PodConditionType, status corev1.ConditionStatus) func(*corev1.Pod, func(float64, ...string)) {
	return func(p *corev1.Pod, put func(float64, ...string)) {
		if c := condition(p, kind); c != nil && c.Status == status {
			moment(&c.LastTransitionTime, put)
		}
	}
}

// reasons are those that are told by name.
var reasons = []string{"Evicted", "NodeAffinity", "NodeLost", "PreemptionByScheduler", "SchedulingGated", "Shutdown", "TerminationByKubelet", "UnexpectedAdmissionError"}

// reasonsOf tells the reasons of the pod, of its conditions and of containers that have ended. Another reason of the pod is "Other".
func reasonsOf(p *corev1.Pod, put func(float64, ...string)) {
	has := map[string]bool{p.Status.Reason: true}
	for _, c := range p.Status.Conditions {
		has[c.Reason] = true
	}
	for i := range p.Status.ContainerStatuses {
		has[ended(p.Status.ContainerStatuses[i].State.Terminated)] = true
	}
	for _, r := range reasons {
		if has[r] {
			put(1, "reason", r)
		}
	}
	if p.Status.Reason != "" && !slices.Contains(reasons, p.Status.Reason) {
		put(1, "reason", "Other")
	}
}

func ended(t *corev1.ContainerStateTerminated) string {
	if t == nil {
		return ""
	}
	return t.Reason
}

func containers(value func(*corev1.ContainerStatus) float64) func(*corev1.Pod, func(float64, ...string)) {
	return func(p *corev1.Pod, put func(float64, ...string)) {
		for i := range p.Status.ContainerStatuses {
			s := &p.Status.ContainerStatuses[i]
			put(value(s), "container", s.Name)
		}
	}
}

func because(reason func(*corev1.ContainerStatus) string) func(*corev1.Pod, func(float64, ...string)) {
	return func(p *corev1.Pod, put func(float64, ...string)) {
		for i := range p.Status.ContainerStatuses {
			s := &p.Status.ContainerStatuses[i]
			if r := reason(s); r != "" {
				put(1, "container", s.Name, "reason", r)
			}
		}
	}
}

func requests(of func(*corev1.ResourceRequirements) corev1.ResourceList) func(*corev1.Pod, func(float64, ...string)) {
	return func(p *corev1.Pod, put func(float64, ...string)) {
		for i := range p.Spec.Containers {
			c := &p.Spec.Containers[i]
			amounts(of(&c.Resources), func(v float64, labels ...string) {
				put(v, append([]string{"container", c.Name, "node", p.Spec.NodeName}, labels...)...)
			})
		}
	}
}

// amounts tells resources with their units: nvidia.com/gpu is nvidia_com_gpu, in integers. Of two whose labels are the same the first is
// told, because Prometheus takes no page that has a sample twice.
func amounts(list corev1.ResourceList, told func(float64, ...string)) {
	seen := make(map[string]bool, len(list))
	put := func(value float64, labels ...string) {
		if !seen[labels[1]] {
			seen[labels[1]] = true
			told(value, labels...)
		}
	}
	for _, name := range sortedKeys(list) {
		q := list[name]
		switch {
		case name == corev1.ResourceCPU:
			put(float64(q.MilliValue())/1000, "resource", "cpu", "unit", "core")
		case name == corev1.ResourceMemory, name == corev1.ResourceStorage, name == corev1.ResourceEphemeralStorage,
			strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix), strings.HasPrefix(string(name), "attachable-volumes-"):
			put(float64(q.Value()), "resource", label(string(name)), "unit", "byte")
		case name == corev1.ResourcePods, strings.Contains(string(name), "/") && !strings.Contains(string(name), "kubernetes.io/"):
			put(float64(q.Value()), "resource", label(string(name)), "unit", "integer")
		}
	}
}

// label is the name with what labels of Prometheus may not have replaced.
func label(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, name)
}

func sortedKeys[K ~string, V any](m map[K]V) []K {
	out := make([]K, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
