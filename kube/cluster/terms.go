package cluster

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/convert"
)

// Terms. What a workload asks for is decided once, when it enters its queue: when it is first seen whole, what it says can
// be read, and the queue that pays exists and is open to its namespace. Until then edits are read, so that what is wrong
// can be mended. From then on its pods are read as they were decided about: see reading. The decision is written into a
// condition of the pod before the pod is bound, so that the next leader goes on from it.
//
// A gang has the terms that its members were decided with, for as long as it has any: pods that come to it take them over.
// Where only such pods are left, and none of them runs, what they asked for themselves counts.

// terms is what was decided about a pod. It is not written to, and shared by pods that have the same.
type terms struct {
	convert.Record
	text string // as it is written down
}

// admissions is what is to be decided before the next plan.
type admissions struct {
	look  map[string]bool   // workloads of which something changed
	all   bool              // a queue changed, or which namespaces may use one
	known map[string]*terms // by text
	// follows says that another scheduler leads.
	follows bool
	// seal reads the records that pods were bound with, and signs those that they will be; nil: the secret is not known.
	seal *convert.Seal
	// guarded says that sealed terms cannot be removed from pods. Where they can, bound pods need the condition too.
	guarded bool
}

func newAdmissions() admissions {
	return admissions{look: make(map[string]bool), all: true, known: make(map[string]*terms)}
}

// share returns the terms, of which there is one for each text.
func (f *Feed) share(r convert.Record, text string) *terms {
	a := &f.admissions
	if t := a.known[text]; t != nil {
		return t
	}
	if len(a.known) > 2*len(f.members.pods)+1000 {
		clear(a.known)
	}
	t := &terms{r, text}
	a.known[text] = t
	return t
}

// recorded is what the pod says was decided, in its conditions or as it was bound; nil for nothing.
func (f *Feed) recorded(p *corev1.Pod) *terms {
	text := convert.RecordText(p, f.admissions.seal)
	if t := f.admissions.known[text]; t != nil {
		return t
	}
	r, text, ok := convert.RecordOf(p, f.admissions.seal)
	if !ok {
		return nil
	}
	return f.share(r, text)
}

// SealWith gives the feed the means to sign records, and to tell those that it signed. It is called before the first pod
// is seen.
func (f *Feed) SealWith(s *convert.Seal) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.admissions.seal = s
}

// Guard says whether sealed records are safe on pods from now on. When they are no longer, the terms of all that are
// written down nowhere else are written into conditions.
func (f *Feed) Guard(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a := &f.admissions
	was := a.guarded
	a.guarded = on && a.seal != nil
	if !was || a.guarded {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(f.members.pods)) {
		f.writeDown(f.members.pods[key])
	}
}

// reading is the pod as the scheduler reads it, and what was decided about it, nil for nothing: raw is the pod as it is in
// the API, known as it was seen before, nil for not. A Model believes what the pod says now, and so does a scheduler that
// does not lead: the leader decides.
func (f *Feed) reading(known *member, raw *corev1.Pod) (*corev1.Pod, *terms) {
	if !f.opts.Ours(raw.Spec.SchedulerName) {
		return f.owners.completed(f.gangs.without(known, raw)), nil
	}
	raw = f.plain(known, raw)
	var t *terms
	if known != nil && known.pod.UID != raw.UID {
		known = nil
	}
	if known != nil && f.whatIf == nil && !f.admissions.follows {
		t = known.terms
	}
	if t == nil {
		t = f.recorded(raw)
	}
	if t == nil || known != nil && known.revoked == t.text {
		return f.completed(raw), nil
	}
	return f.owners.held(t.Keys.On(raw)), t
}

// payer returns the queue that pays for a pod by itself.
func (f *Feed) payer(m *member) string {
	if m.terms != nil {
		return f.tenancy.Payer(m.pod.Namespace, m.terms.Queue)
	}
	named := convert.QueueOf(m.pod)
	if g := f.gangs.independent(m.pod, nil); g != nil {
		named = cmp.Or(convert.QueueOf(g), named)
	}
	return f.tenancy.Payer(m.pod.Namespace, named)
}

// decidedGang is what the members of a gang that have been decided about have in common.
type decidedGang struct {
	*terms                         // of the lowest-named
	parts  map[string]convert.Keys // of the lowest-named of each subgroup
}

// decidedOf finds it among the members, which are sorted; nil: none has been decided about.
func decidedOf(members []*member) *decidedGang {
	var l *decidedGang
	for _, m := range members {
		if m.terms == nil {
			continue
		}
		if l == nil {
			l = &decidedGang{terms: m.terms, parts: make(map[string]convert.Keys)}
		}
		part := m.terms.Keys[v1alpha1.KeySubgroup]
		if _, ok := l.parts[part]; !ok {
			l.parts[part] = m.terms.Keys
		}
	}
	return l
}

