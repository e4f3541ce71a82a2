package scheduler

import (
	"cmp"
	"context"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/cluster"
	"github.com/berth-dev/berth/kube/report"
)

// marked returns the key of the workload that waits and has the mark. What is no mark, or of none, is returned as it is.
func (s *scheduler) marked(mark string) string {
	if !strings.HasPrefix(mark, "#") {
		return mark
	}
	return cmp.Or(s.feed.FindWaiting(func(workload string) bool { return s.marks.Mark(workload) == mark }), mark)
}

// evicting says on the pod that it is, or will be, evicted.
func (r *reporter) evicting(p *corev1.Pod, reason, text string, said *report.Eviction) {
	r.later(p, func(ctx context.Context) {
		r.post(ctx, r.event(p, corev1.EventTypeWarning, reason, "Evicting", text, said.Text(), false))
	})
}

// makesRoom names the victims on a workload that waits for them: on its first pod, and on its PodGroup.
func (r *reporter) makesRoom(gang string, victims []*eviction) {
	told := make([]report.Victim, len(victims))
	for i, e := range victims {
		told[i] = report.Victim{Pod: e.Pod, Eviction: e.said}
	}
	text := report.MakingRoom(namespaceOf(gang), told, time.Now())
	say := func(o cluster.Object) {
		r.later(o, func(ctx context.Context) {
			r.post(ctx, r.event(o, corev1.EventTypeNormal, "MakingRoom", "Evicting", text, told[0].Text(), false))
		})
	}
	if pods := r.s.feed.Waiting(gang); len(pods) > 0 {
		say(pods[0])
	}
	if g := r.s.feed.Group(gang); g != nil {
		say(g)
	} else if _, composites := r.s.feed.Groups(gang); len(composites) > 0 {
		say(composites[0])
	}
}

// uses are the queues with what their workloads hold, by name. The loop's.
func (s *scheduler) uses() map[string]*engine.QueueUse {
	list := s.state.QueueUses()
	out := make(map[string]*engine.QueueUse, len(list))
	for i := range list {
		out[list[i].Name] = &list[i]
	}
	return out
}

// gpu is the resource that GPUs are.
func (s *scheduler) gpu() string { return cmp.Or(s.opts.Engine.GPU, cluster.DefaultGPU) }
