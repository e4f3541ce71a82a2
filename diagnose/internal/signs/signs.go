package signs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

// Sign is one thing that speaks against "all is well".
type Sign struct {
	facts.Evidence
	What  string // a clause with names: "condition Ready of license/x is False (NoSeats: all seats are taken)"
	Layer check.Layer
	Owner check.Owner
	Stage check.Stage
	Since time.Time
	// Stands says that it stays when other causes are gone: only its reporter takes it away. Others may be
	// consequences.
	Stands bool
	// Young says that it may pass by itself, and has not lasted long enough to be strange.
	Young bool
	// Advice is what usually helps; "": nothing in particular.
	Advice string
	Gate   string // the scheduling gate that it is about
	// Reported says of a gate that some controller reports what it waits for.
	Reported bool
}

// slow is how long a kubelet may take for what it is at, pulls aside; pullsIn how long a pull may take.
const (
	slow    = 10 * time.Minute
	pullsIn = 30 * time.Minute
	probes  = 2 * time.Minute
)

// Of are the signs of the case: those that stand by themselves first, then the nearest to the pod.
func Of(c *check.Case) []Sign {
	var out []Sign
	for _, read := range []func(*check.Case) []Sign{gates, podConditions, claims, gang, node, containers, siblings, displaced, ending, related, owners, logs, scheduler} {
		out = append(out, read(c)...)
	}
	slices.SortStableFunc(out, func(a, b Sign) int { return cmp.Compare(order(a), order(b)) })
	withReasons(out)
	return out
}

// withReasons has a gate say what a controller reports of an object that names the pod: that is what the gate waits for, for
// all one can see.
func withReasons(all []Sign) {
	for i := range all {
		g := &all[i]
		if g.Gate == "" {
			continue
		}
		for _, s := range all {
			if s.Gate != "" || !s.Stands || s.Object == g.Object {
				continue
			}
			g.What += "; " + s.What
			g.Reported, g.Young = true, g.Young && s.Young
			if domain, _, _ := strings.Cut(g.Gate, "/"); placeOf(domain, "", "", "").layer == "" && s.Layer != check.L4 {
				g.Layer, g.Owner = s.Layer, s.Owner
			}
			break
		}
		if g.Reported {
			continue
		}
		for _, s := range all { // what may be a consequence elsewhere is all that is known here: warnings about its owners
			if s.Gate == "" && !s.Stands && !s.Young && s.Object != g.Object {
				g.What += "; " + s.What
				break
			}
		}
	}
}

func order(s Sign) int {
	switch {
	case s.Stands && !s.Young:
		return 0
	case !s.Young:
		return 1
	}
	return 2
}

// aged says how long the sign has lasted, where that is known.
func aged(c *check.Case, since time.Time) string {
	if since.IsZero() || since.After(c.Now) {
		return ""
	}
	return " since " + wording.Minutes(c.Now.Sub(since))
}

// saying is the reason and the message of a condition or event, in brackets.
func saying(reason, message string) string {
	words := strings.TrimSuffix(wording.FirstLine(message), ".")
	switch {
	case reason == "" && words == "":
		return ""
	case words == "":
		return " (" + reason + ")"
	case reason == "":
		return ": " + wording.Shortened(words, 200)
	}
	return " (" + reason + "): " + wording.Shortened(words, 200)
}

// MostGates is how many gates of a pod are told: while there are more, taking some of these away leaves others in their place.
const MostGates = 16

// gates are the pod's scheduling gates, whatever their names.
func gates(c *check.Case) []Sign {
	var out []Sign
	for _, g := range c.Pod.Spec.SchedulingGates[:min(len(c.Pod.Spec.SchedulingGates), MostGates)] {
		domain, _, _ := strings.Cut(g.Name, "/")
		place := placeOf(domain, "", "", "")
		s := Sign{
			Evidence: facts.Evidence{Object: facts.RefTo(c.Pod).In(), Field: fmt.Sprintf("spec.schedulingGates[%q]", g.Name), Value: g.Name},
			What:     fmt.Sprintf("scheduling gate %s keeps pod %s back%s", g.Name, c.Pod.Name, aged(c, c.Pod.CreationTimestamp.Time)),
			Layer:    check.L3, Owner: check.Scheduler, Stage: check.Admit, Since: c.Pod.CreationTimestamp.Time, Stands: true, Gate: g.Name,
		}
		if place.layer != "" && place.layer != check.L4 { // a gate comes before the program, whatever opens it
			s.Layer, s.Owner = place.layer, place.owner
		}
		opener, e := opener(c, g.Name)
		s.What += ", and " + opener
		// A gate that no known controller opens does not open by itself.
		s.Young = c.Exists && (c.Age() < life.Patience/6 || e.Object != "" && c.Age() < life.Patience)
		s.Advice = fmt.Sprintf("Ask who runs the controller of %s to open the gate, or to say what it waits for.", g.Name)
		if e.Object != "" {
			s.Value += "; " + e.Object + " " + e.Field + ": " + e.Value
		}
		out = append(out, s)
	}
	return out
}

