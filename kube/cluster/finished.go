package cluster

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/engine"
)

// finish is a member that has succeeded, while its object exists.
type finish struct {
	gang, subgroup string
	by             types.UID // its controller; "": none
}

// finishing takes note of a pod of ours that is in a gang and has succeeded, or has not.
func (s *gangs) finishing(p *corev1.Pod, v *engine.Pod) {
	if p.Status.Phase != corev1.PodSucceeded || v.Gang == "" || v.Foreign {
		s.unfinished(v.Key)
		return
	}
	s.finishes[v.Key] = finish{v.Gang, v.Subgroup, controllerOf(p)}
	insert(s.finishers, v.Gang, v.Key, true)
	s.describeAgain(v.Gang)
}

func (s *gangs) unfinished(pod string) {
	if at, ok := s.finishes[pod]; ok {
		delete(s.finishes, pod)
		cut(s.finishers, at.gang, pod)
		s.describeAgain(at.gang)
	}
}

// finished counts the gang's members that have succeeded and that no owner counts itself, by subgroup. A subgroup of which some have,
// and that owners count, is there with none.
func (s *gangs) finished(gang string) map[string]int {
	var out map[string]int
	for pod := range s.finishers[gang] {
		at := s.finishes[pod]
		if out == nil {
			out = make(map[string]int)
		}
		if by := s.owners.all[at.by]; by != nil && by.Done > 0 && (!isNative(gang) || s.owners.gangOf[at.by] == gang) {
			out[at.subgroup] += 0 // that there was one counts
			continue
		}
		out[at.subgroup]++
	}
	return out
}
