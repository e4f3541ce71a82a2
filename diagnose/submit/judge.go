package submit

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/submit/workload"
	"github.com/berth-dev/berth/engine/why"
)

// judge decides what becomes of the workload.
func (c *checker) judge(s *submission) {
	r := &s.result
	r.Target, r.File, r.Line = s.Ref, s.item.File, s.item.Line
	for i := range s.Parts {
		r.Pods += s.Parts[i].Wanted
		if len(s.Parts[i].Pods) > 0 {
			r.GPUs += int64(s.Parts[i].Wanted) * gpusOf(s.Parts[i].Pods[0])
		}
	}
	switch {
	case r.Cause == Invalid:
	case s.item.Refused != "":
		r.Verdict, r.Cause, r.Owner, r.Layer = Never, Refused, refusedOwner(s.item.RefusedBy), check.L3
		r.Summary = s.item.Refused
		r.Fixes, r.ETA = nil, nil
	case s.Idle != "":
		r.Verdict, r.Summary = Idle, s.Idle
		if _, ds := s.Object.(*appsv1.DaemonSet); ds && len(c.now.Nodes) > 0 {
			r.Verdict, r.Cause, r.Layer, r.Owner, r.Summary = Never, why.NoMatchingNode, check.L3, check.User, "no node matches what its pods ask of one, so there will be none"
		}
	case c.full.blind():
		r.Verdict, r.Summary = Starts, "nothing is in its way that can be seen; nodes and their pods cannot be"
		if d, part, ok := c.worst(c.full, s); ok && blocks(&d) {
			r.Verdict, r.Part = Never, part
			s.fill(r, d)
		}
	default:
		c.decide(s)
	}
}

func refusedOwner(by string) check.Owner {
	switch by {
	case "quota":
		return check.Scheduler
	case "policy", "webhook":
		return check.Policy
	case "rights":
		return check.Platform
	}
	return check.User
}

// decide is about a workload that was planned. What the plan starts may still not be admitted, or not run: diagnose knows. What
// it does not start is looked at on the cluster without other work.
func (c *checker) decide(s *submission) {
	r := &s.result
	held := Workload{}
	if s.enough {
		d, part, ok := c.worst(c.full, s)
		if !ok || !blocks(&d) {
			r.Verdict, r.Summary = Starts, startsText(r, s.placed)
			return
		}
		held.Part = part
		s.fill(&held, d)
	}
	if c.neverStarts(s) {
		r.Verdict, r.Nodes = Never, nil
		c.verify(s)
		return
	}
	r.Verdict = Waits
	if s.enough { // it has a place, and something else holds it up that ends
		r.Cause, r.Layer, r.Owner, r.Summary, r.Part, r.ETA = held.Cause, held.Layer, held.Owner, held.Summary, held.Part, held.ETA
	} else {
		r.Cause, r.Layer, r.Owner, r.Summary = s.waits.Cause, s.waits.Layer, s.waits.Owner, s.waits.Summary
		r.For, r.ETA = s.waits.For, s.waits.ETA
	}
	if s.placed > 0 && !s.enough {
		r.Summary = fmt.Sprintf("%d of %d pods start now; for the others: %s", s.placed, r.Pods, r.Summary)
	}
	if s.placed == 0 || s.enough {
		r.Nodes = nil
	}
}

// placed is how many of the workload's pods the plan starts, and whether that is what it needs to run: all, or for members
// of a gang the minimum, which the plan starts at least or not at all.
func (c *checker) placed(s *submission) (n int, enough bool) {
	gangs := false
	for _, p := range s.pods {
		if c.where[keyOf(p)] != "" {
			n++
		}
		gangs = gangs || c.now.GangOf(p) != ""
	}
	want := 0
	for i := range s.Parts {
		want += len(s.Parts[i].Pods)
	}
	return n, n == want || gangs && n > 0 && c.allPartsBegin(s)
}

// allPartsBegin says whether every part has a pod that starts.
func (c *checker) allPartsBegin(s *submission) bool {
	for i := range s.Parts {
		if len(s.Parts[i].Pods) > 0 && !slices.ContainsFunc(s.Parts[i].Pods, func(p *corev1.Pod) bool { return c.where[keyOf(p)] != "" }) {
			return false
		}
	}
	return true
}

// neverStarts says whether the workload would not start on the cluster without other work either. It takes over what is in
// the way there, with its fixes.
func (c *checker) neverStarts(s *submission) bool {
	if c.alone == nil {
		if c.alone = c.full; !c.world.Bare {
			c.alone = newPlanner(emptied(c.now), c.world.Model)
		}
	}
	d, part, ok := c.worst(c.alone, s)
	if ok && blocks(&d) {
		s.result.Part = part
		s.fill(&s.result, d)
		return true
	}
	n := c.tryAlone(s.pods)
	if c.suffices(s, n) {
		return false
	}
	r := &s.result
	r.Cause, r.Layer, r.Owner, r.Fixes, r.Part = why.ClusterFull, check.L1, check.Capacity, nil, ""
	r.Summary = fmt.Sprintf("at most %d of its %d pods fit at once, even if nothing else ran", n, len(s.pods))
	return true
}

// suffices says whether the workload does what it should with n pods at a time: all of them, of a gang the minimum, which starts
// at least or not at all, and of a Job any, which run one after the other.
func (c *checker) suffices(s *submission, n int) bool {
	switch {
	case n >= len(s.pods):
		return true
	case n == 0:
		return false
	case slices.ContainsFunc(s.pods, func(p *corev1.Pod) bool { return c.now.GangOf(p) != "" }):
		return true
	}
	return !slices.ContainsFunc(s.Parts, func(p workload.Part) bool {
		_, job := p.Maker.(*batchv1.Job)
		_, foreign := p.Above.(*unstructured.Unstructured)
		return !job || foreign
	})
}

// tryAlone is how many of the pods start at once on the cluster without other work.
func (c *checker) tryAlone(pods []*corev1.Pod) (n int) {
	alone := c.alone
	alone.set(pods)
	defer alone.unset(pods)
	mine := make(map[string]bool, len(pods))
	for _, p := range pods {
		mine[keyOf(p)] = true
	}
	for _, s := range alone.model.Plan(c.now.At).Starts {
		for _, at := range s.Placements {
			if mine[at.Pod] {
				n++
			}
		}
	}
	gang := func(p *corev1.Pod) bool { return c.now.GangOf(p) != "" }
	if n == 0 || !slices.ContainsFunc(pods, minds) || slices.ContainsFunc(pods, gang) {
		return n
	}
	return alone.oneByOne(pods)
}
