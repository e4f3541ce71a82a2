package conformance

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"pgregory.net/rapid"
)

// Berth's node for a pod is one that the stock scheduler's scores for what pods prefer put first: preferred node affinity, taints that
// discourage, preferred affinity between pods of both directions, constraints that are wishes, and images. Scores of resources are left
// out: in Berth packing decides after what a pod prefers.
func TestPreferredNodesAsStock(t *testing.T) {
	k := newStock(t)
	differ, kinds := 0, make(map[string]int)
	inRounds(t, 6, func(t *rapid.T) {
		nodes := wishedNodes(t)
		var bound []*corev1.Pod
		for i := range rapid.IntRange(0, 6).Draw(t, "bound") {
			p := wishfulPod(t, fmt.Sprintf("b%d", i))
			p.Spec.NodeName = nodes[rapid.IntRange(0, len(nodes)-1).Draw(t, "on")].Name
			bound = append(bound, p)
		}
		p := wishfulPod(t, "p")
		k.show(fleet{nodes: nodes, bound: bound})
		score, most, apart := preferences(k.scores(t, p), kinds)
		if apart {
			differ++
		}
		l := newLive()
		for _, n := range nodes {
			l.set(n)
		}
		l.set(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
		for _, b := range bound {
			l.set(b)
		}
		l.set(p)
		at := l.plan(t)["default/p"]
		if (at == "") != (len(score) == 0) || at != "" && score[at] != most {
			t.Fatalf("on %q with a score of %d; the stock scheduler's scores are %v", at, score[at], score)
		}
	})
	if differ == 0 {
		t.Error("no scores differ: it says nothing")
	}
	for _, kind := range []string{"TaintToleration", "NodeAffinity", "InterPodAffinity", "PodTopologySpread", "ImageLocality"} {
		if kinds[kind] == 0 {
			t.Errorf("%s never sets nodes apart: it says nothing", kind)
		}
	}
	t.Logf("scores differ for %d pods; by plugin: %v", differ, kinds)
}

// preferences are the scores by node, less those of resources; the best of them; and whether they differ. It counts the plugins
// whose scores do.
func preferences(scores []fwk.NodePluginScores, kinds map[string]int) (by map[string]int64, most int64, apart bool) {
	by = make(map[string]int64)
	first, set := make(map[string]int64), make(map[string]bool)
	for i, at := range scores {
		sum := at.TotalScore
		for _, s := range at.Scores {
			switch {
			case s.Name == "NodeResourcesFit" || s.Name == "NodeResourcesBalancedAllocation":
				sum -= s.Score
			case i == 0:
				first[s.Name] = s.Score
			case first[s.Name] != s.Score && !set[s.Name]:
				set[s.Name] = true
				kinds[s.Name]++
			}
		}
		by[at.Name] = sum
		if i == 0 {
			most = sum
		}
		apart = apart || i > 0 && sum != most
		most = max(most, sum)
	}
	return by, most, apart
}

// wishedNodes are nodes that differ in what pods may prefer, and some that no pod may be on.
func wishedNodes(t *rapid.T) (nodes []*corev1.Node) {
	for i := range rapid.IntRange(2, 6).Draw(t, "nodes") {
		n := plainNode(fmt.Sprintf("n%d", i))
		for _, key := range []string{"disk", "cpu"} {
			n.Labels[key] = pick(t, key, "a", "b")
		}
		if pick(t, "zoned", true, true, true, false) {
			n.Labels[zone] = pick(t, "zone", "z1", "z2", "z3")
		}
		for _, key := range []string{"team", "spot", "old"} {
			if pick(t, "tainted", false, false, true) {
				n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Value: "x", Effect: corev1.TaintEffectPreferNoSchedule})
			}
		}
		if pick(t, "closed", false, false, false, true) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "closed", Effect: corev1.TaintEffectNoSchedule})
		}
		for _, name := range []string{"registry.example/big:1", "registry.example/model:latest", "proxy:2"} {
			if pick(t, "pulled", false, true) {
				n.Status.Images = append(n.Status.Images, corev1.ContainerImage{Names: []string{name, name + "@sha256:0"}, SizeBytes: imageSizes[name]})
			}
		}
		nodes = append(nodes, n)
	}
	return nodes
}

// imageSizes are in bytes, by name as nodes have them.
var imageSizes = map[string]int64{"registry.example/big:1": 9 << 30, "registry.example/model:latest": 700 << 20, "proxy:2": 60 << 20}

// wishfulPod is a pod with preferences of some kinds.
func wishfulPod(t *rapid.T, name string) *corev1.Pod {
	p := plainPod(name)
	p.Labels = map[string]string{"app": pick(t, "app", "a", "b")}
	p.Spec.Containers[0].Image = pick(t, "image", "x", "registry.example/big:1", "registry.example/model", "registry.example/big:1@sha256:0")
	if pick(t, "sidecar", false, false, true) {
		p.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "proxy:2"}}
	}
	if pick(t, "mounted", false, false, true) {
		p.Spec.Volumes = []corev1.Volume{{Name: "model", VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "registry.example/model"}}}}
	}
	p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}, PodAffinity: &corev1.PodAffinity{}, PodAntiAffinity: &corev1.PodAntiAffinity{}}
	near := &p.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	for range pick(t, "terms", 0, 0, 1, 2, 3) {
		like := corev1.NodeSelectorRequirement{Key: pick(t, "key", "disk", "cpu"), Operator: corev1.NodeSelectorOpIn, Values: []string{pick(t, "value", "a", "b")}}
		*near = append(*near, corev1.PreferredSchedulingTerm{Weight: pick(t, "weight", int32(1), 2, 20, 21), Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{like}}})
	}
	for range pick(t, "wishes", 0, 0, 1, 2) {
		wish := corev1.WeightedPodAffinityTerm{Weight: pick(t, "weight", int32(1), 3, 5), PodAffinityTerm: corev1.PodAffinityTerm{
			TopologyKey: pick(t, "topology", zone, host), LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": pick(t, "app", "a", "b")}},
		}}
		if pick(t, "together", true, false) {
			p.Spec.Affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution = append(p.Spec.Affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution, wish)
		} else {
			p.Spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution = append(p.Spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution, wish)
		}
	}
	keys := []string{zone, host}
	for i := range pick(t, "constraints", 0, 0, 1, 2) {
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
			MaxSkew: pick(t, "skew", int32(1), 3), TopologyKey: keys[i], WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": pick(t, "app", "a", "b")}},
		})
	}
	if pick(t, "tolerates", false, false, true) {
		p.Spec.Tolerations = []corev1.Toleration{{Key: "team", Operator: corev1.TolerationOpExists}}
	}
	return p
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
