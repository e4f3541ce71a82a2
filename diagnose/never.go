package diagnose

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
)

// never says why an edit is not proposed whatever a trial says of it; "" for one that may be. Checks propose edits one by
// one, and what no edit may do is the same for all: it is said here, once.
func never(f *facts.Facts, top facts.Object, e edit.Edit) string {
	of := top
	if e.On != nil {
		of = e.On
	}
	pods := f.PodsMadeBy(of)
	for _, rule := range []func(*facts.Facts, facts.Object, []*corev1.Pod, edit.Edit) string{splitsGang, belowMinimum, passesQueue, evictsProtected, cordonsHealthy, editsOthersSelector, editsOthersRequests} {
		if why := rule(f, of, pods, e); why != "" {
			return why
		}
	}
	return ""
}

// splitsGang is about edits after which members of a gang no longer agree on what makes them one, or that evict some members
// of a gang and leave others.
func splitsGang(f *facts.Facts, of facts.Object, pods []*corev1.Pod, e edit.Edit) string {
	shared := slices.ContainsFunc(e.Ops, func(op edit.Op) bool {
		return strings.HasPrefix(op.Path, "/spec/schedulerName") || strings.HasPrefix(op.Path, "/spec/priority") || strings.HasPrefix(op.Path, "/spec/schedulingGroup") ||
			op.Path == edit.Pointer("metadata", "annotations", v1alpha1.KeyGang) || op.Path == edit.Pointer("metadata", "labels", v1alpha1.KeyGang)
	})
	for _, p := range pods {
		gang := f.GangOf(p)
		if gang == "" || !shared {
			continue
		}
		there, _, _ := f.GangMembers(gang)
		if slices.ContainsFunc(there, func(m *corev1.Pod) bool { return !slices.Contains(pods, m) }) {
			return fmt.Sprintf("it would split %s", f.GangName(p))
		}
	}
	for _, o := range e.Gone {
		p, ok := o.(*corev1.Pod)
		if !ok || f.GangOf(p) == "" || facts.Ended(p) {
			continue
		}
		there, _, _ := f.GangMembers(f.GangOf(p))
		if slices.ContainsFunc(there, func(m *corev1.Pod) bool {
			return m.Spec.NodeName != "" && !slices.Contains(e.Gone, facts.Object(m))
		}) {
			return fmt.Sprintf("it would evict a part of %s", f.GangName(p))
		}
	}
	return ""
}

// belowMinimum is about edits with which a group starts with fewer members than it says that it must. Where it can never have
// so many, because those who make its members make fewer, the number is a mistake, and may be corrected.
func belowMinimum(f *facts.Facts, _ facts.Object, pods []*corev1.Pod, e edit.Edit) string {
	members := func(gang string) int32 {
		there, coming, _ := f.GangMembers(gang)
		return int32(len(there) + coming)
	}
	for _, o := range e.Set {
		g, ok := o.(*schedulingv1beta1.PodGroup)
		if !ok || g.Spec.SchedulingPolicy.Gang == nil {
			continue
		}
		for _, was := range f.PodGroups {
			if was.Namespace == g.Namespace && was.Name == g.Name && was.Spec.SchedulingPolicy.Gang != nil && g.Spec.SchedulingPolicy.Gang.MinCount < min(was.Spec.SchedulingPolicy.Gang.MinCount, members(g.Namespace+"/podgroup/"+g.Name)) {
				return fmt.Sprintf("PodGroup %s would start below its minimum", g.Name)
			}
		}
	}
	for _, op := range e.Ops {
		value, _ := op.Value.(string)
		for _, p := range pods {
			to, err := strconv.Atoi(value)
			if gang := f.GangOf(p); op.Path == edit.Pointer("metadata", "annotations", v1alpha1.KeyMin) && gang != "" && err == nil && int32(to) < members(gang) {
				return "the group would start below its minimum"
			}
		}
	}
	return ""
}

// queueKeys are the labels and annotations with which work stands in another system's queue, and queueGates the domains of the
// gates with which queues hold pods back.
var (
	queueKeys  = []string{"kueue.x-k8s.io/queue-name", "kai.scheduler/queue", "runai/queue", "volcano.sh/queue-name", "scheduling.volcano.sh/queue-name", v1alpha1.KeyQueue}
	queueGates = []string{"kueue.x-k8s.io/"}
)