// joining is what a pod would be decided with that comes to the gang. It is false for one that cannot be part of the gang
// as it is: it names a subgroup and the others do not, or the other way round.
func (l *decidedGang) joining(m *member) (convert.Keys, bool) {
	own := convert.FixedOf(m.pod)
	part := own[v1alpha1.KeySubgroup]
	if isNative(m.workload) && (part == "") != (l.Keys[v1alpha1.KeySubgroup] == "") {
		return nil, false
	}
	beside, ok := l.parts[part]
	if ok && beside == nil {
		beside = convert.Keys{} // there is one, and it says nothing
	}
	return own.Joining(l.Keys, beside), true
}

// voices are the pods that describe the gang, and what is decided about it already. Pods that have not been decided about
// say what the gang has.
func voices(members []*member) ([]*corev1.Pod, *decidedGang) {
	l := decidedOf(members)
	out := make([]*corev1.Pod, 0, len(members))
	for _, m := range members {
		p := m.pod
		if l != nil && m.terms == nil {
			keys, ok := l.joining(m)
			if !ok {
				continue
			}
			p = keys.On(p)
		}
		out = append(out, p)
	}
	return out, l
}

// revoke undoes decisions about workloads of which nothing runs and that could not be decided about today: the queue is
// gone, or closed to the namespace, or the PodGroup is gone. They wait, and their edits are read again.
func (f *Feed) revoke() {
	if !f.admissions.all {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(f.members.pods)) {
		m := f.members.pods[key]
		if m.terms == nil || m.inGang() || !m.waiting() || f.tenancy.Lets(m.pod.Namespace, m.terms.Queue) {
			continue
		}
		f.undecide(m)
	}
	for _, key := range slices.Sorted(maps.Keys(f.members.gangs)) {
		members := f.members.sorted(key)
		l := decidedOf(members)
		if l == nil || slices.ContainsFunc(members, func(m *member) bool { return m.pod.Spec.NodeName != "" }) {
			continue
		}
		if f.tenancy.Lets(namespaceOf(key), l.Queue) && (isNative(key) || f.gangs.exists(key)) {
			continue
		}
		for _, m := range members {
			f.undecide(m)
		}
	}
}

// disown undoes the decisions about a gang of which nothing runs and whose members have all taken its terms over from pods
// that are gone: a Job that was replaced makes pods while those of the old one are still there. The members are decided
// about anew, by what they said when they came.
func (f *Feed) disown(key string) {
	members := f.members.sorted(key)
	for _, m := range members {
		if m.pod.Spec.NodeName != "" || m.terms != nil && m.terms.Own == nil {
			return
		}
	}
	for _, m := range members {
		if m.terms == nil {
			continue
		}
		p := m.terms.Own.On(f.plain(m, m.raw))
		m.revoked, m.terms = m.terms.text, nil
		v := f.read(p, nil)
		v.Version = f.out.pods.next()
		f.enter(m, m.raw, p, nil, &v)
	}
}

func (f *Feed) undecide(m *member) {
	if m.terms == nil {
		return
	}
	m.revoked, m.terms = m.terms.text, nil
	f.reenter(m)
}

// admit decides about the workloads that can be decided about now. A Model decides nothing.
func (f *Feed) admit() {
	a := &f.admissions
	if f.whatIf != nil {
		clear(a.look)
		a.all = false
		return
	}
	if a.all {
		for _, m := range f.members.pods {
			if m.pays() && (m.terms == nil || m.terms.Queue == "") {
				a.look[m.workload] = true
			}
		}
		a.all = false
	}
	for _, key := range slices.Sorted(maps.Keys(a.look)) {
		f.admitWorkload(key, false)
	}
	clear(a.look)
}

// admitWorkload decides about a workload, or what of it has not been decided about. starts says that the engine starts it:
// then it is whole, and can be read.
func (f *Feed) admitWorkload(key string, starts bool) {
	if m := f.members.pods[key]; m != nil && !m.inGang() {
		f.admitPod(m, starts)
		return
	}
	f.admitGang(key, starts)
}

// admitPod decides about a pod by itself. What runs already, bound by a scheduler that wrote nothing down, is decided about
// as it is.
func (f *Feed) admitPod(m *member, starts bool) {
	if !m.given || !m.pays() || m.terms != nil && (m.terms.Queue != "" || m.value.Queue == "") {
		return
	}
	bound, lets := m.pod.Spec.NodeName != "", f.tenancy.Lets(m.pod.Namespace, m.value.Queue)
	switch {
	case m.terms != nil: // it comes into its first queue
		if lets {
			f.decide(m, convert.Record{Queue: m.value.Queue, Keys: m.terms.Keys, Group: m.terms.Group})
		}
	case bound || lets && (starts || m.value.Invalid == ""):
		f.decide(m, convert.Record{Queue: m.value.Queue, Keys: convert.FixedOf(m.pod), Group: f.gangs.record(m)})
	}
}

