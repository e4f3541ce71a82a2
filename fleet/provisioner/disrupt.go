package provisioner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var oneNode = resource.NewQuantity(1, resource.DecimalSI)

// consolidatable says since when nothing came to the node or left it (pkg/controllers/nodeclaim/podevents, disruption/consolidation.go).
func (k *karpenter) consolidatable(w *world, c *nodeClaim, s conditions, pools []nodePool) {
	var names []string
	for _, p := range w.on[c.Name] {
		if p.DeletionTimestamp == nil && !ownedBy(p, "DaemonSet") && !ownedBy(p, "Node") {
			names = append(names, string(p.UID))
		}
	}
	slices.Sort(names)
	now := strings.Join(names, " ")
	if before, known := k.podsOn[c.Name]; known && before != now || !known && now != "" && c.Status.LastPodEventTime == nil {
		if t := c.Status.LastPodEventTime; t == nil || w.now.Sub(t.Time) >= k.Clock.Wall(podEventTTL) || now == "" {
			c.Status.LastPodEventTime = &metav1.Time{Time: w.now.Truncate(time.Second)}
		}
	}
	k.podsOn[c.Name] = now
	i := slices.IndexFunc(pools, func(p nodePool) bool { return p.Name == c.Labels[nodePoolLabel] })
	if i < 0 || !s.is(condInitialized) {
		s.clear(condConsolidatable)
		return
	}
	after, on := duration(pools[i].Spec.Disruption.ConsolidateAfter)
	since := s.get(condInitialized).LastTransitionTime.Time
	if t := c.Status.LastPodEventTime; t != nil {
		since = t.Time
	}
	if !on || w.now.Before(since.Add(k.Clock.Wall(after))) {
		s.clear(condConsolidatable)
		return
	}
	s.set(condConsolidatable, metav1.ConditionTrue, condConsolidatable, "")
}

// disrupt gives nodes back on which nothing runs, as many at a time as the budgets allow (pkg/controllers/disruption/emptiness.go). Nodes
// that could be replaced by fewer or cheaper ones are left alone: the fleet's machines are of one type each.
func (k *karpenter) disrupt(ctx context.Context, w *world, pools []nodePool, claims []nodeClaim, nominated map[string]bool) error {
	var problems []error
	for i := range pools {
		p := &pools[i]
		left := k.allowed(w, p, claims)
		for j := range claims {
			c := &claims[j]
			n := nodeOf(w, c)
			s := k.conditionsOf(w, c)
			if c.Labels[nodePoolLabel] != p.Name || c.DeletionTimestamp != nil || n == nil || !s.is(condConsolidatable) || nominated[c.Name] || k.podsOn[c.Name] != "" || n.Annotations[doNotDisrupt] == "true" {
				continue
			}
			if left == 0 {
				k.tell(ctx, w.now, poolRef(p), "karpenter", corev1.EventTypeNormal, "DisruptionBlocked", "No allowed disruptions for disruption reason Empty due to blocking budget", time.Minute)
				break
			}
			left--
			next := n.DeepCopy() // the taint comes before the delete (disruption/queue.go, markDisrupted)
			next.Spec.Taints = mergeTaints(next.Spec.Taints, []corev1.Taint{{Key: disruptedTaint, Effect: corev1.TaintEffectNoSchedule}})
			problems = append(problems, k.updateNode(ctx, next))
			k.tell(ctx, w.now, nodeRef(n), "karpenter", corev1.EventTypeNormal, "DisruptionTerminating", "Disrupting Node: Empty", eventTTL)
			k.tell(ctx, w.now, claimRef(c), "karpenter", corev1.EventTypeNormal, "DisruptionTerminating", "Disrupting NodeClaim: Empty", eventTTL)
			problems = append(problems, k.deleteClaim(ctx, w, c))
		}
	}
	return errors.Join(problems...)
}

func poolRef(p *nodePool) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: karpenterVersion.String(), Kind: "NodePool", Name: p.Name, UID: p.UID}
}

// allowed is how many nodes of the pool may be disrupted now because they are empty: the least of its budgets, less those that are on their
// way out (pkg/apis/v1/nodepool.go, MustGetAllowedDisruptions). A budget with a schedule is taken to hold always.
func (k *karpenter) allowed(w *world, p *nodePool, claims []nodeClaim) int {
	total, leaving := 0, 0
	for i := range claims {
		c := &claims[i]
		if c.Labels[nodePoolLabel] != p.Name || !k.conditionsOf(w, c).is(condInitialized) {
			continue
		}
		if total++; c.DeletionTimestamp != nil {
			leaving++
		}
	}
	least := math.MaxInt
	for _, b := range p.Spec.Disruption.Budgets {
		if len(b.Reasons) == 0 || slices.Contains(b.Reasons, "Empty") {
			least = min(least, budgetOf(b.Nodes, total))
		}
	}
	return max(0, least-leaving)
}

