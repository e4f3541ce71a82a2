package place

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/kube/dialect/kubescheduler"
)

// SaidOf returns the newest such message of the pod, from its condition, which is whole, or else from its events.
func SaidOf(c *check.Case) (kubescheduler.Message, bool) {
	for _, cond := range c.Pod.Status.Conditions {
		if cond.Type == corev1.PodScheduled && cond.Status == corev1.ConditionFalse {
			if s, ok := kubescheduler.Parse(cond.Message); ok {
				s.At = cond.LastTransitionTime.Time
				return s, true
			}
		}
	}
	if !c.Exists {
		return kubescheduler.Message{}, false
	}
	for _, e := range c.EventsOf(c.Pod, "FailedScheduling") {
		if s, ok := kubescheduler.Parse(e.Message); ok {
			s.At = facts.EventTime(e)
			return s, true
		}
	}
	return kubescheduler.Message{}, false
}

// TellsSize says whether the scheduler of this release counts nodes that are too small apart from full ones.
func TellsSize(f *facts.Facts) bool { return minor(f) >= 34 }

// minor is the second number of the API server's version; 0 where it is not known.
func minor(f *facts.Facts) int {
	parts := strings.SplitN(strings.TrimPrefix(f.Kubernetes, "v"), ".", 3)
	if len(parts) < 2 {
		return 0
	}
	n, err := strconv.Atoi(strings.TrimRight(parts[1], "+"))
	if err != nil {
		return 0
	}
	return n
}

// SaidEvidence is where the scheduler's words are.
func SaidEvidence(c *check.Case) []facts.Evidence {
	s, ok := SaidOf(c)
	if !ok {
		return nil
	}
	return []facts.Evidence{{Object: facts.RefTo(c.Pod).In(), Field: `status.conditions[type="PodScheduled"].message`, Value: s.Text}}
}

// notAsked begins the reasons for nodes that the pod itself does not ask for.
var notAsked = []string{"node(s) didn't match Pod's node affinity/selector", "node(s) didn't satisfy plugin(s) [NodeAffinity]"}

// cordoned is the reason for nodes that are marked unschedulable.
const cordoned = "node(s) were unschedulable"

// ClosedAsSaid says whether all nodes that the pod asks for are closed to every pod, in the words of the scheduler, and of how many
// it says that they are cordoned; the others have taints with which Kubernetes and its helpers say that a node is not to be used.
func ClosedAsSaid(c *check.Case) (closed bool, cordons int) {
	s, ok := SaidOf(c)
	if !ok || s.Whole != "" {
		return false, 0
	}
	for _, r := range s.Reasons {
		taint, tainted := strings.CutPrefix(r.Text, "node(s) had untolerated taint {")
		key, _, _ := strings.Cut(taint, ":")
		switch {
		case slices.ContainsFunc(notAsked, func(words string) bool { return strings.HasPrefix(r.Text, words) }):
			continue
		case r.Text == cordoned:
			cordons += r.Nodes
		case !tainted || KindOfTaint(c.Facts, corev1.Taint{Key: key}) != TaintOfState:
			return false, 0
		}
		closed = true
	}
	return closed, cordons
}
