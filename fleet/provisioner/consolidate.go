package provisioner

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// mostTogether is how many nodes are consolidated at once (pkg/controllers/disruption/multinodeconsolidation.go, MaxParallel).
const mostTogether = 100

// consolidate gives nodes back whose work has room elsewhere, or on one cheaper node: of all little used ones as many together as
// possible, else one (pkg/controllers/disruption/consolidation.go, multinodeconsolidation.go, singlenodeconsolidation.go). What Karpenter
// decides it looks at once more after 15 seconds; that is not played. true: it did.
func (k *karpenter) consolidate(ctx context.Context, w *world, pools []nodePool, claims []nodeClaim) (bool, error) {
	left := k.budgets(ctx, w, pools, claims, becauseUnderutilized)
	var list []*nodeClaim
	for i := range claims {
		c := &claims[i]
		p := poolOf(pools, c)
		if p == nil || p.Spec.Replicas != nil || p.Spec.Disruption.ConsolidationPolicy != "WhenEmptyOrUnderutilized" || !k.conditionsOf(w, c).is(condConsolidatable) {
			continue
		}
		if len(moving(w, c.Name)) > 0 && k.candidate(ctx, w, c, false) { // an empty one is kept by a budget
			list = append(list, c)
		}
	}
	slices.SortStableFunc(list, func(a, b *nodeClaim) int { return cmp.Compare(k.cost(w, a), k.cost(w, b)) })
	var allowed []*nodeClaim
	for _, c := range list {
		if left[c.Labels[nodePoolLabel]] > 0 {
			left[c.Labels[nodePoolLabel]]--
			allowed = append(allowed, c)
		}
	}
	for low, high := 2, min(len(allowed), mostTogether); low <= high; {
		n := (low + high) / 2
		if _, why := k.option(w, pools, claims, allowed[:n]); why == "" {
			low = n + 1
		} else {
			high = n - 1
		}
		if low > high && high >= 2 {
			to, _ := k.option(w, pools, claims, allowed[:high])
			return true, k.start(ctx, w, claims, becauseUnderutilized, allowed[:high], to)
		}
	}
	for _, c := range allowed {
		to, why := k.option(w, pools, claims, []*nodeClaim{c})
		if why == "" {
			return true, k.start(ctx, w, claims, becauseUnderutilized, []*nodeClaim{c}, to)
		}
		k.tell(ctx, w.now, claimRef(c), "karpenter", corev1.EventTypeNormal, "Unconsolidatable", sentence(why), 15*time.Minute)
		if n := nodeOf(w, c); n != nil {
			k.tell(ctx, w.now, nodeRef(n), "karpenter", corev1.EventTypeNormal, "Unconsolidatable", sentence(why), 15*time.Minute)
		}
	}
	return false, nil
}

// option is what nodes the candidates' work needs if they go: none, or one that is cheaper; else why they stay.
func (k *karpenter) option(w *world, pools []nodePool, claims []nodeClaim, candidates []*nodeClaim) (to rescheduled, why string) {
	to, problem := k.simulate(w, pools, claims, candidates)
	news := to.news
	switch {
	case problem != nil:
		return to, problem.Error()
	case len(news) == 0:
		return to, ""
	case len(news) > 1:
		return to, "can't remove without creating " + strconv.Itoa(len(news)) + " candidates"
	}
	spot := !slices.ContainsFunc(candidates, func(c *nodeClaim) bool { return c.Labels[capacityTypeLabel] != string(v1alpha1.CapacitySpot) })
	if spot && slices.ContainsFunc(news[0].offers, func(o offer) bool { return o.from == v1alpha1.CapacitySpot }) {
		return to, "SpotToSpotConsolidation is disabled, can't replace a spot node with a spot node"
	}
	news[0].offers = slices.DeleteFunc(slices.Clone(news[0].offers), func(o offer) bool {
		return !slices.ContainsFunc(candidates, func(c *nodeClaim) bool { return k.cheaper(w, &o, c) })
	})
	if len(news[0].offers) == 0 {
		return to, "can't replace with a cheaper node"
	}
	if slices.ContainsFunc(news[0].offers, func(o offer) bool { return o.from == v1alpha1.CapacitySpot }) { // and not on demand if there is no spot
		news[0].offers = slices.DeleteFunc(news[0].offers, func(o offer) bool { return o.from == v1alpha1.CapacityOnDemand })
	}
	return to, ""
}

// cheaper says whether a machine of the offer costs less than the claim's. What is reserved is paid for already; of one Pool spot costs less
// than on demand; of two Pools the prices decide, where both have one.
func (k *karpenter) cheaper(w *world, o *offer, c *nodeClaim) bool {
	from, class := v1alpha1.CapacityType(c.Labels[capacityTypeLabel]), w.pool(c.Spec.NodeClassRef.Name)
	switch {
	case class == nil || from == v1alpha1.CapacityReserved:
		return false
	case o.from == v1alpha1.CapacityReserved:
		return true
	case o.class.Name == class.Name:
		return o.from == v1alpha1.CapacitySpot && from == v1alpha1.CapacityOnDemand
	case o.from == v1alpha1.CapacityOnDemand && from == v1alpha1.CapacitySpot:
		return false
	}
	a, b := hourly(o.class), hourly(class)
	return a >= 0 && a < b
}

// hourly is the Pool's price in millionths; -1: nobody says.
func hourly(p *v1alpha1.Pool) int64 {
	if p.Spec.Price == nil {
		return -1
	}
	whole, part, _ := strings.Cut(p.Spec.Price.PerInstanceHour, ".")
	n, err := strconv.ParseInt(whole+(part + "000000")[:6], 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// cost is what it takes to disrupt the claim's node: more pods, of higher priority, and a longer life ahead
// (pkg/utils/disruption/disruption.go).
func (k *karpenter) cost(w *world, c *nodeClaim) float64 {
	sum := 0.0
	for _, p := range w.on[c.Name] {
		one := 1.0
		if n, err := strconv.ParseFloat(p.Annotations[corev1.PodDeletionCost], 64); err == nil {
			one += n / math.Pow(2, 27)
		}
		sum += min(10, max(-10, one+float64(priority(p))/math.Pow(2, 25)))
	}
	if after, ok := duration(c.Spec.ExpireAfter); ok && after > 0 {
		age := w.now.Sub(c.CreationTimestamp.Time)
		sum *= min(1, max(0, 1-age.Seconds()/k.Clock.Wall(after).Seconds()))
	}
	return sum
}
