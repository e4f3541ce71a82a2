package scheduler

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/report"
)

// reportKept says on pods of gangs that are released, and that no controller would make again, that they stay. Since when a gang is
// under its minimum the engine knows, which also looks again when its time is up.
func (s *scheduler) reportKept(plan *engine.Plan) {
	grace := s.opts.Engine.GangGrace
	look := func(gang string) {
		if since := s.state.DegradedSince(gang); since.IsZero() || plan.Now.Before(since.Add(grace)) {
			return
		}
		for _, p := range s.feed.Running(gang) {
			if metav1.GetControllerOfNoCopy(p) == nil {
				text := fmt.Sprintf("ran under its gang's minimum for %s; it has no controller to make it again, so it stays", grace)
				s.reports.notice(p, s.reports.event(p, corev1.EventTypeWarning, report.UnderMinimum, "Releasing", text, "", true))
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
}
