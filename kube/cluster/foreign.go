package cluster

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/convert"
	"github.com/berth-dev/berth/kube/dialect"
)

// foreign is what is known in dialects: which are in use, and their objects. A queue of theirs is a queue of the tenancy, and what
// they say of a pod counts as if its topmost controller said it. Without a dialect in use it costs nothing.
type foreign struct {
	dialects []dialect.Dialect
	kinds    map[string]spoken
	objects  map[string]map[string]*thing // by kind, then by namespace/name
	classes  map[string]int32             // priorities, by class
	groups   map[groupKey]*foreignGroup
	stale    map[string]bool   // dialects of which an object that others may depend on has changed; with true, also for pods
	rivals   map[string]string // dialects whose own controller lets workloads in, by name, and who that is
	// namesakes is what was told of queues that do not count, as another has their name, by kind and namespace/name
	namesakes map[string]string
}

// spoken is a kind, and whose it is.
type spoken struct {
	dialect.Dialect
	dialect.Kind
}

// thing is an object of a dialect as last seen, and what it says.
type thing struct {
	raw  *unstructured.Unstructured
	said *dialect.Object
}

type groupKey struct{ kind, namespace, name string }

// foreignGroup is what is known of an object that stands for a workload, whether or not it exists.
type foreignGroup struct {
	members           map[string]*member
	succeeded, failed map[types.UID]bool
	make              func() *unstructured.Unstructured // as the last of them said; nil: people make it
	after             time.Time                         // when it is looked at again
	job               types.UID                         // the Job whose pods they are; "": another controller, or none
}

func newForeign() *foreign {
	return &foreign{kinds: make(map[string]spoken), objects: make(map[string]map[string]*thing), classes: make(map[string]int32), groups: make(map[groupKey]*foreignGroup), stale: make(map[string]bool), rivals: make(map[string]string), namesakes: make(map[string]string)}
}

func (s *foreign) used() bool { return len(s.dialects) > 0 }

// rival is the project's own controller, where it lets workloads in; "": it does not, and Berth does.
func (s *foreign) rival(a any) string {
	if d, ok := a.(dialect.Dialect); ok {
		return s.rivals[d.Name()]
	}
	return ""
}

// SetRival says that the dialect's own controller runs, which lets workloads in; "": it does not. While it does, its objects are
// nothing to Berth: pods that it has let in are scheduled like others, and its queues have been paid.
func (f *Feed) SetRival(d dialect.Dialect, who string) (changed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.foreign
	if s.rivals[d.Name()] == who {
		return false
	}
	s.rivals[d.Name()] = who
	for _, kind := range sortedNames(s.objects) {
		for _, key := range sortedNames(s.objects[kind]) {
			if t := s.objects[kind][key]; who != "" && t.said.Queue != nil && s.kinds[kind].Dialect.Name() == d.Name() {
				f.listen.NotHonoured(t.raw, []string{who})
			}
		}
	}
	f.giveForeignQueues()
	for _, key := range sortedNames(f.members.pods) {
		if m := f.members.pods[key]; m.ours {
			f.reenter(m)
		}
	}
	f.lookAtAll()
	return true
}

// Object, Objects and Priority are the dialect.World.
func (s *foreign) Object(kind, namespace, name string) *dialect.Object {
	if t := s.objects[kind][namespace+"/"+name]; t != nil {
		return t.said
	}
	return nil
}

func (s *foreign) Objects(kind, namespace string) []*dialect.Object {
	var out []*dialect.Object
	for _, key := range sortedNames(s.objects[kind]) {
		if t := s.objects[kind][key]; namespace == "" || t.said.Namespace == namespace {
			out = append(out, t.said)
		}
	}
	return out
}

func (s *foreign) Priority(class string) (int32, bool) {
	n, ok := s.classes[class]
	return n, ok
}

