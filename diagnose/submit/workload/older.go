package workload

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

// asV1 is an object of resource.k8s.io/v1beta1 as v1 has it, and any other as it is: what a request asks for stood beside its name, and what
// a device has under basic (k8s.io/api, resource/v1beta1/types.go).
func asV1(u *unstructured.Unstructured) *unstructured.Unstructured {
	if u.GetAPIVersion() != "resource.k8s.io/v1beta1" {
		return u
	}
	out := u.DeepCopy()
	for _, path := range [][]string{{"spec", "devices", "requests"}, {"spec", "spec", "devices", "requests"}} {
		each(out.Object, path, func(request map[string]any) {
			if _, said := request["exactly"]; said || request["deviceClassName"] == nil {
				return
			}
			exactly := make(map[string]any)
			for key, value := range request { //archtest:any-order each has its own key
				if key != "name" && key != "firstAvailable" {
					exactly[key] = value
					delete(request, key)
				}
			}
			request["exactly"] = exactly
		})
	}
	each(out.Object, []string{"spec", "devices"}, func(device map[string]any) {
		basic, ok := device["basic"].(map[string]any)
		if !ok {
			return
		}
		delete(device, "basic")
		for key, value := range basic { //archtest:any-order each has its own key
			device[key] = value
		}
	})
	return out
}

// each calls do for the objects of the list at the path.
func each(at map[string]any, path []string, do func(map[string]any)) {
	for _, key := range path[:len(path)-1] {
		below, ok := at[key].(map[string]any)
		if !ok {
			return
		}
		at = below
	}
	list, _ := at[path[len(path)-1]].([]any)
	for _, item := range list {
		if m, ok := item.(map[string]any); ok {
			do(m)
		}
	}
}
