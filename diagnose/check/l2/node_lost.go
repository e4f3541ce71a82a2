package l2

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/life"
)

var nodeLostCheck = check.Check{
	Cause: "node-lost", Layer: check.L2, Owner: check.Platform, Stage: check.Start, Rank: 10,
	Title:   "The pod's node does not answer",
	Meaning: "The pod was placed, and its node is not Ready, has stopped reporting or is gone. What the pod's status says is old, and a pod that is deleted there does not go before the node comes back or is removed.",
	Remedy:  "Bring the node back, or remove its Node object; then what ran there is made anew elsewhere.",
	Not:     "The program hangs.",
	Find:    nodeLost,
}

func nodeLost(c *check.Case) []check.Finding {
	what, evidence := life.Lost(c)
	if what == "" {
		return nil
	}
	f := check.Finding{Message: fmt.Sprintf("%s, and pod %s is there", what, c.Pod.Name), Evidence: []facts.Evidence{evidence}}
	if metav1.GetControllerOfNoCopy(c.Pod) != nil && c.Sees("nodes", "") && life.GivenUp(c) {
		f.Edits = []edit.Edit{abandon(c)}
	}
	return []check.Finding{f}
}

// abandon gives up the target's pods on the node, so that their owner makes others.
func abandon(c *check.Case) edit.Edit {
	node := c.Pod.Spec.NodeName
	there := life.Alike(c, func(p *corev1.Pod) bool { return p.Spec.NodeName == node && !facts.Ended(p) })
	e := edit.Edit{Side: edit.Cluster, Text: fmt.Sprintf("give up what ran on node %s", node), Cost: 5, Assumes: fmt.Sprintf("node %s is really down: nothing may run twice", node)}
	names := ""
	for _, p := range there {
		e.Gone = append(e.Gone, p)
		names += " " + p.Name
	}
	e.Command = fmt.Sprintf("kubectl delete pod -n %s --grace-period=0 --force%s", c.Pod.Namespace, names)
	return e
}
