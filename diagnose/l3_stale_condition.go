package diagnose

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/kube/dialect"
)

var staleConditionCheck = Check{
	Cause: "stale-condition", Layer: None, Owner: Nobody, Stage: Run, Rank: 90,
	Title:   "It runs, and an old condition says otherwise",
	Meaning: "All pods run. The PodGroup still has the condition from when they could not be placed, because nobody took it away.",
	Remedy:  "Nothing has to be done.",
	Not:     "It cannot be scheduled.",
	Find:    staleCondition,
}

func staleCondition(c *Case) []Finding {
	if c.State != facts.Running || slices.ContainsFunc(c.All, func(p *corev1.Pod) bool {
		return facts.StateOf(p) != facts.Running && facts.StateOf(p) != facts.Succeeded
	}) {
		return nil
	}
	if g := c.kaiGroup(); g != nil {
		for _, s := range dialect.Items(g.Object, "status", "schedulingConditions") {
			if dialect.Text(s, "type") == "UnschedulableOnNodePool" && dialect.Text(s, "status") != "False" {
				return []Finding{staleSaid(facts.RefTo(g).In(), `status.schedulingConditions["UnschedulableOnNodePool"]`)}
			}
		}
	}
	if g := c.volcanoGroup(); g != nil && dialect.IsTrue(g, "Unschedulable") {
		return []Finding{staleSaid(facts.RefTo(g).In(), `status.conditions["Unschedulable"]`)}
	}
	return nil
}

func staleSaid(object, field string) Finding {
	return Finding{Calm: true, Message: fmt.Sprintf("it runs; %s still says that it cannot be scheduled, which is no longer true", object), Evidence: []facts.Evidence{{Object: object, Field: field, Value: "True"}}}
}
