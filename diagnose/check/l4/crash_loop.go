package l4

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var crashLoopCheck = check.Check{
	Cause: "crash-loop", Layer: check.L4, Owner: check.ML, Stage: check.Run, Rank: 40,
	Title:   "The program starts and fails, again and again",
	Meaning: "The pod was placed and its container started, and the program ended with an error. The kubelet, or the Job, starts it again after a growing pause, which looks like waiting.",
	Remedy:  "Read the log of the last instance (kubectl logs --previous) and correct the program or its settings.",
	Not:     "It is Pending for lack of GPUs.",
	Find:    crashLoop,
}

func crashLoop(c *check.Case) []check.Finding {
	if c.State != facts.Starting && c.State != facts.Running && c.State != facts.Failed || c.Pod.DeletionTimestamp != nil {
		return nil // what is deleted is told to stop
	}
	for _, k := range life.ContainersOf(c.Pod) {
		if t := crashed(c, &k); t != nil {
			f := crash(c, &k, t)
			life.BlameInjector(c, &k, &f)
			return []check.Finding{f}
		}
	}
	if all := life.FailedBefore(c); len(all) > 0 {
		return []check.Finding{failsAgain(c, all)}
	}
	return nil
}

// failsAgain is about a Job's pod that runs, and whose predecessors each ran for a while and failed.
func failsAgain(c *check.Case, before []*corev1.Pod) check.Finding {
	last, t := before[0], life.FailedIn(before[0])
	return check.Finding{
		Message: fmt.Sprintf("%s of %s failed before pod %s, the last with %s after %s; this one has run for less", wording.Number(len(before), "pod"), facts.RefTo(c.Owner()), c.Pod.Name,
			exitCode(t.ExitCode), wording.Minutes(t.FinishedAt.Sub(t.StartedAt.Time))),
		Evidence: []facts.Evidence{{Object: facts.RefTo(last).In(), Field: "status.phase", Value: fmt.Sprintf("Failed: %s, exit code %d, at %s", t.Reason, t.ExitCode, t.FinishedAt.UTC().Format(time.RFC3339))}},
		Advice:   fmt.Sprintf("Read the log of a pod that failed (kubectl logs %s -n %s) before the Job gives up.", last.Name, last.Namespace),
	}
}

// crashed is how the container ended, where it fails again and again, or for good; nil: it does not.
func crashed(c *check.Case, k *life.Container) *corev1.ContainerStateTerminated {
	t := k.Ended()
	if t == nil || t.Reason == "StartError" || t.Reason == "ContainerCannotRun" || life.FirstFall(c, k, t) {
		return nil
	}
	switch {
	case c.State == facts.Failed:
		if c.Pod.Status.Reason == "" && t.ExitCode != 0 && life.Disrupted(c.Pod) == nil {
			return t
		}
	case k.Waits("CrashLoopBackOff") != nil:
		return t
	case k.Status.State.Terminated != nil && t.ExitCode != 0:
		return t
	case life.Recurs(c, k):
		return t
	}
	return nil
}

