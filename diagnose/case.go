package diagnose

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/diagnose/facts"
)

// Case is one pod of the target, for the checks: it exists, or is what its owner would make. Pods of a target that
// look the same and are in the same state are one case.
type Case struct {
	*facts.Facts
	Now    time.Time
	Target facts.Ref
	Top    facts.Object   // the target itself
	Owners []facts.Object // from Top down to the pod's controller; Top alone where it is the pod
	Pod    *corev1.Pod
	Exists bool // the pod does; else Pod is as Maker would make it, without status
	Like   int  // how many pods of the target this one stands for
	State  facts.State
	All    []*corev1.Pod // of the target, that exist
	Checks []*Check      // all that are run, for a check that speaks only where no other does

	// Fit is what the engine says of the pod; nil where nodes or the pods on them may not be read, and for pods that have
	// a node already or have ended.
	Fit *Fit

	tolerable map[string]bool // by taint: see taint.go
}

// Owner is what makes the pod: its controller, or the pod itself where it has none.
func (c *Case) Owner() facts.Object { return c.Owners[len(c.Owners)-1] }

// Age is how long the pod has been there; where it does not exist, its owner.
func (c *Case) Age() time.Duration {
	if c.Exists {
		return c.Now.Sub(c.Pod.CreationTimestamp.Time)
	}
	return c.Now.Sub(c.Owner().GetCreationTimestamp().Time)
}

// Waits says whether the pod has no node yet: it is to be created, admitted or placed.
func (c *Case) Waits() bool {
	return c.State == facts.Absent || c.State == facts.Gated || c.State == facts.Pending
}

// most bounds the cases of one target.
const mostCases = 24

// casesOf divides the target's pods, existing or to come, into cases.
func casesOf(f *facts.Facts, target facts.Ref, top facts.Object) []*Case {
	pods := f.PodsMadeBy(top)
	var out []*Case
	byLook, settled := make(map[string]*Case), make(map[types.UID]bool)
	for _, p := range pods {
		if facts.Object(p) != top && superseded(f, p, settled) {
			continue
		}
		c := &Case{Facts: f, Now: f.At, Target: target, Top: top, Pod: p, Exists: true, Like: 1, State: facts.StateOf(p), All: pods, Owners: f.OwnersOf(p, top)}
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
			if p := facts.PodFrom(m, 0); p != nil {
				f.Admit(p)
				out = append(out, &Case{Facts: f, Now: f.At, Target: target, Top: top, Pod: p, Like: n, State: facts.Absent, All: pods, Owners: f.OwnerPath(top, m)})
			}
		}
	}
	if len(out) == 0 {
		out = append(out, emptyCase(f, target, top))
	}
	slices.SortStableFunc(out, func(a, b *Case) int { return cmp.Compare(facts.StateOrder(a.State), facts.StateOrder(b.State)) })
	out = append(out, mates(f, target, top, out)...)
	return out[:min(len(out), mostCases)]
}

// emptyCase is of a target that has no pods and should have none by its own word: suspended, scaled to zero, over, or
// of a kind whose controller has not acted.
func emptyCase(f *facts.Facts, target facts.Ref, top facts.Object) *Case {
	c := &Case{Facts: f, Now: f.At, Target: target, Top: top, State: facts.Absent, Pod: &corev1.Pod{}}
	ms := f.PodOwners(top)
	c.Owners = f.OwnerPath(top, ms[len(ms)-1])
	for _, m := range ms {
		if p := facts.PodFrom(m, 0); p != nil {
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
