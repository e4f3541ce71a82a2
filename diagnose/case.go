package diagnose

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Case is one pod of the target, for the checks: it exists, or is what its maker would make. Pods of a target that
// look the same and are in the same state are one case.
type Case struct {
	*Facts
	Now    time.Time
	Target Ref
	Top    Object   // the target itself
	Makers []Object // from Top down to the pod's controller; Top alone where it is the pod
	Pod    *corev1.Pod
	Exists bool // the pod does; else Pod is as Maker would make it, without status
	Like   int  // how many pods of the target this one stands for
	State  State
	All    []*corev1.Pod // of the target, that exist
	Checks []*Check      // all that are run, for a check that speaks only where no other does

	fit  *Fit
	tell func(*Case) *Fit

	tolerable map[string]bool // by taint: see taint.go
}

// Maker is what makes the pod: its controller, or the pod itself where it has none.
func (c *Case) Maker() Object { return c.Makers[len(c.Makers)-1] }

// Age is how long the pod has been there; where it does not exist, its maker.
func (c *Case) Age() time.Duration {
	if c.Exists {
		return c.Now.Sub(c.Pod.CreationTimestamp.Time)
	}
	return c.Now.Sub(c.Maker().GetCreationTimestamp().Time)
}

// Fit is what the engine says of the pod; nil where nodes or the pods on them may not be read, and for pods that
// have a node already or have ended.
func (c *Case) Fit() *Fit {
	if c.fit == nil && c.tell != nil {
		c.fit = c.tell(c)
		c.tell = nil
	}
	return c.fit
}

// Waits says whether the pod has no node yet: it is to be created, admitted or placed.
func (c *Case) Waits() bool { return c.State == Absent || c.State == Gated || c.State == Pending }

// most bounds the cases of one target.
const mostCases = 24

// casesOf divides the target's pods, existing or to come, into cases.
func (f *Facts) casesOf(target Ref, top Object) []*Case {
	pods := f.podsOf(top)
	var out []*Case
	byLook, settled := make(map[string]*Case), make(map[types.UID]bool)
	for _, p := range pods {
		if Object(p) != top && f.superseded(p, settled) {
			continue
		}
		c := &Case{Facts: f, Now: f.At, Target: target, Top: top, Pod: p, Exists: true, Like: 1, State: stateOf(p), All: pods, Makers: f.above(p, top)}
		look := string(c.State) + looksLike(p)
		if same := byLook[look]; same != nil {
			same.Like++
			continue
		}
		byLook[look] = c
		out = append(out, c)
	}
	for _, m := range f.makers(top) {
		if n := f.lacks(m); n > 0 {
			if p := podFrom(m, 0); p != nil {
				f.admitted(p)
				out = append(out, &Case{Facts: f, Now: f.At, Target: target, Top: top, Pod: p, Like: n, State: Absent, All: pods, Makers: f.path(top, m)})
			}
		}
	}
	if len(out) == 0 {
		out = append(out, f.emptyCase(target, top))
	}
	slices.SortStableFunc(out, func(a, b *Case) int { return cmp.Compare(stateOrder(a.State), stateOrder(b.State)) })
	out = append(out, f.mates(target, top, out)...)
	return out[:min(len(out), mostCases)]
}

// emptyCase is of a target that has no pods and should have none by its own word: suspended, scaled to zero, over, or
// of a kind whose controller has not acted.
func (f *Facts) emptyCase(target Ref, top Object) *Case {
	c := &Case{Facts: f, Now: f.At, Target: target, Top: top, State: Absent, Pod: &corev1.Pod{}}
	ms := f.makers(top)
	c.Makers = f.path(top, ms[len(ms)-1])
	for _, m := range ms {
		if p := podFrom(m, 0); p != nil {
			f.admitted(p)
			c.Pod, c.Makers = p, f.path(top, m)
		}
		if j, ok := m.(*batchv1.Job); ok {
			switch ended(j) {
			case batchv1.JobComplete:
				c.State = Succeeded
			case batchv1.JobFailed:
				c.State = Failed
			}
		}
	}
	c.Pod.Namespace = cmp.Or(c.Pod.Namespace, top.GetNamespace())
	return c
}

// stateOf is how far a pod has come.
func stateOf(p *corev1.Pod) State {
	switch p.Status.Phase {
	case corev1.PodSucceeded:
		return Succeeded
	case corev1.PodFailed:
		return Failed
	case corev1.PodRunning:
		return Running
	}
	if len(p.Spec.SchedulingGates) > 0 {
		return Gated
	}
	if p.Spec.NodeName == "" {
		return Pending
	}
	return Starting
}

func stateOrder(s State) int {
	return slices.Index([]State{Absent, Gated, Pending, Starting, Failed, Running, Succeeded}, s)
}

// above are the makers of the pod from top down; the pod itself where nobody made it.
func (f *Facts) above(p *corev1.Pod, top Object) []Object {
	out := []Object{}
	var at Object = p
	for range 8 {
		if at = f.Controller(at); at == nil {
			break
		}
		out = append(out, at)
		if at.GetUID() == top.GetUID() {
			break
		}
	}
	if len(out) == 0 {
		return []Object{p}
	}
	slices.Reverse(out)
	return out
}

// path are the objects from top down to the maker.
func (f *Facts) path(top, maker Object) []Object {
	out := []Object{maker}
	for at := maker; at.GetUID() != top.GetUID() && len(out) < 8; {
		if at = f.Controller(at); at == nil {
			break
		}
		out = append(out, at)
	}
	slices.Reverse(out)
	return out
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

// admitted adds to a pod that does not exist yet what the API server gives to pods like it: requests that are limits
// where only these are given, and where all others that ask for
// an extended resource tolerate a taint of its name, so will this one.
func (f *Facts) admitted(p *corev1.Pod) {
	for i := range p.Spec.Containers {
		r := &p.Spec.Containers[i].Resources
		for name, q := range r.Limits {
			if _, ok := r.Requests[name]; !ok {
				if r.Requests == nil {
					r.Requests = corev1.ResourceList{}
				}
				r.Requests[name] = q
			}
		}
	}
	for _, name := range extendedOf(p) {
		asks, tolerates := 0, 0
		for _, other := range f.Pods {
			if !slices.Contains(extendedOf(other), name) {
				continue
			}
			asks++
			if slices.ContainsFunc(other.Spec.Tolerations, func(t corev1.Toleration) bool { return t.Key == name && t.Operator == corev1.TolerationOpExists }) {
				tolerates++
			}
		}
		if asks > 0 && asks == tolerates {
			p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: name, Operator: corev1.TolerationOpExists})
		}
	}
}

// extendedOf are the extended resources that the pod asks for: devices, in practice.
func extendedOf(p *corev1.Pod) []string {
	var out []string
	for i := range p.Spec.Containers {
		for name := range p.Spec.Containers[i].Resources.Limits {
			if s := string(name); strings.Contains(s, "/") && !strings.Contains(s, "kubernetes.io/") && !slices.Contains(out, s) {
				out = append(out, s)
			}
		}
	}
	slices.Sort(out)
	return out
}
