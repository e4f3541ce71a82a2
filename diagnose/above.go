package diagnose

import (
	"fmt"
	"strings"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/convert"
)

// above is what an answer says of a target with a waiting pod above a limit, of which no more was looked at than the limits: see
// facts.Bounded. Berth's scheduler refuses the pod, which is an answer. Others may place it, where the whole of it lets them.
type above struct {
	pod      *check.Case
	problems []string
}

// aboveLimits is nil where every pod of the target was looked at whole.
func aboveLimits(cases []*check.Case) *above {
	for _, c := range cases {
		if !c.Waits() || c.Like == 0 {
			continue
		}
		if problems := convert.AboveLimits(c.Pod); len(problems) > 0 {
			return &above{c, problems}
		}
	}
	return nil
}

// note says in the answer, which found leads or nothing, that the pod was not looked at whole. What was found is what objects and schedulers
// say. Where nothing was, that nothing is in the way is not known.
func (a *above) note(out *Diagnosis, found *check.Finding) {
	if a == nil || out.Cause == why.InvalidObject {
		return
	}
	limits := fmt.Sprintf("pod %s is above limits, and Berth does not compare it with nodes: %s", a.pod.Pod.Name, wording.Shortened(strings.Join(a.problems, "; "), 400))
	if found != nil && !found.Healthy {
		out.Summary += "; besides, " + limits
		return
	}
	out.Layer, out.Cause, out.Owner, out.ETA, out.Summary = check.None, Unknown, check.Nobody, nil, limits
	if said := life.SchedulerRefusal(a.pod); said != "" {
		out.Summary += fmt.Sprintf("; its scheduler, %s, says: %s", a.pod.Pod.Spec.SchedulerName, wording.Shortened(wording.OneLine(said), 400))
	}
	out.Advice = "Shorten what the limits name, and ask again: docs/limits.md lists them."
}
