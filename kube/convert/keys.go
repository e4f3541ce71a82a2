package convert

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The keys by which people ask, on a pod or a PodGroup. Each but KeyUser is read as an annotation or, where there is
// none, as a label. Space around a value does not count, and an empty value is as none.
const (
	keyPrefix = "berth.dev/"

	KeyQueue    = keyPrefix + "queue"
	KeyGang     = keyPrefix + "gang"     // name of the gang within the namespace
	KeySubgroup = keyPrefix + "subgroup" // name of a part of the gang

	KeyMin               = keyPrefix + "min"                // members that start together
	KeySize              = keyPrefix + "size"               // members that there will be
	KeyTopologyRequired  = keyPrefix + "topology-required"  // a level, or a node label key
	KeyTopologyPreferred = keyPrefix + "topology-preferred" // the same
	KeySegment           = keyPrefix + "segment"            // size@level
	KeySpread            = keyPrefix + "spread"             // a level
	KeyWholeNodes        = keyPrefix + "whole-nodes"        // true or false
	KeyBalanced          = keyPrefix + "balanced"           // true or false

	KeyGPUModel    = keyPrefix + "gpu-model" // alternatives, best first, with commas between
	KeyGPUFraction = keyPrefix + "gpu-fraction"
	KeyGPUMemory   = keyPrefix + "gpu-memory"

	KeyUser            = keyPrefix + "user"             // whose work it is; an annotation: kube/policy/manifests/user.yaml
	KeyPreemptible     = keyPrefix + "preemptible"      // true, false or surplus
	KeyExpectedRun     = keyPrefix + "expected-run"     // how long it runs: 90m
	KeyMaxRun          = keyPrefix + "max-run"          // after so long it is ended
	KeyCheckpoint      = keyPrefix + "checkpoint"       // how often it saves its work
	KeyRestartCost     = keyPrefix + "restart-cost"     // how long it takes to be where it was
	KeyPreemptionDelay = keyPrefix + "preemption-delay" // how long it waits before others are evicted for it
	// keyDeadline carries the time that a Job gives all its pods to them, beside what these say themselves.
	keyDeadline = keyPrefix + "job-deadline"

	// KeySurge is on a pod that is moved and stays until the next one is ready: a Surge.
	KeySurge = keyPrefix + "surge"
	// KeyQueues is on a namespace: the queues that it may use, as the scheduler writes it.
	KeyQueues = keyPrefix + "queues"
	// KeyWantedGPUs is on what BindingOf returns: a JSON list of device IDs.
	KeyWantedGPUs = keyPrefix + "wanted-gpus"
	// KeyLease is on a binding, and so on the pod: by which lease its scheduler leads, NAME/UID/TRANSITIONS/HOLDER.
	KeyLease = keyPrefix + "lease"
)

// ConditionIdle is the type of a pod's condition: since its last transition, while it is True, the pod's GPUs have been
// measured to do nothing. It is a condition because only who may write the status of pods can set it: whoever runs the node,
// and not the pod's author.
const ConditionIdle = keyPrefix + "Idle"

// gangKeys are those that say something about a native gang.
func gangKeys() []string {
	return []string{
		KeyGang, KeySubgroup, KeyMin, KeySize, KeyTopologyRequired, KeyTopologyPreferred, KeySegment, KeySpread,
		KeyWholeNodes, KeyBalanced,
	}
}

// knownKeys are all that this package reads or writes.
func knownKeys() []string {
	return append(inheritable(), keyDeadline, KeySurge, KeyWantedGPUs, KeyLease, KeyTerms, KeySeal)
}

// inheritable are the keys that pods take over from their controllers.
func inheritable() []string {
	return append(gangKeys(), KeyQueue, KeyGPUModel, KeyGPUFraction, KeyGPUMemory, KeyUser, KeyPreemptible, KeyExpectedRun, KeyMaxRun,
		KeyCheckpoint, KeyRestartCost, KeyPreemptionDelay)
}

// asked returns what the object says under the key, "" for nothing. Of a value that is above its limit it returns no
// more than shows that: an annotation may have 256 KiB. A label does not say whose work it is: the policy that keeps
// others' names out guards the annotation.
func asked(o *metav1.ObjectMeta, key string) string {
	if v := strings.TrimSpace(o.Annotations[key]); v != "" || key == KeyUser {
		return clipped(v, bytesOf(key))
	}
	return strings.TrimSpace(o.Labels[key])
}
