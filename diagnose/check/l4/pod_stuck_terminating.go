package l4

import (
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var podStuckTerminatingCheck = check.Check{
	Cause: "pod-stuck-terminating", Layer: check.L4, Owner: check.Platform, Stage: check.Create, Rank: 5,
	Title:   "The pod was deleted and does not go",
	Meaning: "The time that the pod had for ending is over. A finalizer that nobody removes keeps it, or its node's kubelet cannot end its containers. A StatefulSet makes no new pod of the same name before it has gone.",
	Remedy:  "Find who has to remove the finalizer; where nobody does, remove it by hand. Without one, look at the node's kubelet.",
	Find:    podStuckTerminating,
}

// slow is how much later than promised a pod may go.
const slow = time.Minute

func podStuckTerminating(c *check.Case) []check.Finding {
	p := c.Pod
	if !c.Exists || p.DeletionTimestamp == nil || c.Now.Sub(p.DeletionTimestamp.Time) < slow {
		return nil
	}
	if what, _ := life.Lost(c); what != "" {
		return nil // node-lost
	}
	evidence := []facts.Evidence{{Object: facts.RefTo(p).In(), Field: "metadata.deletionTimestamp", Value: p.DeletionTimestamp.UTC().Format(time.RFC3339)}}
	late := wording.Minutes(c.Now.Sub(p.DeletionTimestamp.Time))
	if len(p.Finalizers) == 0 {
		return []check.Finding{{Message: fmt.Sprintf("pod %s should have gone %s ago, and the kubelet of node %s has not ended it", p.Name, late, p.Spec.NodeName), Evidence: evidence}}
	}
	names := strings.Join(p.Finalizers, ", ")
	f := check.Finding{
		Message:  fmt.Sprintf("pod %s should have gone %s ago, and its finalizer %s was not removed", p.Name, late, names),
		Evidence: append(evidence, facts.Evidence{Object: facts.RefTo(p).In(), Field: "metadata.finalizers", Value: names}),
		Edits: []edit.Edit{{
			Side: edit.Cluster, Text: fmt.Sprintf("remove the finalizers of pod %s", p.Name), Gone: []facts.Object{p}, Cost: 5,
			Command: fmt.Sprintf(`kubectl patch pod %s -n %s --type=merge -p '{"metadata":{"finalizers":null}}'`, p.Name, p.Namespace),
			Assumes: "who set the finalizer has nothing left to do",
		}},
	}
	if _, ok := c.Owner().(*appsv1.StatefulSet); ok {
		f.Message += ": the StatefulSet waits for its name"
	}
	return []check.Finding{f}
}
