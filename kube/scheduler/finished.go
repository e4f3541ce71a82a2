package scheduler

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
func (f *feed) finishing(p *corev1.Pod, v *engine.Pod) {
	if p.Status.Phase != corev1.PodSucceeded || v.Gang == "" || v.Foreign {
		f.unfinished(v.Key)
		return
	}
	f.finishes[v.Key] = finish{v.Gang, v.Subgroup, controllerOf(p)}
	insert(f.finishers, v.Gang, v.Key, true)
	f.describeAgain(v.Gang)
}

func (f *feed) unfinished(pod string) {
	if at, ok := f.finishes[pod]; ok {
		delete(f.finishes, pod)
		cut(f.finishers, at.gang, pod)
		f.describeAgain(at.gang)
	}
}

// finished counts the gang's members that have succeeded and that no owner counts itself, by subgroup.
func (f *feed) finished(gang string) map[string]int {
	var out map[string]int
	for pod := range f.finishers[gang] {
		at := f.finishes[pod]
		if by := f.owners.all[at.by]; by != nil && by.Done > 0 {
			continue
		}
		if out == nil {
			out = make(map[string]int)
		}
		out[at.subgroup]++
	}
	return out
}
