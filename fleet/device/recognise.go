package device

import (
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// StackPodOf says what a pod does for the GPUs of its node; false: it is not of the GPU stack.
// It goes by image and command, as NVIDIA's charts and the GPU Operator write them, whatever
// registry, namespace or name they have: a user's own DaemonSet counts like Berth's.
func StackPodOf(p *corev1.Pod) (out StackPod, ok bool) {
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		role, of := roleOf(c)
		if !of {
			continue
		}
		out, ok = StackPod{
			Name:      p.Namespace + "/" + p.Name,
			Role:      role,
			Ready:     isReady(p),
			HostPaths: hostPaths(p, c),
			Env:       literalEnv(c),
			ConfigMap: configMap(p, c),
			Labels:    p.Labels,
			IP:        p.Status.PodIP,
		}, true
		if role != Channels { // else the other half of the driver may follow
			break
		}
	}
	return out, ok
}

// programs are the executables in those images; the device plugin's, since v0.15, and the DRA
// driver's carry several. An empty role: helpers that neither register nor label.
var programs = map[string]Role{
	"nvidia-device-plugin":    Plugin,
	"gpu-feature-discovery":   GFD,
	"config-manager":          "",
	"mps-control-daemon":      "",
	"dcgm-exporter":           DCGM,
	"nvidia-toolkit":          Toolkit,
	"nvidia-driver":           Driver,
	"gpu-kubelet-plugin":      DRA,
	"hami-kubelet-plugin":     HAMiDRA,
	"hami-core-monitor":       "",
	"nvidia-mig-manager":      MIG,
	"vgpu-monitor":            "", // of HAMi, as the next two
	"volcano-vgpu-monitor":    "",
	"scheduler":               "",
	"vgpu-scheduler-extender": "",

	"compute-domain-daemon":         Domain,
	"compute-domain-kubelet-plugin": Channels,
	"compute-domain-controller":     "",
	"compute-domains":               Channels, // a container's name: the chart starts its program through a shell
	"compute-domain":                "",
	"webhook":                       "",
}

// images are the last path element of the image names.
var images = map[string]Role{
	"driver":                     Driver,
	"nvidia-driver":              Driver,
	"container-toolkit":          Toolkit,
	"nvidia-container-toolkit":   Toolkit,
	"k8s-device-plugin":          Plugin,
	"nvidia-device-plugin":       Plugin,
	"nvidia-gpu-device-plugin":   Plugin,
	"gpu-feature-discovery":      GFD,
	"dcgm-exporter":              DCGM,
	"k8s-dra-driver-gpu":         DRA,
	"k8s-dra-driver":             DRA, // NVIDIA's of old and HAMi's: the program tells
	"k8s-mig-manager":            MIG,
	"hami":                       HAMi,
	"volcano-vgpu-device-plugin": VGPU,
}

// Program says whether the executable is one of those in images of the stack, and the image is one of them.
func Program(image, executable string) bool {
	repo := repository(image)
	_, ofStack := images[path.Base(repo)]
	_, known := programs[executable]
	return ofStack && known && !foreign(repo)
}

// Programs are the executables in the image, if it is one of the stack's, in order. Which image has which of them nobody asks.
func Programs(image string) (out []string) {
	for name := range programs { //archtest:any-order sorted below
		if Program(image, name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// roleOf goes by the image first: only inside an image of the stack does a program's name mean
// anything. The Operator starts some of them through a shell, and then the container's name is
// what tells the plugin from GFD.
func roleOf(c *corev1.Container) (Role, bool) {
	repo := repository(c.Image)
	role, ok := images[path.Base(repo)]
	if !ok || foreign(repo) {
		return "", false
	}
	for _, word := range append(slices.Clone(c.Command), c.Name) {
		r, known := programs[path.Base(word)]
		if known && role == HAMi && r == Plugin {
			return HAMi, true // it has NVIDIA's name
		}
		if known {
			return r, r != ""
		}
	}
	return role, true
}

// foreign sorts out other vendors' images of the same name, and images called just "driver"
// that are not NVIDIA's.
func foreign(repo string) bool {
	parts := strings.Split(path.Dir(repo), "/")
	if path.Base(repo) == "driver" {
		return !slices.Contains(parts, "nvidia")
	}
	return slices.Contains(parts, "rocm")
}

// repository is an image reference without tag and digest.
func repository(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if i := strings.LastIndexByte(image, ':'); i > strings.LastIndexByte(image, '/') {
		image = image[:i]
	}
	return image
}

// isReady says whether the pod serves: its condition Ready is true and it is not on its way out.
func isReady(p *corev1.Pod) bool {
	if p.DeletionTimestamp != nil {
		return false
	}
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// hostPaths lists the host directories that the container mounts at their own path.
func hostPaths(p *corev1.Pod, c *corev1.Container) []string {
	var out []string
	for _, v := range p.Spec.Volumes {
		if v.HostPath == nil {
			continue
		}
		for _, mount := range c.VolumeMounts {
			if mount.Name == v.Name && path.Clean(mount.MountPath) == path.Clean(v.HostPath.Path) {
				out = append(out, v.HostPath.Path)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// literalEnv is the environment that is written out in the pod. References are left out.
func literalEnv(c *corev1.Container) map[string]string {
	out := map[string]string{}
	for _, e := range c.Env {
		if e.ValueFrom == nil {
			out[e.Name] = e.Value
		}
	}
	return out
}

// configMap is the ConfigMap that the container mounts, if it is told to find configurations there.
func configMap(p *corev1.Pod, c *corev1.Container) string {
	for _, v := range p.Spec.Volumes {
		mounted := slices.ContainsFunc(c.VolumeMounts, func(mount corev1.VolumeMount) bool { return mount.Name == v.Name })
		if v.ConfigMap != nil && mounted {
			return v.ConfigMap.Name
		}
	}
	return ""
}
