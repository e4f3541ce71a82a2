package facts

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Admit adds to a pod that does not exist yet what the API server gives to pods like it: requests that are limits
// where only these are given, and where all others that ask for
// an extended resource tolerate a taint of its name, so will this one.
func (f *Facts) Admit(p *corev1.Pod) {
	f.Default(p)
	tolerated := Derive(f, toleratedDevices)
	for _, name := range ExtendedOf(p) {
		if tolerated[name] {
			p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: name, Operator: corev1.TolerationOpExists})
		}
	}
}

// deviceTolerations are, by extended resource, whether all pods that ask for it tolerate a taint of its name.
type deviceTolerations map[string]bool

func toleratedDevices(f *Facts) deviceTolerations {
	out := make(deviceTolerations)
	for _, p := range f.Pods {
		for _, name := range ExtendedOf(p) {
			all, known := out[name]
			out[name] = (all || !known) && slices.ContainsFunc(p.Spec.Tolerations, func(t corev1.Toleration) bool { return t.Key == name && t.Operator == corev1.TolerationOpExists })
		}
	}
	return out
}

// Default fills in what the API server does for every pod that is made, and what the LimitRanges of its namespace give: a
// request that is left out is the limit, else what is given. Without it a pod that was edited asks for less than it will.
func (f *Facts) Default(p *corev1.Pod) {
	for _, containers := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range containers {
			r := &containers[i].Resources
			r.Requests = filled(r.Requests, r.Limits)
			for _, l := range f.LimitRanges {
				for _, item := range l.Spec.Limits {
					if l.Namespace == p.Namespace && item.Type == corev1.LimitTypeContainer {
						r.Limits, r.Requests = filled(r.Limits, item.Default), filled(r.Requests, item.DefaultRequest)
						r.Requests = filled(r.Requests, item.Default)
					}
				}
			}
		}
	}
}

// filled is the list with what it lacks of the other. Neither is changed.
func filled(list, from corev1.ResourceList) corev1.ResourceList {
	var out corev1.ResourceList
	//archtest:any-order each name is set once
	for name, q := range from {
		if _, ok := list[name]; ok {
			continue
		}
		if out == nil {
			out = maps.Clone(list)
			if out == nil {
				out = corev1.ResourceList{}
			}
		}
		out[name] = q
	}
	if out == nil {
		return list
	}
	return out
}

// ExtendedOf are the extended resources that the pod asks for: devices, in practice.
func ExtendedOf(p *corev1.Pod) []string {
	var out []string
	for i := range p.Spec.Containers {
		for name := range p.Spec.Containers[i].Resources.Limits {
			if s := string(name); strings.Contains(s, "/") && !strings.Contains(s, "kubernetes.io/") {
				out = append(out, s)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
