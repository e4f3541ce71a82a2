package kueue

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/kube/dialect"
)

// Kueue's objects, of v1beta1 and v1beta2: a Job or a pod has a Workload, which names a LocalQueue, which leads to a
// ClusterQueue, which has quotas by ResourceFlavor.
const (
	Workloads       = "Workload.kueue.x-k8s.io"
	LocalQueues     = "LocalQueue.kueue.x-k8s.io"
	ClusterQueues   = "ClusterQueue.kueue.x-k8s.io"
	ResourceFlavors = "ResourceFlavor.kueue.x-k8s.io"

	QueueLabel        = "kueue.x-k8s.io/queue-name"
	RequiredTopology  = "kueue.x-k8s.io/podset-required-topology"
	PreferredTopology = "kueue.x-k8s.io/podset-preferred-topology"
)

func SaysQueueMissing(work *unstructured.Unstructured) bool {
	s := dialect.ConditionOf(work, "QuotaReserved")
	return s != nil && strings.HasSuffix(s.Message, "doesn't exist")
}

// Before says whether Kueue takes a before b: by priority, then by age.
func Before(a, b *unstructured.Unstructured) bool {
	pa, _ := dialect.Number(a.Object, "spec", "priority")
	pb, _ := dialect.Number(b.Object, "spec", "priority")
	if pa != pb {
		return pa > pb
	}
	ta, tb := a.GetCreationTimestamp(), b.GetCreationTimestamp()
	if !ta.Equal(&tb) {
		return ta.Before(&tb)
	}
	return a.GetName() < b.GetName()
}

// LastMessage is what the Workload's condition says, or its reason where it says nothing.
func LastMessage(work *unstructured.Unstructured, kind string) string {
	s := dialect.ConditionOf(work, kind)
	switch {
	case s == nil:
		return ""
	case s.Message != "":
		return s.Message
	}
	return s.Reason
}