// Speak has the dialect's objects and keys read, and pods with its scheduler names placed, from now on.
func (f *Feed) Speak(d dialect.Dialect) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.foreign
	if maker, ok := d.(dialect.Maker); ok {
		if f.made.Maker == nil {
			f.speakMaker(maker)
		}
		return
	}
	if slices.ContainsFunc(s.dialects, func(o dialect.Dialect) bool { return o.Name() == d.Name() }) {
		return
	}
	s.dialects = append(s.dialects, d)
	for _, k := range d.Kinds() {
		s.kinds[k.Name()] = spoken{d, k}
	}
	names := f.opts.SchedulerNames
	if names == nil {
		names = []string{DefaultName}
	}
	f.opts.SchedulerNames = slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(names), d.SchedulerNames()...))))
	for _, key := range sortedNames(f.members.pods) {
		if m := f.members.pods[key]; f.opts.Ours(m.raw.Spec.SchedulerName) {
			f.reenter(m)
		}
	}
	if _, ok := d.(dialect.Admitter); ok {
		f.lookAtAll()
	}
}

// SchedulerNames are those of the pods that are placed.
func (f *Feed) SchedulerNames() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.opts.SchedulerNames)
}

// SetForeign takes in an object of a dialect's kind. Others, and those of dialects that are not in use, are passed over.
func (f *Feed) SetForeign(u *unstructured.Unstructured) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.foreign
	kind := u.GetKind() + "." + u.GroupVersionKind().Group
	by, ok := s.kinds[kind]
	if !ok {
		return
	}
	key := keyOf(u)
	known := s.objects[kind][key]
	if known != nil && known.raw.GetUID() == u.GetUID() && known.raw.GetGeneration() == u.GetGeneration() && u.GetGeneration() != 0 {
		known.raw = u // with a new status
		f.tenancy.usageChanged()
		if !by.Status || reflect.DeepEqual(by.Read(u, s).Value, known.said.Value) {
			return
		}
	}
	t := &thing{raw: u}
	f.read1(by, t, known)
	insert(s.objects, kind, key, t) // once it is read: others are looked at through what was read of them
	if by.Grouping {
		f.reenterGroup(groupKey{kind, u.GetNamespace(), u.GetName()})
		f.reenterMade(groupKey{kind, u.GetNamespace(), u.GetName()})
		return
	}
	// Queues are looked up by name when they are needed, unless pods are read by them.
	f.rereadLater(by.Dialect, t.said.Queue == nil || t.said.Steers || known != nil && known.said.Steers)
}

// read1 reads the object, and says what of it has no effect where that is news.
func (f *Feed) read1(by spoken, t, known *thing) {
	said := by.Read(t.raw, f.foreign)
	said.Kind, said.Namespace, said.Name, said.UID = by.Kind.Name(), t.raw.GetNamespace(), t.raw.GetName(), t.raw.GetUID()
	t.said = &said
	if known == nil || !slices.Equal(known.said.Unread, said.Unread) || known.said.Problem != said.Problem {
		f.listen.NotHonoured(t.raw, unreadOf(&said))
	}
	f.tenancy.usageChanged()
}

func unreadOf(said *dialect.Object) []string {
	if said.Problem == "" {
		return said.Unread
	}
	return append([]string{said.Problem}, said.Unread...)
}

// reread has the objects that may depend on others read again of dialects of which one changed, and the pods.
func (f *Feed) reread() {
	if len(f.foreign.stale) == 0 {
		return
	}
	pods := false
	f.tiers.stale = true
	for _, kind := range sortedNames(f.foreign.objects) {
		by := f.foreign.kinds[kind]
		if by.Dialect == nil || by.Grouping {
			continue
		}
		if _, ok := f.foreign.stale[by.Dialect.Name()]; !ok {
			continue
		}
		for _, key := range sortedNames(f.foreign.objects[kind]) {
			t := f.foreign.objects[kind][key]
			f.read1(by, t, &thing{raw: t.raw, said: t.said})
		}
	}
	for _, also := range f.foreign.stale { //archtest:any-order any will do
		pods = pods || also
	}
	clear(f.foreign.stale)
	f.giveForeignQueues()
	if pods {
		f.reenterForeign()
	}
}

