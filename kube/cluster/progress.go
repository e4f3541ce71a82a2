package cluster

import (
	"fmt"
	"slices"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/cluster/internal/volumes"
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
		done, moved, refused := f.volumes.State(w)
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
	for _, key := range volumes.ClaimsOf(f.members.pods[at.Pod].pod) {
		c := f.volumes.Claim(key)
		if c == nil || !convert.Bound(c) {
			if !slices.ContainsFunc(r.Wants, func(w Want) bool { return w.Claim == key }) {
				return fmt.Sprintf("claim %s, which had a volume, has none any more", key)
			}
			continue
		}
		if v := f.volumes.Volume(c.Spec.VolumeName); v != nil && !convert.Reaches(v, f.nodes.objects[at.Node]) {
			return fmt.Sprintf("volume %s of claim %s cannot be reached from node %s", v.Name, key, at.Node)
		}
	}
	return ""
}
