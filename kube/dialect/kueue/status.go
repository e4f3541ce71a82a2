package kueue

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/dialect"
)

// GroupStatus is a Workload's in Kueue's conditions. Berth reserves quota and finds places at once, so QuotaReserved and Admitted turn
// together where no admission check is between them. A Workload that was admitted and waits again was evicted.
func (kueue) GroupStatus(o *unstructured.Unstructured, s dialect.GroupState, at time.Time) map[string]any {
	out := dialect.StatusOf(o)
	tellChecks(out, s.Checks, at)
	switch {
	case s.Ended != "" && s.Ended != "Deleted":
		reason := "Succeeded"
		if s.Ended == "Failed" {
			reason = "Failed"
		}
		condition(out, "Finished", true, reason, "Job "+s.Ended, at)
	case s.Ended == "" && s.Running == 0 && s.Pending == 0 && s.Succeeded+s.Failed > 0 && ofPod(o):
		reason := "Succeeded"
		if s.Failed > 0 {
			reason = "Failed"
		}
		condition(out, "Finished", true, reason, "Pods finished", at)
	case s.Running > 0:
		reserved(out, o, s, at)
		condition(out, "Admitted", true, "Admitted", "The workload is admitted", at)
		if dialect.IsTrue(o, "Evicted") {
			condition(out, "Requeued", true, "Preempted", "", at)
		}
		condition(out, "PodsReady", s.Pending == 0, readiness(s), "", at)
	case s.Reserved:
		reserved(out, o, s, at)
		condition(out, "Admitted", false, "UnsatisfiedAdmissionChecks", "The workload has not all checks ready", at)
	default:
		waiting(out, o, s, at)
	}
	return out
}

// reserved has in the status that the Workload has quota.
func reserved(out map[string]any, o *unstructured.Unstructured, s dialect.GroupState, at time.Time) {
	condition(out, "QuotaReserved", true, "QuotaReserved", "Quota reserved in ClusterQueue "+kueueName(s.Queue), at)
	for _, over := range []string{"Evicted", "Preempted"} {
		if dialect.IsTrue(o, over) {
			condition(out, over, false, "QuotaReserved", "Previously: "+LastMessage(o, over), at)
		}
	}
	out["admission"] = admission(s)
}

// waiting has in the status why the Workload has no quota, and that it was evicted, or declined, if it was. The words are those of
// Kueue v0.19 (pkg/controller/core/workload_controller.go, pkg/controller/jobframework/reconciler.go).
func waiting(out map[string]any, o *unstructured.Unstructured, s dialect.GroupState, at time.Time) {
	had := dialect.IsTrue(o, "QuotaReserved")
	rejected, retry := declined(out, checkRejected), declined(out, checkRetry)
	evict := func(reason, message string, requeued bool) {
		if delete(out, "admission"); !dialect.IsTrue(o, "Evicted") || LastMessage(o, "Evicted") != message {
			resetChecks(out, at)
		}
		condition(out, "Evicted", true, reason, message, at)
		condition(out, "Requeued", requeued, reason, message, at)
		condition(out, "Admitted", false, "NoReservation", "The workload has no reservation", at)
		condition(out, "QuotaReserved", false, "PendingEvaluation", message, at)
	}
	switch {
	case rejected != "":
		evict("DeactivatedDueToAdmissionCheck", "The workload is deactivated due to "+rejected, false)
		resetChecks(out, at)
		return
	case retry != "":
		if t := retryAt(out); t.After(at) {
			state, _ := out["requeueState"].(map[string]any)
			if state == nil {
				state = make(map[string]any)
			}
			state["requeueAt"] = t.UTC().Format(time.RFC3339)
			out["requeueState"] = state
		}
		evict(evictedByCheck, "Evicted due to "+retry, false)
		resetChecks(out, at)
		return
	case had && !dialect.IsTrue(o, "Admitted") && s.Cause == "" && !s.Evicted:
		return // it had quota when this process began, and no plan has said otherwise
	case !had && (!s.Evicted || dialect.IsTrue(o, "Evicted")): // it has none to lose
	case s.Ends == evictedByDeactivation:
		evict(s.Ends, "The workload is deactivated", false)
	case s.Ends == evictedByLocalQueue:
		evict(s.Ends, "The LocalQueue is stopped", false)
	case why.Cause(s.Cause) == why.QueueStopped:
		evict("ClusterQueueStopped", "The ClusterQueue is stopped", false)
	default:
		evict("Preempted", "Its pods were evicted: it waits again", true)
		condition(out, "Preempted", true, "InClusterQueue", "Its pods were evicted", at)
	}
	requeue(out, o, s, at)
	delete(out, "admission")
	condition(out, "QuotaReserved", false, reason(s.Cause), s.Message, at)
}