// namesake says, as a sentence, which other object has the name of the object's queue and counts; "": none. A name is of one queue:
// a BerthQueue counts, then the dialects' objects in the order of their kinds' names. Workloads that name the queue in either dialect are
// charged to that one.
func (f *Feed) namesake(said *dialect.Object) string {
	q := f.tenancy.queues[said.Queue.Name]
	switch {
	case q == nil:
		return ""
	case q.said == nil:
		return "BerthQueue " + q.Name + " has the same name, and counts"
	case q.said.Kind != said.Kind || q.said.Name != said.Name:
		return q.said.Kind + " " + q.said.Name + " has the same name, and counts: workloads of both are charged to it"
	}
	return ""
}

// tellNamesakes names, for queues that do not count, the one that does, where that is news.
func (f *Feed) tellNamesakes() {
	for _, kind := range sortedNames(f.foreign.objects) {
		for _, key := range sortedNames(f.foreign.objects[kind]) {
			t, other := f.foreign.objects[kind][key], ""
			if t.said != nil && t.said.Queue != nil && f.foreign.rival(f.foreign.kinds[kind].Dialect) == "" {
				other = f.namesake(t.said)
			}
			if other != "" && other != f.foreign.namesakes[kind+"/"+key] {
				f.listen.NotHonoured(t.raw, append([]string{other}, unreadOf(t.said)...))
			}
			if other == "" {
				delete(f.foreign.namesakes, kind+"/"+key)
			} else {
				f.foreign.namesakes[kind+"/"+key] = other
			}
		}
	}
}

// giveForeignQueues has the dialects' queues in the tenancy, but for those that a BerthQueue has the name of.
func (f *Feed) giveForeignQueues() {
	defer f.tellNamesakes()
	there := make(map[string]bool)
	for _, kind := range sortedNames(f.foreign.objects) {
		for _, key := range sortedNames(f.foreign.objects[kind]) {
			if t := f.foreign.objects[kind][key]; t.said != nil && t.said.Queue != nil && !there[t.said.Queue.Name] && f.foreign.rival(f.foreign.kinds[kind].Dialect) == "" {
				there[t.said.Queue.Name] = true
				f.setQueue(t.said.Queue, t.said, t.said.Flavors)
			}
		}
	}
	for _, kind := range sortedNames(f.foreign.objects) {
		for _, key := range sortedNames(f.foreign.objects[kind]) {
			if t := f.foreign.objects[kind][key]; t.said != nil && t.said.Implies != nil && !there[t.said.Implies.Name] && f.foreign.rival(f.foreign.kinds[kind].Dialect) == "" {
				there[t.said.Implies.Name] = true
				f.setQueue(t.said.Implies, t.said, t.said.ImpliesFlavors)
			}
		}
	}
	for _, name := range sortedNames(f.tenancy.queues) {
		if f.tenancy.queues[name].said != nil && !there[name] {
			f.dropQueue(name)
		}
	}
}

// RemoveForeign takes an object of a dialect's away.
func (f *Feed) RemoveForeign(u *unstructured.Unstructured) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.foreign
	kind := u.GetKind() + "." + u.GroupVersionKind().Group
	by, ok := s.kinds[kind]
	if !ok || s.objects[kind][keyOf(u)] == nil {
		return
	}
	cut(s.objects, kind, keyOf(u))
	delete(s.namesakes, kind+"/"+keyOf(u))
	f.listen.Forget(u.GetUID())
	if by.Grouping {
		f.forgetGroup(groupKey{kind, u.GetNamespace(), u.GetName()}) // also where groups are not asked for, because another scheduler leads
		delete(f.made.said, groupKey{kind, u.GetNamespace(), u.GetName()})
		f.reenterGroup(groupKey{kind, u.GetNamespace(), u.GetName()})
		f.reenterMade(groupKey{kind, u.GetNamespace(), u.GetName()})
		return
	}
	f.rereadLater(by.Dialect, true)
}

