package cli

import (
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
	for i := range o.slices {
		if s := &o.slices[i].Spec; s.Driver == dra.Driver {
			u.GPUs.Capacity += len(s.Devices)
			u.GPUs.Allocatable += len(s.Devices)
		}
	}
	for i := range o.claims {
		u.addClaim(&o.claims[i])
	}
	return u
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

func (u *clusterUse) addClaim(c *resourcev1.ResourceClaim) {
	if c.Status.Allocation == nil {
		return
	}
	for _, r := range c.Status.Allocation.Devices.Results {
		if r.Driver == dra.Driver {
			u.GPUs.Requested++
		}
	}
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
