package l2

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var kubeletRefusedPodCheck = check.Check{
	Cause: "kubelet-refused-pod", Layer: check.L2, Owner: check.Platform, Stage: check.Start, Rank: 14,
	Title:   "The node refused the pod after it was placed",
	Meaning: "The scheduler chose a node, and its kubelet did not take the pod: devices were unhealthy or gone, or others had taken the room. Controllers make a new pod, so that it looks like one that keeps Pending.",
	Remedy:  "Look at the node's device plugin and GPUs, keep new pods off the node until they are repaired, and look for pods that were put there past the scheduler.",
	Not:     "The request is too large.",
	Find:    kubeletRefusedPod,
}

var (
	// asScheduler are the reasons of rules that schedulers keep too.
	asScheduler = []string{"NodeAffinity", "NodePorts", "TaintToleration", "NodeName", "NodeUnschedulable"}
	// endedOtherwise are reasons of pods that their node had taken, or that others know more of.
	endedOtherwise = []string{"Evicted", "NodeShutdown", "Terminated", "Shutdown", "Preempting", "TopologyAffinityError", "DeadlineExceeded", "NodeLost", "Error"}
)

// started says whether the node had taken the pod: one of its containers has run.
func started(p *corev1.Pod) bool {
	return slices.ContainsFunc(slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses), func(s corev1.ContainerStatus) bool {
		return s.ContainerID != "" || s.State.Running != nil || s.State.Terminated != nil && !s.State.Terminated.StartedAt.IsZero() || s.LastTerminationState.Terminated != nil
	})
}

