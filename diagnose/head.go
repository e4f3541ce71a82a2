package diagnose

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/queue"
	"github.com/berth-dev/berth/engine/why"
)

// mostHeadTrials bounds the edits that are tried for the one before the target.
const mostHeadTrials = 6

// headStarts is the cheapest edit with which the workload starts that the target waits behind, and then the target beside it. What
// keeps that workload is found as if it had been asked about.
func (t *trial) headStarts() []Fix {
	i := slices.IndexFunc(t.base.cases, func(c *check.Case) bool { h, _ := queue.HeadOf(c); return h != nil && h.GetUID() != t.top.GetUID() })
	if i < 0 {
		return nil
	}
	head, _ := queue.HeadOf(t.base.cases[i])
	of := &trial{d: t.d, target: facts.RefTo(head), top: head, base: t.d.judge(t.d.facts, facts.RefTo(head), head)}
	of.bind()
	var edits []edit.Edit
	for _, f := range of.ordered() {
		if of.mends[f] {
			edits = append(edits, of.allowed(f.Edits)...)
		}
	}
	slices.SortStableFunc(edits, func(a, b edit.Edit) int { return cmp.Compare(a.Cost, b.Cost) })
	for _, e := range edits[:min(len(edits), mostHeadTrials)] {
		if len(e.Ops) > 0 && e.On == nil {
			e.On = head
		}
		j := t.after(head, e)
		if j == nil {
			continue
		}
		if e.Side == edit.Workload {
			e.Assumes = cmp.Or(e.Assumes, fmt.Sprintf("the owner of %s agrees", of.target))
		}
		e.Side, e.Text = edit.Cluster, fmt.Sprintf("let %s start, which is before it: %s", of.target, e.Text)
		return []Fix{t.fix(j, e)}
	}
	return nil
}

// after judges the target after the edit with the head on the nodes that it then starts on; nil where it does not start, or the target
// does not start beside it.
func (t *trial) after(head facts.Object, e edit.Edit) (out *judgement) {
	if t.d.model == nil || t.d.trials <= 0 {
		return nil
	}
	t.d.trials--
	t.tryOut([]edit.Edit{e}, func(f *facts.Facts, top facts.Object) {
		first, err := f.Find(facts.RefTo(head))
		if err != nil {
			return
		}
		s := t.d.enter(f, first)
		defer s.leave()
		starts, left := s.together(f.At)
		if left > 0 || len(starts) == 0 {
			return
		}
		var placed []*corev1.Pod
		for _, w := range starts {
			if p := s.take(w); p != nil {
				placed = append(placed, p)
			}
		}
		if j := t.d.judge(f.Beside(placed), t.target, top); j.freeBut(why.BehindTheHead) {
			out = j
		}
	})
	return out
}