func (f *Feed) rereadLater(d dialect.Dialect, pods bool) {
	if _, ok := d.(dialect.Admitter); ok {
		pods = true // which flavors a pod may have, its queue says
	}
	f.foreign.stale[d.Name()] = f.foreign.stale[d.Name()] || pods
	f.out.wake()
}

// SetPriorityClass takes in a priority class, which dialects look up by name.
func (f *Feed) SetPriorityClass(c *schedulingv1.PriorityClass) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tellKeys(c)
	if n, ok := f.foreign.classes[c.Name]; !ok || n != c.Value {
		f.foreign.classes[c.Name] = c.Value
		f.reenterForeign()
	}
}

// tellKeys says by which keys the object, which is no workload, asks other schedulers for something: quotas of a namespace, or that
// nobody of a priority is evicted. No dialect reads them.
func (f *Feed) tellKeys(o Object) {
	if keys := dialect.KeysThat(o, dialect.ForScheduler); len(keys) > 0 {
		f.listen.NotHonoured(o, keys)
	}
}

// RemovePriorityClass takes a priority class away.
func (f *Feed) RemovePriorityClass(c *schedulingv1.PriorityClass) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.foreign.classes, c.Name)
	f.listen.Forget(c.UID)
	f.reenterForeign()
}

// reenterForeign takes in again the pods that dialects read.
func (f *Feed) reenterForeign() {
	if !f.foreign.used() {
		return
	}
	for _, key := range sortedNames(f.members.pods) {
		if m := f.members.pods[key]; m.foreign != nil {
			f.reenter(m)
		}
	}
}

func (f *Feed) reenterGroup(key groupKey) {
	g := f.foreign.groups[key]
	if g == nil {
		return
	}
	for _, pod := range sortedNames(g.members) {
		if m := f.members.pods[pod]; m != nil {
			f.reenter(m)
		}
	}
	f.tenancy.usageChanged()
	if len(f.checked.reserved) > 0 {
		f.out.wake() // it may be that all have agreed
	}
}

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
	return f.untilLater(f.tiers.apply(withOthers(pod, all)))
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

func (s *foreign) group(r *dialect.GroupRef) *foreignGroup {
	key := keyOfGroup(r)
	g := s.groups[key]
	if g == nil {
		g = &foreignGroup{members: make(map[string]*member), succeeded: make(map[types.UID]bool), failed: make(map[types.UID]bool)}
		s.groups[key] = g
	}
	return g
}

func keyOfGroup(r *dialect.GroupRef) groupKey { return groupKey{r.Kind, r.Namespace, r.Name} }

// maxEnded is of how many pods of one group it is remembered that they are over.
const maxEnded = 1 << 16

// ended counts a pod of a group that is over. It is forgotten with the group's object.
func (s *foreign) ended(m *member, p *corev1.Pod) {
	if m.foreign == nil || m.foreign.Group == nil {
		return
	}
	g := s.group(m.foreign.Group)
	switch {
	case len(g.succeeded)+len(g.failed) >= maxEnded:
	case p.Status.Phase == corev1.PodSucceeded:
		g.succeeded[p.UID] = true
	case p.Status.Phase == corev1.PodFailed:
		g.failed[p.UID] = true
	}
}

// repeat says again what of the dialects' objects has no effect.
func (s *foreign) repeat(l Listener) {
	for _, kind := range sortedNames(s.objects) {
		for _, key := range sortedNames(s.objects[kind]) {
			t := s.objects[kind][key]
			l.NotHonoured(t.raw, unreadOf(t.said))
		}
	}
}