// opener says who could open the gate, and whether that runs: the controller whose name shares the gate's own word.
func opener(c *check.Case, gate string) (string, facts.Evidence) {
	words := wordsOf(gate)
	for _, d := range c.Deployments {
		if !shares(words, d.Name) && !shares(words, d.Namespace) {
			continue
		}
		e := facts.Evidence{Object: facts.RefTo(d).In(), Field: "status.availableReplicas", Value: fmt.Sprint(d.Status.AvailableReplicas)}
		if d.Status.AvailableReplicas > 0 {
			return fmt.Sprintf("%s in namespace %s, which may open it, runs", facts.RefTo(d), d.Namespace), e
		}
		return fmt.Sprintf("%s in namespace %s, which may open it, has no pod that is available", facts.RefTo(d), d.Namespace), e
	}
	for _, l := range c.Leases {
		if shares(words, l.Name) && l.Spec.RenewTime != nil {
			e := facts.Evidence{Object: facts.RefTo(l).In(), Field: "spec.renewTime", Value: l.Spec.RenewTime.UTC().Format(time.RFC3339)}
			if c.Now.Sub(l.Spec.RenewTime.Time) < time.Minute {
				return fmt.Sprintf("the holder of lease %s/%s, which may open it, runs", l.Namespace, l.Name), e
			}
			return fmt.Sprintf("the holder of lease %s/%s, which may open it, has not been heard of since %s", l.Namespace, l.Name, wording.Minutes(c.Now.Sub(l.Spec.RenewTime.Time))), e
		}
	}
	if !c.Sees("deployments.apps", "") {
		return "whether its controller runs cannot be seen", facts.Evidence{}
	}
	return "no controller of that name can be seen to open it", facts.Evidence{}
}

// HasOpener says whether a controller can be seen that may open the gate.
func HasOpener(c *check.Case, gate string) bool {
	_, e := opener(c, gate)
	return e.Object != ""
}

// common are words of names that tell no controller from another.
var common = []string{"io", "com", "dev", "org", "net", "sh", "k8s", "sigs", "kubernetes", "scheduling", "scheduler", "gate", "gates", "admission", "controller", "manager", "system", "operator", "default", "wait", "pod", "ready", "example", "cluster", "node", "gpu"}

// wordsOf are the words of a name that may tell whose it is.
func wordsOf(name string) []string {
	return slices.DeleteFunc(strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return r == '.' || r == '/' || r == '-' || r == '_' }), func(w string) bool {
		return len(w) < 3 || slices.Contains(common, w)
	})
}

func shares(words []string, name string) bool {
	parts := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return r == '.' || r == '-' || r == '_' })
	return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(parts, w) })
}

// kubernetesOwn are the conditions that Kubernetes itself writes on pods, each read with the state that it is about.
var kubernetesOwn = []string{"PodScheduled", "Ready", "ContainersReady", "Initialized", "PodReadyToStartContainers", v1alpha1.PodPendingCause}

