package cluster

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/cluster/internal/tenancy"
	"github.com/berth-dev/berth/kube/convert"
)

// owners is what is known of controllers, and what depends on them: their pods, for what these do not say
// themselves, and gangs, for how many members there will be.
type owners struct {
	all    map[types.UID]*convert.Owner
	below  map[types.UID]map[types.UID]bool // owners, by their controller
	pods   map[types.UID]map[string]*member // ours, by their controller, then by key
	parts  map[string]map[types.UID]string  // owners of a native gang's pods, existing or to come, with the subgroup
	gangOf map[types.UID]string             // the native gang that the owner's template is in
	// complete says that all that exist are known: none is awaited.
	complete bool
	kinds    map[string]bool // that are watched: an owner of another kind is not awaited
	now      func() time.Time
}

func newOwners(now func() time.Time) *owners {
	return &owners{
		now: now, all: make(map[types.UID]*convert.Owner), below: make(map[types.UID]map[types.UID]bool), pods: make(map[types.UID]map[string]*member),
		parts: make(map[string]map[types.UID]string), gangOf: make(map[types.UID]string),
		kinds: map[string]bool{"Job": true, "StatefulSet": true, "ReplicaSet": true, "Deployment": true},
	}
}

func controllerOf(p *corev1.Pod) types.UID {
	if c := convert.ControllerOf(p); c != nil {
		return c.UID
	}
	return ""
}

// completed returns the pod with what its controllers say.
func (o *owners) completed(p *corev1.Pod) *corev1.Pod {
	by := o.all[controllerOf(p)]
	if by == nil || by.Namespace != p.Namespace {
		return p
	}
	return convert.WithOwners(p, append([]convert.Keys{by.Own()}, o.above(by)...)...)
}

// held is the pod, which was decided about, with what its controllers say today about whether it is held.
func (o *owners) held(p *corev1.Pod) *corev1.Pod {
	by := o.all[controllerOf(p)]
	if by == nil || by.Namespace != p.Namespace {
		return p
	}
	said := []convert.Keys{by.Own().Held()}
	for _, keys := range o.above(by) {
		said = append(said, keys.Held())
	}
	return convert.WithOwners(p, said...)
}

// mostAbove is how many controllers are read above the one that makes a pod: a TrainJob has a JobSet, which has Jobs.
const mostAbove = 4

// above are the keys of the owner's own controllers, the nearest first.
func (o *owners) above(owner *convert.Owner) (out []convert.Keys) {
	for up := o.all[owner.Controller]; up != nil && len(out) < mostAbove && up.Namespace == owner.Namespace; up = o.all[up.Controller] {
		out = append(out, up.Own())
	}
	return out
}

// awaited says whether a controller whose word counts for the pod has not been seen yet. Pods and their controllers
// come by different watches, and one that comes early must not start as if nothing had been declared.
func (o *owners) awaited(p *corev1.Pod) bool {
	c := metav1.GetControllerOfNoCopy(p)
	if o.complete || c == nil || o.now().Sub(p.CreationTimestamp.Time) > ownerPatience {
		return false
	}
	if o.all[c.UID] == nil {
		return o.kinds[c.Kind]
	}
	for by, n := o.all[c.UID], 0; n < mostAbove && by.Controller != ""; n++ {
		up := o.all[by.Controller]
		if up == nil {
			return by.By != nil && o.kinds[by.By.Kind] || by.Kind == "ReplicaSet"
		}
		by = up
	}
	return false
}

const (
	// ownerPatience is how old a pod is when a controller that was not seen is taken to be gone.
	ownerPatience = 5 * time.Second
	// ownerGranularity is that of creation times.
	ownerGranularity = time.Second
)

func (o *owners) join(m *member) {
	if by := controllerOf(m.pod); by != "" && m.ours {
		insert(o.pods, by, m.key, m)
	}
}

func (o *owners) leave(m *member) {
	if by := controllerOf(m.pod); o.pods[by][m.key] == m {
		cut(o.pods, by, m.key)
	}
}

