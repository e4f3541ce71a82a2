package submit

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
	"github.com/berth-dev/berth/engine/why"
)

// pinned is the cause that diagnose has for pods that ask for one node.
const pinned why.Cause = "pinned-to-node-or-port"

// refusedByNode says whether the pod names its node in spec.nodeName and that does not take it: no scheduler is asked then, and the kubelet
// fails a pod for which it has no room. A pod that it takes goes there.
func (c *checker) refusedByNode(s *submission, p *corev1.Pod) bool {
	name := p.Spec.NodeName
	if name == "" {
		return false
	}
	n := c.now.NodeNamed(name)
	if n == nil {
		s.past = fmt.Sprintf("spec.nodeName is %s, and there is no node of that name: the pod is deleted again", name)
		return true
	}
	if !podspec.Selects(p, n) {
		s.past = fmt.Sprintf("spec.nodeName is %s, which is none of the nodes that the pod's selector or affinity asks for: its kubelet refuses it", name)
		return true
	}
	free := n.Status.Allocatable.DeepCopy()
	for _, o := range c.now.Pods {
		if o.Spec.NodeName == name && !facts.Ended(o) {
			podspec.Subtract(free, podspec.Requests(o))
		}
	}
	for _, o := range c.subs {
		for _, q := range o.pods {
			if q.Spec.NodeName == name && c.where[keyOf(q)] == name {
				podspec.Subtract(free, podspec.Requests(q))
			}
		}
	}
	for _, what := range podspec.Names(podspec.Requests(p)) {
		if ask, left := podspec.Requests(p)[what], free[what]; ask.Cmp(left) > 0 {
			s.past = fmt.Sprintf("spec.nodeName puts it on node %s past every scheduler, and %s of the %s %s that it asks for are free there: the kubelet refuses it", name, &left, &ask, what)
			return true
		}
	}
	c.where[keyOf(p)] = name
	return false
}

// refusedThere is the answer about a workload whose node refuses it. Without the field a scheduler looks for a place.
func (c *checker) refusedThere(s *submission) {
	r := &s.result
	r.Verdict, r.Cause, r.Layer, r.Owner, r.Summary, r.Nodes = Never, pinned, check.L3, check.User, s.past, nil
	c.emptyCluster()
	for i := range s.Parts {
		if path, ok := s.Parts[i].In("/spec/nodeName"); ok && len(s.Parts[i].Pods) > 0 {
			r.Fixes = append(r.Fixes, c.verify(s, []Fix{{Side: edit.Workload, Edit: "leave the choice of the node to a scheduler: take spec.nodeName away", Patch: []edit.Op{{Op: "remove", Path: path}}}})...)
			return
		}
	}
}
