package provisioner

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// terminationKey is when the pods of a NodeClaim's node are deleted, whatever keeps them (pkg/apis/v1/labels.go).
const terminationKey = "karpenter.sh/nodeclaim-termination-timestamp"

// repairPolicies are the conditions by which a node is unhealthy, and for how long each is borne (aws/karpenter-provider-aws v1.9.1:
// pkg/cloudprovider/cloudprovider.go, RepairPolicies). All but Ready are written by EKS' node monitoring agent.
var repairPolicies = []struct {
	condition corev1.NodeConditionType
	status    corev1.ConditionStatus
	borne     time.Duration
}{
	{corev1.NodeReady, corev1.ConditionFalse, 30 * time.Minute},
	{corev1.NodeReady, corev1.ConditionUnknown, 30 * time.Minute},
	{"AcceleratedHardwareReady", corev1.ConditionFalse, 10 * time.Minute},
	{"StorageReady", corev1.ConditionFalse, 30 * time.Minute},
	{"NetworkingReady", corev1.ConditionFalse, 30 * time.Minute},
	{"KernelReady", corev1.ConditionFalse, 30 * time.Minute},
	{"ContainerRuntimeReady", corev1.ConditionFalse, 30 * time.Minute},
}

// unhealthyShare is how many nodes of a NodePool may be unhealthy such that they are repaired, and repairAgain when it is looked again where
// there are more; repairTold is how long that is not said again (pkg/controllers/node/health/controller.go and events.go).
const (
	unhealthyShare = "20%"
	repairAgain    = 5 * time.Minute
	repairTold     = 15 * time.Minute
)

// unhealthySince says whether the node has a condition of the policies, and when the first of those is borne no longer.
func (k *karpenter) unhealthySince(n *corev1.Node) (until time.Time, is bool) {
	for _, p := range repairPolicies {
		for _, c := range n.Status.Conditions {
			if c.Type != p.condition || c.Status != p.status {
				continue
			}
			if at := c.LastTransitionTime.Add(k.Clock.Wall(p.borne)); !is || at.Before(until) {
				until, is = at, true
			}
		}
	}
	return until, is
}

// repair deletes the claims of nodes that are unhealthy for too long: budgets, do-not-disrupt and the time that pods ask for do not hold
// them up, and what they ran comes back on other nodes. Where more than a fifth of the NodePool is unhealthy, rounded up, something else
// is wrong, and none is (pkg/controllers/node/health/controller.go; behind the feature gate NodeRepair).
func (k *karpenter) repair(ctx context.Context, w *world, pools []nodePool, claims []nodeClaim) error {
	if !k.NodeRepair {
		return nil
	}
	var problems []error
	for i := range claims {
		c := &claims[i]
		n := nodeOf(w, c)
		if n == nil || c.DeletionTimestamp != nil {
			delete(k.repairAt, c.Name)
			continue
		}
		until, is := k.unhealthySince(n)
		if !is {
			delete(k.repairAt, c.Name)
		}
		if !is || w.now.Before(until) || w.now.Before(k.repairAt[c.Name]) {
			continue
		}
		if !k.mostAreHealthy(w, c.Labels[nodePoolLabel]) {
			k.repairAt[c.Name] = w.now.Add(k.Clock.Wall(repairAgain))
			switch {
			case c.Labels[nodePoolLabel] == "":
				k.tell(ctx, w.now, nodeRef(n), "karpenter", corev1.EventTypeWarning, "NodeRepairBlocked", "more then "+unhealthyShare+" nodes are unhealthy in the cluster", repairTold)
			case poolOf(pools, c) != nil:
				k.tell(ctx, w.now, nodeRef(n), "karpenter", corev1.EventTypeWarning, "NodeRepairBlocked", "more than "+unhealthyShare+" nodes are unhealthy in the nodepool", repairTold)
			}
			continue
		}
		k.Log.Info("delete", "nodeclaim", c.Name, "why", "unhealthy")
		problems = append(problems, k.repairNow(ctx, w, c))
	}
	return errors.Join(problems...)
}

