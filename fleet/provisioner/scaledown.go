package provisioner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// littleUsed is the share of a node up to which it is a candidate: of its GPUs, or of CPU and memory the larger where it has none
// (config/flags/flags.go, scale-down-utilization-threshold and scale-down-gpu-utilization-threshold).
const littleUsed = 0.5

// safeToEvict says of a pod that it may be moved, or may not (utils/drain/drain.go, PodSafeToEvictKey).
const safeToEvict = "cluster-autoscaler.kubernetes.io/safe-to-evict"

// scaleDown gives back nodes on which nothing has run for long enough, and little used ones whose pods have room elsewhere
// (core/scaledown/planner, unneeded, actuation/actuator.go):
//
//	unneeded, a candidate --the pool's consolidateAfter--> to be deleted --no work on it--> given back
//	                                                         '--work: evicted, one node at a time
func (s *autoscaler) scaleDown(ctx context.Context, w *world, bins []*bin) error {
	unneeded, draining := s.unneededNodes(w, bins), false
	var problems []error
	for _, m := range slices.Clone(w.machines) {
		n := w.node(m.Name)
		if n == nil {
			continue
		}
		work := workOn(w, n.Name)
		if marked := slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == toBeDeleted }); marked {
			draining = draining || len(work) > 0
			problems = append(problems, s.remove(ctx, w, n, work))
			continue
		}
		if !unneeded[n.Name] {
			delete(s.unneeded, n.Name)
			problems = append(problems, s.taint(ctx, n, corev1.Taint{Key: deletionCandidate, Effect: corev1.TaintEffectPreferNoSchedule}, false))
			continue
		}
		since, known := s.unneeded[n.Name]
		if !known {
			since = w.now
			s.unneeded[n.Name] = since
		}
		// A pool is there: else the node were not unneeded.
		if w.now.Before(since.Add(s.Clock.Wall(w.pool(m.Spec.Pool).Spec.Launch.ConsolidateAfter.Duration))) || len(work) > 0 && draining {
			problems = append(problems, s.taint(ctx, n, corev1.Taint{Key: deletionCandidate, Value: fmt.Sprint(since.Unix()), Effect: corev1.TaintEffectPreferNoSchedule}, true))
			continue
		}
		draining = draining || len(work) > 0 // max-drain-parallelism
		problems = append(problems, s.condemn(ctx, w, n, work))
	}
	return errors.Join(problems...)
}

// unneededNodes are those without work, and as many little used ones as find room for their pods on nodes that stay
// (core/scaledown/planner/planner.go, categorizeNodes).
func (s *autoscaler) unneededNodes(w *world, bins []*bin) map[string]bool {
	out, stay := make(map[string]bool), make([]*bin, 0, len(bins))
	for _, b := range bins {
		stay = append(stay, &bin{node: b.node, free: b.free.DeepCopy(), pods: b.pods})
	}
	for _, empty := range []bool{true, false} {
		for i := range w.machines {
			n, p := w.node(w.machines[i].Name), w.pool(w.machines[i].Spec.Pool)
			if n == nil || p == nil || p.Spec.Launch.Consolidation == v1alpha1.ConsolidateNever || n.Annotations["cluster-autoscaler.kubernetes.io/scale-down-disabled"] == "true" {
				continue
			}
			at := slices.IndexFunc(stay, func(b *bin) bool { return b.node.Name == n.Name })
			if at < 0 || len(stay[at].pods) > 0 { // booked, or chosen for other pods
				continue
			}
			work := workOn(w, n.Name)
			if (len(work) == 0) != empty {
				continue
			}
			rest := slices.Delete(slices.Clone(stay), at, at+1)
			if len(work) > 0 {
				if utilization(w, n) > littleUsed || slices.ContainsFunc(work, immovable) || len(unplaced(existing(w, rest), work)) > 0 {
					continue
				}
				for _, p := range work {
					place(existing(w, rest), p)
				}
			}
			out[n.Name], stay = true, rest
		}
	}
	return out
}

// existing are the bins of nodes that are there.
func existing(w *world, bins []*bin) (out []*bin) {
	for _, b := range bins {
		if n := w.node(b.node.Name); n != nil && readyNode(n) {
			out = append(out, b)
		}
	}
	return out
}