// podConditions are conditions of the pod that report a fault.
func podConditions(c *check.Case) []Sign {
	if !c.Exists || facts.Ended(c.Pod) || c.WasEdited(c.Pod) {
		return nil
	}
	var out []Sign
	for _, k := range facts.ConditionsOf(c.Pod) {
		if !k.Bad() {
			continue
		}
		s := condition(c, c.Pod, k)
		s.Stage = check.Run
		if c.Waits() {
			s.Stage = check.Place
		} else if c.State == facts.Starting {
			s.Stage = check.Start
		}
		switch k.Type {
		case "PodScheduled":
			if c.State != facts.Pending {
				continue
			}
			s.Layer, s.Owner, s.Stage = check.L3, check.Scheduler, check.Place
			s.What = fmt.Sprintf("scheduler %s refuses pod %s%s%s", c.Pod.Spec.SchedulerName, c.Pod.Name, saying(k.Reason, k.Message), aged(c, k.Since))
			s.Young = c.Age() < life.Patience
			if rule := ownRule(c, k.Message); rule != "" && !s.Young && !c.Hypothetical() { // before any place: only the scheduler knows what it takes
				s.Stands, s.Stage = true, check.Admit
				s.What = fmt.Sprintf("scheduler %s refuses pod %s by a rule of its own: %s", c.Pod.Spec.SchedulerName, c.Pod.Name, wording.Shortened(rule, 200))
				s.Advice = fmt.Sprintf("Ask who runs scheduler %s what the rule wants: nothing else says it.", c.Pod.Spec.SchedulerName)
			}
		case "Ready", "ContainersReady":
			if c.State != facts.Running || readyInTime(c) {
				continue
			}
			s.Layer, s.Owner = check.L4, check.ML
		case "Initialized", "PodReadyToStartContainers":
			if c.State != facts.Starting {
				continue
			}
			if k.Type == "Initialized" && slices.ContainsFunc(life.ContainersOf(c.Pod), func(k life.Container) bool { return k.Init && k.Status.State.Running != nil }) {
				continue // the init container's own state says more
			}
			s.Layer, s.Owner, s.Young = check.L4, check.Platform, c.Now.Sub(k.Since) < slow
		default:
			if slices.Contains(kubernetesOwn, k.Type) {
				continue
			}
			s.Stands = true
			s.Young = c.Age() < life.Patience && k.Status != "True"
		}
		out = append(out, s)
	}
	if g, left := life.GateShut(c); g != "" && !slices.ContainsFunc(c.Pod.Status.Conditions, func(k corev1.PodCondition) bool { return k.Type == g }) {
		out = append(out, Sign{
			Evidence: facts.Evidence{Object: facts.RefTo(c.Pod).In(), Field: fmt.Sprintf("spec.readinessGates[%q]", g), Value: "no such condition"},
			What:     fmt.Sprintf("nobody has set readiness gate %s of pod %s", g, c.Pod.Name), Layer: check.L4, Owner: check.Platform, Stage: check.Run, Young: left > 0,
		})
	}
	return out
}

// readyInTime says whether all that keeps the pod from being ready are probes that have some time left, or containers whose
// own state is a sign.
func readyInTime(c *check.Case) bool {
	for _, k := range life.ContainersOf(c.Pod) {
		if k.Status.Ready || k.Init {
			continue
		}
		if run := k.Status.State.Running; run != nil && (k.ReadinessProbe != nil || k.StartupProbe != nil) && timeLeft(c, &k) {
			return true
		}
		return k.Status.State.Running == nil
	}
	return false
}

// timeLeft says whether the container's probes allow it more time, and can be answered in it.
func timeLeft(c *check.Case, k *life.Container) bool {
	if p, left := life.Unanswered(c, k); p != nil {
		e := p.Failed(c)
		return left > 0 && !p.Killed() && (e == nil || !life.Hopeless(e))
	}
	return c.Now.Sub(k.Status.State.Running.StartedAt.Time) < life.Patience // its probes are answered, and the kubelet is to say so
}

