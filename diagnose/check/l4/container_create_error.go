package l4

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/gpustack"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
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
	f := check.Finding{
		Layer:    check.L4,
		Evidence: []facts.Evidence{k.Said(c.Pod, wording.Shortened(strings.ReplaceAll(strings.TrimSpace(text), "\n", " "), 300))},
		Owner:    owner,
	}
	switch {
	case ofTooLittleMemory.MatchString(text):
		what, f.Owner = tooLittleMemory(c, k, &f), check.User
	case wording.Mentions(text, "argument list too long"):
		what, f.Owner = tooManyArguments(c, k, &f), check.User
	case f.Owner == check.Platform:
		f.Layer = check.L2
	}
	f.Message = fmt.Sprintf("%s of pod %s does not start: %s", k.Noun(), c.Pod.Name, what)
	return f, true
}

// ofTooLittleMemory is how runc, crun and CRI-O say that the memory limit does not even hold what starts the program.
var ofTooLittleMemory = regexp.MustCompile(`(?i)memory limit (too low|could be too low)|set memory limit \d+ too low|minimum memory limit allowed`)

// tooLittleMemory is about a limit in which nothing runs, most often one with a wrong unit: an m is a thousandth of a byte.
func tooLittleMemory(c *check.Case, k *life.Container, f *check.Finding) string {
	limit, field := memoryLimit(c.Pod, k)
	f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(c.Pod).In(), Field: field, Value: limit.String()})
	f.Advice = "Raise the memory limit to what the program needs."
	what := fmt.Sprintf("its memory limit of %s is less than the runtime needs to start it", &limit)
	if meant, ok := podspec.MemoryMeant(limit); ok {
		f.Edits = []edit.Edit{setMemory(c, k, limit, meant, meant.String()+" was meant")}
		if limit.MilliValue()%1000 != 0 {
			what += "; m is a thousandth of a byte"
		}
	}
	return what
}

// tooManyArguments is about what the kernel takes no more of: a program's arguments and environment together. Every Service of the namespace
// adds a dozen variables to the latter.
func tooManyArguments(c *check.Case, k *life.Container, f *check.Finding) string {
	f.Advice = "Give the program fewer or shorter arguments and variables, or a file in their place."
	if links := c.Pod.Spec.EnableServiceLinks; links == nil || *links {
		f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(c.Pod).In(), Field: "spec.enableServiceLinks", Value: "true"})
		f.Edits = []edit.Edit{{Side: edit.Workload, Cost: edit.CostWord, Text: "set enableServiceLinks to false, so that the Services of the namespace add no variables",
			Ops: []edit.Op{{Op: "add", Path: "/spec/enableServiceLinks", Value: false}}, Assumes: "the variables that Services add are what is too much, and the program reads none of them"}}
	}
	return "its arguments and its environment are more than the kernel takes"
}

// ofExecution says what the kernel answered when the runtime executed the command: that the file is not there is one answer of several.
func ofExecution(text string) string {
	switch {
	case wording.Mentions(text, "permission denied"):
		return "its command may not be executed"
	case wording.Mentions(text, "exec format error"):
		return "its command is no program for this machine"
	case wording.Mentions(text, "is a directory"):
		return "its command is a directory"
	}
	return "its command is not in the image"
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
		return ofExecution(line) + ": " + line, check.ML
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
