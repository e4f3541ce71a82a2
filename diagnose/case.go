package diagnose

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
)

// most bounds the cases of one target.
const mostCases = 24

// casesOf divides the target's pods, existing or to come, into cases.
func casesOf(f *facts.Facts, target facts.Ref, top facts.Object) []*check.Case {
	pods := f.PodsMadeBy(top)
	var out []*check.Case
	byLook, settled := make(map[string]*check.Case), make(map[types.UID]bool)
	for _, p := range pods {
		if facts.Object(p) != top && superseded(f, p, settled) {
			continue
		}
		c := &check.Case{Facts: f, Now: f.At, Target: target, Top: top, Pod: p, Exists: true, Like: 1, State: facts.StateOf(p), All: pods, Owners: f.OwnersOf(p, top)}
		look := string(c.State) + looksLike(p)
		if same := byLook[look]; same != nil {
			same.Like++
			continue
		}
		byLook[look] = c
		out = append(out, c)
	}
	for _, m := range f.PodOwners(top) {
		if n := f.MissingPods(m); n > 0 {
			if p := f.PodFrom(m, 0); p != nil {
				f.Admit(p)
				out = append(out, &check.Case{Facts: f, Now: f.At, Target: target, Top: top, Pod: p, Like: n, State: facts.Absent, All: pods, Owners: f.OwnerPath(top, m)})
			}
		}
	}
	if len(out) == 0 {
		out = append(out, emptyCase(f, target, top))
	}
	slices.SortStableFunc(out, func(a, b *check.Case) int { return cmp.Compare(facts.StateOrder(a.State), facts.StateOrder(b.State)) })
	out = append(out, mates(f, target, top, out)...)
	return out[:min(len(out), mostCases)]
}

// emptyCase is of a target that has no pods and should have none by its own word: suspended, scaled to zero, over, or
// of a kind whose controller has not acted.
func emptyCase(f *facts.Facts, target facts.Ref, top facts.Object) *check.Case {
	c := &check.Case{Facts: f, Now: f.At, Target: target, Top: top, State: facts.Absent, Pod: &corev1.Pod{}}
	ms := f.PodOwners(top)
	c.Owners = f.OwnerPath(top, ms[len(ms)-1])
	for _, m := range ms {
		if p := f.PodFrom(m, 0); p != nil {
			f.Admit(p)
			c.Pod, c.Owners = p, f.OwnerPath(top, m)
		}
		if j, ok := m.(*batchv1.Job); ok {
			switch facts.JobEnded(j) {
			case batchv1.JobComplete:
				c.State = facts.Succeeded
			case batchv1.JobFailed:
				c.State = facts.Failed
			}
		}
	}
	c.Pod.Namespace = cmp.Or(c.Pod.Namespace, top.GetNamespace())
	return c
}

// looksLike is the same for pods that checks cannot tell apart but by name.
func looksLike(p *corev1.Pod) string {
	h := fnv.New64a()
	spec := p.Spec.DeepCopy()
	spec.Hostname, spec.Subdomain = "", ""
	spec.Volumes = slices.DeleteFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Projected != nil })
	b, _ := spec.Marshal()
	h.Write(b)
	for _, c := range p.Status.Conditions {
		fmt.Fprint(h, c.Type, c.Status, c.Reason, c.Message)
	}
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		fmt.Fprint(h, s.Name, s.Ready, s.RestartCount > 0)
		if s.State.Waiting != nil {
			fmt.Fprint(h, s.State.Waiting.Reason)
		}
		if s.State.Terminated != nil {
			fmt.Fprint(h, s.State.Terminated.Reason, s.State.Terminated.ExitCode)
		}
	}
	fmt.Fprint(h, p.Status.Phase, p.Status.Reason, p.Status.NominatedNodeName, p.DeletionTimestamp != nil)
	return fmt.Sprintf("%x", h.Sum64())
}
