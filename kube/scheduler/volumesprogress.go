package scheduler

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/volume"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/convert"
)

// progress returns the wants whose claims have no volume yet, or why the start cannot be bound.
func (f *feed) progress(p *preparation) (missing []want, failed *failure) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, at := range p.start.Placements {
		if reason := f.astray(p, at); reason != "" {
			return nil, &failure{reason: reason}
		}
	}
	for _, w := range p.wants {
		done, moved, refused := f.storage.state(w)
		switch {
		case moved != "":
			return nil, &failure{reason: moved}
		case refused != "" && failed == nil:
			failed = &failure{reason: refused, blamed: []want{w}}
		case refused != "":
			failed.blamed = append(failed.blamed, w)
		case !done:
			missing = append(missing, w)
		}
	}
	return missing, failed
}

// astray says why a member can no longer be bound to its node, "" if it can.
func (f *feed) astray(p *preparation, at engine.Placement) string {
	if !f.stands(at) {
		return fmt.Sprintf("pod %s or node %s changed", at.Pod, at.Node)
	}
	for _, key := range claimsOf(f.pods[at.Pod].pod) {
		c := f.storage.claims[key]
		if c == nil || !convert.Bound(c) {
			if !slices.ContainsFunc(p.wants, func(w want) bool { return w.claim == key }) {
				return fmt.Sprintf("claim %s, which had a volume, has none any more", key)
			}
			continue
		}
		if v := f.storage.volumes[c.Spec.VolumeName]; v != nil && !convert.Reaches(v, f.nodes[at.Node]) {
			return fmt.Sprintf("volume %s of claim %s cannot be reached from node %s", v.Name, key, at.Node)
		}
	}
	return ""
}

// state says whether a claim has its volume, or why it will not get it: by a change that the next plan knows of,
// or refused, which it must be told.
func (s *storage) state(w want) (done bool, moved, refused string) {
	c := s.claims[w.claim]
	switch {
	case c == nil || c.UID != w.uid || c.DeletionTimestamp != nil || c.Status.Phase == corev1.ClaimLost:
		return false, fmt.Sprintf("claim %s is gone or lost", w.claim), ""
	case convert.Bound(c):
		return s.volumes[c.Spec.VolumeName] != nil, "", "" // the watches of claims and volumes are not in step
	case w.shared && !s.asked(w.claim):
		return false, fmt.Sprintf("claim %s is no longer seen to", w.claim), ""
	case w.shared:
		return false, "", ""
	case w.volume == "" && c.Annotations[volume.AnnSelectedNode] != w.node:
		return false, "", fmt.Sprintf("no volume could be made there for claim %s", w.claim)
	case w.volume != "" && !has(s.volumes[w.volume], w):
		return false, "", fmt.Sprintf("volume %s was not to be had for claim %s", w.volume, w.claim)
	}
	return false, "", ""
}

// asked says whether a start sees to the claim that does not merely wait for another's.
func (s *storage) asked(claim string) bool {
	for p := range s.waits[claim] {
		for _, w := range p.wants {
			if w.claim == claim && !w.shared {
				return true
			}
		}
	}
	return false
}

// has says whether the volume, nil allowed, is the claim's.
func has(v *corev1.PersistentVolume, w want) bool {
	return v != nil && claimOf(v) == w.claim && v.Spec.ClaimRef.UID == w.uid
}

// nodeLeft has all who see to volumes look whether it was theirs.
func (s *storage) nodeLeft() {
	for _, p := range s.preparing {
		p.poke()
	}
}
