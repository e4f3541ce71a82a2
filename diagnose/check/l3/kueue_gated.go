package l3

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/queue"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/internal/spelling"
	"github.com/berth-dev/berth/kube/dialect"
)

var kueueGatedCheck = check.Check{
	Cause: "kueue-gated", Layer: check.L3, Owner: check.Scheduler, Stage: check.Admit, Rank: 29,
	Title:   "Kueue has not admitted it",
	Meaning: "The work is held back until Kueue admits it, and Kueue has not, for none of the reasons that have a code of their own.",
	Remedy:  "Read the Workload's conditions and events, and see whether Kueue's controller runs.",
	Not:     "The scheduler does not like the pod: it has not been asked.",
	Find:    kueueGated,
}

func kueueGated(c *check.Case) []check.Finding {
	v := queue.Kueue(c)
	if v == nil || v.Cause != "kueue-gated" {
		return nil
	}
	found := check.Finding{Evidence: v.Evidence()}
	switch {
	case dialect.IsTrue(v.Work, "Finished"):
		s := dialect.ConditionOf(v.Work, "Finished")
		found.Message = fmt.Sprintf("Kueue has ended Workload %s without starting what it is for: %s, %s", v.Work.GetName(), s.Reason, strings.TrimSuffix(s.Message, "."))
		found.Evidence = append(found.Evidence, facts.Evidence{Object: facts.RefTo(v.Work).In(), Field: `status.conditions["Finished"]`, Value: s.Reason + ": " + s.Message})
		found.Advice = "Correct what Kueue says, and create the work again: an ended Workload is not admitted any more."
		if s.Reason != "AdmissionChecksRejected" {
			found.Owner = check.User
		}
	case dialect.IsTrue(v.Work, "Admitted"):
		found.Message = fmt.Sprintf("Kueue has admitted Workload %s and has not let its pods go yet", v.Work.GetName())
		found.Healthy = c.Now.Sub(dialect.ConditionOf(v.Work, "Admitted").At) < time.Minute
		kueueWarns(c, &found)
	case v.Queue == "":
		found.Message = fmt.Sprintf("Workload %s names no LocalQueue, so Kueue does not admit it", v.Work.GetName())
		found.Edits, found.Owner = queue.KueueElsewhere(c, v), check.User
	case v.Work == nil && len(queue.KueueGroup(c)) > 0:
		return nil // the group lacks members
	case v.Work == nil && !c.Sees("workloads.kueue.x-k8s.io", c.Pod.Namespace):
		found.Blind = true
		found.Message = fmt.Sprintf("Kueue is to admit it from LocalQueue %s, and the Workload in which it says why it does not cannot be seen", v.Queue)
		kueueToldOf(c, &found)
	case v.Work == nil:
		found.Message = fmt.Sprintf("Kueue is to admit it from LocalQueue %s and has made no Workload for it", v.Queue)
		found.Healthy = c.Age() < time.Minute
		kueueMadeNone(c, &found)
	case dialect.Value(v.Work.Object, "spec", "active") == false:
		found.Message = fmt.Sprintf("Workload %s is deactivated", v.Work.GetName())
		if v.Message != "" && !strings.HasSuffix(v.Message, "is deactivated") {
			found.Message += ": " + v.Message
		}
		found.Message += kueueCheckRefuses(v)
		active := edit.Edit{
			Side: edit.Cluster, Cost: 3, Text: "activate Workload " + v.Work.GetName() + " again", Set: []facts.Object{edit.WithValues(v.Work, map[string]any{"/spec/active": true})},
			Command: edit.PatchLine(v.Work, "merge", map[string]any{"spec": map[string]any{"active": true}}),
		}
		if s := dialect.ConditionOf(v.Work, "Evicted"); s != nil && s.Status == "True" && strings.HasSuffix(s.Reason, kueueRanTooLong) {
			kueueRanOut(c, v, &found, &active)
		}
		found.Edits = queue.KueueOnly(c, active)
	case dialect.IsTrue(v.Work, "QuotaReserved"):
		found.Message = fmt.Sprintf("Workload %s has its quota and waits for an admission check: %s", v.Work.GetName(), kueueCheckSays(v))
	case v.Cluster != nil && v.Room.Fits:
		found.Message = fmt.Sprintf("%s has room for Workload %s, and Kueue has not admitted it yet", v.Name(), v.Work.GetName())
		found.Healthy = c.Now.Sub(v.Work.GetCreationTimestamp().Time) < time.Minute
		if d := kueueDown(c); d != nil && !found.Healthy {
			found.Owner = check.Platform
			found.Message += fmt.Sprintf(": %s in namespace %s, which admits it, has no pod that is available", facts.RefTo(d), d.Namespace)
			found.Evidence = append(found.Evidence, facts.Evidence{Object: facts.RefTo(d).In(), Field: "status.availableReplicas", Value: "0"})
			found.Advice = "Start Kueue's controller again: its Deployment and its log say why it does not run."
		}
		if s := dialect.ConditionOf(v.Work, "QuotaReserved"); s != nil && kueueInvalid.MatchString(s.Message) {
			found.Message, found.Healthy, found.Owner = fmt.Sprintf("Kueue does not accept Workload %s as it is written: %s", v.Work.GetName(), strings.TrimSuffix(s.Message, ".")), false, check.User
			found.Evidence = append(found.Evidence, facts.Evidence{Object: facts.RefTo(v.Work).In(), Field: `status.conditions["QuotaReserved"]`, Value: s.Reason + ": " + s.Message})
			found.Advice = "Correct what the message names, and create the work again."
		}
		if said, evidence := kueueWasEvicted(v); said != "" {
			found.Message, found.Healthy = fmt.Sprintf("%s has room for Workload %s, which Kueue has put back: %s", v.Name(), v.Work.GetName(), said), false
			found.Evidence = append(found.Evidence, evidence...)
			found.Advice = "Take away what it was put back for: Kueue admits it again by itself."
			if at, err := time.Parse(time.RFC3339, dialect.Text(v.Work.Object, "status", "requeueState", "requeueAt")); err == nil && at.After(c.Now) {
				found.Message += fmt.Sprintf("; it is tried again at %s", at.UTC().Format("15:04:05"))
				found.Until, found.Because = at, "Kueue tries it again"
			}
		}
	default:
		found.Blind = v.Local == nil || v.Cluster == nil
		found.Message = fmt.Sprintf("Workload %s waits in LocalQueue %s", v.Work.GetName(), v.Queue)
		if v.Message != "" {
			found.Message += ": " + v.Message
		}
	}
	return []check.Finding{found}
}

