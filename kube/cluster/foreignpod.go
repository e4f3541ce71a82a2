package cluster

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/kube/convert"
	"github.com/berth-dev/berth/kube/dialect"
)

// How dialects read pods: their terms, what of them has no effect, and when they are read again.

// reading is what a dialect makes of a pod.
type reading struct {
	by   dialect.Dialect
	said *dialect.Terms
}

// foreignTerms is how a dialect reads the pod, nil where none does. Of several one counts, and what the pod has for the others is told.
func (f *Feed) foreignTerms(p *corev1.Pod) *dialect.Terms {
	if !f.opts.Ours(p.Spec.SchedulerName) { // names of the dialects that are in use are ours
		return nil
	}
	var all []reading
	pod := &dialect.Pod{Pod: p, Owners: f.owned(p)}
	for _, d := range f.foreign.dialects {
		if f.foreign.rivals[d.Name()] != "" {
			continue
		}
		if t := d.Pod(pod, f.foreign); t != nil {
			all = append(all, reading{d, t})
		}
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortFunc(all, func(a, b reading) int {
		return cmp.Or(cmp.Compare(a.rank(p), b.rank(p)), cmp.Compare(a.by.Name(), b.by.Name()))
	})
	return f.untilLater(f.inLevels(withOthers(pod, all)))
}

// rank orders the dialects that read a pod: first the one that lets it into a queue, then that of its scheduler's name, then those that
// ask for something.
func (r reading) rank(p *corev1.Pod) int {
	switch {
	case r.said.Entrance != "":
		return 0
	case slices.Contains(r.by.SchedulerNames(), p.Spec.SchedulerName):
		return 1
	case len(r.said.Keys) > 0:
		return 2
	}
	return 3
}

// withOthers is the first reading, with what the pod has for the other dialects as unread.
func withOthers(p *dialect.Pod, all []reading) *dialect.Terms {
	if len(all) == 1 {
		return all[0].said
	}
	out := *all[0].said
	out.Unread = slices.Clone(out.Unread)
	for _, other := range all[1:] {
		out.Unread = append(out.Unread, other.said.Unread...)
		if len(other.said.Keys) == 0 && other.said.Group == nil { // it had nothing to say beside that
			continue
		}
		keys := p.Keys(other.by.Domains(), all[0].by.Domains(), other.said.Heeded)
		if q := other.said.Keys[v1alpha1.KeyQueue]; q != "" && len(keys) == 0 && other.rank(p.Pod) != 1 { // by its namespace
			keys = []string{"queue " + q + " of " + other.by.Name()}
		}
		out.Unread = append(out.Unread, keys...)
	}
	slices.Sort(out.Unread)
	out.Unread = slices.Compact(out.Unread)
	return &out
}

// inLevels has the terms name levels of the scheduler's topology. What cannot start yet is no gang: each of its pods says why.
func (f *Feed) inLevels(t *dialect.Terms) *dialect.Terms {
	if !f.tiers.Any() {
		return t
	}
	out := f.tiers.InLevels(t)
	if out.Awaits != "" {
		out.Keys = ungang(out.Keys)
	}
	return out
}

// untilLater has a pod that is not planned before a time wait for that time. In a Model nothing is kept for workloads that others have
// to agree to: they wait until these have.
func (f *Feed) untilLater(t *dialect.Terms) *dialect.Terms {
	var wait string
	switch {
	case t.Awaits != "":
	case f.timers.now().Before(t.After):
		wait = "it was declined, and is tried again after " + t.After.UTC().Format(time.RFC3339)
	case f.whatIf != nil:
		wait = t.Unready
	}
	if wait == "" {
		return t
	}
	out := *t
	out.Awaits, out.Keys = wait, maps.Clone(t.Keys)
	delete(out.Keys, v1alpha1.KeyGang) // what cannot start yet is no gang: each of its pods says why
	return &out
}

// wakeAfter has the pod's group looked at again when its time has come.
func (f *Feed) wakeAfter(m *member) {
	if m.foreign == nil || m.foreign.Group == nil || !f.timers.now().Before(m.foreign.After) {
		return
	}
	key := keyOfGroup(m.foreign.Group)
	if g := f.foreign.groups[key]; g != nil && !g.after.Equal(m.foreign.After) {
		g.after = m.foreign.After
		f.timers.after(g.after.Sub(f.timers.now()), func() { f.reenterGroup(key) })
	}
}

// plain is the pod as it is in the API, without a group that asks nothing of it, and with what a dialect says of its spec: its
// priority, that nobody is evicted for it, the flavors of its nodes. A gate that Berth takes away is none.
func (f *Feed) plain(known *member, raw *corev1.Pod) *corev1.Pod {
	p := f.gangs.without(known, raw)
	if p == raw && f.namesGang(known, raw) {
		p = convert.Ungrouped(raw)
	}
	t := f.foreignTerms(raw)
	if t == nil || t.Priority == nil && !t.Patient && len(t.Flavors) == 0 && t.Gate == "" {
		return p
	}
	out := *p
	if t.Priority != nil {
		out.Spec.Priority = t.Priority
	}
	if t.Patient {
		never := corev1.PreemptNever
		out.Spec.PreemptionPolicy = &never
	}
	if t.Gate != "" {
		out.Spec.SchedulingGates = nil
	}
	if out.Spec.NodeName == "" {
		convert.Restrict(&out, t.Flavors)
	}
	return &out
}

// namesGang says whether the pod of a PodGroup that leaves its pods to themselves names one of our gangs, as was decided or as it says now:
// then that counts, as for a group that asks nothing.
func (f *Feed) namesGang(known *member, raw *corev1.Pod) bool {
	if g := f.gangs.groups[convert.PodGroupOf(raw)]; g == nil || !convert.Independent(g) {
		return false
	}
	var t *terms
	if known != nil && known.raw.UID == raw.UID && f.whatIf == nil && !f.admissions.follows {
		t = known.terms
	}
	if t == nil {
		t = f.recorded(raw)
	}
	if t != nil && (known == nil || known.revoked != t.text) {
		return t.Keys[v1alpha1.KeyGang] != ""
	}
	gang, _ := convert.GangOf(f.completed(convert.Ungrouped(raw)))
	return gang != ""
}

// completed is the pod with what its controllers say, and below that what a dialect reads, and who made it. A gang is named by one of
// them: a part of what another says of it would be of another gang.
func (f *Feed) completed(p *corev1.Pod) *corev1.Pod {
	by := f.madeTerms(p)
	out := f.withMade(f.owners.completed(p), by)
	t := both(f.foreignTerms(p), by)
	if t == nil {
		return out
	}
	keys := t.Keys
	if named, _ := convert.GangOf(out); named != "" && by != nil {
		keys = ungang(keys)
	}
	return convert.WithOwners(out, keys)
}

// unheeded is what the pod asks for and does not get.
func (f *Feed) unheeded(m *member) []string {
	if m.foreign == nil {
		out := append(convert.Unheeded(m.pod), f.ownersUnheeded(m)...)
		if m.adopted && m.pod.Spec.SchedulerName == corev1.DefaultSchedulerName {
			out = append(out, convert.StockUnheeded(m.pod)...)
		}
		if m.made != nil && !f.awaitsMaker(m) {
			out = append(out, m.made.Unread...)
		}
		return out
	}
	var domains []string
	for _, d := range f.foreign.dialects {
		domains = append(domains, d.Domains()...)
	}
	out := convert.Unheeded(m.pod, append(domains, m.foreign.Heeded...)...)
	for _, key := range m.foreign.Unread {
		out = append(out, key+" (without effect)")
	}
	return append(out, f.ownersUnheeded(m)...)
}

// ownersUnheeded is what the pod's controllers, and the object that another project's controller made it for, ask other schedulers for in
// keys that the pod does not have itself. Of a pod that a dialect reads, keys of the dialects that are in use are these dialects' to tell;
// of others nobody reads them.
func (f *Feed) ownersUnheeded(m *member) (out []string) {
	chain := f.owned(m.raw)
	for i := range chain {
		for _, keys := range []map[string]string{chain[i].Meta.Labels, chain[i].Meta.Annotations} {
			for key := range keys { //archtest:any-order the keys are sorted below
				_, on := m.raw.Labels[key]
				if _, too := m.raw.Annotations[key]; !on && !too && dialect.ForScheduler(key) && (m.foreign == nil || !f.foreign.reads(key)) {
					out = append(out, key+" (a key of another scheduler)")
				}
			}
		}
	}
	return fewOf(out)
}

// reads says whether the key is in the domain of a dialect that is in use.
func (s *foreign) reads(key string) bool {
	return slices.ContainsFunc(s.dialects, func(d dialect.Dialect) bool { return dialect.Within(key, d.Domains()) })
}

// fewOf is the list, sorted, each once, and cut.
func fewOf(list []string) []string {
	slices.Sort(list)
	list = slices.Compact(list)
	return list[:min(len(list), convert.MaxProblems)]
}

func (s *foreign) join(m *member) {
	if m.foreign == nil || m.foreign.Group == nil {
		return
	}
	g := s.group(m.foreign.Group)
	g.members[m.key], g.make = m, m.foreign.Group.Make
	if c := convert.ControllerOf(m.raw); c != nil && c.Kind == "Job" {
		g.job = c.UID
	}
	delete(g.succeeded, m.raw.UID)
	delete(g.failed, m.raw.UID)
}

func (s *foreign) leave(m *member) {
	if m.foreign == nil || m.foreign.Group == nil {
		return
	}
	key := keyOfGroup(m.foreign.Group)
	g := s.groups[key]
	if g == nil {
		return
	}
	delete(g.members, m.key)
	if len(g.members)+len(g.succeeded)+len(g.failed) == 0 {
		delete(s.groups, key)
	}
}
