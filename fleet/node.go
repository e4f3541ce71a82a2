package fleet

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/fleet/device"
)

// What the simulated machines run. They are one image, so it is one set of versions.
const (
	kubeletVersion = "v1.37.1"
	runtimeVersion = "containerd://2.2.0"
	kernelVersion  = "6.8.0-87-generic"
	osImage        = "Ubuntu 24.04.3 LTS"
	architecture   = "amd64"
	system         = "linux"
)

// declaredFeatures are the node features that the scheduler looks for, of those that a 1.37 kubelet
// has by default. A real one also declares how it is called (websockets) and what it can resize in
// place; the simulated one does neither, and the API server believes what is declared.
func declaredFeatures() []string { return []string{"RestartAllContainersOnContainerExits"} }

// gives is what node i gets from its pool: the labels a kubelet and a cloud provider set, those
// the GPU Operator adds where it sees NVIDIA hardware, and the pool's own.
func gives(w want) applied {
	labels := map[string]string{
		corev1.LabelHostname:           w.name(),
		corev1.LabelArchStable:         architecture,
		corev1.LabelOSStable:           system,
		"beta.kubernetes.io/arch":      architecture,
		"beta.kubernetes.io/os":        system,
		corev1.LabelInstanceTypeStable: instanceType(&w.pool.Spec),
	}
	maps.Copy(labels, operatorLabels(&w.pool.Spec))
	maps.Copy(labels, w.pool.NodeLabels(w.index))
	return applied{Hardware: hardwareID(w.pool, w.index), Labels: labels, Taints: mergeTaints(slices.Clone(w.pool.NodeTaints()), nil, w.taints)}
}

// operatorLabels steer the GPU stack's DaemonSets. A driver in the machine image is left alone,
// and where GPUs go through DRA there is its driver to deploy and no device plugin.
func operatorLabels(s *v1alpha1.PoolSpec) map[string]string {
	if s.GPUStack != v1alpha1.GPUStackOperator || len(s.GPUs) == 0 {
		return nil
	}
	const deploy = "nvidia.com/gpu.deploy."
	labels := map[string]string{
		"feature.node.kubernetes.io/pci-10de.present": "true",
		"nvidia.com/gpu.present":                      "true",
		deploy + "driver":                             "true",
		deploy + "container-toolkit":                  "true",
		deploy + "device-plugin":                      "true",
		deploy + "gpu-feature-discovery":              "true",
		deploy + "dcgm-exporter":                      "true",
	}
	if s.Driver.Preinstalled {
		labels[deploy+"driver"] = "pre-installed"
	}
	if s.Advertise == v1alpha1.AdvertiseDRA {
		labels[deploy+"device-plugin"] = "false"
		labels["nvidia.com/dra-kubelet-plugin"] = "true"
	}
	switch {
	case s.Sharing == v1alpha1.SharingHAMi && s.Advertise == v1alpha1.AdvertiseDRA:
		delete(labels, "nvidia.com/dra-kubelet-plugin")
		labels["hami.io/dra-kubelet-plugin"] = "true"
	case s.Sharing == v1alpha1.SharingHAMi:
		labels[deploy+"device-plugin"] = "false"
		labels["gpu"] = "on" // where HAMi's chart has its plugin run
	case s.Sharing == v1alpha1.SharingVolcano:
		labels[deploy+"device-plugin"] = "false"
		labels["volcano.sh/vgpu-device-plugin"] = "true"
	}
	if s.MIG != (v1alpha1.MIG{}) && !cutByClaims(s) {
		labels[migDeployLabel] = "true"
		labels[migConfigLabel] = s.MIG.Config
		labels[pluginConfigLabel] = "mig-" + string(s.MIG.Strategy)
	}
	return labels
}

// newNode is the node as its kubelet registers it: with its whole status, so that a machine that
// is up needs one write. Admission adds the not-ready taint, and the node lifecycle controller
// lifts it as soon as it sees the Ready condition.
func newNode(w want, s slot, facts facts, now time.Time) *corev1.Node {
	next := gives(w)
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:        w.name(),
			Labels:      maps.Clone(next.Labels),
			Annotations: map[string]string{appliedAnnotation: next.String()},
		},
		Spec: corev1.NodeSpec{
			PodCIDR:    s.podNetwork(),
			PodCIDRs:   []string{s.podNetwork()},
			ProviderID: "berth://" + w.name(),
			Taints:     next.Taints,
		},
	}
	if w.whom != "" {
		node.Annotations[v1alpha1.KeyLaunchedFor] = w.whom
	}
	return publish(node, facts, device.Advertisement{}, now)
}
