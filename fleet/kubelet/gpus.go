package kubelet

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/fleet/device"
	"github.com/berth-dev/berth/fleet/gpu"
	"github.com/berth-dev/berth/kube/dialect/hami"
)

// gpuAnnotation records which GPUs a pod was given, as JSON: container name -> IDs of devices, which are the
// UUIDs of GPUs and MIG devices, with ::N behind where one is shared. It is
// written with the pod's first status and read back after a restart of this process.
const gpuAnnotation = v1alpha1.KeyGPUs

// allocateGPUs asks the device manager for every container's GPUs, init containers first because
// the others may take over theirs. given is what there was, by resource; the words around the device
// manager's error are the kubelet's.
func allocateGPUs(m *Machine, pod *corev1.Pod) (given map[corev1.ResourceName]bool, rejected *rejection) {
	given = map[corev1.ResourceName]bool{}
	by := m.Devices.PartsBy()
	e := editionOf(by)
	if by == device.ByAgent {
		if rejected = allocateParts(m, pod); rejected != nil {
			return nil, rejected
		}
	}
	allocate := func(c *corev1.Container, from func(types.UID, string, string, int) ([]gpu.Device, error)) *rejection {
		for _, name := range gpuResources(c) {
			inParts := e != nil && string(name) == e.Count
			if _, said := c.Resources.Limits[name]; !said && !inParts {
				continue
			}
			var got []gpu.Device
			var err error
			switch n := gpusOf(c, name); {
			case inParts:
				got, err = allocateByHAMi(m, pod, c, n, e)
			case name == device.Resource && by == device.ByAgent:
				got, err = allocateWanted(m, pod, c, n)
			default:
				got, err = from(pod.UID, c.Name, string(name), n)
			}
			if err != nil {
				return unexpected(err)
			}
			given[name] = given[name] || len(got) > 0
		}
		return nil
	}
	for i := range pod.Spec.InitContainers {
		c, from := &pod.Spec.InitContainers[i], m.Devices.AllocateInit
		if isSidecar(c) {
			from = m.Devices.Allocate
		}
		if rejected = allocate(c, from); rejected != nil {
			return nil, rejected
		}
	}
	for i := range pod.Spec.Containers {
		if rejected = allocate(&pod.Spec.Containers[i], m.Devices.Allocate); rejected != nil {
			return nil, rejected
		}
	}
	return given, nil
}

// gpuResources are the resources of the device plugin that the container asks for, in order of name.
func gpuResources(c *corev1.Container) []corev1.ResourceName {
	var out []corev1.ResourceName
	for name, q := range c.Resources.Limits {
		if device.IsResource(string(name)) && !q.IsZero() {
			out = append(out, name)
		}
	}
	for _, e := range hami.Editions() {
		if count := corev1.ResourceName(e.Count); asksPart(c, &e) && !slices.Contains(out, count) {
			out = append(out, count)
		}
	}
	slices.Sort(out)
	return out
}

// gpusOf is how many devices of the resource the container asks for: one where HAMi's resources stand alone.
func gpusOf(c *corev1.Container, name corev1.ResourceName) int {
	q, said := c.Resources.Limits[name]
	if !said {
		return 1
	}
	return int(q.Value())
}

func unexpected(err error) *rejection {
	return &rejection{"UnexpectedAdmissionError", fmt.Sprintf("Allocate failed due to %v, which is unexpected", err)}
}

// gpusWanted counts the GPUs and parts of GPUs that the container asks for.
func gpusWanted(c *corev1.Container) int {
	n := 0
	for _, name := range gpuResources(c) {
		n += gpusOf(c, name)
	}
	return n
}

// raiseGPUs makes sure that the node's figure is not below what the device manager has given: a
// plugin that just came back must not cost pods that hold devices. The input is not changed.
func raiseGPUs(allocatable corev1.ResourceList, name corev1.ResourceName, held int64) corev1.ResourceList {
	if q, ok := allocatable[name]; ok && q.Value() >= held {
		return allocatable
	}
	raised := maps.Clone(allocatable)
	raised[name] = *resource.NewQuantity(held, resource.DecimalSI)
	return raised
}

// recordGPUs gives the annotation for what the pod's containers have; "" if none has any.
func recordGPUs(pod *corev1.Pod, has func(container string) []gpu.Device) string {
	held := make(map[string][]string)
	for _, cs := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range cs {
			if ids := idsOf(has(cs[i].Name)); len(ids) > 0 {
				held[cs[i].Name] = ids
			}
		}
	}
	if len(held) == 0 {
		return ""
	}
	text, _ := json.Marshal(held) // a map of string slices always marshals, keys sorted
	return string(text)
}

// recordedGPUs reads from the annotation what the device plugin gave; one that somebody spoiled counts
// as none. What a container has through claims is not its own: the claims are asked again.
func recordedGPUs(pod *corev1.Pod) map[string][]string {
	if pod.Status.ExtendedResourceClaimStatus != nil {
		return nil
	}
	var held map[string][]string
	if text := pod.Annotations[gpuAnnotation]; text != "" && json.Unmarshal([]byte(text), &held) != nil {
		return nil
	}
	maps.DeleteFunc(held, func(name string, _ []string) bool {
		c := specOf(pod, name)
		return c == nil || gpusWanted(c) == 0 && name != partHolder(pod)
	})
	return held
}

// wantsGPUs says whether the pod asks for GPUs or parts of them.
func wantsGPUs(pod *corev1.Pod) bool { return wantsWhole(pod) || partHolder(pod) != "" }

// wantsWhole says whether the pod asks for resources of a device plugin.
func wantsWhole(pod *corev1.Pod) bool {
	for _, cs := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range cs {
			if gpusWanted(&cs[i]) > 0 {
				return true
			}
		}
	}
	return false
}

func idsOf(devices []gpu.Device) []string {
	var ids []string
	for _, d := range devices {
		ids = append(ids, d.ID())
	}
	return ids
}

// visible is what NVIDIA_VISIBLE_DEVICES says: a GPU that a container has more than one share of is there once.
func visible(devices []gpu.Device) string { return strings.Join(distinct(devices), ",") }

// byResource splits what a container was given among the resources that it asks for: the record has them in order of
// resource, as many of each as it asked for.
func byResource(c *corev1.Container, ids []string) map[string][]string {
	names := gpuResources(c)
	if len(names) == 0 {
		return map[string][]string{device.PartResource: ids}
	}
	if len(names) == 1 {
		return map[string][]string{string(names[0]): ids}
	}
	out := map[string][]string{}
	rest := ids
	for _, name := range names {
		n := min(gpusOf(c, name), len(rest))
		out[string(name)], rest = rest[:n], rest[n:]
	}
	return out
}
