package scheduler

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/engine"
)

// reasonShort is of events and conditions of a gang that is let go because it ran under its minimum.
const reasonShort = "GangUnderMinimum"

// letGoShort lets go of gangs that have been running under their minimum for too long: what they hold helps nobody,
// and as a whole they may find a place. How long is counted from when this process first saw it. It returns when
// the next one's time is up; zero: there is none.
func (s *scheduler) letGoShort(plan *engine.Plan) (wake time.Time) {
	short := make(map[string]time.Time)
	look := func(gang string, why func() string) {
		since, known := s.short[gang]
		if !known {
			since = plan.Now
		}
		if plan.Now.Sub(since) >= s.opts.GangGrace {
			s.letGo(gang, why())
			since = plan.Now // what stays is looked at again as long after
		}
		short[gang] = since
		wake = sooner(wake, since.Add(s.opts.GangGrace))
	}
	for i := range plan.Waiting {
		if w := &plan.Waiting[i]; w.Short {
			look(w.Gang, func() string { return "there is no place for the rest: " + sentence(w, plan.Certificates) })
		}
	}
	for _, gang := range plan.Short {
		look(gang, func() string { return "the members that it lacks do not exist" })
	}
	s.short = short
	return wake
}

// letGo deletes the gang's running pods that their controllers make again. Pods of nobody's would be lost: they
// stay, and it is said of them.
func (s *scheduler) letGo(gang, why string) {
	text := fmt.Sprintf("ran under its gang's minimum for %s, and %s", s.opts.GangGrace, why)
	for _, p := range s.feed.running(gang) {
		if metav1.GetControllerOfNoCopy(p) == nil {
			s.says.notice(p, s.says.event(p, corev1.EventTypeWarning, reasonShort, "Releasing", text+"; it has no controller to make it again, so it stays", true))
			continue
		}
		s.log.Info("let go", "pod", p.Namespace+"/"+p.Name, "workload", gang, "because", text)
		s.says.evict(p, reasonShort, text)
	}
}

// evict says on the pod who ends it and why, then deletes it; it has the time to end that it asked for.
func (y *sayer) evict(p *corev1.Pod, reason, text string) {
	y.later(string(p.UID), func(ctx context.Context) {
		if err := again(ctx, func() error { return y.disrupt(ctx, p, reason, text) }); err != nil {
			if !apierrors.IsNotFound(err) {
				y.s.log.Warn("evict", "pod", p.Namespace+"/"+p.Name, "err", err)
			}
			return
		}
		y.post(ctx, y.event(p, corev1.EventTypeWarning, reason, "Releasing", text, false))
	})
}

func (y *sayer) disrupt(ctx context.Context, p *corev1.Pod, reason, text string) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": p.UID},
		"status": map[string]any{"conditions": []corev1.PodCondition{{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason, Message: text, LastTransitionTime: metav1.Now(),
		}}},
	})
	if err != nil {
		return fmt.Errorf("condition of %s: %w", p.Name, err)
	}
	pods := y.s.client.CoreV1().Pods(p.Namespace)
	if _, err := pods.Patch(ctx, p.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		return err
	}
	return pods.Delete(ctx, p.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(p.UID))})
}
