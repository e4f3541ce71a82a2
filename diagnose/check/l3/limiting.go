package l3

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/life"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
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

// limitedBelowRequest is about containers that request more than the limit that a LimitRange gives them, as they set none.
func limitedBelowRequest(c *check.Case) (out []check.Finding) {
	if c.Exists {
		return nil
	}
	limited := func(at *life.Container, name corev1.ResourceName) bool {
		return slices.ContainsFunc(life.ContainersOf(place.Written(c)), func(w life.Container) bool {
			_, ok := w.Resources.Limits[name]
			return ok && w.Name == at.Name
		})
	}
	for _, at := range life.ContainersOf(place.AsCreated(c)) {
		for _, name := range podspec.Names(at.Resources.Limits) {
			limit, request := at.Resources.Limits[name], at.Resources.Requests[name]
			if request.Cmp(limit) <= 0 || limited(&at, name) {
				continue
			}
			l := limitsByDefault(c, name)
			if l == nil {
				continue
			}
			out = append(out, check.Finding{
				Message:  fmt.Sprintf("%s requests %s %s and sets no limit, and LimitRange %s of namespace %s gives it one of %s, which is less", at.Noun(), &request, name, l.Name, l.Namespace, &limit),
				Evidence: []facts.Evidence{{Object: facts.RefTo(l).In(), Field: fmt.Sprintf("spec.limits.default[%q]", name), Value: limit.String()}},
				Edits:    []edit.Edit{{Side: edit.Workload, Cost: edit.CostSmall, Text: fmt.Sprintf("give %s a %s limit of %s", at.Noun(), name, &request), Ops: limiting(c, &at, name, request)}},
			})
		}
	}
	return out
}

// limitsByDefault is the LimitRange of the namespace that gives containers a limit of the resource.
func limitsByDefault(c *check.Case, name corev1.ResourceName) *corev1.LimitRange {
	for _, l := range place.LimitRanges(c.Facts, c.Pod.Namespace) {
		for _, item := range l.Spec.Limits {
			if _, ok := item.Default[name]; ok && item.Type == corev1.LimitTypeContainer {
				return l
			}
		}
	}
	return nil
}
