package fleet

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/fleet/device"
	"github.com/berth-dev/berth/fleet/dra"
	"github.com/berth-dev/berth/fleet/storage"
)

func decode[T any](t *testing.T, m manifest) *T {
	t.Helper()
	out := new(T)
	if err := yaml.UnmarshalStrict(m.Body, out); err != nil {
		t.Fatalf("%s: %v", m.Path, err)
	}
	return out
}

// The exporters' Service selects their pods and a port that they have.
func TestGPUServices(t *testing.T) {
	services, err := gpuServices()
	if err != nil || len(services) != 1 {
		t.Fatal(services, err)
	}
	sets, err := readManifests("dcgm-exporter.yaml")
	if err != nil {
		t.Fatal(err)
	}
	service, set := decode[corev1.Service](t, services[0]), decode[appsv1.DaemonSet](t, sets[1])
	if !k8slabels.SelectorFromSet(service.Spec.Selector).Matches(k8slabels.Set(set.Spec.Template.Labels)) || service.Namespace != set.Namespace {
		t.Errorf("it selects %v in %s", service.Spec.Selector, service.Namespace)
	}
	port := set.Spec.Template.Spec.Containers[0].Ports[0].ContainerPort
	if got := service.Spec.Ports[0]; got.TargetPort.IntVal != port || got.Port != port {
		t.Errorf("port %+v, and the exporter listens on %d", got, port)
	}
}