// ForeignGroup is an object that stands for a workload in a dialect, and what has become of the workload.
type ForeignGroup struct {
	dialect.Dialect
	Kind     dialect.Kind
	Ref      dialect.GroupRef
	Object   *unstructured.Unstructured // nil: it does not exist
	Unread   []string
	Lacks    []string // what keeps its pods from being planned, where there are none to tell it of
	Problem  string
	Workload string       // of one of its pods; "": none is left
	Alone    bool         // no pod is of it: only Unread and Problem are to be told
	Ends     *batchv1.Job // that is to be suspended; nil: none
	State    dialect.GroupState
}

// ForeignGroups are those with pods, or with pods that are over, by kind, namespace and name. It goes through all of their pods.
func (f *Feed) ForeignGroups() []ForeignGroup {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.foreign
	var out []ForeignGroup
	for _, key := range slices.SortedFunc(maps.Keys(s.groups), compareGroups) {
		g, by := s.groups[key], s.kinds[key.kind]
		if s.rival(by.Dialect) != "" {
			continue
		}
		v := ForeignGroup{Dialect: by.Dialect, Kind: by.Kind, Ref: dialect.GroupRef{Kind: key.kind, Namespace: key.namespace, Name: key.name}}
		if t := s.objects[key.kind][key.namespace+"/"+key.name]; t != nil {
			v.Object, v.Unread, v.Problem = t.raw, t.said.Unread, t.said.Problem
		} else if f.forgetGroup(key) {
			continue
		}
		v.Ref.Make = g.make
		v.State.Succeeded, v.State.Failed, v.State.Preemptible = len(g.succeeded), len(g.failed), true
		if j := f.expected.jobs[g.job]; j != nil {
			v.State.Ended, v.State.Evicted = endOf(j), suspended(j) && f.expected.ran[g.job]
		}
		var nodes []string
		var last *member
		held, wanted := make(map[string]int64), make(map[string]int64)
		for _, pod := range sortedNames(g.members) {
			m := g.members[pod]
			v.Workload = m.workload
			if Expected(m.raw) { // there is no pod to tell it of
				v.Unread = m.foreign.Unread
				v.Lacks = m.lacks
			}
			v.State.Checks, v.State.Ends = m.foreign.Checks, m.foreign.Ends
			v.State.Preemptible = v.State.Preemptible && convert.Evictable(m.pod)
			for _, a := range m.takes {
				wanted[a.Resource] += a.Value
			}
			if !m.bound() {
				v.State.Pending++
				continue
			}
			v.State.Running++
			nodes, last = append(nodes, m.pod.Spec.NodeName), m
			for _, a := range m.takes {
				held[a.Resource] += a.Value
			}
		}
		if r := f.checked.reserved[v.Workload]; r != nil && last == nil {
			v.State.Reserved = true
			if m := g.members[sortedNames(g.members)[0]]; m.workload == v.Workload {
				nodes, last = r.on, m
			}
		}
		if last != nil {
			v.State.Flavor = f.flavorOf(last, nodes)
		}
		if v.Workload != "" {
			v.State.Min, v.State.Queue = f.gangs.described[v.Workload].Min, f.gangs.described[v.Workload].Queue
			if m := f.members.pods[v.Workload]; m != nil && !m.inGang() {
				v.State.Queue = f.payer(m)
			}
		}
		if j := f.expected.jobs[g.job]; j != nil && v.State.Ends != "" && !suspended(j) && endOf(j) == "" {
			v.Ends = j
		}
		v.State.Begun = v.State.Running > 0
		v.State.Allocated, v.State.Requested = listOf(held), listOf(wanted)
		out = append(out, v)
	}
	return append(out, s.alone()...)
}

// forgetGroup forgets what is known of a workload whose object is gone, where it has no pods, and no Job that would have it made again.
func (f *Feed) forgetGroup(key groupKey) bool {
	g := f.foreign.groups[key]
	if g == nil || len(g.members) > 0 || g.make != nil && f.expected.jobs[g.job] != nil {
		return false
	}
	delete(f.foreign.groups, key)
	return true
}

