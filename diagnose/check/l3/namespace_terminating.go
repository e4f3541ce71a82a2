package l3

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var namespaceTerminatingCheck = check.Check{
	Cause: "namespace-terminating", Layer: check.L3, Owner: check.User, Stage: check.Create, Rank: 1,
	Title:   "The namespace is being deleted",
	Meaning: "Nothing new can be created in a namespace that is on its way out, and what is in it will be deleted.",
	Remedy:  "Make the work in another namespace. If the namespace does not go away, its conditions say what holds it.",
	Find:    namespaceTerminating,
}

func namespaceTerminating(c *check.Case) []check.Finding {
	if c.State != facts.Absent {
		return nil
	}
	for _, n := range c.Namespaces {
		if n.Name != c.Pod.Namespace || n.DeletionTimestamp == nil && n.Status.Phase != corev1.NamespaceTerminating {
			continue
		}
		f := check.Finding{
			Message:  fmt.Sprintf("namespace %s is being deleted", n.Name),
			Evidence: []facts.Evidence{{Object: facts.RefTo(n).In(), Field: "status.phase", Value: string(n.Status.Phase)}},
		}
		if n.DeletionTimestamp != nil {
			f.Message += fmt.Sprintf(", since %s", n.DeletionTimestamp.UTC().Format("2006-01-02 15:04 MST"))
		}
		for _, s := range n.Status.Conditions {
			if s.Status == corev1.ConditionTrue && s.Message != "" {
				f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(n).In(), Field: fmt.Sprintf("status.conditions[%s].message", s.Type), Value: s.Message})
				if f.Advice == "" && strings.HasSuffix(string(s.Type), "Failure") { // of the controller that empties it
					f.Message += "; what empties it fails: " + wording.Shortened(s.Message, 200)
					f.Advice = "Have the failure repaired, an API that no server answers for instance: until then the namespace does not go, and cannot be made anew."
				}
			}
		}
		return []check.Finding{f}
	}
	if r := life.DeniedBy(c, life.ByNamespace); r != nil && !c.Sees("namespaces", "") {
		return []check.Finding{{Message: fmt.Sprintf("namespace %s is being deleted", r.Name), Evidence: []facts.Evidence{r.Evidence}}}
	}
	return nil
}
