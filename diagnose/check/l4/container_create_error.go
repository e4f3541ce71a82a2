package l4

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var containerCreateErrorCheck = check.Check{
	Cause: "container-create-error", Layer: check.L4, Owner: check.ML, Stage: check.Start, Rank: 40,
	Title:   "The runtime cannot create or start the container",
	Meaning: "The pod has its node and its image, and the container does not start: its command is not in the image, its settings contradict each other, or the node's runtime or network fails.",
	Remedy:  "Correct the command or the security settings where the message names them; else have the node's runtime or network repaired.",
	Find:    containerCreateError,
}

func containerCreateError(c *check.Case) []check.Finding {
	if c.State != facts.Starting && c.State != facts.Running && c.State != facts.Failed {
		return nil
	}
	for _, k := range life.ContainersOf(c.Pod) {
		if f, ok := notCreated(c, &k); ok {
			life.BlameInjector(c, &k, &f)
			return []check.Finding{f}
		}
	}
	return noSandbox(c)
}

// noSandbox is about what comes before all containers: the pod's network and its place on the node.
func noSandbox(c *check.Case) []check.Finding {
	all := life.Troubles(c, "FailedCreatePodSandBox", "NetworkNotReady", "FailedCreatePodContainer")
	if len(all) == 0 {
		return standingSandbox(c)
	}
	if wording.Mentions(all[0].Message, "no runtime for", "runtime handler", "nvidia-container-runtime") {
		return nil // the latter is runtime-handler-missing
	}
	e := all[0]
	if key, name, ok := namedInVain(c.Pod, e.Message); ok {
		return []check.Finding{{
			Message:  fmt.Sprintf("node %s cannot make a sandbox for pod %s: annotation %s names %s, which does not exist", c.Pod.Spec.NodeName, c.Pod.Name, key, name),
			Evidence: []facts.Evidence{{Object: facts.RefTo(c.Pod).In(), Field: fmt.Sprintf("metadata.annotations[%q]", key), Value: c.Pod.Annotations[key]}, life.Shown(e)}, Owner: check.User,
			Advice: fmt.Sprintf("Create %s in the namespace where the pod looks for it, or correct the annotation.", name),
		}}
	}
	return []check.Finding{{
		Message:  fmt.Sprintf("node %s cannot make a sandbox for pod %s: %s", c.Pod.Spec.NodeName, c.Pod.Name, wording.Shortened(e.Message, 200)),
		Evidence: []facts.Evidence{life.Shown(e)}, Layer: check.L2, Owner: check.Platform,
		Advice: fmt.Sprintf("Have the container runtime and the network plugin of node %s looked at.", c.Pod.Spec.NodeName),
	}}
}

// namedInVain is the object that the message says does not exist, where an annotation of the pod names it, as those for network plugins
// do: the pod's author, and not the node, has to act.
func namedInVain(p *corev1.Pod, message string) (key, object string, ok bool) {
	m := saysNotFound.FindStringSubmatch(message)
	if m == nil {
		return "", "", false
	}
	for _, key := range slices.Sorted(maps.Keys(p.Annotations)) {
		for word := range strings.FieldsFuncSeq(p.Annotations[key], func(r rune) bool { return strings.ContainsRune(" ,@/\"[]{}:", r) }) {
			if word == m[2] {
				return key, m[1] + " " + m[2], true
			}
		}
	}
	return "", "", false
}

// notCreated words a container that the runtime did not start.
func notCreated(c *check.Case, k *life.Container) (check.Finding, bool) {
	w := k.Waits("CreateContainerError", "CreateContainerConfigError", "RunContainerError", "PreCreateHookError", "PreStartHookError", "PostStartHookError")
	t := k.Ended()
	started := t == nil || t.Reason != "StartError" && t.Reason != "ContainerCannotRun"
	if w == nil && (started || k.Status.State.Running != nil) {
		return check.Finding{}, false
	}
	text := k.Words()
	if _, ok := gpustack.RefusedCUDA(text); ok {
		return check.Finding{}, false // cuda-newer-than-driver
	}
	if w != nil && w.Reason == "CreateContainerConfigError" {
		if _, ok := parseMissing(c.Pod, text); ok {
			return check.Finding{}, false // config-missing
		}
	}
	what, owner := createFailure(k, text)
	layer := check.L4
	if owner == check.Platform {
		layer = check.L2
	}
	return check.Finding{
		Layer:    layer,
		Message:  fmt.Sprintf("%s of pod %s does not start: %s", k.Noun(), c.Pod.Name, what),
		Evidence: []facts.Evidence{k.Said(c.Pod, wording.Shortened(strings.ReplaceAll(strings.TrimSpace(text), "\n", " "), 300))},
		Owner:    owner,
	}, true
}