func kubeletRefusedPod(c *check.Case) []check.Finding {
	reason := c.Pod.Status.Reason
	out := strings.HasPrefix(reason, "OutOf")
	if c.State != facts.Failed || reason == "" || slices.Contains(endedOtherwise, reason) || started(c.Pod) || life.NeverPlaced(c.Pod) {
		return nil
	}
	f := check.Finding{Evidence: []facts.Evidence{life.Failure(c)}}
	node, bare := c.Pod.Spec.NodeName, metav1.GetControllerOfNoCopy(c.Pod) == nil
	if bare {
		f.Edits = []edit.Edit{anew(c)}
	}
	switch {
	case strings.HasPrefix(reason, "PodOS"):
		n := c.NodeNamed(node)
		f.Layer, f.Owner, f.Edits = check.L3, check.User, nil // another kubelet refuses it as well
		f.Message = fmt.Sprintf("node %s refused %s (%s): the pod is for an operating system that the node does not run", node, life.Refused(c), reason)
		if os := c.Pod.Spec.OS; os != nil && n != nil && n.Labels[corev1.LabelOSStable] != "" && n.Labels[corev1.LabelOSStable] != string(os.Name) {
			f.Message = fmt.Sprintf("node %s refused %s (%s): the pod is for %s, and the node runs %s", node, life.Refused(c), reason, os.Name, n.Labels[corev1.LabelOSStable])
			f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(c.Pod).In(), Field: "spec.os.name", Value: string(os.Name)}, facts.Evidence{Object: facts.RefTo(n).In(), Field: fmt.Sprintf("metadata.labels[%q]", corev1.LabelOSStable), Value: n.Labels[corev1.LabelOSStable]})
			f.Edits = []edit.Edit{{
				Side: edit.Workload, Cost: edit.CostSmall, Text: fmt.Sprintf("say spec.os.name %s instead of %s", n.Labels[corev1.LabelOSStable], os.Name), Assumes: "the image is for " + n.Labels[corev1.LabelOSStable],
				Ops: []edit.Op{{Op: "replace", Path: "/spec/os/name", Value: n.Labels[corev1.LabelOSStable]}},
			}}
		}
	case reason == "UnexpectedAdmissionError":
		f.Message = fmt.Sprintf("the kubelet of node %s refused %s: %s", node, life.Refused(c), wording.Shortened(c.Pod.Status.Message, 160))
		f.Edits = keepOff(c, bare)
		if resource, most, ok := tooLargeForShared(c.Pod.Status.Message); ok {
			f.Layer, f.Owner, f.Edits = check.L3, check.User, nil // another node refuses it as well
			f.Message = fmt.Sprintf("the device plugin of node %s refused %s: it shares its GPUs, and gives one pod at most %d %s", node, life.Refused(c), most, resource)
			f.Advice = fmt.Sprintf("Ask for %d %s: more of a shared GPU is no more of it.", most, resource)
			if e, ok := place.AsksLess(c, map[string]int64{resource: most}); ok {
				e.Cost, e.Assumes = edit.CostSmall, "one share of a GPU will do"
				f.Edits = []edit.Edit{e}
			}
		}
	case out && outgrows(c.Pod.Status.Message):
		f.Message = fmt.Sprintf("node %s refused %s: it asks for more %s than the whole node has", node, life.Refused(c), strings.TrimPrefix(reason, "OutOf"))
		f.Owner, f.Edits, f.Advice = check.User, nil, "Ask for less, or for a larger node."
		if c.Pod.Annotations[corev1.MirrorPodAnnotationKey] != "" {
			f.Owner, f.Advice = check.Platform, fmt.Sprintf("Correct the manifest of the static pod on node %s.", node)
		}
	case (out || slices.Contains(asScheduler, reason)) && node != "" && place.Written(c) != c.Pod && place.Written(c).Spec.NodeName == node: // nobody has looked whether there is room
		f.Layer, f.Owner = check.L3, check.User
		f.Message = fmt.Sprintf("node %s refused %s (%s): its author names the node in spec.nodeName, so that no scheduler looks for a place", node, life.Refused(c), reason)
		f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(c.Owner()).In(), Field: "spec.nodeName of its pods", Value: node})
		f.Advice = "Leave spec.nodeName out; to choose among nodes, use a node selector."
		f.Edits = []edit.Edit{{Side: edit.Workload, Cost: edit.CostSmall, Text: "let the scheduler choose the node: take spec.nodeName out", Ops: []edit.Op{{Op: "remove", Path: "/spec/nodeName"}}}}
	case out:
		f.Message = fmt.Sprintf("node %s refused %s: others had taken its %s. Two schedulers use the node, or a pod went past them", node, life.Refused(c), strings.TrimPrefix(reason, "OutOf"))
		f.Layer, f.Owner = check.L3, check.Scheduler
	case !slices.Contains(asScheduler, reason): // a rule of this kubelet that no scheduler knows
		f.Message = fmt.Sprintf("the kubelet of node %s refused %s (%s): %s", node, life.Refused(c), reason, wording.Shortened(wording.OneLine(c.Pod.Status.Message), 160))
		f.Edits = wholeCores(c)
		if len(f.Edits) > 0 || reason == "SMTAlignmentError" || reason == "SysctlForbidden" {
			f.Owner = check.User
		}
		f.Advice = "Give the node what the kubelet asks for, keep such pods off it, or do not ask for it in the pod."
	default:
		f.Message = fmt.Sprintf("node %s refused %s (%s): the pod was put there past the scheduler, or the node changed meanwhile", node, life.Refused(c), reason)
		f.Layer, f.Owner = check.L3, check.User
	}
	return []check.Finding{f}
}

// coresSaid is how a kubelet that gives whole cores alone refuses a number of CPUs (kubernetes pkg/kubelet/cm/cpumanager/policy_static.go).
var coresSaid = regexp.MustCompile(`requested (\d+) cpus not multiple cpus per core = (\d+)`)

