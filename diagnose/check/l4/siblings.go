package l4

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/kube/dialect"
)

// meetIn is how long an init container or a rendezvous may wait before its peers are looked at.
const meetIn = time.Minute

// crews are labels by which pods of several owners belong together.
var crews = []string{
	"jobset.sigs.k8s.io/jobset-name", "training.kubeflow.org/job-name", "leaderworkerset.sigs.k8s.io/name", "ray.io/cluster", "volcano.sh/job-name",
	"batch.kubernetes.io/job-name", "job-name", "sim.berth.dev/group",
}

// crew are the other pods that the pod works with: of its own owner, of the owner of that, of its gang, or with the
// same label of a training system.
func crew(f *facts.Facts, p *corev1.Pod) []*corev1.Pod {
	var top facts.Object = p
	for range 8 {
		up := f.Controller(top)
		if up == nil {
			break
		}
		top = up
	}
	var out []*corev1.Pod
	if top != facts.Object(p) {
		out = f.PodsMadeBy(top)
	}
	for _, other := range f.Pods {
		if other.Namespace == p.Namespace && together(f, p, other) && !slices.Contains(out, other) {
			out = append(out, other)
		}
	}
	out = slices.DeleteFunc(out, func(o *corev1.Pod) bool { return o.Name == p.Name })
	slices.SortFunc(out, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func together(f *facts.Facts, a, b *corev1.Pod) bool {
	if g := f.CrewOf(a); g != "" && g == f.CrewOf(b) {
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

// absentPeers are how many pods the owners above the pod have not made, and the owner that lacks them.
func absentPeers(f *facts.Facts, p *corev1.Pod) (int, facts.Object) {
	var top facts.Object = p
	for range 8 {
		up := f.Controller(top)
		if up == nil {
			break
		}
		top = up
	}
	if top == facts.Object(p) {
		return 0, nil
	}
	for _, m := range f.PodOwners(top) {
		if n := f.MissingPods(m); n > 0 {
			return n, m
		}
	}
	return 0, nil
}

// waitingPeers are pods of the crew that have no node.
func waitingPeers(f *facts.Facts, p *corev1.Pod) []*corev1.Pod {
	return slices.DeleteFunc(crew(f, p), func(o *corev1.Pod) bool {
		s := facts.StateOf(o)
		return s != facts.Pending && s != facts.Gated || o.DeletionTimestamp != nil
	})
}

// leadsNobody is the LeaderWorkerSet that makes the pod's workers only when the pod is ready (startupPolicy LeaderReady), and has made none of
// them; nil: there is none, or it does not wait.
func leadsNobody(c *check.Case) *unstructured.Unstructured {
	const set, index, group = "leaderworkerset.sigs.k8s.io/name", "leaderworkerset.sigs.k8s.io/worker-index", "leaderworkerset.sigs.k8s.io/group-index"
	p := c.Pod
	size, _ := strconv.Atoi(p.Annotations["leaderworkerset.sigs.k8s.io/size"])
	if p.Labels[index] != "0" || size < 2 || slices.ContainsFunc(crew(c.Facts, p), func(o *corev1.Pod) bool { return o.Labels[group] == p.Labels[group] && o.Labels[index] != "0" }) {
		return nil
	}
	for _, l := range c.Foreign["LeaderWorkerSet.leaderworkerset.x-k8s.io"] {
		if l.GetName() == p.Labels[set] && l.GetNamespace() == p.Namespace && dialect.Text(l.Object, "spec", "startupPolicy") == "LeaderReady" {
			return l
		}
	}
	return nil
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