// crash words how the program ended.
func crash(c *check.Case, k *life.Container, t *corev1.ContainerStateTerminated) check.Finding {
	times := fmt.Sprintf("%d times", k.Status.RestartCount)
	if k.Status.RestartCount <= 1 {
		times = "once"
	}
	if c.State == facts.Failed {
		times = "in " + wording.Number(c.Like, "pod")
	}
	f := check.Finding{Evidence: []facts.Evidence{k.Said(c.Pod, fmt.Sprintf("%s, exit code %d, %s", t.Reason, t.ExitCode, wording.Number(k.Status.RestartCount, "restart")))}}
	log := t.Message + "\n" + life.LastTail(c.Facts, c.Pod, k)
	gpu := outOfGPUMemory(log)
	limit, limitedBy := memoryLimit(c.Pod, k)
	killer, sign := life.KilledBy(c, k)
	blamed, told := blames(c, k, log, fmt.Sprintf("%s of pod %s", k.Noun(), c.Pod.Name), times)
	switch {
	case t.Reason == "ContainerStatusUnknown" || t.ExitCode == 255 && t.Reason == "Unknown": // how the program ended is unknown
		f.Layer, f.Owner = check.L2, check.Platform
		f.Message = fmt.Sprintf("%s of pod %s was lost with node %s or its container runtime (%s)", k.Noun(), c.Pod.Name, c.Pod.Spec.NodeName, times)
		f.Advice = fmt.Sprintf("Look at why node %s, or its container runtime, was restarted; the program's exit code is the kubelet's invention.", c.Pod.Spec.NodeName)
	case t.Reason == "OOMKilled":
		f.Message = fmt.Sprintf("%s of pod %s used more memory than its limit of %s and was killed (%s)", k.Noun(), c.Pod.Name, &limit, times)
		f.Advice = "Raise the memory limit, or have the program use less: fewer data loader workers, smaller batches."
		if limit.IsZero() { // then the node, or the pod's group of all containers, had no more
			f.Message = fmt.Sprintf("%s of pod %s, which has no memory limit, was killed because its node had no memory left (%s)", k.Noun(), c.Pod.Name, times)
			f.Advice = "Request as much memory as the program needs, so that it gets a node that has it, and limit what others on the node use."
			break
		}
		if limitedAsAWhole(c.Pod, k) {
			f.Message = fmt.Sprintf("%s of pod %s was killed when the pod's containers used more memory than the %s that the pod has as a whole (%s)", k.Noun(), c.Pod.Name, &limit, times)
			f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(c.Pod).In(), Field: limitedBy, Value: limit.String()})
		} else if l := place.GivenBy(c, string(corev1.ResourceMemory)); l != nil {
			f.Owner = check.User
			f.Message += fmt.Sprintf("; the pod sets no limit, and LimitRange %s gives it that", l.Name)
			f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(l).In(), Field: "spec.limits", Value: "default memory"})
		}
		f.Edits = []edit.Edit{moreMemory(c, k, limit)}
	case gpu != "":
		f.Message = fmt.Sprintf("%s of pod %s ran out of GPU memory (%s): %s", k.Noun(), c.Pod.Name, times, wording.Shortened(gpu, 120))
		f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(c.Pod).In(), Field: "log of " + k.Name, Value: wording.Shortened(gpu, 200)})
		f.Advice = "Use a smaller batch, split the model over more GPUs, or ask for GPUs with more memory."
	case lineWith(log, hardwareWords) != "":
		line := lineWith(log, hardwareWords)
		f.Layer, f.Owner = check.L2, check.Platform
		f.Message = fmt.Sprintf("%s of pod %s ends on node %s (%s), and its log names a fault of the hardware: %s", k.Noun(), c.Pod.Name, c.Pod.Spec.NodeName, times, wording.Shortened(line, 120))
		f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(c.Pod).In(), Field: "log of " + k.Name, Value: wording.Shortened(line, 200)})
		f.Advice = fmt.Sprintf("Have the GPUs of node %s looked at, and keep work off it until then.", c.Pod.Spec.NodeName)
	case killer != nil:
		f.Message = fmt.Sprintf("the kubelet stops %s of pod %s (%s), because its %s fails: %s", k.Noun(), c.Pod.Name, times, killer, wording.Shortened(sign.Message, 120))
		f.Evidence = append(f.Evidence, life.Shown(sign))
		f.Advice = "Correct what the probe asks, or give the program more time: a startup probe, a longer period, more failures before it counts."
	case t.ExitCode != 0 && hookFailed(c, k) != nil:
		hook := hookFailed(c, k)
		f.Owner, f.Message = check.User, fmt.Sprintf("the kubelet stops %s of pod %s (%s), because its postStart hook fails: %s", k.Noun(), c.Pod.Name, times, wording.Shortened(hook.Message, 160))
		f.Evidence = append(f.Evidence, life.Shown(hook), facts.Evidence{Object: facts.RefTo(c.Pod).In(), Field: fmt.Sprintf("spec.containers[%q].lifecycle.postStart", k.Name), Value: "its command must end with 0"})
		f.Advice = "Correct what the postStart hook does, or do it in an init container."
	case wording.Mentions(log, "exec format error"):
		f.Owner, f.Message = check.User, fmt.Sprintf("%s of pod %s does not run on node %s (%s): %s", k.Noun(), c.Pod.Name, c.Pod.Spec.NodeName, times, wrongMachine(c))
		f.Edits, f.Advice = otherMachines(c), "Build the image for the node's architecture too, or choose nodes by kubernetes.io/arch."
	case t.ExitCode != 0 && sickUnder(c, k) != nil:
		sick := sickUnder(c, k)
		f.Layer, f.Owner = check.L2, check.Platform
		f.Message = fmt.Sprintf("%s of pod %s ended with %s (%s) on node %s, which reports %s=%s: %s%s", k.Noun(), c.Pod.Name, exitCode(t.ExitCode), times, c.Pod.Spec.NodeName, sick.Type, sick.Status,
			wording.Shortened(cmp.Or(sick.Message, sick.Reason), 120), lastWords(c, k, t))
		f.Evidence = append(f.Evidence, facts.Evidence{Object: "node/" + c.Pod.Spec.NodeName, Field: fmt.Sprintf("status.conditions[%s]", sick.Type), Value: fmt.Sprintf("%s %s: %s", sick.Status, sick.Reason, wording.Shortened(sick.Message, 160))})
		f.Advice = fmt.Sprintf("Have the hardware of node %s looked at, and keep work off it until then.", c.Pod.Spec.NodeName)
	case t.ExitCode != 0 && told:
		blamed.Evidence = append(f.Evidence, blamed.Evidence...)
		f = blamed
	case t.ExitCode == 0:
		f.Message = fmt.Sprintf("the program of %s in pod %s ends by itself with 0, and is started again each time (%s)", k.Noun(), c.Pod.Name, times)
		f.Advice = "Work that ends belongs into a Job; a program that should stay must not end."
	default:
		f.Message = fmt.Sprintf("%s of pod %s ended with %s (%s)%s", k.Noun(), c.Pod.Name, exitCode(t.ExitCode), times, lastWords(c, k, t))
		blamesSetting(c, k, lastWords(c, k, t), &f)
	}
	return f
}