// scheduler is whether anybody looks at a pod that waits.
func scheduler(c *check.Case) []Sign {
	name := c.Pod.Spec.SchedulerName
	if !c.Exists || c.State != facts.Pending || name == "" || c.WasEdited(c.Pod) {
		return nil
	}
	s := Sign{Layer: check.L3, Owner: check.Scheduler, Stage: check.Admit, Stands: true, Since: c.Pod.CreationTimestamp.Time,
		Evidence: facts.Evidence{Object: facts.RefTo(c.Pod).In(), Field: "spec.schedulerName", Value: name}}
	how, since, seen := c.Scheduler(name)
	if len(seen) > 0 {
		s.Evidence = seen[0]
	}
	said := spokenOf(c)
	for _, e := range c.EventsNamed("Pod", c.Pod.Namespace, c.Pod.Name) {
		if facts.Emitter(e) == name && e.Type == corev1.EventTypeWarning && e.Reason != "FailedScheduling" && c.Now.Sub(facts.EventTime(e)) < time.Hour {
			s.Evidence, s.Since = life.Shown(e), facts.EventTime(e)
			s.What = fmt.Sprintf("scheduler %s refuses pod %s%s", name, c.Pod.Name, saying(e.Reason, e.Message))
			s.Advice = fmt.Sprintf("Ask who runs scheduler %s what the rule wants: nothing else says it.", name)
			return []Sign{s}
		}
	}
	switch {
	case how == facts.SchedulerDead:
		s.What, s.Since = fmt.Sprintf("scheduler %s, which pod %s names, does not run", name, c.Pod.Name), since
	case how == facts.SchedulerAbsent && !said:
		s.What, s.Owner = fmt.Sprintf("pod %s names scheduler %s, and there is none of that name", c.Pod.Name, name), check.User
	case !said && c.ServedFor(c.Pod) == nil:
		s.What = fmt.Sprintf("scheduler %s has said nothing of pod %s for %s", name, c.Pod.Name, wording.Minutes(c.Age()))
		s.Stands, s.Young = false, c.Age() < life.Patience
	default:
		return nil
	}
	return []Sign{s}
}

// spokenOf says whether a scheduler has said something of the pod.
func spokenOf(c *check.Case) bool {
	return slices.ContainsFunc(c.Pod.Status.Conditions, func(s corev1.PodCondition) bool { return s.Type == corev1.PodScheduled }) ||
		len(c.EventsOf(c.Pod, "FailedScheduling", "Scheduled", "Preempted", "WaitingOnPermit")) > 0 || c.HeardFrom(c.Pod.Spec.SchedulerName, c.Pod)
}

// claims are the pod's claims, of volumes and of devices, that do not stand ready.
func claims(c *check.Case) []Sign {
	if facts.Ended(c.Pod) || !c.Exists || c.State == facts.Running {
		return nil
	}
	var out []Sign
	add := func(object, field, value, what string) {
		out = append(out, Sign{Evidence: facts.Evidence{Object: object, Field: field, Value: value}, What: what, Layer: check.L3, Owner: check.Storage, Stage: check.Place,
			Since: c.Pod.CreationTimestamp.Time, Young: c.Age() < life.Patience})
	}
	for i := range c.Pod.Spec.Volumes {
		v := &c.Pod.Spec.Volumes[i]
		name := ""
		switch {
		case v.PersistentVolumeClaim != nil:
			name = v.PersistentVolumeClaim.ClaimName
		case v.Ephemeral != nil:
			name = c.Pod.Name + "-" + v.Name
		default:
			continue
		}
		at := slices.IndexFunc(c.PersistentVolumeClaims, func(p *corev1.PersistentVolumeClaim) bool { return p.Namespace == c.Pod.Namespace && p.Name == name })
		switch {
		case at < 0 && c.Sees("persistentvolumeclaims", c.Pod.Namespace):
			add(facts.RefTo(c.Pod).In(), fmt.Sprintf("spec.volumes[%q]", v.Name), name, fmt.Sprintf("claim %s, which pod %s uses, does not exist", name, c.Pod.Name))
		case at < 0:
		case c.PersistentVolumeClaims[at].Status.Phase == corev1.ClaimLost || c.PersistentVolumeClaims[at].DeletionTimestamp != nil:
			p := c.PersistentVolumeClaims[at]
			add(facts.RefTo(p).In(), "status.phase", string(p.Status.Phase), fmt.Sprintf("claim %s, which pod %s uses, is %s", name, c.Pod.Name, cmp.Or(strings.ToLower(string(p.Status.Phase)), "going")))
		}
	}
	for i := range c.Pod.Spec.ResourceClaims {
		r := &c.Pod.Spec.ResourceClaims[i]
		made := ptr.Deref(r.ResourceClaimName, "")
		for _, s := range c.Pod.Status.ResourceClaimStatuses {
			if s.Name == r.Name && s.ResourceClaimName != nil {
				made = *s.ResourceClaimName
			}
		}
		if made == "" {
			add(facts.RefTo(c.Pod).In(), fmt.Sprintf("status.resourceClaimStatuses[%q]", r.Name), "", fmt.Sprintf("pod %s waits for the claim of devices %s, which nobody has made", c.Pod.Name, r.Name))
			out[len(out)-1].Owner = check.Platform
			continue
		}
		if !c.Sees("resourceclaims.resource.k8s.io", c.Pod.Namespace) {
			continue
		}
		found := false
		for _, rc := range c.ResourceClaims {
			found = found || rc.Namespace == c.Pod.Namespace && rc.Name == made
		}
		if !found {
			add(facts.RefTo(c.Pod).In(), fmt.Sprintf("spec.resourceClaims[%q]", r.Name), made, fmt.Sprintf("the claim of devices %s, which pod %s uses, does not exist", made, c.Pod.Name))
			out[len(out)-1].Owner = check.User
		}
	}
	return out
}

