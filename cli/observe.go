package cli

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-dev/berth/controlplane/home"
	"github.com/berth-dev/berth/fleet"
	"github.com/berth-dev/berth/fleet/dra"
)

// lookTimeout bounds how long `status` waits for a cluster to answer.
const lookTimeout = 5 * time.Second

// clusterUse is what the API server says.
type clusterUse struct {
	Nodes nodeCount `json:"nodes"`
	GPUs  gpuCount  `json:"gpus"`

	worker string // a node that takes ordinary pods; empty: none
}

type nodeCount struct {
	Total int `json:"total"`
	Ready int `json:"ready"`
}

type gpuCount struct {
	Capacity    int `json:"capacity"`
	Allocatable int `json:"allocatable"`
	Requested   int `json:"requested"` // by pods that are bound and not over, or allocated to claims
}

// share is the part of the GPUs that pods hold, in percent.
func (g gpuCount) share() string {
	if g.Allocatable == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f%%", 100*float64(g.Requested)/float64(g.Allocatable))
}

// observed is what a cluster's API server holds that `status` counts.
type observed struct {
	nodes  []corev1.Node
	pods   []corev1.Pod // bound and not over
	slices []resourcev1.ResourceSlice
	claims []resourcev1.ResourceClaim
}

// look asks the cluster itself.
func look(ctx context.Context, d home.Dir) (clusterUse, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	cfg, err := clientConfig(d)
	if err != nil {
		return clusterUse{}, err
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return clusterUse{}, err
	}
	o, err := observe(ctx, client)
	return o.count(), err
}

func observe(ctx context.Context, client kubernetes.Interface) (o observed, err error) {
	cached := metav1.ListOptions{ResourceVersion: "0"}
	bound := metav1.ListOptions{ResourceVersion: "0", FieldSelector: "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"}
	nodes, err := client.CoreV1().Nodes().List(ctx, cached)
	if err != nil {
		return o, err
	}
	pods, err := client.CoreV1().Pods("").List(ctx, bound)
	if err != nil {
		return o, err
	}
	slices, err := client.ResourceV1().ResourceSlices().List(ctx, cached)
	if err != nil {
		return o, err
	}
	claims, err := client.ResourceV1().ResourceClaims("").List(ctx, cached)
	if err != nil {
		return o, err
	}
	return observed{nodes.Items, pods.Items, slices.Items, claims.Items}, nil
}

const gpuResource corev1.ResourceName = "nvidia.com/gpu"

// count adds up nodes and GPUs, whether these are advertised by device plugins or by DRA.
func (o observed) count() clusterUse {
	var u clusterUse
	u.Nodes.Total = len(o.nodes)
	for i := range o.nodes {
		u.addNode(&o.nodes[i])
	}
	for i := range o.pods {
		for _, c := range o.pods[i].Spec.Containers {
			u.GPUs.Requested += quantity(c.Resources.Limits)
		}
	}
	gpus := o.offered()
	for _, g := range gpus {
		if !g.part {
			u.GPUs.Capacity++
			u.GPUs.Allocatable++
		}
	}
	held := make(map[string]bool)
	for i := range o.claims {
		if a := o.claims[i].Status.Allocation; a != nil {
			for _, r := range a.Devices.Results {
				if r.Driver == dra.Driver {
					held[cmp.Or(gpus[[2]string{r.Pool, r.Device}].uuid, r.Pool+"/"+r.Device)] = true
				}
			}
		}
	}
	u.GPUs.Requested += len(held)
	return u
}

// offeredGPU is a GPU that is offered through DRA, or a part of one.
type offeredGPU struct {
	uuid string // of the GPU
	part bool
}

// offered are the devices of NVIDIA's driver by pool and name. A GPU that may be divided is offered as a whole and in every part
// that it could have.
func (o observed) offered() map[[2]string]offeredGPU {
	out := make(map[[2]string]offeredGPU)
	for i := range o.slices {
		s := &o.slices[i].Spec
		if s.Driver != dra.Driver {
			continue
		}
		for _, d := range s.Devices {
			text := func(name resourcev1.QualifiedName) (v string) {
				if a := d.Attributes[name].StringValue; a != nil {
					v = *a
				}
				return v
			}
			g := offeredGPU{uuid: text("uuid")}
			if parent := text("parentUUID"); parent != "" {
				g = offeredGPU{uuid: parent, part: true}
			}
			out[[2]string{s.Pool.Name, d.Name}] = g
		}
	}
	return out
}

func (u *clusterUse) addNode(n *corev1.Node) {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			u.Nodes.Ready++
		}
	}
	if u.worker == "" && len(n.Spec.Taints) == 0 {
		u.worker = n.Name
	}
	u.GPUs.Capacity += quantity(n.Status.Capacity)
	u.GPUs.Allocatable += quantity(n.Status.Allocatable)
}

// quantity counts GPUs, MIG devices and shares of GPUs: whatever a device plugin of NVIDIA's offers.
func quantity(l corev1.ResourceList) int {
	n := 0
	for name, q := range l {
		if fleet.IsGPU(name) {
			n += int(q.Value())
		}
	}
	return n
}
