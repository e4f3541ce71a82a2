package fleet

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/fleet/device"
	"github.com/berth-dev/berth/fleet/fault"
	"github.com/berth-dev/berth/kube/dialect/hami"
)

const (
	// featureLabelsAnnotation is where Node Feature Discovery lists the labels it wrote, without
	// which it could not take one back.
	featureLabelsAnnotation = "nfd.node.kubernetes.io/feature-labels"
	// pluginAnnotation stands for the kubelet's device checkpoint: after a restart it tells a
	// resource that a device plugin had registered from one that a user wrote into the status.
	pluginAnnotation = v1alpha1.KeyDevicePluginResource
	// migAnnotation stands for what the GPUs themselves know: how MIG has cut them.
	migAnnotation = v1alpha1.KeyMIG
)

// facts is what a machine knows of itself without looking at the node object.
type facts struct {
	want want
	slot slot
	port int32 // of the kubelet's endpoint
	gpus []device.Place
	// parts is how many pods may share each GPU, where an agent gives parts of them; 0: there is none.
	parts int
	// images are those that were pulled since this process began. What the node had before, it has still.
	images []corev1.ContainerImage
	ready  bool           // booted: kubelet and network are up
	faults *fault.Effects // nil: none
}

// publish is the node with the status its kubelet would write and the labels its GPU Feature
// Discovery would, as a copy. It changes only what a kubelet owns; conditions, capacities,
// labels and annotations of others stay. Both go out in one write of the status subresource,
// which for nodes carries metadata too.
func publish(node *corev1.Node, f facts, adv device.Advertisement, now time.Time) *corev1.Node {
	out := node.DeepCopy()
	plugin := pluginState(out, f.want.pool.Spec.ExtendedResources, adv)
	if f.want.byHand {
		out.Status.Capacity = alsoOffered(out.Status.Capacity, out.Status.Allocatable)
	}
	out.Status.Capacity = capacity(out.Status.Capacity, f.want.pool, plugin)
	out.Status.Allocatable = allocatable(out.Status.Allocatable, out.Status.Capacity, plugin)
	if f.want.byHand {
		keepOffered(out.Status.Allocatable, node.Status.Allocatable)
	}
	heal(out, f.faults)
	out.Status.Conditions = conditions(out.Status.Conditions, f.ready, f.faults, now)
	out.Status.Addresses = []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: f.slot.nodeIP()},
		{Type: corev1.NodeHostName, Address: out.Name},
		{Type: corev1.NodeExternalDNS, Address: "localhost"}, // where the API server finds the kubelet
	}
	out.Status.DaemonEndpoints.KubeletEndpoint.Port = f.port
	out.Status.NodeInfo = nodeInfo(out.Name)
	out.Status.DeclaredFeatures = declaredFeatures()
	out.Status.Images = imageList(out.Status.Images, f.images)
	rememberPlugin(out, plugin)
	keepAnnotation(out, migAnnotation, adv.Partitions)
	labelFeatures(out, adv.Labels)
	if adv.Labels != nil {
		tellTopology(out, f.gpus, f.parts)
	}
	for _, e := range hami.Editions() {
		if adv.Registers == e.Name {
			registerParts(out, &e, f.gpus, now)
		}
	}
	return out
}

const (
	// statusFrequency is how long a kubelet takes to tell of an image (nodeStatusUpdateFrequency), in wall time like leases.
	statusFrequency = 10 * time.Second
	// mostImages is how many images a kubelet tells of, the largest (nodeStatusMaxImages).
	mostImages = 50
)

// imageList is the images that the node had and those that were pulled, the largest first.
func imageList(had, pulled []corev1.ContainerImage) []corev1.ContainerImage {
	out := slices.Clone(pulled)
	for _, im := range had {
		known := slices.ContainsFunc(pulled, func(o corev1.ContainerImage) bool { return slices.Equal(o.Names, im.Names) })
		if !known && len(im.Names) > 0 {
			out = append(out, im)
		}
	}
	slices.SortFunc(out, func(a, b corev1.ContainerImage) int {
		return cmp.Or(cmp.Compare(b.SizeBytes, a.SizeBytes), slices.Compare(a.Names, b.Names))
	})
	return out[:min(len(out), mostImages)]
}

// tellTopology writes where the node's GPUs lie, which no label of GPU Feature Discovery says. While that does not run,
// nobody has looked, and what is there stays.
func tellTopology(node *corev1.Node, devices []device.Place, parts int) {
	if len(devices) == 0 {
		return
	}
	places := make([]v1alpha1.GPUPlace, len(devices))
	for i := range devices {
		d := &devices[i]
		places[i] = v1alpha1.GPUPlace{ID: d.UUID, NUMA: &d.NUMA, Unhealthy: d.Unhealthy}
		if d.NVLink >= 0 {
			places[i].NVLink = strconv.Itoa(d.NVLink)
		}
		if parts > 0 {
			places[i].Memory, places[i].Parts = int64(d.MemoryMiB), parts
		}
	}
	text, _ := json.Marshal(places) // plain strings and numbers always can be
	node.Annotations = cloneLabels(node.Annotations)
	node.Annotations[v1alpha1.KeyGPUTopology] = string(text)
}

// registerParts writes the GPUs of the node as that edition of HAMi's device plugin does. HAMi's own answers its scheduler's handshake:
// whoever schedules asks with Requesting_TIME, and the plugin replies with Reported_TIME (docs/develop/protocol.md of HAMi).
func registerParts(node *corev1.Node, e *hami.Edition, devices []device.Place, now time.Time) {
	list := make([]hami.Device, len(devices))
	for i := range devices {
		d := &devices[i]
		product := d.Model.Product
		if !strings.HasPrefix(product, "NVIDIA") {
			product = "NVIDIA-" + product
		}
		list[i] = hami.Device{
			ID: d.UUID, Index: uint(d.Index), Count: device.HAMiSplit, Memory: int32(d.MemoryMiB), Cores: 100,
			Type: product, NUMA: d.NUMA, Mode: hami.Core, Health: !d.Unhealthy,
		}
	}
	keepAnnotation(node, e.Register, e.Registration(list))
	if e.Name != hami.Own().Name {
		return
	}
	if has := node.Annotations[hami.KeyHandshake]; has == "" || strings.HasPrefix(has, "Requesting") {
		keepAnnotation(node, hami.KeyHandshake, "Reported_"+now.UTC().Format(time.DateTime))
	}
}

func nodeInfo(node string) corev1.NodeSystemInfo {
	return corev1.NodeSystemInfo{
		MachineID:               machineID(node),
		SystemUUID:              uuidOf("system", node),
		BootID:                  uuidOf("boot", node),
		KernelVersion:           kernelVersion,
		OSImage:                 osImage,
		ContainerRuntimeVersion: runtimeVersion,
		KubeletVersion:          kubeletVersion,
		OperatingSystem:         system,
		Architecture:            architecture,
	}
}

// labelFeatures writes what GPU Feature Discovery found, and takes back what it no longer finds.
// While it does not run (nil), its labels stay as they are: they are Node Feature Discovery's by
// then.
func labelFeatures(node *corev1.Node, found map[string]string) {
	if found == nil {
		return
	}
	node.Labels, node.Annotations = cloneLabels(node.Labels), cloneLabels(node.Annotations)
	for key := range strings.SplitSeq(node.Annotations[featureLabelsAnnotation], ",") {
		if _, still := found[key]; !still {
			delete(node.Labels, key)
		}
	}
	maps.Copy(node.Labels, found)
	node.Annotations[featureLabelsAnnotation] = strings.Join(slices.Sorted(maps.Keys(found)), ",")
}
