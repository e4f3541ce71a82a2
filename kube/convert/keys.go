package convert

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// gangKeys are those that say something about a native gang.
func gangKeys() []string {
	return []string{
		v1alpha1.KeyGang, v1alpha1.KeySubgroup, v1alpha1.KeyMin, v1alpha1.KeySize, v1alpha1.KeyTopologyRequired, v1alpha1.KeyTopologyPreferred, v1alpha1.KeySegment, v1alpha1.KeySpread,
		v1alpha1.KeyWholeNodes, v1alpha1.KeyBalanced, v1alpha1.KeyMinSubgroups, v1alpha1.KeySubgroupTopology,
	}
}

// knownKeys are all that this package reads or writes.
func knownKeys() []string {
	return append(inheritable(), v1alpha1.KeyDeadline, v1alpha1.KeyHold, v1alpha1.KeySurge, v1alpha1.KeyEvictAt, v1alpha1.KeyCheckpointed, v1alpha1.KeyWantedGPUs, v1alpha1.KeyGPUs, v1alpha1.KeyLease, v1alpha1.KeyTerms, v1alpha1.KeySeal)
}

// inheritable are the keys that pods take over from their controllers, once: see FixedKeys. Whether a workload is held, which
// they take over too, may change at any time.
func inheritable() []string {
	return append(gangKeys(), v1alpha1.KeyQueue, v1alpha1.KeyGPUModel, v1alpha1.KeyGPUAlignment, v1alpha1.KeyGPUFraction, v1alpha1.KeyGPUMemory, v1alpha1.KeyUser, v1alpha1.KeyPreemptible, v1alpha1.KeyExpectedRun, v1alpha1.KeyMaxRun,
		v1alpha1.KeyCheckpoint, v1alpha1.KeyRestartCost, v1alpha1.KeyPreemptionDelay)
}

// asked returns what the object says under the key, "" for nothing. Of a value that is above its limit it returns no
// more than shows that: an annotation may have 256 KiB. A label does not say whose work it is: the policy that keeps
// others' names out guards the annotation.
func asked(o *metav1.ObjectMeta, key string) string {
	if key == v1alpha1.KeyHold && o.Labels[key] == v1alpha1.HoldByOperator {
		return v1alpha1.HoldByOperator // the policy guards it in both places
	}
	if v := strings.TrimSpace(o.Annotations[key]); v != "" || key == v1alpha1.KeyUser {
		return clipped(v, bytesOf(key))
	}
	return strings.TrimSpace(o.Labels[key])
}
