package cluster

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/cluster/internal/tenancy"
	"github.com/berth-dev/berth/kube/convert"
)

// gangs describe workloads of several pods. A description follows from the PodGroup, the members, their controllers, the
// members that have succeeded and the queue that pays: whatever changes one of these puts the gang into redo, and Settle
// describes it once, however many of them changed.
type gangs struct {
	out     *output
	members *members
	owners  *owners
	tenancy *tenancy.Tenancy
	checked *checked

	groups    map[string]*schedulingv1beta1.PodGroup // by the gang's key
	forest    *forest                                // which groups have parents
	described map[string]engine.Gang                 // as last given, without version
	redo      map[string]bool                        // gangs to describe again
	disagrees map[string]string                      // what is wrong with PodGroups whose pods are Independent; none: nothing
	finishes  map[string]finish                      // by pod
	finishers map[string]map[string]bool             // pods in finishes, by gang
}

func newGangs(out *output, m *members, o *owners, t *tenancy.Tenancy) *gangs {
	return &gangs{
		out: out, members: m, owners: o, tenancy: t,
		groups: make(map[string]*schedulingv1beta1.PodGroup), forest: newForest(), described: make(map[string]engine.Gang), redo: make(map[string]bool), disagrees: make(map[string]string),
		finishes: make(map[string]finish), finishers: make(map[string]map[string]bool),
	}
}

// describeAgain has the workload's gang described before the next plan.
func (s *gangs) describeAgain(workload string) {
	if s.exists(workload) || isNative(workload) || len(s.members.gangs[workload]) > 0 {
		s.redo[workload] = true
		s.out.wake()
	}
}

// exists says whether there is a PodGroup, or a CompositePodGroup, behind the workload's key.
func (s *gangs) exists(key string) bool {
	return s.groups[key] != nil || s.forest.composites[key] != nil
}

// isNative says whether a workload's key is that of a gang which only its pods' annotations describe.
func isNative(key string) bool {
	_, rest, _ := strings.Cut(key, "/")
	return strings.HasPrefix(rest, "gang/")
}

// describe gives the engine the gang: what its PodGroup says, or its pods' annotations. A gang that only these
// describe is gone with the last of them.
func (s *gangs) describe(key string) {
	members := s.members.sorted(key)
	pods, decided := voices(members)
	var g engine.Gang
	switch group := s.groupOf(key, decided); {
	case convert.IsComposite(key):
		var ok bool
		if g, ok = s.describeTree(key, members, pods); !ok {
			s.drop(key)
			return
		}
	case group != nil && (convert.Independent(group) || len(members) == 0 && convert.ParentOf(group) != ""):
		s.drop(key)
		return
	case group != nil:
		g = convert.PodGroup(group)
		convert.GroupTerms(&g, group, pods)
		g.Invalid = cmp.Or(g.Invalid, convert.Disagreement(group, inAPI(members)))
		s.lessDone(&g, members)
	case len(members) == 0 || !isNative(key):
		s.drop(key)
		return
	default:
		g = convert.NativeGang(pods, s.owners.of(key), s.finished(key))
		g.Key = key
	}
	s.charge(&g, members, decided)
	g.Terms.Held = g.Terms.Held || s.checked.holds(key)
	if g.Invalid == "" {
		g.Invalid = awaited(members)
	}
	g.Version = 0
	if old, ok := s.described[key]; ok && reflect.DeepEqual(old, g) {
		return
	}
	s.described[key] = g
	g.Version = s.out.derived.next()
	s.out.put(engine.Change{Gang: &g})
}

// inAPI are the members' pods as they are in the API: a dialect may say other than their specs.
func inAPI(members []*member) []*corev1.Pod {
	out := make([]*corev1.Pod, len(members))
	for i, m := range members {
		out[i] = m.raw
	}
	return out
}