func TestGPUStackManifests(t *testing.T) {
	stack, err := gpuStack()
	if err != nil {
		t.Fatal(err)
	}
	deployed := operatorLabels(&draPool("p", 1).Spec)
	maps.Copy(deployed, operatorLabels(&gpuPool("p", 1).Spec))
	maps.Copy(deployed, operatorLabels(&migPool("p", 1, "mixed", "all-balanced").Spec))
	hami := gpuPool("p", 1)
	hami.Spec.Sharing = v1alpha1.SharingHAMi
	deployed["gpu"] = operatorLabels(&hami.Spec)["gpu"]
	hami.Spec.Sharing = v1alpha1.SharingVolcano
	deployed["volcano.sh/vgpu-device-plugin"] = operatorLabels(&hami.Spec)["volcano.sh/vgpu-device-plugin"]
	hami.Spec.Sharing, hami.Spec.Advertise = v1alpha1.SharingHAMi, v1alpha1.AdvertiseDRA
	shares := operatorLabels(&hami.Spec)
	deployed["hami.io/dra-kubelet-plugin"] = shares["hami.io/dra-kubelet-plugin"]
	if shares["gpu"] != "" || shares["nvidia.com/dra-kubelet-plugin"] != "" || shares["nvidia.com/gpu.deploy.device-plugin"] != "false" {
		t.Errorf("two drivers on one node: %v", shares)
	}
	got := map[string]device.Role{}
	for i := 0; i < len(stack); i += 2 {
		account, set := decode[corev1.ServiceAccount](t, stack[i]), decode[appsv1.DaemonSet](t, stack[i+1])
		if want := "/apis/apps/v1/namespaces/gpu-operator/daemonsets/" + set.Name; stack[i+1].Path != want {
			t.Errorf("path %s, want %s", stack[i+1].Path, want)
		}
		spec := set.Spec.Template.Spec
		if spec.ServiceAccountName != account.Name || account.Namespace != set.Namespace {
			t.Errorf("%s runs as %s, its account is %s", set.Name, spec.ServiceAccountName, account.Name)
		}
		for key, value := range spec.NodeSelector {
			if deployed[key] != value {
				t.Errorf("%s selects %s=%s, which no node has", set.Name, key, value)
			}
		}
		if diff := cmp.Diff([]corev1.Toleration{{Operator: corev1.TolerationOpExists}}, spec.Tolerations); diff != "" {
			t.Errorf("%s does not tolerate a pool's own taint: %s", set.Name, diff)
		}
		if set.Spec.Template.Annotations[v1alpha1.KeyUser] == "" {
			t.Errorf("%s does not say whose its pods are: the API server would write it into each of them", set.Name)
		}
		pod := &corev1.Pod{ObjectMeta: set.Spec.Template.ObjectMeta, Spec: spec}
		p, ok := device.StackPodOf(pod)
		if !ok {
			t.Errorf("%s is not recognised as part of the GPU stack", set.Name)
		}
		got[set.Name] = p.Role
	}
	want := map[string]device.Role{
		"nvidia-driver-daemonset":                         device.Driver,
		"nvidia-container-toolkit-daemonset":              device.Toolkit,
		"nvidia-device-plugin-daemonset":                  device.Plugin,
		"gpu-feature-discovery":                           device.GFD,
		"nvidia-dcgm-exporter":                            device.DCGM,
		"nvidia-dra-driver-gpu-kubelet-plugin":            device.DRA,
		"nvidia-dra-driver-compute-domain-kubelet-plugin": device.Channels,
		"nvidia-mig-manager":                              device.MIG,
		"hami-device-plugin":                              device.HAMi,
		"volcano-vgpu-device-plugin":                      device.VGPU,
		"hami-dra-driver-kubelet-plugin":                  device.HAMiDRA,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Every entry of the shipped configurations can be read, and the strategies of pools are among them.
func TestShippedPluginConfigs(t *testing.T) {
	list, err := gpuConfigs()
	if err != nil {
		t.Fatal(err)
	}
	data := decode[corev1.ConfigMap](t, list[0]).Data
	for name, text := range data {
		if _, err := parsePluginConfig(text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, strategy := range []v1alpha1.MIGStrategy{"none", "single", "mixed"} {
		if c, _ := parsePluginConfig(data["mig-"+string(strategy)]); c.MIGStrategy != string(strategy) {
			t.Errorf("mig-%s has the strategy %q", strategy, c.MIGStrategy)
		}
	}
}

// selects says whether pods of the spec may be on nodes with the labels.
func selects(t *testing.T, spec *corev1.PodSpec, labels map[string]string) bool {
	t.Helper()
	if a := spec.Affinity; a != nil {
		for _, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			for _, e := range term.MatchExpressions {
				switch value, has := labels[e.Key]; {
				case e.Operator == corev1.NodeSelectorOpExists && has, e.Operator == corev1.NodeSelectorOpNotIn && !slices.Contains(e.Values, value):
				default:
					return false
				}
			}
		}
	}
	return k8slabels.SelectorFromSet(spec.NodeSelector).Matches(k8slabels.Set(labels))
}

// shippedPods are the pods that the shipped DaemonSets put on a node of the pool, ready.
func shippedPods(t *testing.T, pool *v1alpha1.Pool) (pods []device.StackPod) {
	t.Helper()
	stack, err := gpuStack()
	if err != nil {
		t.Fatal(err)
	}
	deployed := maps.Clone(operatorLabels(&pool.Spec))
	if clique := pool.NodeClique(0); clique != "" {
		deployed[v1alpha1.LabelClique] = clique // feature discovery writes it
	}
	for i := 1; i < len(stack); i += 2 {
		set := decode[appsv1.DaemonSet](t, stack[i])
		pod := &corev1.Pod{Spec: set.Spec.Template.Spec}
		if !selects(t, &pod.Spec, deployed) {
			continue
		}
		pod.Name = set.Name
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		p, _ := device.StackPodOf(pod)
		pods = append(pods, p)
	}
	return pods
}

// With every pod of the shipped stack ready, and nothing else, a node advertises its GPUs.
func TestShippedStackIsEnoughToAdvertise(t *testing.T) {
	m := newMachine(machineOptions{Want: want{pool: gpuPool("p", 1), index: 0}})
	m.devices.SetStack(shippedPods(t, gpuPool("p", 1)), noon)
	if m.devices.Slices(noon).Publish {
		t.Error("a device-plugin pool offers its GPUs through DRA too")
	}
	if adv := m.devices.Advertise(noon); len(adv.Resources) != 1 || adv.Resources[0].Allocatable != 8 || adv.Labels["nvidia.com/gpu.product"] != "NVIDIA-H100-80GB-HBM3" {
		t.Errorf("advertises %+v", adv)
	}
}

// The same for a pool that advertises by DRA: a slice, and nothing else.
func TestShippedStackIsEnoughForDRA(t *testing.T) {
	m := newMachine(machineOptions{Want: want{pool: draPool("p", 1), index: 0}})
	m.devices.SetStack(shippedPods(t, draPool("p", 1)), noon)
	if !m.devices.Slices(noon).Publish {
		t.Error("no slice")
	}
	if adv := m.devices.Advertise(noon); len(adv.Resources) > 0 || adv.Labels["nvidia.com/gpu.product"] == "" {
		t.Errorf("advertises %+v", adv)
	}
}

// In an NVLink domain the shipped stack offers channels, whoever gives out the GPUs, by one driver.
func TestShippedStackIsEnoughForChannels(t *testing.T) {
	hami, shares, counted := rackPool("p", 1), rackPool("p", 1), rackPool("p", 1)
	hami.Spec.Advertise, hami.Spec.Sharing = v1alpha1.AdvertiseDevicePlugin, v1alpha1.SharingHAMi
	shares.Spec.Sharing = v1alpha1.SharingHAMi
	counted.Spec.Advertise = v1alpha1.AdvertiseDevicePlugin
	for name, pool := range map[string]*v1alpha1.Pool{"counted": counted, "claimed": rackPool("p", 1), "vGPUs": hami, "shares": shares, "alone": gpuPool("p", 1)} {
		m := newMachine(machineOptions{Want: want{pool: pool, index: 0}})
		pods := shippedPods(t, pool)
		m.devices.SetStack(pods, noon)
		drivers := 0
		for _, p := range pods {
			if p.Role == device.DRA || p.Role == device.Channels {
				drivers++
			}
		}
		wanted := name != "alone"
		if got := m.devices.ChannelSlices(noon).Publish; got != wanted || wanted != (drivers == 1) {
			t.Errorf("%s: channels are offered: %t; %d pods of NVIDIA's driver", name, got, drivers)
		}
	}
}

func TestDeviceClass(t *testing.T) {
	list, err := classes()
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{dra.Driver, "mig.nvidia.com", dra.HAMiDriver, "compute-domain-default-channel.nvidia.com", "compute-domain-daemon.nvidia.com"} {
		class := decode[resourcev1.DeviceClass](t, list[i])
		if class.Name != name || list[i].Path != "/apis/resource.k8s.io/v1/deviceclasses/"+name {
			t.Errorf("class %s at %s", class.Name, list[i].Path)
		}
	}
}

// Claims that name no class get volumes of the simulated storage, in the zone of their pod.
func TestStorageClass(t *testing.T) {
	list, err := classes()
	if err != nil {
		t.Fatal(err)
	}
	class := decode[storagev1.StorageClass](t, list[5])
	if class.Provisioner != storage.Provisioner || *class.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer || class.Annotations["storageclass.kubernetes.io/is-default-class"] != "true" {
		t.Errorf("class %+v", class)
	}
	if want := "/apis/storage.k8s.io/v1/storageclasses/zonal"; list[5].Path != want {
		t.Errorf("at %s, want %s", list[5].Path, want)
	}
}

func TestOperatorLabels(t *testing.T) {
	plain := plainPool("p", 1)
	image := gpuPool("p", 1)
	image.Spec.Driver.Preinstalled = true
	none := gpuPool("p", 1)
	none.Spec.GPUStack = v1alpha1.GPUStackNone
	if got := operatorLabels(&plain.Spec); got != nil {
		t.Errorf("no GPUs, but %v", got)
	}
	if got := operatorLabels(&none.Spec); got != nil {
		t.Errorf("no operator, but %v", got)
	}
	if got := operatorLabels(&image.Spec)["nvidia.com/gpu.deploy.driver"]; got != "pre-installed" {
		t.Errorf("driver in the image: %s", got)
	}
	if got := operatorLabels(&draPool("p", 1).Spec)["nvidia.com/gpu.deploy.device-plugin"]; got != "false" {
		t.Errorf("DRA with a device plugin: %s", got)
	}
}

func TestFleetRights(t *testing.T) {
	list, err := prerequisites()
	if err != nil {
		t.Fatal(err)
	}
	role, binding := decode[rbacv1.ClusterRole](t, list[0]), decode[rbacv1.ClusterRoleBinding](t, list[1])
	if binding.Subjects[0].Name != User || binding.RoleRef.Name != role.Name {
		t.Errorf("the rights go to %v", binding.Subjects)
	}
	for _, rule := range role.Rules {
		for _, list := range [][]string{rule.Verbs, rule.Resources, rule.APIGroups} {
			for _, word := range list {
				if word == "*" {
					t.Errorf("a wildcard in %v", rule)
				}
			}
		}
	}
}
