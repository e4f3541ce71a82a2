package l4

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var runningWithoutProgressCheck = check.Check{
	Cause: "running-without-progress", Layer: check.L4, Owner: check.ML, Stage: check.Run, Rank: 30,
	Title:   "All ranks run and none gets on",
	Meaning: "Every pod of the work has its node and runs, and the log's last lines say that a collective waits or timed out; or the program has ended and another container keeps its pod from completing. The GPUs are held and idle.",
	Remedy:  "Restart all ranks together; look for the rank that was lost, and at the network between the nodes (NCCL_DEBUG=INFO). A shorter time-out loses less.",
	Not:     "It is Pending, or the scheduler is at fault: everything is placed.",
	Find:    runningWithoutProgress,
}

func runningWithoutProgress(c *check.Case) []check.Finding {
	if c.State != facts.Running || c.Pod.DeletionTimestamp != nil || facts.Unsettled(c.Pod) {
		return nil
	}
	if program, other := life.Lingering(c); other != nil {
		return []check.Finding{lingers(c, program, other)}
	}
	if found := withoutGPUs(c); found != nil || !crewRuns(c) {
		return found
	}
	for _, k := range life.ContainersOf(c.Pod) {
		s, ok := stalled(life.Tail(c.Facts, c.Pod, k.Name))
		if !ok || k.Status.State.Running != nil && c.Now.Sub(k.Status.State.Running.StartedAt.Time) < meetIn {
			continue
		}
		what := "a collective has waited or timed out"
		if s.meeting {
			what = "the ranks do not find each other"
		}
		f := check.Finding{Message: fmt.Sprintf("all %d pods run, and %s", len(crew(c.Facts, c.Pod))+1, what)}
		if s.meeting || !worked(life.Tail(c.Facts, c.Pod, k.Name)) {
			if b := wallToPeers(c, s.line, 0); b != nil {
				f.Owner, f.Advice, f.Evidence = check.Policy, walls(b).Advice, b.Evidence()
				f.Message += ": " + b.Says("pod "+b.To.Name)
			}
		}
		f.Message += fmt.Sprintf(": pod %s says %q", c.Pod.Name, wording.Shortened(s.line, 140))
		f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(c.Pod).In(), Field: "log of " + k.Name, Value: wording.Shortened(s.line, 300)})
		return []check.Finding{f}
	}
	return nil
}

// withoutGPUs is about a program that runs and says that its GPUs are gone: they were taken from its container, or the node has lost them.
func withoutGPUs(c *check.Case) []check.Finding {
	if device, _ := podspec.Device(c.Pod); device == "" && len(c.Pod.Spec.ResourceClaims) == 0 {
		return nil
	}
	for _, k := range life.ContainersOf(c.Pod) {
		line := lostGPUs(life.Tail(c.Facts, c.Pod, k.Name))
		if line == "" || k.Status.State.Running == nil {
			continue
		}
		return []check.Finding{{
			Layer: check.L2, Owner: check.Platform,
			Message:  fmt.Sprintf("%s of pod %s runs on node %s without its GPUs: it says %q", k.Noun(), c.Pod.Name, c.Pod.Spec.NodeName, wording.Shortened(line, 140)),
			Evidence: []facts.Evidence{{Object: facts.RefTo(c.Pod).In(), Field: "log of " + k.Name, Value: wording.Shortened(line, 300)}},
			Advice:   fmt.Sprintf("Look at the GPUs of node %s; where they are well, make the pod anew. Containers lose their devices when systemd or the runtime reloads: with CDI, or with devices that the runtime knows, they keep them.", c.Pod.Spec.NodeName),
		}}
	}
	return nil
}

// lingers is about a program that has ended well, in a pod that another container keeps from completing.
func lingers(c *check.Case, program, other *life.Container) check.Finding {
	t := program.Status.State.Terminated
	return check.Finding{
		Owner:   check.User,
		Message: fmt.Sprintf("%s of pod %s has ended with 0 %s ago, and container %s runs on: the pod does not complete and holds what it asked for", program.Noun(), c.Pod.Name, wording.Minutes(c.Now.Sub(t.FinishedAt.Time)), other.Name),
		Evidence: []facts.Evidence{
			program.Said(c.Pod, fmt.Sprintf("%s, exit code 0, at %s", t.Reason, t.FinishedAt.UTC().Format(time.RFC3339))),
			other.Said(c.Pod, "running since "+other.Status.State.Running.StartedAt.UTC().Format(time.RFC3339)),
		},
		Advice: fmt.Sprintf("Make container %s a sidecar, an init container with restartPolicy Always, which the kubelet ends after the others; or have the program tell it to end.", other.Name),
	}
}

// crewRuns says whether no peer of the pod waits or is still to be made: else that is the reason.
func crewRuns(c *check.Case) bool {
	n, _ := absentPeers(c.Facts, c.Pod)
	return n == 0 && leadsNobody(c) == nil && !slices.ContainsFunc(crew(c.Facts, c.Pod), func(p *corev1.Pod) bool {
		s := facts.StateOf(p)
		return s == facts.Pending || s == facts.Gated || s == facts.Starting
	})
}
