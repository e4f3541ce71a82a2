package volcano

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/dialect"
)

// GroupStatus is a PodGroup's in Volcano's phases: Pending while its queue has nothing for it, Inqueue while it waits for places,
// Running once its minimum runs, Unknown when fewer run than that, Completed. The conditions are Unschedulable and Scheduled.
func (volcano) GroupStatus(o *unstructured.Unstructured, s dialect.GroupState, at time.Time) map[string]any {
	out := dialect.StatusOf(o)
	out["phase"] = phase(s)
	for field, n := range map[string]int{"running": s.Running, "succeeded": s.Succeeded, "failed": s.Failed} { //archtest:any-order each has its own key
		if delete(out, field); n > 0 {
			out[field] = int64(n)
		}
	}
	switch {
	case s.Message != "":
		reason := "NotEnoughResources"
		if why.Cause(s.Cause) == why.GangIncomplete {
			reason = "NotEnoughTasks"
		}
		condition(out, "Unschedulable", reason, s.Message, at)
	case s.Running >= max(1, s.Min):
		condition(out, "Scheduled", "tasks in gang are ready to be scheduled", "", at)
	}
	return out
}

func phase(s dialect.GroupState) string {
	switch {
	case s.Running >= max(1, s.Min):
		return "Running"
	case s.Running > 0:
		return "Unknown"
	case s.Pending == 0 && s.Succeeded+s.Failed > 0:
		return "Completed"
	case ofQueue(why.Cause(s.Cause)):
		return "Pending"
	case s.Pending > 0:
		return "Inqueue"
	}
	return "Pending"
}

// ofQueue says whether a workload waits for its queue rather than for places.
func ofQueue(c why.Cause) bool {
	switch c {
	case why.QueueMissing, why.OverQueueLimit, why.ExceedsQueueMaximum, why.OverQuota:
		return true
	}
	return false
}

// condition makes the one of the kind the last, as Volcano does; the time and the number of its transition stay where nothing turned.
func condition(status map[string]any, kind, reason, message string, at time.Time) {
	list, _ := status["conditions"].([]any)
	kept := make([]any, 0, len(list)+1)
	since, id := at, 1
	for _, c := range list {
		n, _ := strconv.Atoi(dialect.Text(c, "transitionID"))
		id = max(id, n+1)
		if dialect.Text(c, "type") != kind {
			kept = append(kept, c)
		} else if t := dialect.Time(c, "lastTransitionTime"); !t.IsZero() && dialect.Text(c, "reason") == reason {
			since, id = t, max(n, 1)
		}
	}
	status["conditions"] = append(kept, map[string]any{
		"type": kind, "status": "True", "reason": reason, "message": message,
		"transitionID": strconv.Itoa(id), "lastTransitionTime": since.UTC().Format(time.RFC3339),
	})
}

// QueueStatus is a Queue's: open, with what its workloads hold.
func (volcano) QueueStatus(o *unstructured.Unstructured, s dialect.QueueState, at time.Time) map[string]any {
	out := dialect.StatusOf(o)
	if out["state"] == nil {
		out["state"] = "Open"
	}
	out["running"], out["pending"], out["allocated"] = int64(s.Running), int64(s.Waiting), allocated(s.Allocated)
	return out
}

func allocated(list corev1.ResourceList) map[string]any {
	out := make(map[string]any, len(list))
	for name, q := range list { //archtest:any-order each has its own key
		out[string(name)] = q.String()
	}
	return out
}
