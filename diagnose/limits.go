package diagnose

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
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
			r.Requests = podspec.FillFrom(r.Requests, r.Limits)
			for _, l := range limitRanges(c.Facts, p.Namespace) {
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