// of lists the owners of a native gang's pods, by UID.
func (o *owners) of(gang string) []convert.PartOwner {
	var out []convert.PartOwner
	for _, uid := range slices.Sorted(maps.Keys(o.parts[gang])) {
		out = append(out, convert.PartOwner{Owner: o.all[uid], Subgroup: o.parts[gang][uid]})
	}
	return out
}

// Selector is how the pod's controller selects its pods, nil for none.
func (o *owners) Selector(p *corev1.Pod) []engine.Requirement {
	if by := o.all[controllerOf(p)]; by != nil && by.Namespace == p.Namespace {
		return by.Selector
	}
	return nil
}

// around is what the rules between pods are asked with.
type around struct {
	*tenancy.Tenancy
	*owners
}

// controllers lists the owners of the pods, by UID.
func (o *owners) controllers(members []*member) []*convert.Owner {
	found := make(map[types.UID]*convert.Owner)
	for _, m := range members {
		if by := o.all[controllerOf(m.pod)]; by != nil {
			found[by.UID] = by
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b *convert.Owner) int { return compareUIDs(a.UID, b.UID) })
}

func compareUIDs(a, b types.UID) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// WatchOwners says that objects of the kind will be given to Set.
func (f *Feed) WatchOwners(kind string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.owners.kinds[kind] = true
}

// setOwner takes in a controller of pods: a Job, StatefulSet, ReplicaSet or Deployment, or the metadata of another.
func (f *Feed) setOwner(object metav1.Object) {
	f.noteJob(object)
	o, ok := convert.OwnerOf(object)
	if !ok {
		return
	}
	old := f.owners.all[o.UID]
	if old != nil && old.Equal(&o) {
		return
	}
	if old != nil && old.Controller != o.Controller {
		cut(f.owners.below, old.Controller, o.UID)
	}
	f.owners.all[o.UID] = &o
	if o.Controller != "" {
		insert(f.owners.below, o.Controller, o.UID, true)
	}
	f.ownerChanged(o.UID, old != nil && old.SaysTheSame(&o), mostAbove)
}

// removeOwner takes a controller away.
func (f *Feed) removeOwner(object metav1.Object) {
	f.dropJob(object.GetUID())
	old := f.owners.all[object.GetUID()]
	if old == nil {
		return
	}
	delete(f.owners.all, old.UID)
	cut(f.owners.below, old.Controller, old.UID)
	f.ownerChanged(old.UID, len(old.Keys) == 0 && !old.Surges && len(old.Selector) == 0 && !f.foreign.used(), mostAbove)
}

// ownerChanged looks again at the gangs of the owner's pods, and unless what it says to them is the same as
// before at the pods, and at those of as many levels of owners below it as are read above a pod. Owner references are what anybody
// writes: they may form a circle.
func (f *Feed) ownerChanged(uid types.UID, same bool, levels int) {
	for _, gang := range f.owners.relate(uid) {
		f.gangs.describeAgain(gang)
	}
	//archtest:any-order it fills a set
	for _, m := range f.owners.pods[uid] {
		f.gangs.describeAgain(m.workload)
	}
	if same {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(f.owners.pods[uid])) {
		f.reenter(f.owners.pods[uid][key])
	}
	if levels == 0 {
		return
	}
	for _, child := range slices.Sorted(maps.Keys(f.owners.below[uid])) {
		f.ownerChanged(child, false, levels-1)
	}
}

// relate enters the owner under the native gang that its pods are in or will be in. It returns the gangs that are to be
// described again.
func (o *owners) relate(uid types.UID) (gangs []string) {
	if was := o.gangOf[uid]; was != "" {
		cut(o.parts, was, uid)
		delete(o.gangOf, uid)
		gangs = append(gangs, was)
	}
	owner := o.all[uid]
	if owner == nil || owner.Pods == 0 && owner.Done == 0 {
		return gangs
	}
	if gang, subgroup := owner.Gang(o.above(owner)...); gang != "" {
		insert(o.parts, gang, uid, subgroup)
		o.gangOf[uid] = gang
		gangs = append(gangs, gang)
	}
	return gangs
}