// kueueToldOf adds what Kueue said last in an event about the Workload that it made for the work: events may be read where Workloads may
// not. A Workload is called after the kind and the name of what it is for (Kueue pkg/controller/jobframework/workload_names.go).
func kueueToldOf(c *check.Case, f *check.Finding) {
	var last *corev1.Event
	for _, e := range c.Events {
		of := e.InvolvedObject
		mine := slices.ContainsFunc(c.Owners, func(o facts.Object) bool {
			r := facts.RefTo(o)
			return r.Namespace == of.Namespace && strings.HasPrefix(of.Name, strings.ToLower(r.Kind)+"-"+r.Name+"-")
		})
		if of.Kind == "Workload" && mine && (last == nil || facts.EventTime(e).After(facts.EventTime(last))) {
			last = e
		}
	}
	if last != nil {
		f.Message += ": " + wording.Shortened(wording.OneLine(last.Message), 200)
		f.Evidence = append(f.Evidence, life.Shown(last))
	}
}

// kueueInvalid is how Kueue says that what it is to admit breaks a rule of its namespace or contradicts itself (ErrInvalidWLResources
// and ErrLimitRangeConstraintsUnsatisfiedResources in pkg/workload/resources.go).
var kueueInvalid = regexp.MustCompile(`(?i)validation failed|didn't satisfy LimitRange|Invalid value`)

