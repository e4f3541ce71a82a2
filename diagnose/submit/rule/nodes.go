package rule

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
)

// matching are the nodes on which the pod's own terms let it run, and that have the devices that it asks for: in use or not.
func (c *Case) matching(p *corev1.Pod) []*corev1.Node {
	var out []*corev1.Node
	for _, n := range c.suitable(p) {
		if len(podspec.Untolerated(p, n)) == 0 {
			out = append(out, n)
		}
	}
	return out
}

// suitable are the same, whatever taints they have.
func (c *Case) suitable(p *corev1.Pod) []*corev1.Node {
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
}