// gang is whether the members of the pod's gang agree on what makes them one.
func gang(c *check.Case) []Sign {
	key := c.CrewOf(c.Pod)
	if key == "" || !c.Waits() {
		return nil
	}
	there := slices.DeleteFunc(slices.Clone(c.Pods), func(p *corev1.Pod) bool { return c.CrewOf(p) != key || facts.Ended(p) || p.DeletionTimestamp != nil })
	var out []Sign
	for _, p := range there {
		differs := ""
		switch {
		case p.Spec.SchedulerName != c.Pod.Spec.SchedulerName:
			differs = fmt.Sprintf("pod %s names scheduler %s and pod %s scheduler %s", c.Pod.Name, c.Pod.Spec.SchedulerName, p.Name, p.Spec.SchedulerName)
		case c.Exists && ptr.Deref(p.Spec.Priority, 0) != ptr.Deref(c.Pod.Spec.Priority, 0):
			differs = fmt.Sprintf("pod %s has priority %d and pod %s priority %d", c.Pod.Name, ptr.Deref(c.Pod.Spec.Priority, 0), p.Name, ptr.Deref(p.Spec.Priority, 0))
		default:
			continue
		}
		out = append(out, Sign{
			Evidence: facts.Evidence{Object: facts.RefTo(p).In(), Field: "spec", Value: differs}, What: fmt.Sprintf("members of %s do not agree: %s", c.GangName(c.Pod), differs),
			Layer: check.L3, Owner: check.User, Stage: check.Admit, Since: c.Pod.CreationTimestamp.Time, Advice: "Give all members of the group the same scheduler and the same priority.",
		})
		break
	}
	return out
}

// node is the pod's node, or the one that it is promised, where that is gone or not Ready.
func node(c *check.Case) []Sign {
	name := cmp.Or(c.Pod.Spec.NodeName, c.Pod.Status.NominatedNodeName)
	if name == "" || facts.Ended(c.Pod) || !c.Sees("nodes", "") {
		return nil
	}
	s := Sign{Layer: check.L2, Owner: check.Platform, Stage: check.Run}
	if c.State != facts.Running {
		s.Stage = check.Start
	}
	n := c.NodeNamed(name)
	if n == nil {
		s.Evidence = facts.Evidence{Object: facts.RefTo(c.Pod).In(), Field: "spec.nodeName", Value: name}
		s.What = fmt.Sprintf("node %s, where pod %s is to run, does not exist", name, c.Pod.Name)
		return []Sign{s}
	}
	k := facts.ConditionOf(n, corev1.NodeReady)
	if k == nil || k.Status == corev1.ConditionTrue {
		return ails(c, n, s)
	}
	s.Evidence = facts.Evidence{Object: facts.RefTo(n).In(), Field: "status.conditions[Ready]", Value: string(k.Status) + " " + k.Reason + ": " + k.Message}
	s.What, s.Since = fmt.Sprintf("node %s is not Ready%s%s", name, saying(k.Reason, k.Message), aged(c, k.LastTransitionTime.Time)), k.LastTransitionTime.Time
	s.Young = c.State == facts.Starting && !facts.Silent(n) && c.Now.Sub(n.CreationTimestamp.Time) < slow
	return []Sign{s}
}

// ails are faults that health systems report of a node that is Ready, where the pod does not come up there.
func ails(c *check.Case, n *corev1.Node, s Sign) []Sign {
	if c.State != facts.Starting || c.Now.Sub(since(c)) < slow {
		return nil
	}
	var out []Sign
	for _, k := range life.Ailments(n) {
		at := s
		at.Evidence = facts.Evidence{Object: facts.RefTo(n).In(), Field: k.Field, Value: k.Status + " " + k.Reason + ": " + k.Message}
		at.What, at.Since = fmt.Sprintf("node %s, where pod %s is to start, reports %s=%s%s%s", n.Name, c.Pod.Name, k.Type, k.Status, saying(k.Reason, k.Message), aged(c, k.Since)), k.Since
		at.Advice = fmt.Sprintf("Have node %s repaired.", n.Name)
		out = append(out, at)
	}
	return out
}

