package diagnose

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var devicesInUseCheck = Check{
	Cause: "devices-in-use", Layer: L3, Owner: Scheduler, Stage: Place, Rank: 80,
	Title:   "Other pods have the devices",
	Meaning: "Devices that the pod's claims ask for exist and work, and claims of other pods have so many of them that on no node enough are left.",
	Remedy:  "Wait until other work ends, ask for fewer devices, or add nodes.",
	Not:     "The selector is wrong: there are devices that match it.",
	Find:    devicesInUse,
}

func devicesInUse(c *Case) []Finding {
	f := c.Fit
	if f == nil || f.bar(ByDevices) == nil {
		return nil
	}
	claims := claimsOf(c.Facts, c.Pod)
	asks := openAsks(c.Facts, claims)
	d := offersOf(c.Facts)
	var out []Finding
	for i := range asks {
		if found := c.taken(d, &asks[i]); found != nil {
			out = append(out, *found)
		}
	}
	return out
}

// taken words a request whose devices others have, nil where that is not so.
func (c *Case) taken(d *devices, a *askAt) *Finding {
	var held, free []*device
	for _, v := range d.all {
		switch {
		case !d.suits(v, &a.deviceAsk):
		case v.holder != nil:
			held = append(held, v)
		default:
			free = append(free, v)
		}
	}
	if len(held) == 0 {
		return nil
	}
	count := fmt.Sprint(a.count)
	if a.all {
		count = "all"
	}
	found := &Finding{Fit: true, Probe: &edit.Edit{Side: edit.Cluster, Text: "let all claims of devices go"},
		Message: fmt.Sprintf("claim %s asks for %s of class %s on one node; %s %s, and %d of them %s in use", a.claim.name, count, a.class,
			wording.Number(len(held)+len(free), "device"), wording.InNumber(len(held)+len(free), "matches", "match"), len(held), wording.InNumber(len(held), "is", "are"))}
	var users []*corev1.Pod
	for _, v := range held {
		if slices.ContainsFunc(found.Probe.Set, func(o facts.Object) bool { return o.GetUID() == v.holder.UID && o.GetName() == v.holder.Name }) {
			continue
		}
		idle := v.holder.DeepCopy()
		idle.Status.Allocation, idle.Status.ReservedFor = nil, nil
		found.Probe.Set = append(found.Probe.Set, idle)
		pods := heldBy(c.Facts, v.holder)
		users = append(users, pods...)
		if len(found.Edits) < 4 {
			found.Edits = append(found.Edits, c.release(idle, pods)...)
		}
		if len(found.Evidence) < 3 {
			found.Evidence = append(found.Evidence, facts.Evidence{Object: facts.RefTo(v.holder).In(), Field: "status.allocation.devices.results", Value: v.id()})
		}
	}
	if len(users) > 0 {
		found.Message += ", by pod " + wording.Few(podNames(users, c.Pod.Namespace))
	}
	return found
}

// release offers to evict the one pod that has a claim, where it is less important.
func (c *Case) release(idle facts.Object, pods []*corev1.Pod) []edit.Edit {
	if len(pods) != 1 || ptr.Deref(pods[0].Spec.Priority, 0) >= ptr.Deref(c.Pod.Spec.Priority, 0) {
		return nil
	}
	p := pods[0]
	return []edit.Edit{{Side: edit.Cluster, Cost: 7, Text: fmt.Sprintf("evict pod %s of namespace %s, which has a lower priority", p.Name, p.Namespace),
		Set: []facts.Object{idle}, Gone: []facts.Object{p}, Command: fmt.Sprintf("kubectl delete pod %s -n %s", p.Name, p.Namespace)}}
}
