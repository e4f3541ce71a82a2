package fleet

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// poolStatus is the pool's status brought up to date, and whether that changed it. problem is
// what is wrong with the spec; empty: nothing. The pool has its defaults.
func poolStatus(pool *v1alpha1.Pool, n poolCount, problem string) (v1alpha1.PoolStatus, bool) {
	old := pool.Status
	next := *old.DeepCopy()
	next.Nodes, next.Ready, next.GPUs = int32(n.nodes), int32(n.ready), int32(n.gpus)
	for _, c := range []metav1.Condition{validCondition(problem), readyCondition(pool, n)} {
		c.ObservedGeneration = pool.Generation
		meta.SetStatusCondition(&next.Conditions, c)
	}
	return next, !equality.Semantic.DeepEqual(old, next)
}

func validCondition(problem string) metav1.Condition {
	if problem != "" {
		return metav1.Condition{Type: v1alpha1.PoolValid, Status: metav1.ConditionFalse, Reason: "Invalid", Message: problem}
	}
	return metav1.Condition{Type: v1alpha1.PoolValid, Status: metav1.ConditionTrue, Reason: "Valid"}
}

// are is a noun and its verb, as a count of it asks for.
func are(n int64, noun string) string {
	if n == 1 {
		return noun + " is"
	}
	return noun + "s are"
}

func readyCondition(pool *v1alpha1.Pool, n poolCount) metav1.Condition {
	nodes := int64(0)
	if pool.Spec.Nodes != nil {
		nodes = int64(*pool.Spec.Nodes)
	}
	gpus := nodes * expectedGPUs(pool)
	c := metav1.Condition{Type: v1alpha1.PoolReady, Status: metav1.ConditionTrue, Reason: "AllReady"}
	switch {
	case n.ready < nodes:
		c.Status, c.Reason = metav1.ConditionFalse, "NodesNotReady"
		c.Message = fmt.Sprintf("%d of %d %s Ready", n.ready, nodes, are(nodes, "node"))
	case n.gpus < gpus:
		c.Status, c.Reason = metav1.ConditionFalse, "GPUsMissing"
		c.Message = fmt.Sprintf("%d of %d %s allocatable", n.gpus, gpus, are(gpus, "GPU"))
	}
	return c
}