// sickUnder is the condition of the pod's node that says that its GPUs are not well, where the container uses some; nil: there is
// none.
func sickUnder(c *check.Case, k *life.Container) *corev1.NodeCondition {
	if n := c.NodeNamed(c.Pod.Spec.NodeName); n != nil && life.UsesDevices(k.Container) {
		return gpustack.Sickness(n)
	}
	return nil
}

// hookFailed is the event of the container's postStart hook that failed; nil: none did. Bundles have no hooks: there, the event
// has to name the container, or there is but one.
func hookFailed(c *check.Case, k *life.Container) *corev1.Event {
	has := func(l *corev1.Lifecycle) bool { return l != nil && l.PostStart != nil }
	all := c.Pod.Spec.Containers
	shown := slices.ContainsFunc(all, func(o corev1.Container) bool { return has(o.Lifecycle) })
	for _, e := range c.EventsOf(c.Pod, "FailedPostStartHook") {
		if shown && has(k.Lifecycle) || !shown && (len(all) == 1 || strings.HasSuffix(e.InvolvedObject.FieldPath, "{"+k.Name+"}")) {
			return e
		}
	}
	return nil
}

// lastWords are the end of the message or log that the container left.
func lastWords(c *check.Case, k *life.Container, t *corev1.ContainerStateTerminated) string {
	line := wording.LastLine(t.Message)
	if line == "" {
		line = wording.LastLine(life.LastTail(c.Facts, c.Pod, k))
	}
	if line == "" {
		return ""
	}
	return ": " + wording.Shortened(line, 140)
}

// exitCode is a code with what it usually means.
func exitCode(n int32) string {
	known := map[int32]string{126: "the command may not be run", 127: "the command is not in the image", 132: "an instruction that the processor does not have", 135: "a bus error, as where shared memory is full", 134: "aborted, as by NCCL's watchdog", 137: "killed", 139: "a memory fault", 143: "told to stop"}
	if s := known[n]; s != "" {
		return fmt.Sprintf("exit code %d: %s", n, s)
	}
	return fmt.Sprintf("exit code %d", n)
}