// admitGang decides about the members of a gang: about all when the first of them can start, and about others as they come.
func (f *Feed) admitGang(key string, starts bool) {
	members := f.members.sorted(key)
	g, described := f.gangs.described[key]
	l := decidedOf(members)
	if len(members) == 0 || !described || !slices.ContainsFunc(members, (*member).pays) {
		return
	}
	lets := f.tenancy.Lets(namespaceOf(key), g.Queue)
	if l == nil {
		bound := slices.ContainsFunc(members, func(m *member) bool { return m.pod.Spec.NodeName != "" })
		if !bound && (!lets || !starts && (g.Invalid != "" || !complete(&g, members))) {
			return
		}
		record := convert.Record{Queue: g.Queue, Core: g.Core}
		for i, keys := range convert.Together(podsOf(members)) {
			record.Keys = keys
			if record.Group = f.gangs.record(members[i]); record.Group != nil || isNative(key) {
				f.decide(members[i], record)
			}
		}
		return
	}
	has := l.Record
	if has.Queue == "" && g.Queue != "" && lets { // the gang comes into its first queue
		for _, m := range members {
			if m.terms != nil {
				record := m.terms.Record
				record.Queue = g.Queue
				f.decide(m, record)
			}
		}
		has.Queue = g.Queue
	}
	for _, m := range members {
		if m.terms != nil || !m.given {
			continue
		}
		if keys, ok := l.joining(m); ok {
			has.Keys, has.Own = keys, nil
			if convert.IsComposite(key) {
				if has.Group = f.gangs.recordBeside(m, members); has.Group == nil {
					continue
				}
			}
			if own := convert.FixedOf(m.pod); !maps.Equal(own, keys) {
				has.Own = &own
			}
			f.decide(m, has)
		}
	}
}

// complete says whether as many members as start together have been seen.
func complete(g *engine.Gang, members []*member) bool {
	there := make(map[string]int)
	for _, m := range members {
		if m.given {
			there[m.value.Subgroup]++
		}
	}
	var enough func(l *engine.Group) bool
	enough = func(l *engine.Group) bool {
		below, have := 0, 0
		for i := range g.Groups {
			if c := &g.Groups[i]; c.Parent == l.Name {
				below++
				if enough(c) {
					have++
				}
			}
		}
		if below > 0 {
			return have >= orElse(l.MinGroups, below)
		}
		return there[l.Name] >= max(1, orElse(l.Min, l.Size))
	}
	return enough(&g.Group)
}

func orElse(a, b int) int {
	if a > 0 {
		return a
	}
	return b
}

// decide fixes the pod's terms. What that changes, of a pod that came to a gang, the engine hears before the next plan.
func (f *Feed) decide(m *member, r convert.Record) {
	m.terms, m.revoked = f.share(r, r.Text()), ""
	if p := f.owners.held(m.terms.Keys.On(f.plain(m, m.raw))); !m.terms.Keys.Agrees(m.pod) {
		m.pod = p
		if m.given {
			v := f.read(p, m.terms)
			v.Nodes, v.Version = m.value.Nodes, f.out.pods.next()
			f.put(m, &v)
		}
	}
	f.writeDown(m)
}

// writeDown has the terms of a pod that is on a node written where they are not: those of others are written before they
// are bound.
func (f *Feed) writeDown(m *member) {
	if m.terms != nil && m.pays() && m.pod.Spec.NodeName != "" && !Expected(m.raw) && f.admission(m) != nil {
		f.listen.Admitted(m.pod)
	}
}

// admission is the condition that the pod should have and has not, nil where it has it.
func (f *Feed) admission(m *member) *corev1.PodCondition {
	has := convert.AdmittedOf(m.raw)
	want := corev1.PodCondition{Type: convert.Admitted, Status: corev1.ConditionTrue, Reason: "TermsDecided", LastTransitionTime: metav1.Now()}
	switch {
	case m.terms != nil:
		want.Message = m.terms.text
	case has == nil:
		return nil
	default:
		want.Status, want.Reason = corev1.ConditionFalse, "NotInAQueue"
	}
	if has == nil && f.admissions.guarded {
		if f.admissions.seal.Open(m.raw) == want.Message {
			return nil
		}
	}
	if has != nil && has.Status == want.Status {
		if has.Message == want.Message {
			return nil
		}
		want.LastTransitionTime = has.LastTransitionTime
	}
	return &want
}

// Admission returns the condition that a pod which waits should have and has not, nil where it has it.
func (f *Feed) Admission(key string, uid types.UID) *corev1.PodCondition {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m := f.members.pods[key]; m != nil && m.raw.UID == uid {
		return f.admission(m)
	}
	return nil
}

// Start returns how the terms of a pod that starts, or that runs, are to be written down. They are decided now at the
// latest; false: they cannot be. Either the pod gets the condition before it is bound, or, where it has none yet, its
// Binding carries the terms, which costs no request; neither where they are written down.
func (f *Feed) Start(key string, uid types.UID) (before *corev1.PodCondition, sign func(*corev1.Binding), decided bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.members.pods[key]
	if m == nil || m.raw.UID != uid {
		return nil, nil, false
	}
	if m.terms == nil {
		f.admitWorkload(m.workload, true)
	}
	decided = m.terms != nil || !m.pays()
	if m.terms != nil && m.waiting() && f.admissions.guarded && convert.AdmittedOf(m.raw) == nil {
		seal, text := f.admissions.seal, m.terms.text
		return nil, func(b *corev1.Binding) { seal.Sign(b, uid, text) }, decided
	}
	return f.admission(m), nil, decided
}
