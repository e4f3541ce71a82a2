package cluster

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
)

// The group that the Job controller makes for every Job asks nothing of its pods: they are what they would be without it,
// whichever comes first, and stay so when it goes before them. One with a gang policy is a gang.
func TestGroupThatAsksNothing(t *testing.T) {
	made := func(name string) *schedulingv1beta1.PodGroup {
		g := group(name, 0)
		g.Spec.SchedulingPolicy = schedulingv1beta1.PodGroupSchedulingPolicy{Basic: &schedulingv1beta1.BasicSchedulingPolicy{}}
		g.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: name, UID: "job", Controller: new(true)}}
		return g
	}
	workload := func(f *clock, key string) string { return f.Find(key).Workload }
	for _, first := range []string{"the group", "the pod"} {
		f := newClock()
		g := made("train")
		g.UID, g.ResourceVersion = "g", "1"
		alone := edited(grouped("alone", "train"), func(p *corev1.Pod) { p.UID, p.ResourceVersion = "a", "2" })
		gang := edited(grouped("gang", "train"), func(p *corev1.Pod) { p.UID, p.ResourceVersion, p.Annotations["berth.dev/gang"] = "b", "3", "ours" })
		if first == "the group" {
			f.Set(g)
		}
		f.Set(alone)
		f.Set(gang)
		if first == "the pod" {
			f.Set(g)
		}
		f.Settle()
		for range 2 {
			if a, b := workload(f, "default/alone"), workload(f, "default/gang"); a != "default/alone" || b != "default/gang/ours" {
				t.Errorf("%s comes first: workloads %s, %s", first, a, b)
			}
			f.Remove(g)
			alone.ResourceVersion = "9"
			f.Set(alone)
			f.Settle()
		}
		for _, c := range f.changes.take() {
			if c.Gang != nil && c.Gang.Key == "default/podgroup/train" {
				t.Errorf("%s comes first: the engine has its group", first)
			}
		}
		asks := made("train")
		asks.Spec.SchedulingPolicy = schedulingv1beta1.PodGroupSchedulingPolicy{Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: 2}}
		f = newClock()
		f.Set(asks)
		f.Set(alone)
		if got := workload(f, "default/alone"); got != "default/podgroup/train" {
			t.Errorf("with a gang policy: %s", got)
		}
	}
}

// basic is a PodGroup that has nothing for its pods in common.
func basic(name string) *schedulingv1beta1.PodGroup {
	g := group(name, 0)
	g.UID, g.ResourceVersion = types.UID(name), "1"
	g.Spec.SchedulingPolicy = schedulingv1beta1.PodGroupSchedulingPolicy{Basic: &schedulingv1beta1.BasicSchedulingPolicy{}}
	return g
}

// Pods of a PodGroup with the basic policy are workloads of their own, with what the group says: each may have others evicted. What groups
// have in common makes their pods one workload.
func TestPodsOfABasicGroup(t *testing.T) {
	f := newClock()
	f.Set(node("n1", "r1", 1))
	f.Set(node("n2", "r1", 1))
	for i, name := range []string{"low-1", "low-2"} {
		f.Set(edited(pod(name, 1), func(p *corev1.Pod) {
			p.UID, p.ResourceVersion, p.Spec.NodeName = types.UID(name), "2", []string{"n1", "n2"}[i]
		}))
	}
	high := func(p *corev1.Pod) {
		p.UID, p.ResourceVersion, p.Spec.Priority = types.UID(p.Name), "3", new(int32(10))
	}
	f.Set(edited(grouped("g-0", "g"), high))
	f.Set(edited(grouped("g-1", "g"), high))
	f.Settle()
	if got := f.Find("default/g-0").Workload; got != "default/podgroup/g" {
		t.Errorf("without its group it is %s", got)
	}
	g := basic("g")
	g.Spec.Priority, g.Annotations = new(int32(10)), map[string]string{"berth.dev/max-run": "1h"}
	f.Set(g)
	f.Settle()
	state := engine.Load(engine.Snapshot{}, engine.Config{})
	apply := func() engine.Plan {
		t.Helper()
		f.Settle()
		if r := state.Apply(f.changes.take()...); len(r) > 0 {
			t.Fatalf("the engine rejects %v", r)
		}
		return state.Plan(f.now)
	}
	victims := make(map[string]bool)
	for _, e := range apply().Evictions {
		victims[e.Pod+" for "+e.For] = true
	}
	if len(victims) != 2 {
		t.Errorf("evicted: %v", victims)
	}
	for _, key := range []string{"default/g-0", "default/g-1"} {
		if p := f.Find(key); p.Workload != key || f.members.pods[key].value.Terms.Max != time.Hour {
			t.Errorf("%s is %s, with the terms %+v", key, p.Workload, f.members.pods[key].value.Terms)
		}
	}

	// A pod with another priority holds them all up, and none once it is gone.
	other := edited(grouped("g-2", "g"), func(p *corev1.Pod) { p.UID, p.ResourceVersion = "g-2", "4" })
	f.Set(other)
	invalid := 0
	for _, w := range apply().Waiting {
		if w.Cause == why.InvalidObject {
			invalid++
		}
	}
	if invalid != 3 {
		t.Errorf("with a pod of another priority %d are invalid", invalid)
	}
	f.Remove(other)
	if n := len(apply().Evictions); n != 2 {
		t.Errorf("without it %d are evicted", n)
	}

	// The group goes: what runs stays what it is, what waits waits for it.
	f.Set(edited(grouped("g-0", "g"), func(p *corev1.Pod) {
		high(p)
		p.ResourceVersion, p.Spec.NodeName = "5", "n1"
		if c := f.admission(f.members.pods["default/g-0"]); c != nil {
			p.Status.Conditions = append(p.Status.Conditions, *c)
		}
	}))
	f.Settle()
	f.Remove(g)
	f.Settle()
	if a, b := f.Find("default/g-0").Workload, f.Find("default/g-1").Workload; a != "default/g-0" || b != "default/podgroup/g" {
		t.Errorf("without the group: %s, %s", a, b)
	}
	if causes := waitingFor(apply()); causes["default/podgroup/g"] != why.GangMissing {
		t.Errorf("without the group: %v", causes)
	}
	g.ResourceVersion = "6"
	f.Set(g)
	f.Settle()
	if b := f.Find("default/g-1").Workload; b != "default/g-1" {
		t.Errorf("with the group again: %s", b)
	}
}

