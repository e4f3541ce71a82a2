package diagnose

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/queue"
)

// Right is something that the caller may not read, and that has a say in the answer.
type Right struct {
	Resource  string `json:"resource"`            // as kubectl takes it: "nodes", "localqueues.kueue.x-k8s.io", "pods/log"
	Namespace string `json:"namespace,omitempty"` // where it would be enough; "": in the whole cluster
	Decides   string `json:"decides"`             // what it would show, in a clause: "whether a quota leaves room for the pods"

	decisive bool // without it no cause of placing is known
}

// String is the right with what it would show.
func (r Right) String() string {
	if r.Namespace != "" {
		return fmt.Sprintf("%s in namespace %s: %s", r.Resource, r.Namespace, r.Decides)
	}
	return r.Resource + ": " + r.Decides
}

// mostRights bounds the rights that are named: the first tell most.
const mostRights = 6

// telling is what a kind tells of work that has come as far as a stage. Where has is there, it tells of such work alone.
type telling struct {
	resource string
	near     bool // what is in the work's namespace is enough
	stage    check.Stage
	decides  string
	has      func(*check.Case) bool
	decisive bool // without it what is found of a place may be for want of seeing it
}

// tells are the kinds without which a stage is not known, what decides most first.
var tells = []telling{
	{"events", true, check.Create, "what the API server said when it was to create the pods", nil, false},
	{"replicasets.apps", true, check.Create, "whether the pods' controller has acted, and what the API server told it", ownedBy("Deployment"), false},
	{"jobs.batch", true, check.Create, "whether the Job exists, and what the API server told it", ownedBy("CronJob"), false},
	{"resourcequotas", true, check.Create, "whether a quota leaves room for the pods", nil, false},
	{"limitranges", true, check.Create, "whether the pods are within the limits of the namespace", nil, false},
	{"serviceaccounts", true, check.Create, "whether the pods' service account exists", nil, false},
	{"priorityclasses.scheduling.k8s.io", false, check.Create, "whether the pods' PriorityClass exists", func(c *check.Case) bool { return c.Pod.Spec.PriorityClassName != "" }, false},
	{"runtimeclasses.node.k8s.io", false, check.Create, "whether the pods' RuntimeClass exists", func(c *check.Case) bool { return c.Pod.Spec.RuntimeClassName != nil }, false},
	{"namespaces", false, check.Create, "whether the namespace is being deleted, and which Pod Security it enforces", nil, false},
	{"validatingwebhookconfigurations.admissionregistration.k8s.io", false, check.Create, "which webhooks are asked about the pods", nil, false},
	{"mutatingwebhookconfigurations.admissionregistration.k8s.io", false, check.Create, "which webhooks change the pods", nil, false},
	{"validatingadmissionpolicies.admissionregistration.k8s.io", false, check.Create, "which policies the pods have to meet", nil, false},

	{"events", true, check.Admit, "what controllers and schedulers said of it", nil, false},
	{"workloads.kueue.x-k8s.io", true, check.Admit, "what Kueue says of it", queue.Queued, false},
	{"localqueues.kueue.x-k8s.io", true, check.Admit, "whether its queue exists and is active", queue.Queued, false},
	{"clusterqueues.kueue.x-k8s.io", false, check.Admit, "which quota its queue has left", queue.Queued, false},
	{"berthqueues.berth.dev", false, check.Admit, "which limits and quota its queue has", scheduledBy("berth"), false},
	{"queues.scheduling.run.ai", false, check.Admit, "which quota its queue has left", scheduledBy("kai-scheduler", "runai-scheduler"), false},
	{"podgroups.scheduling.run.ai", true, check.Admit, "what its scheduler says of its group", scheduledBy("kai-scheduler", "runai-scheduler"), false},
	{"queues.scheduling.volcano.sh", false, check.Admit, "which quota its queue has left", scheduledBy("volcano"), false},
	{"podgroups.scheduling.volcano.sh", true, check.Admit, "what its scheduler says of its group", scheduledBy("volcano"), false},
	{"podgroups.scheduling.k8s.io", true, check.Admit, "whether its group exists and is complete", func(c *check.Case) bool { return c.Pod.Spec.SchedulingGroup != nil }, false},

	{"nodes", false, check.Place, "which nodes would do, and what keeps it off the others", nil, false},
	{"pods", false, check.Place, "what holds the room on the nodes", nil, false},
	{"persistentvolumeclaims", true, check.Place, "whether its volume claims exist and are bound", claims, true},
	{"persistentvolumes", false, check.Place, "where its volumes are", claims, false},
	{"storageclasses.storage.k8s.io", false, check.Place, "whether volumes are made for its claims", claims, false},
	{"resourceclaims.resource.k8s.io", true, check.Place, "whether its claims of devices exist and are allocated", devices, true},
	{"deviceclasses.resource.k8s.io", false, check.Place, "which devices its claims are for", devices, true},
	{"resourceslices.resource.k8s.io", false, check.Place, "which devices there are", devices, true},
	{"namespaces", false, check.Place, "which namespaces its affinity to other pods is for", affine, false},
	{"daemonsets.apps", false, check.Place, "whether drivers and device plugins run on the nodes", extended, false},
	{"leases.coordination.k8s.io", false, check.Place, "whether its scheduler runs", nil, false},
	{"nodepools.karpenter.sh", false, check.Place, "which nodes Karpenter could make for it", nil, true},
	{"nodeclaims.karpenter.sh", false, check.Place, "whether Karpenter is making a node for it", nil, true},
	{"configmaps", false, check.Place, "what the cluster autoscaler says of its node groups", nil, false},

	{"events", true, check.Start, "what the kubelet said of its containers and volumes", nil, false},
	{"nodes", false, check.Start, "whether its node is well", nil, false},
	{"persistentvolumeclaims", true, check.Start, "whether its volume claims are bound", claims, false},
	{"persistentvolumes", false, check.Start, "whether its volumes exist", claims, false},
	{"csinodes.storage.k8s.io", false, check.Start, "whether its node has the driver of its volumes", claims, false},
	{"resourceclaims.resource.k8s.io", true, check.Start, "whether its claims of devices are allocated", devices, false},

	{"pods/log", true, check.Run, "what the program wrote last", nil, false},
	{"events", true, check.Run, "what the kubelet said of its containers", nil, false},
	{"nodes", false, check.Run, "whether its node is well", nil, false},
}

