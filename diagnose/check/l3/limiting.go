package l3

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/place"
)

// limiting are the operations that give a container a limit.
func limiting(c *check.Case, at *life.Container, name corev1.ResourceName, amount resource.Quantity) []edit.Op {
	for _, w := range slices.Concat(place.Written(c).Spec.InitContainers, place.Written(c).Spec.Containers) {
		if w.Name == at.Name && w.Resources.Limits != nil {
			return []edit.Op{{Op: "add", Path: at.Path("resources", "limits", string(name)), Value: amount.String()}}
		}
	}
	return []edit.Op{{Op: "add", Path: at.Path("resources", "limits"), Value: map[string]string{string(name): amount.String()}}}
}
