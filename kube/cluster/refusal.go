package cluster

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/engine"
)

// RefuseFor is how long a node is not tried again after it, or the API server for it, refused a pod.
const RefuseFor = 30 * time.Second

// refusals are the nodes that would not have a pod of an owner: a gang, or the controller of lone pods. A refusal
// outlives the pod, which a kubelet that refuses it ends for good: its successor must not try the same node. It ends by
// its time alone.
type refusals struct {
	out     *output
	members *members
	now     func() time.Time
	by      map[string][]*refusal // by owner
}

type refusal struct {
	node, reason string
	until        time.Time
	// carrier is the member of the gang whose refusal the engine was told, "" while there is none: the engine
	// forgets what was refused to a pod when the pod is gone.
	carrier string
}

func newRefusals(out *output, m *members, now func() time.Time) *refusals {
	return &refusals{out: out, members: m, now: now, by: make(map[string][]*refusal)}
}

// owner is the key that a refusal is noted for: the gang, or for a lone pod the controller that will make another.
func (m *member) owner() string {
	if m.inGang() {
		return m.workload
	}
	if c := metav1.GetControllerOf(m.pod); c != nil {
		return "controller " + string(c.UID)
	}
	return m.key
}

// Refuse keeps the pod's owner from the node for a while. It returns how many nodes have refused it by now.
func (f *Feed) Refuse(key, node, reason string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.members.pods[key]
	if m == nil {
		return 0
	}
	f.refusals.add(m, node, reason)
	return len(f.refusals.by[m.owner()])
}

func (s *refusals) add(m *member, node, reason string) {
	s.sweep()
	s.members.fresh[m.workload] = true // what is said of it next is news, though the cause be the old one
	r := &refusal{node: node, reason: reason, until: s.now().Round(0).Add(RefuseFor)}
	owner := m.owner()
	s.by[owner] = append(slices.DeleteFunc(s.by[owner], func(o *refusal) bool { return o.node == node }), r)
	if !m.inGang() {
		s.tell(m, r)
		return
	}
	s.hand(r, m.workload)
}

// sweep forgets refusals whose time has passed.
func (s *refusals) sweep() {
	now := s.now()
	for owner, list := range s.by {
		list = slices.DeleteFunc(list, func(r *refusal) bool { return !r.until.After(now) })
		s.by[owner] = list
		if len(list) == 0 {
			delete(s.by, owner)
		}
	}
}

// hand makes a member of the gang carry the refusal, if there is one.
func (s *refusals) hand(r *refusal, gang string) {
	r.carrier = ""
	for _, m := range s.members.sorted(gang) {
		if m.given && m.pod.DeletionTimestamp == nil {
			r.carrier = m.key
			s.tell(m, r)
			return
		}
	}
}

func (s *refusals) tell(m *member, r *refusal) {
	s.out.put(engine.Change{Refusal: &engine.Refusal{Pod: m.key, UID: string(m.pod.UID), Node: r.node, Reason: r.reason, Until: r.until}})
}

// inherit tells the engine of a new pod where its owner was refused.
func (s *refusals) inherit(m *member) {
	for _, r := range s.by[m.owner()] {
		switch {
		case !r.until.After(s.now()):
		case !m.inGang():
			s.tell(m, r)
		case r.carrier == "":
			s.hand(r, m.workload)
		}
	}
}

// bequeath hands on what a member that is gone carried.
func (s *refusals) bequeath(m *member) {
	if !m.inGang() {
		return
	}
	for _, r := range s.by[m.workload] {
		if r.carrier == m.key {
			s.hand(r, m.workload)
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
