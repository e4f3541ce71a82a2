package workload

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// What older versions say in another shape is read as the same.
func TestOlderVersionsOfClaims(t *testing.T) {
	for name, c := range map[string]struct{ older, want string }{
		"a claim": {
			"{apiVersion: resource.k8s.io/v1beta1, kind: ResourceClaim, metadata: {name: c}, spec: {devices: {requests: [{name: a, deviceClassName: x, count: 2, allocationMode: ExactCount, selectors: [{cel: {expression: 'true'}}]}, {name: b, firstAvailable: [{name: s, deviceClassName: z}]}], constraints: [{requests: [a], matchAttribute: d/e}]}}}",
			"{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: c}, spec: {devices: {requests: [{name: a, exactly: {deviceClassName: x, count: 2, allocationMode: ExactCount, selectors: [{cel: {expression: 'true'}}]}}, {name: b, firstAvailable: [{name: s, deviceClassName: z}]}], constraints: [{requests: [a], matchAttribute: d/e}]}}}",
		},
		"a template": {
			"{apiVersion: resource.k8s.io/v1beta1, kind: ResourceClaimTemplate, metadata: {name: c}, spec: {spec: {devices: {requests: [{name: a, deviceClassName: x}]}}}}",
			"{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: {name: c}, spec: {spec: {devices: {requests: [{name: a, exactly: {deviceClassName: x}}]}}}}",
		},
		"v1beta2": {
			"{apiVersion: resource.k8s.io/v1beta2, kind: ResourceClaim, metadata: {name: c}, spec: {devices: {requests: [{name: a, exactly: {deviceClassName: x}}]}}}",
			"{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: c}, spec: {devices: {requests: [{name: a, exactly: {deviceClassName: x}}]}}}",
		},
		"a slice": {
			"{apiVersion: resource.k8s.io/v1beta1, kind: ResourceSlice, metadata: {name: c}, spec: {driver: d, nodeName: node, pool: {name: node, generation: 1, resourceSliceCount: 1}, devices: [{name: g, basic: {attributes: {kind: {string: big}}, capacity: {memory: {value: 8Gi}}}}]}}",
			"{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: c}, spec: {driver: d, nodeName: node, pool: {name: node, generation: 1, resourceSliceCount: 1}, devices: [{name: g, attributes: {kind: {string: big}}, capacity: {memory: {value: 8Gi}}}]}}",
		},
	} {
		t.Run(name, func(t *testing.T) {
			read := func(text string) any {
				u := &unstructured.Unstructured{}
				if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
					t.Fatal(err)
				}
				o, err := Typed(u, "default")
				if err != nil {
					t.Fatal(err)
				}
				u.SetAPIVersion("")
				o.GetObjectKind().SetGroupVersionKind(u.GroupVersionKind())
				return o
			}
			if diff := cmp.Diff(read(c.want), read(c.older)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Whatever is under those versions, reading it ends, and nothing that was given is written to.
func FuzzOlderVersions(f *testing.F) {
	f.Add(`{"devices": {"requests": [{"name": "a", "deviceClassName": "x"}, 3]}, "spec": {"devices": [{"basic": {}}]}}`)
	f.Fuzz(func(t *testing.T, spec string) {
		var tree any
		if yaml.Unmarshal([]byte(spec), &tree) != nil {
			return
		}
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "resource.k8s.io/v1beta1", "kind": "ResourceClaim", "spec": tree}}
		before, _ := u.MarshalJSON()
		asV1(u)
		if after, _ := u.MarshalJSON(); string(before) != string(after) {
			t.Errorf("%s is %s now", before, after)
		}
	})
}
