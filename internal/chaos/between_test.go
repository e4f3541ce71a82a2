package main

import (
	"fmt"
	"io"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// court is a referee over four nodes in two zones.
type court struct {
	*referee
	now time.Time
}

func newCourt() *court {
	var nodes []*corev1.Node
	for i := range 4 {
		name := fmt.Sprintf("n%d", i)
		nodes = append(nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelTopologyZone: fmt.Sprintf("z%d", i/2)}}})
	}
	r := &referee{tally: newTally(io.Discard), nodes: func() []*corev1.Node { return nodes }, pods: make(map[string]*corev1.Pod)}
	return &court{r, time.Now()}
}

// bind has a pod of the workload come and be bound.
func (c *court) bind(workload, rule, name, node string) {
	r := recipe{name: workload, rule: rule, members: 1}
	p := r.pod(0)
	p.Namespace, p.Name, p.UID = namespace, name, types.UID(name)
	c.saw(p, false, c.now)
	p = p.DeepCopy()
	p.Spec.NodeName = node
	c.saw(p, false, c.now)
}

// end has a pod go.
func (c *court) end(name string) { c.saw(c.pods[namespace+"/"+name], true, c.now) }

// The referee finds what is bound against a rule, and nothing else.
func TestReferee(t *testing.T) {
	for _, test := range []struct {
		name string
		do   func(*court)
		want int
	}{
		{"apart", func(c *court) { c.bind("a", "apart", "1", "n0"); c.bind("a", "apart", "2", "n1") }, 0},
		{"not apart", func(c *court) { c.bind("a", "apart", "1", "n0"); c.bind("a", "apart", "2", "n0") }, 1},
		{"beside one that keeps apart", func(c *court) { c.bind("a", "apart", "1", "n0"); c.bind("a", "", "2", "n0") }, 1},
		{"another workload", func(c *court) { c.bind("a", "apart", "1", "n0"); c.bind("b", "apart", "2", "n0") }, 0},
		{"after it is gone", func(c *court) { c.bind("a", "apart", "1", "n0"); c.end("1"); c.bind("a", "apart", "2", "n0") }, 0},
		{"after it failed, and the watch was cut", func(c *court) {
			c.bind("a", "apart", "1", "n0")
			p := *c.pods[namespace+"/1"]
			p.Status.Phase = corev1.PodFailed
			c.begin([]corev1.Pod{p})
			c.bind("a", "apart", "2", "n0")
		}, 0},
		{"beside one that runs, and the watch was cut", func(c *court) {
			c.bind("a", "apart", "1", "n0")
			c.begin([]corev1.Pod{*c.pods[namespace+"/1"]})
			c.bind("a", "apart", "2", "n0")
		}, 1},
		{"aloof from one that is loud", func(c *court) { c.bind("a", "loud", "1", "n0"); c.bind("b", "aloof", "2", "n0") }, 1},
		{"loud beside one that is aloof", func(c *court) { c.bind("a", "aloof", "1", "n0"); c.bind("b", "loud", "2", "n0") }, 1},
		{"loud where nobody is aloof", func(c *court) {
			c.bind("a", "aloof", "1", "n0")
			c.bind("b", "loud", "2", "n1")
			c.bind("c", "loud", "3", "n1")
		}, 0},
		{"near", func(c *court) { c.bind("a", "near", "1", "n0"); c.bind("a", "near", "2", "n1") }, 0},
		{"not near", func(c *court) { c.bind("a", "near", "1", "n0"); c.bind("a", "near", "2", "n2") }, 1},
		{"spread", func(c *court) {
			c.bind("a", "spread", "1", "n0")
			c.bind("a", "spread", "2", "n2")
			c.bind("a", "spread", "3", "n1")
		}, 0},
		{"not spread", func(c *court) { c.bind("a", "spread", "1", "n0"); c.bind("a", "spread", "2", "n1") }, 1},
		{"spread in the end", func(c *court) {
			c.bind("a", "spread", "1", "n0")
			c.bind("a", "spread", "2", "n1")
			c.bind("a", "spread", "3", "n2")
		}, 0},
		{"spread until just before", func(c *court) {
			c.bind("a", "spread", "1", "n0")
			c.bind("a", "spread", "2", "n2")
			c.end("2")
			c.bind("a", "spread", "3", "n1")
		}, 0},
		{"spread while a node was gone", func(c *court) {
			c.bind("a", "spread", "1", "n0")
			c.nodes()[0].CreationTimestamp = metav1.NewTime(c.now) // it is back
			c.bind("a", "spread", "2", "n1")
		}, 0},
		{"not spread for long", func(c *court) {
			c.bind("a", "spread", "1", "n0")
			c.bind("a", "spread", "2", "n2")
			c.end("2")
			c.now = c.now.Add(2 * slack)
			c.bind("a", "spread", "3", "n1")
		}, 1},
	} {
		c := newCourt()
		test.do(c)
		c.close(c.now.Add(2 * slack))
		if got := c.tally.findings(); got != test.want {
			t.Errorf("%s: %d findings, want %d: %v", test.name, got, test.want, c.tally.found)
		}
	}
}
