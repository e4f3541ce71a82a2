package l3

import (
	"fmt"
	"strings"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/queue"
	"github.com/berth-dev/berth/kube/dialect/kueue"
)

var behindQueueHeadCheck = check.Check{
	Cause: "behind-queue-head", Layer: check.L3, Owner: check.Scheduler, Stage: check.Admit, Rank: 25,
	Title:   "Its queue keeps to its order, and the first in line does not fit",
	Meaning: "The quota that is left would do for this work. The queue is StrictFIFO: nothing passes work that came before, and that waits for more than there is.",
	Remedy:  "Wait, have the queue's strategy changed to BestEffortFIFO, or have the work at its head put on hold.",
	Not:     "There is no quota left.",
	Find:    behindQueueHead,
}

func behindQueueHead(c *check.Case) []check.Finding {
	v := queue.Kueue(c)
	if v == nil || v.Cause != "behind-queue-head" {
		return nil
	}
	head := queue.KueueBehind(c, v)
	name := head.GetNamespace() + "/" + head.GetName()
	message := fmt.Sprintf("ClusterQueue %s keeps to its order, and Workload %s, which is first in line, does not fit", v.Cluster.GetName(), name)
	if said := kueue.LastMessage(head, "QuotaReserved"); said != "" {
		message += ": " + strings.TrimSuffix(said, ".")
	}
	return []check.Finding{{
		Message: message,
		Evidence: []facts.Evidence{
			{Object: facts.RefTo(v.Cluster).In(), Field: "spec.queueingStrategy", Value: "StrictFIFO"},
			{Object: facts.RefTo(head).In(), Field: `status.conditions["QuotaReserved"]`, Value: kueue.LastMessage(head, "QuotaReserved")},
		},
		Edits: queue.KueueOnly(c,
			edit.Edit{
				Side: edit.Cluster, Cost: 3, Text: fmt.Sprintf("change the strategy of ClusterQueue %s to BestEffortFIFO", v.Cluster.GetName()),
				Set:     []facts.Object{edit.WithValues(v.Cluster, map[string]any{"/spec/queueingStrategy": "BestEffortFIFO"})},
				Command: edit.PatchLine(v.Cluster, "merge", map[string]any{"spec": map[string]any{"queueingStrategy": "BestEffortFIFO"}}),
				Assumes: "the queue's owner does not need the strict order",
			},
			edit.Edit{
				Side: edit.Cluster, Cost: 5, Text: fmt.Sprintf("put Workload %s on hold", name), Set: []facts.Object{edit.WithValues(head, map[string]any{"/spec/active": false})},
				Command: edit.PatchLine(head, "merge", map[string]any{"spec": map[string]any{"active": false}}), Assumes: "its owner agrees",
			},
		),
	}}
}
