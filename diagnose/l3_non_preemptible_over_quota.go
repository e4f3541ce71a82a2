package diagnose

import (
	"fmt"
	"strings"

	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var nonPreemptibleOverQuotaCheck = Check{
	Cause: "non-preemptible-over-quota", Layer: L3, Owner: User, Stage: Admit, Rank: 23,
	Title:   "Work that may not be evicted would pass its queue's quota",
	Meaning: "KAI lets a queue go over its quota only with work that it may evict again. Deployments and interactive work are not of that kind unless they say so.",
	Remedy:  "Say that the work may be evicted, or have the queue's quota raised.",
	Not:     "The queue is at its limit, or the cluster is full.",
	Find:    nonPreemptibleOverQuota,
}

func nonPreemptibleOverQuota(c *Case) []Finding {
	if !c.kaiOurs() {
		return nil
	}
	message, said := c.kaiReason("NonPreemptibleOverQuota")
	if !said && !c.kaiKept() {
		return nil
	}
	need := c.kaiNeed()
	low := func(q kaiAmount) bool { return q.quota >= 0 && q.kept+need > q.quota }
	for _, q := range c.kaiLine() {
		if !low(q) {
			continue
		}
		return []Finding{{
			Message:  fmt.Sprintf("the work may not be evicted and asks for %s, and KAI queue %s, whose quota is %d, holds %d for work of that kind", wording.Number(need, "GPU"), q.GetName(), q.quota, q.kept),
			Evidence: []facts.Evidence{{Object: facts.RefTo(q.Unstructured).In(), Field: "spec.resources.gpu.quota", Value: fmt.Sprint(q.quota)}},
			Edits: []edit.Edit{
				c.kaiRelabel("kai.scheduler/preemptibility", "preemptible", "say that the work may be evicted: label kai.scheduler/preemptibility=preemptible", map[string]any{"/spec/preemptibility": "preemptible"}),
				c.kaiRaise(func(q kaiAmount) (string, int64, bool) { return "quota", q.kept + need, low(q) }),
			},
		}}
	}
	if said && len(c.kaiLine()) == 0 {
		return []Finding{{Message: "KAI says: " + strings.TrimSuffix(message, ".")}}
	}
	return nil
}
