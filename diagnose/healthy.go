package diagnose

import (
	"fmt"
	"slices"
	"time"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/life"
)

// healthy words the answer for a target that nothing blocks: what it is at, and when it goes on where that is known. What
// should have gone on long ago and shows nothing is unknown.
func (d *Diagnoser) healthy(out *Diagnosis, j *judgement) {
	c := j.cases[0]
	hard, young := d.against(j)
	if len(hard) > 0 {
		unproven(out, hard)
		return
	}
	if p := life.Leaving(c); p != nil {
		until := p.DeletionTimestamp.Time
		out.Summary = fmt.Sprintf("pod %s is ending, and has until %s for it", p.Name, until.UTC().Format("15:04:05"))
		if c.Waits() || facts.WaitsForDeletion(c.Owner()) || facts.WaitsForDeletion(c.Top) {
			out.ETA = &facts.ETA{Earliest: c.Now, Likely: until, Because: "pod " + p.Name + " has ended by then"}
		}
		return
	}
	for _, say := range []func(*check.Case) string{life.Restful, life.ComingUp} {
		if s := say(c); s != "" {
			out.Summary = s
			return
		}
	}
	switch placed := c.Fit != nil && c.Fit.Placed(); {
	case c.Fit == nil && life.SchedulerRefusal(c) != "":
		out.Cause = Unknown
		out.Summary = "its scheduler has no place for it, and what it would take to say why cannot be seen; it says: " + life.SchedulerRefusal(c)
	case c.Waits() && c.Fit != nil && !placed && d.engineSays(out, c):
	case c.Waits() && c.Age() < life.Patience && len(young) > 0:
		out.Summary = fmt.Sprintf("it is %s old, and waits for what may pass by itself: %s", c.Age().Round(time.Second), young[0].What)
	case c.Waits() && c.Age() < life.Patience && len(out.Unseen) > 0:
		out.Summary = fmt.Sprintf("it is %s old, and nothing stands in its way as far as can be seen", c.Age().Round(time.Second))
	case c.Waits() && c.Age() < life.Patience:
		out.Summary = fmt.Sprintf("it is %s old, and nothing stands in its way", c.Age().Round(time.Second))
	case c.State == facts.Absent && life.BacksOff(c) != "":
		out.Summary = life.BacksOff(c)
	case c.Waits() && c.Exists && life.Nominated(c) != "":
		out.Summary = life.Nominated(c)
	case c.Waits() && c.Exists && placed && roomSince(c) != "":
		out.Summary = roomSince(c) + ": " + j.outcome() + " once its scheduler looks at it again"
	default:
		out.Cause, out.Owner = Unknown, check.Nobody
		out.Summary = life.Unexplained(c)
	}
}

// blind makes an all-clear unknown where what could speak against it was not seen: the node of a pod that starts, or the nodes
// that a pod could go to.
func (d *Diagnoser) blind(out *Diagnosis, c *check.Case) {
	if out.Layer == check.None && c.Exists && (c.Waits() || c.State == facts.Starting) && d.model == nil {
		out.Cause, out.Owner = Unknown, check.Nobody
	}
}

// engineSays names what the engine has against the pod, where no check did: never is work called healthy for which there
// is no place.
func (d *Diagnoser) engineSays(out *Diagnosis, c *check.Case) bool {
	i := slices.IndexFunc(d.checks, func(k *check.Check) bool { return k.Cause == c.Fit.Cause })
	if i < 0 || len(c.Fit.Gates) == 0 {
		return false
	}
	check := d.checks[i]
	out.Layer, out.Cause, out.Owner, out.Advice = check.Layer, check.Cause, check.Owner, check.Remedy
	out.Summary = c.Fit.Gates[0].Sentence(c.Fit.Certificates)
	return true
}
