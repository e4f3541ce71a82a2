package diagnose

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/diagnose/edit"
)

// asking are the operations after which the container asks for this much of the resource. What the template leaves
// to the API server is left to it.
func (c *Case) asking(container int, name corev1.ResourceName, amount resource.Quantity) []edit.Op {
	var out []edit.Op
	written := c.written().Spec.Containers
	if container >= len(written) {
		return nil
	}
	r := &written[container].Resources
	at := func(list string) string {
		return edit.Pointer("spec", "containers", strconv.Itoa(container), "resources", list, string(name))
	}
	_, limited := r.Limits[name]
	_, requested := r.Requests[name]
	if limited {
		out = append(out, edit.Op{Op: "replace", Path: at("limits"), Value: amount.String()})
	}
	if requested {
		out = append(out, edit.Op{Op: "replace", Path: at("requests"), Value: amount.String()})
	}
	return out
}

// limiting are the operations that give a container a limit.
func (c *Case) limiting(at *container, name corev1.ResourceName, amount resource.Quantity) []edit.Op {
	for _, w := range slices.Concat(c.written().Spec.InitContainers, c.written().Spec.Containers) {
		if w.Name == at.Name && w.Resources.Limits != nil {
			return []edit.Op{{Op: "add", Path: at.path("resources", "limits", string(name)), Value: amount.String()}}
		}
	}
	return []edit.Op{{Op: "add", Path: at.path("resources", "limits"), Value: map[string]string{string(name): amount.String()}}}
}