// wholeCores rounds the CPUs up for which such a kubelet has refused the pod, in each container that asks for so many.
func wholeCores(c *check.Case) []edit.Edit {
	m := coresSaid.FindStringSubmatch(c.Pod.Status.Message)
	if m == nil {
		return nil
	}
	asked, _ := strconv.ParseInt(m[1], 10, 64)
	core, _ := strconv.ParseInt(m[2], 10, 64)
	if core < 2 || asked%core == 0 {
		return nil
	}
	value := strconv.FormatInt((asked/core+1)*core, 10)
	var ops []edit.Op
	for i, k := range place.Written(c).Spec.Containers {
		for list, amounts := range map[string]corev1.ResourceList{"limits": k.Resources.Limits, "requests": k.Resources.Requests} {
			if cpu, ok := amounts[corev1.ResourceCPU]; ok && cpu.MilliValue() == 1000*asked {
				ops = append(ops, edit.Op{Op: "replace", Path: edit.Pointer("spec", "containers", strconv.Itoa(i), "resources", list, "cpu"), Value: value})
			}
		}
	}
	if len(ops) == 0 {
		return nil
	}
	slices.SortFunc(ops, func(a, b edit.Op) int { return strings.Compare(a.Path, b.Path) })
	return []edit.Edit{{Side: edit.Workload, Cost: edit.CostSmall, Text: fmt.Sprintf("ask for %s CPUs, which are whole cores, in place of %d", value, asked), Ops: ops}}
}

// sharedSaid is how NVIDIA's device plugin refuses several replicas of GPUs that it shares, where failRequestsGreaterThanOne is set
// (k8s-device-plugin v0.17, internal/rm/rm.go).
var sharedSaid = regexp.MustCompile(`request for '([^:']+): \d+' too large: maximum request size for shared resources is (\d+)`)

// tooLargeForShared is the resource of which the pod asks for too much, and the most that a pod may ask for.
func tooLargeForShared(message string) (resource string, most int64, ok bool) {
	m := sharedSaid.FindStringSubmatch(message)
	if m == nil {
		return "", 0, false
	}
	most, err := strconv.ParseInt(m[2], 10, 64)
	return m[1], most, err == nil && most > 0
}

var roomSaid = regexp.MustCompile(`requested: (\d+), used: \d+, capacity: (\d+)`)

// outgrows says whether a kubelet's words are that the pod would not fit on its node even if it were empty (kubernetes
// pkg/kubelet/lifecycle/predicate.go, InsufficientResourceError).
func outgrows(message string) bool {
	m := roomSaid.FindStringSubmatch(message)
	if m == nil {
		return false
	}
	asked, errAsked := strconv.ParseInt(m[1], 10, 64)
	whole, errWhole := strconv.ParseInt(m[2], 10, 64)
	return errAsked == nil && errWhole == nil && asked > whole
}

// anew makes a pod again that has no controller, for the scheduler to place.
func anew(c *check.Case) edit.Edit {
	fresh := c.Pod.DeepCopy()
	fresh.Spec.NodeName, fresh.Status = "", corev1.PodStatus{Phase: corev1.PodPending}
	fresh.CreationTimestamp = metav1.NewTime(c.Now)
	return edit.Edit{Side: edit.Workload, Text: "make the pod anew, for the scheduler to place", Set: []facts.Object{fresh}, Command: edit.PatchCommand(c.Pod, nil, nil), Cost: 2}
}

// keepOff closes the node that refuses pods, and has the pod made elsewhere: by its owner, or by hand where it has none.
func keepOff(c *check.Case, bare bool) []edit.Edit {
	p, n := c.Pod, c.NodeNamed(c.Pod.Spec.NodeName)
	if n == nil {
		return nil
	}
	closed := n.DeepCopy()
	closed.Spec.Unschedulable = true
	e := edit.Edit{Side: edit.Cluster, Text: fmt.Sprintf("keep new pods off node %s until it is repaired", n.Name), Cost: 3, Set: []facts.Object{closed}, Assumes: "other nodes do not refuse it"}
	if bare {
		again := anew(c)
		e.Set, e.Text = append(e.Set, again.Set...), e.Text+", and make the pod anew"
		e.Command = fmt.Sprintf("kubectl cordon %s\n%s", n.Name, again.Command)
		return []edit.Edit{e}
	}
	var names []string
	for _, other := range c.All {
		if facts.StateOf(other) == facts.Failed && other.Status.Reason == p.Status.Reason && other.Spec.NodeName == n.Name {
			e.Gone, names = append(e.Gone, other), append(names, other.Name)
		}
	}
	e.Text += ", and remove the pods that it refused"
	e.Command = fmt.Sprintf("kubectl cordon %s\nkubectl delete pod -n %s %s", n.Name, p.Namespace, strings.Join(names, " "))
	return []edit.Edit{e}
}