// requeue has in the status that the Workload is in line again, once what kept it from that is over.
func requeue(out map[string]any, o *unstructured.Unstructured, s dialect.GroupState, at time.Time) {
	c := dialect.ConditionOf(o, "Requeued")
	if c == nil || dialect.IsTrue(o, "Requeued") {
		return
	}
	active, ok := dialect.Value(o.Object, "spec", "active").(bool)
	switch {
	case ok && !active:
	case c.Reason == evictedByCheck && !requeueAt(o.Object).After(at):
		condition(out, "Requeued", true, "BackoffFinished", "The workload backoff was finished", at)
		delete(out, "requeueState")
	case c.Reason == "ClusterQueueStopped" && s.Cause != "" && why.Cause(s.Cause) != why.QueueStopped:
		condition(out, "Requeued", true, "ClusterQueueRestarted", "The ClusterQueue was restarted after being stopped", at)
	case c.Reason == evictedByLocalQueue && s.Ends == "":
		condition(out, "Requeued", true, "LocalQueueRestarted", "The LocalQueue was restarted after being stopped", at)
	case strings.HasPrefix(c.Reason, evictedByDeactivation):
		condition(out, "Requeued", true, "Reactivated", "The workload was reactivated", at)
	}
}

// GroupSpec deactivates a Workload that an admission check rejected.
func (kueue) GroupSpec(o *unstructured.Unstructured) map[string]any {
	status, _ := o.Object["status"].(map[string]any)
	active, ok := dialect.Value(o.Object, "spec", "active").(bool)
	if ok && !active || declined(status, checkRejected) == "" {
		return nil
	}
	return map[string]any{"active": false}
}

// ofPod says whether the Workload is of pods rather than of a Job, which says itself that it is over.
func ofPod(o *unstructured.Unstructured) bool {
	for _, by := range o.GetOwnerReferences() {
		if by.Kind == "Pod" {
			return true
		}
	}
	return false
}

func readiness(s dialect.GroupState) string {
	if s.Pending == 0 {
		return "Started"
	}
	return "WaitForStart"
}

// reason is Kueue's word for a cause, as of v0.19.
func reason(cause string) string {
	switch why.Cause(cause) {
	case why.OverQueueLimit, why.OverQuota:
		return "WaitingForQuota"
	case why.ExceedsQueueMaximum:
		return "ExceedsMaxQuota"
	case why.QueueMissing:
		return "Misconfigured"
	case why.QueueStopped, why.QueueForbidden:
		return "Inadmissible"
	}
	return "Pending"
}

// admission is where the quota of a Workload that runs is from.
func admission(s dialect.GroupState) map[string]any {
	set := map[string]any{"name": "main", "count": int64(s.Running + s.Pending), "resourceUsage": amounts(s.Requested)}
	if s.Flavor != nil {
		flavors := make(map[string]any, len(s.Flavor.Names))
		for name, flavor := range s.Flavor.Names { //archtest:any-order each has its own key
			flavors[name] = flavor
		}
		set["flavors"] = flavors
	}
	return map[string]any{"clusterQueue": kueueName(s.Queue), "podSetAssignments": []any{set}}
}

