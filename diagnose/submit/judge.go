package submit

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/submit/workload"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/convert"
)

// judge decides what becomes of the workload.
func (c *checker) judge(s *submission) {
	r := &s.result
	r.Target, r.File, r.Line = s.Ref, s.item.File, s.item.Line
	for i := range s.Parts {
		r.Pods += s.Parts[i].Wanted
		if len(s.Parts[i].Pods) > 0 {
			r.ask(s.Parts[i].Pods[0], int64(s.Parts[i].Wanted))
		}
	}
	switch {
	case r.Cause == Invalid:
	case s.item.Refused != "":
		r.Verdict, r.Cause, r.Owner, r.Layer = Never, Refused, refusedOwner(s.item.RefusedBy), check.L3
		r.Summary = s.item.Refused
		r.Fixes, r.ETA = c.afterRefusal(s), nil
	case s.fault != nil:
		r.Verdict, r.Cause, r.Layer, r.Owner, r.Summary = Never, s.fault.Cause, check.L3, check.User, s.fault.Message+": the API server refuses such a pod"
		switch {
		case s.fault.Whole:
			r.Summary = s.fault.Message + ": the API server refuses it"
		case s.fault.Taken:
			r.Layer, r.Summary = check.L4, s.fault.Message+": no kubelet runs such a pod"
		}
		if c.emptyCluster(); s.fault.Edit != "" {
			r.Fixes = c.verify(s, []Fix{{Side: edit.Workload, Edit: s.fault.Edit, Patch: s.fault.Patch}})
		}
	case s.Idle != "":
		r.Verdict, r.Summary = Idle, s.Idle
		if _, ds := s.Object.(*appsv1.DaemonSet); ds && len(c.now.Nodes) > 0 {
			r.Verdict, r.Cause, r.Layer, r.Owner, r.Summary = Never, why.NoMatchingNode, check.L3, check.User, "no node matches what its pods ask of one, so there will be none"
		}
	case s.past != "":
		c.refusedThere(s)
	case c.full.blind():
		r.Verdict, r.Summary = Unknown, "nothing is in its way that can be seen; nodes and their pods cannot be"
		if a := c.heldUp(s); a.yes {
			r.Verdict = Never
			r.takeOver(a.about(s))
		}
	default:
		c.decide(s)
	}
}

// ask adds the GPUs, or the parts of GPUs, of so many pods.
func (r *Workload) ask(p *corev1.Pod, pods int64) {
	part := convert.PartOf(p)
	if part == nil {
		r.GPUs += pods * gpusOf(p)
		return
	}
	of := GPUParts{GPUs: pods * int64(part.Cards), MemoryMiB: part.Memory, Thousandths: part.Share}
	for i := range r.GPUParts {
		if g := &r.GPUParts[i]; g.MemoryMiB == of.MemoryMiB && g.Thousandths == of.Thousandths {
			g.GPUs += of.GPUs
			return
		}
	}
	if of.GPUs > 0 {
		r.GPUParts = append(r.GPUParts, of)
	}
}

// sameWords are what a refusal says where the cause is why the API server refuses.
var sameWords = map[why.Cause]string{
	"service-account-missing": "error looking up service account", "priority-class-missing": "no PriorityClass", "runtime-class-missing": "RuntimeClass", "limit-range": " per ",
}

