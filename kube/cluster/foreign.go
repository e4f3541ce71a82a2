package cluster

import (
	"reflect"
	"slices"

	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

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

// setForeign takes in an object of a dialect's kind. Others, and those of dialects that are not in use, are passed over.
func (f *Feed) setForeign(u *unstructured.Unstructured) {
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
		f.tenancy.UsageChanged()
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
	f.tenancy.UsageChanged()
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
	f.tiers.Again()
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

// removeForeign takes an object of a dialect's away.
func (f *Feed) removeForeign(u *unstructured.Unstructured) {
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

// survey finds the levels of tiers again where something changed, and gives nodes and pods again that are concerned.
func (f *Feed) survey() {
	if !f.tiers.Stale() {
		return
	}
	relabelled, moved := f.tiers.Survey(f.foreign.topologies(), f.nodes.objects)
	for _, name := range relabelled {
		f.giveNode(name)
	}
	if moved {
		f.reenterForeign()
	}
}

// surveyLater has the tiers looked at again: nodes came, went or are labelled otherwise.
func (f *Feed) surveyLater() {
	if f.foreign.used() {
		f.tiers.Again()
	}
}

// topologies are the tiers that dialects describe, widest first in each.
func (s *foreign) topologies() (out [][]dialect.Tier) {
	for _, d := range s.dialects {
		if surveyor, ok := d.(dialect.Surveyor); ok {
			out = append(out, surveyor.Topologies(s)...)
		}
	}
	return out
}

// setPriorityClass takes in a priority class, which dialects look up by name.
func (f *Feed) setPriorityClass(c *schedulingv1.PriorityClass) {
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

// removePriorityClass takes a priority class away.
func (f *Feed) removePriorityClass(c *schedulingv1.PriorityClass) {
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

// repeat says again what of the dialects' objects has no effect.
func (s *foreign) repeat(l Listener) {
	for _, kind := range sortedNames(s.objects) {
		for _, key := range sortedNames(s.objects[kind]) {
			t := s.objects[kind][key]
			l.NotHonoured(t.raw, unreadOf(t.said))
		}
	}
}
