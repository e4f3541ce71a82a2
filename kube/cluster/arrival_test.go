package cluster

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// needsNodes marks the pod as one that needs nodes, since then.
func (s *stage) needsNodes(p *corev1.Pod, at time.Time) {
	p = p.DeepCopy()
	s.version++
	p.ResourceVersion = fmt.Sprint(s.version)
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, LastTransitionTime: metav1.NewTime(at)}}
	s.Set(p)
}

// arrives has a node come, now.
func (s *stage) arrives(name string, gpus int64, change ...func(*corev1.Node)) {
	n := node(name, "r", gpus)
	s.version++
	n.ResourceVersion, n.CreationTimestamp = fmt.Sprint(s.version), metav1.NewTime(s.now.Truncate(time.Second))
	for _, f := range change {
		f(n)
	}
	s.Set(n)
}

func (s *stage) on(key string) string { return s.members.pods[key].pod.Spec.NodeName }

// waitingGang is a gang of n pods of 8 GPUs, which was told that it needs nodes.
func (s *stage) waitingGang(t *testing.T, name string, n int) {
	t.Helper()
	var pods []*corev1.Pod
	for i := range n {
		p := pod(fmt.Sprintf("%s-%d", name, i), 8, "gang", name, "min", fmt.Sprint(n))
		s.pod(p)
		pods = append(pods, p)
	}
	s.run(t)
	for _, p := range pods {
		s.needsNodes(p, s.now.Truncate(time.Second))
	}
	s.now = s.now.Add(30 * time.Second)
}

// TestNodesAreHeldForWhomTheyCome: smaller work takes the first node of a gang that waits for two, unless it is held.
func TestNodesAreHeldForWhomTheyCome(t *testing.T) {
	launchedFor := func(gang string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Annotations = map[string]string{v1alpha1.KeyLaunchedFor: gang} }
	}
	for name, how := range map[string][]func(*corev1.Node){"unschedulable": nil, "launched for it": {launchedFor("default/gang/train")}} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, "")
			s.waitingGang(t, "train", 2)
			s.arrives("n1", 8, how...)
			s.pod(pod("small", 1))
			s.run(t)
			if got := s.on("default/small"); got != "" {
				t.Fatalf("small work is on %s, which came for the gang", got)
			}
			s.arrives("n2", 8, how...)
			s.run(t)
			for i := range 2 {
				if s.on(fmt.Sprintf("default/train-%d", i)) == "" {
					t.Errorf("train-%d waits though both its nodes came", i)
				}
			}
			s.arrives("n3", 8)
			s.run(t)
			if got := s.on("default/small"); got != "n3" {
				t.Errorf("small work is on %q after the gang started", got)
			}
		})
	}
}

// TestHeldNodesAreGivenUp after a quarter of an hour, to whoever can use them.
func TestHeldNodesAreGivenUp(t *testing.T) {
	s := newStage(t, "")
	s.waitingGang(t, "train", 2)
	s.arrives("n1", 8)
	s.pod(pod("small", 1))
	s.run(t)
	s.now = s.now.Add(holdArrivals)
	s.run(t)
	if got := s.on("default/small"); got != "n1" {
		t.Errorf("small work is on %q after the gang's time was up", got)
	}
}

// TestNodesThatNobodyAskedFor are open to all: those that were there before, that the gang may not use, and that are more than it needs.
func TestNodesThatNobodyAskedFor(t *testing.T) {
	tainted := func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "team", Value: "other", Effect: corev1.TaintEffectNoSchedule}}
	}
	old := func(n *corev1.Node) { n.CreationTimestamp = metav1.NewTime(n.CreationTimestamp.Add(-10 * time.Minute)) }
	s := newStage(t, "")
	s.waitingGang(t, "train", 2)
	s.arrives("a-tainted", 8, tainted)
	s.arrives("b-old", 8, old)
	s.arrives("c-small", 4)
	s.Settle()
	if len(s.arrivals.held) != 0 {
		t.Errorf("held: %v", s.arrivals.held)
	}
	lone := pod("lone", 4)
	s.pod(lone)
	s.needsNodes(lone, s.now.Add(-time.Minute))
	s.arrives("d", 8)
	s.Settle()
	if got := sortedNames(s.arrivals.held); !slices.Equal(got, []string{"d"}) {
		t.Errorf("held: %v", got)
	}
}