// A gang that pods name themselves counts where their group leaves them to themselves, and does not where it is a gang.
func TestGangInABasicGroup(t *testing.T) {
	for _, first := range []string{"the group", "the pod"} {
		f := newClock()
		g := basic("g")
		p := edited(grouped("g-0", "g"), func(p *corev1.Pod) { p.UID, p.ResourceVersion, p.Annotations["berth.dev/gang"] = "g-0", "2", "ours" })
		if first == "the group" {
			f.Set(g)
		}
		f.Set(p)
		f.Set(g)
		f.Settle()
		if got := f.Find("default/g-0").Workload; got != "default/gang/ours" {
			t.Errorf("%s comes first: %s", first, got)
		}
		if groups, _ := f.Groups("default/gang/ours"); len(groups) != 1 || groups[0].Name != "g" {
			t.Errorf("%s comes first: the gang says why it waits to %v", first, groups)
		}
		f.Remove(g)
		g = basic("g")
		g.UID, g.ResourceVersion = "anew", "3"
		g.Spec.SchedulingPolicy = schedulingv1beta1.PodGroupSchedulingPolicy{Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: 1}}
		f.Set(g)
		f.Settle()
		if got := f.Find("default/g-0").Workload; got != "default/podgroup/g" {
			t.Errorf("%s comes first, and then is a gang: %s", first, got)
		}
	}
}

func waitingFor(p engine.Plan) map[string]why.Cause {
	out := make(map[string]why.Cause)
	for _, w := range p.Waiting {
		out[w.Gang] = w.Cause
	}
	return out
}

// What members have in common makes a group with the basic policy one workload, and so does a gang policy that comes with a group made anew.
func TestBasicGroupWithSomethingInCommon(t *testing.T) {
	for name, change := range map[string]func(*schedulingv1beta1.PodGroupSpec){
		"a topology": func(s *schedulingv1beta1.PodGroupSpec) {
			s.SchedulingConstraints = &schedulingv1beta1.PodGroupSchedulingConstraints{Topology: []schedulingv1beta1.TopologyConstraint{{Key: "rack"}}}
		},
		"claims": func(s *schedulingv1beta1.PodGroupSpec) {
			s.ResourceClaims = []schedulingv1beta1.PodGroupResourceClaim{{Name: "c", ResourceClaimName: new("c")}}
		},
		"disruption": func(s *schedulingv1beta1.PodGroupSpec) {
			s.DisruptionMode = &schedulingv1beta1.DisruptionMode{All: &schedulingv1beta1.AllDisruptionMode{}}
		},
		"a minimum": func(s *schedulingv1beta1.PodGroupSpec) {
			s.SchedulingPolicy = schedulingv1beta1.PodGroupSchedulingPolicy{Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: 2}}
		},
	} {
		f := newClock()
		g := basic("g")
		f.Set(g)
		f.Set(edited(grouped("g-0", "g"), func(p *corev1.Pod) { p.UID, p.ResourceVersion = "g-0", "2" }))
		f.Settle()
		if got := f.Find("default/g-0").Workload; got != "default/g-0" {
			t.Fatalf("nothing in common: %s", got)
		}
		f.Remove(g)
		g = basic("g")
		g.UID, g.ResourceVersion = "anew", "3"
		change(&g.Spec)
		f.Set(g)
		f.Settle()
		if got := f.Find("default/g-0").Workload; got != "default/podgroup/g" {
			t.Errorf("%s: %s", name, got)
		}
	}
}