// alone are the objects that would stand for a workload, have no pods, and say what has no effect, or said so.
func (s *foreign) alone() []ForeignGroup {
	var out []ForeignGroup
	for _, kind := range sortedNames(s.objects) {
		by := s.kinds[kind]
		if !by.Grouping || s.rival(by.Dialect) != "" {
			continue
		}
		for _, name := range sortedNames(s.objects[kind]) {
			t := s.objects[kind][name]
			key := groupKey{kind, t.said.Namespace, t.said.Name}
			if s.groups[key] == nil && (len(t.said.Unread) > 0 || t.said.Problem != "" || dialect.IsTrue(t.raw, v1alpha1.NotUnderstood)) {
				out = append(out, ForeignGroup{
					Dialect: by.Dialect, Kind: by.Kind, Ref: dialect.GroupRef{Kind: kind, Namespace: key.namespace, Name: key.name},
					Object: t.raw, Unread: t.said.Unread, Problem: t.said.Problem, Alone: true,
				})
			}
		}
	}
	return out
}

func compareGroups(a, b groupKey) int {
	return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
}

func listOf(amounts map[string]int64) corev1.ResourceList {
	out := make(corev1.ResourceList, len(amounts))
	for name, n := range amounts { //archtest:any-order each has its own key
		out[corev1.ResourceName(name)] = convert.Quantity(name, n)
	}
	return out
}

// ForeignQueue is a queue of a dialect, and what its workloads hold and ask for.
type ForeignQueue struct {
	dialect.Dialect
	Kind    dialect.Kind
	Queue   string // its name here; "": it is an entrance to one
	Object  *unstructured.Unstructured
	Unread  []string
	Problem string
	State   dialect.QueueState
}

// ForeignQueues are the dialects' objects that are queues, by kind and name. It goes through all pods.
func (f *Feed) ForeignQueues() []ForeignQueue {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.foreign.used() {
		return nil
	}
	running, waiting, reserved := f.workloads()
	held, firm, wanted := make(map[string]map[string]int64), make(map[string]map[string]int64), make(map[string]map[string]int64)
	inFlavors, kept := make(flavorAmounts), make(flavorAmounts) // what is held, and that with what is reserved
	//archtest:any-order sums of whole numbers
	for _, m := range f.members.pods {
		if !m.pays() || !m.bound() && !m.waiting() {
			continue
		}
		name := f.payer(m)
		if m.inGang() {
			name = f.gangs.described[m.workload].Queue
		}
		f.addFlavors(m, name, inFlavors, kept)
		for steps := 0; name != "" && steps <= len(f.tenancy.queues); steps++ {
			for _, a := range m.takes {
				add(wanted, name, a.Resource, a.Value)
				if m.bound() {
					add(held, name, a.Resource, a.Value)
					if !convert.Evictable(m.pod) {
						add(firm, name, a.Resource, a.Value)
					}
				}
			}
			q := f.tenancy.queues[name]
			if name = ""; q != nil {
				name = q.Spec.Parent
			}
		}
	}
	var out []ForeignQueue
	for _, kind := range sortedNames(f.foreign.objects) {
		for _, key := range sortedNames(f.foreign.objects[kind]) {
			t, by := f.foreign.objects[kind][key], f.foreign.kinds[kind]
			if t.said.Queue == nil && !t.said.Entrance || f.foreign.rival(by.Dialect) != "" {
				continue
			}
			if t.said.Entrance {
				v := ForeignQueue{Dialect: by.Dialect, Kind: by.Kind, Object: t.raw, Unread: t.said.Unread, Problem: t.said.Problem}
				at := t.said.Namespace + "/" + t.said.Name
				v.State.Running, v.State.Waiting, v.State.Reserved = running[at], waiting[at], reserved[at]
				v.State.Shut = t.said.Shut
				out = append(out, v)
				continue
			}
			name := t.said.Queue.Name
			v := ForeignQueue{Dialect: by.Dialect, Kind: by.Kind, Queue: name, Object: t.raw, Unread: t.said.Unread, Problem: t.said.Problem}
			q := f.tenancy.queues[name]
			if other := f.namesake(t.said); other != "" {
				v.Problem = other
			} else if q != nil && q.problem != nil {
				v.Problem = q.problem.Error()
			}
			v.State.Allocated, v.State.Firm, v.State.Requested = listOf(held[name]), listOf(firm[name]), listOf(wanted[name])
			v.State.ByFlavor, v.State.ReservedByFlavor = inFlavors.of(name), kept.of(name)
			v.State.Running, v.State.Waiting, v.State.Reserved, v.State.Shut = running[name], waiting[name], reserved[name], t.said.Shut
			for _, below := range sortedNames(f.tenancy.queues) {
				if f.tenancy.queues[below].Spec.Parent == name {
					v.State.Children = append(v.State.Children, below)
				}
			}
			out = append(out, v)
		}
	}
	return out
}

