package diagnose

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/history"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

// What worked before and does not work now was changed in between. Where the cluster still has the earlier value, going back to
// it is a fix like any other, and tried like any other; the difference is evidence.

// mostReverts bounds the fields of one earlier version that are tried one by one.
const mostReverts = 4

// recalled is an earlier version of an object that bears on the target.
type recalled struct {
	history.Version
	of facts.Object
}

// recollect finds the earlier versions, and shows what has changed beside the first finding that binds.
func (t *trial) recollect() {
	var binding []*check.Finding
	for _, f := range t.ordered() {
		if t.binds[f] {
			binding = append(binding, f)
		}
	}
	if f := t.first(); len(binding) == 0 && f != nil {
		t.before = t.recall([]*check.Finding{f})
		t.overruled(f)
	}
	if len(binding) == 0 {
		return
	}
	t.before = t.recall(binding)
	t.remember(binding[0], t.before)
	t.outdated(binding[0])
	if !t.own(binding[0]) {
		t.neighbours()
	}
}

// outdated is about a pod of a StatefulSet that is not ready and of an earlier template than the present one: the controller waits
// for it, and gives it the present template only once it is deleted by hand ("forced rollback" in Kubernetes' own pages).
func (t *trial) outdated(f *check.Finding) {
	s, ok := t.top.(*appsv1.StatefulSet)
	if !ok || f.Pod == nil || f.Stage < check.Place || s.Spec.PodManagementPolicy == appsv1.ParallelPodManagement || s.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
		return
	}
	of, now := f.Pod.Labels[appsv1.ControllerRevisionHashLabelKey], s.Status.UpdateRevision
	if of == "" || now == "" || of == now || of == s.Status.CurrentRevision && s.Status.CurrentReplicas > 1 || s.Status.ObservedGeneration < s.Generation {
		return
	}
	f.Message += fmt.Sprintf("; the template has changed since, and %s waits for pod %s before it makes it anew", facts.RefTo(s), f.Pod.Name)
	f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(s).In(), Field: "status.updateRevision", Value: fmt.Sprintf("%s; pod %s is of %s", now, f.Pod.Name, of)})
	f.Owner = check.User
	f.Edits = append([]edit.Edit{{
		Side: edit.Workload, Cost: edit.CostRevert, Gone: []facts.Object{f.Pod}, Text: fmt.Sprintf("delete pod %s, so that it is made from the present template", f.Pod.Name),
		Command: fmt.Sprintf("kubectl delete pod %s -n %s", f.Pod.Name, f.Pod.Namespace), Assumes: "the present template is right",
	}}, f.Edits...)
}

// overruled has a finding bind that is healthy only because the work's author wants it so, where it is known that the work was
// wanted otherwise before, and no other team's object has a say: the person who asks why it does not run may not know of the change.
func (t *trial) overruled(f *check.Finding) {
	if !f.Healthy || f.Owner != check.User || f.Stage != check.Create {
		return
	}
	for i := range t.before {
		r := &t.before[i]
		others := slices.ContainsFunc(f.Evidence, func(e facts.Evidence) bool { return e.Object != facts.RefTo(r.of).In() })
		if others || !r.blames(f) {
			continue
		}
		// Other changes since are not why it does not run, and going back on them alone is no fix.
		r.Changes = slices.DeleteFunc(slices.Clone(r.Changes), func(c history.Change) bool {
			return !slices.ContainsFunc(f.Evidence, func(e facts.Evidence) bool { return e.Field != "" && strings.HasSuffix(c.Field(), e.Field) })
		})
		t.before = t.before[i : i+1]
		c := &r.Changes[0]
		was, _ := c.Words()
		f.Healthy, t.binds[f], t.mends[f] = false, true, true
		f.Message += fmt.Sprintf("; %s was %s in %s", c.Field(), was, r.From)
		t.remember(f, t.before)
		return
	}
}

// own gives a cause of placing to the workload's author where it came with a change of the workload: pods of an earlier version
// are ready, or its controller keeps that version, and going back to it is all that it takes. It reports whether it did. Where
// what is provided is known to be at fault, or the finding is about something else than what has changed, that an earlier version,
// which was not seen to run, would do elsewhere proves nothing.
func (t *trial) own(first *check.Finding) bool {
	for i := range t.before {
		r := &t.before[i]
		if first.Stage > check.Place || !r.ran() && (r.Revision == 0 || first.Layer == check.L2 || first.Owner == check.Platform && !r.blames(first)) || !t.makes(r.of) {
			continue
		}
		if j := t.with(t.revert(first, r, r.Changes)); j != nil && j.free() {
			first.Owner = check.User
			return true
		}
	}
	return false
}

