package provisioner

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/api/v1alpha1"
)

func gpuNode(name, zone string, gpus int64) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelTopologyZone: zone, corev1.LabelInstanceTypeStable: "sim.8x-h200"}}}
	n.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("96"), "memory": resource.MustParse("1Ti"), "pods": resource.MustParse("110"), "nvidia.com/gpu": *resource.NewQuantity(gpus, resource.DecimalSI)}
	n.Status.Capacity = n.Status.Allocatable.DeepCopy()
	return n
}

func gpuPod(name string, gpus int64) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name)}}
	p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(gpus, resource.DecimalSI)}}}}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
	return p
}

func oneTemplate(limits corev1.ResourceList, zones ...string) *template {
	t := &template{pool: &nodePool{}, remaining: limits}
	t.pool.Name = "h200"
	class := &v1alpha1.Pool{ObjectMeta: metav1.ObjectMeta{Name: "h200"}}
	for _, z := range zones {
		t.offers = append(t.offers, offer{class: class, zone: z, from: v1alpha1.CapacityOnDemand, left: unlimited, node: gpuNode("", z, 8)})
	}
	return t
}

// A limit counts what it names and nothing else, and the second claim of one look counts the first.
func TestLimits(t *testing.T) {
	nodes := func(n int64) corev1.ResourceList {
		return corev1.ResourceList{"nodes": *resource.NewQuantity(n, resource.DecimalSI)}
	}
	tmpl := oneTemplate(nodes(2), "a")
	for i, want := range []string{"", "", "all available instance types exceed limits for nodepool (NodePool=h200)"} {
		_, err := open([]*template{tmpl}, gpuPod("p", 8))
		if got := message(err); got != want {
			t.Errorf("claim %d: %q, want %q", i, got, want)
		}
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// Why a NodePool has no node for a pod, in Karpenter's words.
func TestRefusals(t *testing.T) {
	tainted := oneTemplate(nil, "a")
	tainted.offers[0].node.Spec.Taints = []corev1.Taint{{Key: "team", Value: "x", Effect: corev1.TaintEffectNoSchedule}}
	elsewhere, unknown := gpuPod("p", 8), gpuPod("p", 8)
	elsewhere.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: "c"}
	unknown.Spec.NodeSelector = map[string]string{"disk": "nvme"}
	refused := oneTemplate(nil)
	refused.all = true
	for _, c := range []struct {
		of   *template
		pod  *corev1.Pod
		want string
	}{
		{oneTemplate(nil, "a"), gpuPod("p", 16), "no instance type has enough resources, requirements="},
		{tainted, gpuPod("p", 8), "did not tolerate taint (taint=team=x:NoSchedule)"},
		{oneTemplate(nil, "a", "b"), elsewhere, "incompatible requirements, key topology.kubernetes.io/zone, topology.kubernetes.io/zone In [c] not in topology.kubernetes.io/zone In [a b]"},
		{oneTemplate(nil, "a"), unknown, `incompatible requirements, label "disk" does not have known values`},
		{refused, gpuPod("p", 8), "no instance type which met the scheduling requirements and had enough resources, had a required offering, requirements="},
		{oneTemplate(nil), gpuPod("p", 8), "nodepool requirements filtered out all available instance types"},
	} {
		if _, err := open([]*template{c.of}, c.pod); !strings.HasPrefix(message(err), c.want) {
			t.Errorf("%q, want %q", message(err), c.want)
		}
	}
}

// No node is given more than it has, and no pod that fits on an empty node is left without one.
func TestPackProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		tmpl := oneTemplate(nil, "a", "b")
		var plans []*planned
		total := int64(0)
		for range rapid.IntRange(1, 30).Draw(rt, "pods") {
			n := rapid.Int64Range(1, 8).Draw(rt, "gpus")
			total += n
			p := gpuPod("p", n)
			placed := false
			for _, x := range plans {
				if placed = x.add(p) == nil; placed {
					break
				}
			}
			if !placed {
				x, err := open([]*template{tmpl}, p)
				if err != nil {
					rt.Fatalf("a pod of %d: %v", n, err)
				}
				plans = append(plans, x)
			}
		}
		sum := int64(0)
		for i, x := range plans {
			used := int64(0)
			for _, p := range x.pods {
				q := requests(p)["nvidia.com/gpu"]
				used += q.Value()
			}
			if sum += used; used > 8 {
				rt.Fatalf("claim %d has %d of 8", i, used)
			}
		}
		if sum != total {
			rt.Fatalf("%d of %d GPUs are on claims", sum, total)
		}
		if len(plans) > 1 && int64(len(plans)) > (2*total+7)/8+1 {
			rt.Fatalf("%d claims for %d GPUs: two that are half empty", len(plans), total)
		}
	})
}