// lastWarning is the newest warning about the pod since it has its node, with a colon before it; "": there is none.
func lastWarning(c *check.Case) string {
	for _, e := range c.EventsOf(c.Pod) {
		if e.Type == corev1.EventTypeWarning && !facts.EventTime(e).Before(since(c)) {
			return fmt.Sprintf("; %s warns%s", facts.Emitter(e), saying(e.Reason, e.Message))
		}
	}
	return ""
}

// containers are the states of the pod's containers that are not those of a pod which runs or comes up: what they are, not
// what was said of them before.
func containers(c *check.Case) []Sign {
	if !c.Exists || c.WasEdited(c.Pod) || c.State == facts.Succeeded {
		return nil
	}
	var out []Sign
	for _, k := range life.ContainersOf(c.Pod) {
		stage := check.Run
		if c.State == facts.Starting {
			stage = check.Start
		}
		say := func(owner check.Owner, since time.Time, young bool, value, format string, args ...any) {
			out = append(out, Sign{Evidence: k.Said(c.Pod, value), What: fmt.Sprintf("%s of pod %s ", k.Noun(), c.Pod.Name) + fmt.Sprintf(format, args...), Layer: check.L4, Owner: owner, Stage: stage, Since: since, Young: young})
		}
		sidecar := k.Init && ptr.Deref(k.RestartPolicy, "") == corev1.ContainerRestartPolicyAlways
		ended := k.Ended()
		state := k.Status.State
		switch {
		case state.Waiting != nil && !slices.Contains([]string{"", "ContainerCreating", "PodInitializing"}, state.Waiting.Reason):
			if ended != nil && life.FirstFall(c, &k, ended) && state.Waiting.Reason == "CrashLoopBackOff" {
				say(check.ML, ended.FinishedAt.Time, true, state.Waiting.Reason, "ended for the first time and is started again")
				break
			}
			say(check.ML, since(c), false, state.Waiting.Reason, "waits%s%s", saying(state.Waiting.Reason, state.Waiting.Message), exit(ended))
		case state.Waiting != nil && (c.State == facts.Starting || c.State == facts.Running):
			from, limit := since(c), slow
			if ended != nil && ended.FinishedAt.After(from) {
				from = ended.FinishedAt.Time
			}
			if life.Pulling(c) != nil {
				limit = pullsIn
			}
			if c.Now.Sub(from) > limit && !slices.ContainsFunc(life.ContainersOf(c.Pod), func(o life.Container) bool { return o.Init && !k.Init && !o.Status.Ready }) {
				say(check.Platform, from, false, "waiting", "has not been started%s%s", aged(c, from), lastWarning(c))
			}
		case state.Terminated != nil && (state.Terminated.ExitCode != 0 || sidecar || !k.Init && c.Pod.Spec.RestartPolicy == corev1.RestartPolicyAlways):
			say(check.ML, state.Terminated.FinishedAt.Time, life.FirstFall(c, &k, state.Terminated), ending0(state.Terminated), "has ended%s%s", exit(state.Terminated), aged(c, state.Terminated.FinishedAt.Time))
		case state.Running != nil && ended != nil && k.Status.RestartCount > 0 && (restless(c, &k, ended) || !k.Init && !k.Status.Ready):
			say(check.ML, ended.FinishedAt.Time, life.FirstFall(c, &k, ended), fmt.Sprintf("restarted %d times", k.Status.RestartCount), "was restarted %s, and last ended%s%s", wording.Number(k.Status.RestartCount, "time"), exit(ended), ago(c, ended.FinishedAt.Time))
		case state.Running != nil && k.Init && !sidecar && c.Now.Sub(state.Running.StartedAt.Time) > slow:
			say(check.ML, state.Running.StartedAt.Time, false, "running", "runs%s and does not end", aged(c, state.Running.StartedAt.Time))
		case state.Running != nil && (k.StartupProbe != nil || k.ReadinessProbe != nil) && (!k.Status.Ready && !k.Init || sidecar && !ptr.Deref(k.Status.Started, k.StartupProbe == nil)):
			say(check.ML, state.Running.StartedAt.Time, timeLeft(c, &k), "running, ready: false", "runs%s and its probes do not succeed", aged(c, state.Running.StartedAt.Time))
		}
	}
	if device, has, well, all := life.MoreThanHealthy(c); device != "" {
		out = append(out, Sign{Evidence: facts.Evidence{Object: "node/" + c.Pod.Spec.NodeName, Field: fmt.Sprintf("status.allocatable[%q]", device), Value: fmt.Sprintf("%d of %d", well, all)}, Layer: check.L2, Owner: check.Platform, Stage: check.Run,
			Since: since(c), What: fmt.Sprintf("pod %s has %d %s, and its node has %d healthy ones", c.Pod.Name, has, device, well)})
	}
	if program, other := life.Lingering(c); other != nil {
		t := program.Status.State.Terminated
		out = append(out, Sign{Evidence: other.Said(c.Pod, "running"), What: fmt.Sprintf("%s of pod %s has ended with 0%s, and container %s runs on", program.Noun(), c.Pod.Name, ago(c, t.FinishedAt.Time), other.Name), Layer: check.L4, Owner: check.User, Stage: check.Run, Since: t.FinishedAt.Time})
	}
	if c.State == facts.Starting && len(c.Pod.Status.ContainerStatuses) == 0 && c.Now.Sub(since(c)) > slow {
		out = append(out, Sign{Evidence: facts.Evidence{Object: facts.RefTo(c.Pod).In(), Field: "status.containerStatuses", Value: "none"}, Since: since(c),
			What: fmt.Sprintf("the kubelet of node %s has said nothing of the containers of pod %s%s", c.Pod.Spec.NodeName, c.Pod.Name, aged(c, since(c))), Layer: check.L2, Owner: check.Platform, Stage: check.Start})
	}
	if life.NeverPlaced(c.Pod) && len(out) == 0 {
		out = append(out, Sign{Evidence: life.Failure(c), Layer: check.L3, Owner: check.Scheduler, Stage: check.Admit, Advice: fmt.Sprintf("Ask who runs scheduler %s why; then make the pod anew: nobody looks at one that has failed.", c.Pod.Spec.SchedulerName),
			What: fmt.Sprintf("pod %s, of scheduler %s, was given up before it had a node%s", c.Pod.Name, c.Pod.Spec.SchedulerName, saying(c.Pod.Status.Reason, c.Pod.Status.Message))})
	}
	if c.State == facts.Failed && len(out) == 0 {
		out = append(out, Sign{Evidence: life.Failure(c), What: fmt.Sprintf("pod %s has failed%s", c.Pod.Name, saying(c.Pod.Status.Reason, c.Pod.Status.Message)), Layer: check.L4, Owner: check.ML, Stage: check.Run})
	}
	return out
}

