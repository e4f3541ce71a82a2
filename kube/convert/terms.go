package convert

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
)

// Values of v1alpha1.KeyPreemptible. Without the key work may be evicted.
const (
	preemptible = "true"    // may be evicted for others
	firm        = "false"   // is never evicted for others, and so never borrows
	surplus     = "surplus" // of a gang: only members above its minimum may be evicted
)

// author is an object on which somebody wrote our keys.
type author struct {
	kind string
	*metav1.ObjectMeta
}

// terms reads what holds for a workload over time, off its authors: the first that says something under a key counts.
type terms struct {
	authors  []author
	problems []string
}

// authorsOf are pods, which are sorted by name, behind those that come first.
func authorsOf(pods []*corev1.Pod, first ...author) []author {
	for _, p := range pods {
		first = append(first, author{"pod", &p.ObjectMeta})
	}
	return first
}

func (t *terms) first(key string) (author, string) {
	for _, a := range t.authors {
		if v := asked(a.ObjectMeta, key); v != "" {
			return a, v
		}
	}
	return author{}, ""
}

func (t *terms) reject(a author, key, value, want string) {
	t.problems = append(t.problems, fmt.Sprintf("%s of %s %s is %s: want %s", key, a.kind, a.Name, quoted(value), want))
}

// time reads a length of time; 0: nobody says one.
func (t *terms) time(key string) time.Duration {
	a, v := t.first(key)
	if v == "" {
		return 0
	}
	d, err := time.ParseDuration(v)
	if err != nil || d <= 0 {
		t.reject(a, key, v, "a time above 0, such as 90m")
		return 0
	}
	return d
}

// preemptible reads whether the workload may be evicted.
func (t *terms) preemptible() string {
	a, v := t.first(v1alpha1.KeyPreemptible)
	switch v {
	case "", preemptible, firm, surplus:
		return v
	}
	t.reject(a, v1alpha1.KeyPreemptible, v, "true, false or surplus")
	return ""
}

// held reads whether the workload is held back: by an operator if any of it is, else as the first says that says something.
func (t *terms) held() bool {
	for _, a := range t.authors {
		if asked(a.ObjectMeta, v1alpha1.KeyHold) == v1alpha1.HoldByOperator {
			return true
		}
	}
	a, v := t.first(v1alpha1.KeyHold)
	switch v {
	case "", "false":
		return false
	case "true":
		return true
	}
	t.reject(a, v1alpha1.KeyHold, v, "true, false or "+v1alpha1.HoldByOperator)
	return false
}

// read returns the terms of a workload of the pods, which are sorted by name. like is its kind: see likeOf.
func (t *terms) read(pods []*corev1.Pod, like string) engine.Terms {
	out := engine.Terms{
		Expected: t.time(v1alpha1.KeyExpectedRun), Max: t.time(v1alpha1.KeyMaxRun), Checkpoint: t.time(v1alpha1.KeyCheckpoint),
		Restart: t.time(v1alpha1.KeyRestartCost), Delay: t.time(v1alpha1.KeyPreemptionDelay), Like: like,
	}
	out.Max = sooner(out.Max, t.time(v1alpha1.KeyDeadline))
	out.Held = t.held()
	for _, p := range pods {
		t.alignment(p)
		t.part(p)
		out.Max = sooner(out.Max, seconds(p.Spec.ActiveDeadlineSeconds))
		out.Grace = max(out.Grace, seconds(p.Spec.TerminationGracePeriodSeconds))
		out.Patient = out.Patient || p.Spec.PreemptionPolicy != nil && *p.Spec.PreemptionPolicy == corev1.PreemptNever
	}
	return out
}

// sooner is the smaller of two times, of which 0 is none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

func seconds(n *int64) time.Duration {
	if n == nil {
		return 0
	}
	const most = 1 << 31 // as many as the API server takes
	return time.Duration(max(0, min(*n, most))) * time.Second
}

// loneTerms fills in what holds for a pod that is a workload of its own. What is wrong with a pod that has a node does
// not count any more. g is its PodGroup, or nil, over are the limits that the pod is above.
func loneTerms(p *corev1.Pod, g *schedulingv1beta1.PodGroup, out *engine.Pod, over []string) {
	t := terms{authors: authorsOf([]*corev1.Pod{p}), problems: over}
	out.User = asked(&p.ObjectMeta, v1alpha1.KeyUser)
	if g != nil {
		t.authors = append([]author{{"PodGroup", &g.ObjectMeta}}, t.authors...)
		t.problems = append(keyLimits(&g.ObjectMeta), t.problems...)
		out.Queue = cmp.Or(asked(&g.ObjectMeta, v1alpha1.KeyQueue), out.Queue)
		out.User = cmp.Or(out.User, asked(&g.ObjectMeta, v1alpha1.KeyUser))
		out.Evictable = out.Evictable && Evictable(g)
	}
	out.Terms = t.read([]*corev1.Pod{p}, likeOf(p, 1))
	if g != nil && g.Spec.PreemptionPolicy != nil {
		out.Terms.Patient = *g.Spec.PreemptionPolicy == schedulingv1beta1.PreemptNever
	}
	if v := t.preemptible(); v == surplus { // it has no members to spare
		out.Evictable = false
	}
	if out.Node == "" {
		for _, a := range t.authors {
			if long := tooLong(a.ObjectMeta); long != "" {
				t.problems = append(t.problems, long)
				break
			}
		}
		out.Invalid = said(t.problems)
	}
}

