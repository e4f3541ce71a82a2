package diagnose

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var crashLoopCheck = Check{
	Cause: "crash-loop", Layer: L4, Owner: ML, Stage: Run, Rank: 40,
	Title:   "The program starts and fails, again and again",
	Meaning: "The pod was placed and its container started, and the program ended with an error. The kubelet, or the Job, starts it again after a growing pause, which looks like waiting.",
	Remedy:  "Read the log of the last instance (kubectl logs --previous) and correct the program or its settings.",
	Not:     "It is Pending for lack of GPUs.",
	Find:    crashLoop,
}

// calmAfter is how long a container has to run for the kubelet to forget its crashes.
const calmAfter = 10 * time.Minute

func crashLoop(c *Case) []Finding {
	if c.State != facts.Starting && c.State != facts.Running && c.State != facts.Failed {
		return nil
	}
	for _, k := range containersOf(c.Pod) {
		if t := c.crashed(&k); t != nil {
			return []Finding{c.crash(&k, t)}
		}
	}
	return nil
}

// crashed is how the container ended, where it fails again and again, or for good; nil: it does not.
func (c *Case) crashed(k *container) *corev1.ContainerStateTerminated {
	t := k.ended()
	if t == nil || t.Reason == "StartError" || t.Reason == "ContainerCannotRun" || c.firstFall(k, t) {
		return nil
	}
	switch {
	case c.State == facts.Failed:
		if c.Pod.Status.Reason == "" && t.ExitCode != 0 {
			return t
		}
	case k.waits("CrashLoopBackOff") != nil:
		return t
	case k.status.State.Terminated != nil && t.ExitCode != 0:
		return t
	case k.status.State.Running != nil && t.ExitCode != 0 && k.status.RestartCount >= 3 && c.Now.Sub(k.status.State.Running.StartedAt.Time) < calmAfter && t.FinishedAt.Sub(t.StartedAt.Time) < calmAfter:
		return t
	}
	return nil
}

// crash words how the program ended.
func (c *Case) crash(k *container, t *corev1.ContainerStateTerminated) Finding {
	times := fmt.Sprintf("%d times", k.status.RestartCount)
	if k.status.RestartCount == 1 {
		times = "once"
	}
	if c.State == facts.Failed {
		times = "in " + wording.Number(c.Like, "pod")
	}
	f := Finding{Evidence: []facts.Evidence{k.said(c.Pod, fmt.Sprintf("%s, exit code %d, %s", t.Reason, t.ExitCode, wording.Number(k.status.RestartCount, "restart")))}}
	log := t.Message + "\n" + tail(c.Facts, c.Pod, k.Name)
	gpu := outOfGPUMemory(log)
	limit := k.Resources.Limits[corev1.ResourceMemory]
	switch {
	case t.Reason == "OOMKilled":
		f.Message = fmt.Sprintf("%s of pod %s used more memory than its limit of %s and was killed (%s)", k.noun(), c.Pod.Name, &limit, times)
		if !limit.IsZero() {
			f.Edits = []edit.Edit{c.moreMemory(k, limit)}
		}
		f.Advice = "Raise the memory limit, or have the program use less: fewer data loader workers, smaller batches."
	case gpu != "":
		f.Message = fmt.Sprintf("%s of pod %s ran out of GPU memory (%s): %s", k.noun(), c.Pod.Name, times, wording.Shortened(gpu, 120))
		f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(c.Pod).In(), Field: "log of " + k.Name, Value: wording.Shortened(gpu, 200)})
		f.Advice = "Use a smaller batch, split the model over more GPUs, or ask for GPUs with more memory."
	case t.ExitCode == 0:
		f.Message = fmt.Sprintf("the program of %s in pod %s ends by itself with 0, and is started again each time (%s)", k.noun(), c.Pod.Name, times)
		f.Advice = "Work that ends belongs into a Job; a program that should stay must not end."
	default:
		f.Message = fmt.Sprintf("%s of pod %s ended with %s (%s)%s", k.noun(), c.Pod.Name, exitCode(t.ExitCode), times, c.lastWords(k, t))
	}
	return f
}

// lastWords are the end of the message or log that the container left.
func (c *Case) lastWords(k *container, t *corev1.ContainerStateTerminated) string {
	line := wording.LastLine(t.Message)
	if line == "" {
		line = wording.LastLine(tail(c.Facts, c.Pod, k.Name))
	}
	if line == "" {
		return ""
	}
	return ": " + wording.Shortened(line, 140)
}

// exitCode is a code with what it usually means.
func exitCode(n int32) string {
	known := map[int32]string{126: "the command may not be run", 127: "the command is not in the image", 134: "aborted, as by NCCL's watchdog", 137: "killed", 139: "a memory fault", 143: "told to stop", 255: "lost with its node"}
	if s := known[n]; s != "" {
		return fmt.Sprintf("exit code %d: %s", n, s)
	}
	return fmt.Sprintf("exit code %d", n)
}

// moreMemory doubles the limit, and the request where it is the same; more than once where the pod itself says that it
// needs more, as those of Berth's own fleet do.
func (c *Case) moreMemory(k *container, limit resource.Quantity) edit.Edit {
	const annotation = "sim.berth.dev/memory"
	double, assumes := limit.DeepCopy(), "twice the memory is enough"
	double.Add(limit)
	if need, err := resource.ParseQuantity(c.Pod.Annotations[annotation]); err == nil {
		for assumes = ""; double.Cmp(need) < 0; {
			double.Add(double)
		}
	}
	e := edit.Edit{
		Side: edit.Workload, Cost: 2, Text: fmt.Sprintf("raise the memory limit of %s from %s to %s", k.noun(), &limit, &double),
		Ops:     []edit.Op{{Op: "replace", Path: k.path("resources", "limits", "memory"), Value: double.String()}},
		Assumes: assumes,
	}
	if request, ok := c.authored(k).Resources.Requests[corev1.ResourceMemory]; ok && request.Cmp(limit) == 0 {
		e.Ops = append(e.Ops, edit.Op{Op: "replace", Path: k.path("resources", "requests", "memory"), Value: double.String()})
	}
	return e
}
