package cluster

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/convert"
	"github.com/berth-dev/berth/kube/dialect"
)

// A pod's way through the feed:
//
//	setPod -> takePod -> reading (what its controllers say, or what was decided) -> enter -> give -> put -> sink
//	                                                                               |
//	                       claims, or controllers that have not been seen yet -> Settle -> put -> sink

// setPod gives the engine the pod, or takes it away if it is over or not allowed to be scheduled yet. A version older than
// the one known is passed over.
func (f *Feed) setPod(p *corev1.Pod) {
	f.out.saw(resourceVersion(p))
	f.takePod(p)
}

// RenewPod is Set for a pod that was asked for. Unlike the watch, an answer may be older than a deletion that was
// delivered, so a pod that is not known is not brought back; and it may be newer than what the watch has delivered of others.
func (f *Feed) RenewPod(p *corev1.Pod) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if known := f.members.pods[keyOf(p)]; known != nil && known.pod.UID == p.UID {
		f.takePod(p)
	}
}

// removePod takes a pod away.
func (f *Feed) removePod(p *corev1.Pod) {
	f.out.saw(resourceVersion(p))
	key := p.Namespace + "/" + p.Name
	f.gangs.unfinished(key)
	known := f.members.pods[key]
	if known == nil || known.pod.UID != p.UID {
		return
	}
	f.gone(known)
}

// gone takes away a pod that was deleted.
func (f *Feed) gone(m *member) {
	f.leave(m)
	f.dropPod(m)
	f.ended(m, nil)
}

func (f *Feed) takePod(p *corev1.Pod) {
	raw := p
	known := f.members.pods[keyOf(raw)]
	p, decided := f.reading(known, raw)
	v := f.read(p, decided)
	if known != nil && resourceVersion(known.pod) > v.Version {
		return
	}
	v.Version <<= VersionBits
	f.gangs.finishing(p, &v)
	if known != nil && known.pod.UID != p.UID { // the watch was cut when it was replaced
		f.gone(known)
		v.Version = max(v.Version, known.told+1)
		known = nil
	}
	if !convert.Schedulable(p) {
		f.end(known, p)
		return
	}
	f.enter(known, raw, p, decided, &v)
}

// read is the pod as the engine is to see it; decided is what was decided about it, nil for nothing.
func (f *Feed) read(p *corev1.Pod, decided *terms) engine.Pod {
	var v engine.Pod
	g := f.gangs.independent(p, decided)
	if g != nil {
		v = convert.PodOf(g, p, f.opts)
		if v.Invalid == "" && v.Node == "" && !v.Foreign {
			v.Invalid = f.gangs.disagrees[convert.PodGroupOf(p)]
		}
	} else {
		v = convert.Pod(p, f.opts)
	}
	if anyModel(&v) {
		v.GPU.Models = f.models.alternatives()
	}
	if g == nil {
		f.gangs.rooted(&v, p, decided)
	}
	if f.whatIf != nil && v.Foreign {
		adopt(&v, p)
	}
	if f.whatIf == nil && !v.Foreign && PlaceHeld(p) {
		v.Nominated = "" // the hold counts
	}
	if t := f.foreignTerms(p); t != nil && t.Awaits != "" && v.Node == "" && !v.Foreign {
		v.Invalid = t.Awaits
	}
	if Expected(p) && v.Node != "" {
		v.Evictable = false // there is nothing to evict yet
	}
	return v
}

// enter takes in a pod that is known, or nil, in an older version: raw as it is in the API, p with what its
// controllers say, or as was decided.
func (f *Feed) enter(known *member, raw, p *corev1.Pod, decided *terms, v *engine.Pod) {
	m := &member{key: v.Key, workload: v.Key, raw: raw, pod: p, terms: decided, ours: !v.Foreign, adopted: !f.opts.Ours(p.Spec.SchedulerName), takes: v.Spec.Requests, made: f.madeTerms(raw)}
	m.oneModel = convert.AnyModel(p)
	m.foreign = minimum(f.foreignTerms(raw), m.made)
	f.made.missed = f.made.missed || m.made != nil && m.made.Missing != "" && m.ours
	if known != nil {
		m.given, m.value, m.told, m.revoked = known.given, known.value, known.told, known.revoked
	}
	if v.Gang != "" && m.ours {
		m.workload = v.Gang
	}
	if known != nil && (known.workload != m.workload || !sameMakers(known, m)) {
		f.leave(known)
		known = nil
	}
	f.join(m)
	if known == nil && m.ours && m.waiting() && !Expected(p) {
		f.listen.NotHonoured(p, f.unheeded(m))
		f.tell(m)
	}
	if p.Spec.NodeName != "" {
		f.listen.Forget(p.UID)
	}
	f.wakeAfter(m)
	f.give(m, v)
	f.writeDown(m)
	f.begun(convert.PodGroupOf(m.raw))
}

