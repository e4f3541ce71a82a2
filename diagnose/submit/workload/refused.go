package workload

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/engine/why"
)

// Fault is something in a pod for which the API server refuses it. The object that makes the pod is taken all the same.
type Fault struct {
	Cause   why.Cause
	Message string
	Edit    string    // what would do away with it
	Patch   []edit.Op // of the object
	Whole   bool      // the object is not taken either
	Taken   bool      // the pod is, and does not run
}

// Refused looks at the part's pods, with their defaults, for names and amounts of resources that the API server does not take; nil: it
// takes them. Where there is an API server it is asked, and knows more.
func Refused(p *Part) *Fault {
	var all *Fault
	pod := p.Pods[0]
	if len(pod.Spec.Containers) == 0 {
		return &Fault{Cause: invalidManifest, Message: "spec of its pods.containers: there are none: the API server refuses such a pod"}
	}
	if err := firstOf(invalidLabels("labels of its pods", pod.Labels), invalidKeys("annotations of its pods", pod.Annotations), invalidNames("spec of its pods", &pod.Spec)); err != nil {
		all = &Fault{Cause: invalidManifest, Message: err.Error()}
	}
	for _, list := range []struct {
		field string
		all   []corev1.Container
	}{{"initContainers", pod.Spec.InitContainers}, {"containers", pod.Spec.Containers}} {
		for i := range list.all {
			if f := refused(&list.all[i], fmt.Sprintf("%s/spec/%s/%d/resources", p.Template, list.field, i)); f != nil {
				all = all.And(f)
			}
		}
	}
	return all
}

// And is both faults, in the words of the first.
func (f *Fault) And(other *Fault) *Fault {
	if f == nil || other == nil {
		return cmp.Or(f, other)
	}
	both := &Fault{Cause: f.Cause, Message: f.Message, Whole: f.Whole || other.Whole, Taken: f.Taken && other.Taken}
	if f.Edit != "" && other.Edit != "" { // to mend one alone does not help
		both.Edit, both.Patch = f.Edit+"; "+other.Edit, slices.Concat(f.Patch, other.Patch)
	}
	return both
}

// requestInvalid is the cause that diagnose has for it too.
const requestInvalid why.Cause = "gpu-request-invalid"

func refused(c *corev1.Container, path string) *Fault {
	for _, name := range podspec.Names(c.Resources.Requests) {
		request := c.Resources.Requests[name]
		limit, limited := c.Resources.Limits[name]
		device := podspec.Extended(name)
		set := func(field, text string, to any) *Fault {
			return &Fault{Cause: requestInvalid, Message: text, Edit: fmt.Sprintf("set %s of %s of container %s to %v", field, name, c.Name, to), Patch: []edit.Op{{Op: "add", Path: path + edit.Pointer(field, string(name)), Value: to}}}
		}
		switch {
		case device && request.MilliValue()%1000 != 0:
			whole := fmt.Sprint(request.Value()) // rounded up
			f := set("limits", fmt.Sprintf("container %s asks for %s %s, and devices are whole", c.Name, &request, name), whole)
			f.Patch = append(f.Patch, edit.Op{Op: "add", Path: path + edit.Pointer("requests", string(name)), Value: whole})
			return f
		case device && !limited:
			return set("limits", fmt.Sprintf("container %s requests %s %s and has no limit of it", c.Name, &request, name), request.String())
		case device && request.Cmp(limit) != 0:
			return set("requests", fmt.Sprintf("container %s requests %s %s and has a limit of %s: devices cannot be overcommitted", c.Name, &request, name, &limit), limit.String())
		case limited && request.Cmp(limit) > 0:
			f := set("requests", fmt.Sprintf("container %s requests %s %s, more than its limit of %s", c.Name, &request, name, &limit), limit.String())
			f.Cause = "invalid-manifest"
			return f
		}
	}
	return nil
}
