package kueue

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/kube/dialect"
)

// workloadName is that of the Workload of an object: its kind, its name, and five digits that follow from its UID.
func workloadName(kind, name string, uid types.UID) string {
	sum := sha256.Sum256([]byte(uid))
	name = kind + "-" + name
	return name[:min(len(name), maxWorkload)] + "-" + hex.EncodeToString(sum[:])[:5]
}

// maxWorkload leaves room for the digits: names of objects have 253 characters.
const maxWorkload = 240

// makeWorkload is the Workload that Kueue would make. Of the pods' template it has what they request: a Workload is for people.
func makeWorkload(ref *dialect.GroupRef, by dialect.Owner, count int, local, class string, pod *corev1.PodSpec) *unstructured.Unstructured {
	version := "apps/v1"
	switch {
	case by.APIVersion != "":
		version = by.APIVersion
	case by.Kind == "Job":
		version = "batch/v1"
	case by.Kind == "Pod":
		version = "v1"
	}
	containers := make([]any, 0, len(pod.Containers))
	for i := range pod.Containers {
		c := &pod.Containers[i]
		containers = append(containers, map[string]any{"name": c.Name, "image": c.Image, "resources": map[string]any{"requests": amounts(c.Resources.Requests)}})
	}
	spec := map[string]any{
		"queueName": local, "active": true,
		"podSets": []any{map[string]any{"name": "main", "count": int64(count), "template": map[string]any{"spec": map[string]any{"containers": containers}}}},
	}
	if class != "" {
		spec["priorityClassRef"] = map[string]any{"group": domain, "kind": "WorkloadPriorityClass", "name": class}
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": domain + "/v1beta2", "kind": "Workload",
		"metadata": map[string]any{
			"name": ref.Name, "namespace": ref.Namespace,
			"labels":          map[string]any{"app.kubernetes.io/managed-by": "berth", jobUIDKey: string(by.UID)},
			"ownerReferences": []any{map[string]any{"apiVersion": version, "kind": by.Kind, "name": by.Name, "uid": string(by.UID), "controller": true}},
		},
		"spec": spec,
	}}
}

func amounts(list corev1.ResourceList) map[string]any {
	out := make(map[string]any, len(list))
	for _, name := range slices.Sorted(maps.Keys(list)) {
		q := list[name]
		out[string(name)] = q.String()
	}
	return out
}
