package provisioner

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// owned has all pods belong to a controller, which makes them anew.
func (x *stage) owned() {
	for _, p := range podsOf(x.server) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "j", UID: "j", Controller: new(true)}}
		put(x.server, "pods", &p)
	}
}

// TestScaleDownLittleUsed moves the pods of a node of which half or less is used onto others that have room, and gives it back; whoever is
// killed on the way leaves nothing behind. One whose pod belongs to nobody stays.
func TestScaleDownLittleUsed(t *testing.T) {
	start := func(t *testing.T) *stage {
		x := newStage(t, Autoscaler, map[string]int{"a": 4, "b": 4}, nil)
		for i := range 2 {
			x.pod(fmt.Sprintf("fill-%d", i), "", 5)
		}
		for turn := 0; x.waiting() > 0 && turn < 100; turn++ {
			x.turn(nil)
		}
		x.end()
		for i, m := range x.machines() {
			x.pod(fmt.Sprintf("work-%d", i), m.Name, 3)
		}
		return x
	}
	everywhere(t, func(t *testing.T, x *stage, what string) {
		x.owned()
		for turn := 0; x.waiting() > 0 || len(x.machines()) != 1; turn++ {
			if turn > 300 {
				t.Fatalf("%s: %d machines, %d pods wait", what, len(x.machines()), x.waiting())
			}
			x.turn(nil)
			x.again("work", 2, 3)
			x.owned()
			if n := len(x.machines()); n > 2 {
				t.Fatalf("%s: %d machines for two pods of 3 GPUs", what, n)
			}
		}
		x.run(nil, 1, what)
	}, start)

	x := start(t)
	for range 60 {
		x.turn(nil)
	}
	if n := len(x.machines()); n != 2 {
		t.Errorf("%d machines: pods that nobody makes anew are moved", n)
	}
}

func TestImmovable(t *testing.T) {
	for what, c := range map[string]struct {
		edit func(*corev1.Pod)
		want bool
	}{
		"of a job":  {func(*corev1.Pod) {}, false},
		"of nobody": {func(p *corev1.Pod) { p.OwnerReferences = nil }, true},
		"says so":   {func(p *corev1.Pod) { p.Annotations = map[string]string{safeToEvict: "false"} }, true},
		"says not":  {func(p *corev1.Pod) { p.OwnerReferences, p.Annotations = nil, map[string]string{safeToEvict: "true"} }, false},
		"system":    {func(p *corev1.Pod) { p.Namespace = "kube-system" }, true},
		"has data": {func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		}, true},
		"in memory": {func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: "Memory"}}}}
		}, false},
		"on its way": {func(p *corev1.Pod) { p.OwnerReferences, p.DeletionTimestamp = nil, &metav1.Time{Time: time.Now()} }, false},
	} {
		p := gpuPod("p", 1)
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Controller: new(true)}}
		c.edit(p)
		if got := immovable(p); got != c.want {
			t.Errorf("%s: immovable is %t", what, got)
		}
	}
}

// TestLeastWaste grows the group whose nodes the pods use most of, not the one that comes first or helps more.
func TestLeastWaste(t *testing.T) {
	s, w := newAutoscaler(&api{}), &world{now: time.Now()}
	of := func(name, cpu string, size int) *group {
		n := gpuNode("", "a", 8)
		n.Status.Capacity["cpu"], n.Status.Allocatable["cpu"] = resource.MustParse(cpu), resource.MustParse(cpu)
		return &group{offer: offer{class: &v1alpha1.Pool{}, node: n}, name: name, max: size}
	}
	var pods []*corev1.Pod
	for i := range 3 {
		p := gpuPod(fmt.Sprint(i), 4)
		p.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("16")
		pods = append(pods, p)
	}
	large, small := of("large", "192", 9), of("small", "32", 1)
	if g, n, helped := s.best(t.Context(), w, []*group{large, small}, pods, false); g != small || n != 1 || len(helped) != 2 {
		t.Errorf("%v: %d nodes for %d pods", g, n, len(helped))
	}
	if g, n, _ := s.best(t.Context(), w, []*group{small, large}, pods, true); g != large || n != 2 {
		t.Errorf("all or none: %v, %d nodes", g, n)
	}
	if g, _, _ := s.best(t.Context(), w, []*group{of("first", "32", 9), of("second", "32", 9)}, pods, false); g.name != "first" {
		t.Errorf("of equal ones %s", g.name)
	}
}
