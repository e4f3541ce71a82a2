package scheduler

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/convert"
)

// isNative says whether a workload's key is that of a gang which only its pods' annotations describe.
func isNative(key string) bool {
	_, rest, _ := strings.Cut(key, "/")
	return strings.HasPrefix(rest, "gang/")
}

func (f *feed) describeAgain(gang string) {
	if isNative(gang) {
		f.redo[gang] = true
	}
}

// settle puts into the inbox what follows from several changes at once: the cycle calls it before it takes
// them. Gangs that only their pods describe are described again, and pods whose volumes changed given again.
func (f *feed) settle() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.recheck()
	for _, key := range slices.Sorted(maps.Keys(f.redo)) {
		f.describe(key)
	}
	clear(f.redo)
}

// describe makes the gang of its pods' annotations; it is gone with the last of them.
func (f *feed) describe(key string) {
	var pods []*corev1.Pod
	for _, m := range f.sorted(key) {
		pods = append(pods, m.pod)
	}
	if len(pods) == 0 {
		f.drop(engine.KindGang, key, f.versions.next())
		return
	}
	g, problems := convert.NativeGang(pods)
	g.Key, g.Version = key, f.versions.next()
	f.inbox.put(engine.Change{Gang: &g})
	for _, problem := range problems {
		if m := f.pods[problem.Pod]; m != nil && m.waiting() {
			f.says.badAnnotation(m.pod, problem)
		}
	}
}

func (f *feed) setGroup(g *schedulingv1beta1.PodGroup) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := convert.PodGroup(g)
	if old := f.groups[v.Key]; old == nil || old.UID != g.UID {
		f.says.notHonoured(g, convert.UnheededGroup(g))
	}
	f.groups[v.Key] = g
	v.Version <<= ownVersions
	f.inbox.put(engine.Change{Gang: &v})
	f.begun(v.Key)
}

func (f *feed) removeGroup(g *schedulingv1beta1.PodGroup) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v := convert.PodGroup(g)
	delete(f.groups, v.Key)
	f.says.forget(g.UID)
	f.drop(engine.KindGang, v.Key, v.Version<<ownVersions)
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