func ownedBy(kind string) func(*check.Case) bool {
	return func(c *check.Case) bool {
		return slices.ContainsFunc(c.Owners, func(o facts.Object) bool { return facts.KindOfObject(o).Kind == kind })
	}
}

func scheduledBy(names ...string) func(*check.Case) bool {
	return func(c *check.Case) bool { return slices.Contains(names, c.Pod.Spec.SchedulerName) }
}

func claims(c *check.Case) bool {
	return slices.ContainsFunc(c.Pod.Spec.Volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil || v.Ephemeral != nil })
}

func affine(c *check.Case) bool {
	a := c.Pod.Spec.Affinity
	return a != nil && (a.PodAffinity != nil || a.PodAntiAffinity != nil)
}

func devices(c *check.Case) bool { return len(c.Pod.Spec.ResourceClaims) > 0 }

func extended(c *check.Case) bool { return len(facts.ExtendedOf(c.Pod)) > 0 }

// reached is the first and the last stage at which work in the state may be held up.
func reached(s facts.State) (first, last check.Stage) {
	switch s {
	case facts.Absent: // a suspended Job has no pods either
		return check.Create, check.Admit
	case facts.Gated:
		return check.Admit, check.Admit
	case facts.Pending:
		return check.Admit, check.Place
	case facts.Starting:
		return check.Start, check.Start
	}
	return check.Run, check.Run
}

// rights are what the caller may not read and what could make it another answer: of the stages that the work has come to, up to the one
// at which something was found. What was found of a container's life stands by itself.
func (d *Diagnoser) rights(out *Diagnosis, c *check.Case, found *check.Finding) (all []Right) {
	from, to := reached(c.State)
	if found != nil {
		to = min(to, found.Stage)
	}
	if out.Cause == Healthy && !c.Waits() || found != nil && found.Stage >= check.Start && !vague(found) {
		return nil
	}
	for _, t := range tells {
		r := Right{Resource: t.resource, Decides: t.decides, decisive: t.decisive}
		if t.near {
			r.Namespace = c.Target.Namespace
		}
		named := slices.ContainsFunc(all, func(o Right) bool { return o.Resource == t.resource })
		if !named && t.stage >= from && t.stage <= to && !d.facts.Sees(t.resource, r.Namespace) && (t.has == nil || t.has(c)) {
			all = append(all, r)
		}
	}
	return all
}

// vague says whether the finding is only that something is wrong, or that there is no word of it.
func vague(f *check.Finding) bool {
	return f.Blind || f.Last && (f.Check.Cause == controllerReports || f.Check.Cause == controllerSilent)
}

// controllerSilent is the cause of pods that are not made although nothing is known to forbid them.
const controllerSilent = "controller-silent"

// limited names the rights without which the answer may be another one. Where only a vague cause was found, or one of placing for want of
// something that decides it, the answer is that the cause is not known: layer, owner and what was found stand as a guess.
func (d *Diagnoser) limited(out *Diagnosis, j *judgement, found *check.Finding) {
	if len(d.facts.Unseen) == 0 {
		return
	}
	all := d.rights(out, j.cases[0], found)
	if found != nil && len(all) > 0 && out.Cause != Unknown {
		// Without nodes the scheduler has the say, and causes of L1 and L2 are the node makers'.
		placing := found.Stage == check.Place && found.Fit && found.Layer == check.L3 && d.facts.Sees("nodes", "")
		if vague(found) || placing && slices.ContainsFunc(all, func(r Right) bool { return r.decisive }) {
			out.Cause = Unknown
		}
	}
	out.Rights = all[:min(len(all), mostRights)]
	if out.Cause != Unknown || len(all) == 0 {
		return
	}
	where, _, _ := strings.Cut(all[0].String(), ": ")
	out.Summary += fmt.Sprintf("; the right to list %s would show %s", where, all[0].Decides)
	if out.Advice == "" && len(out.Fixes) == 0 {
		out.Advice = "Ask again with the rights that are missing, or ask somebody who has them."
	}
}
