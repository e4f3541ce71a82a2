package conformance

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// Where nodes differ in nothing else, Berth's node for a pod is one that the stock scheduler's scores for preferred node affinity
// and for taints that discourage put first. Nodes have one such taint at most: of several, each counts for less upstream.
func TestPreferredNodesAsStock(t *testing.T) {
	k := newStock(t)
	differ := 0
	inRounds(t, 3, func(t *rapid.T) {
		var nodes []*corev1.Node
		for i := range rapid.IntRange(2, 6).Draw(t, "nodes") {
			n := plainNode(fmt.Sprintf("n%d", i))
			for _, key := range []string{"zone", "disk", "cpu"} {
				n.Labels[key] = pick(t, key, "a", "b")
			}
			if pick(t, "tainted", false, true) {
				n.Spec.Taints = []corev1.Taint{{Key: "team", Value: "x", Effect: corev1.TaintEffectPreferNoSchedule}}
			}
			nodes = append(nodes, n)
		}
		p := plainPod("p")
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}
		for range pick(t, "terms", 0, 1, 2, 3) {
			like := corev1.NodeSelectorRequirement{Key: pick(t, "key", "zone", "disk", "cpu"), Operator: corev1.NodeSelectorOpIn, Values: []string{pick(t, "value", "a", "b")}}
			p.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = append(p.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution,
				corev1.PreferredSchedulingTerm{Weight: pick(t, "weight", int32(1), 2, 50, 99, 100), Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{like}}})
		}
		if pick(t, "tolerates", false, false, true) {
			p.Spec.Tolerations = []corev1.Toleration{{Key: "team", Operator: corev1.TolerationOpExists}}
		}
		k.show(fleet{nodes: nodes})
		score := make(map[string]int64)
		var most, least int64
		for i, at := range k.scores(t, p) {
			score[at.Name] = at.TotalScore
			if i == 0 {
				most, least = at.TotalScore, at.TotalScore
			}
			most, least = max(most, at.TotalScore), min(least, at.TotalScore)
		}
		if most != least {
			differ++
		}
		l := newLive()
		for _, n := range nodes {
			l.set(n)
		}
		l.set(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, p)
		if at := l.plan(t)["default/p"]; at == "" || score[at] != most {
			t.Fatalf("on %q with a score of %d; the stock scheduler's scores are %v", at, score[at], score)
		}
	})
	if differ == 0 {
		t.Error("no scores differ: it says nothing")
	}
}

// A claim for one pod at a time keeps others from all nodes while one has it, as upstream's VolumeRestrictions has it.
func TestClaimsForOnePodAsStock(t *testing.T) {
	claims := []string{"x", "y"}
	var storage []*corev1.PersistentVolumeClaim
	var volumes []*corev1.PersistentVolume
	for _, name := range claims {
		c, v := onePodClaim(name)
		storage, volumes = append(storage, c), append(volumes, v)
	}
	k := newStock(t, storage[0], storage[1], volumes[0], volumes[1])
	waits := 0
	inRounds(t, 2, func(t *rapid.T) {
		nodes := []*corev1.Node{plainNode("n0"), plainNode("n1"), plainNode("n2")}
		l := newLive()
		l.set(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, storage[0], storage[1], volumes[0], volumes[1])
		for _, n := range nodes {
			l.set(n)
		}
		var bound []*corev1.Pod
		for _, name := range claims {
			if pick(t, "held", true, false) {
				p := using(plainPod("holds-"+name), name)
				p.Spec.Priority = new(pick(t, "priority", int32(0), 5))
				p.Spec.NodeName = pick(t, "on", "n0", "n1", "n2")
				bound = append(bound, p)
				l.set(p)
			}
		}
		p := plainPod("p")
		p.Spec.Priority = new(pick(t, "priority", int32(0), 5, 10))
		for range pick(t, "claims", 0, 1, 1, 2) {
			p = using(p, pick(t, "claim", claims...))
		}
		k.show(fleet{nodes: nodes, bound: bound})
		refused := k.judge(t, nodes, p)
		l.set(p)
		at := l.plan(t)["default/p"]
		if (at == "") != (len(refused) == len(nodes)) || at != "" && refused[at] != "" {
			t.Fatalf("on %q; the stock scheduler refuses %v", at, refused)
		}
		if at == "" {
			waits++
		}
	})
	if waits == 0 {
		t.Error("no pod waits: it says nothing")
	}
}

// plan is what the engine starts now: nodes by pod.
func (l *live) plan(t rapid.TB) map[string]string {
	l.feed.Settle()
	for _, r := range l.state.Apply(l.changes...) {
		t.Fatalf("the engine rejects %s %s: %s", r.Kind, r.Key, r.Reason)
	}
	l.changes = nil
	out := make(map[string]string)
	for _, s := range l.state.Plan(l.clock()).Starts {
		for _, at := range s.Placements {
			out[at.Pod] = at.Node
		}
	}
	return out
}

func plainNode(name string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
	n.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("16Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}
	n.Status.Capacity = n.Status.Allocatable
	return n
}

func plainPod(name string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)}}
	p.Spec.SchedulerName = corev1.DefaultSchedulerName
	p.Spec.Containers = []corev1.Container{{Name: "a", Image: "x", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}}}}
	return p
}

func using(p *corev1.Pod, claim string) *corev1.Pod {
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: fmt.Sprint("v", len(p.Spec.Volumes)), VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}})
	return p
}

func onePodClaim(name string) (*corev1.PersistentVolumeClaim, *corev1.PersistentVolume) {
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Annotations: map[string]string{"pv.kubernetes.io/bind-completed": "yes"}}}
	c.Spec.AccessModes, c.Spec.VolumeName, c.Spec.StorageClassName, c.Status.Phase = modes, "pv-"+name, new(""), corev1.ClaimBound
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-" + name}}
	v.Spec.AccessModes, v.Spec.ClaimRef = modes, &corev1.ObjectReference{Namespace: "default", Name: name}
	v.Status.Phase = corev1.VolumeBound
	return c, v
}
