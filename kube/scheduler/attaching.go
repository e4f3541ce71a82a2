package scheduler

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/kube/cluster"
	"github.com/berth-dev/berth/kube/report"
)

// attaching says on the pods of a start which device they wait for. One plan after the other may wait for it, and it is said once.
func (r *reporter) attaching(s *start, a *cluster.Attaching) {
	r.ofDevice(s, a, report.DeviceAttaching)
}

// notAttached says on the pods of a start that they are not bound because of the device.
func (r *reporter) notAttached(s *start, a *cluster.Attaching) {
	state := report.DeviceLate
	if a.Failed {
		state = report.DeviceFailed
	}
	r.ofDevice(s, a, state)
}

func (r *reporter) ofDevice(s *start, a *cluster.Attaching, state report.DeviceState) {
	for _, at := range s.Placements {
		p := r.s.feed.Pod(at.Pod)
		if p == nil || string(p.UID) != at.UID || cluster.Expected(p) {
			continue
		}
		d := report.Device{
			Node: a.Node, Claim: a.Claim, Device: a.Device, Condition: a.Condition, State: state, Says: a.Says, Since: a.Since, Until: a.Until,
		}
		if at.Pod != a.Pod {
			d.Member = a.Pod
		}
		reason, text, cause := report.OfDevice(d)
		if !r.turns(p.UID, "device: "+text) {
			continue
		}
		said := pending{reason: reason, text: text, cause: cause}
		if state == report.DeviceAttaching {
			r.tellPod(p, said, corev1.EventTypeNormal, reason) // others work on its start: nothing has failed
		} else {
			r.wait(p, said)
		}
	}
}