// awaited is what a gang of which nothing runs cannot be scheduled without, as its dialect says; "": nothing. Pods that have been decided
// about stay in their gang whatever becomes of their queue.
func awaited(members []*member) (out string) {
	for _, m := range members {
		if m.bound() {
			return ""
		}
		if m.foreign != nil && out == "" {
			out = m.foreign.Awaits
		}
	}
	return out
}

func (s *gangs) drop(key string) {
	if _, ok := s.described[key]; ok {
		delete(s.described, key)
		s.out.drop(engine.KindGang, key, s.out.derived.next())
	}
}

// lessDone lets a group's minimum not wait for members that have succeeded: no more than are still to come.
func (s *gangs) lessDone(g *engine.Gang, members []*member) {
	coming, done := 0, 0
	for _, o := range s.owners.controllers(members) {
		coming += o.Pods
		done += o.Done
	}
	if done > 0 && coming > 0 {
		g.Min = min(g.Min, coming)
	}
	g.Min = convert.Less(g.Min, s.finished(g.Key)[""])
}

// record is what is decided about the groups that the member is in; nil: it is in none, or they are not all there.
func (s *gangs) record(m *member) *convert.GroupRecord {
	g := s.groups[convert.PodGroupOf(m.pod)]
	if g == nil {
		return nil
	}
	out := convert.GroupRecordOf(g)
	if convert.ParentOf(g) != "" {
		if out.Above = s.above(g); out.Above == nil {
			return nil
		}
	}
	return out
}

// recordBeside is as was decided for one of the members that is in the same PodGroup, or as record says.
func (s *gangs) recordBeside(m *member, members []*member) *convert.GroupRecord {
	for _, o := range members {
		if o.terms != nil && o.groupName() == m.groupName() {
			return o.terms.Group
		}
	}
	return s.record(m)
}

// groupOf is the PodGroup behind the key as it was decided about with its pods, which may have outlived it; nil: none.
func (s *gangs) groupOf(key string, decided *decidedGang) *schedulingv1beta1.PodGroup {
	g := s.groups[key]
	if decided == nil || decided.Group == nil {
		return g
	}
	namespace, rest, _ := strings.Cut(key, "/")
	return decided.Group.On(g, namespace, rest[strings.LastIndexByte(rest, '/')+1:])
}

// protected says whether the workload's PodGroup keeps its pods from being evicted for others. It is asked for every member
// that comes, so it does not sort them.
func (s *gangs) protected(workload string) bool {
	if isNative(workload) {
		return false
	}
	if convert.IsComposite(workload) {
		return s.firm(workload)
	}
	var decided *decidedGang
	lowest := ""
	//archtest:any-order the lowest name decides
	for key, m := range s.members.gangs[workload] {
		if m.terms != nil && (decided == nil || key < lowest) {
			decided, lowest = &decidedGang{terms: m.terms}, key
		}
	}
	g := s.groupOf(workload, decided)
	return g != nil && !convert.Evictable(g)
}

// independent is the PodGroup that the pod is in, as it was decided about with the pod, if the pod is a workload of its own in it; nil: it is
// not. A pod that runs stays one when the group goes before it; what waits, waits for its group.
func (s *gangs) independent(p *corev1.Pod, decided *terms) *schedulingv1beta1.PodGroup {
	key := convert.PodGroupOf(p)
	if key == "" {
		return nil
	}
	g := s.groups[key]
	if g == nil && p.Spec.NodeName == "" || g != nil && !convert.Independent(g) {
		return nil
	}
	if decided != nil && decided.Group != nil {
		if len(decided.Group.Above) > 0 {
			return nil
		}
		g = decided.Group.On(g, p.Namespace, *p.Spec.SchedulingGroup.PodGroupName)
	}
	if g == nil || !convert.Independent(g) {
		return nil
	}
	return g
}