// afterRefusal are the fixes of an object that the API server refuses for something that can be seen in the cluster too.
func (c *checker) afterRefusal(s *submission) []Fix {
	if len(s.pods) == 0 || c.full.blind() {
		return nil
	}
	a := c.neverStarts(s)
	if words := sameWords[a.result.Cause]; !a.yes || words == "" || !strings.Contains(s.item.Refused, words) {
		return nil
	}
	return a.about(s).Fixes
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
	var held Workload
	if s.enough {
		a := c.heldUp(s)
		if !a.yes {
			r.Verdict, r.Summary = Starts, startsText(r, s.placed)
			return
		}
		held = a.about(s)
	}
	if a := c.neverStarts(s); a.yes {
		r.Verdict, r.Nodes = Never, nil
		r.takeOver(a.about(s))
		return
	}
	if c.quotaHolds(s) {
		return
	}
	r.Verdict = Waits
	if s.enough { // it has a place, and something else holds it up that ends
		r.Cause, r.Layer, r.Owner, r.Summary, r.Part, r.ETA = held.Cause, held.Layer, held.Owner, held.Summary, held.Part, held.ETA
	} else {
		r.Cause, r.Layer, r.Owner, r.Summary = s.waits.Cause, s.waits.Layer, s.waits.Owner, s.waits.Summary
		r.For, r.ETA = s.waits.For, c.until(s)
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

// heldUp says whether something other than room is in the workload's way, and what.
func (c *checker) heldUp(s *submission) answer {
	shape := s.shape()
	a, known := c.held[shape]
	if !known {
		a = answer{of: s}
		if d, part, ok := c.worst(c.full, s); ok && blocks(&d) {
			a.yes, a.result.Part = true, part
			s.fill(&a.result, d)
		}
		c.held[shape] = a
	}
	return a
}

// neverStarts says whether the workload would not start on the cluster without other work either, and what is in the way there,
// with its fixes.
func (c *checker) neverStarts(s *submission) answer {
	shape := s.shape()
	a, known := c.never[shape]
	if !known {
		a = answer{of: s}
		a.yes = c.blockedAlone(s, &a.result)
		if a.yes {
			a.result.Fixes = c.verify(s, a.result.Fixes)
		}
		c.never[shape] = a
	}
	return a
}

// mostDiagnosed bounds the shapes for which it is tried out what of several things is in the way, and what would help. It is
// a number and no time, so that the cause that is named does not depend on the machine.
const mostDiagnosed = 20

// emptyCluster has c.alone be the cluster without other work.
func (c *checker) emptyCluster() {
	if c.alone == nil {
		if c.alone = c.full; !c.world.Bare {
			c.alone = c.planner(emptied(c.now))
		}
	}
}

func (c *checker) blockedAlone(s *submission, r *Workload) bool {
	c.emptyCluster()
	c.alone.why.Brief(len(c.never) >= mostDiagnosed)
	if d, part, ok := c.worst(c.alone, s); ok && blocks(&d) {
		r.Part = part
		s.fill(r, d)
		return true
	}
	alone := c.tryAlone(s.pods)
	n := len(alone.where)
	if c.suffices(s, n) {
		return false
	}
	if c.stopped(s, alone, r) {
		s.letInAlone = n
		r.Summary = fmt.Sprintf("at most %d of its %d pods start at once, even if nothing else ran; the next is stopped: %s", n, len(s.pods), r.Summary)
		return true
	}
	r.Cause, r.Layer, r.Owner = why.ClusterFull, check.L1, check.Capacity
	r.Summary = fmt.Sprintf("at most %d of its %d pods fit at once, even if nothing else ran", n, len(s.pods))
	return true
}

// stopped says whether something that no node can change stops the pods beyond those that have places on the cluster without other work, such as
// the limit of their queue, and what. It is diagnosed beside those that have places: by itself each of the pods may start.
func (c *checker) stopped(s *submission, a tried, r *Workload) bool {
	i := slices.IndexFunc(s.pods, func(p *corev1.Pod) bool {
		gates := a.gates[keyOf(p)]
		return a.where[keyOf(p)] == "" && len(gates) > 0 && why.VerdictOf(gates) == why.Blocked && !ofOrder(gates[0])
	})
	if i < 0 {
		return false
	}
	next, gates := s.pods[i], a.gates[keyOf(s.pods[i])]
	r.Cause, r.Layer, r.Owner, r.Summary = gates[0].Cause, check.L3, check.Scheduler, clauses(gates[0].Sentence(a.certificates), 2)
	var placed []*corev1.Pod
	for _, p := range s.pods {
		if node := a.where[keyOf(p)]; node != "" {
			q := p.DeepCopy()
			q.Spec.NodeName, q.Status.Phase = node, corev1.PodRunning
			placed = append(placed, q)
		}
	}
	c.alone.set(placed)
	defer c.alone.unset(placed)
	if d, ok := c.alone.beside(placed, next); ok && d.Cause == r.Cause {
		s.fill(r, d)
	}
	return true
}

// ofOrder says whether the gate is about whose turn it is alone.
func ofOrder(g why.Gate) bool {
	return g.Cause == why.BehindTheHead || g.Cause == why.KeptForPromise || g.Cause == why.KeptByBooking
}

// takeOver takes what is in the workload's way from an answer.
func (r *Workload) takeOver(a Workload) {
	r.Cause, r.Layer, r.Owner, r.Summary, r.Part, r.ETA, r.Fixes = a.Cause, a.Layer, a.Owner, a.Summary, a.Part, a.ETA, a.Fixes
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

// tried is what a plan makes of pods.
type tried struct {
	where        map[string]string     // node, by pod, of those that start
	gates        map[string][]why.Gate // by pod, of those that wait, as far as the plan says why
	certificates []why.Certificate
}

// tryAlone plans the pods on the cluster without other work.
func (c *checker) tryAlone(pods []*corev1.Pod) tried {
	alone := c.alone
	alone.set(pods)
	defer alone.unset(pods)
	mine := make(map[string]bool, len(pods))
	for _, p := range pods {
		mine[keyOf(p)] = true
	}
	plan := alone.model.Plan(c.now.At)
	out := tried{where: make(map[string]string), gates: make(map[string][]why.Gate), certificates: plan.Certificates}
	for _, s := range plan.Starts {
		for _, at := range s.Placements {
			if mine[at.Pod] {
				out.where[at.Pod] = at.Node
			}
		}
	}
	waiting := make(map[string][]why.Gate)
	for _, w := range plan.Waiting {
		waiting[w.Gang] = w.Gates
	}
	for _, p := range pods {
		out.gates[keyOf(p)] = waiting[alone.model.WorkloadOf(keyOf(p))]
	}
	gang := func(p *corev1.Pod) bool { return c.now.GangOf(p) != "" }
	switch {
	case slices.ContainsFunc(pods, claimsDevices): // of which the plan knows nothing
	case len(out.where) == 0 || !slices.ContainsFunc(pods, minds) || slices.ContainsFunc(pods, gang):
		return out
	}
	out.where = alone.oneByOne(pods)
	return out
}
