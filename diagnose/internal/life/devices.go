package life

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
)

// MoreThanHealthy says of a pod that runs that it has more devices than its node has healthy ones, so that some of its own are not: which
// device, how many it has, and how many of the node's are healthy. "": it has not, or nobody can tell. A node that offers none at all says
// nothing of them: its device plugin may only be away.
func MoreThanHealthy(c *check.Case) (device string, has, well, all int64) {
	n := c.NodeNamed(c.Pod.Spec.NodeName)
	device, has = podspec.Device(c.Pod)
	if n == nil || c.State != facts.Running || device == "" || c.WasEdited(n) {
		return "", 0, 0, 0
	}
	offered, there := n.Status.Allocatable[corev1.ResourceName(device)], n.Status.Capacity[corev1.ResourceName(device)]
	well, all = offered.Value(), there.Value()
	if well >= has || all < has || well == 0 && gpustack.Sickness(n) == nil {
		return "", 0, 0, 0
	}
	return device, has, well, all
}
