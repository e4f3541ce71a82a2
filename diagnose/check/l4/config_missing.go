package l4

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var configMissingCheck = check.Check{
	Cause: "config-missing", Layer: check.L4, Owner: check.User, Stage: check.Start, Rank: 24,
	Title:   "A ConfigMap or Secret that the pod refers to does not exist",
	Meaning: "The pod has its node, and the kubelet cannot make its containers or volumes, because they refer to a ConfigMap, a Secret or a key that is not there. It tries again every few seconds.",
	Remedy:  "Create what is missing in the pod's namespace, or correct the name.",
	Not:     "The node is at fault: any node would say the same.",
	Find:    configMissing,
}

func configMissing(c *check.Case) []check.Finding {
	if c.State != facts.Starting && c.State != facts.Running {
		return nil
	}
	for _, k := range life.ContainersOf(c.Pod) {
		if w := k.Waits("CreateContainerConfigError"); w != nil {
			if m, ok := parseMissing(c.Pod, w.Message); ok {
				return []check.Finding{lacksConfig(c, m, k.Noun(), k.Said(c.Pod, w.Reason+": "+wording.FirstLine(w.Message)))}
			}
		}
	}
	for _, e := range life.Troubles(c, "FailedMount") {
		if m, ok := parseMissing(c.Pod, e.Message); ok {
			return []check.Finding{lacksConfig(c, m, "a volume", life.Shown(e))}
		}
	}
	return nil
}

func lacksConfig(c *check.Case, m missing, who string, e facts.Evidence) check.Finding {
	stuck := life.Alike(c, func(p *corev1.Pod) bool { return facts.StateOf(p) == c.State && facts.Unsettled(p) })
	if maker, k := makerOf(c, m); maker != nil {
		f := check.Finding{
			Owner:    check.Platform,
			Message:  fmt.Sprintf("%s of pod %s refers to %s, which %s is to make and has not made", who, c.Pod.Name, m, facts.RefTo(maker)),
			Evidence: []facts.Evidence{e},
			Advice:   fmt.Sprintf("Look at %s and at its controller: what is made by hand in its place does not last.", facts.RefTo(maker)),
		}
		if k.Type != "" {
			f.Message += fmt.Sprintf(": %s is %s: %s", k.Type, k.Status, wording.Shortened(cmp.Or(k.Message, k.Reason), 160))
			f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(maker).In(), Field: k.Field, Value: cmp.Or(k.Message, k.Reason, k.Status)})
		}
		return f
	}
	if by, advice := givenBy(c, m); by != "" {
		return check.Finding{
			Owner:    check.Platform,
			Message:  fmt.Sprintf("%s of pod %s refers to %s, which does not exist in namespace %s; %s", who, c.Pod.Name, m, c.Pod.Namespace, by),
			Evidence: []facts.Evidence{e}, Advice: advice,
		}
	}
	f := check.Finding{
		Message:  fmt.Sprintf("%s of pod %s refers to %s, which does not exist in namespace %s", who, c.Pod.Name, m, c.Pod.Namespace),
		Evidence: []facts.Evidence{e}, Stays: m.named,
		Edits: []edit.Edit{{
			Side: edit.Workload, Text: fmt.Sprintf("create %s in namespace %s", m, c.Pod.Namespace), Set: life.Running(stuck), Command: m.make(c.Pod), Cost: 2,
			Assumes: "you put the real values in", Outcome: "the kubelet tries again within two minutes, and the containers start",
		}},
	}
	if e, other, user := used(c, m); other != "" {
		f.Message += fmt.Sprintf("; pod %s uses %s %s, which does", user, m.kind, other)
		f.Edits = append([]edit.Edit{e}, f.Edits...)
	}
	return f
}
