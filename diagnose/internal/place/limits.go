package place

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
)

// LimitRanges are those of the namespace, by name.
func LimitRanges(f *facts.Facts, namespace string) []*corev1.LimitRange {
	var out []*corev1.LimitRange
	for _, l := range f.LimitRanges {
		if l.Namespace == namespace {
			out = append(out, l)
		}
	}
	slices.SortFunc(out, func(a, b *corev1.LimitRange) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// AsCreated is the pod as the API server would see it when it counts: requests are the limits that were written where
// there are none, and then LimitRanges give to containers that say nothing. Of an existing pod that has been done.
func AsCreated(c *check.Case) *corev1.Pod {
	if c.Exists {
		return c.Pod
	}
	p := c.Pod.DeepCopy()
	for _, containers := range [][]corev1.Container{p.Spec.Containers, p.Spec.InitContainers} {
		for i := range containers {
			r := &containers[i].Resources
			r.Requests = podspec.FillFrom(r.Requests, r.Limits)
			for _, l := range LimitRanges(c.Facts, p.Namespace) {
				for _, item := range l.Spec.Limits {
					if item.Type == corev1.LimitTypeContainer {
						r.Limits, r.Requests = podspec.FillFrom(r.Limits, item.Default), podspec.FillFrom(r.Requests, item.DefaultRequest)
					}
				}
			}
		}
	}
	return p
}

// LimitRanger is the annotation in which the API server lists what LimitRanges gave to a pod: "memory request for container
// main".
const LimitRanger = "kubernetes.io/limit-ranger"

// GivenBy is the LimitRange that gave the pod its request for the resource, of which the pod itself says nothing; nil where
// the pod says how much it wants.
func GivenBy(c *check.Case, name string) *corev1.LimitRange {
	if c.Exists && !strings.Contains(c.Pod.Annotations[LimitRanger], name+" ") {
		return nil
	}
	for _, k := range Written(c).Spec.Containers {
		_, requested := k.Resources.Requests[corev1.ResourceName(name)]
		_, limited := k.Resources.Limits[corev1.ResourceName(name)]
		if (requested || limited) && Written(c) != c.Pod {
			return nil
		}
	}
	for _, l := range LimitRanges(c.Facts, c.Pod.Namespace) {
		for _, item := range l.Spec.Limits {
			if _, ok := item.Default[corev1.ResourceName(name)]; ok {
				return l
			}
			if _, ok := item.DefaultRequest[corev1.ResourceName(name)]; ok {
				return l
			}
		}
	}
	return nil
}

// GivenTo is the request for the resource that a LimitRange gave one of the pod's containers, as the API server noted it.
func GivenTo(p *corev1.Pod, name corev1.ResourceName) (resource.Quantity, bool) {
	for _, said := range strings.Split(strings.TrimPrefix(p.Annotations[LimitRanger], "LimitRanger plugin set: "), "; ") {
		given, container, ok := strings.Cut(said, " request for container ")
		if !ok || !slices.Contains(strings.Split(given, ", "), string(name)) {
			continue
		}
		for i := range p.Spec.Containers {
			if k := &p.Spec.Containers[i]; k.Name == container {
				q, ok := k.Resources.Requests[name]
				return q, ok
			}
		}
	}
	return resource.Quantity{}, false
}

// Asking are the operations after which the container asks for this much of the resource. What the template leaves
// to the API server is left to it.
func Asking(c *check.Case, container int, name corev1.ResourceName, amount resource.Quantity) []edit.Op {
	var out []edit.Op
	written := Written(c).Spec.Containers
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
