package queue

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/dialect/kueue"
)

// Kueue's words, of releases before and since reasons became granular.
func TestKueueWords(t *testing.T) {
	for _, c := range []struct {
		reason, message string
		want            why.Cause
	}{
		{"Misconfigured", "LocalQueue team-x doesn't exist", why.QueueMissing},
		{"Inadmissible", "ClusterQueue gpu doesn't exist", why.QueueMissing},
		{"Suspended", "ClusterQueue gpu is stopped", "queue-stopped"},
		{"Inadmissible", "ClusterQueue gpu is inactive", "queue-stopped"},
		{"Inadmissible", "Workload namespace doesn't match ClusterQueue selector", why.QueueForbidden},
		{"WaitingForQuota", "insufficient unused quota for nvidia.com/gpu in flavor a100, 8 more needed", "waiting-for-quota"},
		{"Pending", "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor a100, 8 more needed", "waiting-for-quota"},
		{"ExceedsMaxQuota", "insufficient quota for nvidia.com/gpu in flavor a100, previously considered podsets requests (0) + current podset request (64) > maximum capacity (32)", why.ExceedsQueueMaximum},
		{"Pending", "couldn't assign flavors to pod set main: insufficient quota for nvidia.com/gpu in flavor a100, request > maximum capacity (64 > 32)", why.ExceedsQueueMaximum},
		{"Pending", "couldn't assign flavors to pod set main: flavor h100 doesn't match node affinity, insufficient unused quota for nvidia.com/gpu in flavor a100, 8 more needed", "waiting-for-quota"},
		{"NoMatchingFlavor", "flavor h100 doesn't match node affinity", "no-matching-flavor"},
		{"Pending", "couldn't assign flavors to pod set main: untolerated taint {gpu present NoSchedule <nil>} in flavor h100", "no-matching-flavor"},
		{"Pending", "couldn't assign flavors to pod set main: resource nvidia.com/mig-1g.10gb unavailable in ClusterQueue", "no-matching-flavor"},
		{"TopologyPlacementFailed", `topology "default" allows to fit only 3 out of 4 pod(s)`, why.TopologyFragmented},
		{"Pending", `couldn't assign flavors to pod set main: topology "default" doesn't allow to fit any of 4 pod(s)`, why.TopologyFragmented},
		{"Misconfigured", "no requested topology level: cloud.provider.com/topology-rack", why.UnknownTopologyLevel},
		{"WaitingForPreemptedWorkloads", "Pending the preemption of 1 workload(s)", "preemption-in-progress"},
		{"Pending", "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor a, 1 more needed. Pending the preemption of 2 workload(s)", "preemption-in-progress"},
		{"PendingEvaluation", "The workload has not been evaluated yet", ""},
		{"Pending", "", ""},
	} {
		if got := kueueWords(c.reason, c.message); got != c.want {
			t.Errorf("%s: %s\n\tis %q, want %q", c.reason, c.message, got, c.want)
		}
	}
}

func FuzzKueueWords(f *testing.F) {
	f.Add("Pending", "insufficient unused quota for nvidia.com/gpu in flavor a100, 8 more needed")
	f.Add("ExceedsMaxQuota", "")
	known := []why.Cause{
		"", why.QueueMissing, why.QueueForbidden, why.UnknownTopologyLevel, why.TopologyFragmented, why.ExceedsQueueMaximum,
		"queue-stopped", "preemption-in-progress", "waiting-for-quota", "no-matching-flavor",
	}
	f.Fuzz(func(t *testing.T, reason, message string) {
		if cause := kueueWords(reason, message); !slices.Contains(known, cause) {
			t.Errorf("%q %q is %q, which no check is for", reason, message, cause)
		}
	})
}

// The quota that is left of a ClusterQueue by itself, and of one in a cohort.
func TestKueueFree(t *testing.T) {
	cq := func(name, cohort string, nominal, used int64, more map[string]any) *unstructured.Unstructured {
		r := map[string]any{"name": "gpu", "nominalQuota": nominal}
		for k, v := range more {
			r[k] = v
		}
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": map[string]any{"name": name},
			"spec":   map[string]any{"cohortName": cohort, "resourceGroups": []any{map[string]any{"coveredResources": []any{"gpu"}, "flavors": []any{map[string]any{"name": "f", "resources": []any{r}}}}}},
			"status": map[string]any{"flavorsReservation": []any{map[string]any{"name": "f", "resources": []any{map[string]any{"name": "gpu", "total": used}}}}},
		}}
	}
	for _, c := range []struct {
		name       string
		queues     []*unstructured.Unstructured // the first is asked about
		free, most int64
	}{
		{"alone", []*unstructured.Unstructured{cq("a", "", 8, 3, nil)}, 5, 8},
		{"alone and over", []*unstructured.Unstructured{cq("a", "", 8, 9, nil)}, 0, 8},
		{"others' quota", []*unstructured.Unstructured{cq("a", "x", 8, 8, nil), cq("b", "x", 8, 2, nil)}, 6, 16},
		{"of another cohort", []*unstructured.Unstructured{cq("a", "x", 8, 8, nil), cq("b", "y", 8, 2, nil)}, 0, 8},
		{"borrowing limited", []*unstructured.Unstructured{cq("a", "x", 8, 8, map[string]any{"borrowingLimit": int64(4)}), cq("b", "x", 8, 2, nil)}, 4, 12},
		{"lending limited", []*unstructured.Unstructured{cq("a", "x", 8, 8, nil), cq("b", "x", 8, 0, map[string]any{"lendingLimit": int64(3)})}, 3, 11},
		{"lent by itself to others", []*unstructured.Unstructured{cq("a", "x", 8, 0, nil), cq("b", "x", 8, 12, nil)}, 4, 16},
		{"keeps what it does not lend", []*unstructured.Unstructured{cq("a", "x", 8, 0, map[string]any{"lendingLimit": int64(0)}), cq("b", "x", 8, 8, nil)}, 8, 16},
	} {
		f := &facts.Facts{Objects: facts.Objects{Foreign: map[string][]*unstructured.Unstructured{kueue.ClusterQueues: c.queues}}}
		got := kueueFree(f, c.queues[0], "f", "gpu")
		if got.Free != c.free || got.Most != c.most {
			t.Errorf("%s: %d free of at most %d, want %d of %d", c.name, got.Free, got.Most, c.free, c.most)
		}
	}
}
