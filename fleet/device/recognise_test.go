package device

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestRoleOf(t *testing.T) {
	for _, tc := range []struct {
		image   string
		name    string
		command []string
		want    Role // empty: not of the stack
	}{
		{"nvcr.io/nvidia/driver:580.95.05-ubuntu22.04", "nvidia-driver-ctr", []string{"nvidia-driver"}, Driver},
		{"registry.local:5000/mirror/nvidia/driver@sha256:abc", "driver", nil, Driver},
		{"nvcr.io/nvidia/k8s/container-toolkit:v1.18.0", "nvidia-container-toolkit-ctr", nil, Toolkit},
		{"nvcr.io/nvidia/k8s-device-plugin:v0.18.0", "nvidia-device-plugin-ctr", nil, Plugin},
		{"nvcr.io/nvidia/k8s-device-plugin:v0.18.0", "nvidia-device-plugin", []string{"/bin/bash", "-c", "/bin/entrypoint.sh"}, Plugin},
		{"nvcr.io/nvidia/k8s-device-plugin:v0.18.0", "x", []string{"/usr/bin/gpu-feature-discovery"}, GFD},
		{"nvcr.io/nvidia/k8s-device-plugin:v0.18.0", "gpu-feature-discovery", []string{"/bin/sh", "-c", "x"}, GFD},
		{"nvcr.io/nvidia/k8s-device-plugin:v0.18.0", "config-manager", []string{"config-manager"}, ""},
		{"nvcr.io/nvidia/k8s-device-plugin:v0.18.0", "mps", []string{"mps-control-daemon"}, ""},
		{"k8s-device-plugin", "main", nil, Plugin},
		{"nvcr.io/nvidia/gpu-feature-discovery:v0.8.2", "gfd", nil, GFD},
		{"nvcr.io/nvidia/k8s/dcgm-exporter:4.4.1-4.6.0-ubuntu22.04", "dcgm", nil, DCGM},
		{"nvcr.io/nvidia/cloud-native/gpu-operator-validator:v25.3", "v", nil, ""},
		{"nvcr.io/nvidia/k8s-dra-driver-gpu:v25.8.0", "gpus", []string{"bash", "-c"}, DRA},
		{"nvcr.io/nvidia/k8s-dra-driver-gpu:v25.8.0", "x", []string{"/usr/bin/gpu-kubelet-plugin"}, DRA},
		{"nvcr.io/nvidia/k8s-dra-driver-gpu:v25.8.0", "compute-domains", []string{"bash", "-c"}, Channels},
		{"nvcr.io/nvidia/k8s-dra-driver-gpu:v25.8.0", "x", []string{"compute-domain-kubelet-plugin"}, Channels},
		{"nvcr.io/nvidia/k8s-dra-driver-gpu:v25.8.0", "compute-domain", []string{"compute-domain-controller"}, ""},
		{"projecthami/hami:v2.10.0", "device-plugin", []string{"nvidia-device-plugin", "--config-file=/device-config.yaml"}, HAMi},
		{"docker.io/projecthami/hami:v2.10.0", "vgpu-monitor", []string{"vgpu-monitor"}, ""},
		{"docker.io/projecthami/hami:v2.10.0", "vgpu-scheduler-extender", []string{"scheduler"}, ""},
		{"rocm/k8s-device-plugin:latest", "amdgpu", nil, ""},
		{"example.com/csi/driver:v1", "driver", nil, ""},
		{"busybox", "nvidia-device-plugin", []string{"nvidia-device-plugin"}, ""},
		{"", "", nil, ""},
	} {
		got, ok := roleOf(&corev1.Container{Image: tc.image, Name: tc.name, Command: tc.command})
		if got != tc.want || ok != (tc.want != "") {
			t.Errorf("%s %s %v: got %q, %v; want %q", tc.image, tc.name, tc.command, got, ok, tc.want)
		}
	}
}

// plugin is a user's own DaemonSet pod, ready, in a namespace of its own.
func plugin() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "plugin-7x"},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{
				{Name: "log", Image: "busybox"},
				{
					Name: "plugin", Image: "nvcr.io/nvidia/k8s-device-plugin:v0.18.0",
					Env: []corev1.EnvVar{{Name: "FAIL_ON_INIT_ERROR", Value: "false"}, {Name: "NODE_NAME", ValueFrom: &corev1.EnvVarSource{}}},
					VolumeMounts: []corev1.VolumeMount{
						{Name: "plugins", MountPath: "/var/lib/kubelet/device-plugins"},
						{Name: "elsewhere", MountPath: "/host/run"},
						{Name: "cache", MountPath: "/cache"},
					},
				},
			},
			Volumes: []corev1.Volume{
				{Name: "plugins", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/var/lib/kubelet/device-plugins/"}}},
				{Name: "elsewhere", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/run"}}},
				{Name: "unused", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/var"}}},
				{Name: "cache", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			},
		},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
}

func TestStackPodOf(t *testing.T) {
	want := StackPod{
		Name: "team/plugin-7x", Role: Plugin, Ready: true,
		HostPaths: []string{"/var/lib/kubelet/device-plugins/"},
		Env:       map[string]string{"FAIL_ON_INIT_ERROR": "false"},
	}
	got, ok := StackPodOf(plugin())
	if diff := cmp.Diff(want, got); diff != "" || !ok {
		t.Errorf("%v\n%s", ok, diff)
	}
	if p, ok := StackPodOf(&corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: "nginx"}}}}); ok {
		t.Errorf("nginx is %v", p)
	}
}

func TestStackPodNotReady(t *testing.T) {
	terminating, unready, silent := plugin(), plugin(), plugin()
	terminating.DeletionTimestamp = &metav1.Time{Time: start}
	unready.Status.Conditions[0].Status = corev1.ConditionFalse
	silent.Status.Conditions = nil
	for name, pod := range map[string]*corev1.Pod{"terminating": terminating, "unready": unready, "no condition": silent} {
		if p, ok := StackPodOf(pod); !ok || p.Ready {
			t.Errorf("%s: %v, %v", name, p.Ready, ok)
		}
	}
}

// NVIDIA's chart has one pod with a container for each half of its driver, in this order, or with either alone.
func TestBothHalvesOfTheDriver(t *testing.T) {
	half := func(name string) corev1.Container {
		return corev1.Container{Name: name, Image: "nvcr.io/nvidia/k8s-dra-driver-gpu:v25.8.0", Command: []string{"bash", "-c"}}
	}
	for want, containers := range map[Role][]corev1.Container{DRA: {half("compute-domains"), half("gpus")}, Channels: {half("compute-domains")}} {
		if got, ok := StackPodOf(&corev1.Pod{Spec: corev1.PodSpec{Containers: containers}}); !ok || got.Role != want {
			t.Errorf("%d containers: %q, want %q", len(containers), got.Role, want)
		}
	}
}
