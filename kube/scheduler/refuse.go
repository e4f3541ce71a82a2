package scheduler

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/engine"
)

// refusal says that a node would not have a pod of an owner: a gang, or the controller of lone pods. It
// outlives the pod, which a kubelet that refuses it ends for good: its successor must not try the same node.
type refusal struct {
	node, reason string
	until        time.Time
	// carrier is the member of the gang whose refusal the engine was told, "" while there is none: the engine
	// forgets what was refused to a pod when the pod is gone.
	carrier string
}

// owner is who learns from a refusal: the gang, or for a lone pod the controller that will make another.
func (m *member) owner() string {
	if m.inGang() {
		return m.workload
	}
	if c := metav1.GetControllerOf(m.pod); c != nil {
		return "controller " + string(c.UID)
	}
	return m.key
}

// refuse keeps the pod's owner from the node for a while. It returns how many nodes have refused it by now.
func (f *feed) refuse(key, node, reason string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.pods[key]
	if m == nil {
		return 0
	}
	f.refused(m, node, reason)
	return len(f.refusals[m.owner()])
}

func (f *feed) refused(m *member, node, reason string) {
	f.sweep()
	f.fresh[m.workload] = true // what is said of it next is news, though the cause be the old one
	r := &refusal{node: node, reason: reason, until: time.Now().Round(0).Add(refuseFor)}
	owner := m.owner()
	f.refusals[owner] = append(slices.DeleteFunc(f.refusals[owner], func(o *refusal) bool { return o.node == node }), r)
	if !m.inGang() {
		f.tell(m, r)
		return
	}
	f.hand(r, m.workload)
}

// sweep forgets refusals whose time has passed.
func (f *feed) sweep() {
	now := time.Now()
	for owner, list := range f.refusals {
		list = slices.DeleteFunc(list, func(r *refusal) bool { return !r.until.After(now) })
		f.refusals[owner] = list
		if len(list) == 0 {
			delete(f.refusals, owner)
		}
	}
}

// hand makes a member of the gang carry the refusal, if there is one.
func (f *feed) hand(r *refusal, gang string) {
	r.carrier = ""
	for _, m := range f.sorted(gang) {
		if m.given && m.pod.DeletionTimestamp == nil {
			r.carrier = m.key
			f.tell(m, r)
			return
		}
	}
}

func (f *feed) tell(m *member, r *refusal) {
	f.inbox.put(engine.Change{Refusal: &engine.Refusal{Pod: m.key, UID: string(m.pod.UID), Node: r.node, Reason: r.reason, Until: r.until}})
}

// inherit tells the engine of a new pod where its owner was refused.
func (f *feed) inherit(m *member) {
	for _, r := range f.refusals[m.owner()] {
		switch {
		case !r.until.After(time.Now()):
		case !m.inGang():
			f.tell(m, r)
		case r.carrier == "":
			f.hand(r, m.workload)
		}
	}
}

// bequeath hands on what a member that is gone carried.
func (f *feed) bequeath(m *member) {
	if !m.inGang() {
		return
	}
	for _, r := range f.refusals[m.workload] {
		if r.carrier == m.key {
			f.hand(r, m.workload)
		}
	}
}

// turnedAway says whether a kubelet would not start the pod, as opposed to a pod that ran and failed.
func turnedAway(s *corev1.PodStatus) bool {
	if s.Phase != corev1.PodFailed {
		return false
	}
	return strings.HasPrefix(s.Message, "Pod was rejected: ") || strings.HasPrefix(s.Reason, "OutOf") || slices.Contains(admissionReasons[:], s.Reason)
}

// admissionReasons are those of kubelets whose message does not say that the pod was rejected.
var admissionReasons = [...]string{
	"UnexpectedAdmissionError", "TopologyAffinityError", "NodeAffinity", "NodeName", "NodePorts", "NodeUnschedulable", "TaintToleration",
}
