package kubelet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"
	schedulingv1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
)

// rejection is why a pod may not run on a machine, in the kubelet's own words.
type rejection struct {
	reason  string // status.reason
	message string // the event's message; status.message has a prefix before it
}

func (r *rejection) Error() string { return r.reason + ": " + r.message }

// demand is what one pod takes from a machine for as long as it is admitted.
type demand struct {
	milliCPU, memory, storage int64
	extended                  map[corev1.ResourceName]int64 // nil: none
	ports                     []hostPort
}

// hostPort is a port of the machine itself that a container claims.
type hostPort struct {
	ip       string // "": every address
	protocol corev1.Protocol
	port     int32
}

// demandOf sums what the pod's containers request, as the scheduler does.
func demandOf(pod *corev1.Pod) demand {
	var d demand
	for name, q := range resource.PodRequests(pod, resource.PodResourcesOptions{}) {
		switch name {
		case corev1.ResourceCPU:
			d.milliCPU = q.MilliValue()
		case corev1.ResourceMemory:
			d.memory = q.Value()
		case corev1.ResourceEphemeralStorage:
			d.storage = q.Value()
		default:
			if d.extended == nil {
				d.extended = make(map[corev1.ResourceName]int64)
			}
			d.extended[name] = q.Value()
		}
	}
	d.ports = hostPorts(pod)
	return d
}

func hostPorts(pod *corev1.Pod) []hostPort {
	var ports []hostPort
	for i := range pod.Spec.Containers {
		for _, p := range pod.Spec.Containers[i].Ports {
			if p.HostPort == 0 {
				continue
			}
			ip := p.HostIP
			if ip == "0.0.0.0" || ip == "::" {
				ip = ""
			}
			ports = append(ports, hostPort{ip, cmp.Or(p.Protocol, corev1.ProtocolTCP), p.HostPort})
		}
	}
	return ports
}

func (p hostPort) conflicts(q hostPort) bool {
	return p.port == q.port && p.protocol == q.protocol && (p.ip == q.ip || p.ip == "" || q.ip == "")
}

// tally is the sum of the demands of the pods admitted to a machine.
type tally struct {
	pods                      int64
	milliCPU, memory, storage int64
	extended                  map[corev1.ResourceName]int64
}

// add counts d in (sign 1) or out (sign -1).
func (t *tally) add(d *demand, sign int64) {
	t.pods += sign
	t.milliCPU += sign * d.milliCPU
	t.memory += sign * d.memory
	t.storage += sign * d.storage
	for name, n := range d.extended {
		if t.extended == nil {
			t.extended = make(map[corev1.ResourceName]int64)
		}
		t.extended[name] += sign * n
	}
}

// fits is the resource half of admission. The first shortage in the kubelet's order (pods, cpu,
// memory, ephemeral-storage, then extended resources by name) is the one reported. An extended
// resource that the node does not know at all is not the kubelet's business.
func (t *tally) fits(d *demand, allocatable corev1.ResourceList) *rejection {
	if room := allocatable.Pods().Value(); t.pods+1 > room {
		return outOf(corev1.ResourcePods, 1, t.pods, room)
	}
	cpu, memory, storage := allocatable.Cpu().MilliValue(), allocatable.Memory().Value(), allocatable.StorageEphemeral().Value()
	switch {
	case d.milliCPU > 0 && d.milliCPU > cpu-t.milliCPU:
		return outOf(corev1.ResourceCPU, d.milliCPU, t.milliCPU, cpu)
	case d.memory > 0 && d.memory > memory-t.memory:
		return outOf(corev1.ResourceMemory, d.memory, t.memory, memory)
	case d.storage > 0 && d.storage > storage-t.storage:
		return outOf(corev1.ResourceEphemeralStorage, d.storage, t.storage, storage)
	}
	for _, name := range slices.Sorted(maps.Keys(d.extended)) {
		q, known := allocatable[name]
		if want := d.extended[name]; known && want > 0 && want > q.Value()-t.extended[name] {
			return outOf(name, want, t.extended[name], q.Value())
		}
	}
	return nil
}

func outOf(name corev1.ResourceName, requested, used, capacity int64) *rejection {
	return &rejection{
		reason: "OutOf" + string(name),
		message: fmt.Sprintf("Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d",
			name, requested, used, capacity),
	}
}

// predicate names a placement rule that the kubelet checks again.
func predicate(name, why string) *rejection {
	return &rejection{reason: name, message: fmt.Sprintf("Predicate %s failed: %s", name, why)}
}

// welcomes is the other half of admission: the rules of placement that the kubelet re-checks against
// the node, after resources.
func welcomes(pod *corev1.Pod, node *corev1.Node, taken func(hostPort) bool) *rejection {
	if ok, _ := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node); !ok {
		return predicate("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
	}
	if slices.ContainsFunc(hostPorts(pod), taken) {
		return predicate("NodePorts", "node(s) didn't have free ports for the requested pod ports")
	}
	noExecute := func(t *corev1.Taint) bool { return t.Effect == corev1.TaintEffectNoExecute }
	if _, bad := schedulingv1.FindMatchingUntoleratedTaint(klog.Logger{}, node.Spec.Taints, pod.Spec.Tolerations, noExecute, true); bad {
		return predicate("TaintToleration", "node(s) had taints that the pod didn't tolerate")
	}
	return nil
}

// wrongSystem is the check that comes before all others of a node.
func wrongSystem(pod *corev1.Pod) *rejection {
	if pod.Spec.OS != nil && pod.Spec.OS.Name != corev1.Linux {
		return &rejection{"PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS"}
	}
	if os, ok := pod.Labels[corev1.LabelOSStable]; ok && !strings.EqualFold(os, string(corev1.Linux)) {
		return &rejection{"PodOSSelectorNodeLabelDoesNotMatch", "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"}
	}
	return nil
}