// recall finds earlier versions: of what makes the target's pods, and of the objects that the findings show.
func (t *trial) recall(binding []*check.Finding) []recalled {
	var out []recalled
	var seen []facts.Object
	add := func(o facts.Object) {
		if o == nil || slices.Contains(seen, o) {
			return
		}
		seen = append(seen, o)
		for _, v := range history.Versions(t.d.facts, o) {
			out = append(out, recalled{v, o})
		}
		if scaledToNone(o) {
			for _, v := range history.Scaled(t.d.facts, o) {
				out = append(out, recalled{v, o})
			}
		}
	}
	for _, c := range t.base.cases {
		for _, o := range c.Owners {
			add(o)
		}
	}
	for _, f := range binding {
		for _, e := range f.Evidence {
			add(t.d.facts.Shown(e.Object))
		}
	}
	return out
}

func scaledToNone(o facts.Object) bool {
	switch o := o.(type) {
	case *appsv1.Deployment:
		return ptr.Deref(o.Spec.Replicas, 1) == 0
	case *appsv1.StatefulSet:
		return ptr.Deref(o.Spec.Replicas, 1) == 0
	}
	return false
}

// ran says whether pods of the version are ready while the target's are not: what differs is why, at whichever stage.
func (r *recalled) ran() bool { return r.Ready > 0 }

// blames says whether a finding shows one of the fields that have changed.
func (r *recalled) blames(f *check.Finding) bool {
	return slices.ContainsFunc(r.Changes, func(c history.Change) bool {
		return slices.ContainsFunc(f.Evidence, func(e facts.Evidence) bool { return e.Field != "" && strings.HasSuffix(c.Field(), e.Field) })
	})
}

// touches says whether the container that a finding is about has changed since: its image, its command, what it is given.
func (r *recalled) touches(f *check.Finding) bool {
	if r.Revision == 0 || f.Pod == nil {
		return false
	}
	for _, e := range f.Evidence {
		for _, field := range []string{"containers", "initContainers"} {
			list := f.Pod.Spec.Containers
			if field == "initContainers" {
				list = f.Pod.Spec.InitContainers
			}
			for i := range list {
				about := strings.Contains(strings.ToLower(e.Field), strings.TrimSuffix(strings.ToLower(field), "s")+"statuses["+fmt.Sprintf("%q", list[i].Name))
				if about && slices.ContainsFunc(r.Changes, func(c history.Change) bool {
					return strings.Contains(c.Field(), fmt.Sprintf(".spec.%s[%d].", field, i))
				}) {
					return true
				}
			}
		}
	}
	return false
}

// reverts are edits that go back to earlier versions, for what the finding says.
func (t *trial) reverts(f *check.Finding, all []recalled) []edit.Edit {
	var out []edit.Edit
	unproven := make(map[facts.Object]bool)
	for i := range all {
		r := &all[i]
		if !r.ran() && r.Revision > 0 { // of revisions that were not seen to run, the last is the likeliest to have
			if unproven[r.of] {
				continue
			}
			unproven[r.of] = true
		}
		// A container that has not started yet shows nothing of how it will end: a trial of the pod's beginning proves nothing.
		if f.Stage >= check.Start && !r.ran() && !r.blames(f) && !r.touches(f) {
			continue
		}
		if f.Stays != nil && stays(f, r) {
			continue
		}
		out = append(out, t.revert(f, r, r.Changes))
		if own := ofRole(f, r); len(own) > 0 && len(own) < len(r.Changes) {
			out = append(out, t.revert(f, r, own))
		}
		if f.Stage < check.Start && len(r.Changes) > 1 && len(r.Changes) <= mostReverts {
			for j, c := range r.Changes {
				if !c.Hidden() {
					out = append(out, t.revert(f, r, r.Changes[j:j+1]))
				}
			}
		}
	}
	return out
}

