package l4

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var waitingForPeerCheck = check.Check{
	Cause: "waiting-for-peer", Layer: check.L4, Owner: check.ML, Stage: check.Run, Rank: 20,
	Title:   "The pod waits for a peer that does not run",
	Meaning: "The pod has its node, and waits in an init container or in its rendezvous for another pod of the same work, which has no node or does not exist. The other pod's reason is the reason.",
	Remedy:  "Ask why the peer waits (berth why pod/NAME): when it runs, this one goes on by itself. A gang would have kept both from holding GPUs meanwhile.",
	Not:     "The init container is broken.",
	Find:    waitingForPeer,
}

func waitingForPeer(c *check.Case) []check.Finding {
	how, evidence := waitsInside(c)
	if how == "" {
		return nil
	}
	peers := waitingPeers(c.Facts, c.Pod)
	absent, owner := absentPeers(c.Facts, c.Pod)
	var what string
	switch {
	case len(peers) > 0:
		p := peers[0]
		what = fmt.Sprintf("pod %s has no node", p.Name)
		if len(peers) > 1 {
			what = fmt.Sprintf("pod %s and %d more of its peers have no node", p.Name, len(peers)-1)
		}
		if said := saidOf(p); said != "" {
			what += " (" + wording.Shortened(said, 200) + ")"
			evidence = append(evidence, facts.Evidence{Object: facts.RefTo(p).In(), Field: "status.conditions[PodScheduled]", Value: wording.Shortened(said, 300)})
		}
	case absent > 0:
		what = fmt.Sprintf("%d of its peers %s not exist: %s has not made %s", absent, wording.InNumber(absent, "does", "do"), facts.RefTo(owner), wording.InNumber(absent, "it", "them"))
	default:
		if found := domainTooLarge(c); found != nil {
			return found
		}
		if p := brokenPeer(c); p != nil {
			peers, what = []*corev1.Pod{p}, fmt.Sprintf("pod %s does not run: %s", p.Name, gpustack.Trouble(p))
			evidence = append(evidence, facts.Evidence{Object: facts.RefTo(p).In(), Field: "status", Value: gpustack.Trouble(p)})
			break
		}
		return waitsForSomething(c)
	}
	return []check.Finding{{Message: how + ": " + what, Evidence: evidence, Healthy: asksAfter(c, peers, owner), Advice: askPeer(c, peers, owner)}}
}

// brokenPeer is a pod of the same work that has a node and does not get to run there, or fails again and again, while the pod waits in an
// init container; nil: there is none. One that waits in an init container itself may wait for this one.
func brokenPeer(c *check.Case) *corev1.Pod {
	if c.State != facts.Starting {
		return nil
	}
	for _, p := range crew(c.Facts, c.Pod) {
		if p.Spec.NodeName == "" || p.DeletionTimestamp != nil || facts.Ended(p) {
			continue
		}
		for _, k := range life.ContainersOf(p) {
			w := k.Status.State.Waiting
			if w != nil && w.Reason != "ContainerCreating" && w.Reason != "PodInitializing" {
				return p
			}
		}
	}
	return nil
}

// unending is how long an init container may run before it is taken to wait for something: they fetch models, too.
const unending = 10 * time.Minute

// waitsForSomething is about an init container that does not end, where no peer of the pod is missing: what it waits for is
// outside of this work, such as a service, and only its log and its command can tell. Commands are not quoted: they have
// secrets in them.
func waitsForSomething(c *check.Case) []check.Finding {
	for _, k := range life.ContainersOf(c.Pod) {
		run := k.Status.State.Running
		if c.State != facts.Starting || c.WasEdited(c.Pod) || !k.Init || run == nil || c.Now.Sub(run.StartedAt.Time) < unending || ptr.Deref(k.RestartPolicy, "") == corev1.ContainerRestartPolicyAlways {
			continue
		}
		f := check.Finding{
			Owner: check.User, Last: true, // another pod of the work that fails may be what it waits for
			Message:  fmt.Sprintf("%s of pod %s has run for %s and has not ended, and the pod's containers start after it", k.Noun(), c.Pod.Name, wording.Minutes(c.Now.Sub(run.StartedAt.Time))),
			Evidence: []facts.Evidence{k.Said(c.Pod, "running since "+run.StartedAt.UTC().Format(time.RFC3339))},
			Advice:   fmt.Sprintf("See what it waits for (kubectl logs %s -c %s -n %s): a name that does not resolve, a service without pods, a file that nobody writes.", c.Pod.Name, k.Name, c.Pod.Namespace),
		}
		line := wording.LastLine(life.Tail(c.Facts, c.Pod, k.Name))
		if b := wallToPeers(c, line, portIn(strings.Join(slices.Concat(k.Command, k.Args), " "))); b != nil {
			f.Owner, f.Advice, f.Evidence = check.Policy, walls(b).Advice, append(b.Evidence(), f.Evidence...)
			f.Message += ": " + b.Says("pod "+b.To.Name)
		}
		if line != "" {
			f.Message += ": " + wording.Shortened(line, 140)
		}
		return []check.Finding{f}
	}
	return nil
}

// waitsInside says how the pod waits for others, by its init container or its log.
func waitsInside(c *check.Case) (string, []facts.Evidence) {
	if c.State != facts.Starting && c.State != facts.Running {
		return "", nil
	}
	if how, e := waitsForDomain(c); how != "" {
		return how, []facts.Evidence{e}
	}
	for _, k := range life.ContainersOf(c.Pod) {
		run := k.Status.State.Running
		if k.Init && c.State == facts.Starting && run != nil && c.Now.Sub(run.StartedAt.Time) > meetIn && ptr.Deref(k.RestartPolicy, "") != corev1.ContainerRestartPolicyAlways {
			how := fmt.Sprintf("%s of pod %s waits since %s", k.Noun(), c.Pod.Name, wording.Minutes(c.Now.Sub(run.StartedAt.Time)))
			if line := wording.LastLine(life.Tail(c.Facts, c.Pod, k.Name)); line != "" {
				how += " (" + wording.Shortened(line, 100) + ")"
			}
			return how, []facts.Evidence{k.Said(c.Pod, "running since "+run.StartedAt.UTC().Format(time.RFC3339))}
		}
		if s, ok := stalled(life.Tail(c.Facts, c.Pod, k.Name)); ok && s.meeting && c.State == facts.Running {
			return fmt.Sprintf("%s of pod %s waits for its peers", k.Noun(), c.Pod.Name), []facts.Evidence{{Object: facts.RefTo(c.Pod).In(), Field: "log of " + k.Name, Value: wording.Shortened(s.line, 200)}}
		}
	}
	return "", nil
}

// asksAfter says whether the peer belongs to the target too: then the checks look at it themselves, and what they find
// is the reason.
func asksAfter(c *check.Case, peers []*corev1.Pod, owner facts.Object) bool {
	if len(peers) > 0 {
		return slices.Contains(c.All, peers[0])
	}
	return slices.ContainsFunc(c.Owners, func(m facts.Object) bool { return m.GetUID() == owner.GetUID() }) && c.Target.Kind != "Pod"
}

func askPeer(c *check.Case, peers []*corev1.Pod, owner facts.Object) string {
	if len(peers) > 0 {
		owner = peers[0]
	}
	r := facts.RefTo(owner)
	return fmt.Sprintf("Ask why %s waits: berth why %s/%s -n %s", r, strings.ToLower(r.Kind), r.Name, r.Namespace)
}
