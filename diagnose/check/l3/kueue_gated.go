package l3

import (
	"fmt"
	"strings"
	"time"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/queue"
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
	case dialect.IsTrue(v.Work, "Admitted"):
		found.Message = fmt.Sprintf("Kueue has admitted Workload %s and has not let its pods go yet", v.Work.GetName())
		found.Healthy = c.Now.Sub(dialect.ConditionOf(v.Work, "Admitted").At) < time.Minute
	case v.Queue == "":
		found.Message = fmt.Sprintf("Workload %s names no LocalQueue, so Kueue does not admit it", v.Work.GetName())
		found.Edits, found.Owner = queue.KueueElsewhere(c, v), check.User
	case v.Work == nil:
		found.Message = fmt.Sprintf("Kueue is to admit it from LocalQueue %s and has made no Workload for it", v.Queue)
		found.Healthy = c.Age() < time.Minute
	case dialect.Value(v.Work.Object, "spec", "active") == false:
		found.Message = fmt.Sprintf("Workload %s is deactivated", v.Work.GetName())
		if v.Message != "" && !strings.HasSuffix(v.Message, "is deactivated") {
			found.Message += ": " + v.Message
		}
		found.Message += kueueCheckRefuses(v)
		found.Edits = queue.KueueOnly(c, edit.Edit{
			Side: edit.Cluster, Cost: 3, Text: "activate Workload " + v.Work.GetName() + " again", Set: []facts.Object{edit.WithValues(v.Work, map[string]any{"/spec/active": true})},
			Command: edit.PatchLine(v.Work, "merge", map[string]any{"spec": map[string]any{"active": true}}),
		})
	case dialect.IsTrue(v.Work, "QuotaReserved"):
		found.Message = fmt.Sprintf("Workload %s has its quota and waits for an admission check: %s", v.Work.GetName(), kueueCheckSays(v))
	case v.Cluster != nil && v.Room.Fits:
		found.Message = fmt.Sprintf("%s has room for Workload %s, and Kueue has not admitted it yet", v.Name(), v.Work.GetName())
		found.Healthy = c.Now.Sub(v.Work.GetCreationTimestamp().Time) < time.Minute
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
		found.Message = fmt.Sprintf("Workload %s waits in LocalQueue %s", v.Work.GetName(), v.Queue)
		if v.Message != "" {
			found.Message += ": " + v.Message
		}
	}
	return []check.Finding{found}
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
	return said + kueueCheckRefuses(v), []facts.Evidence{{Object: facts.RefTo(v.Work).In(), Field: `status.conditions["Evicted"]`, Value: s.Reason + ": " + s.Message}}
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
	return "nobody says which"
}
