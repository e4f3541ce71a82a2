package kueue

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/kube/dialect"
)

// The kinds that say what else a workload waits for, and where its pods may be.
const (
	AdmissionChecks = "AdmissionCheck.kueue.x-k8s.io"
	Topologies      = "Topology.kueue.x-k8s.io"
)

// maxChecks is how many admission checks of a workload are looked at.
const maxChecks = 8

// workload is what is kept of a Workload.
type workload struct {
	inactive bool
	queue    string
	checks   map[string]string // states, by name
}

// readWorkload reads a Workload: whether it is active, and how far its admission checks are. One that people made is none of Berth's,
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
	return dialect.Object{Unread: dialect.Take(dialect.Value(o.Object, "spec"), "spec", spec), Value: spec}
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

// checks has the workload wait until everybody who has to has agreed: the admission checks of its ClusterQueue are Ready on its
// Workload. A check that is for some flavors counts where the workload may get one of them.
func (r *reading) checks(q *clusterQueue, work *workload) {
	names := slices.Clone(q.AdmissionChecks)
	for _, c := range q.ChecksStrategy.AdmissionChecks {
		if len(c.OnFlavors) == 0 || slices.ContainsFunc(r.out.Flavors, func(f dialect.Flavor) bool { return named1(f, c.OnFlavors) }) {
			names = append(names, c.Name)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) > maxChecks {
		r.await("its ClusterQueue has %d admission checks: the limit is %d", len(names), maxChecks)
		return
	}
	r.out.Checks = names
	for _, name := range names {
		switch state := work.checks[name]; {
		case r.world.Object(AdmissionChecks, "", name) == nil:
			r.await("AdmissionCheck %s doesn't exist", name)
		case state == "Ready":
		case state == "" || state == "Pending":
			r.await("admission check %s is not ready", name)
		default:
			r.await("admission check %s says %s", name, state)
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

// tellChecks has the workload's admission checks in the status, as pending where nobody has said anything yet.
func tellChecks(status map[string]any, names []string, at time.Time) {
	if len(names) == 0 {
		return
	}
	list, _ := status["admissionChecks"].([]any)
	for _, name := range names {
		if !slices.ContainsFunc(list, func(c any) bool { return dialect.Text(c, "name") == name }) {
			list = append(list, map[string]any{"name": name, "state": "Pending", "message": "", "lastTransitionTime": at.UTC().Format(time.RFC3339)})
		}
	}
	status["admissionChecks"] = list
}