// ofRole are the changes in the template of the finding's pod, where the object makes pods of several.
func ofRole(f *check.Finding, r *recalled) (own []history.Change) {
	if _, foreign := r.of.(*unstructured.Unstructured); !foreign || f.Pod == nil {
		return nil
	}
	prefix := facts.TemplatePathFor(r.of, f.Pod) + "/"
	for i := range r.Changes {
		if strings.HasPrefix(r.Changes[i].Back().Path, prefix) {
			own = append(own, r.Changes[i])
		}
	}
	return own
}

// stays says whether pods of the earlier version would meet what the finding says.
func stays(f *check.Finding, r *recalled) bool {
	var ops []edit.Op
	for i := range r.Changes {
		ops = append(ops, r.Changes[i].Back())
	}
	was, err := edit.Patch(r.of, "", ops)
	if err != nil {
		return false
	}
	template := facts.TemplateFor(was, f.Pod)
	return template != nil && f.Stays(&template.Spec)
}

// peers are edits that give a field, which the finding shows in a pod of the target, the value that running pods of the
// namespace have in it, where the two are written nearly alike.
func (t *trial) peers(f *check.Finding) []edit.Edit {
	var out []edit.Edit
	for _, e := range f.Evidence {
		if f.Pod == nil || e.Object != facts.RefTo(f.Pod).In() || !strings.HasPrefix(e.Field, "spec.") {
			continue
		}
		for _, p := range history.Peers(t.d.facts, f.Pod, e.Field) {
			if !place.Misspelt(p.Own, p.Value) {
				continue
			}
			out = append(out, edit.Edit{
				Side: edit.Workload, Cost: edit.CostWord, Text: fmt.Sprintf("set %s to %s, as pod %s has it, in place of %s", e.Field, p.Value, p.Pod.Name, p.Own),
				Ops: []edit.Op{{Op: "replace", Path: edit.Pointer(p.Keys...), Value: p.Value}},
			})
			break
		}
	}
	return out
}

// paused says whether `kubectl rollout undo` refuses the object: it has its author resume it first, with the change.
func paused(o facts.Object) bool {
	d, ok := o.(*appsv1.Deployment)
	return ok && d.Spec.Paused
}

// passedOn is the ReplicaSet of a Deployment that is scaled, as its controller scales it then: its pods have to find places.
func (t *trial) passedOn(was, now facts.Object) []facts.Object {
	d, ok := now.(*appsv1.Deployment)
	old, _ := was.(*appsv1.Deployment)
	if !ok || old == nil || ptr.Deref(d.Spec.Replicas, 1) == ptr.Deref(old.Spec.Replicas, 1) {
		return nil
	}
	for _, o := range t.d.facts.PodOwners(was) {
		if r, ok := o.(*appsv1.ReplicaSet); ok {
			r = r.DeepCopy()
			r.Spec.Replicas = d.Spec.Replicas
			return []facts.Object{r}
		}
	}
	return nil
}

// revert is one edit that takes changes of the version back.
func (t *trial) revert(f *check.Finding, r *recalled, changes []history.Change) edit.Edit {
	ref := facts.RefTo(r.of)
	was, now := changes[0].Words()
	text := fmt.Sprintf("go back to %s of %s: %s is %s, and was %s", r.From, ref, changes[0].Field(), now, was)
	if changes[0].Hidden() {
		text = fmt.Sprintf("go back to %s of %s: %s has changed", r.From, ref, changes[0].Field())
	}
	if len(changes) > 1 {
		text += fmt.Sprintf(" (and %s more)", wording.Number(len(changes)-1, "field"))
	}
	e := edit.Edit{Side: edit.Cluster, Text: text, Cost: edit.CostRevert}
	var whole []edit.Op
	for i := range changes {
		whole = append(whole, changes[i].Back())
	}
	e.Command = edit.PatchLine(r.of, "json", whole)
	if r.Revision > 0 && len(changes) == len(r.Changes) && !paused(r.of) {
		e.Command = fmt.Sprintf("kubectl rollout undo %s -n %s --to-revision=%d", ref, ref.Namespace, r.Revision)
	}
	if t.makes(r.of) {
		e.Side = edit.Workload
		e.Command = t.anew(r.of, whole, e.Command)
	}
	prefix := facts.TemplatePath(r.of)
	_, foreign := r.of.(*unstructured.Unstructured)
	if foreign && f.Pod != nil && t.makes(r.of) {
		prefix = facts.TemplatePathFor(r.of, f.Pod)
	}
	inTemplate := !slices.ContainsFunc(whole, func(op edit.Op) bool { return prefix == "" || !strings.HasPrefix(op.Path, prefix+"/") })
	switch {
	case t.makes(r.of) && (inTemplate || facts.KindOfObject(r.of).Kind == "Pod"):
		for _, op := range whole {
			op.Path = strings.TrimPrefix(op.Path, prefix)
			e.Ops = append(e.Ops, op)
		}
		e.On = r.of
		if foreign && inTemplate { // one of its roles, whose pods are made anew
			e.For, e.Command = f.Pod, ""
		}
	default:
		if n, err := edit.Patch(r.of, "", whole); err == nil {
			e.Set = append([]facts.Object{n}, t.passedOn(r.of, n)...)
		}
		if makesStack(r.of) { // what its pods do on nodes is not tried: it does what takes the finding away
			if p, ok := f.Stands(); ok {
				e.Set, e.Gone = append(e.Set, p.Set...), p.Gone
			}
		}
	}
	if r.Ready > 0 {
		e.Outcome = fmt.Sprintf("%s of %s %s ready", wording.Pods(r.Ready), r.From, wording.InNumber(r.Ready, "is", "are"))
	} else if f.Stage >= check.Start {
		e.Assumes = fmt.Sprintf("%s of %s ran well", r.From, ref)
	}
	return e
}

