package kubelet

import corev1 "k8s.io/api/core/v1"

// withLimits is the pod as the downward API shows it: a container without a limit has the node's
// allocatable for one. The pod is copied only if it asks for such a value.
func withLimits(pod *corev1.Pod, allocatable func() corev1.ResourceList) *corev1.Pod {
	if !asksForResources(pod) {
		return pod
	}
	pod, node := pod.DeepCopy(), allocatable()
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			defaultLimits(&list[i], node)
		}
	}
	return pod
}

func defaultLimits(c *corev1.Container, node corev1.ResourceList) {
	if c.Resources.Limits == nil {
		c.Resources.Limits = make(corev1.ResourceList)
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		if q := c.Resources.Limits[name]; q.IsZero() {
			c.Resources.Limits[name] = node[name]
		}
	}
}

// asksForResources says whether a variable or a file of the pod is made from a request or limit.
func asksForResources(pod *corev1.Pod) bool {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			for _, v := range list[i].Env {
				if v.ValueFrom != nil && v.ValueFrom.ResourceFieldRef != nil {
					return true
				}
			}
		}
	}
	for i := range pod.Spec.Volumes {
		if filesFromResources(&pod.Spec.Volumes[i]) {
			return true
		}
	}
	return false
}

func filesFromResources(v *corev1.Volume) bool {
	var items []corev1.DownwardAPIVolumeFile
	if v.DownwardAPI != nil {
		items = v.DownwardAPI.Items
	}
	if v.Projected != nil {
		for i := range v.Projected.Sources {
			if d := v.Projected.Sources[i].DownwardAPI; d != nil {
				items = append(items, d.Items...)
			}
		}
	}
	for i := range items {
		if items[i].ResourceFieldRef != nil {
			return true
		}
	}
	return false
}
