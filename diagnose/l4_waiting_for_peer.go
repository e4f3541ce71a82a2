package diagnose

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

var waitingForPeerCheck = Check{
	Cause: "waiting-for-peer", Layer: L4, Owner: ML, Stage: Run, Rank: 20,
	Title:   "The pod waits for a peer that does not run",
	Meaning: "The pod has its node, and waits in an init container or in its rendezvous for another pod of the same work, which has no node or does not exist. The other pod's reason is the reason.",
	Remedy:  "Ask why the peer waits (berth why pod/NAME): when it runs, this one goes on by itself. A gang would have kept both from holding GPUs meanwhile.",
	Not:     "The init container is broken.",
	Find:    waitingForPeer,
}

func waitingForPeer(c *Case) []Finding {
	how, evidence := c.waitsInside()
	if how == "" {
		return nil
	}
	peers := c.waitingPeers(c.Pod)
	absent, maker := c.absentPeers(c.Pod)
	var what string
	switch {
	case len(peers) > 0:
		p := peers[0]
		what = fmt.Sprintf("pod %s has no node", p.Name)
		if len(peers) > 1 {
			what = fmt.Sprintf("pod %s and %d more of its peers have no node", p.Name, len(peers)-1)
		}
		if said := saidOf(p); said != "" {
			what += " (" + shortened(said, 200) + ")"
			evidence = append(evidence, Evidence{Object: RefTo(p).In(), Field: "status.conditions[PodScheduled]", Value: shortened(said, 300)})
		}
	case absent > 0:
		what = fmt.Sprintf("%d of its peers %s not exist: %s has not made %s", absent, inNumber(absent, "does", "do"), RefTo(maker), inNumber(absent, "it", "them"))
	default:
		return nil
	}
	return []Finding{{Message: how + ": " + what, Evidence: evidence, Calm: c.asksAfter(peers, maker), Advice: c.askPeer(peers, maker)}}
}

// waitsInside says how the pod waits for others, by its init container or its log.
func (c *Case) waitsInside() (string, []Evidence) {
	if c.State != Starting && c.State != Running {
		return "", nil
	}
	for _, k := range containersOf(c.Pod) {
		run := k.status.State.Running
		if k.init && c.State == Starting && run != nil && c.Now.Sub(run.StartedAt.Time) > meetIn && ptr.Deref(k.RestartPolicy, "") != corev1.ContainerRestartPolicyAlways {
			how := fmt.Sprintf("%s of pod %s waits since %s", k.noun(), c.Pod.Name, minutes(c.Now.Sub(run.StartedAt.Time)))
			if line := lastLine(c.tail(c.Pod, k.Name)); line != "" {
				how += " (" + shortened(line, 100) + ")"
			}
			return how, []Evidence{k.said(c.Pod, "running since "+run.StartedAt.UTC().Format(time.RFC3339))}
		}
		if s, ok := stalled(c.tail(c.Pod, k.Name)); ok && s.meeting && c.State == Running {
			return fmt.Sprintf("%s of pod %s waits for its peers", k.noun(), c.Pod.Name), []Evidence{{Object: RefTo(c.Pod).In(), Field: "log of " + k.Name, Value: shortened(s.line, 200)}}
		}
	}
	return "", nil
}

// asksAfter says whether the peer belongs to the target too: then the checks look at it themselves, and what they find
// is the reason.
func (c *Case) asksAfter(peers []*corev1.Pod, maker Object) bool {
	if len(peers) > 0 {
		return slices.Contains(c.All, peers[0])
	}
	return slices.ContainsFunc(c.Makers, func(m Object) bool { return m.GetUID() == maker.GetUID() }) && c.Target.Kind != "Pod"
}

func (c *Case) askPeer(peers []*corev1.Pod, maker Object) string {
	if len(peers) > 0 {
		maker = peers[0]
	}
	r := RefTo(maker)
	return fmt.Sprintf("Ask why %s waits: berth why %s/%s -n %s", r, strings.ToLower(r.Kind), r.Name, r.Namespace)
}