// passesQueue is about edits that take work out of its queue: its label, its gate, or the scheduler that has the queue.
func passesQueue(f *facts.Facts, of facts.Object, pods []*corev1.Pod, e edit.Edit) string {
	queued := func(p facts.Object) bool {
		return slices.ContainsFunc(queueKeys, func(k string) bool { return p.GetLabels()[k] != "" || p.GetAnnotations()[k] != "" })
	}
	for _, op := range e.Ops {
		for _, key := range queueKeys {
			if op.Op == "remove" && (op.Path == edit.Pointer("metadata", "labels", key) || op.Path == edit.Pointer("metadata", "annotations", key)) {
				return "it would take the work out of its queue"
			}
		}
		if strings.HasPrefix(op.Path, "/spec/schedulingGates") && op.Op == "remove" {
			for _, p := range pods {
				if slices.ContainsFunc(p.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool {
					return slices.ContainsFunc(queueGates, func(d string) bool { return strings.HasPrefix(g.Name, d) })
				}) {
					return "it would take the work past its queue"
				}
			}
		}
		if op.Path != "/spec/schedulerName" {
			continue
		}
		for _, p := range pods {
			how, _, _ := f.Scheduler(p.Spec.SchedulerName)
			if (queued(p) || queued(of)) && how != facts.SchedulerAbsent {
				return fmt.Sprintf("it would take the work out of the queue of scheduler %s", p.Spec.SchedulerName)
			}
		}
	}
	return ""
}

// evictsProtected is about edits that end work which its scheduler, its budget or its owner protects, or for a pod that says
// that nothing is to be evicted for it.
func evictsProtected(f *facts.Facts, _ facts.Object, pods []*corev1.Pod, e edit.Edit) string {
	for _, o := range e.Gone {
		p, ok := o.(*corev1.Pod)
		if !ok || facts.Ended(p) || p.DeletionTimestamp != nil || slices.Contains(pods, p) || p.Spec.NodeName == "" || p.Status.Phase != corev1.PodRunning || lostNode(f, p) {
			continue
		}
		if slices.ContainsFunc(pods, func(q *corev1.Pod) bool { return ptr.Deref(q.Spec.PreemptionPolicy, "") == corev1.PreemptNever }) {
			return "the work's own class says that nothing is to be evicted for it"
		}
		if p.Namespace == metav1.NamespaceSystem || place.ByDaemonSet(p) {
			return fmt.Sprintf("pod %s/%s is part of the system", p.Namespace, p.Name)
		}
		if p.Annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"] == "false" || p.Annotations["karpenter.sh/do-not-disrupt"] == "true" {
			return fmt.Sprintf("pod %s/%s says that it is not to be evicted", p.Namespace, p.Name)
		}
		for _, b := range f.PodDisruptionBudgets {
			s, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
			if err == nil && b.Namespace == p.Namespace && b.Status.DisruptionsAllowed < 1 && !s.Empty() && s.Matches(labels.Set(p.Labels)) {
				return fmt.Sprintf("budget %s protects pod %s/%s", b.Name, p.Namespace, p.Name)
			}
		}
	}
	return ""
}

func lostNode(f *facts.Facts, p *corev1.Pod) bool {
	n := f.NodeNamed(p.Spec.NodeName)
	return n == nil || !facts.NodeReady(n)
}

// cordonsHealthy is about edits that close a node with which nothing is wrong.
func cordonsHealthy(f *facts.Facts, _ facts.Object, pods []*corev1.Pod, e edit.Edit) string {
	for _, o := range e.Set {
		n, ok := o.(*corev1.Node)
		if !ok || !n.Spec.Unschedulable {
			continue
		}
		was := f.NodeNamed(n.Name)
		if was == nil || was.Spec.Unschedulable || !facts.NodeReady(was) || slices.ContainsFunc(facts.ConditionsOf(was), facts.Condition.Bad) {
			continue
		}
		lacks := false
		for name, has := range was.Status.Capacity {
			offers := was.Status.Allocatable[name]
			lacks = lacks || strings.Contains(string(name), "/") && offers.Cmp(has) < 0
		}
		refuses := slices.ContainsFunc(pods, func(p *corev1.Pod) bool { // a kubelet that cannot hand out its devices is not well
			return p.Spec.NodeName == n.Name && p.Status.Reason == "UnexpectedAdmissionError"
		})
		if !lacks && !refuses {
			return fmt.Sprintf("nothing is wrong with node %s", n.Name)
		}
	}
	return ""
}

