package scheduler

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/convert"
)

// describeAgain has the workload's gang described before the next plan.
func (f *feed) describeAgain(workload string) {
	if f.groups[workload] != nil || isNative(workload) || len(f.gangs[workload]) > 0 {
		f.redo[workload] = true
		f.inbox.stir()
	}
}

// isNative says whether a workload's key is that of a gang which only its pods' annotations describe.
func isNative(key string) bool {
	_, rest, _ := strings.Cut(key, "/")
	return strings.HasPrefix(rest, "gang/")
}

// settle puts into the inbox what follows from several changes at once: the cycle calls it before it takes
// them. What another queue pays for, and what other disruption budgets cover, is given again, nodes are booked,
// gangs are described again, pods whose volumes changed given again, and terms decided.
func (f *feed) settle() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.recharge()
	f.lapse()
	f.recover()
	f.rebook()
	for _, key := range slices.Sorted(maps.Keys(f.redo)) {
		f.disown(key)
		f.describe(key)
	}
	clear(f.redo)
	f.recheck()
	f.admit()
}

// describe gives the engine the gang: what its PodGroup says, or its pods' annotations. A gang that only these
// describe is gone with the last of them.
func (f *feed) describe(key string) {
	members := f.sorted(key)
	pods, lead := voices(members)
	var g engine.Gang
	switch group := f.groupOf(key, lead); {
	case group != nil:
		g = convert.PodGroup(group)
		convert.GroupTerms(&g, group, pods)
		f.lessDone(&g, members)
	case len(members) == 0 || !isNative(key):
		f.dropGang(key)
		return
	default:
		g = convert.NativeGang(pods, f.owners.of(key), f.finished(key))
		g.Key = key
	}
	f.chargeGang(&g, members, lead)
	f.admissions.look[key] = true
	g.Version = 0
	if old, ok := f.described[key]; ok && reflect.DeepEqual(old, g) {
		return
	}
	f.described[key] = g
	g.Version = f.made.next()
	f.inbox.put(engine.Change{Gang: &g})
}

func podsOf(members []*member) []*corev1.Pod {
	out := make([]*corev1.Pod, len(members))
	for i, m := range members {
		out[i] = m.pod
	}
	return out
}

func (f *feed) dropGang(key string) {
	if _, ok := f.described[key]; ok {
		delete(f.described, key)
		f.drop(engine.KindGang, key, f.made.next())
	}
}

// lessDone lets a group's minimum not wait for members that have succeeded: no more than are still to come.
func (f *feed) lessDone(g *engine.Gang, members []*member) {
	coming, done := 0, 0
	for _, o := range f.owners.makers(members) {
		coming += o.Pods
		done += o.Done
	}
	if done > 0 && coming > 0 {
		g.Min = min(g.Min, coming)
	}
	g.Min = convert.Less(g.Min, f.finished(g.Key)[""])
}

func (f *feed) setGroup(g *schedulingv1beta1.PodGroup) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := convert.PodGroup(g)
	if old := f.groups[v.Key]; old == nil || old.UID != g.UID {
		f.says.notHonoured(g, convert.UnheededGroup(g))
	}
	firm := f.firm(v.Key)
	f.groups[v.Key] = g
	f.made.saw(v.Version)
	if firm != f.firm(v.Key) {
		f.giveMembersAgain(v.Key)
	}
	f.describeAgain(v.Key)
	f.fresh[v.Key] = true
	f.begun(v.Key)
}

func (f *feed) removeGroup(g *schedulingv1beta1.PodGroup) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := convert.PodGroup(g)
	firm := f.firm(v.Key)
	delete(f.groups, v.Key)
	if firm {
		f.giveMembersAgain(v.Key)
	}
	delete(f.redo, v.Key)
	f.says.forget(g.UID)
	f.made.saw(v.Version)
	if leadOf(f.sorted(v.Key)) == nil {
		f.dropGang(v.Key)
		return
	}
	f.admissions.all = true // of what waits, nothing is decided any more
	f.describeAgain(v.Key)
}

// begun looks whether as many members of the group as must start together have a node.
func (f *feed) begun(key string) {
	g := f.groups[key]
	if g == nil || initiallyScheduled(g) {
		return
	}
	bound := 0
	for _, m := range f.gangs[key] {
		if m.pod.Spec.NodeName != "" {
			bound++
		}
	}
	if bound > 0 && bound >= convert.PodGroup(g).Min {
		f.says.begun(g)
	}
}

// group returns the PodGroup behind a workload's key, nil if there is none.
func (f *feed) group(key string) *schedulingv1beta1.PodGroup {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.groups[key]
}
