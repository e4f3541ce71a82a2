package rule

import (
	"fmt"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/internal/place"
)

var unknownClass = Rule{
	Code: "B114", Name: "no-such-device-class",
	Title: "A claim of devices of a class that does not exist",
	Why:   "The API server takes a ResourceClaim or a ResourceClaimTemplate whatever class it names. Every pod that uses it waits until the class exists.",
	of:    findUnknownClass,
}

func findUnknownClass(w *World, object map[string]any) (out []Finding) {
	at := []string{"spec", "devices", "requests"}
	u := &unstructured.Unstructured{Object: object}
	switch gvk := u.GroupVersionKind(); {
	case gvk.Group != resourcev1.GroupName || !w.Sees("deviceclasses.resource.k8s.io", ""):
		return nil
	case gvk.Kind == "ResourceClaimTemplate":
		at = append([]string{"spec"}, at...)
	case gvk.Kind != "ResourceClaim":
		return nil
	}
	check := func(ask map[string]any, path string) {
		class, _ := ask["deviceClassName"].(string)
		if class == "" || place.Named(w.DeviceClasses, "", class) != nil {
			return
		}
		f := Finding{Path: path + "/deviceClassName", Message: fmt.Sprintf("there is no device class %s", class), Advice: "Name a class that exists (kubectl get deviceclasses), or have the class made."}
		for _, c := range w.DeviceClasses {
			if place.Misspelt(class, c.Name) {
				f.Message += fmt.Sprintf("; there is %s", c.Name)
				f.Patch = []edit.Op{{Op: "replace", Path: f.Path, Value: c.Name}}
				break
			}
		}
		out = append(out, f)
	}
	requests, _, _ := unstructured.NestedSlice(object, at...)
	for i, r := range requests {
		ask, _ := r.(map[string]any)
		path := fmt.Sprintf("%s/%d", edit.Pointer(at...), i)
		check(ask, path) // as v1beta1 has it
		if exactly, ok := ask["exactly"].(map[string]any); ok {
			check(exactly, path+"/exactly")
		}
		first, _ := ask["firstAvailable"].([]any)
		for j, s := range first {
			sub, _ := s.(map[string]any)
			check(sub, fmt.Sprintf("%s/firstAvailable/%d", path, j))
		}
	}
	return out
}