// workOn are the pods on the node that are not the node's own.
func workOn(w *world, node string) (out []*corev1.Pod) {
	for _, p := range w.on[node] {
		if !ownedBy(p, "DaemonSet") && !ownedBy(p, "Node") {
			out = append(out, p)
		}
	}
	return out
}

// utilization is what pods request of the node (simulator/utilization/info.go, Calculate). A node whose GPUs are not there yet has none.
func utilization(w *world, n *corev1.Node) float64 {
	of := func(name corev1.ResourceName) float64 {
		have, used := n.Status.Allocatable[name], int64(0)
		for _, p := range w.on[n.Name] {
			need := requests(p)[name]
			used += need.MilliValue()
		}
		if have.IsZero() {
			return 0
		}
		return float64(used) / float64(have.MilliValue())
	}
	for name := range n.Status.Capacity {
		if strings.HasSuffix(string(name), "/gpu") {
			return of(name)
		}
	}
	return max(of(corev1.ResourceCPU), of(corev1.ResourceMemory))
}

// immovable says whether the pod keeps its node: nobody would make it anew, it has data on the node, it is the system's, or it says so
// (simulator/drainability/rules). Budgets of pods are left to the eviction.
func immovable(p *corev1.Pod) bool {
	if p.DeletionTimestamp != nil || p.Annotations[safeToEvict] == "true" {
		return false
	}
	local := slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
		return v.HostPath != nil || v.EmptyDir != nil && v.EmptyDir.Medium != corev1.StorageMediumMemory
	})
	return p.Annotations[safeToEvict] == "false" || metav1.GetControllerOf(p) == nil || p.Namespace == metav1.NamespaceSystem || local
}

// condemn marks a node that is to be deleted; it is looked at once more with the taint on it.
func (s *autoscaler) condemn(ctx context.Context, w *world, n *corev1.Node, work []*corev1.Pod) error {
	err := s.taint(ctx, n, corev1.Taint{Key: toBeDeleted, Value: fmt.Sprint(w.now.Unix()), Effect: corev1.TaintEffectNoSchedule}, true)
	s.tell(ctx, w.now, nodeRef(n), "cluster-autoscaler", corev1.EventTypeNormal, "ScaleDown", "marked the node as toBeDeleted/unschedulable", autoscalerQuiet)
	if len(work) == 0 {
		s.log(ctx, w, corev1.EventTypeNormal, "ScaleDownEmpty", fmt.Sprintf("Scale-down: removing empty node %q", n.Name))
		return err
	}
	var names []string
	for _, p := range work {
		names = append(names, p.Name)
	}
	s.log(ctx, w, corev1.EventTypeNormal, "ScaleDown", fmt.Sprintf("Scale-down: removing node %s, utilization: %.2f, pods to reschedule: %s", n.Name, utilization(w, n), strings.Join(names, ",")))
	s.drained[n.Name] = true
	return err
}

// remove evicts what is on a node that is to be deleted, and gives the node back once nothing is (actuation/drain.go).
func (s *autoscaler) remove(ctx context.Context, w *world, n *corev1.Node, work []*corev1.Pod) error {
	var problems []error
	for _, p := range work {
		if p.DeletionTimestamp != nil {
			continue
		}
		s.tell(ctx, w.now, podRef(p), "cluster-autoscaler", corev1.EventTypeNormal, "ScaleDown", "deleting pod for node scale down", autoscalerQuiet)
		_, err := s.evict(ctx, p)
		problems = append(problems, err)
	}
	if len(work) > 0 {
		return errors.Join(problems...)
	}
	if err := s.giveBack(ctx, w, n.Name); err != nil {
		return err
	}
	delete(s.unneeded, n.Name)
	s.tell(ctx, w.now, nodeRef(n), "cluster-autoscaler", corev1.EventTypeNormal, "ScaleDown", "nodes removed by cluster autoscaler", autoscalerQuiet)
	if s.drained[n.Name] {
		delete(s.drained, n.Name)
		s.log(ctx, w, corev1.EventTypeNormal, "ScaleDown", fmt.Sprintf("Scale-down: node %s removed with drain", n.Name))
	} else {
		s.log(ctx, w, corev1.EventTypeNormal, "ScaleDownEmpty", fmt.Sprintf("Scale-down: empty node %s removed", n.Name))
	}
	return nil
}
