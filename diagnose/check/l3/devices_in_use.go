package l3

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/place"
	"github.com/berth-dev/berth/diagnose/internal/wording"
)

var devicesInUseCheck = check.Check{
	Cause: "devices-in-use", Layer: check.L3, Owner: check.Scheduler, Stage: check.Place, Rank: 80,
	Title:   "Other pods have the devices",
	Meaning: "Devices that the pod's claims ask for exist and work, and claims of other pods have so many of them that on no node enough are left.",
	Remedy:  "Wait until other work ends, ask for fewer devices, or add nodes.",
	Not:     "The selector is wrong: there are devices that match it.",
	Find:    devicesInUse,
}

func devicesInUse(c *check.Case) []check.Finding {
	f := c.Fit
	if f == nil || f.Exclusion(check.ByDevices) == nil {
		return nil
	}
	claims := place.ClaimsOf(c.Facts, c.Pod)
	asks := place.OpenAsks(c.Facts, claims)
	d := place.OffersOf(c.Facts)
	var out []check.Finding
	for i := range asks {
		any := d.Alternatives(asks, &asks[i])
		if !any.Is(&asks[i], place.Busy) {
			continue
		}
		if found := taken(c, d, &asks[i], any); found != nil {
			out = append(out, *found)
		}
	}
	return out
}

// taken words a request whose devices others have, nil where that is not so; any are its alternatives.
func taken(c *check.Case, d *place.Devices, a *place.AskAt, any *place.Alternatives) *check.Finding {
	var held, free []*place.Device
	consumed := ""
	for _, v := range d.All {
		lacks := v.Lacks(&a.DeviceAsk)
		switch {
		case !d.Suits(v, &a.DeviceAsk):
		case v.Holder != nil:
			held = append(held, v)
		case len(v.Beside()) > 0:
			held = append(held, v)
			if consumed == "" {
				consumed = fmt.Sprintf(": of what device %s is made of, claim %s has a part", v.ID(), v.Beside()[0].Name)
			}
		case lacks != "" && len(v.Holders()) > 0:
			held = append(held, v)
			if consumed == "" {
				consumed = ": it asks for " + lacks
			}
		default:
			free = append(free, v)
		}
	}
	if len(held) == 0 {
		return nil
	}
	count := fmt.Sprint(a.Count)
	if a.All {
		count = "all"
	}
	found := &check.Finding{Fit: true, Probe: &edit.Edit{Side: edit.Cluster, Text: "let all claims of devices go"},
		Message: fmt.Sprintf("claim %s asks for %s of class %s on one node; %s %s, and %d of them %s in use", a.Claim.Name, count, a.Class,
			wording.Number(len(held)+len(free), "device"), wording.InNumber(len(held)+len(free), "matches", "match"), len(held), wording.InNumber(len(held), "is", "are")) + consumed}
	if any != nil {
		found.Message, found.Evidence, found.Edits = any.Text+consumed, any.Evidence(), any.Edits(c, d)
	}
	var users []*corev1.Pod
	type holding struct {
		*place.Device
		Holder *resourcev1.ResourceClaim
	}
	var all []holding
	for _, v := range held {
		for _, h := range append(v.Holders(), v.Beside()...) {
			all = append(all, holding{v, h})
		}
	}
	for _, v := range all {
		if slices.ContainsFunc(found.Probe.Set, func(o facts.Object) bool { return o.GetUID() == v.Holder.UID && o.GetName() == v.Holder.Name }) {
			continue
		}
		idle := v.Holder.DeepCopy()
		idle.Status.Allocation, idle.Status.ReservedFor = nil, nil
		found.Probe.Set = append(found.Probe.Set, idle)
		pods := place.HeldBy(c.Facts, v.Holder)
		users = append(users, pods...)
		if len(found.Edits) < 8 {
			found.Edits = append(found.Edits, release(c, idle, pods)...)
		}
		if len(found.Evidence) < 3 {
			found.Evidence = append(found.Evidence, facts.Evidence{Object: facts.RefTo(v.Holder).In(), Field: "status.allocation.devices.results", Value: v.ID()})
		}
	}
	if len(users) > 0 {
		found.Message += ", by " + wording.InNumber(len(users), "pod ", "pods ") + wording.Few(place.PodNames(users, c.Pod.Namespace))
	}
	return found
}

// release offers to evict the one pod that has a claim, where it is less important.
func release(c *check.Case, idle facts.Object, pods []*corev1.Pod) []edit.Edit {
	if len(pods) != 1 || ptr.Deref(pods[0].Spec.Priority, 0) >= ptr.Deref(c.Pod.Spec.Priority, 0) {
		return nil
	}
	p := pods[0]
	return []edit.Edit{{Side: edit.Cluster, Cost: 7, Text: fmt.Sprintf("evict pod %s of namespace %s, which has a lower priority", p.Name, p.Namespace),
		Set: []facts.Object{idle}, Gone: []facts.Object{p}, Command: fmt.Sprintf("kubectl delete pod %s -n %s", p.Name, p.Namespace)}}
}
