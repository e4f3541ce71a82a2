package provisioner

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	podresource "k8s.io/component-helpers/resource"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// This file is how both find nodes for pods that wait: one after the other, each onto the first node that has room. Selectors, required
// node affinity, taints and resources count; topology spread, affinity between pods and volumes do not.

// bin is a node with what is free on it.
type bin struct {
	node *corev1.Node // or one as it would be
	free corev1.ResourceList
	pods []*corev1.Pod // that were put here
}

// newBin has room for what the node offers, less what runs on it.
func newBin(n *corev1.Node, running []*corev1.Pod) *bin {
	b := &bin{node: n, free: n.Status.Allocatable.DeepCopy()}
	for _, p := range running {
		subtract(b.free, requests(p))
	}
	return b
}

func (b *bin) put(p *corev1.Pod) {
	b.pods = append(b.pods, p)
	subtract(b.free, requests(p))
}

// requests are what a pod needs of a node, itself included.
func requests(p *corev1.Pod) corev1.ResourceList {
	out := podresource.PodRequests(p, podresource.PodResourcesOptions{})
	out[corev1.ResourcePods] = *resource.NewQuantity(1, resource.DecimalSI)
	return out
}

func subtract(from, what corev1.ResourceList) {
	for name, q := range what {
		have := from[name]
		have.Sub(q)
		from[name] = have
	}
}

// spend subtracts what is limited, and leaves out what is not.
func spend(limits, what corev1.ResourceList) {
	for name, have := range limits {
		have.Sub(what[name])
		limits[name] = have
	}
}

func add(to, what corev1.ResourceList) {
	for name, q := range what {
		have := to[name]
		have.Add(q)
		to[name] = have
	}
}

// missing is the first resource that there is too little of, in order of name; "": there is enough.
func missing(free, need corev1.ResourceList) corev1.ResourceName {
	var short []corev1.ResourceName
	for name, q := range need {
		if have := free[name]; !q.IsZero() && have.Cmp(q) < 0 {
			short = append(short, name)
		}
	}
	if len(short) == 0 {
		return ""
	}
	return slices.Min(short)
}

// untolerated is the first taint that keeps the pod away; nil: none does. ignore are taints that will go by themselves.
func untolerated(p *corev1.Pod, taints []corev1.Taint, ignore func(*corev1.Taint) bool) *corev1.Taint {
	for i := range taints {
		t := &taints[i]
		if t.Effect == corev1.TaintEffectPreferNoSchedule || ignore != nil && ignore(t) {
			continue
		}
		if !slices.ContainsFunc(p.Spec.Tolerations, func(o corev1.Toleration) bool { return o.ToleratesTaint(klog.Background(), t, false) }) {
			return t
		}
	}
	return nil
}

// selects says whether the pod may be on the node by its selector and its required affinity.
func selects(p *corev1.Pod, n *corev1.Node) bool {
	ok, err := nodeaffinity.GetRequiredNodeAffinity(p).Match(n)
	return ok && err == nil
}

// admits says whether the pod could be put here.
func (b *bin) admits(p *corev1.Pod, ignore func(*corev1.Taint) bool) bool {
	return !b.node.Spec.Unschedulable && selects(p, b.node) && untolerated(p, b.node.Spec.Taints, ignore) == nil && missing(b.free, requests(p)) == ""
}

// overhead is what DaemonSets put on a node.
func overhead(daemons []*appsv1.DaemonSet, n *corev1.Node) corev1.ResourceList {
	out := corev1.ResourceList{}
	for _, d := range daemons {
		p := &corev1.Pod{Spec: d.Spec.Template.Spec}
		everywhere := append(slices.Clone(p.Spec.Tolerations), corev1.Toleration{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists})
		p.Spec.Tolerations = everywhere
		if selects(p, n) && untolerated(p, n.Spec.Taints, nil) == nil {
			add(out, requests(p))
		}
	}
	return out
}

// offer is machines that a pool may ask for: of one zone, paid for in one way.
type offer struct {
	class       *v1alpha1.Pool
	zone        string
	from        v1alpha1.CapacityType
	reservation string // of reserved ones
	left        int    // how many there are at most
	node        *corev1.Node
}

func (o *offer) key() string { return o.class.Name + "/" + o.zone + "/" + string(o.from) }

// unlimited is how many machines there are where nobody says.
const unlimited = 1 << 30

// offers are what the pool may ask for, in the order of its own: by how it is paid for, then zone.
func (a *api) offers(w *world, p *v1alpha1.Pool) (out []offer) {
	l := p.Spec.Launch
	zones := l.Zones
	if len(zones) == 0 {
		zones = []string{p.Spec.Topology.Zone}
	}
	for _, from := range l.From {
		for _, zone := range zones {
			node, err := a.sample(p, zone, from)
			if err != nil {
				a.Log.Warn("pool", "pool", p.Name, "err", err)
				return nil
			}
			o := offer{class: p, zone: zone, from: from, left: unlimited, node: node}
			if from == v1alpha1.CapacityReserved {
				if o.reservation, o.left = w.reserved(p, zone); o.left == 0 {
					continue
				}
			}
			out = append(out, o)
		}
	}
	return out
}

// reserved is the pool's first reservation that has machines left in the zone, and how many.
func (w *world) reserved(p *v1alpha1.Pool, zone string) (string, int) {
	for _, name := range p.Spec.Reservations {
		i := slices.IndexFunc(w.reservations, func(r v1alpha1.Reservation) bool { return r.Name == name })
		if i < 0 {
			continue
		}
		r := &w.reservations[i]
		used := 0
		for j := range w.machines {
			if w.machines[j].Spec.Reservation == name {
				used++
			}
		}
		if r.StateAt(w.now) == v1alpha1.ReservationActive && r.Spec.InZone(zone) && r.Spec.LikePool(p) && used < int(r.Spec.Instances) {
			return name, int(r.Spec.Instances) - used
		}
	}
	return "", 0
}

// sample is a node as the pool makes them in the zone, without what is of one node alone.
func (a *api) sample(p *v1alpha1.Pool, zone string, from v1alpha1.CapacityType) (*corev1.Node, error) {
	key := fmt.Sprintf("%s/%s/%d/%s/%s", p.Name, p.UID, p.Generation, zone, from)
	if n := a.samples[key]; n != nil {
		return n, nil
	}
	n, err := a.Like(p.InZone(zone, from), 0)
	if err != nil {
		return nil, err
	}
	n = n.DeepCopy()
	n.Annotations, n.UID = nil, ""
	delete(n.Labels, corev1.LabelHostname)
	for k := range a.samples {
		if strings.HasPrefix(k, p.Name+"/") && !strings.HasPrefix(k, fmt.Sprintf("%s/%s/%d/", p.Name, p.UID, p.Generation)) {
			delete(a.samples, k)
		}
	}
	a.samples[key] = n
	return n, nil
}

// asksForNodes says whether a scheduler found that the pod fits on no node, and nothing else is under way for it
// (Karpenter: pkg/utils/pod/scheduling.go, IsProvisionable).
func asksForNodes(p *corev1.Pod) bool {
	if p.Spec.NodeName != "" || p.Status.NominatedNodeName != "" || p.DeletionTimestamp != nil || ownedBy(p, "DaemonSet") || ownedBy(p, "Node") {
		return false
	}
	return unschedulable(p) != nil
}

// unschedulable is the condition by which a scheduler says so; nil: it does not.
func unschedulable(p *corev1.Pod) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
			return c
		}
	}
	return nil
}

func ownedBy(p *corev1.Pod, kind string) bool {
	return slices.ContainsFunc(p.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == kind })
}
