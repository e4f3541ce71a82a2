package l4

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var worldSizeMismatchCheck = check.Check{
	Cause: "world-size-mismatch", Layer: check.L4, Owner: check.User, Stage: check.Run, Rank: 10,
	Title:   "The program is told of more ranks or GPUs than it gets",
	Meaning: "The launcher is to start more processes than the pod has GPUs, or the program waits for more ranks than there will be pods. It fails at its first step, or waits until its time-out.",
	Remedy:  "Make the two numbers agree: processes and GPUs of a pod, ranks and pods of the work.",
	Not:     "A GPU is broken, or the network is.",
	Find:    worldSizeMismatch,
}

func worldSizeMismatch(c *check.Case) []check.Finding {
	if c.State == facts.Succeeded {
		return nil
	}
	var out []check.Finding
	for _, k := range life.ContainersOf(c.Pod) {
		if k.Init {
			continue
		}
		if f, ok := processesOverGPUs(c, &k); ok {
			out = append(out, f)
		}
		if f, ok := nodesOverPods(c, &k); ok {
			out = append(out, f)
		}
		if f, ok := ranksOverPods(c, &k); ok {
			out = append(out, f)
		}
	}
	if f, ok := simulatedWorld(c); ok {
		out = append(out, f)
	}
	return out
}

// processesOverGPUs compares the launcher's processes per pod with the pod's GPUs.
func processesOverGPUs(c *check.Case, k *life.Container) (check.Finding, bool) {
	f, ok := findFlag(k.Command, k.Args, "--nproc_per_node", "--nproc-per-node", "--num_gpus", "--nproc")
	if !ok && alone(c, k) { // of servers that are not alone, several may share a model
		f, ok = findFlag(k.Command, k.Args, "--tensor-parallel-size", "--tensor_parallel_size", "-tp", "--tp-size", "--tp", "--num-shard")
	}
	gpus := int(k.Gpus())
	if !ok || gpus == 0 || f.value <= gpus {
		return check.Finding{}, false
	}
	more := strconv.Itoa(f.value)
	ops := []edit.Op{{Op: "replace", Path: k.Path("resources", "limits", "nvidia.com/gpu"), Value: more}}
	if _, ok := life.Authored(c, k).Resources.Requests["nvidia.com/gpu"]; ok {
		ops = append(ops, edit.Op{Op: "replace", Path: k.Path("resources", "requests", "nvidia.com/gpu"), Value: more})
	}
	return check.Finding{
		Message:  fmt.Sprintf("%s starts %d %s (%s), one per GPU, and has %d", k.Noun(), f.value, wording.InNumber(f.value, "process", "processes"), f.name, gpus),
		Evidence: []facts.Evidence{{Object: facts.RefTo(c.Pod).In(), Field: fmt.Sprintf("spec.containers[%q].%s", k.Name, f.field), Value: fmt.Sprintf("%s %d", f.name, f.value)}},
		Edits: []edit.Edit{
			{Side: edit.Workload, Cost: 1, Text: fmt.Sprintf("set %s to %d", f.name, gpus), Ops: []edit.Op{{Op: "replace", Path: k.Path(f.field, strconv.Itoa(f.at)), Value: f.with(gpus)}}},
			{Side: edit.Workload, Cost: 2, Text: fmt.Sprintf("ask for %s per pod", wording.Number(f.value, "GPU")), Ops: ops},
		},
	}, true
}

// nodeFlags tell a program how many nodes take part.
var nodeFlags = []string{"--nnodes", "--num_nodes", "--num-nodes", "--num_machines"}

// nodesOverPods compares the launcher's number of nodes with the pods that its owner makes.
func nodesOverPods(c *check.Case, k *life.Container) (check.Finding, bool) {
	f, ok := findFlag(k.Command, k.Args, nodeFlags...)
	pods := takePart(c)
	if !ok || pods == 0 || f.value <= pods {
		return check.Finding{}, false
	}
	return check.Finding{
		Message:  fmt.Sprintf("%s is told of %s (%s), and %s makes %s", k.Noun(), wording.Number(f.value, "node"), f.name, facts.RefTo(c.Owner()), wording.Number(pods, "pod")),
		Evidence: []facts.Evidence{{Object: facts.RefTo(c.Pod).In(), Field: fmt.Sprintf("spec.containers[%q].%s", k.Name, f.field), Value: fmt.Sprintf("%s %d", f.name, f.value)}},
		Edits:    []edit.Edit{{Side: edit.Workload, Cost: 1, Text: fmt.Sprintf("set %s to %d", f.name, pods), Ops: []edit.Op{{Op: "replace", Path: k.Path(f.field, strconv.Itoa(f.at)), Value: f.with(pods)}}}},
	}, true
}

