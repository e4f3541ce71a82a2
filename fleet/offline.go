package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/fleet/device"
	"github.com/berth-dev/berth/fleet/gpu"
	"github.com/berth-dev/berth/kube/dialect/hami"
)

// Booted is a fleet as it is once every node is up and its GPU stack runs, without a cluster: what the API server would
// show of it then.
type Booted struct {
	Nodes          []*corev1.Node
	ResourceSlices []*resourcev1.ResourceSlice
	DeviceClasses  []*resourcev1.DeviceClass
	StorageClasses []*storagev1.StorageClass
}

// Boot makes the objects of the pools' nodes at the time now. It starts nothing. A pool that is not valid has no nodes,
// as in a cluster.
func Boot(pools []v1alpha1.Pool, now time.Time) (Booted, error) {
	var out Booted
	all := make([]*v1alpha1.Pool, len(pools))
	for i := range pools {
		all[i] = &pools[i]
	}
	configs, err := shippedPluginConfigs()
	if err != nil {
		return Booted{}, err
	}
	nodes, _ := wanted(all)
	for i, w := range nodes {
		m := device.New(hardware(w))
		labels := gives(w).Labels
		state := followLabels(m, labels, configs)
		m.SetStack(wholeStack(&w.pool.Spec), now)
		f := facts{want: w, slot: slot(i), gpus: m.Places(), parts: m.PartsOf(), ready: true}
		n := publish(newNode(w, slot(i), f, now), f, m.Advertise(now), now)
		if state != "" {
			n.Labels[migStateLabel] = state
		}
		n.UID, n.CreationTimestamp.Time = types.UID("node-"+n.Name), now.Add(-time.Hour)
		out.Nodes = append(out.Nodes, n)
		if w.pool.Spec.Advertise == v1alpha1.AdvertiseDRA && m.Slices(now).Publish {
			out.ResourceSlices = append(out.ResourceSlices, gpuSlices(n.Name, m, n)...)
		}
		if m.ChannelSlices(now).Publish {
			out.ResourceSlices = append(out.ResourceSlices, channelSlices(n.Name, m, n)...)
		}
	}
	return out, out.addClasses()
}

// followLabels has the GPUs cut and offered as the node's labels have its MIG manager and its device plugin do it, and is what the MIG
// manager says then; "": the node has none. There are no ConfigMaps of anybody's, as in a cluster that has just come up.
func followLabels(m *device.Manager, labels, configs map[string]string) (state string) {
	if text, has := configs[cmp.Or(labels[pluginConfigLabel], defaultPluginConfig)]; has {
		if c, err := parsePluginConfig(text); err == nil {
			m.SetPluginConfig(c)
		}
	}
	if labels[migDeployLabel] != "true" {
		return ""
	}
	specs, found := gpu.NamedMIG(labels[migConfigLabel], m.Devices())
	next, err := gpu.ApplyMIG(specs, m.Devices(), m.Partitions())
	if !found || err != nil || m.Repartition(next) != nil {
		return migFailed
	}
	return migSuccess
}

// shippedPluginConfigs are the configurations of the device plugin that a fleet brings along, by name.
func shippedPluginConfigs() (map[string]string, error) {
	list, err := gpuConfigs()
	if err != nil {
		return nil, err
	}
	var m corev1.ConfigMap
	if err := yaml.Unmarshal(list[0].Body, &m); err != nil {
		return nil, fmt.Errorf("read the configurations of the device plugin: %w", err)
	}
	return m.Data, nil
}

// SchedulersOf are the names of schedulers that come with the pools' GPU stacks, for which Berth's stands in: users of HAMi, which brings a
// scheduler and a webhook along, write its name into pods.
func SchedulersOf(pools []v1alpha1.Pool) []string {
	if slices.ContainsFunc(pools, func(p v1alpha1.Pool) bool { return p.Spec.Sharing == v1alpha1.SharingHAMi }) {
		return []string{hami.SchedulerName}
	}
	return nil
}

// addClasses adds what an installation brings for everybody: classes of volumes and of devices.
func (b *Booted) addClasses() error {
	all, err := classes()
	if err != nil {
		return err
	}
	for _, m := range all {
		var disks storagev1.StorageClass
		if err := yaml.Unmarshal(m.Body, &disks); err != nil {
			return err
		}
		if disks.Kind == "StorageClass" {
			b.StorageClasses = append(b.StorageClasses, &disks)
			continue
		}
		var devices resourcev1.DeviceClass
		if err := yaml.Unmarshal(m.Body, &devices); err != nil {
			return err
		}
		b.DeviceClasses = append(b.DeviceClasses, &devices)
	}
	return nil
}

// wholeStack are the pods of a GPU stack that has come up, for pools that have one.
func wholeStack(s *v1alpha1.PoolSpec) []device.StackPod {
	if s.GPUStack != v1alpha1.GPUStackOperator {
		return nil
	}
	roles := []device.Role{device.Driver, device.Toolkit, device.Plugin, device.GFD, device.Channels}
	switch claimed, hami := s.Advertise == v1alpha1.AdvertiseDRA, s.Sharing == v1alpha1.SharingHAMi; {
	case claimed && hami:
		roles = append(roles, device.HAMiDRA)
	case claimed:
		roles = append(roles, device.DRA)
	case hami:
		roles[2] = device.HAMi
	case s.Sharing == v1alpha1.SharingVolcano:
		roles[2] = device.VGPU
	}
	out := make([]device.StackPod, len(roles))
	for i, r := range roles {
		out[i] = device.StackPod{Name: "gpu-operator/" + string(r), Role: r, Ready: true, HostPaths: []string{"/var/lib/kubelet"}}
	}
	return out
}
