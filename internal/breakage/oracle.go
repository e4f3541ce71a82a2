package main

import (
	"slices"
	"strings"
)

// truth is what a right answer says of an object that was broken: it follows from which object and which of its fields it
// is, and from nothing that `berth why` says. Several layers or owners mean that each is a right reading: a field of a pod's
// resources asks for a name that no node has (L2), or for more than is free (L3).
type truth struct {
	kind   string   // "": the pod of any workload
	fields []string // beginnings of the field's path, without places in lists; nil: all
	layers []string
	owners []string
}

// truths are read from the top: the first that matches holds.
var truths = []truth{
	{kind: "DaemonSet", layers: []string{"L2"}, owners: []string{"platform"}},
	{kind: "Node", layers: []string{"L2", "L3"}, owners: []string{"platform"}},
	{kind: "Pool", fields: []string{"spec.nodes", "spec.gpus"}, layers: []string{"L1", "L2"}, owners: []string{"capacity", "platform"}},
	{kind: "Pool", layers: []string{"L2", "L3"}, owners: []string{"platform"}},
	{kind: "RuntimeClass", layers: []string{"L2", "L3"}, owners: []string{"platform"}},
	{kind: "StorageClass", layers: []string{"L3"}, owners: []string{"storage", "platform"}},
	{kind: "PersistentVolume", layers: []string{"L3", "L4"}, owners: []string{"storage", "platform"}},
	{kind: "PersistentVolumeClaim", layers: []string{"L3", "L4"}, owners: []string{"user", "storage"}},
	{kind: "PriorityClass", layers: []string{"L3"}, owners: []string{"scheduler", "platform", "policy"}},
	{kind: "BerthQueue", layers: []string{"L3"}, owners: []string{"scheduler"}},
	{kind: "ResourceQuota", layers: []string{"L3"}, owners: []string{"scheduler", "policy", "platform"}},
	{kind: "LimitRange", layers: []string{"L3"}, owners: []string{"scheduler", "policy", "platform"}},
	{kind: "Namespace", layers: []string{"L3"}, owners: []string{"scheduler", "policy", "platform", "user"}},
	{kind: "PodGroup", layers: []string{"L3"}, owners: []string{"user"}},
	{kind: "ConfigMap", layers: []string{"L4"}, owners: []string{"user", "ml"}},
	{kind: "Secret", layers: []string{"L4"}, owners: []string{"user", "ml"}},
	{kind: "ServiceAccount", layers: []string{"L3", "L4"}, owners: []string{"user", "platform"}},
	{kind: "Service", layers: []string{"L4"}, owners: []string{"user", "ml"}},

	// Annotations of the simulated kubelet stand for the program.
	{fields: []string{"pod.metadata.annotations.sim.berth.dev/"}, layers: []string{"L4"}, owners: []string{"user", "ml"}},
	{fields: []string{"pod.metadata", "pod.spec.nodeSelector", "pod.spec.affinity", "pod.spec.tolerations", "pod.spec.schedulerName", "pod.spec.priority",
		"pod.spec.preemptionPolicy", "pod.spec.topologySpreadConstraints", "pod.spec.schedulingGates", "pod.spec.schedulingGroup", "pod.spec.nodeName",
		"pod.spec.serviceAccount", "pod.spec.runtimeClassName", "pod.spec.overhead", "pod.spec.resourceClaims", "pod.spec.containers.ports.hostPort"}, layers: []string{"L3"}, owners: []string{"user"}},
	{fields: []string{"pod.spec.containers.resources", "pod.spec.initContainers.resources"}, layers: []string{"L2", "L3"}, owners: []string{"user", "platform", "scheduler"}},
	{fields: []string{"pod.spec.volumes", "claims"}, layers: []string{"L3", "L4"}, owners: []string{"user", "storage"}},
	{fields: []string{"pod."}, layers: []string{"L4"}, owners: []string{"user", "ml"}},
	// More pods than a quota or a pool has room for: whoever asks for them, or whoever gives the room, has to act.
	{fields: []string{"spec.replicas", "spec.parallelism", "spec.completions"}, layers: []string{"L3", "L4"}, owners: []string{"user", "scheduler"}},
	{layers: []string{"L3", "L4"}, owners: []string{"user"}}, // the workload beside its template: selector, suspend
}

// truthOf looks a mutation up.
func truthOf(o object, p path) truth {
	field := podField(o, p)
	for _, t := range truths {
		if (t.kind == "" && !o.works()) || (t.kind != "" && t.kind != o.kind.name) {
			continue
		}
		if t.fields == nil || slices.ContainsFunc(t.fields, func(s string) bool { return strings.HasPrefix(field, s) }) {
			return t
		}
	}
	return truth{layers: []string{"L2", "L3", "L4"}, owners: []string{"platform", "user", "scheduler", "policy", "storage"}}
}

// podField is the field without places in lists; those of a workload's pods begin with "pod", whoever makes them.
func podField(o object, p path) string {
	var words []string
	for _, s := range p {
		if _, ok := index(s); !ok {
			words = append(words, s)
		}
	}
	field := strings.Join(words, ".")
	if !o.works() {
		return field
	}
	if rest, ok := strings.CutPrefix(field, "spec.template."); ok {
		return "pod." + rest
	}
	if rest, ok := strings.CutPrefix(field, "spec.volumeClaimTemplates"); ok {
		return "claims" + rest
	}
	if o.kind.name == "Pod" {
		return "pod." + field
	}
	return field
}
