package diagnose

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/facts"
)

// limitRanges are those of the namespace, by name.
func limitRanges(f *facts.Facts, namespace string) []*corev1.LimitRange {
	var out []*corev1.LimitRange
	for _, l := range f.LimitRanges {
		if l.Namespace == namespace {
			out = append(out, l)
		}
	}
	slices.SortFunc(out, func(a, b *corev1.LimitRange) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// asCreated is the pod as the API server would see it when it counts: requests are the limits that were written where
// there are none, and then LimitRanges give to containers that say nothing. Of an existing pod that has been done.
func (c *Case) asCreated() *corev1.Pod {
	if c.Exists {
		return c.Pod
	}
	p := c.Pod.DeepCopy()
	for _, containers := range [][]corev1.Container{p.Spec.Containers, p.Spec.InitContainers} {
		for i := range containers {
			r := &containers[i].Resources
			r.Requests = filled(r.Requests, r.Limits)
			for _, l := range limitRanges(c.Facts, p.Namespace) {
				for _, item := range l.Spec.Limits {
					if item.Type == corev1.LimitTypeContainer {
						r.Limits, r.Requests = filled(r.Limits, item.Default), filled(r.Requests, item.DefaultRequest)
					}
				}
			}
		}
	}
	return p
}

// filled is the list with what it lacks taken from another.
func filled(l, from corev1.ResourceList) corev1.ResourceList {
	for name, q := range from {
		if _, ok := l[name]; !ok {
			if l == nil {
				l = corev1.ResourceList{}
			}
			l[name] = q.DeepCopy()
		}
	}
	return l
}
