package l3

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var quotaKeyIneffectiveCheck = check.Check{
	Cause: "quota-key-ineffective", Layer: check.L3, Owner: check.Scheduler, Stage: check.Place, Rank: 75,
	Title:   "A quota that counts nothing lets another namespace take too much",
	Meaning: "A ResourceQuota counts GPUs only under a key that starts with requests. as in requests.nvidia.com/gpu. The bare name is accepted and never counted, so that the namespace may use more than was meant.",
	Remedy:  "Rename the key, then have the namespace give back what is above it.",
	Not:     "The cluster is too small for what was promised.",
	Find:    quotaKeyIneffective,
}

func quotaKeyIneffective(c *check.Case) []check.Finding {
	fit := c.Fit
	if fit == nil || fit.Placed() || !c.Sees("resourcequotas", "") {
		return nil
	}
	asks := podspec.TotalRequests(place.AsCreated(c))
	var out []check.Finding
	for _, q := range c.ResourceQuotas {
		for _, key := range podspec.Names(q.Spec.Hard) {
			hard := q.Spec.Hard[key]
			if _, wanted := asks[key]; !wanted || !podspec.Extended(key) {
				continue
			}
			if _, both := q.Spec.Hard["requests."+key]; both {
				continue
			}
			if f := aboveQuota(c, q, key, hard); f != nil {
				out = append(out, *f)
			}
		}
	}
	return out
}

// aboveQuota compares what the namespace's pods hold with what was meant.
func aboveQuota(c *check.Case, q *corev1.ResourceQuota, key corev1.ResourceName, hard resource.Quantity) *check.Finding {
	var holders []*corev1.Pod
	held := resource.Quantity{}
	for _, p := range c.Pods {
		ask := podspec.TotalRequests(p)[key]
		if p.Namespace == q.Namespace && p.Spec.NodeName != "" && !facts.Ended(p) && !ask.IsZero() {
			held.Add(ask)
			holders = append(holders, p)
		}
	}
	if held.Cmp(hard) <= 0 {
		return nil
	}
	slices.SortFunc(holders, func(a, b *corev1.Pod) int { // the newest go first
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	var gone []facts.Object
	var called []string
	left := held.DeepCopy()
	for _, p := range holders {
		if left.Cmp(hard) <= 0 {
			break
		}
		left.Sub(podspec.TotalRequests(p)[key])
		gone, called = append(gone, p), append(called, p.Name)
	}
	fixed := q.DeepCopy()
	delete(fixed.Spec.Hard, key)
	delete(fixed.Status.Hard, key)
	for _, list := range []*corev1.ResourceList{&fixed.Spec.Hard, &fixed.Status.Hard, &fixed.Status.Used} {
		if *list == nil {
			*list = corev1.ResourceList{}
		}
	}
	fixed.Spec.Hard["requests."+key], fixed.Status.Hard["requests."+key], fixed.Status.Used["requests."+key] = hard, hard, left
	hardWord := fmt.Sprintf("spec.hard[%q]", key)
	return &check.Finding{
		Fit:      true,
		Message:  fmt.Sprintf("quota %s of namespace %s has %s: %s, which counts nothing, as only requests.%s would; pods of the namespace hold %s", q.Name, q.Namespace, key, &hard, key, &held),
		Evidence: []facts.Evidence{{Object: facts.RefTo(q).In(), Field: hardWord, Value: hard.String()}},
		Edits: []edit.Edit{{
			Side: edit.Cluster, Cost: 7, Set: []facts.Object{fixed}, Gone: gone,
			Text:    fmt.Sprintf("rename %s of quota %s in namespace %s to requests.%s, and delete the pods above it: %s", key, q.Name, q.Namespace, key, wording.AtMost(4, called)),
			Command: edit.PatchLine(q, "merge", map[string]any{"spec": map[string]any{"hard": map[string]any{string(key): nil, "requests." + string(key): hard.String()}}}) + fmt.Sprintf("\nkubectl delete pod %s -n %s", strings.Join(called, " "), q.Namespace),
			Assumes: fmt.Sprintf("namespace %s may not have more than %s, as its quota says", q.Namespace, &hard),
		}},
	}
}