func ending0(t *corev1.ContainerStateTerminated) string {
	return fmt.Sprintf("terminated, exit code %d", t.ExitCode)
}

// ago is how long ago it was, where that is known.
func ago(c *check.Case, t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return fmt.Sprintf(" %s ago", wording.Minutes(c.Now.Sub(t)))
}

// exit words how a container ended.
func exit(t *corev1.ContainerStateTerminated) string {
	switch {
	case t == nil:
		return ""
	case t.Signal != 0:
		return fmt.Sprintf(" by signal %d%s", t.Signal, saying(t.Reason, t.Message))
	case t.ExitCode > 128 && t.ExitCode < 160:
		return fmt.Sprintf(" with exit code %d, which is signal %d%s", t.ExitCode, t.ExitCode-128, saying(t.Reason, t.Message))
	}
	return fmt.Sprintf(" with exit code %d%s", t.ExitCode, saying(t.Reason, t.Message))
}

// since is when the pod got its node, or was made.
func since(c *check.Case) time.Time {
	for _, k := range c.Pod.Status.Conditions {
		if k.Type == corev1.PodScheduled && k.Status == corev1.ConditionTrue {
			return k.LastTransitionTime.Time
		}
	}
	return c.Pod.CreationTimestamp.Time
}

// restless says whether a container that runs now ended not long ago, and more than once: it will again, for all one knows.
// Kubelets wait up to five minutes between two starts.
func restless(c *check.Case, k *life.Container, t *corev1.ContainerStateTerminated) bool {
	run := k.Status.State.Running.StartedAt.Time
	return life.Recurs(c, k) || k.Status.RestartCount > 1 && c.Now.Sub(run) < slow && (t.FinishedAt.IsZero() || t.StartedAt.IsZero() || t.FinishedAt.Sub(t.StartedAt.Time) < slow)
}

