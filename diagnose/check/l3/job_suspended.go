package l3

import (
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/queue"
)

var jobSuspendedCheck = check.Check{
	Cause: "job-suspended", Layer: check.L3, Owner: check.User, Stage: check.Admit, Rank: 10,
	Title:   "The job is suspended",
	Meaning: "The job says that it is not to run now. No queue manages it, so somebody has suspended it, and nobody will resume it by himself.",
	Remedy:  "Resume it.",
	Not:     "The queue holds it: no queue knows of it.",
	Find:    jobSuspended,
}

func jobSuspended(c *check.Case) []check.Finding {
	for _, m := range c.Owners {
		path, ok := facts.Suspended(m)
		if !ok || queue.Queued(c) {
			continue
		}
		since := ""
		if j, ok := m.(*batchv1.Job); ok {
			for _, s := range j.Status.Conditions {
				if s.Type == batchv1.JobSuspended && s.Status == corev1.ConditionTrue && !s.LastTransitionTime.IsZero() {
					since = fmt.Sprintf(" since %s", s.LastTransitionTime.UTC().Format("2006-01-02 15:04 MST"))
				}
			}
		}
		f := check.Finding{
			Message:  fmt.Sprintf("%s is suspended%s, and no queue manages it", facts.RefTo(m), since),
			Evidence: []facts.Evidence{{Object: facts.RefTo(m).In(), Field: path, Value: "true"}},
		}
		if by := metav1.GetControllerOfNoCopy(c.Owners[0]); by != nil {
			f.Message = fmt.Sprintf("%s is suspended%s, and %s %s, which made it, has not resumed it", facts.RefTo(m), since, by.Kind, by.Name)
			f.Advice = fmt.Sprintf("Look at %s %s: its controller resumes the job, and suspends it again where somebody else does.", by.Kind, by.Name)
		} else if e, ok := resumed(c); ok {
			f.Edits = []edit.Edit{e}
		}
		return []check.Finding{f}
	}
	return nil
}

// resumed sets every owner going; the command is for the topmost one, whose controller passes it on.
func resumed(c *check.Case) (edit.Edit, bool) {
	e := edit.Edit{Side: edit.Workload, Cost: 1}
	for _, m := range c.Owners {
		field, ok := facts.Suspended(m)
		if !ok {
			continue
		}
		body := map[string]any{"spec": map[string]any{"suspend": false}}
		switch m := m.(type) {
		case *batchv1.Job:
			n := m.DeepCopy()
			n.Spec.Suspend = new(bool)
			e.Set = append(e.Set, n)
		case *unstructured.Unstructured:
			n := m.DeepCopy()
			if field == "spec.runPolicy.suspend" {
				body = map[string]any{"spec": map[string]any{"runPolicy": map[string]any{"suspend": false}}}
				_ = unstructured.SetNestedField(n.Object, false, "spec", "runPolicy", "suspend")
			} else {
				_ = unstructured.SetNestedField(n.Object, false, "spec", "suspend")
			}
			e.Set = append(e.Set, n)
		}
		if e.Command == "" {
			e.Text, e.Command = "resume "+facts.RefTo(m).String(), edit.PatchLine(m, "merge", body)
		}
	}
	return e, e.Command != ""
}