// agreeAgain has it looked before the next plan whether the members of a PodGroup agree whose pods are workloads of their own.
func (s *gangs) agreeAgain(key string) {
	if g := s.groups[key]; g != nil && convert.Independent(g) || s.disagrees[key] != "" {
		s.redo[key] = true
		s.out.wake()
	}
}

// agree looks whether the members of the PodGroup have its priority, where they are workloads of their own. While one has not, none that
// waits starts, as upstream has it.
func (f *Feed) agree(key string) {
	wrong := ""
	var given []*member
	if g := f.gangs.groups[key]; g != nil && convert.Independent(g) {
		var pods []*corev1.Pod
		for _, name := range slices.Sorted(maps.Keys(f.members.grouped[key])) {
			m := f.members.grouped[key][name]
			pods = append(pods, m.raw)
			if m.given && m.waiting() {
				given = append(given, m)
			}
		}
		wrong = convert.Disagreement(g, pods)
	}
	if f.gangs.disagrees[key] == wrong {
		return
	}
	if f.gangs.disagrees[key] = wrong; wrong == "" {
		delete(f.gangs.disagrees, key)
	}
	f.giveAgain(given)
}

// setGroup takes in a PodGroup.
func (f *Feed) setGroup(g *schedulingv1beta1.PodGroup) {
	v := convert.PodGroup(g)
	old, had := f.gangs.groups[v.Key], ""
	if old != nil {
		had = convert.ParentOf(old)
	}
	protected := f.gangs.protected(v.Key)
	f.gangs.groups[v.Key] = g
	f.out.derived.saw(v.Version)
	f.gangs.forest.link(v.Key, g.Namespace, had, convert.ParentOf(g))
	if had != convert.ParentOf(g) || asksOtherwise(old, g) {
		f.regroup(v.Key)
	}
	if convert.Idle(g) {
		f.gangs.drop(v.Key)
		return
	}
	if protected != f.gangs.protected(v.Key) {
		f.giveMembersAgain(f.gangs.gangOf(v.Key))
	}
	f.gangs.describeAgain(f.gangs.gangOf(v.Key))
	f.members.fresh[f.gangs.gangOf(v.Key)] = true
	f.begun(v.Key)
}

// speaks says whether the pod is the one whose workload says why its PodGroup waits, which is no gang: of the members that wait the
// lowest-named, until the group has begun. The workload is the pod itself, or the gang that it names.
func (f *Feed) speaks(m *member) bool {
	key := convert.PodGroupOf(m.raw)
	g := f.gangs.groups[key]
	if g == nil || !m.given || !m.waiting() || InitiallyScheduled(g) || !convert.Independent(g) || convert.Idle(g) {
		return false
	}
	for name, o := range f.members.grouped[key] { //archtest:any-order it asks whether there is one
		if name < m.key && o.given && o.waiting() {
			return false
		}
	}
	return true
}

// GroupOfPod is the name of the PodGroup in which the pod is a workload of its own; "" for none.
func (f *Feed) GroupOfPod(key string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m := f.members.pods[key]; m != nil && !m.inGang() && m.ours {
		return m.groupName()
	}
	return ""
}

// speakAnew has another member of the PodGroup say why it waits, after the one that did has gone.
func (f *Feed) speakAnew(key string) {
	next := ""
	for name, o := range f.members.grouped[key] { //archtest:any-order the lowest name is looked for
		if (next == "" || name < next) && o.given && o.waiting() {
			next = name
		}
	}
	if next != "" {
		f.members.fresh[f.members.pods[next].workload] = true
	}
}

