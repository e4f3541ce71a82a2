package diagnose

import (
	"fmt"
	"strings"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var containerCreateErrorCheck = Check{
	Cause: "container-create-error", Layer: L4, Owner: ML, Stage: Start, Rank: 40,
	Title:   "The runtime cannot create or start the container",
	Meaning: "The pod has its node and its image, and the container does not start: its command is not in the image, its settings contradict each other, or the node's runtime or network fails.",
	Remedy:  "Correct the command or the security settings where the message names them; else have the node's runtime or network repaired.",
	Find:    containerCreateError,
}

func containerCreateError(c *Case) []Finding {
	if c.State != facts.Starting && c.State != facts.Running && c.State != facts.Failed {
		return nil
	}
	for _, k := range containersOf(c.Pod) {
		if f, ok := c.notCreated(&k); ok {
			return []Finding{f}
		}
	}
	return c.noSandbox()
}

// noSandbox is about what comes before all containers: the pod's network and its place on the node.
func (c *Case) noSandbox() []Finding {
	all := c.troubles("FailedCreatePodSandBox", "NetworkNotReady", "FailedCreatePodContainer")
	if len(all) == 0 || wording.Mentions(all[0].Message, "no runtime for", "runtime handler", "nvidia-container-runtime") {
		return nil // the latter is runtime-handler-missing
	}
	e := all[0]
	return []Finding{{
		Message:  fmt.Sprintf("node %s cannot make a sandbox for pod %s: %s", c.Pod.Spec.NodeName, c.Pod.Name, wording.Shortened(e.Message, 200)),
		Evidence: []facts.Evidence{shown(e)}, Layer: L2, Owner: Platform,
		Advice: fmt.Sprintf("Have the container runtime and the network plugin of node %s looked at.", c.Pod.Spec.NodeName),
	}}
}

// notCreated words a container that the runtime did not start.
func (c *Case) notCreated(k *container) (Finding, bool) {
	w := k.waits("CreateContainerError", "CreateContainerConfigError", "RunContainerError", "PreCreateHookError", "PreStartHookError", "PostStartHookError")
	t := k.ended()
	started := t == nil || t.Reason != "StartError" && t.Reason != "ContainerCannotRun"
	if w == nil && (started || k.status.State.Running != nil) {
		return Finding{}, false
	}
	text := k.words()
	if _, ok := gpustack.RefusedCUDA(text); ok {
		return Finding{}, false // cuda-newer-than-driver
	}
	if w != nil && w.Reason == "CreateContainerConfigError" {
		if _, ok := parseMissing(c.Pod, text); ok {
			return Finding{}, false // config-missing
		}
	}
	what, owner := createFailure(text)
	layer := L4
	if owner == Platform {
		layer = L2
	}
	return Finding{
		Layer:    layer,
		Message:  fmt.Sprintf("%s of pod %s does not start: %s", k.noun(), c.Pod.Name, what),
		Evidence: []facts.Evidence{k.said(c.Pod, wording.Shortened(strings.ReplaceAll(strings.TrimSpace(text), "\n", " "), 300))},
		Owner:    owner,
	}, true
}

// complaint is the part of the runtime's words that says what is wrong: who called whom before it is left out.
func complaint(text string) string {
	line := wording.LastLine(text)
	if at := strings.Index(line, "exec: "); at >= 0 {
		line = line[at:]
	}
	if r := []rune(line); len(r) > 160 {
		line = "..." + string(r[len(r)-160:])
	}
	return strings.TrimSuffix(line, ": unknown")
}

// createFailure says in words why a container was not started, and whose it is.
func createFailure(text string) (string, Owner) {
	line := complaint(text)
	switch {
	case wording.Mentions(text, "executable file not found", "no such file or directory", "permission denied: unknown", "is a directory"):
		return "its command is not in the image: " + line, ML
	case wording.Mentions(text, "runasnonroot", "run as root", "non-numeric user"):
		return "the image runs as root and the pod forbids that: " + line, User
	case wording.Mentions(text, "nvml error", "nvidia-container-cli", "driver not loaded"):
		return "NVIDIA's container hook failed: " + line, Platform
	case wording.Mentions(text, "subpath"):
		return "a subPath cannot be mounted: " + line, User
	case wording.Mentions(text, "failed to reserve container name", "deadline exceeded", "failed to create containerd task", "failed to generate container"):
		return "the node's container runtime failed: " + line, Platform
	}
	return line, ML
}