// kueueRanTooLong ends the reason for which Kueue evicts a Workload that ran for longer than its author allowed.
const kueueRanTooLong = "MaximumExecutionTimeExceeded"

// kueueRanOut is about a Workload whose execution time is used up. How long it ran stays in its status when it is deactivated: once
// it is admitted again it has only the rest, and if there is none Kueue deactivates it at once (Kueue v0.19: SyncAdmittedCondition in
// pkg/workload/admissionchecks.go, reconcileMaxExecutionTime in pkg/controller/core/workload_controller.go). The limit is a label of what
// the person wrote, which Kueue carries on to the Workload; one of a Workload that was made by hand is changed there.
func kueueRanOut(c *check.Case, v *queue.KueueView, found *check.Finding, active *edit.Edit) {
	most, _ := dialect.Number(v.Work.Object, "spec", "maximumExecutionTimeSeconds")
	ran, ok := dialect.Number(v.Work.Object, "status", "accumulatedPastExecutionTimeSeconds")
	if !ok {
		ran, _ = dialect.Number(v.Work.Object, "status", "accumulatedPastExexcutionTimeSeconds") // so it is spelt in v1beta1
	}
	found.Owner = check.User
	found.Advice = "Raise the maximum execution time to what the work needs, or have it save its progress, and activate the Workload again."
	found.Evidence = append(found.Evidence, facts.Evidence{Object: facts.RefTo(v.Work).In(), Field: "spec.maximumExecutionTimeSeconds", Value: fmt.Sprint(most)})
	if ran > 0 {
		found.Message += fmt.Sprintf("; it has run for %d of %d seconds", ran, most)
	}
	if rest := most - ran; rest > 0 {
		active.Assumes = fmt.Sprintf("the work ends within the %d seconds that it may still run", rest)
		return
	}
	longer := min(most+ran, math.MaxInt32) // as the API has it
	active.Side, active.Text = edit.Workload, fmt.Sprintf("let it run for %d seconds in all, and %s", longer, active.Text)
	active.Assumes = fmt.Sprintf("the work ends within %d seconds", longer-ran)
	active.Set[0] = edit.WithValues(v.Work, map[string]any{"/spec/active": true, "/spec/maximumExecutionTimeSeconds": longer})
	const label = "kueue.x-k8s.io/max-exec-time-seconds"
	i := slices.IndexFunc(c.Owners, func(o facts.Object) bool { return o.GetLabels()[label] != "" })
	if i < 0 {
		active.Command = edit.PatchLine(v.Work, "merge", map[string]any{"spec": map[string]any{"active": true, "maximumExecutionTimeSeconds": longer}})
		return
	}
	by := c.Owners[i]
	active.Command = fmt.Sprintf("kubectl label %s %s -n %s %s=%d --overwrite\n", facts.KindOfObject(by).Name(), by.GetName(), by.GetNamespace(), label, longer) + active.Command
}

// kueueMadeNone adds why Kueue makes no Workload of the work: a priority class of its own that does not exist, or what it warns of.
func kueueMadeNone(c *check.Case, f *check.Finding) {
	const label, kind = "kueue.x-k8s.io/priority-class", "WorkloadPriorityClass.kueue.x-k8s.io"
	if kueueWarns(c, f) {
		f.Advice = "Correct what Kueue says: it makes the Workload by itself then."
	}
	for _, o := range c.Owners {
		r := facts.RefTo(o)
		name := o.GetLabels()[label]
		if name == "" || !c.Sees("workloadpriorityclasses.kueue.x-k8s.io", "") || c.ForeignNamed(kind, "", name) != nil {
			continue
		}
		f.Owner, f.Healthy = check.User, false
		f.Message = fmt.Sprintf("%s names Kueue's priority class %s, which does not exist, so that Kueue makes no Workload for it", r, name)
		f.Evidence = append(f.Evidence, facts.Evidence{Object: r.In(), Field: fmt.Sprintf("metadata.labels[%q]", label), Value: name})
		for _, other := range spelling.ByLikeness(name, c.ForeignNames(kind, "")) {
			n, ok := o.DeepCopyObject().(facts.Object)
			if !ok || len(f.Edits) > 1 {
				break
			}
			labels := maps.Clone(o.GetLabels())
			labels[label] = other
			n.SetLabels(labels)
			f.Edits = append(f.Edits, edit.Edit{
				Side: edit.Workload, Cost: edit.CostWord, Set: []facts.Object{n}, Text: fmt.Sprintf("name Kueue's priority class %s instead of %s", other, name),
				Command: edit.PatchLine(n, "merge", map[string]any{"metadata": map[string]any{"labels": map[string]string{label: other}}}), Assumes: "Kueue admits it then",
			})
		}
		return
	}
}

