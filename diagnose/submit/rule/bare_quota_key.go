package rule

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
)

var bareQuotaKey = Rule{
	Code: "B111", Name: "quota-key-without-requests",
	Title: "A quota of devices that counts nothing",
	Why:   "A ResourceQuota counts devices only under requests.NAME. The bare name is taken and counts nothing: the namespace has as much as it can get.",
	find:  quotasOfNamespace,
	of:    findBareQuotaKey,
}

func findBareQuotaKey(_ *World, object map[string]any) (out []Finding) {
	if object["kind"] != "ResourceQuota" || object["apiVersion"] != "v1" {
		return nil
	}
	spec, _ := object["spec"].(map[string]any)
	hard, _ := spec["hard"].(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(hard)) {
		counts, idle := countingKey(key)
		if !idle || hard[counts] != nil {
			continue
		}
		out = append(out, Finding{
			Path: edit.Pointer("spec", "hard", key), Message: fmt.Sprintf("%s counts nothing: only %s does", key, counts),
			Patch: []edit.Op{{Op: "remove", Path: edit.Pointer("spec", "hard", key)}, {Op: "add", Path: edit.Pointer("spec", "hard", counts), Value: hard[key]}},
		})
	}
	return out
}

// countingKey is the key that would count what a key of a quota, which counts nothing, is about; false: it counts, or is about
// no device. Keys of storage classes, device classes and the like are of Kubernetes' own groups.
func countingKey(key string) (string, bool) {
	name := strings.TrimPrefix(key, "limits.")
	group, _, _ := strings.Cut(name, "/")
	if !podspec.Extended(corev1.ResourceName(name)) || group == "count" || strings.HasSuffix(group, "k8s.io") {
		return "", false
	}
	return corev1.DefaultResourceRequestsPrefix + name, true
}

// quotasOfNamespace tells the author of work for a namespace that its quota counts nothing.
func quotasOfNamespace(c *Case) (out []Finding) {
	for _, q := range c.ResourceQuotas {
		if q.Namespace != c.Workload.Ref.Namespace || strings.HasPrefix(string(q.UID), "submitted-") {
			continue
		}
		for _, key := range podspec.Names(q.Spec.Hard) {
			counts, idle := countingKey(string(key))
			if _, ok := q.Spec.Hard[corev1.ResourceName(counts)]; idle && !ok {
				out = append(out, Finding{Path: "/metadata", Message: fmt.Sprintf("quota %s of namespace %s has %s, which counts nothing: only %s does", q.Name, q.Namespace, key, counts)})
			}
		}
	}
	return out
}
