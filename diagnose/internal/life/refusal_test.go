package life

import (
	"strings"
	"testing"
)

// TestReadRefusal holds the reading of the API server's words, as controllers of several projects pass them on.
func TestReadRefusal(t *testing.T) {
	for _, c := range []struct {
		said    string
		by      refuser
		name    string
		text    string
		binding string
	}{
		{`Error creating: pods "a-x" is forbidden: exceeded quota: team-a, requested: requests.nvidia.com/gpu=8, used: requests.nvidia.com/gpu=12, limited: requests.nvidia.com/gpu=16`,
			ByQuota, "team-a", "requested: requests.nvidia.com/gpu=8, used: requests.nvidia.com/gpu=12, limited: requests.nvidia.com/gpu=16", ""},
		{`create Pod ps-0 in StatefulSet ps failed error: pods "ps-0" is forbidden: failed quota: q: must specify limits.cpu for: main`,
			ByQuota, "q", "must specify limits.cpu for: main", ""},
		{`pods "x" is forbidden: status unknown for quota: q, resources: requests.nvidia.com/gpu`, ByQuota, "q", "resources: requests.nvidia.com/gpu", ""},
		{`Error creating: pods "a-x" is forbidden: maximum nvidia.com/gpu usage per Container is 4, but limit is 8`,
			ByLimitRange, "", "maximum nvidia.com/gpu usage per Container is 4, but limit is 8", ""},
		{`Error creating: pods "a-x" is forbidden: [minimum cpu usage per Pod is 2, but request is 1, maximum memory usage per Pod is 1Gi.  No limit is specified]`,
			ByLimitRange, "", "minimum cpu usage per Pod is 2, but request is 1, maximum memory usage per Pod is 1Gi.  No limit is specified]", ""},
		{`pods "x" is forbidden: cpu max limit to request ratio per Container is 2, but provided ratio is 4.000000`,
			ByLimitRange, "", "cpu max limit to request ratio per Container is 2, but provided ratio is 4.000000", ""},
		{`Error creating: admission webhook "validate.kyverno.svc-fail" denied the request: a: b`, ByWebhook, "validate.kyverno.svc-fail", "a: b", ""},
		{`Error creating: admission webhook "w" denied the request without explanation`, ByWebhook, "w", "without explanation", ""},
		{`Error creating: pods "a-x" is forbidden: ValidatingAdmissionPolicy 'gpu-label' with binding 'all' denied request: label team is missing`,
			ByPolicy, "gpu-label", "label team is missing", "all"},
		{`pods "x" is forbidden: ValidatingAdmissionPolicy 'p' denied request: no`, ByPolicy, "p", "no", ""},
		{`Error creating: pods "a-x" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true`, ByPodSecurity, "restricted:latest", "runAsNonRoot != true", ""},
		{`Error creating: Internal error occurred: failed calling webhook "w.example.com": failed to call webhook: Post "https://w.ns.svc:443/": context deadline exceeded`,
			ByBrokenWebhook, "w.example.com", `failed to call webhook: Post "https://w.ns.svc:443/": context deadline exceeded`, ""},
		{`Internal error occurred: failed calling webhook "w"; no further details available`, ByBrokenWebhook, "w", "no further details available", ""},
		{`Error creating: pods "a-x" is forbidden: no PriorityClass with name high was found`, ByPriorityClass, "high", "no PriorityClass with name high was found", ""},
		{`Error creating: pods "a-x" is forbidden: pod rejected: RuntimeClass "nvidia" not found`, ByRuntimeClass, "nvidia", `pod rejected: RuntimeClass "nvidia" not found`, ""},
		{`Error creating: pods "a-x" is forbidden: error looking up service account team/trainer: serviceaccount "trainer" not found`,
			ByServiceAccount, "trainer", `serviceaccount "trainer" not found`, ""},
		{`Error creating: pods "a-x" is forbidden: unable to create new content in namespace team because it is being terminated`,
			ByNamespace, "team", "unable to create new content in namespace team because it is being terminated", ""},
		{`Error creating: pods is forbidden: User "system:serviceaccount:kubeflow:op" cannot create resource "pods" in API group "" in the namespace "team"`,
			ByRights, "system:serviceaccount:kubeflow:op", `cannot create resource "pods" in API group "" in the namespace "team"`, ""},
		{`Error creating: Pod "a-master-0" is invalid: spec.containers[0].resources.requests: Invalid value: "1": must be equal to nvidia.com/gpu limit of 2`,
			ByValidation, "", `spec.containers[0].resources.requests: Invalid value: "1": must be equal to nvidia.com/gpu limit of 2`, ""},
		{`Failed to create head Pod team/ray-head, Pod "ray-head" is invalid: spec.containers[0].image: Required value`, ByValidation, "", "spec.containers[0].image: Required value", ""},
		{`Failed to create RayCluster team/a: Internal error occurred: conversion webhook for ray.io/v1, Kind=RayCluster failed: Post "https://w.ray.svc:443/convert?timeout=30s": connect: connection refused`,
			ByConversion, "ray.io/v1, Kind=RayCluster", `Post "https://w.ray.svc:443/convert?timeout=30s": connect: connection refused`, ""},
		{`create Pod a-0 in StatefulSet a failed error: pods "a-0" already exists`, ByName, "a-0", `pods "a-0" already exists`, ""},
		{`create Pod a-0 in StatefulSet a failed error: object is being deleted: pods "a-0" already exists`, ByName, "a-0", `pods "a-0" already exists`, ""},
		{`Error creating: pods "a-x" is forbidden: something new`, ByOther, "", "something new", ""},
	} {
		got, ok := ReadRefusal(c.said)
		if !ok || got.By != c.by || got.Name != c.name || got.Text != c.text || got.Binding != c.binding {
			t.Errorf("%s\n got %q %q %q %q %v\nwant %q %q %q %q", c.said, got.By, got.Name, got.Binding, got.Text, ok, c.by, c.name, c.binding, c.text)
		}
	}
	for _, said := range []string{"", "Created pod: a-x", "0/7 nodes are available: 7 Insufficient nvidia.com/gpu.", "Error creating: Timeout: request did not complete within requested timeout"} {
		if got, ok := ReadRefusal(said); ok {
			t.Errorf("%q reads as a refusal by %s", said, got.By)
		}
	}
}

// FuzzReadRefusal holds that any text can be read, that what is read is of the text, and that a prefix does not matter.
func FuzzReadRefusal(f *testing.F) {
	f.Add(`pods "a" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1`)
	f.Add(`admission webhook "w" denied the request: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: x`)
	f.Add(`failed calling webhook "": `)
	f.Add("violates PodSecurity \"a\": \n\xff")
	f.Fuzz(func(t *testing.T, said string) {
		r, ok := ReadRefusal(said)
		if !ok {
			return
		}
		if !strings.Contains(said, r.Name) || !strings.Contains(said, r.Text) || !strings.Contains(said, r.Binding) {
			t.Errorf("%q: %+v is not of the text", said, r)
		}
		if again, ok := ReadRefusal("Error creating: " + said); !ok || again.By != r.By || again.Name != r.Name {
			t.Errorf("%q reads differently after a prefix: %+v, %+v", said, r, again)
		}
	})
}
