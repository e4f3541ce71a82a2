package coscheduling

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/kube/dialect"
)

// GroupStatus is a PodGroup's in the words of the project's controller.
func (coscheduling) GroupStatus(o *unstructured.Unstructured, s dialect.GroupState, at time.Time) map[string]any {
	out := dialect.StatusOf(o)
	out["phase"] = phase(s)
	for field, n := range map[string]int{"running": s.Running, "succeeded": s.Succeeded, "failed": s.Failed} { //archtest:any-order each has its own key
		if delete(out, field); n > 0 {
			out[field] = int64(n)
		}
	}
	if out["scheduleStartTime"] == nil && s.Begun {
		out["scheduleStartTime"] = at.UTC().Format(time.RFC3339)
	}
	return out
}

func phase(s dialect.GroupState) string {
	least := max(1, s.Min)
	switch {
	case s.Failed > 0 && s.Running+s.Succeeded < least:
		return "Failed"
	case s.Succeeded >= least && s.Running == 0:
		return "Finished"
	case s.Running+s.Succeeded >= least:
		return "Running"
	case s.Running > 0:
		return "Unknown"
	}
	return "Pending"
}

// QueueStatus is an ElasticQuota's: what its namespace uses.
func (coscheduling) QueueStatus(o *unstructured.Unstructured, s dialect.QueueState, _ time.Time) map[string]any {
	out := dialect.StatusOf(o)
	used := make(map[string]any, len(s.Allocated))
	for name, q := range s.Allocated { //archtest:any-order each has its own key
		used[string(name)] = q.String()
	}
	out["used"] = used
	return out
}
