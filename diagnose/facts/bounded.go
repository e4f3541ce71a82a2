package facts

import (
	"slices"

	"github.com/berth-dev/berth/kube/convert"
)

// Bounded are the facts with pods that wait no larger than what is read of them: who may create a pod writes 1.5 MB, and checks compare
// what it asks for with every node. A pod above a limit (docs/limits.md) is replaced by a copy that is cut, and still above one. Facts without
// such a pod are returned as they are.
//
// An edit of the copy is no edit of the pod: what is tried on one says nothing about the other.
func (f *Facts) Bounded() *Facts {
	pods := f.Pods
	for i, p := range f.Pods {
		if p.Spec.NodeName != "" || Ended(p) {
			continue
		}
		if b := convert.Bounded(p); b != p {
			if &pods[0] == &f.Pods[0] {
				pods = slices.Clone(f.Pods)
			}
			pods[i] = b
		}
	}
	if len(pods) == 0 || &pods[0] == &f.Pods[0] {
		return f
	}
	g := &Facts{At: f.At, Kubernetes: f.Kubernetes, Objects: f.Objects, Logs: f.Logs, Unseen: f.Unseen, Served: f.Served, Speaks: f.Speaks, Answers: f.Answers, Matches: f.Matches, NewAllocator: f.NewAllocator, edited: f.edited, placed: f.placed, known: f.known}
	g.Pods = pods
	return g
}
