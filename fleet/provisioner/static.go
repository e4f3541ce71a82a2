package provisioner

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// static keeps the number of nodes of NodePools with replicas, whatever waits, as with the feature gate StaticCapacity
// (pkg/controllers/static/provisioning and deprovisioning). Nodes that are being replaced count, and nodes beyond the number go: those that
// are no machine yet first, then empty ones, then those that cost least to disrupt.
func (k *karpenter) static(ctx context.Context, w *world, p *nodePool, claims []nodeClaim) error {
	if p.Spec.Replicas == nil || p.DeletionTimestamp != nil || w.pool(p.Spec.Template.Spec.NodeClassRef.Name) == nil {
		return nil
	}
	var running []*nodeClaim
	replaced, all := 0, 0
	for i := range claims {
		c := &claims[i]
		if c.Labels[nodePoolLabel] != p.Name {
			continue
		}
		all++
		switch {
		case c.DeletionTimestamp != nil:
		case k.disrupting(c.Name):
			replaced++
		default:
			running = append(running, c)
		}
	}
	want := int(*p.Spec.Replicas)
	if len(running)+replaced < want {
		return k.addStatic(ctx, p, min(want-len(running), room(p, all)))
	}
	if len(running) <= want {
		return nil
	}
	slices.SortStableFunc(running, func(a, b *nodeClaim) int {
		return cmp.Or(cmp.Compare(min(1, len(a.Status.ProviderID)), min(1, len(b.Status.ProviderID))), cmp.Compare(held(w, a), held(w, b)), cmp.Compare(k.cost(w, a), k.cost(w, b)))
	})
	var problems []error
	for _, c := range running[:len(running)-want] {
		k.Log.Info("delete", "nodeclaim", c.Name, "why", "overprovisioned")
		problems = append(problems, k.deleteClaim(ctx, w, c))
	}
	return errors.Join(problems...)
}

// room is how many nodes the limit of a static NodePool leaves.
func room(p *nodePool, have int) int {
	limit, ok := p.Spec.Limits["nodes"]
	if !ok {
		return math.MaxInt
	}
	return max(0, int(limit.Value())-have)
}

func (k *karpenter) addStatic(ctx context.Context, p *nodePool, n int) error {
	var problems []error
	for range n {
		_, err := k.makeClaim(ctx, &planned{of: &template{pool: p}})
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// held orders nodes by what is on them: nothing, work, work that must not be disrupted.
func held(w *world, c *nodeClaim) int {
	if slices.ContainsFunc(w.on[c.Name], func(p *corev1.Pod) bool { return p.Annotations[doNotDisrupt] == "true" }) {
		return 2
	}
	return min(1, len(moving(w, c.Name)))
}

// replaceStatic replaces drifted nodes of static NodePools, one for one, as many as budget and limit allow
// (pkg/controllers/disruption/staticdrift.go). true: it did.
func (k *karpenter) replaceStatic(ctx context.Context, w *world, pools []nodePool, claims []nodeClaim) (did bool, err error) {
	left := k.budgets(ctx, w, pools, claims, becauseDrifted)
	var problems []error
	for i := range pools {
		p := &pools[i]
		if p.Spec.Replicas == nil {
			continue
		}
		all, running := 0, 0
		var list []*nodeClaim
		for j := range claims {
			c := &claims[j]
			if c.Labels[nodePoolLabel] != p.Name {
				continue
			}
			if all++; c.DeletionTimestamp == nil {
				running++
			}
			if k.conditionsOf(w, c).is(condDrifted) && k.candidate(ctx, w, c, true) {
				list = append(list, c)
			}
		}
		if running > int(*p.Spec.Replicas) { // not before those beyond the number are gone
			continue
		}
		for _, c := range list[:min(len(list), left[p.Name], room(p, all))] {
			problems = append(problems, k.start(ctx, w, claims, becauseDrifted, []*nodeClaim{c}, rescheduled{news: []*planned{{of: &template{pool: p}}}}))
			did = true
		}
	}
	return did, errors.Join(problems...)
}
