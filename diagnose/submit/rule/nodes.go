package rule

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
)

// Nodes are the nodes that pods match, by what decides that in the pods: cases of one check share it, as many workloads ask for
// the same.
type Nodes map[string][]*corev1.Node

// matching are the nodes on which the pod's own terms let it run, and that have the devices that it asks for: in use or not.
func (c *Case) matching(p *corev1.Pod) []*corev1.Node {
	return c.known("tolerated", p, func() []*corev1.Node {
		var out []*corev1.Node
		for _, n := range c.suitable(p) {
			if len(podspec.Untolerated(p, n)) == 0 {
				out = append(out, n)
			}
		}
		return out
	})
}

// suitable are the same, whatever taints they have.
func (c *Case) suitable(p *corev1.Pod) []*corev1.Node {
	return c.known("any", p, func() []*corev1.Node {
		device, ask := podspec.Device(p)
		p = p.DeepCopy()
		p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		var out []*corev1.Node
		for _, n := range c.Nodes {
			have := n.Status.Allocatable[corev1.ResourceName(device)]
			if podspec.Suits(p, n) && facts.NodeReady(n) && (device == "" || have.Value() >= ask) {
				out = append(out, n)
			}
		}
		return out
	})
}

// known are the nodes of the pod, found once for all pods that ask for the same.
func (c *Case) known(which string, p *corev1.Pod, find func() []*corev1.Node) []*corev1.Node {
	if c.Matching == nil {
		return find()
	}
	device, ask := podspec.Device(p)
	key, err := json.Marshal([]any{which, device, ask, p.Spec.NodeName, p.Spec.NodeSelector, p.Spec.Affinity, p.Spec.Tolerations})
	if err != nil {
		return find()
	}
	out, ok := c.Matching[string(key)]
	if !ok {
		out = find()
		c.Matching[string(key)] = out
	}
	return out
}