// condition sets one; the time of its transition stays where its status does.
func condition(status map[string]any, kind string, is bool, reason, message string, at time.Time) {
	value := "False"
	if is {
		value = "True"
	}
	list, _ := status["conditions"].([]any)
	next := map[string]any{"type": kind, "status": value, "reason": reason, "message": message, "lastTransitionTime": at.UTC().Format(time.RFC3339)}
	out := make([]any, 0, len(list)+1)
	found := false
	for _, c := range list {
		if dialect.Text(c, "type") != kind {
			out = append(out, c)
			continue
		}
		if t := dialect.Text(c, "lastTransitionTime"); t != "" && dialect.Text(c, "status") == value {
			next["lastTransitionTime"] = t
		}
		out, found = append(out, next), true
	}
	if !found {
		out = append(out, next)
	}
	status["conditions"] = out
}

// QueueStatus is a ClusterQueue's or a LocalQueue's. A Cohort's says nothing here.
func (kueue) QueueStatus(o *unstructured.Unstructured, s dialect.QueueState, at time.Time) map[string]any {
	out := dialect.StatusOf(o)
	switch o.GetKind() {
	case "Cohort":
		return out
	case "LocalQueue":
		return localStatus(out, s, at)
	}
	counts(out, s)
	out["flavorsUsage"], out["flavorsReservation"] = usage(o, s.ByFlavor), usage(o, s.ReservedByFlavor)
	if s.Problem != "" {
		condition(out, "Active", false, "Misconfigured", s.Problem, at)
	} else if s.Shut.Reason != "" {
		condition(out, "Active", false, s.Shut.Reason, s.Shut.Message, at)
	} else {
		condition(out, "Active", true, "Ready", "Can admit new workloads", at)
	}
	return out
}

// kueueName undoes berthName.
func kueueName(queue string) string {
	if queue == ownDefault {
		return v1alpha1.DefaultQueue
	}
	return queue
}

func counts(out map[string]any, s dialect.QueueState) {
	out["pendingWorkloads"], out["reservingWorkloads"], out["admittedWorkloads"] = int64(s.Waiting-s.Reserved), int64(s.Running+s.Reserved), int64(s.Running)
}

// usage has what is held of each resource by flavor, and what of it is beyond the nominal quota.
func usage(o *unstructured.Unstructured, held map[string]corev1.ResourceList) []any {
	out := []any{}
	for _, g := range dialect.Items(o.Object, "spec", "resourceGroups") {
		for _, f := range dialect.Items(g, "flavors") {
			var resources []any
			for _, r := range dialect.Items(f, "resources") {
				name := dialect.Text(r, "name")
				use := map[string]any{"name": name, "total": "0", "borrowed": "0"}
				if q, ok := held[dialect.Text(f, "name")][corev1.ResourceName(name)]; ok {
					use["total"] = q.String()
					if nominal, err := resource.ParseQuantity(fmt.Sprint(dialect.Value(r, "nominalQuota"))); err == nil && q.Cmp(nominal) > 0 {
						q.Sub(nominal)
						use["borrowed"] = q.String()
					}
				}
				resources = append(resources, use)
			}
			out = append(out, map[string]any{"name": dialect.Text(f, "name"), "resources": resources})
		}
	}
	return out
}

func localStatus(out map[string]any, s dialect.QueueState, at time.Time) map[string]any {
	counts(out, s)
	if s.Problem != "" {
		condition(out, "Active", false, "ClusterQueueIsInactive", s.Problem, at)
	} else if s.Shut.Reason != "" {
		condition(out, "Active", false, s.Shut.Reason, s.Shut.Message, at)
	} else {
		condition(out, "Active", true, "Ready", "Can submit new workloads to ClusterQueue", at)
	}
	return out
}
