package submit

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/diagnose/facts"
)

// mostInLine bounds the workloads before one that waits of which the start is worked out to find its own. Each costs some
// hundred microseconds on a cluster of 5,000 nodes.
const mostInLine = 100

// estimate works out when the workloads that wait are likely to start, once for all of them. What the plan starts now is put
// where it goes, so that only those who wait are in line, and of each workload's own pods the first that waits: those
// behind it do not hold it up. The model is the same before and after.
func (c *checker) estimate(waiting []*corev1.Pod) {
	var first []*submission
	var spare []*corev1.Pod // that do not matter to the question
	for _, s := range c.subs {
		if s.first == nil || s.enough || s.unplanned() {
			continue
		}
		first = append(first, s)
		if c.now.GangOf(s.first) != "" {
			continue
		}
		for _, p := range s.pods {
			if p != s.first && c.where[keyOf(p)] == "" {
				spare = append(spare, p)
			}
		}
	}
	if len(first) == 0 {
		return
	}
	if c.late() {
		for _, s := range first {
			s.waits.ETA = notEstimated("the time for it was up")
		}
		return
	}
	undo := c.startAll(waiting)
	c.full.unset(spare)
	etas := make(map[string]*facts.ETA)
	for _, e := range c.full.model.Forecast(c.now.At, mostInLine) {
		etas[e.Gang] = &facts.ETA{Earliest: e.Earliest, Likely: e.Likely, Because: e.Because}
	}
	for _, s := range first {
		if s.waits.ETA = etas[c.full.model.WorkloadOf(keyOf(s.first))]; s.waits.ETA == nil {
			s.waits.ETA = notEstimated(fmt.Sprintf("more than %d workloads are before it in line", mostInLine))
		}
	}
	undo()
	for _, p := range spare {
		c.full.model.Set(p)
	}
}

// until is when the workload, which waits, is likely to start. The engine knows how long the work of Berth's own scheduler runs;
// where that does not tell, the deadlines of others' Jobs and pods may.
func (c *checker) until(s *submission) *facts.ETA {
	eta := s.waits.ETA
	if eta == nil || !eta.Likely.IsZero() || c.late() {
		return eta
	}
	if a := c.heldUp(s); a.yes && a.result.ETA != nil && !a.result.ETA.Likely.IsZero() {
		return a.result.ETA
	}
	return eta
}

// notEstimated is a time that was not worked out, and why.
func notEstimated(why string) *facts.ETA { return &facts.ETA{Because: NotEstimated + why} }

// NotEstimated begins the reason of an ETA that was not worked out, though it may be known.
const NotEstimated = "not estimated: "

// startAll puts what the plan starts on its nodes in the model, and takes off what is evicted for it. It returns what undoes
// that.
func (c *checker) startAll(waiting []*corev1.Pod) (undo func()) {
	var back []metav1.Object
	for _, e := range c.plan.Evictions {
		namespace, name, _ := strings.Cut(e.Pod, "/")
		if p := c.now.PodNamed(namespace, name); p != nil {
			c.full.model.Delete(p)
			back = append(back, p)
		}
	}
	for _, p := range waiting {
		node := c.where[keyOf(p)]
		if node == "" {
			continue
		}
		q := p.DeepCopy()
		q.Spec.NodeName = node
		started := metav1.NewTime(c.now.At)
		q.Status.Phase, q.Status.StartTime = corev1.PodRunning, &started
		c.full.model.Set(q)
		back = append(back, p)
	}
	return func() { c.full.model.Set(back...) }
}
