package cluster

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/kube/convert"
	"github.com/berth-dev/berth/kube/dialect"
	"github.com/berth-dev/berth/kube/dialect/controllers"
)

// made is the pods that workload controllers of other projects made, by the object that they were made for: a JobSet, a RayCluster. That
// object says which of them are a gang. It has a word for pods whose author, and the dialect of whose scheduler, name no gang.
type made struct {
	dialect.Maker // nil: none of its kinds is served
	pods          map[groupKey]map[string]*member
	said          map[groupKey]string // what was told of the object's pods
	missed        bool                // see MissedMaker
}

func newMade() *made {
	return &made{pods: make(map[groupKey]map[string]*member), said: make(map[groupKey]string)}
}

// gangKeys are those that say which gang a pod is in, and how many are in it. They count together: of two objects that have some of them, one
// counts for all of them.
var gangKeys = []string{v1alpha1.KeyGang, v1alpha1.KeySubgroup, v1alpha1.KeyMin, v1alpha1.KeySize, v1alpha1.KeyMinSubgroups}

// madeTerms is the gang of a pod that a controller made; nil: none did that is read.
func (f *Feed) madeTerms(p *corev1.Pod) *dialect.Terms {
	if !f.opts.Ours(p.Spec.SchedulerName) {
		return nil
	}
	pod := &dialect.Pod{Pod: p, Owners: f.owners.chain(p)}
	if f.made.Maker != nil {
		return f.made.Pod(pod, f.foreign)
	}
	return controllers.New().Pod(pod, f.foreign) // its object's kind may have been served a moment ago
}

// MissedMaker says whether, since it was last asked, a pod came that was made for an object which was not seen yet: its kind may be
// served and not watched yet.
func (f *Feed) MissedMaker() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	missed := f.made.missed
	f.made.missed = false
	return missed
}

// both is what the dialect of the pod's scheduler says, with the gang of its maker where the pod names none itself: a group that Berth
// would make for the pod's controller is not one that was named.
func both(t, by *dialect.Terms) *dialect.Terms {
	if by == nil || len(by.Keys) == 0 || t != nil && (by.Group == nil || t.Keys[v1alpha1.KeyGang] != "" || t.Awaits != "" || t.Group != nil && t.Group.Make == nil) {
		return t // of Kubernetes' own controllers the dialect knows better
	}
	if t == nil {
		return &dialect.Terms{Keys: by.Keys}
	}
	out := *t
	out.Keys = maps.Clone(t.Keys)
	maps.Copy(out.Keys, by.Keys)
	return &out
}

// minimum has the group that Berth makes for the pod's workload say how many pods start together.
func minimum(t, by *dialect.Terms) *dialect.Terms {
	if t == nil || by == nil || by.Least < 2 || t.Group == nil || t.Group.Make == nil || t.Keys[v1alpha1.KeyGang] != "" {
		return t
	}
	out, group, made := *t, *t.Group, t.Group.Make
	group.Make = func() *unstructured.Unstructured {
		u := made()
		spec, _ := u.Object["spec"].(map[string]any)
		sets, _ := spec["podSets"].([]any)
		switch {
		case len(sets) > 0: // a Workload of Kueue's
			if set, ok := sets[0].(map[string]any); ok {
				set["count"] = int64(by.Least)
			}
		case spec != nil:
			spec["minMember"] = int64(by.Least)
		}
		return u
	}
	out.Group = &group
	return &out
}

// withMade is the pod with what the object that it was made for says under our keys, and with the gang that it makes unless somebody
// nearer names one.
func (f *Feed) withMade(p *corev1.Pod, by *dialect.Terms) *corev1.Pod {
	if by == nil {
		return p
	}
	if o := f.madeFor(by); o != nil {
		if set, ok := o.Value.(*controllers.Set); ok {
			p = convert.WithOwners(p, convert.KeysOf(&set.Meta))
		}
	}
	return p
}

func (f *Feed) madeFor(by *dialect.Terms) *dialect.Object {
	if by.Group == nil {
		return nil
	}
	return f.foreign.Object(by.Group.Kind, by.Group.Namespace, by.Group.Name)
}