// A claim takes a machine of a reservation while there is one, and then no other claim does.
func TestReserve(t *testing.T) {
	tmpl := oneTemplate(nil, "a")
	class := tmpl.offers[0].class
	tmpl.offers = append([]offer{{class: class, zone: "a", from: v1alpha1.CapacityReserved, reservation: "block", left: 1, node: gpuNode("", "a", 8)}}, tmpl.offers...)
	for i, want := range []v1alpha1.CapacityType{v1alpha1.CapacityReserved, v1alpha1.CapacityOnDemand} {
		n, err := open([]*template{tmpl}, gpuPod("p", 8))
		if err != nil || len(n.offers) != 1 || n.offers[0].from != want {
			t.Fatalf("claim %d: %v, %+v, want %s", i, err, n, want)
		}
	}
}

// Pods are looked at once none came for a second, or the first waits for ten.
func TestBatch(t *testing.T) {
	now := time.Date(2026, 11, 18, 0, 0, 0, 0, time.UTC)
	at := func(ago ...time.Duration) *world {
		w := &world{now: now}
		for _, d := range ago {
			p := gpuPod("p", 8)
			p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(now.Add(-d))
			w.pods = append(w.pods, p)
		}
		return w
	}
	for _, c := range []struct {
		w    *world
		want int
	}{{at(0), 0}, {at(2 * time.Second), 1}, {at(3*time.Second, 0), 0}, {at(11*time.Second, 0), 2}, {at(), 0}} {
		if got := len(pending(c.w, batchIdle, batchMax)); got != c.want {
			t.Errorf("%d pods, want %d", got, c.want)
		}
	}
}

func TestBudget(t *testing.T) {
	for _, c := range []struct {
		text        string
		total, want int
	}{{"10%", 2, 1}, {"10%", 11, 2}, {"0", 5, 0}, {"3", 5, 3}, {"100%", 7, 7}, {"x", 7, 0}, {"0%", 7, 0}} {
		if got := budgetOf(c.text, c.total); got != c.want {
			t.Errorf("budgetOf(%s, %d) = %d, want %d", c.text, c.total, got, c.want)
		}
	}
}

// Ready follows from what it depends on, and a condition keeps its time while it stays what it is.
func TestConditions(t *testing.T) {
	now := time.Date(2026, 11, 18, 0, 0, 0, 0, time.UTC)
	var list []metav1.Condition
	c := conditions{list: &list, generation: 1, now: now, of: []string{condLaunched, condRegistered, condInitialized}}
	c.begin()
	if r := c.get(condReady); r.Status != metav1.ConditionUnknown || r.Reason != "ReconcilingDependents" {
		t.Errorf("Ready is %+v", r)
	}
	for _, name := range c.of {
		c.set(name, metav1.ConditionTrue, name, "")
	}
	if !c.is(condReady) {
		t.Errorf("Ready is %+v", c.get(condReady))
	}
	c.now = now.Add(time.Hour)
	c.set(condLaunched, metav1.ConditionTrue, condLaunched, "")
	if at := c.get(condLaunched).LastTransitionTime.Time; !at.Equal(now) {
		t.Errorf("it is True since %s", at)
	}
	c.set(condRegistered, metav1.ConditionFalse, "MultipleNodesFound", "x")
	if r := c.get(condReady); r.Status != metav1.ConditionFalse || r.Message != "Registered=False" {
		t.Errorf("Ready is %+v", r)
	}
}

func TestMeets(t *testing.T) {
	labels := map[string]string{"zone": "a", "gpus": "8"}
	for _, c := range []struct {
		op, values string
		want       bool
	}{{"In", "a b", true}, {"In", "b", false}, {"NotIn", "b", true}, {"Exists", "", true}, {"DoesNotExist", "", false}, {"Gt", "1", false}} {
		r := []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOperator(c.op), Values: strings.Fields(c.values)}}
		if got := meets(r, labels); got != c.want {
			t.Errorf("%s [%s]: %v", c.op, c.values, got)
		}
	}
	if !meets([]corev1.NodeSelectorRequirement{{Key: "gpus", Operator: "Gte", Values: []string{"8"}}}, labels) || meets([]corev1.NodeSelectorRequirement{{Key: "none", Operator: "In", Values: []string{"8"}}}, labels) {
		t.Error("Gte, or a label that is not there")
	}
}

// A group grows for whom it has room, up to its most, and says why it does not.
func TestEstimate(t *testing.T) {
	s := newAutoscaler(nil)
	w := &world{now: time.Now()}
	g := &group{offer: offer{node: gpuNode("", "a", 8)}, name: "h200-a", size: 1, max: 3}
	g.offer.node.Labels = map[string]string{}
	n, helped := g.estimate(w, []*corev1.Pod{gpuPod("a", 8), gpuPod("b", 8), gpuPod("c", 8), gpuPod("d", 16)})
	if n != 2 || len(helped) != 2 {
		t.Errorf("%d nodes for %d pods", n, len(helped))
	}
	if got := s.refusals(w, []*group{g}, gpuPod("d", 16)); got != "1 Insufficient nvidia.com/gpu" {
		t.Error(got)
	}
	g.size = 3
	if got := s.refusals(w, []*group{g, g}, gpuPod("d", 8)); got != "2 max node group size reached" {
		t.Error(got)
	}
}