// kueueWarns adds the last that Kueue warns of about the work, and says whether it does.
func kueueWarns(c *check.Case, f *check.Finding) bool {
	for _, o := range append(slices.Clone(c.Owners), facts.Object(c.Pod)) {
		for _, e := range c.EventsOf(o) {
			if e.Type == corev1.EventTypeWarning && strings.Contains(facts.Emitter(e), "kueue") {
				f.Message += ": " + wording.Shortened(wording.OneLine(e.Message), 300)
				f.Evidence, f.Healthy = append(f.Evidence, life.Shown(e)), false
				return true
			}
		}
	}
	return false
}

// kueueWasEvicted is for what Kueue took the Workload's quota away again: the check that refuses, else the reason of the eviction.
func kueueWasEvicted(v *queue.KueueView) (string, []facts.Evidence) {
	s := dialect.ConditionOf(v.Work, "Evicted")
	if s == nil || s.Status != "True" {
		return strings.TrimPrefix(kueueCheckRefuses(v), ": "), nil
	}
	said := s.Reason
	if s.Message != "" {
		said += ", " + strings.TrimSuffix(s.Message, ".")
	}
	refuses := kueueCheckRefuses(v)
	if waits := kueueCheckSays(v); refuses == "" && s.Reason == "AdmissionCheck" && waits != kueueNoCheck {
		refuses = ": admission check " + waits
	}
	return said + refuses, []facts.Evidence{{Object: facts.RefTo(v.Work).In(), Field: `status.conditions["Evicted"]`, Value: s.Reason + ": " + s.Message}}
}

// kueueCheckRefuses is which admission check refuses the Workload, or did before Kueue asked anew, in its own words.
func kueueCheckRefuses(v *queue.KueueView) string {
	for _, s := range dialect.Items(v.Work.Object, "status", "admissionChecks") {
		state, message := dialect.Text(s, "state"), dialect.Text(s, "message")
		if state == "Retry" || state == "Rejected" || state == "Pending" && strings.Contains(message, "Previously:") {
			out := fmt.Sprintf(": admission check %s is %s", dialect.Text(s, "name"), state)
			if message != "" {
				out += ": " + strings.TrimSuffix(message, ".")
			}
			return out
		}
	}
	return ""
}

// kueueCheckSays is the first admission check that is not ready, and its message.
func kueueCheckSays(v *queue.KueueView) string {
	for _, s := range dialect.Items(v.Work.Object, "status", "admissionChecks") {
		if state := dialect.Text(s, "state"); state != "Ready" {
			out := dialect.Text(s, "name") + " is " + state
			if v.Message != "" {
				out += ", " + v.Message
			}
			return out
		}
	}
	return kueueNoCheck
}

// kueueNoCheck is what is known where all admission checks are ready, and Kueue waits for one.
const kueueNoCheck = "nobody says which"

// kueueDown is the Deployment of Kueue's controller where it has no pod; nil: it runs, or cannot be seen.
func kueueDown(c *check.Case) *appsv1.Deployment {
	i := slices.IndexFunc(c.Deployments, func(d *appsv1.Deployment) bool {
		return d.Name == "kueue-controller-manager" && d.Status.AvailableReplicas == 0 && c.Now.Sub(d.CreationTimestamp.Time) > life.Patience
	})
	if i < 0 {
		return nil
	}
	return c.Deployments[i]
}