// makesStack says whether the object makes the software of nodes: a DaemonSet, or what the GPU Operator makes DaemonSets from.
func makesStack(o facts.Object) bool {
	_, set := o.(*appsv1.DaemonSet)
	return set || facts.KindOfObject(o).Group == "nvidia.com"
}

// makes says whether the object makes pods of the target.
func (t *trial) makes(o facts.Object) bool {
	return slices.ContainsFunc(t.base.cases, func(c *check.Case) bool { return slices.Contains(c.Owners, o) })
}

// anew is the command that changes a workload: pods and Jobs are made anew, and a StatefulSet's pods that do not run are deleted,
// because it waits for them.
func (t *trial) anew(o facts.Object, ops []edit.Op, line string) string {
	switch o := o.(type) {
	case *appsv1.StatefulSet:
		for _, p := range t.d.facts.PodsMadeBy(o) {
			if facts.StateOf(p) != facts.Running || facts.Unsettled(p) || !podReady(p) {
				line += fmt.Sprintf("\nkubectl delete pod %s -n %s", p.Name, p.Namespace)
			}
		}
	case *corev1.Pod:
		return edit.PatchCommand(o, nil, ops)
	default:
		prefix := facts.TemplatePath(o)
		if facts.KindOfObject(o).Kind == "Job" && !slices.ContainsFunc(ops, func(op edit.Op) bool { return !strings.HasPrefix(op.Path, prefix+"/") }) {
			moved := slices.Clone(ops)
			for i := range moved {
				moved[i].Path = strings.TrimPrefix(moved[i].Path, prefix)
			}
			return edit.PatchCommand(o, nil, moved)
		}
	}
	return line
}

func podReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// remember adds to the first finding what has changed since a version whose pods are ready, or in a field that it shows.
func (t *trial) remember(first *check.Finding, all []recalled) {
	for i := range all {
		r := &all[i]
		if !r.ran() && !r.blames(first) && !r.touches(first) || first.Stays != nil && stays(first, r) {
			continue
		}
		var shown []facts.Evidence
		for _, c := range r.Changes[:min(len(r.Changes), mostReverts)] {
			was, now := c.Words()
			since := fmt.Sprintf("%s; %s in %s", now, was, r.From)
			if r.Ready > 0 {
				since += fmt.Sprintf(", of which %s ready", wording.InNumber(r.Ready, "1 pod is", fmt.Sprintf("%d pods are", r.Ready)))
			}
			shown = append(shown, facts.Evidence{Object: facts.RefTo(r.of).In(), Field: c.Field(), Value: since})
		}
		if r.ran() && len(r.Changes) <= 2 { // nothing tells more
			first.Message += fmt.Sprintf("; %s of %s runs, and since then %s has changed", r.From, facts.RefTo(r.of), shown[0].Field)
			first.Evidence = append(shown, first.Evidence...)
		} else {
			first.Evidence = append(first.Evidence, shown...)
		}
		return
	}
}
