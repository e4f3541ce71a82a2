package cluster

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/volume"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/convert"
)

// Failure says why a start cannot be bound now, and which of its wants the nodes are to blame for.
type Failure struct {
	Reason string
	Blamed []Want
	Device *Attaching // that could not be attached; nil: it is something else
}

// Progress returns the wants whose claims have no volume yet, or why the start cannot be bound.
func (f *Feed) Progress(r *Reservation) (missing []Want, failed *Failure) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, at := range r.Start.Placements {
		if reason := f.astray(r, at); reason != "" {
			return nil, &Failure{Reason: reason}
		}
	}
	for _, w := range r.Wants {
		done, moved, refused := f.storage.state(w)
		switch {
		case moved != "":
			return nil, &Failure{Reason: moved}
		case refused != "" && failed == nil:
			failed = &Failure{Reason: refused, Blamed: []Want{w}}
		case refused != "":
			failed.Blamed = append(failed.Blamed, w)
		case !done:
			missing = append(missing, w)
		}
	}
	return missing, failed
}

// astray says why a member can no longer be bound to its node, "" if it can.
func (f *Feed) astray(r *Reservation, at engine.Placement) string {
	if !f.stands(at) {
		return fmt.Sprintf("pod %s or node %s changed", at.Pod, at.Node)
	}
	for _, key := range claimsOf(f.members.pods[at.Pod].pod) {
		c := f.storage.claims[key]
		if c == nil || !convert.Bound(c) {
			if !slices.ContainsFunc(r.Wants, func(w Want) bool { return w.Claim == key }) {
				return fmt.Sprintf("claim %s, which had a volume, has none any more", key)
			}
			continue
		}
		if v := f.storage.volumes[c.Spec.VolumeName]; v != nil && !convert.Reaches(v, f.nodes.objects[at.Node]) {
			return fmt.Sprintf("volume %s of claim %s cannot be reached from node %s", v.Name, key, at.Node)
		}
	}
	return ""
}

// state says whether a claim has its volume, or why it will not get it: by a change that the next plan knows of,
// or refused, which it must be told.
func (s *storage) state(w Want) (done bool, moved, refused string) {
	c := s.claims[w.Claim]
	switch {
	case c == nil || c.UID != w.UID || c.DeletionTimestamp != nil || c.Status.Phase == corev1.ClaimLost:
		return false, fmt.Sprintf("claim %s is gone or lost", w.Claim), ""
	case convert.Bound(c):
		return s.volumes[c.Spec.VolumeName] != nil, "", "" // the watches of claims and volumes are not in step
	case w.Shared && !s.asked(w.Claim):
		return false, fmt.Sprintf("claim %s is no longer seen to", w.Claim), ""
	case w.Shared:
		return false, "", ""
	case w.Volume == "" && c.Annotations[volume.AnnSelectedNode] != w.Node:
		return false, "", fmt.Sprintf("no volume could be made there for claim %s", w.Claim)
	case w.Volume != "" && !has(s.volumes[w.Volume], w):
		return false, "", fmt.Sprintf("volume %s was not to be had for claim %s", w.Volume, w.Claim)
	}
	return false, "", ""
}

// asked says whether a start sees to the claim that does not merely wait for another's.
func (s *storage) asked(claim string) bool {
	for r := range s.waits[claim] {
		for _, w := range r.Wants {
			if w.Claim == claim && !w.Shared {
				return true
			}
		}
	}
	return false
}

// has says whether the volume, nil allowed, is the claim's.
func has(v *corev1.PersistentVolume, w Want) bool {
	return v != nil && claimOf(v) == w.Claim && v.Spec.ClaimRef.UID == w.UID
}

// nodeLeft has all controllers of volumes look whether it was theirs.
func (s *storage) nodeLeft() {
	//archtest:any-order each has a signal of its own
	for _, r := range s.preparing {
		r.poke()
	}
}
