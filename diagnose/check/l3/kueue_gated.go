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
		found.Edits = queue.KueueOnly(c, edit.Edit{
			Side: edit.Cluster, Cost: 3, Text: "activate Workload " + v.Work.GetName() + " again", Set: []facts.Object{edit.WithValues(v.Work, map[string]any{"/spec/active": true})},
			Command: edit.PatchLine(v.Work, "merge", map[string]any{"spec": map[string]any{"active": true}}),
		})
	case dialect.IsTrue(v.Work, "QuotaReserved"):
		found.Message = fmt.Sprintf("Workload %s has its quota and waits for an admission check: %s", v.Work.GetName(), kueueCheckSays(v))
	case v.Cluster != nil && v.Room.Fits:
		found.Message = fmt.Sprintf("%s has room for Workload %s, and Kueue has not admitted it yet", v.Name(), v.Work.GetName())
		found.Healthy = c.Now.Sub(v.Work.GetCreationTimestamp().Time) < time.Minute
	default:
		found.Message = fmt.Sprintf("Workload %s waits in LocalQueue %s", v.Work.GetName(), v.Queue)
		if v.Message != "" {
			found.Message += ": " + v.Message
		}
	}
	return []check.Finding{found}
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
