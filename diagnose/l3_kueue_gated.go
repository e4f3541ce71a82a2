package diagnose

import (
	"fmt"
	"strings"
	"time"

	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/kube/dialect"
)

var kueueGatedCheck = Check{
	Cause: "kueue-gated", Layer: L3, Owner: Scheduler, Stage: Admit, Rank: 29,
	Title:   "Kueue has not admitted it",
	Meaning: "The work is held back until Kueue admits it, and Kueue has not, for none of the reasons that have a code of their own.",
	Remedy:  "Read the Workload's conditions and events, and see whether Kueue's controller runs.",
	Not:     "The scheduler does not like the pod: it has not been asked.",
	Find:    kueueGated,
}

func kueueGated(c *Case) []Finding {
	v := c.kueue()
	if v == nil || v.cause != "kueue-gated" {
		return nil
	}
	found := Finding{Evidence: v.evidence()}
	switch {
	case dialect.IsTrue(v.work, "Admitted"):
		found.Message = fmt.Sprintf("Kueue has admitted Workload %s and has not let its pods go yet", v.work.GetName())
		found.Calm = c.Now.Sub(dialect.ConditionOf(v.work, "Admitted").At) < time.Minute
	case v.queue == "":
		found.Message = fmt.Sprintf("Workload %s names no LocalQueue, so Kueue does not admit it", v.work.GetName())
		found.Edits, found.Owner = c.kueueElsewhere(v), User
	case v.work == nil:
		found.Message = fmt.Sprintf("Kueue is to admit it from LocalQueue %s and has made no Workload for it", v.queue)
		found.Calm = c.Age() < time.Minute
	case dialect.Value(v.work.Object, "spec", "active") == false:
		found.Message = fmt.Sprintf("Workload %s is deactivated", v.work.GetName())
		if v.message != "" && !strings.HasSuffix(v.message, "is deactivated") {
			found.Message += ": " + v.message
		}
		found.Edits = c.kueueOnly(edit.Edit{
			Side: edit.Cluster, Cost: 3, Text: "activate Workload " + v.work.GetName() + " again", Set: []facts.Object{edit.WithValues(v.work, map[string]any{"/spec/active": true})},
			Command: edit.PatchLine(v.work, "merge", map[string]any{"spec": map[string]any{"active": true}}),
		})
	case dialect.IsTrue(v.work, "QuotaReserved"):
		found.Message = fmt.Sprintf("Workload %s has its quota and waits for an admission check: %s", v.work.GetName(), kueueCheckSays(v))
	case v.cluster != nil && v.room.fits:
		found.Message = fmt.Sprintf("%s has room for Workload %s, and Kueue has not admitted it yet", v.name(), v.work.GetName())
		found.Calm = c.Now.Sub(v.work.GetCreationTimestamp().Time) < time.Minute
	default:
		found.Message = fmt.Sprintf("Workload %s waits in LocalQueue %s", v.work.GetName(), v.queue)
		if v.message != "" {
			found.Message += ": " + v.message
		}
	}
	return []Finding{found}
}

// kueueCheckSays is the first admission check that is not ready, and its message.
func kueueCheckSays(v *kueueView) string {
	for _, s := range dialect.Items(v.work.Object, "status", "admissionChecks") {
		if state := dialect.Text(s, "state"); state != "Ready" {
			out := dialect.Text(s, "name") + " is " + state
			if v.message != "" {
				out += ", " + v.message
			}
			return out
		}
	}
	return "nobody says which"
}
