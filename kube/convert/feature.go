package convert

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine/why"
)

// features are what the pod must have and the engine does not decide yet. MIG is not among them, nor are rules between pods: the
// engine sees them in the spec.
func features(p *corev1.Pod) []why.Feature {
	var out []why.Feature
	if len(p.Spec.ResourceClaims) > 0 {
		out = append(out, why.Claims)
	}
	return out
}

// Unheeded lists what the pod wishes for and does not get yet, and what it says that nobody understands, each
// by name and in a fixed order, so that it can be said on the object. Keys in the domains of dialects that have read the pod are
// left to these.
func Unheeded(p *corev1.Pod, read ...string) []string {
	var out []string
	out = append(out, ownDisks(p)...)
	out = append(out, unevenParts(p)...)
	if len(p.Spec.EvictionResponders) > 0 {
		out = append(out, "spec.evictionResponders (the pod is evicted by the eviction API)")
	}
	out = append(out, variants(v1alpha1.KeyGPUModel, asked(&p.ObjectMeta, v1alpha1.KeyGPUModel))...)
	out = append(out, strayKeys(p)...)
	return append(out, foreignKeys(p, requests(p), read)...)
}

// ownDisks names the kinds of volumes of the pod of which upstream lets one pod at a time use a disk on a node
// (volumerestrictions, isVolumeConflict), and we do not look: clusters of today have them behind CSI drivers.
func ownDisks(p *corev1.Pod) []string {
	var out []string
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i].VolumeSource
		for _, kind := range []struct {
			name string
			has  bool
		}{
			{"gcePersistentDisk", v.GCEPersistentDisk != nil}, {"awsElasticBlockStore", v.AWSElasticBlockStore != nil}, {"rbd", v.RBD != nil}, {"iscsi", v.ISCSI != nil},
		} {
			if text := "spec.volumes of kind " + kind.name + " (whether its disk is in use on the node is not looked at)"; kind.has && !slices.Contains(out, text) {
				out = append(out, text)
			}
		}
	}
	return out
}

// variants lists the alternatives that name more than a model, for the model alone decides.
func variants(key, list string) []string {
	var out []string
	for name := range strings.SplitSeq(list, ",") {
		if len(out) == MaxProblems {
			return append(out, "...")
		}
		name = clipped(strings.TrimSpace(name), MaxQuoteBytes)
		if short, variant := shortModel(name); variant {
			out = append(out, fmt.Sprintf("%s %s (any %s will do)", key, name, short))
		}
	}
	return out
}

// strayKeys lists the keys of ours that have no effect: those that nobody reads, and those about a gang on a
// pod that is in a PodGroup, which says all that itself.
func strayKeys(p *corev1.Pod) []string {
	read := knownKeys()
	if inPodGroup(p) {
		read = slices.DeleteFunc(read, func(key string) bool { return slices.Contains(gangKeys(), key) })
	}
	var out []string
	for _, from := range []map[string]string{p.Annotations, p.Labels} {
		//archtest:any-order the keys are sorted below
		for key := range from {
			if strings.HasPrefix(key, v1alpha1.KeyPrefix) && !slices.Contains(read, key) {
				out = append(out, key)
			}
		}
	}
	return fewKeys(out, "that begin with "+v1alpha1.KeyPrefix)
}