// sameMakers says whether both versions of a pod are entered under the same controller and the same objects that stand for its workload: a
// controller may let a pod go, and the maker of a controller may come later than its pods. Subjects enter a version beside the one before it, so
// that one which is entered elsewhere would stay there.
func sameMakers(a, b *member) bool {
	return controllerOf(a.pod) == controllerOf(b.pod) && groupKeyOf(a.foreign) == groupKeyOf(b.foreign) && groupKeyOf(a.made) == groupKeyOf(b.made)
}

// groupKeyOf is the object that stands for the workload, as it is read; empty for none.
func groupKeyOf(t *dialect.Terms) groupKey {
	if t == nil || t.Group == nil {
		return groupKey{}
	}
	return keyOfGroup(t.Group)
}

// reenter takes in a pod again of which other objects say something else now.
func (f *Feed) reenter(m *member) {
	p, decided := f.reading(m, m.raw)
	v := f.read(p, decided)
	v.Version = f.out.pods.next()
	f.enter(m, m.raw, p, decided, &v)
}

// join enters the pod among its workload's members.
func (f *Feed) join(m *member) {
	f.members.pods[m.key] = m
	f.volumes.Join(m.key, m.pod, m.needsClaims())
	f.poke(m)
	f.owners.join(m)
	f.rules.Join(m.key, m.pod, m.ours && m.waiting())
	f.extended.join(m)
	f.devices.join(m)
	f.foreign.join(m)
	f.made.join(m)
	f.expected.lookAt(m)
	f.tenancy.UsageChanged()
	if m.inGang() {
		insert(f.members.gangs, m.workload, m.key, m)
		f.gangs.describeAgain(m.workload)
	}
	if key := convert.PodGroupOf(m.raw); key != "" && m.ours {
		insert(f.members.grouped, key, m.key, m)
		f.gangs.agreeAgain(key)
	}
}

// leave undoes join.
func (f *Feed) leave(m *member) {
	delete(f.members.pods, m.key)
	f.volumes.Leave(m.key, m.pod)
	f.poke(m)
	f.owners.leave(m)
	f.rules.Leave(m.key, m.pod.Namespace)
	f.extended.leave(m)
	f.devices.leave(m)
	f.devices.left(m, f.preparing[m.key])
	f.foreign.leave(m)
	f.made.leave(m)
	f.expected.lookAt(m)
	f.tenancy.UsageChanged()
	f.listen.Forget(m.pod.UID)
	if key := convert.PodGroupOf(m.raw); key != "" && m.ours {
		spoke := f.speaks(m)
		cut(f.members.grouped, key, m.key)
		f.gangs.agreeAgain(key)
		if spoke {
			f.speakAnew(key)
		}
	}
	if m.inGang() {
		cut(f.members.gangs, m.workload, m.key)
		f.gangs.describeAgain(m.workload)
		f.refusals.bequeath(m)
	}
}

// poke has those look who see to the claims of the pod's start: the pod came in another version, or went.
func (f *Feed) poke(m *member) {
	if r := f.preparing[m.key]; r != nil {
		r.Poke()
	}
}

// end takes away a pod that is over, or not to be looked at yet.
func (f *Feed) end(known *member, p *corev1.Pod) {
	if known == nil {
		return // it was never given
	}
	f.leave(known)
	f.dropPod(known)
	f.ended(known, p)
	f.foreign.ended(known, p)
	if f.whatIf == nil && known.ours && p.Spec.NodeName != "" && turnedAway(&p.Status) {
		f.refusals.add(known, p.Spec.NodeName, p.Status.Reason+": "+p.Status.Message)
	}
}

