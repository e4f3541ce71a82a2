package l3

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/queue"
	"github.com/berth-dev/berth/kube/dialect"
)

var staleConditionCheck = check.Check{
	Cause: "stale-condition", Layer: check.None, Owner: check.Nobody, Stage: check.Run, Rank: 90,
	Title:   "It runs, and an old condition says otherwise",
	Meaning: "All pods run. The PodGroup still has the condition from when they could not be placed, because nobody took it away.",
	Remedy:  "Nothing has to be done.",
	Not:     "It cannot be scheduled.",
	Find:    staleCondition,
}

func staleCondition(c *check.Case) []check.Finding {
	if c.State != facts.Running || slices.ContainsFunc(c.All, func(p *corev1.Pod) bool {
		return facts.StateOf(p) != facts.Running && facts.StateOf(p) != facts.Succeeded
	}) {
		return nil
	}
	if g := queue.KaiGroup(c); g != nil {
		for _, s := range dialect.Items(g.Object, "status", "schedulingConditions") {
			if dialect.Text(s, "type") == "UnschedulableOnNodePool" && dialect.Text(s, "status") != "False" {
				return []check.Finding{staleSaid(facts.RefTo(g).In(), `status.schedulingConditions["UnschedulableOnNodePool"]`)}
			}
		}
	}
	if g := queue.VolcanoGroup(c); g != nil && dialect.IsTrue(g, "Unschedulable") {
		return []check.Finding{staleSaid(facts.RefTo(g).In(), `status.conditions["Unschedulable"]`)}
	}
	return nil
}

func staleSaid(object, field string) check.Finding {
	return check.Finding{Healthy: true, Message: fmt.Sprintf("it runs; %s still says that it cannot be scheduled, which is no longer true", object), Evidence: []facts.Evidence{{Object: object, Field: field, Value: "True"}}}
}
