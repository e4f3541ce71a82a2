package l4

import (
	"cmp"
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var jobGaveUpCheck = check.Check{
	Cause: "job-gave-up", Layer: check.L4, Owner: check.ML, Stage: check.Run, Rank: 35,
	Title:   "The Job has given up",
	Meaning: "The Job has ended as failed and makes no more pods: they failed too often, or it ran out of its own time. It waits for nothing, whatever a dashboard still shows.",
	Remedy:  "Find out why its pods failed, then create the Job again.",
	Not:     "It is Pending for lack of GPUs.",
	Find:    jobGaveUp,
}

func jobGaveUp(c *check.Case) []check.Finding {
	if most := c.Pod.Spec.ActiveDeadlineSeconds; c.State == facts.Failed && c.Pod.Status.Reason == "DeadlineExceeded" && most != nil {
		return []check.Finding{{
			Owner: check.User, Message: fmt.Sprintf("pod %s was ended after the %s that its own deadline gives it on a node", c.Pod.Name, wording.Number(*most, "second")),
			Evidence: []facts.Evidence{{Object: facts.RefTo(c.Pod).In(), Field: "spec.activeDeadlineSeconds", Value: fmt.Sprint(*most)}, life.Failure(c)},
			Advice:   "Give the pod a longer activeDeadlineSeconds, or none; a Job's own, beside its template, is for all its pods together.",
		}}
	}
	for _, m := range c.Owners {
		if u, ok := m.(*unstructured.Unstructured); ok {
			if f, ok := foreignGaveUp(c, u); ok {
				return []check.Finding{f}
			}
		}
		j, ok := m.(*batchv1.Job)
		if ok && facts.JobEnded(j) == "" {
			if f, ok := lostIndexes(c, j); ok {
				return []check.Finding{f}
			}
		}
		if !ok || facts.JobEnded(j) != batchv1.JobFailed {
			continue
		}
		for _, s := range j.Status.Conditions {
			if s.Type != batchv1.JobFailed || s.Status != corev1.ConditionTrue {
				continue
			}
			f := check.Finding{
				Message:  gaveUp(c, j, &s),
				Evidence: []facts.Evidence{{Object: facts.RefTo(j).In(), Field: "status.conditions[Failed]", Value: s.Reason + ": " + s.Message}},
			}
			if s.Reason == batchv1.JobReasonDeadlineExceeded {
				f.Owner, f.Advice = check.User, "Create the Job again with a longer activeDeadlineSeconds, which counts waiting too."
			}
			return []check.Finding{f}
		}
	}
	return nil
}

// lostIndexes is about an Indexed Job some of whose indexes have failed for good: it lets the others end, and fails then.
func lostIndexes(c *check.Case, j *batchv1.Job) (check.Finding, bool) {
	lost := facts.FailedIndexes(j)
	if len(lost) == 0 {
		return check.Finding{}, false
	}
	text := ptr.Deref(j.Status.FailedIndexes, "")
	return check.Finding{
		Message: fmt.Sprintf("job %s makes no more pods for %s, which failed for good, and fails once the others have ended%s", j.Name,
			wording.InNumber(len(lost), "index "+text, fmt.Sprintf("%d of its indexes (%s)", len(lost), text)), failedContainer(c)),
		Evidence: []facts.Evidence{
			{Object: facts.RefTo(j).In(), Field: "status.failedIndexes", Value: text},
			{Object: facts.RefTo(j).In(), Field: "spec.backoffLimitPerIndex", Value: fmt.Sprint(ptr.Deref(j.Spec.BackoffLimitPerIndex, 0))},
		},
		Advice: "Find out why the pod of that index failed, then create the Job again. Work whose ranks need each other does not get on without it: delete the Job, so that it holds no GPUs.",
	}, true
}

// foreignGaveUp is about work of another project, such as a JobSet, that says in a condition, or in a word, that it has failed for good, and
// has no pod of which more is known.
func foreignGaveUp(c *check.Case, u *unstructured.Unstructured) (check.Finding, bool) {
	for _, k := range facts.ConditionsOf(u) {
		if !saysFailed(u, k) || k.Status != string(metav1.ConditionTrue) {
			continue
		}
		f := check.Finding{
			Message:  fmt.Sprintf("%s gave up", facts.RefTo(u)),
			Evidence: []facts.Evidence{{Object: facts.RefTo(u).In(), Field: k.Field, Value: k.Reason + ": " + k.Message}},
			Advice:   "Find out why its pods failed, then create it again.",
		}
		if k.Reason == batchv1.JobReasonDeadlineExceeded {
			f.Owner, f.Advice = check.User, "Create it again with a longer activeDeadlineSeconds, which counts waiting too."
		}
		if !k.Since.IsZero() {
			f.Message += " at " + k.Since.UTC().Format("2006-01-02 15:04 MST")
		}
		if said := cmp.Or(k.Message, k.Reason); said != "" {
			f.Message += ": " + wording.Shortened(wording.OneLine(said), 200)
		}
		f.Message += failedContainer(c)
		if field, name, there := namesNothing(c.Facts, u, k.Message); field != "" {
			f.Owner, f.Advice = check.User, fmt.Sprintf("Create it again with another name in %s than %s; there is: %s.", field, name, there)
			f.Evidence = append(f.Evidence, facts.Evidence{Object: facts.RefTo(u).In(), Field: field, Value: name})
		}
		return f, true
	}
	return check.Finding{}, false
}

// saysFailed says whether the condition is that the object has failed; one in a word, such as a RayJob's jobDeploymentStatus, counts only of
// work that is over: others fail and are tried again.
func saysFailed(u *unstructured.Unstructured, k facts.Condition) bool {
	_, word, _ := strings.Cut(k.Type, " ")
	return k.Type == "Failed" || strings.EqualFold(word, "failed") && facts.Over(u)
}

// gaveUp says why the Job ended.
func gaveUp(c *check.Case, j *batchv1.Job, s *batchv1.JobCondition) string {
	when := s.LastTransitionTime.UTC().Format("2006-01-02 15:04 MST")
	text := fmt.Sprintf("job %s gave up at %s: %s", j.Name, when, cmp.Or(s.Message, s.Reason))
	switch s.Reason {
	case batchv1.JobReasonBackoffLimitExceeded:
		text = fmt.Sprintf("job %s gave up at %s, after %s; it allows %d %s", j.Name, when, wording.Number(j.Status.Failed, "failed pod"), ptr.Deref(j.Spec.BackoffLimit, 6), wording.InNumber(ptr.Deref(j.Spec.BackoffLimit, 6), "retry", "retries"))
	case batchv1.JobReasonDeadlineExceeded:
		text = fmt.Sprintf("job %s gave up at %s: it was longer than its deadline of %s, waiting included", j.Name, when, wording.Number(ptr.Deref(j.Spec.ActiveDeadlineSeconds, 0), "second"))
	}
	return text + failedContainer(c)
}

// failedContainer names a container of the work that failed; "" for none.
func failedContainer(c *check.Case) string {
	for _, p := range c.All {
		for _, at := range life.ContainersOf(p) {
			if t := at.Ended(); t != nil && t.ExitCode != 0 {
				return fmt.Sprintf("; container %s of pod %s ended with exit code %d (%s)", at.Name, p.Name, t.ExitCode, t.Reason)
			}
		}
	}
	return ""
}