// ungang is the keys without those of a gang.
func ungang(keys map[string]string) map[string]string {
	out := maps.Clone(keys)
	for _, key := range gangKeys {
		delete(out, key)
	}
	return out
}

// awaits says whether the object that the pod was made for has not been seen, while it may still come.
func (f *Feed) awaitsMaker(m *member) bool {
	return m.made != nil && m.made.Missing != "" && !f.owners.complete && f.timers.now().Sub(m.raw.CreationTimestamp.Time) <= ownerPatience
}

func (s *made) join(m *member) {
	if m.made != nil && m.made.Group != nil {
		insert(s.pods, keyOfGroup(m.made.Group), m.key, m)
	}
}

func (s *made) leave(m *member) {
	if m.made != nil && m.made.Group != nil {
		cut(s.pods, keyOfGroup(m.made.Group), m.key)
	}
}

// reenterMade takes in again the pods of an object that changed, and says what of them starts together.
func (f *Feed) reenterMade(key groupKey) {
	for _, pod := range sortedNames(f.made.pods[key]) {
		if m := f.members.pods[pod]; m != nil {
			f.reenter(m)
		}
	}
}

// tell says once, on the object, what of its pods starts together.
func (f *Feed) tell(m *member) {
	if m.made == nil || m.made.Says == "" || m.made.Group == nil || !m.ours || m.adopted {
		return
	}
	key := keyOfGroup(m.made.Group)
	t := f.foreign.objects[key.kind][key.namespace+"/"+key.name]
	if t == nil || f.made.said[key] == m.made.Says || m.inGang() && m.pod.Annotations[v1alpha1.KeyGang] != m.made.Keys[v1alpha1.KeyGang] {
		return
	}
	f.made.said[key] = m.made.Says
	f.listen.Counted(t.raw, m.made.Says)
}

// chain are the pod's controllers, the nearest first.
func (o *owners) chain(p *corev1.Pod) []dialect.Owner {
	var out []dialect.Owner
	for by := o.all[controllerOf(p)]; by != nil && by.Namespace == p.Namespace && len(out) < 2; by = o.all[by.Controller] {
		out = append(out, dialect.Owner{
			Kind: by.Kind, Name: by.Name, UID: by.UID, Meta: metav1.ObjectMeta{Labels: by.Labels, Annotations: by.Annotations}, Pods: by.Pods, InTurn: by.InTurn,
			By: by.By, Coupled: by.Coupled,
		})
	}
	return out
}

// owned are the pod's controllers, with the object that a controller of another project's made it for. That object need not be in the
// chain of controllers: the workers of a LeaderWorkerSet belong to their leader.
func (f *Feed) owned(p *corev1.Pod) []dialect.Owner {
	out := f.owners.chain(p)
	if f.made.Maker == nil {
		return out
	}
	by := f.made.Pod(&dialect.Pod{Pod: p, Owners: out}, f.foreign)
	if by == nil {
		return out
	}
	o := f.madeFor(by)
	if o == nil {
		return out
	}
	t := f.foreign.objects[by.Group.Kind][by.Group.Namespace+"/"+by.Group.Name]
	ref := metav1.GetControllerOfNoCopy(p)
	if n := len(out); n > 0 {
		ref = out[n-1].By
	}
	if ref != nil && ref.Kind == t.raw.GetKind() && ref.UID != o.UID { // made for one of the same name that is gone
		return out
	}
	set, ok := o.Value.(*controllers.Set)
	if !ok {
		return out
	}
	return append(out, dialect.Owner{Kind: t.raw.GetKind(), Name: o.Name, UID: o.UID, APIVersion: t.raw.GetAPIVersion(), Meta: set.Meta, Part: by.Part})
}

// speakMaker has the kinds of the maker read from now on.
func (f *Feed) speakMaker(d dialect.Maker) {
	f.made.Maker = d
	for _, k := range d.Kinds() {
		f.foreign.kinds[k.Name()] = spoken{d, k}
	}
	for _, key := range slices.Sorted(maps.Keys(f.members.pods)) {
		if m := f.members.pods[key]; m.ours {
			f.reenter(m)
		}
	}
}
