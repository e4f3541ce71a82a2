package kueue

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/kube/dialect"
)

// The kinds that say what else a workload waits for, and where its pods may be.
const (
	AdmissionChecks = "AdmissionCheck.kueue.x-k8s.io"
	Topologies      = "Topology.kueue.x-k8s.io"
)

// States of a check on a Workload, beside Ready.
const (
	checkPending  = "Pending"
	checkRetry    = "Retry"
	checkRejected = "Rejected"
)

// Reasons of the condition Evicted.
const (
	evictedByCheck        = "AdmissionCheck"
	evictedByDeactivation = "Deactivated"
	evictedByLocalQueue   = "LocalQueueStopped"
)

// maxChecks is how many admission checks of a workload are looked at.
const maxChecks = 8

// workload is what is kept of a Workload.
type workload struct {
	inactive bool
	queue    string
	checks   map[string]string // states, by name
	flavors  []string          // that it was given, sorted
	after    time.Time         // when it may be given quota again
	reserved bool              // it has quota, and is not admitted
}

// requeueAt is before when the Workload is not given quota again; zero: there is no such time.
func requeueAt(workload any) time.Time {
	return dialect.Time(dialect.Value(workload, "status", "requeueState"), "requeueAt")
}

// readWorkload reads a Workload: whether it is active, which flavors it was given, and how far its admission checks are. One that people made is none of Berth's,
// which makes a Workload for every Job and pod that names a queue.
func readWorkload(o *unstructured.Unstructured) dialect.Object {
	active, ok := dialect.Value(o.Object, "spec", "active").(bool)
	v := &workload{inactive: ok && !active, queue: dialect.Text(o.Object, "spec", "queueName")}
	for _, c := range dialect.Items(o.Object, "status", "admissionChecks") {
		if name := dialect.Text(c, "name"); name != "" && len(v.checks) < 2*maxChecks {
			if v.checks == nil {
				v.checks = make(map[string]string)
			}
			v.checks[name] = dialect.Text(c, "state")
		}
	}
	for _, set := range dialect.Items(o.Object, "status", "admission", "podSetAssignments") {
		flavors, _ := dialect.Value(set, "flavors").(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(flavors)) {
			if f, ok := flavors[name].(string); ok && len(v.flavors) < maxFlavors {
				v.flavors = append(v.flavors, f)
			}
		}
	}
	slices.Sort(v.flavors)
	v.flavors = slices.Compact(v.flavors)
	v.after = requeueAt(o.Object)
	v.reserved = dialect.IsTrue(o, "QuotaReserved") && !dialect.IsTrue(o, "Admitted")
	out := dialect.Object{Value: v}
	if len(o.GetOwnerReferences()) == 0 && o.GetLabels()[managedBy] != "berth" {
		out.Problem = "it belongs to no Job or pod: Berth makes the Workload of each that names a queue, and lets in no other"
	}
	return out
}

// checkSpec has the fields of an AdmissionCheck. Whoever makes the check reads them; Berth waits for its state on the Workload.
type checkSpec struct {
	ControllerName    string `json:"controllerName"`
	RetryDelayMinutes *int64 `json:"retryDelayMinutes"`
	Parameters        struct {
		APIGroup string `json:"apiGroup"`
		Kind     string `json:"kind"`
		Name     string `json:"name"`
	} `json:"parameters"`
}

func readCheck(o *unstructured.Unstructured) dialect.Object {
	spec := &checkSpec{}
	out := dialect.Object{Unread: dialect.Take(dialect.Value(o.Object, "spec"), "spec", spec), Value: spec}
	if strings.HasPrefix(spec.ControllerName, domain+"/") { // provisioning-request, multikueue
		out.Unread = append(out.Unread, "spec.controllerName ("+spec.ControllerName+" is in Kueue's own controller, which Berth stands in for: nobody makes this check)")
	}
	return out
}

// topologySpec has the fields of a Topology. Levels are node labels here, whoever names them.
type topologySpec struct {
	Levels []struct {
		NodeLabel string `json:"nodeLabel"`
	} `json:"levels"`
}

func readTopology(o *unstructured.Unstructured) dialect.Object {
	spec := &topologySpec{}
	out := dialect.Object{Unread: dialect.Take(dialect.Value(o.Object, "spec"), "spec", spec), Value: spec}
	if len(spec.Levels) == 0 || len(spec.Levels) > 16 {
		out.Problem = fmt.Sprintf("spec.levels has %d: want 1 to 16", len(spec.Levels))
	}
	return out
}

// Topologies are those of Topology objects: node labels, the widest first.
func (kueue) Topologies(w dialect.World) (out [][]dialect.Tier) {
	for _, o := range w.Objects(Topologies, "") {
		spec, ok := o.Value.(*topologySpec)
		if !ok || o.Problem != "" {
			continue
		}
		var list []dialect.Tier
		for _, l := range spec.Levels {
			list = append(list, dialect.ByLabel(l.NodeLabel))
		}
		out = append(out, list)
	}
	return out
}

