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

	"github.com/robfig/cron/v3"
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
	if i < 0 || pools[i].Spec.Replicas != nil || !s.is(condInitialized) {
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

// disrupt has the first method act that finds something to do (pkg/controllers/disruption/controller.go, NewMethods). true: one did, and it
// is looked again at once.
func (k *karpenter) disrupt(ctx context.Context, w *world, pools []nodePool, claims []nodeClaim) (bool, error) {
	for name, until := range k.nominated {
		if !w.now.Before(until) {
			delete(k.nominated, name)
		}
	}
	for _, x := range k.commands { // pods will be on their way to what replaces their node
		for _, name := range x.replacements {
			k.keep(w, name)
		}
	}
	for _, method := range []func(context.Context, *world, []nodePool, []nodeClaim) (bool, error){k.releaseEmpty, k.replaceStatic, k.replaceDrifted, k.consolidate} {
		if did, err := method(ctx, w, pools, claims); did || err != nil {
			return did, err
		}
	}
	return false, nil
}

// releaseEmpty gives nodes back on which nothing runs, as many at a time as the budgets allow (pkg/controllers/disruption/emptiness.go).
func (k *karpenter) releaseEmpty(ctx context.Context, w *world, pools []nodePool, claims []nodeClaim) (bool, error) {
	left := k.budgets(ctx, w, pools, claims, becauseEmpty)
	var list []*nodeClaim
	for i := range claims {
		c := &claims[i]
		p := poolOf(pools, c)
		if p == nil || p.Spec.Replicas != nil || !k.conditionsOf(w, c).is(condConsolidatable) || len(moving(w, c.Name)) > 0 || !k.candidate(ctx, w, c, false) {
			continue
		}
		if left[p.Name] > 0 {
			left[p.Name]--
			list = append(list, c)
		}
	}
	if len(list) == 0 {
		return false, nil
	}
	return true, k.start(ctx, w, claims, becauseEmpty, list, rescheduled{})
}

func poolRef(p *nodePool) corev1.ObjectReference {
	return corev1.ObjectReference{APIVersion: karpenterVersion.String(), Kind: "NodePool", Name: p.Name, UID: p.UID}
}

// budgets are how many nodes of each NodePool may be disrupted now for the reason: the least of its budgets that hold now, less those that
// are on their way out or not Ready (pkg/controllers/disruption/helpers.go, BuildDisruptionBudgetMapping).
func (k *karpenter) budgets(ctx context.Context, w *world, pools []nodePool, claims []nodeClaim, reason string) map[string]int {
	out := make(map[string]int)
	for i := range pools {
		p := &pools[i]
		total, leaving := 0, 0
		for j := range claims {
			c := &claims[j]
			n, s := nodeOf(w, c), k.conditionsOf(w, c)
			if c.Labels[nodePoolLabel] != p.Name || !s.is(condInitialized) || s.is(condTerminating) {
				continue
			}
			if total++; c.DeletionTimestamp != nil || k.disrupting(c.Name) || n == nil || n.DeletionTimestamp != nil || !isReady(n) {
				leaving++
			}
		}
		least := math.MaxInt
		for _, b := range p.Spec.Disruption.Budgets {
			if len(b.Reasons) == 0 || slices.Contains(b.Reasons, reason) {
				least = min(least, b.allows(total, w.now))
			}
		}
		if total > 0 && least == 0 {
			k.tell(ctx, w.now, poolRef(p), "karpenter", corev1.EventTypeNormal, "DisruptionBlocked", "No allowed disruptions for disruption reason "+reason+" due to blocking budget", time.Minute)
		}
		out[p.Name] = max(0, least-leaving)
	}
	return out
}

func isReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// allows is how many of so many nodes may be disrupted at once: any number while the budget's schedule does not hold, none where it cannot
// be read. A budget holds for its duration from each hit of its schedule, in UTC and at no other speed
// (pkg/apis/v1/nodepool.go, GetAllowedDisruptions and IsActive).
func (b *budget) allows(total int, now time.Time) int {
	if b.Schedule == "" && b.Duration == "" {
		return budgetOf(b.Nodes, total)
	}
	schedule, err := cron.ParseStandard("TZ=UTC " + b.Schedule)
	lasts, bad := time.ParseDuration(b.Duration)
	if err != nil || bad != nil && b.Duration != "" {
		return 0
	}
	if schedule.Next(now.UTC().Add(-lasts)).After(now.UTC()) {
		return math.MaxInt
	}
	return budgetOf(b.Nodes, total)
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
	if err := k.boundTermination(ctx, w, c); err != nil {
		return err
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
// itself; those that must not be disrupted are waited for, until the claim's time is over
// (node/termination/terminator/terminator.go, pkg/utils/pod/scheduling.go).
func (k *karpenter) drain(ctx context.Context, w *world, c *nodeClaim, n *corev1.Node) (left int, err error) {
	taint := []corev1.Taint{{Key: disruptedTaint, Effect: corev1.TaintEffectNoSchedule}}
	at, bounded := terminatesAt(c)
	if bounded {
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
		if bounded {
			if done, err := k.expire(ctx, w, p, at); done {
				problems = append(problems, err)
				continue
			}
		}
		switch {
		case p.DeletionTimestamp != nil:
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
