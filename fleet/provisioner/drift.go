package provisioner

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Annotations of NodePools and NodeClaims (pkg/apis/v1/labels.go, nodepool.go).
const (
	hashKey        = "karpenter.sh/nodepool-hash"
	hashVersionKey = "karpenter.sh/nodepool-hash-version"
	hashVersion    = "v3"
)

// hash is of what nodes of the NodePool are made by, its requirements aside, which labels are held against; the order of lists does not
// matter (pkg/apis/v1/nodepool.go, Hash). The number is not the one that Karpenter computes.
func (p *nodePool) hash() string {
	t := p.Spec.Template
	t.Spec.Requirements, t.Spec.Resources = nil, claimResources{}
	taints := func(list []corev1.Taint) []corev1.Taint {
		return slices.SortedFunc(slices.Values(list), func(a, b corev1.Taint) int {
			return cmp.Or(strings.Compare(a.Key, b.Key), strings.Compare(string(a.Effect), string(b.Effect)), strings.Compare(a.Value, b.Value))
		})
	}
	t.Spec.Taints, t.Spec.StartupTaints = taints(t.Spec.Taints), taints(t.Spec.StartupTaints)
	text, err := json.Marshal(t)
	if err != nil {
		return ""
	}
	sum := fnv.New64a()
	sum.Write(text)
	return fmt.Sprint(sum.Sum64())
}

// rehash keeps the hash of the NodePool on it. Claims from before there were hashes get it too (pkg/controllers/nodepool/hash/controller.go).
func (k *karpenter) rehash(ctx context.Context, w *world, p *nodePool, claims []nodeClaim) error {
	want := p.hash()
	if p.Annotations[hashKey] == want && p.Annotations[hashVersionKey] == hashVersion {
		return nil
	}
	if p.Annotations[hashVersionKey] != hashVersion {
		for i := range claims {
			c := &claims[i]
			if c.Labels[nodePoolLabel] != p.Name || c.DeletionTimestamp != nil || c.Annotations[hashVersionKey] == hashVersion {
				continue
			}
			next := map[string]string{hashVersionKey: hashVersion}
			if k.conditionsOf(w, c).get(condDrifted) == nil {
				next[hashKey] = want
			}
			if err := k.patch(ctx, nodeClaimResource, "", c.Name, "", map[string]any{"metadata": map[string]any{"uid": c.UID, "annotations": next}}); err != nil {
				return err
			}
		}
	}
	p.Annotations = hashed(p, p.Annotations)
	return k.patch(ctx, nodePoolResource, "", p.Name, "", map[string]any{"metadata": map[string]any{"uid": p.UID, "annotations": map[string]string{hashKey: want, hashVersionKey: hashVersion}}})
}

// drift says that the NodePool would make another node now (pkg/controllers/nodeclaim/disruption/drift.go). A Pool that changes changes its
// machines at once, so there is no drift of the class.
func (k *karpenter) drift(c *nodeClaim, s conditions, pools []nodePool) {
	i := slices.IndexFunc(pools, func(p nodePool) bool { return p.Name == c.Labels[nodePoolLabel] })
	if i < 0 {
		return
	}
	why := ""
	if s.is(condLaunched) {
		why = drifted(&pools[i], c)
	}
	if why == "" {
		s.clear(condDrifted)
		return
	}
	s.set(condDrifted, metav1.ConditionTrue, why, why)
}

func drifted(p *nodePool, c *nodeClaim) string {
	a, b := p.Annotations, c.Annotations
	if a[hashKey] != "" && b[hashKey] != "" && a[hashVersionKey] == b[hashVersionKey] && a[hashKey] != b[hashKey] {
		return "NodePoolDrifted"
	}
	for _, r := range p.Spec.Template.Spec.Requirements {
		if _, known := c.Labels[r.Key]; known && !meets([]corev1.NodeSelectorRequirement{r}, c.Labels) {
			return "RequirementsDrifted"
		}
	}
	return ""
}

// replaceDrifted disrupts one drifted node, the empty ones first, then the longest drifted: what runs on it has its new node before it
// goes (pkg/controllers/disruption/drift.go). true: it did.
func (k *karpenter) replaceDrifted(ctx context.Context, w *world, pools []nodePool, claims []nodeClaim) (bool, error) {
	var list []*nodeClaim
	for i := range claims {
		c := &claims[i]
		if p := poolOf(pools, c); p != nil && p.Spec.Replicas == nil && k.conditionsOf(w, c).is(condDrifted) && k.candidate(ctx, w, c, true) {
			list = append(list, c)
		}
	}
	since := func(c *nodeClaim) time.Time { return k.conditionsOf(w, c).get(condDrifted).LastTransitionTime.Time }
	slices.SortStableFunc(list, func(a, b *nodeClaim) int {
		return cmp.Or(cmp.Compare(min(1, len(moving(w, a.Name))), min(1, len(moving(w, b.Name)))), since(a).Compare(since(b)))
	})
	left := k.budgets(ctx, w, pools, claims, becauseDrifted)
	for _, c := range list {
		if left[c.Labels[nodePoolLabel]] == 0 {
			continue
		}
		to, problem := k.simulate(w, pools, claims, []*nodeClaim{c})
		if problem != nil {
			k.tell(ctx, w.now, claimRef(c), "karpenter", corev1.EventTypeNormal, "DisruptionBlocked", sentence(problem.Error()), eventTTL)
			continue
		}
		return true, k.start(ctx, w, claims, becauseDrifted, []*nodeClaim{c}, to)
	}
	return false, nil
}

func poolOf(pools []nodePool, c *nodeClaim) *nodePool {
	for i := range pools {
		if pools[i].Name == c.Labels[nodePoolLabel] {
			return &pools[i]
		}
	}
	return nil
}