// ranksOverPods compares the variable WORLD_SIZE with the most ranks that there can be: one per pod, or per GPU.
func ranksOverPods(c *check.Case, k *life.Container) (check.Finding, bool) {
	pods := takePart(c)
	for i, e := range k.Env {
		world, err := strconv.Atoi(e.Value)
		most := pods * max(1, int(k.Gpus()))
		if e.Name != "WORLD_SIZE" || err != nil || pods == 0 || world <= most {
			continue
		}
		return check.Finding{
			Message:  fmt.Sprintf("%s waits for %s (WORLD_SIZE), and %s makes %s with %s", k.Noun(), wording.Number(world, "rank"), facts.RefTo(c.Owner()), wording.Number(pods, "pod"), wording.Number(k.Gpus()*int64(pods), "GPU")),
			Evidence: []facts.Evidence{{Object: facts.RefTo(c.Pod).In(), Field: fmt.Sprintf("spec.containers[%q].env[WORLD_SIZE]", k.Name), Value: e.Value}},
			Edits:    []edit.Edit{{Side: edit.Workload, Cost: 1, Text: fmt.Sprintf("set WORLD_SIZE to %d", most), Ops: []edit.Op{{Op: "replace", Path: k.Path("env", strconv.Itoa(i), "value"), Value: strconv.Itoa(most)}}}},
		}, true
	}
	return check.Finding{}, false
}

// simulatedWorld is the same for programs of Berth's own fleet, which are told by an annotation.
func simulatedWorld(c *check.Case) (check.Finding, bool) {
	const key, group = "sim.berth.dev/world", "sim.berth.dev/group"
	world, err := strconv.Atoi(c.Pod.Annotations[key])
	pods := makes(c.Owner())
	if err != nil || pods == 0 || world <= pods || c.Pod.Annotations[group] != "" {
		return check.Finding{}, false
	}
	return check.Finding{
		Message:  fmt.Sprintf("pod %s waits for %s, and %s makes %s", c.Pod.Name, wording.Number(world, "rank"), facts.RefTo(c.Owner()), wording.Number(pods, "pod")),
		Evidence: []facts.Evidence{{Object: facts.RefTo(c.Pod).In(), Field: fmt.Sprintf("metadata.annotations[%q]", key), Value: strconv.Itoa(world)}},
		Edits:    []edit.Edit{{Side: edit.Workload, Cost: 1, Text: fmt.Sprintf("set annotation %s to %d", key, pods), Ops: []edit.Op{{Op: "replace", Path: edit.Pointer("metadata", "annotations", key), Value: strconv.Itoa(pods)}}}},
	}, true
}

// alone says whether the pod works by itself: one of a Deployment, the only one of its owner, or a bare pod, and its container says nothing
// of others.
func alone(c *check.Case, k *life.Container) bool {
	if c.GangOf(c.Pod) != "" || crewed(c.Pod) || joins(k) {
		return false
	}
	switch o := c.Owner().(type) {
	case *appsv1.ReplicaSet:
		return true
	case *corev1.Pod:
		return c.CrewOf(o) == ""
	}
	return takePart(c) == 1
}

// crewed says whether the pod has a training system's label by which pods of several owners belong together.
func crewed(p *corev1.Pod) bool {
	return slices.ContainsFunc(crews[:5], func(key string) bool { return p.Labels[key] != "" })
}

// joining is what a container is told only where processes of several pods serve one model: SGLang's address of the first of them, a member
// of a Ray cluster, and the script by which vLLM's images start one.
var joining = []string{"--dist-init-addr", "ray start", "multi-node-serving.sh"}

// joins says whether the container's program is one of several, on other pods: what it is told of GPUs is about all of them.
func joins(k *life.Container) bool {
	if f, ok := findFlag(k.Command, k.Args, nodeFlags...); ok {
		return f.value > 1
	}
	return slices.ContainsFunc(slices.Concat(k.Command, k.Args), func(item string) bool {
		told := func(word string) bool { return strings.Contains(item, word) }
		return slices.ContainsFunc(joining, told) || slices.ContainsFunc(nodeFlags, told) // of nodes that a variable counts
	})
}

// takePart is how many pods work together; 0 where that is not known, or where pods of other owners may.
func takePart(c *check.Case) int {
	if c.GangOf(c.Pod) != "" || grouped(c) || len(c.Owners) > 1 && c.Owners[0] != c.Owner() && !plainMaker(c.Owners[0]) {
		return 0
	}
	if crewed(c.Pod) {
		return 0
	}
	return makes(c.Owner())
}

// grouped says whether pods of other owners are in the pod's PodGroup.
func grouped(c *check.Case) bool {
	crew, by := c.CrewOf(c.Pod), metav1.GetControllerOfNoCopy(c.Pod)
	return crew != "" && slices.ContainsFunc(c.Pods, func(p *corev1.Pod) bool {
		o := metav1.GetControllerOfNoCopy(p)
		return (by == nil || o == nil || o.UID != by.UID) && p.Name != c.Pod.Name && p.Namespace == c.Pod.Namespace && c.CrewOf(p) == crew
	})
}

// makes is how many pods the object has at the same time; 0 where that is not known.
func makes(o facts.Object) int {
	switch m := o.(type) {
	case *batchv1.Job:
		n := int(ptr.Deref(m.Spec.Parallelism, 1))
		if m.Spec.Completions != nil {
			n = min(n, int(*m.Spec.Completions))
		}
		return n
	case *appsv1.StatefulSet:
		return int(ptr.Deref(m.Spec.Replicas, 1))
	case *appsv1.ReplicaSet:
		return int(ptr.Deref(m.Spec.Replicas, 1))
	}
	return 0
}

func plainMaker(o facts.Object) bool {
	switch o.(type) {
	case *appsv1.Deployment, *batchv1.CronJob:
		return true
	}
	return false
}