// ended learns from a pod of ours that is over, or gone (nil), after it has left its workload.
func (f *Feed) ended(m *member, p *corev1.Pod) {
	if f.whatIf == nil {
		f.runtimes.ended(m, p, f.members.gangs[m.workload], f.gangs.described[m.workload].Terms.Like)
	}
}

// give hands the pod to the engine. One with claims is looked at before the next plan: what it needs may be on
// another watch.
func (f *Feed) give(m *member, v *engine.Pod) {
	if f.await(m) {
		return
	}
	if m.needsClaims() {
		f.out.wake()
		return
	}
	f.put(m, v)
}

// await keeps a pod from the engine until its controllers are known.
func (f *Feed) await(m *member) bool {
	if !m.ours || m.given || !m.waiting() || !f.owners.awaited(m.raw) && !f.awaitsMaker(m) {
		return false
	}
	f.timers.after(ownerPatience+ownerGranularity, func() {
		if now := f.members.pods[m.key]; now != nil && now.pod.UID == m.pod.UID && !now.given {
			f.reenter(now)
		}
	})
	f.out.wake()
	return true
}

// put gives the pod with what follows from other objects, unless that is what the engine has already.
func (f *Feed) put(m *member, v *engine.Pod) {
	if m.terms == nil {
		f.admissions.look[m.workload] = true
	}
	f.charge(m, v)
	f.coverPod(m, v)
	v.Labels = m.raw.Labels
	f.attach(m, v)
	if m.ours && m.bound() {
		v.Ports = append(v.Ports, f.volumes.Held(m.key, m.pod)...)
	}
	if missing := f.claimDevices(m, v); len(missing) > 0 {
		f.keepBack(m, missing)
		return
	}
	m.lacks = nil
	f.extended.mark(m, v, f.devices.Decides())
	f.whatIf.restrict(v)
	if !m.inGang() && f.checked.holds(m.workload) {
		v.Terms.Held = true
	}
	known := m.given
	if known && same(m.value, v) {
		return
	}
	switch {
	case Expected(m.pod): // its Job's version says nothing of the watch of pods
		v.Version = f.out.derived.next()
	case v.Version <= m.told: // what the pod depends on changed since
		v.Version = max(f.out.pods.next(), m.told+1)
	}
	m.given, m.value, m.told = true, v, v.Version
	f.members.fresh[m.workload] = true
	f.out.put(engine.Change{Pod: v})
	if !known {
		f.refusals.inherit(m)
	}
}

// giveRules gives the pods again whose rules mean something else now.
func (f *Feed) giveRules() {
	var again []*member
	//archtest:any-order giveAgain sorts them
	for key := range f.rules.Take() {
		if m := f.members.pods[key]; m != nil && m.given {
			again = append(again, m)
		}
	}
	f.giveAgain(again)
}

// giveAgain gives the pods, which the engine knows, with what follows from other objects now.
func (f *Feed) giveAgain(members []*member) {
	slices.SortFunc(members, func(a, b *member) int { return strings.Compare(a.key, b.key) })
	for _, m := range members {
		if m.needsClaims() {
			f.volumes.Again(m.key) // it is given with what its claims allow
			continue
		}
		v := f.read(m.pod, m.terms)
		v.Version = f.out.pods.next()
		f.put(m, &v)
	}
}

// keepBack takes the pod from the engine while its claims are not there. That is reported for pods that Berth
// schedules, and not for those of other schedulers.
func (f *Feed) keepBack(m *member, missing []string) {
	if m.given {
		m.given = false
		f.dropPod(m)
		f.refusals.bequeath(m)
	}
	m.lacks = missing
	if m.ours {
		f.listen.ClaimsMissing(m.pod, missing)
	}
}

// dropPod takes the pod from the engine.
func (f *Feed) dropPod(m *member) {
	if m.told = max(f.out.pods.next(), m.told+1); Expected(m.pod) {
		m.told = f.out.derived.next()
	}
	f.out.drop(engine.KindPod, m.key, m.told)
}

// PlaceHeld says whether the pod's nomination is ours.
func PlaceHeld(p *corev1.Pod) bool {
	return p.Status.NominatedNodeName != "" && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == v1alpha1.PodPlaceHeld && c.Status == corev1.ConditionTrue
	})
}