// editsOthersSelector is about edits of a node selector that is not in the template: another controller wrote it, and writes
// it again.
func editsOthersSelector(f *facts.Facts, of facts.Object, pods []*corev1.Pod, e edit.Edit) string {
	makers := f.PodOwners(of)
	for _, p := range pods {
		t := facts.TemplateFor(of, p)
		for _, m := range makers {
			if own := facts.TemplateOf(m); own != nil && m.GetUID() != of.GetUID() {
				t = facts.TemplateFor(m, p)
			}
		}
		if t == nil || !facts.Alike(of, p, e.For) {
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(p.Spec.NodeSelector)) {
			if _, written := t.Spec.NodeSelector[key]; written {
				continue
			}
			if slices.ContainsFunc(e.Ops, func(op edit.Op) bool { return op.Path == edit.Pointer("spec", "nodeSelector", key) }) {
				return fmt.Sprintf("another controller wrote nodeSelector %s", key)
			}
		}
	}
	return ""
}

// editsOthersRequests is about edits of what containers ask for, of pods that are given something else than their template says: it
// would be given to the next pods too.
func editsOthersRequests(f *facts.Facts, _ facts.Object, pods []*corev1.Pod, e edit.Edit) string {
	for _, op := range e.Ops {
		if !strings.HasPrefix(op.Path, "/spec/containers/") || !strings.Contains(op.Path, "/resources") {
			continue
		}
		for _, p := range pods {
			if facts.StateOf(p) != facts.Pending {
				continue
			}
			for _, name := range podspec.Names(podspec.TotalRequests(p)) {
				said := place.Rewritten(f, p, name)
				if said == "" {
					continue
				}
				if whole, ok := op.Value.(*corev1.ResourceRequirements); ok && sameAsked(whole, f, p, name) || !ok && !strings.HasSuffix(op.Path, edit.Pointer(string(name))) {
					continue
				}
				return said
			}
		}
	}
	return ""
}

// sameAsked says whether a container of the template that the pod was made of asks for as much of the resource as after the edit.
func sameAsked(after *corev1.ResourceRequirements, f *facts.Facts, p *corev1.Pod, name corev1.ResourceName) bool {
	to := after.Requests[name]
	return slices.ContainsFunc(facts.TemplateFor(f.Controller(p), p).Spec.Containers, func(k corev1.Container) bool {
		was := k.Resources.Requests[name]
		return was.Cmp(to) == 0
	})
}

// assumed is what an edit takes for granted though it was not declared: that a program runs on another model of GPU, that it needs
// nothing of a runtime class, that those whose work ends agree.
func assumed(f *facts.Facts, top facts.Object, e edit.Edit) string {
	of := top
	if e.On != nil {
		of = e.On
	}
	var out []string
	for _, op := range e.Ops {
		switch value, _ := op.Value.(string); {
		case op.Path == edit.Pointer("spec", "runtimeClassName") && op.Op == "remove":
			out = append(out, "the program needs nothing of the runtime class")
		case strings.HasPrefix(op.Path, edit.Pointer("spec", "nodeSelector", "nvidia.com/gpu.product")):
			for _, p := range f.PodsMadeBy(of) {
				if was := p.Spec.NodeSelector["nvidia.com/gpu.product"]; was != "" && value != "" && !place.MeansSame(was, value) && !strings.HasPrefix(value, was) {
					out = append(out, "the program runs on "+value+" as well")
					break
				}
			}
		}
	}
	for _, o := range e.Gone {
		if p, ok := o.(*corev1.Pod); ok && p.Namespace != top.GetNamespace() && !facts.Ended(p) && !strings.Contains(e.Assumes, "agrees") {
			out = append(out, fmt.Sprintf("who runs pod %s in namespace %s agrees", p.Name, p.Namespace))
			break
		}
	}
	if e.Assumes != "" && !slices.Contains(out, e.Assumes) {
		out = append([]string{e.Assumes}, out...)
	}
	return strings.Join(slices.Compact(out), "; ")
}
