package supply

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/kube/dialect/clusterautoscaler"
)

// AutoscalerGroups are the groups that the autoscaler's status lists, with the nodes that are known to be theirs.
func AutoscalerGroups(f *facts.Facts) []*clusterautoscaler.Group { return autoscaling(f).groups }

func readAutoscaler(f *facts.Facts) []*clusterautoscaler.Group {
	status := f.AutoscalerStatus()
	if len(status) == 0 {
		return nil
	}
	groups := clusterautoscaler.ParseStatus(status[0].Data["status"])
	for _, g := range groups {
		for _, n := range f.Nodes {
			if owns(g, n) {
				g.Nodes = append(g.Nodes, n)
			}
		}
	}
	return groups
}

// owns says whether the node is of the group, by its name or by the pool that its labels name: groups are known by
// names that clouds make of the pool's.
func owns(g *clusterautoscaler.Group, n *corev1.Node) bool {
	short := g.Short()
	if rest, ok := strings.CutPrefix(n.Name, short); ok && (rest == "" || rest[0] == '-' || rest[0] >= '0' && rest[0] <= '9') {
		return true
	}
	_, pool := place.PoolOf(n)
	return pool != "" && g.Mentions(pool)
}

// AutoscalerSaid returns it.
func AutoscalerSaid(c *check.Case) *clusterautoscaler.Message {
	if !c.Exists {
		return nil
	}
	for _, e := range c.EventsOf(c.Pod, "TriggeredScaleUp", "NotTriggerScaleUp", "FailedScaleUp") {
		if w, ok := clusterautoscaler.ParseMessage(e.Message); ok {
			w.Event = e
			return &w
		}
	}
	return nil
}

// AutoscalerEvidence is the event that carries the message.
func AutoscalerEvidence(w *clusterautoscaler.Message, c *check.Case) []facts.Evidence {
	if w == nil {
		return nil
	}
	return []facts.Evidence{autoscalerEvent(c.Pod, w.Event)}
}

// AutoscalerProvisions is how long the autoscaler gives a machine to become a node, unless it is told otherwise.
const AutoscalerProvisions = 15 * time.Minute

// autoscalerFit is whether nodes of a group would do for a pod.
type autoscalerFit int

const (
	autoscalerUnknown autoscalerFit = iota // none of its nodes is known
	autoscalerSuits
	autoscalerUnfit
)

// autoscalerFits says so by the nodes that the group has, and by its name where it has none.
func autoscalerFits(c *check.Case, g *clusterautoscaler.Group) (autoscalerFit, *corev1.Node) {
	for _, n := range g.Nodes[:min(len(g.Nodes), autoscalerSample)] {
		whole := gpustack.Repaired(c.Facts, n)
		if podspec.Suits(c.Pod, whole) && podspec.Fits(podspec.Requests(c.Pod), whole.Status.Allocatable) {
			return autoscalerSuits, whole
		}
	}
	if len(g.Nodes) > 0 {
		return autoscalerUnfit, nil
	}
	if autoscalerNamed(c, g) {
		return autoscalerSuits, AutoscalerWished(c)
	}
	return autoscalerUnknown, nil
}

// autoscalerNamed says whether an empty group's name says that it is for pods like this one: it has a value that the
// pod selects, or, where no label is missing, the pod's device.
func autoscalerNamed(c *check.Case, g *clusterautoscaler.Group) bool {
	if g.Registered > 0 {
		return false
	}
	device, ask := podspec.Device(c.Pod)
	if device != "" && ask > autoscalerDevices {
		return false
	}
	dead := slices.DeleteFunc(place.NeedsOf(&c.Pod.Spec), func(n place.Need) bool {
		return slices.ContainsFunc(c.Nodes, func(node *corev1.Node) bool { return n.Met(node.Labels) })
	})
	for _, n := range dead {
		if slices.ContainsFunc(n.Values, g.Mentions) {
			return true
		}
	}
	return len(dead) == 0 && device != "" && place.DeviceWord.MatchString(g.Short())
}

// AutoscalerWished is a node that has just what the pod asks for.
func AutoscalerWished(c *check.Case) *corev1.Node {
	n := &corev1.Node{}
	n.Labels = map[string]string{corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64"}
	for _, w := range place.NeedsOf(&c.Pod.Spec) {
		if len(w.Values) > 0 {
			n.Labels[w.Key] = w.Values[0]
		} else {
			n.Labels[w.Key] = "true"
		}
	}
	have := podspec.Requests(c.Pod)
	have[corev1.ResourcePods] = podspec.Quantity("pods", 110)
	n.Status = corev1.NodeStatus{Capacity: have, Allocatable: have.DeepCopy(), Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}}}
	return n
}