// checks has the workload keep its quota, once it has it, until everybody who has to has agreed: the admission checks of its
// ClusterQueue are Ready on its Workload. A check that is for some flavors counts where the workload was given one of them, and before
// that where it may be. One that declines takes the quota back: Retry for a time, Rejected for good.
func (r *reading) checks(q *clusterQueue, work *workload) {
	all := slices.Clone(q.AdmissionChecks)
	names := slices.Clone(all)
	for _, c := range q.ChecksStrategy.AdmissionChecks {
		switch {
		case len(c.OnFlavors) == 0:
			all, names = append(all, c.Name), append(names, c.Name)
		case len(work.flavors) > 0:
			if slices.ContainsFunc(work.flavors, func(f string) bool { return slices.Contains(c.OnFlavors, f) }) {
				all, names = append(all, c.Name), append(names, c.Name)
			}
		case slices.ContainsFunc(r.out.Flavors, func(f dialect.Flavor) bool { return named1(f, c.OnFlavors) }):
			names = append(names, c.Name)
		}
	}
	slices.Sort(names)
	slices.Sort(all)
	names, r.out.Checks = slices.Compact(names), slices.Compact(all)
	if len(names) > maxChecks {
		r.await("its ClusterQueue has %d admission checks: the limit is %d", len(names), maxChecks)
		return
	}
	r.out.After, r.out.Reserved = work.after, work.reserved
	for _, name := range names {
		switch state := work.checks[name]; {
		case r.world.Object(AdmissionChecks, "", name) == nil:
			r.await("AdmissionCheck %s doesn't exist", name)
		case state == "Ready":
		case state == checkRetry || state == checkRejected:
			r.await("admission check %s says %s", name, state)
			if r.out.Ends == "" {
				r.out.Ends = evictedByCheck
			}
		case r.out.Unready == "":
			r.out.Unready = "admission check " + name + " is not ready"
		}
	}
}

// named1 says whether one of the flavors is among the names.
func named1(f dialect.Flavor, names []string) bool {
	for _, name := range f.Names { //archtest:any-order it asks whether there is one
		if slices.Contains(names, name) {
			return true
		}
	}
	return false
}

// tellChecks has the workload's admission checks in the status, as pending where nobody has said anything yet, and no others
// (syncAdmissionCheckConditions in Kueue v0.19, pkg/controller/core/workload_controller.go).
func tellChecks(status map[string]any, names []string, at time.Time) {
	list, _ := status["admissionChecks"].([]any)
	var out []any
	for _, name := range names {
		if i := slices.IndexFunc(list, func(c any) bool { return dialect.Text(c, "name") == name }); i >= 0 {
			out = append(out, list[i])
			continue
		}
		out = append(out, map[string]any{"name": name, "state": checkPending, "message": "", "lastTransitionTime": at.UTC().Format(time.RFC3339)})
	}
	if delete(status, "admissionChecks"); len(out) > 0 {
		status["admissionChecks"] = out
	}
}

// declined are the checks in the state, as Kueue's sentence for them; "": there are none.
func declined(status map[string]any, state string) string {
	list, _ := status["admissionChecks"].([]any)
	var parts []string
	for _, c := range list {
		if dialect.Text(c, "state") != state {
			continue
		}
		part := strconv.Quote(dialect.Text(c, "name"))
		if m := dialect.Text(c, "message"); m != "" {
			part += " (" + m + ")"
		}
		parts = append(parts, part)
	}
	switch len(parts) {
	case 0:
		return ""
	case 1:
		return "AdmissionCheck in " + state + " state: " + parts[0]
	}
	slices.Sort(parts)
	return "AdmissionChecks in " + state + " state: " + strings.Join(parts, "; ")
}

// retryAt is when the last of the checks that ask for it wants to be asked again; zero: none says.
func retryAt(status map[string]any) (last time.Time) {
	list, _ := status["admissionChecks"].([]any)
	for _, c := range list {
		since := dialect.Time(c, "lastTransitionTime")
		if n, ok := dialect.Number(c, "requeueAfterSeconds"); ok && n > 0 && n < 1<<31 && dialect.Text(c, "state") == checkRetry && !since.IsZero() {
			if t := since.Add(time.Duration(n) * time.Second); t.After(last) {
				last = t
			}
		}
	}
	return last
}

// resetChecks has all checks asked again, as after an eviction (resetChecksOnEviction in Kueue v0.19, pkg/workload/evict/evict.go).
func resetChecks(status map[string]any, at time.Time) {
	list, _ := status["admissionChecks"].([]any)
	out := make([]any, len(list))
	for i, c := range list {
		state := dialect.Text(c, "state")
		if state == checkPending {
			out[i] = c
			continue
		}
		next := map[string]any{
			"name": dialect.Text(c, "name"), "state": checkPending, "message": "Reset to Pending after eviction. Previously: " + state, "lastTransitionTime": at.UTC().Format(time.RFC3339),
		}
		if n, ok := dialect.Number(c, "requeueAfterSeconds"); ok {
			next["requeueAfterSeconds"] = n
		}
		if state == checkRetry {
			n, _ := dialect.Number(c, "retryCount")
			next["retryCount"] = n + 1
		}
		out[i] = next
	}
	if len(out) > 0 {
		status["admissionChecks"] = out
	}
}
