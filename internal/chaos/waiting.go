package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/resource"

	v1alpha1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/convert"
	"github.com/berth-dev/berth/kube/report"
)

// gangs finds those of which some members run and too few. Bare pods cannot be made again, so that a gang of
// them stays as it is and is explained.
func (l *look) gangs() []finding {
	members := make(map[string][]*corev1.Pod)
	for i := range l.pods {
		p := &l.pods[i]
		if ours(p) && p.Annotations[keyMin] != "" && metav1.GetControllerOf(p) != nil {
			members[p.Labels[labelWorkload]] = append(members[p.Labels[labelWorkload]], p)
		}
	}
	var out []finding
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if f := short(name, members[name]); f != nil {
			out = append(out, *f)
		}
		if f := l.apart(name, members[name]); f != nil {
			out = append(out, *f)
		}
	}
	return out
}

// apart finds a gang that must be in one rack and is not.
func (l *look) apart(gang string, pods []*corev1.Pod) *finding {
	if pods[0].Annotations[v1alpha1.KeyTopologyRequired] == "" {
		return nil
	}
	racks := make(map[string]bool)
	for i := range l.nodes {
		on := func(p *corev1.Pod) bool {
			return p.Spec.NodeName == l.nodes[i].Name && !over(p) && p.DeletionTimestamp == nil
		}
		if slices.ContainsFunc(pods, on) {
			racks[l.nodes[i].Labels[v1alpha1.LabelRack]] = true
		}
	}
	if len(racks) < 2 {
		return nil
	}
	return &finding{"gang apart", gang, fmt.Sprintf("must be in one rack and is in %v", slices.Sorted(maps.Keys(racks)))}
}

func short(gang string, pods []*corev1.Pod) *finding {
	least, _ := strconv.Atoi(pods[0].Annotations[keyMin])
	var running []string
	done := 0
	for _, p := range pods {
		switch {
		case p.Status.Phase == corev1.PodSucceeded:
			done++
		case !over(p) && p.Spec.NodeName != "" && p.DeletionTimestamp == nil:
			running = append(running, p.Name)
		}
	}
	if waitsForTheDone(pods, done, least) {
		return &finding{"waits for members that are done", gang, fmt.Sprintf("%d are done, %d must run", done, least)}
	}
	if len(running) == 0 || len(running)+done >= least {
		return nil
	}
	slices.Sort(running)
	return &finding{"gang under its minimum", gang + " " + strings.Join(running, ","), fmt.Sprintf("%d run, %d are done, %d must", len(running), done, least)}
}

// waitsForTheDone says whether members wait for others to be made which have done their work and never will be.
func waitsForTheDone(pods []*corev1.Pod, done, least int) bool {
	there, lacking := 0, false
	for _, p := range pods {
		if over(p) || p.DeletionTimestamp != nil {
			continue
		}
		there++
		c := scheduled(p)
		lacking = lacking || waits(p) && c != nil && c.Reason == "GangIncomplete"
	}
	return lacking && there+done >= least
}

// silent finds pods that wait and are not told why.
func (l *look) silent() []finding {
	var out []finding
	for i := range l.pods {
		p := &l.pods[i]
		if !ours(p) || !waits(p) {
			continue
		}
		if c := scheduled(p); c == nil || c.Status != corev1.ConditionFalse || c.Reason == "" || c.Message == "" {
			out = append(out, finding{"waits and is not told why", key(p) + " " + string(p.UID), fmt.Sprintf("condition %+v", c)})
		}
	}
	return out
}

func scheduled(p *corev1.Pod) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == corev1.PodScheduled {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

// forgotten finds what a scheduler that started now would start and the one that runs does not, and pods that
// are told another reason than it would give.
func (l *look) forgotten() []finding {
	var out []finding
	for _, plan := range l.plans {
		for _, s := range plan.Starts {
			out = append(out, finding{"forgotten", s.Gang + " " + s.Placements[0].UID, fmt.Sprintf("%s of %d pods would be possible", s.Kind, len(s.Placements))})
		}
		for i := range plan.Waiting {
			out = append(out, l.misled(&plan.Waiting[i])...)
		}
	}
	return out
}

func (l *look) misled(w *engine.Waiting) []finding {
	var out []finding
	want := report.Reason(w)
	for i := range l.pods {
		p := &l.pods[i]
		if !ours(p) || !waits(p) || workloadOf(p) != w.Gang {
			continue
		}
		// What its claims lack is said before the pod is anybody's to place.
		if c := scheduled(p); c != nil && c.Reason != want && c.Reason != "ClaimsNotReady" {
			out = append(out, finding{"told another reason", key(p) + " " + string(p.UID), fmt.Sprintf("%s, and it is %s: %s", c.Reason, want, c.Message)})
		}
	}
	return out
}

// workloadOf names the workload as the scheduler does. A gang by annotations is one though the Job controller has put its pods
// into a PodGroup, which asks nothing of them.
func workloadOf(p *corev1.Pod) string {
	if p.Annotations[v1alpha1.KeyGang] != "" {
		p = convert.Ungrouped(p)
	}
	if gang, _ := convert.GangOf(p); gang != "" {
		return gang
	}
	return key(p)
}

// byHand finds pods outside gangs, and without rules about other pods, that wait though a node has room for them, by plain
// counting: it believes no part of Berth.
func (l *look) byHand() []finding {
	used := make(map[string]corev1.ResourceList)
	for i := range l.pods {
		if p := &l.pods[i]; p.Spec.NodeName != "" && !over(p) {
			add(used, p)
		}
	}
	var out []finding
	for i := range l.pods {
		p := &l.pods[i]
		if !ours(p) || !waits(p) || p.Annotations[keyMin] != "" || heldBack(p) || strict(p) || p.Labels[labelLoud] != "" {
			continue
		}
		for j := range l.nodes {
			if n := &l.nodes[j]; usable(n) && roomy(n, used[n.Name], p) {
				out = append(out, finding{"waits beside free GPUs", key(p) + " " + string(p.UID), "fits on " + n.Name})
				break
			}
		}
	}
	return out
}

// roomy says whether what the pod asks for is free on the node.
func roomy(n *corev1.Node, used corev1.ResourceList, p *corev1.Pod) bool {
	for name, q := range resource.PodRequests(p, resource.PodResourcesOptions{}) {
		q.Add(used[name])
		if there := n.Status.Allocatable[name]; q.Cmp(there) > 0 {
			return false
		}
	}
	return true
}

// stuck finds pods that were given a node and never started there, and pods that do not go away.
func (l *look) stuck() []finding {
	var out []finding
	for i := range l.pods {
		p := &l.pods[i]
		switch {
		case p.Namespace != namespace:
		case p.DeletionTimestamp != nil:
			out = append(out, finding{"does not go away", key(p) + " " + string(p.UID), "since " + p.DeletionTimestamp.String()})
		case p.Spec.NodeName != "" && p.Status.Phase == corev1.PodPending:
			out = append(out, finding{"does not start", key(p) + " " + string(p.UID), "on " + p.Spec.NodeName})
		}
	}
	return out
}
