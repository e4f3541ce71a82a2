package rule

import (
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/internal/wording"
	"github.com/berth-dev/berth/diagnose/submit/workload"
)

var countedReclaims = Rule{
	Code: "B113", Name: "reclaims-count-as-failures",
	Title: "A Job that ends after a few reclaims",
	Why:   "Every pod that is taken back counts as a failure against backoffLimit, which is 6 where the Job does not say. A Job of many pods reaches it with the first reclaim, and then fails for good, though nothing was wrong with it.",
	find:  findCountedReclaims,
}

// fewReclaims is up to how many reclaims a Job has to stand to be left in peace.
const fewReclaims = 6

func findCountedReclaims(c *Case) (out []Finding) {
	c.each(func(p *workload.Part, pod *corev1.Pod) {
		j, ok := p.Maker.(*batchv1.Job)
		by := c.Reclaimed
		if key := spotKey(pod); by == "" && key != "" {
			by = "it is for nodes that a cloud takes back (" + key + ")"
		}
		if !ok || by == "" || j.Spec.BackoffLimitPerIndex != nil || forgives(j) {
			return
		}
		limit, pods := int(ptr.Deref(j.Spec.BackoffLimit, 6)), max(1, p.Wanted)
		reclaims := limit/pods + 1 // it fails with more failures than the limit
		if limit == 0 || reclaims > fewReclaims+1 {
			return // of 0, another rule speaks
		}
		at := strings.TrimSuffix(p.Template, "/template")
		said := fmt.Sprintf("backoffLimit is %d", limit)
		if written(c.Object, at+"/backoffLimit") == nil {
			said += " by default"
		}
		f := Finding{
			Path:    at + "/backoffLimit",
			Message: fmt.Sprintf("%s, and a reclaim of its %s counts as %s: %s the Job (%s)", said, wording.Pods(pods), wording.Number(pods, "failure"), wording.InNumber(reclaims, "the first one ends", fmt.Sprintf("%d of them end", reclaims)), by),
		}
		f.Advice, f.Patch = forgiving(j, pod, at)
		out = append(out, f)
	})
	return out
}

// written is the value at the pointer, whose keys have no slashes; nil: there is none.
func written(object map[string]any, pointer string) any {
	var at any = object
	for key := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		m, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = m[key]
	}
	return at
}

// forgiving is the advice, and where it is one change of the file the patch, by which a Job leaves evictions out of its count. The API
// server takes a podFailurePolicy only of pods that are not restarted in place.
func forgiving(j *batchv1.Job, pod *corev1.Pod, at string) (string, []edit.Op) {
	if pod.Spec.RestartPolicy != corev1.RestartPolicyNever || j.Spec.PodFailurePolicy != nil {
		return "Raise backoffLimit, or give the Job a podFailurePolicy that ignores DisruptionTarget.", nil
	}
	return "Have the Job leave evictions out of its count of failures.", []edit.Op{{Op: "add", Path: at + "/podFailurePolicy", Value: map[string]any{"rules": []any{map[string]any{
		"action": string(batchv1.PodFailurePolicyActionIgnore), "onPodConditions": []any{map[string]any{"type": string(corev1.DisruptionTarget)}},
	}}}}}
}