// spokenFor are the PodGroups, by name, that wait for what the workload waits for, and are no gangs.
func (f *Feed) spokenFor(workload string) (out []*schedulingv1beta1.PodGroup) {
	speak := func(m *member) {
		if f.speaks(m) {
			out = append(out, f.gangs.groups[convert.PodGroupOf(m.raw)])
		}
	}
	if m := f.members.pods[workload]; m != nil {
		speak(m)
	}
	for _, m := range f.members.sorted(workload) {
		speak(m)
	}
	slices.SortFunc(out, func(a, b *schedulingv1beta1.PodGroup) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// asksOtherwise says whether pods may be read otherwise in the group than in the version of it before, nil for none, because they are
// workloads of their own in one of the two: of other groups the gang is described again.
func asksOtherwise(old, g *schedulingv1beta1.PodGroup) bool {
	if old == nil {
		return true
	}
	if !convert.Independent(old) && !convert.Independent(g) {
		return false
	}
	return !reflect.DeepEqual(old.Spec, g.Spec) || !maps.Equal(old.Annotations, g.Annotations) || !maps.Equal(old.Labels, g.Labels)
}

// gangOf is the key of the gang that the PodGroup of the key is, or is part of.
func (s *gangs) gangOf(key string) string {
	if root := s.rootOf(key); root != "" {
		return root
	}
	return key
}

// idle says whether the pod's group asks nothing of it, or did when it was last seen: a group may be gone before its pods.
func (s *gangs) idle(known *member, raw *corev1.Pod) bool {
	key := convert.PodGroupOf(raw)
	if key == "" {
		return false
	}
	if g := s.groups[key]; g != nil {
		return convert.Idle(g)
	}
	return known != nil && known.raw.UID == raw.UID && known.pod.Spec.SchedulingGroup == nil
}

// without is the pod as it is in the API, without a group that asks nothing of it.
func (s *gangs) without(known *member, raw *corev1.Pod) *corev1.Pod {
	if s.idle(known, raw) {
		return convert.Ungrouped(raw)
	}
	return raw
}

// removeGroup takes a PodGroup away.
func (f *Feed) removeGroup(g *schedulingv1beta1.PodGroup) {
	v := convert.PodGroup(g)
	protected, root := f.gangs.protected(v.Key), f.gangs.rootOf(v.Key)
	delete(f.gangs.groups, v.Key)
	if root != "" {
		f.gangs.forest.link(v.Key, g.Namespace, convert.ParentOf(g), "")
		f.regroup(v.Key)
		f.gangs.describeAgain(root)
		f.admissions.all = true
	}
	if convert.Independent(g) && !convert.Idle(g) {
		f.regroup(v.Key)
		f.gangs.agreeAgain(v.Key)
		f.admissions.all = true
	}
	if protected {
		f.giveMembersAgain(cmp.Or(root, v.Key))
	}
	if f.gangs.disagrees[v.Key] == "" {
		delete(f.gangs.redo, v.Key)
	}
	f.listen.Forget(g.UID)
	f.out.derived.saw(v.Version)
	if decidedOf(f.members.sorted(v.Key)) == nil {
		f.gangs.drop(v.Key)
		return
	}
	f.admissions.all = true // of what waits, nothing is decided any more
	f.gangs.describeAgain(v.Key)
}

// giveMembersAgain gives the members of a gang that the engine knows.
func (f *Feed) giveMembersAgain(gang string) {
	f.giveAgain(slices.DeleteFunc(f.members.sorted(gang), func(m *member) bool { return !m.given }))
}

// begun looks whether as many members of the PodGroup as must start together have a node, and what follows for the groups above it.
func (f *Feed) begun(key string) {
	g := f.gangs.groups[key]
	if g == nil || convert.Idle(g) {
		return
	}
	if !InitiallyScheduled(g) {
		if !f.onNodes(key, g) {
			return
		}
		f.listen.Begun(g)
	}
	if up := convert.ParentOf(g); up != "" {
		f.begunAbove(convert.CompositeKey(g.Namespace, up))
	}
}

// InitiallyScheduled says whether the group's minimum once had its nodes. That is never taken back.
func InitiallyScheduled(g *schedulingv1beta1.PodGroup) bool {
	return meta.IsStatusConditionTrue(g.Status.Conditions, schedulingv1beta1.PodGroupInitiallyScheduled)
}