// gangTerms fills in what those who come first, and the gang's pods, say of it. size is how many start together, as
// its author has it; 0: he does not say.
func gangTerms(g *engine.Gang, pods []*corev1.Pod, size int, first ...author) (problems []string) {
	t := terms{authors: authorsOf(pods, first...)}
	// Whose a gang is, its pods say first: a PodGroup may have been made by a controller in its own name.
	_, g.User = (&terms{authors: append(authorsOf(pods), first...)}).first(v1alpha1.KeyUser)
	like := ""
	if len(pods) > 0 {
		like = likeOf(pods[0], size)
	}
	g.Terms = t.read(pods, like)
	g.Core = t.preemptible() == surplus
	for _, a := range t.authors {
		if long := tooLong(a.ObjectMeta); long != "" {
			t.problems = append(t.problems, fmt.Sprintf("%s %s: %s", a.kind, a.Name, long))
			break
		}
	}
	return t.problems
}

// GroupTerms fills in what holds over time for a PodGroup: what is written on it, and where nothing is on its pods.
func GroupTerms(out *engine.Gang, g *schedulingv1beta1.PodGroup, pods []*corev1.Pod) {
	pods = slices.SortedFunc(slices.Values(pods), func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	problems := append(gangLimits(out, pods, &g.ObjectMeta), gangTerms(out, pods, PodGroup(g).Min, author{"PodGroup", &g.ObjectMeta})...)
	if policy := g.Spec.PreemptionPolicy; policy != nil {
		out.Terms.Patient = *policy == schedulingv1beta1.PreemptNever
	}
	out.Invalid = said(problems)
}

// Evictable says whether the object, a pod or a PodGroup, lets pods be evicted for others. What cannot be read does not.
func Evictable(o metav1.Object) bool {
	v := asked(&metav1.ObjectMeta{Annotations: o.GetAnnotations(), Labels: o.GetLabels()}, v1alpha1.KeyPreemptible)
	return v == "" || v == preemptible || v == surplus
}

// likeOf names the kind of workload that the pod is of, so that run times can be learned: its namespace, the kind of
// its controller and its name, or without one the image of its first container, and how many pods start together,
// where its author says it.
// What numbers a name at its end is left out of it: parts, after the last "-", with a digit in them. It stays the same
// as long as the workload exists, and is the same for the next of its kind.
func likeOf(p *corev1.Pod, pods int) string {
	what := ""
	switch c := ControllerOf(p); {
	case c != nil && c.Name != "":
		what = c.Kind + "/" + stem(c.Name)
	case len(p.Spec.Containers) > 0 && p.Spec.Containers[0].Image != "":
		what = clipped(p.Spec.Containers[0].Image, MaxNameBytes)
	default:
		return ""
	}
	if what = p.Namespace + "/" + what; pods > 0 {
		what += " x" + strconv.Itoa(pods)
	}
	return what
}

// Kind names the kind of workload that the pod is of, whatever its author says of how many pods start together; "": nothing tells.
func Kind(p *corev1.Pod) string { return likeOf(p, 0) }

// Started is when the pod got its node; zero: it has none.
func Started(p *corev1.Pod) time.Time { return started(p) }

// stem is the name without the parts at its end that number it; of a name of such parts alone, all of it.
func stem(name string) string {
	rest := name
	for {
		i := strings.LastIndexByte(rest, '-')
		if !strings.ContainsAny(rest[i+1:], "0123456789") {
			return rest
		}
		if i <= 0 {
			return name
		}
		rest = rest[:i]
	}
}

// started is when the pod got its node; zero: nobody says.
func started(p *corev1.Pod) time.Time {
	if p.Spec.NodeName == "" {
		return time.Time{}
	}
	for i := range p.Status.Conditions {
		c := &p.Status.Conditions[i]
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue && !c.LastTransitionTime.IsZero() {
			return c.LastTransitionTime.UTC()
		}
	}
	if p.Status.StartTime != nil {
		return p.Status.StartTime.UTC()
	}
	return time.Time{}
}

// idle is since when the pod's GPUs do nothing, as was measured on its node; zero: nobody says so.
func idle(p *corev1.Pod) time.Time {
	if p.Spec.NodeName == "" {
		return time.Time{}
	}
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == v1alpha1.PodIdle && c.Status == corev1.ConditionTrue && !c.LastTransitionTime.IsZero() {
			return c.LastTransitionTime.UTC()
		}
	}
	return time.Time{}
}
