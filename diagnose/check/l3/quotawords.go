package l3

import (
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/internal/life"
)

// overKey is how the API server says by how much a quota would be exceeded.
var overKey = regexp.MustCompile(`requested: ([^=,\s]+)=([^,\s]+).*?, limited: `)

// refusedKey is the key of a quota, and how much of it was asked for, in the words of a refusal.
func refusedKey(r *life.Refusal) (key corev1.ResourceName, ask resource.Quantity, ok bool) {
	m := overKey.FindStringSubmatch(r.Value)
	if m == nil {
		return "", ask, false
	}
	ask, err := resource.ParseQuantity(m[2])
	return corev1.ResourceName(m[1]), ask, err == nil
}

// refusesStill says whether the quota has too little left for what it refused then.
func refusesStill(q *corev1.ResourceQuota, r *life.Refusal) bool {
	key, ask, ok := refusedKey(r)
	hard, counted := q.Status.Hard[key]
	wanted := q.Status.Used[key].DeepCopy()
	wanted.Add(ask)
	return ok && counted && wanted.Cmp(hard) > 0
}

// claimRefused says whether a quota still refuses, or no longer does by an edit, the claim that is made for the pod: it is the
// quota's cause then.
func claimRefused(c *check.Case, r *life.Refusal) bool {
	return slices.ContainsFunc(c.ResourceQuotas, func(q *corev1.ResourceQuota) bool {
		return q.Namespace == c.Pod.Namespace && q.Name == r.Name && (refusesStill(q, r) || c.WasEdited(q))
	})
}
