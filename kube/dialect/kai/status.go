package kai

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/dialect"
)

// pool is what KAI calls the nodes of a cluster without shards.
const pool = "default"

// GroupStatus is a PodGroup's: how many pods it has in which phase, what they hold, and while it cannot be scheduled the condition
// UnschedulableOnNodePool that KAI's users look for.
func (kai) GroupStatus(o *unstructured.Unstructured, s dialect.GroupState, at time.Time) map[string]any {
	out := dialect.StatusOf(o)
	phase := "Pending"
	switch {
	case s.Running > 0:
		phase = "Running"
	case s.Pending == 0 && s.Failed > 0:
		phase = "Failed"
	case s.Pending == 0 && s.Succeeded > 0:
		phase = "Succeeded"
	}
	out["phase"] = phase
	out["running"], out["pending"], out["succeeded"], out["failed"] = int64(s.Running), int64(s.Pending), int64(s.Succeeded), int64(s.Failed)
	resources := map[string]any{"requested": amounts(s.Requested), "allocated": amounts(s.Allocated)}
	if !s.Preemptible {
		resources["allocatedNonPreemptible"] = amounts(s.Allocated)
	}
	out["resourcesStatus"] = resources
	if s.Message == "" {
		delete(out, "schedulingConditions")
		return out
	}
	was, _ := out["schedulingConditions"].([]any)
	id, since := "1", at
	if len(was) > 0 {
		if c, ok := was[len(was)-1].(map[string]any); ok {
			if t := dialect.Time(c, "lastTransitionTime"); !t.IsZero() {
				since = t
			}
		}
	}
	out["schedulingConditions"] = []any{map[string]any{
		"type": "UnschedulableOnNodePool", "status": "True", "nodePool": pool, "reason": "Unschedulable", "message": s.Message,
		"transitionID": id, "lastTransitionTime": since.UTC().Format(time.RFC3339),
		"reasons": []any{map[string]any{"reason": reason(s.Cause), "message": s.Message}},
	}}
	return out
}

// reason is KAI's word for a cause.
func reason(cause string) string {
	switch why.Cause(cause) {
	case why.QueueMissing:
		return "QueueDoesNotExist"
	case why.OverQueueLimit, why.ExceedsQueueMaximum:
		return "OverLimit"
	case why.OverQuota:
		return "NonPreemptibleOverQuota"
	}
	return "Unschedulable"
}

// QueueStatus is a Queue's: the queues below it, and what its workloads hold and ask for.
func (kai) QueueStatus(o *unstructured.Unstructured, s dialect.QueueState, at time.Time) map[string]any {
	out := dialect.StatusOf(o)
	delete(out, "childQueues")
	if len(s.Children) > 0 {
		list := make([]any, len(s.Children))
		for i, name := range s.Children {
			list[i] = kaiName(name)
		}
		out["childQueues"] = list
	}
	out["allocated"], out["allocatedNonPreemptible"], out["requested"] = amounts(s.Allocated), amounts(s.Firm), amounts(s.Requested)
	return out
}

// amounts are in KAI's units: GPUs, millicores and MB.
func amounts(list corev1.ResourceList) map[string]any {
	out := make(map[string]any, 3)
	for name, q := range list { //archtest:any-order each has its own key
		switch name {
		case corev1.ResourceCPU:
			out["cpu"] = fmt.Sprint(q.MilliValue())
		case corev1.ResourceMemory:
			out["memory"] = fmt.Sprint(q.Value() / 1e6)
		default:
			if strings.HasSuffix(string(name), "/gpu") {
				out[string(name)] = q.String()
			}
		}
	}
	return out
}