// complaint is the part of the runtime's words that says what is wrong: the chain of calls before it is left out.
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

// What a runtime could not do is told from what the image lacks: runc, crun and gVisor name the program that they were to execute, or
// its working directory. Whatever else is missing is the node's, although the words for it are the same ("no such file or directory").
var (
	ofCommand = regexp.MustCompile(`(?i)exec: "|exec:? /|exec path|executable|fork/exec|chdir|\bcwd\b`)
	ofDevices = regexp.MustCompile(`(?i)\bcdi\b|nvml error|nvidia-container-cli|nvidia-cdi-hook|driver not loaded|gathering device information|container hook|container ?hook|prestart hook`)
	ofRuntime = regexp.MustCompile(`(?i)failed to reserve container name|deadline exceeded|failed to create containerd task|failed to create shim|oci runtime create failed|failed to generate|cgroup|read-only file system|no space left`)
)

// ofImagesDriver is how NVIDIA's runtime says that a file of the driver, which it mounts from the node, is in the image already: such an image was
// committed from a container that had GPUs.
var ofImagesDriver = regexp.MustCompile(`(?i)nvidia-container-cli: mount error: file creation failed: \S*/rootfs/\S+: file exists`)

// visibleDevices is the variable in which a container names its GPUs itself, past the device plugin.
const visibleDevices = "NVIDIA_VISIBLE_DEVICES"

var unknownDevice = regexp.MustCompile(`(?i)device error: ([^\s:]+): unknown device`)

// asksDevice says whether the message is that the node does not have a device that the container's own variable names.
func asksDevice(k *life.Container, text string) bool {
	m := unknownDevice.FindStringSubmatch(text)
	return m != nil && slices.ContainsFunc(k.Env, func(e corev1.EnvVar) bool { return e.Name == visibleDevices && strings.Contains(e.Value, m[1]) })
}

// mountsAt says whether the message is about a path at which the container mounts a volume: what the kubelet mounts of its own accord
// (/etc/hosts, the log of the termination) is not among them.
func mountsAt(k *life.Container, text string) bool {
	return slices.ContainsFunc(k.VolumeMounts, func(m corev1.VolumeMount) bool { return strings.Contains(text, `to rootfs at "`+m.MountPath+`"`) })
}

// createFailure says in words why a container was not started, and whose it is.
func createFailure(k *life.Container, text string) (string, check.Owner) {
	line := complaint(text)
	switch {
	case ofCommand.MatchString(text):
		return "its command is not in the image: " + line, check.ML
	case wording.Mentions(text, "runasnonroot", "run as root", "non-numeric user"):
		return "the image runs as root and the pod forbids that: " + line, check.User
	case wording.Mentions(text, "subpath"):
		return "a subPath cannot be mounted: " + line, check.User
	case wording.Mentions(text, "mount a directory onto a file"), mountsAt(k, text):
		return "a volume cannot be mounted at the path that the pod gives it: " + line, check.User
	case wording.Mentions(text, "seccomp profile", "apparmor profile"):
		return "the node does not have a security profile that the pod names: " + line, check.Platform
	case ofImagesDriver.MatchString(text):
		return "its image has files of the GPU driver, in the place where the node's are mounted: " + line, check.ML
	case asksDevice(k, text):
		return fmt.Sprintf("it asks for a device by name in %s, and the node has none of that name: ", visibleDevices) + line, check.User
	case ofDevices.MatchString(text):
		return "the node cannot give it its devices: " + line, check.Platform
	case wording.Mentions(text, "failed to sync"):
		return "the kubelet of its node does not get what the pod refers to from the API server: " + line, check.Platform
	case ofRuntime.MatchString(text):
		return "the node's container runtime failed: " + line, check.Platform
	}
	return line, check.ML
}
