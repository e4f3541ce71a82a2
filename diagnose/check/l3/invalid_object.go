package l3

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/queue"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/engine/why"
)

var invalidObjectCheck = check.Check{
	Cause: why.InvalidObject, Layer: check.L3, Owner: check.User, Stage: check.Create, Rank: 9,
	Title:   "What was written contradicts itself",
	Meaning: "The API server, or the scheduler, does not accept the pod, or the gang that it is in, as it is written; or another pod has its name.",
	Remedy:  "Change what the message names.",
	Find:    invalidObject,
}

func invalidObject(c *check.Case) []check.Finding {
	if r := life.DeniedBy(c, life.ByValidation); r != nil && life.Wanted(c) && elseWrong(c, r) {
		return []check.Finding{{Message: fmt.Sprintf("the API server does not accept the pods of %s: %s", facts.RefTo(c.Owner()), wording.Shortened(wording.OneLine(r.Text), 400)), Evidence: []facts.Evidence{r.Evidence}}}
	}
	if f := computed(c); f != nil {
		return []check.Finding{*f}
	}
	if f := nameTaken(c); f != nil {
		return []check.Finding{*f}
	}
	return queue.Shut(c, why.InvalidObject)
}

// computed is about a field of the pod that the API server computes from an object that the pod names, and that was written with
// another value: priority and preemptionPolicy come from a PriorityClass, overhead from a RuntimeClass.
func computed(c *check.Case) *check.Finding {
	r := life.DeniedBy(c, life.ByAdmission)
	if r == nil || !life.Wanted(c) {
		return nil
	}
	spec, field, value, from := &place.Written(c).Spec, "", "", "PriorityClass"
	switch strings.ToLower(r.Name) {
	case "priority":
		if spec.Priority != nil {
			field, value = "priority", fmt.Sprint(*spec.Priority)
		}
	case "preemptionpolicy":
		if spec.PreemptionPolicy != nil {
			field, value = "preemptionPolicy", string(*spec.PreemptionPolicy)
		}
	case "overhead":
		if len(spec.Overhead) > 0 {
			field, value, from = "overhead", amounts(spec.Overhead), "RuntimeClass"
		}
	}
	if field == "" && c.Edited() {
		return nil
	}
	f := &check.Finding{
		Message:  fmt.Sprintf("the API server computes %s of the pods of %s from their %s, and refuses the value that was written: %s", cmp.Or(field, r.Name), facts.RefTo(c.Owner()), from, wording.Shortened(wording.OneLine(r.Text), 300)),
		Evidence: []facts.Evidence{r.Evidence},
		Advice:   fmt.Sprintf("Leave the field out, and name the %s that has the value.", from),
	}
	if field != "" {
		f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(c.Owner()).In(), Field: "spec." + field, Value: value})
		f.Edits = []edit.Edit{{Side: edit.Workload, Cost: 1, Text: fmt.Sprintf("leave out %s, which the API server computes from the pod's %s", field, from), Ops: []edit.Op{{Op: "remove", Path: edit.Pointer("spec", field)}}}}
	}
	return f
}

func amounts(list corev1.ResourceList) string {
	var out []string
	for name, q := range list {
		out = append(out, fmt.Sprintf("%s=%s", name, q.String()))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// nameTaken is about a pod that another one has the name of, which was not deleted.
func nameTaken(c *check.Case) *check.Finding {
	r := life.DeniedBy(c, life.ByName)
	if r == nil || !life.Wanted(c) {
		return nil
	}
	p := c.PodNamed(c.Pod.Namespace, r.Name)
	if p == nil || p.DeletionTimestamp != nil || slices.Contains(c.All, p) { // free by now, or soon, or made by another try
		return nil
	}
	f := &check.Finding{
		Message:  fmt.Sprintf("%s is to make pod %s, and another pod has that name, which %s", facts.RefTo(c.Owner()), p.Name, madeBy(c, p)),
		Evidence: []facts.Evidence{r.Evidence, {Object: facts.RefTo(p).In(), Field: "metadata.ownerReferences", Value: madeBy(c, p)}},
		Advice:   fmt.Sprintf("Give the work another name, or delete pod %s once nobody needs it.", p.Name),
	}
	if facts.Ended(p) && len(p.OwnerReferences) == 0 {
		f.Edits = []edit.Edit{{Side: edit.Cluster, Cost: 4, Gone: []facts.Object{p}, Text: fmt.Sprintf("delete pod %s, which has ended", p.Name),
			Command: fmt.Sprintf("kubectl delete pod %s -n %s", p.Name, p.Namespace), Assumes: "nobody needs what is left of it"}}
	}
	return f
}

// madeBy says in a clause who made the pod.
func madeBy(c *check.Case, p *corev1.Pod) string {
	o := metav1.GetControllerOf(p)
	switch {
	case o == nil:
		return "belongs to nothing"
	case o.UID != c.Owner().GetUID() && o.Name == c.Owner().GetName():
		return fmt.Sprintf("an earlier %s of the same name made", strings.ToLower(o.Kind))
	}
	return fmt.Sprintf("belongs to %s %s", strings.ToLower(o.Kind), o.Name)
}

var wrongField = regexp.MustCompile(`\b(?:spec|metadata)\.[^:\s]+: `)

// elseWrong says whether the API server refused the pod for more than how it asks for GPUs, which is a cause of its own.
func elseWrong(c *check.Case, r *life.Refusal) bool {
	for _, f := range wrongField.FindAllString(r.Text, -1) {
		if !strings.Contains(f, ".resources") {
			return true
		}
	}
	return !wrongField.MatchString(r.Text) || !misasks(c) && len(limitedBelowRequest(c)) == 0 && !c.Edited()
}
