package diagnose

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/engine/why"
)

var gangIncompleteCheck = Check{
	Cause: why.GangIncomplete, Layer: L3, Owner: User, Stage: Admit, Rank: 15,
	Title:   "The gang lacks members",
	Meaning: "The pods of a gang start together, and fewer exist than it needs. The scheduler waits for the others and says nothing; the question is why they do not exist.",
	Remedy:  "Find out who should make the missing pods and why he does not; or let the gang start with fewer.",
	Not:     "There is no room for it: nobody has looked for one.",
	Find:    gangIncomplete,
}

func gangIncomplete(c *Case) []Finding {
	gang := c.gangOf(c.Pod)
	if !c.Waits() || gang == "" {
		return nil
	}
	there, coming, makers := c.members(gang)
	need, ok := c.needs(gang, there)
	if !ok || len(there) >= need {
		return nil
	}
	f := Finding{
		Message:  fmt.Sprintf("%s needs %s to start, and %s", c.gangName(c.Pod), pods(need), existing(len(there))),
		Evidence: c.gangSeen(need),
	}
	switch {
	case len(there)+coming < need:
		f.Message += c.noMore(makers)
		f.Edits = append(c.makeMore(there, need), c.needFewer(len(there)+coming)...)
	case c.Edited() || c.young(makers):
		f.Calm, f.Owner = true, Nobody
		f.Message += ", the others are being made"
	default:
		f.Message += fmt.Sprintf("; %s should have made %d more", wordsOf(makers), coming)
		f.Fit = c.kept(makers) // then what keeps them from being made is the cause, and this stands beside it
	}
	return []Finding{f}
}

// gangSeen is where the number is said.
func (c *Case) gangSeen(need int) []Evidence {
	if g := c.podGroup(c.Pod); g != nil {
		return []Evidence{{Object: RefTo(g).In(), Field: "spec.schedulingPolicy.gang.minCount", Value: itoa(need)}}
	}
	value, by := c.saidFor(c.Pod, gangKey)
	if by == nil {
		return nil
	}
	if by.GetAnnotations()[gangKey] == "" {
		return []Evidence{{Object: RefTo(by).In(), Field: fmt.Sprintf("metadata.labels[%q]", gangKey), Value: value}}
	}
	return []Evidence{{Object: RefTo(by).In(), Field: fmt.Sprintf("metadata.annotations[%q]", gangKey), Value: value}}
}

// noMore says that nobody will make what is missing.
func (c *Case) noMore(makers []Object) string {
	if len(makers) == 0 {
		return ", and nobody makes more"
	}
	return fmt.Sprintf(", and what %s still makes is not enough", wordsOf(makers))
}

func wordsOf(all []Object) string {
	out := make([]string, len(all))
	for i, o := range all {
		out[i] = RefTo(o).String()
	}
	slices.Sort(out)
	return atMost(3, out)
}

// young says whether the makers may not have got to it yet.
func (c *Case) young(makers []Object) bool {
	return !slices.ContainsFunc(makers, func(m Object) bool { return c.Now.Sub(m.GetCreationTimestamp().Time) >= patience })
}

// kept says whether another check finds what keeps the makers from making pods.
func (c *Case) kept(makers []Object) bool {
	for _, m := range makers {
		p := podFrom(m, 0)
		c.admitted(p)
		top := c.highest(m)
		at := &Case{Facts: c.Facts, Now: c.Now, Target: c.Target, Top: top, Pod: p, Like: c.lacks(m), State: Absent, All: c.podsOf(top), Makers: c.path(top, m), Checks: c.Checks}
		for _, other := range c.Checks {
			if other.Stage == Create && len(other.Find(at)) > 0 {
				return true
			}
		}
	}
	return false
}

// needFewer lets the gang start with as many as there will be.
func (c *Case) needFewer(n int) []Edit {
	if n < 1 {
		return nil
	}
	e := Edit{Side: Workload, Cost: 2, Text: fmt.Sprintf("let %s start with %s", c.gangName(c.Pod), pods(n)), Assumes: "the work can do with fewer pods"}
	if g := c.podGroup(c.Pod); g != nil {
		m := g.DeepCopy()
		m.Spec.SchedulingPolicy.Gang.MinCount = int32(n)
		e.Set, e.Command = []Object{m}, patchLine(g, "merge", map[string]any{"spec": map[string]any{"schedulingPolicy": map[string]any{"gang": map[string]any{"minCount": n}}}})
		return []Edit{e}
	}
	if c.Pod.Labels["berth.dev/min"] != "" {
		return nil
	}
	e.Ops = []Op{c.putAnnotation("berth.dev/min", itoa(n))}
	if size, _ := c.saidFor(c.Pod, "berth.dev/size"); size != "" {
		e.Ops = append(e.Ops, c.putAnnotation("berth.dev/size", itoa(n)))
	}
	return []Edit{e}
}

// makeMore has the one Job whose pods are the gang make as many as it needs.
func (c *Case) makeMore(there []*corev1.Pod, need int) []Edit {
	j, ok := c.Maker().(*batchv1.Job)
	if !ok || j.GetUID() != c.Top.GetUID() || slices.ContainsFunc(there, func(p *corev1.Pod) bool { return c.Controller(p) != Object(j) }) {
		return nil
	}
	if j.Spec.CompletionMode != nil && *j.Spec.CompletionMode == batchv1.IndexedCompletion && ptr.Deref(j.Spec.Completions, 0) != int32(need) {
		body := map[string]any{"spec": map[string]any{"parallelism": need, "completions": need}}
		return []Edit{c.grown(j, need, need, body)}
	}
	if ptr.Deref(j.Spec.Completions, int32(need)) < int32(need) {
		return nil // completions of such a Job cannot be changed
	}
	return []Edit{c.grown(j, need, 0, map[string]any{"spec": map[string]any{"parallelism": need}})}
}

func (c *Case) grown(j *batchv1.Job, parallelism, completions int, body map[string]any) Edit {
	n := j.DeepCopy()
	p, done := int32(parallelism), int32(completions)
	n.Spec.Parallelism = &p
	if completions > 0 {
		n.Spec.Completions = &done
	}
	return Edit{Side: Workload, Cost: 2, Text: fmt.Sprintf("run %s of %s at a time", pods(parallelism), RefTo(j)), Set: []Object{n}, Command: patchLine(j, "merge", body)}
}
