package diagnose

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// meetIn is how long an init container or a rendezvous may wait before its peers are looked at.
const meetIn = time.Minute

// crews are labels by which pods of several makers belong together.
var crews = []string{
	"jobset.sigs.k8s.io/jobset-name", "training.kubeflow.org/job-name", "leaderworkerset.sigs.k8s.io/name", "ray.io/cluster", "volcano.sh/job-name",
	"batch.kubernetes.io/job-name", "job-name", "sim.berth.dev/group",
}

// crew are the other pods that the pod works with: of its own maker, of whoever made that, of its gang, or with the
// same label of a training system.
func (f *Facts) crew(p *corev1.Pod) []*corev1.Pod {
	var top Object = p
	for range 8 {
		up := f.Controller(top)
		if up == nil {
			break
		}
		top = up
	}
	var out []*corev1.Pod
	if top != Object(p) {
		out = f.podsOf(top)
	}
	for _, other := range f.Pods {
		if other.Namespace == p.Namespace && f.together(p, other) && !slices.Contains(out, other) {
			out = append(out, other)
		}
	}
	out = slices.DeleteFunc(out, func(o *corev1.Pod) bool { return o.Name == p.Name })
	slices.SortFunc(out, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func (f *Facts) together(a, b *corev1.Pod) bool {
	if g := f.gangOf(a); g != "" && g == f.gangOf(b) {
		return true
	}
	for _, key := range crews {
		if v := a.Labels[key]; v != "" && v == b.Labels[key] {
			return true
		}
		if v := a.Annotations[key]; v != "" && v == b.Annotations[key] {
			return true
		}
	}
	return false
}

// absentPeers are how many pods the makers above the pod have not made, and the maker that lacks them.
func (f *Facts) absentPeers(p *corev1.Pod) (int, Object) {
	var top Object = p
	for range 8 {
		up := f.Controller(top)
		if up == nil {
			break
		}
		top = up
	}
	if top == Object(p) {
		return 0, nil
	}
	for _, m := range f.makers(top) {
		if n := f.lacks(m); n > 0 {
			return n, m
		}
	}
	return 0, nil
}

// waitingPeers are pods of the crew that have no node.
func (f *Facts) waitingPeers(p *corev1.Pod) []*corev1.Pod {
	return slices.DeleteFunc(f.crew(p), func(o *corev1.Pod) bool {
		s := stateOf(o)
		return s != Pending && s != Gated || o.DeletionTimestamp != nil
	})
}

// why a peer waits, as its own condition says, in words; "" where nothing says so.
func saidOf(p *corev1.Pod) string {
	for _, k := range p.Status.Conditions {
		if k.Type == corev1.PodScheduled && k.Status == corev1.ConditionFalse {
			said, _, _ := strings.Cut(k.Message, " preemption:")
			said = strings.TrimSuffix(strings.TrimSpace(strings.TrimSuffix(said, "no new claims to deallocate,")), ".")
			return strings.TrimSpace(fmt.Sprintf("%s: %s", k.Reason, said))
		}
	}
	return ""
}
