package supply

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
)

// BerthReservations is the kind of facts that Reservations are.
const BerthReservations = "Reservation.berth.dev"

// Reserved is a pool that lacks machines, and a reservation that is to pay for them.
type Reserved struct {
	Pool        *v1alpha1.Pool
	Reservation *v1alpha1.Reservation
	Here        int // machines of pools that draw on the reservation that are nodes
}

// ReservedPools are the pools of Berth that draw on reservations and have fewer nodes than they want, or none, each with each of its
// reservations, where the pod waits for a place and may be on their nodes.
func ReservedPools(c *check.Case) (out []Reserved) {
	if AutoscalerStuck(c) == nil {
		return nil
	}
	pools, here := berthPools(c), make(map[string]int)
	for _, n := range c.Nodes {
		if p := pools[n.Labels[v1alpha1.LabelPool]]; p != nil {
			here[p.Name]++
		}
	}
	for _, u := range c.Foreign[gpustack.BerthPools] {
		p := pools[u.GetName()]
		if p == nil || !podspec.Suits(c.Pod, nodeLike(p)) || p.Spec.Nodes != nil && *p.Spec.Nodes > 0 && here[p.Name] >= int(*p.Spec.Nodes) {
			continue
		}
		for _, name := range p.Spec.Reservations {
			r := &v1alpha1.Reservation{}
			u := c.ForeignNamed(BerthReservations, "", name)
			if u == nil || runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, r) != nil {
				continue
			}
			x := Reserved{Pool: p, Reservation: r}
			//archtest:any-order they are added up
			for _, o := range pools {
				if slices.Contains(o.Spec.Reservations, name) {
					x.Here += here[o.Name]
				}
			}
			out = append(out, x)
		}
	}
	slices.SortFunc(out, func(a, b Reserved) int {
		return cmp.Or(strings.Compare(a.Pool.Name, b.Pool.Name), strings.Compare(a.Reservation.Name, b.Reservation.Name))
	})
	return out
}

func berthPools(c *check.Case) map[string]*v1alpha1.Pool {
	out := make(map[string]*v1alpha1.Pool)
	for _, u := range c.Foreign[gpustack.BerthPools] {
		p := &v1alpha1.Pool{}
		if runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, p) == nil {
			v1alpha1.Default(p)
			out[p.Name] = p
		}
	}
	return out
}

// nodeLike is a node of the pool that is well.
func nodeLike(p *v1alpha1.Pool) *corev1.Node {
	n := &corev1.Node{}
	n.Labels = p.NodeLabels(0)
	n.Spec.Taints = p.NodeTaints()
	n.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU: orMuch(p.Spec.CPU), corev1.ResourceMemory: orMuch(p.Spec.Memory), corev1.ResourcePods: resource.MustParse("110"),
		gpustack.WholeGPU: *resource.NewQuantity(int64(p.GPUsPerNode()), resource.DecimalSI),
	}
	n.Status.Capacity = n.Status.Allocatable
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return n
}

// Probe stands for the pool having its machines.
func (r Reserved) Probe(c *check.Case) *edit.Edit {
	like := nodeLike(r.Pool)
	var set []facts.Object
	for i := range autoscalerCount(c, like) {
		n := like.DeepCopy()
		n.Name = fmt.Sprintf("%s-new-%d", r.Pool.Name, i)
		n.UID = types.UID("new-" + n.Name)
		n.Labels = gpustack.WithLabel(n.Labels, corev1.LabelHostname, n.Name)
		set = append(set, n)
	}
	return &edit.Edit{Side: edit.Cluster, Text: "have pool " + r.Pool.Name + " make nodes", Set: set}
}

func orMuch(q *resource.Quantity) resource.Quantity {
	if q == nil || q.IsZero() {
		return resource.MustParse("1Ti")
	}
	return *q
}

// Shown is evidence of the reservation: its state, or what its fields say.
func (r Reserved) Shown(field, value string) facts.Evidence {
	return facts.Evidence{Object: facts.Ref{Kind: "Reservation", Name: r.Reservation.Name}.In(), Field: field, Value: value}
}