// budgetOf is a number, or a share of the total rounded up.
func budgetOf(text string, total int) int {
	if percent, ok := strings.CutSuffix(text, "%"); ok {
		n, err := strconv.Atoi(percent)
		if err != nil {
			return 0
		}
		return (total*n + 99) / 100
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return n
}

// finalize is the end of a claim and its node (lifecycle/controller.go, finalize; pkg/controllers/node/termination/controller.go).
func (k *karpenter) finalize(ctx context.Context, w *world, c *nodeClaim) error {
	if !slices.Contains(c.Finalizers, terminationFinalizer) {
		return nil
	}
	s := k.conditionsOf(w, c)
	n := nodeOf(w, c)
	if n != nil && s.is(condRegistered) {
		if n.DeletionTimestamp == nil {
			return k.deleteNode(ctx, n)
		}
		if slices.Contains(n.Finalizers, terminationFinalizer) {
			return k.terminate(ctx, w, c, n, s)
		}
		return nil
	}
	if w.machine(c.Name) != nil {
		if err := k.giveBack(ctx, w, c.Name); err != nil {
			return err
		}
		if c.Status.ProviderID != "" && !s.is(condTerminating) {
			s.set(condTerminating, metav1.ConditionTrue, condTerminating, "")
			return k.tellClaim(ctx, c)
		}
	}
	delete(k.podsOn, c.Name)
	return k.patch(ctx, nodeClaimResource, "", c.Name, "", map[string]any{"metadata": map[string]any{"resourceVersion": c.ResourceVersion, "finalizers": without(c.Finalizers)}})
}

func without(finalizers []string) []string {
	return slices.DeleteFunc(slices.Clone(finalizers), func(f string) bool { return f == terminationFinalizer })
}

// terminate taints and drains the node, gives its machine back and lets the node go.
func (k *karpenter) terminate(ctx context.Context, w *world, c *nodeClaim, n *corev1.Node, s conditions) error {
	if !slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == disruptedTaint }) {
		next := n.DeepCopy()
		next.Spec.Taints = mergeTaints(next.Spec.Taints, []corev1.Taint{{Key: disruptedTaint, Effect: corev1.TaintEffectNoSchedule}})
		return k.updateNode(ctx, next)
	}
	if w.machine(c.Name) != nil {
		left, err := k.drain(ctx, w, c, n)
		if err != nil {
			return err
		}
		if left > 0 {
			if o := s.get(condDrained); o == nil {
				s.set(condDrained, metav1.ConditionUnknown, "Draining", "Draining")
				return k.tellClaim(ctx, c)
			}
			return nil
		}
		for _, name := range []string{condDrained, condVolumes, condTerminating} {
			s.set(name, metav1.ConditionTrue, name, "")
		}
		if err := k.tellClaim(ctx, c); err != nil {
			return err
		}
		return k.giveBack(ctx, w, c.Name)
	}
	next := n.DeepCopy()
	next.Finalizers = without(next.Finalizers)
	return k.updateNode(ctx, next)
}

// drain evicts what is on the node, and says how many pods are still there. Pods that tolerate the taint stay, as do those of the node
// itself; those that must not be disrupted are waited for, until the claim's grace period is over
// (node/termination/terminator/terminator.go, pkg/utils/pod/scheduling.go).
func (k *karpenter) drain(ctx context.Context, w *world, c *nodeClaim, n *corev1.Node) (left int, err error) {
	taint := []corev1.Taint{{Key: disruptedTaint, Effect: corev1.TaintEffectNoSchedule}}
	over := false
	if grace, ok := duration(c.Spec.TerminationGracePeriod); ok && c.DeletionTimestamp != nil {
		at := c.DeletionTimestamp.Add(k.Clock.Wall(grace))
		over = !w.now.Before(at)
		k.tell(ctx, w.now, nodeRef(n), "karpenter", corev1.EventTypeWarning, "TerminationGracePeriodExpiring", "All pods will be deleted by "+at.UTC().Format(time.RFC3339), eventTTL)
	}
	var problems []error
	for _, p := range slices.SortedStableFunc(slices.Values(w.on[n.Name]), func(a, b *corev1.Pod) int { return cmp.Compare(priority(a), priority(b)) }) {
		if untolerated(p, taint, nil) == nil || ownedBy(p, "Node") {
			continue
		}
		if p.DeletionTimestamp != nil && w.now.Sub(p.DeletionTimestamp.Time) > time.Minute {
			continue // it is stuck, and not waited for
		}
		left++
		switch {
		case p.DeletionTimestamp != nil:
		case over:
			problems = append(problems, unlessGone(k.core.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(p.UID))})))
		case p.Annotations[doNotDisrupt] == "true":
			k.tell(ctx, w.now, nodeRef(n), "karpenter", corev1.EventTypeWarning, "FailedDraining", fmt.Sprintf("Failed to drain node, %d pods are waiting to be evicted", left), eventTTL)
		default:
			done, err := k.evict(ctx, p)
			if problems = append(problems, err); done && err == nil {
				k.tell(ctx, w.now, podRef(p), "karpenter", corev1.EventTypeNormal, "Evicted", "Evicted pod: Node is being terminated", eventTTL)
			}
		}
	}
	return left, errors.Join(problems...)
}

func priority(p *corev1.Pod) int32 {
	if p.Spec.Priority == nil {
		return 0
	}
	return *p.Spec.Priority
}
