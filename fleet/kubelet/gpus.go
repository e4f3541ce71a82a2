package kubelet

import (
	"encoding/json"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/fleet/device"
	"github.com/berth-dev/berth/fleet/gpu"
)

// gpuAnnotation records which GPUs a pod was given, as JSON: container name -> GPU UUIDs. It is
// written with the pod's first status and read back after a restart of this process.
const gpuAnnotation = v1alpha1.KeyGPUs

// allocateGPUs asks the device manager for every container's GPUs, init containers first because
// the others may take over theirs. given says whether there were any; the words around the device
// manager's error are the kubelet's.
func allocateGPUs(m *Machine, pod *corev1.Pod) (given bool, rejected *rejection) {
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		allocate := m.Devices.AllocateInit
		if isSidecar(c) {
			allocate = m.Devices.Allocate
		}
		got, err := allocate(pod.UID, c.Name, gpusWanted(c))
		if err != nil {
			return false, unexpected(err)
		}
		given = given || len(got) > 0
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		got, err := m.Devices.Allocate(pod.UID, c.Name, gpusWanted(c))
		if err != nil {
			return false, unexpected(err)
		}
		given = given || len(got) > 0
	}
	return given, nil
}

func unexpected(err error) *rejection {
	return &rejection{"UnexpectedAdmissionError", fmt.Sprintf("Allocate failed due to %v, which is unexpected", err)}
}

func gpusWanted(c *corev1.Container) int {
	q := c.Resources.Limits[device.Resource]
	return int(q.Value())
}

// raiseGPUs makes sure that the node's figure is not below what the device manager has given: a
// plugin that just came back must not cost pods that hold devices. The input is not changed.
func raiseGPUs(allocatable corev1.ResourceList, held int64) corev1.ResourceList {
	if q, ok := allocatable[device.Resource]; ok && q.Value() >= held {
		return allocatable
	}
	raised := maps.Clone(allocatable)
	raised[device.Resource] = *resource.NewQuantity(held, resource.DecimalSI)
	return raised
}

// recordGPUs gives the annotation for what the pod's containers have; "" if none has any.
func recordGPUs(pod *corev1.Pod, has func(container string) []gpu.Device) string {
	held := make(map[string][]string)
	for _, cs := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range cs {
			if uuids := uuidsOf(has(cs[i].Name)); len(uuids) > 0 {
				held[cs[i].Name] = uuids
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
		return c == nil || gpusWanted(c) == 0
	})
	return held
}

func wantsGPUs(pod *corev1.Pod) bool {
	for _, cs := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range cs {
			if gpusWanted(&cs[i]) > 0 {
				return true
			}
		}
	}
	return false
}

func uuidsOf(devices []gpu.Device) []string {
	var uuids []string
	for _, d := range devices {
		uuids = append(uuids, d.UUID)
	}
	return uuids
}
