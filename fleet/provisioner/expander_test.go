package provisioner

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// TestExpanders has groups that differ in waste, in nodes, in whom they help and in name, and says which one grows.
func TestExpanders(t *testing.T) {
	of := func(name, cpu string, gpus int64, size int) *group {
		n := gpuNode("", "a", gpus)
		n.Status.Capacity["cpu"], n.Status.Allocatable["cpu"] = resource.MustParse(cpu), resource.MustParse(cpu)
		return &group{offer: offer{class: &v1alpha1.Pool{}, node: n}, name: name, max: size}
	}
	var pods []*corev1.Pod
	for i := range 4 {
		p := gpuPod(fmt.Sprint(i), 4)
		p.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("16")
		pods = append(pods, p)
	}
	// large: two nodes for four pods; tight: one node for two pods, and little is wasted; wide: one node for four pods, and most is.
	groups := []*group{of("large-on-demand", "128", 8, 9), of("tight-spot", "32", 8, 1), of("wide-spot", "512", 16, 9)}
	for _, c := range []struct {
		expanders  []string
		priorities string // "-": there is no ConfigMap
		want       string
		told       string
	}{
		{nil, "-", "tight-spot", ""},
		{[]string{byWaste}, "-", "tight-spot", ""},
		{[]string{byNodes}, "-", "tight-spot", ""},
		{[]string{byNodes, byPods}, "-", "wide-spot", ""},
		{[]string{byPods}, "-", "large-on-demand", ""},
		{[]string{byPods, byNodes}, "-", "wide-spot", ""},
		{[]string{byPriority}, "-", "large-on-demand", ""},
		{[]string{byPriority, byWaste}, "-", "tight-spot", ""},
		{[]string{byPriority}, "10: [large]\n50: ['^wide-']", "wide-spot", "PriorityConfigMapNotMatchedGroup"},
		{[]string{byPriority, byWaste}, "10: ['.*']\n50: ['-spot$']", "tight-spot", ""},
		{[]string{byPriority, byPods}, "10: ['.*']\n50: ['-spot$']", "wide-spot", ""},
		{[]string{byPriority}, "20: [spot]\n10: [wide, large]", "tight-spot", ""}, // of two priorities a group has the higher
		{[]string{byPriority, byWaste}, "10: [nobody]", "tight-spot", "PriorityConfigMapNoGroupMatched"},
		{[]string{byPriority, byWaste}, "10: ['(']", "tight-spot", "PriorityConfigMapInvalid"},
		{[]string{byPriority, byWaste}, "first: [large]", "tight-spot", "PriorityConfigMapInvalid"},
		{[]string{byPriority, byWaste}, "", "tight-spot", "PriorityConfigMapInvalid"},
	} {
		what := fmt.Sprintf("%s, %q", strings.Join(c.expanders, ","), c.priorities)
		x := newStage(t, Autoscaler, nil, nil)
		x.api.Expanders = c.expanders
		if c.priorities != "-" {
			put(x.server, "configmaps", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: statusNamespace, Name: "cluster-autoscaler-priority-expander"}, Data: map[string]string{"priorities": c.priorities}})
		}
		s := x.player.(*autoscaler)
		g, _, _ := s.best(t.Context(), &world{now: x.now}, groups, pods, false)
		if g == nil || g.name != c.want {
			t.Errorf("%s: %v grows, want %s", what, g, c.want)
		}
		if c.told != "" && !slices.Contains(x.told(), c.told) || c.told == "" && len(x.told()) > 0 {
			t.Errorf("%s: said %v, want %q", what, x.told(), c.told)
		}
	}
}

// told are the reasons of events, in order.
func (x *stage) told() (out []string) {
	for key := range x.api.told {
		out = append(out, strings.Split(key, "/")[2])
	}
	slices.Sort(out)
	return out
}

// TestRandomExpander draws each of the groups that are left, and no other.
func TestRandomExpander(t *testing.T) {
	x := newStage(t, Autoscaler, nil, nil)
	x.api.Expanders = []string{byNodes, atRandom}
	s, count := x.player.(*autoscaler), make(map[string]int)
	of := func(name string, gpus int64) *group {
		return &group{offer: offer{class: &v1alpha1.Pool{}, node: gpuNode("", "a", gpus)}, name: name, max: 9}
	}
	for range 200 {
		g, _, _ := s.best(t.Context(), &world{now: x.now}, []*group{of("a", 8), of("b", 8), of("two nodes", 4)}, []*corev1.Pod{gpuPod("p", 4), gpuPod("q", 4)}, true)
		count[g.name]++
	}
	if count["a"] < 50 || count["b"] < 50 || len(count) != 2 {
		t.Errorf("drawn %v", count)
	}
}

func TestCheckExpanders(t *testing.T) {
	for text, ok := range map[string]bool{"least-waste": true, "priority,least-waste": true, "priority,random": true, "random,priority": false, "price": false, "priority,priority": false} {
		if err := CheckExpanders(strings.Split(text, ",")); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
}
