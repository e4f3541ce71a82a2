package scheduler

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/engine"
)

// reasonShort is of events and conditions of a gang that is let go because it ran under its minimum.
const reasonShort = "GangUnderMinimum"

// sayStays says on pods of gangs that are let go, and that nobody would make again, that they stay. It returns when
// the next gang's time is up; zero: there is none.
func (s *scheduler) sayStays(plan *engine.Plan) (wake time.Time) {
	short := make(map[string]time.Time)
	look := func(gang string) {
		since, known := s.short[gang]
		if !known {
			since = plan.Now
		}
		short[gang] = since
		due := since.Add(s.opts.GangGrace)
		if plan.Now.Before(due) {
			wake = sooner(wake, due)
			return
		}
		for _, p := range s.feed.running(gang) {
			if metav1.GetControllerOfNoCopy(p) == nil {
				text := fmt.Sprintf("ran under its gang's minimum for %s; it has no controller to make it again, so it stays", s.opts.GangGrace)
				s.says.notice(p, s.says.event(p, corev1.EventTypeWarning, reasonShort, "Releasing", text, true))
			}
		}
	}
	for i := range plan.Waiting {
		if w := &plan.Waiting[i]; w.Short {
			look(w.Gang)
		}
	}
	for _, gang := range plan.Short {
		look(gang)
	}
	s.short = short
	return wake
}