// mostAreHealthy says whether no more than the share of the NodePool's nodes are unhealthy; of all nodes where there is no NodePool.
func (k *karpenter) mostAreHealthy(w *world, pool string) bool {
	all, unhealthy := 0, 0
	for _, n := range w.nodes {
		if pool != "" && n.Labels[nodePoolLabel] != pool {
			continue
		}
		all++
		if _, is := k.unhealthySince(n); is {
			unhealthy++
		}
	}
	return unhealthy <= budgetOf(unhealthyShare, all)
}

// repairNow has the pods of the node be deleted at once, and the claim with it.
func (k *karpenter) repairNow(ctx context.Context, w *world, c *nodeClaim) error {
	if at, ok := terminatesAt(c); !ok || !at.Before(w.now) {
		if err := k.setTermination(ctx, c, w.now); err != nil {
			return err
		}
	}
	return k.deleteClaim(ctx, w, c)
}

func (k *karpenter) setTermination(ctx context.Context, c *nodeClaim, at time.Time) error {
	value := at.UTC().Format(time.RFC3339)
	if c.Annotations == nil {
		c.Annotations = make(map[string]string)
	}
	c.Annotations[terminationKey] = value
	return k.patch(ctx, nodeClaimResource, "", c.Name, "", map[string]any{"metadata": map[string]any{"uid": c.UID, "annotations": map[string]string{terminationKey: value}}})
}

// terminatesAt is when the pods of the claim's node are deleted; false: they are waited for.
func terminatesAt(c *nodeClaim) (time.Time, bool) {
	at, err := time.Parse(time.RFC3339, c.Annotations[terminationKey])
	return at, err == nil
}

// boundTermination says once until when a claim that is deleted waits for its pods, where it has a grace period
// (pkg/controllers/nodeclaim/lifecycle/controller.go, ensureTerminationGracePeriodTerminationTimeAnnotation).
func (k *karpenter) boundTermination(ctx context.Context, w *world, c *nodeClaim) error {
	grace, ok := duration(c.Spec.TerminationGracePeriod)
	if _, set := c.Annotations[terminationKey]; !ok || set {
		return nil
	}
	at := c.DeletionTimestamp.Add(k.Clock.Wall(grace))
	k.tell(ctx, w.now, claimRef(c), "karpenter", corev1.EventTypeWarning, "TerminationGracePeriodExpiring", "All pods will be deleted by "+at.UTC().Format(time.RFC3339), eventTTL)
	return k.setTermination(ctx, c, at)
}

// expire deletes a pod of a node that terminates at the time, such that it has its grace period until then, or what is left of it; it does
// so again where the pod was given longer. false: it is not time yet (node/termination/terminator/terminator.go, DeleteExpiringPods).
func (k *karpenter) expire(ctx context.Context, w *world, p *corev1.Pod, at time.Time) (bool, error) {
	grace := p.Spec.TerminationGracePeriodSeconds
	if grace == nil || !w.now.After(at.Add(-time.Duration(*grace)*time.Second)) || p.DeletionTimestamp != nil && !p.DeletionTimestamp.After(at) {
		return false, nil
	}
	left := max(int64(at.Sub(w.now).Seconds()), 1) // less than a second would have the API server forget a pod that may run
	if p.DeletionTimestamp != nil && p.DeletionGracePeriodSeconds != nil && *p.DeletionGracePeriodSeconds <= left {
		return false, nil
	}
	k.tell(ctx, w.now, podRef(p), "karpenter", corev1.EventTypeNormal, "Disrupted", fmt.Sprintf("Deleting the pod to accommodate the terminationTime %v of the node. The pod was granted %d seconds of grace-period of its %d terminationGracePeriodSeconds. This bypasses the PDB of the pod and the do-not-disrupt annotation.", at, left, *grace), eventTTL)
	return true, unlessGone(k.core.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: &left, Preconditions: metav1.NewUIDPreconditions(string(p.UID))}))
}