// addFlavors adds what the pod holds of its queue in flavors, or what is kept for it while checks are made. What several nodes
// are kept for that are not all of one flavor is not among it.
func (f *Feed) addFlavors(m *member, queue string, held, kept flavorAmounts) {
	if m.foreign == nil || len(m.foreign.Flavors) == 0 {
		return
	}
	var nodes []string
	if m.bound() {
		nodes = []string{m.pod.Spec.NodeName}
	} else if r := f.checked.reserved[m.workload]; r != nil {
		nodes = r.on
	}
	flavor := f.flavorOf(m, nodes)
	if flavor == nil {
		return
	}
	for _, a := range m.takes {
		if name := flavor.Names[a.Resource]; name != "" {
			kept.add(queue, name, a)
			if m.bound() {
				held.add(queue, name, a)
			}
		}
	}
}

// flavorAmounts are amounts by queue, flavor and resource.
type flavorAmounts map[string]map[string]map[string]int64

func (a flavorAmounts) add(queue, flavor string, takes engine.Amount) {
	if a[queue] == nil {
		a[queue] = make(map[string]map[string]int64)
	}
	add(a[queue], flavor, takes.Resource, takes.Value)
}

// of are the amounts of the queue's flavors.
func (a flavorAmounts) of(queue string) map[string]corev1.ResourceList {
	out := make(map[string]corev1.ResourceList)
	for flavor, amounts := range a[queue] { //archtest:any-order each has its own key
		out[flavor] = listOf(amounts)
	}
	return out
}

// workloads counts the groups that run and that wait, and of these those that have quota, by queue, and by entrance with its namespace.
func (f *Feed) workloads() (running, waiting, reserved map[string]int) {
	running, waiting, reserved = make(map[string]int), make(map[string]int), make(map[string]int)
	for _, g := range f.foreign.groups { //archtest:any-order sums of whole numbers
		runs, has, queue, entrance := false, false, "", ""
		for _, m := range g.members { //archtest:any-order all members of a group have one queue
			runs, has, queue = runs || m.bound(), has || f.checked.reserved[m.workload] != nil, m.queue()
			if m.foreign.Entrance != "" {
				entrance = m.raw.Namespace + "/" + m.foreign.Entrance
			}
		}
		for _, name := range []string{queue, entrance} {
			switch {
			case name == "":
			case runs:
				running[name]++
			default:
				if waiting[name]++; has {
					reserved[name]++
				}
			}
		}
	}
	return running, waiting, reserved
}

// queue is the one that the pod entered, or asks for.
func (m *member) queue() string {
	if m.terms != nil && m.terms.Queue != "" {
		return m.terms.Queue
	}
	return convert.QueueOf(m.pod)
}

func add(to map[string]map[string]int64, a, b string, n int64) {
	if to[a] == nil {
		to[a] = make(map[string]int64)
	}
	to[a][b] += n
}
