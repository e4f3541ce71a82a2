package l3

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/queue"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var preemptionInProgressCheck = check.Check{
	Cause: "preemption-in-progress", Layer: check.L3, Owner: check.Nobody, Stage: check.Place, Rank: 1,
	Title:   "Others are being evicted for it",
	Meaning: "A place was chosen, and the pods that have to leave it are ending. They have the time that their grace period gives them.",
	Remedy:  "Nothing has to be done: it starts when they are gone.",
	Not:     "The cluster is full.",
	Find:    preemptionInProgress,
}

// evictionSlack is how long after its grace period a pod may take to go before that is strange.
const evictionSlack = 2 * time.Minute

func preemptionInProgress(c *check.Case) []check.Finding {
	if v := queue.Kueue(c); v != nil && v.Cause == "preemption-in-progress" {
		return []check.Finding{{Healthy: true, Message: "Kueue evicts other work for it: " + strings.TrimSuffix(v.Message, "."), Evidence: v.Evidence()}}
	}
	node := c.Pod.Status.NominatedNodeName
	if c.State != facts.Pending || node == "" {
		return nil
	}
	var leaving []*corev1.Pod
	for _, p := range c.PodsOn(node) {
		if p.DeletionTimestamp != nil {
			leaving = append(leaving, p)
		}
	}
	if len(leaving) == 0 {
		return evictionSaid(c, node)
	}
	last := slices.MaxFunc(leaving, func(a, b *corev1.Pod) int { return a.DeletionTimestamp.Compare(b.DeletionTimestamp.Time) })
	until := last.DeletionTimestamp.Time // the API server has added the grace period to it
	if c.Now.After(until.Add(evictionSlack)) {
		return nil
	}
	var names []string
	for _, p := range leaving {
		names = append(names, p.Namespace+"/"+p.Name)
	}
	slices.Sort(names)
	return []check.Finding{{
		Healthy: true, Fit: true, Until: until, Because: fmt.Sprintf("pod %s/%s is gone by then", last.Namespace, last.Name),
		Message:  fmt.Sprintf("it has been given node %s and starts when %s, which is being evicted for it, is gone", node, wording.AtMost(2, names)),
		Evidence: []facts.Evidence{{Object: facts.RefTo(c.Pod).In(), Field: "status.nominatedNodeName", Value: node}, {Object: facts.RefTo(last).In(), Field: "metadata.deletionTimestamp", Value: until.UTC().Format(time.RFC3339)}},
	}}
}

// evictionSaid goes by the scheduler's word, where the pods on the node cannot be seen.
func evictionSaid(c *check.Case, node string) []check.Finding {
	said, ok := place.SaidOf(c)
	if !ok || c.Sees("pods", "") || !strings.Contains(said.Evicting.Barred, "terminating pod on the nominated node") {
		return nil
	}
	return []check.Finding{{
		Healthy: true, Fit: true, Message: fmt.Sprintf("it has been given node %s and starts when a pod that is being evicted for it is gone", node),
		Evidence: []facts.Evidence{{Object: facts.RefTo(c.Pod).In(), Field: "status.nominatedNodeName", Value: node}},
	}}
}