// siblings are pods of the same owner that failed of late, or keep failing: the one at hand may be the next.
func siblings(c *check.Case) []Sign {
	if c.State == facts.Succeeded || c.Edited() {
		return nil
	}
	if j, ok := c.Owner().(*batchv1.Job); ok && facts.JobEnded(j) == "" && len(facts.FailedIndexes(j)) > 0 {
		text := ptr.Deref(j.Status.FailedIndexes, "")
		return []Sign{{Evidence: facts.Evidence{Object: facts.RefTo(j).In(), Field: "status.failedIndexes", Value: text}, What: fmt.Sprintf("%s tries indexes %s no more", facts.RefTo(j), text), Layer: check.L4, Owner: check.ML, Stage: check.Run}}
	}
	before := slices.Concat(life.FailedBefore(c), life.EvictedBefore(c))
	if j, ok := c.Owner().(*batchv1.Job); ok {
		if j.Status.Failed <= 1 {
			return nil
		}
		if !c.Waits() && c.State != facts.Failed && c.Age() > slow && before == nil {
			return nil // it has run for longer than others did
		}
	}
	if c.State == facts.Running && !facts.Unsettled(c.Pod) && before == nil {
		return nil // others made way for it
	}
	n, last := 0, (*corev1.Pod)(nil)
	for _, p := range c.All {
		if p.Name == c.Pod.Name || facts.StateOf(p) != facts.Failed || c.Now.Sub(p.CreationTimestamp.Time) > 3*slow && !slices.Contains(before, p) {
			continue
		}
		if n++; last == nil || p.CreationTimestamp.After(last.CreationTimestamp.Time) {
			last = p
		}
	}
	if n < 2 && (n == 0 || c.State != facts.Absent && !c.Waits()) {
		return nil
	}
	how := saying(last.Status.Reason, last.Status.Message)
	for _, k := range life.ContainersOf(last) {
		if t := k.Ended(); t != nil && t.ExitCode != 0 && how == "" {
			how = exit(t)
		}
	}
	s := Sign{Evidence: facts.Evidence{Object: facts.RefTo(last).In(), Field: "status", Value: "Failed " + last.Status.Reason + " " + wording.Shortened(last.Status.Message, 160)},
		What: fmt.Sprintf("%s of %s failed of late, last %s%s", wording.Number(n, "pod"), facts.RefTo(c.Owner()), last.Name, how), Layer: check.L4, Owner: check.ML, Stage: check.Run}
	if last.Status.Reason != "" && last.Status.Reason != "Error" || life.Disrupted(last) != nil { // a kubelet, or a controller, ended the whole pod
		s.Layer, s.Owner = check.L2, check.Platform
	}
	if j, ok := c.Owner().(*batchv1.Job); ok && j.Status.Failed <= 1 {
		s.Young = true
	}
	return []Sign{s}
}

// ending is a pod that was to be gone by now.
func ending(c *check.Case) []Sign {
	var out []Sign
	at := c.Pod.Status.NominatedNodeName
	look := []*corev1.Pod{c.Pod}
	if c.State == facts.Absent && facts.WaitsForDeletion(c.Owner()) {
		look = append(look, c.All...)
	}
	if at != "" {
		look = append(look, c.PodsOn(at)...)
	}
	for _, p := range look {
		if p.DeletionTimestamp == nil || c.Now.Before(p.DeletionTimestamp.Add(life.Patience)) {
			continue
		}
		why := ""
		if len(p.Finalizers) > 0 {
			why = ", and finalizer " + p.Finalizers[0] + " holds it"
		}
		out = append(out, Sign{Evidence: facts.Evidence{Object: facts.RefTo(p).In(), Field: "metadata.deletionTimestamp", Value: p.DeletionTimestamp.UTC().Format(time.RFC3339)},
			What: fmt.Sprintf("pod %s was to be gone%s%s", p.Name, ago(c, p.DeletionTimestamp.Time), why), Layer: check.L4, Owner: check.Platform, Stage: check.Run, Since: p.DeletionTimestamp.Time})
		break
	}
	return out
}
