package convert

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
)

// Options says what is ours. The zero value works.
type Options struct {
	SchedulerNames []string // of the pods that we place; nil: berth
	GPU            string   // the resource that counts GPUs; "": nvidia.com/gpu
	Around         Around   // what rules between pods depend on
}

// Ours says whether we place pods that name the scheduler.
func (o Options) Ours(schedulerName string) bool {
	if o.SchedulerNames == nil {
		return schedulerName == "berth"
	}
	return slices.Contains(o.SchedulerNames, schedulerName)
}

// GPUResource is the resource that counts GPUs.
func (o Options) GPUResource() string {
	if o.GPU == "" {
		return "nvidia.com/gpu"
	}
	return o.GPU
}

// Labels of GPU Feature Discovery.
const (
	labelProduct  = "nvidia.com/gpu.product"
	labelCount    = "nvidia.com/gpu.count"    // physical GPUs of that product
	labelReplicas = "nvidia.com/gpu.replicas" // how many times each is advertised
)

// Node is the node as the engine sees it. Not-ready and pressure are taints, put there by upstream's
// controllers. One that is above a limit has a taint that says so, and none of its own labels.
func Node(n *corev1.Node, o Options) engine.Node {
	out := engine.Node{
		Name:        n.Name,
		Version:     version(&n.ObjectMeta),
		Pool:        pool(n.Labels),
		Cordoned:    n.Spec.Unschedulable,
		Allocatable: allocatable(n.Status.Allocatable),
	}
	if id := n.Spec.ProviderID; len(id) <= MaxNameBytes {
		out.Machine = id
	}
	if nodeOverLimits(n) {
		out.Cordoned, out.Taints = true, []engine.Taint{overLimitTaint}
		out.Allocatable = out.Allocatable[:min(len(out.Allocatable), MaxNodeResources)]
		return out
	}
	out.Labels = declaring(n)
	for _, t := range n.Spec.Taints {
		out.Taints = append(out.Taints, engine.Taint{Key: t.Key, Value: t.Value, Effect: engine.Effect(t.Effect)})
	}
	out.Quarantine = quarantine(n)
	out.Packing = packing(n.Labels[v1alpha1.LabelPlacement])
	out.Devices = devices(n, out.Allocatable.Get(o.GPUResource()))
	out.Images = imagesOn(n)
	out.Slices = slicesOf(n, out.Allocatable)
	if len(out.Devices) == 0 && len(out.Slices) > 0 {
		out.Model = slicedModel(n.Labels, out.Slices)
	}
	share(n, &out, o.GPUResource())
	withoutBroken(n, &out, o.GPUResource())
	return out
}

// sentinelOverridden is of nodes that somebody has opened again by hand: NVSentinel leaves them alone, and so do we.
const sentinelOverridden = "quarantinedNodeUncordonedManually"

// quarantine is the condition by which a health system says that the node's hardware is not to be trusted; "": none does. Systems
// differ in which status is bad: NVSentinel names conditions after checks, True is bad, and the reason ends in IsNotHealthy; the
// agent of EKS has AcceleratedHardwareReady, where False is. What a condition of an unknown system means is not guessed: work is
// evicted for it.
func quarantine(n *corev1.Node) string {
	if n.Annotations[sentinelOverridden] != "" {
		return ""
	}
	for i := range n.Status.Conditions {
		c := &n.Status.Conditions[i]
		switch {
		case c.Status == corev1.ConditionTrue && strings.HasSuffix(c.Reason, "IsNotHealthy"),
			c.Status == corev1.ConditionFalse && c.Type == "AcceleratedHardwareReady":
			return string(c.Type)
		}
	}
	return ""
}

// version is the resourceVersion, 0 where it is no number.
func version(o *metav1.ObjectMeta) uint64 {
	v, err := strconv.ParseUint(o.ResourceVersion, 10, 64)
	if err != nil {
		return 0
	}
	return v
}

// pool is the node's pool in the words of whoever made the node.
func pool(labels map[string]string) string {
	for _, key := range []string{v1alpha1.KeyPrefix + "pool", "karpenter.sh/nodepool", "cloud.google.com/gke-nodepool", "gpu-pool"} {
		if v := labels[key]; v != "" {
			return v
		}
	}
	return ""
}

// packing is a placement of a queue, or of a pool on its nodes, as the engine has it. Whole nodes are for workloads to ask for.
func packing(placement string) engine.Packing {
	switch placement {
	case string(v1alpha1.PlacementPack):
		return engine.Tight
	case string(v1alpha1.PlacementSpread):
		return engine.Loose
	}
	return ""
}

// devices has one device for each GPU that the node offers, where its labels say what they are. A device plugin tells no
// more than a count: where nobody wrote down how they lie, the IDs are ours, and cliques and NUMA nodes are not known.
// The label nvidia.com/gpu.clique is of the node, not of a device, and serves as a level of the topology.
func devices(n *corev1.Node, gpus int64) []engine.Device {
	product := n.Labels[labelProduct]
	if product == "" || gpus <= 0 || gpus > MaxNodeGPUs || !whole(n.Labels, gpus) {
		return nil
	}
	model, _ := shortModel(product)
	if places, _ := gpuPlaces(n); healthy(places) == gpus {
		return placed(n.Name, model, places)
	}
	out := make([]engine.Device, gpus)
	for i := range out {
		out[i] = engine.Device{ID: deviceID(n.Name, i, ""), Model: model, NUMA: -1}
	}
	return out
}

// whole says whether each unit that the node offers is one GPU of the product in its labels: not a MIG
// instance, not a share of a GPU, and not another model, which is in none of the labels.
func whole(labels map[string]string, gpus int64) bool {
	if strings.Contains(labels[labelProduct], "-MIG-") || strings.HasSuffix(labels[labelProduct], "-SHARED") {
		return false
	}
	if r, err := strconv.Atoi(labels[labelReplicas]); err == nil && r > 1 {
		return false
	}
	count, err := strconv.ParseInt(labels[labelCount], 10, 64)
	return err != nil || gpus <= count
}
