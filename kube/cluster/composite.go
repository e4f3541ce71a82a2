package cluster

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/convert"
)

// Composite groups. A PodGroup that has a parent is no gang: its pods are in the gang of the CompositePodGroup at the top, which is
// described with all groups below it (convert.Tree). Where the way up ends at a group that does not exist the pods are in that one's
// gang, which is missing, and wait for it.
//
// The groups of a gang of which something runs may go, or be made anew with other parents. Its pods stay in the gang that they were
// decided about in, with the groups above them as they were then: terms have them (convert.GroupRecord.Above). Pods that wait, and of
// whose gang nothing runs, follow their group: see uproot.

// CompositeInitiallyScheduled is the condition of a CompositePodGroup whose minimum once had its nodes, or has not
// (k8s.io/api v0.37.1, scheduling/v1alpha3/types.go, CompositePodGroupStatus; there is no constant).
const CompositeInitiallyScheduled = "CompositePodGroupInitiallyScheduled"

// forest is what groups say of each other. Keys are those of convert, of PodGroups and of CompositePodGroups.
type forest struct {
	composites map[string]*schedulingv1alpha3.CompositePodGroup
	below      map[string]map[string]bool // groups by their parent, which need not exist
}

func newForest() *forest {
	return &forest{composites: make(map[string]*schedulingv1alpha3.CompositePodGroup), below: make(map[string]map[string]bool)}
}

func (s *forest) find(key string) *schedulingv1alpha3.CompositePodGroup { return s.composites[key] }

// link notes that the group of the key, in the namespace, has the parent and not the one that it had; "" for none.
func (s *forest) link(key, namespace, had, has string) {
	if had != "" && had != has {
		cut(s.below, convert.CompositeKey(namespace, had), key)
	}
	if has != "" {
		insert(s.below, convert.CompositeKey(namespace, has), key, true)
	}
}

// root is the key of the gang that a group with the parent is in.
func (s *forest) root(namespace, parent string) string {
	return convert.RootKey(namespace, parent, s.find)
}

// rootOfComposite is the key of the gang that the group is in, or is.
func (s *forest) rootOfComposite(c *schedulingv1alpha3.CompositePodGroup) string {
	if up := convert.ParentOfComposite(c); up != "" {
		return s.root(c.Namespace, up)
	}
	return convert.CompositeKey(c.Namespace, c.Name)
}

// under lists the keys of the PodGroups below the composite group, sorted.
func (s *forest) under(key string) []string {
	var out []string
	seen, next := map[string]bool{key: true}, []string{key}
	for len(next) > 0 {
		at := next[0]
		next = next[1:]
		for child := range s.below[at] { //archtest:any-order it is sorted
			if seen[child] {
				continue
			}
			seen[child] = true
			if convert.IsComposite(child) {
				next = append(next, child)
			} else {
				out = append(out, child)
			}
		}
	}
	slices.Sort(out)
	return out
}

// tree is the gang's groups as they are, nil where there is none. Groups above the limit are not listed.
func (s *gangs) tree(key string) *convert.Tree {
	root := s.forest.composites[key]
	if root == nil {
		return nil
	}
	t := &convert.Tree{Root: root}
	seen, next := map[string]bool{key: true}, []string{key}
	for len(next) > 0 {
		at := next[0]
		next = next[1:]
		if t.Over = t.Over || len(seen)+len(s.forest.below[at]) > convert.MaxSubgroups+1; t.Over {
			break
		}
		for _, child := range slices.Sorted(maps.Keys(s.forest.below[at])) {
			if seen[child] {
				continue
			}
			seen[child] = true
			if c := s.forest.composites[child]; c != nil {
				t.Composites = append(t.Composites, c)
				next = append(next, child)
			} else if g := s.groups[child]; g != nil {
				t.Groups = append(t.Groups, g)
			}
		}
	}
	return t
}

// describedTree is the gang's groups as they were decided about with its members, and the others as they are; nil: there is none.
func (s *gangs) describedTree(key string, members []*member) *convert.Tree {
	t := s.tree(key)
	if t == nil {
		t = &convert.Tree{}
	}
	decided := make(map[string]bool)
	for _, m := range members {
		if m.terms == nil || m.terms.Group == nil || len(m.terms.Group.Above) == 0 || decided[m.groupName()] {
			continue
		}
		decided[m.groupName()] = true
		t.Recorded(namespaceOf(key), m.groupName(), m.terms.Group)
	}
	if t.Root == nil {
		return nil
	}
	t.Sort()
	return t
}

// groupName is the name of the member's PodGroup.
func (m *member) groupName() string {
	if g := m.pod.Spec.SchedulingGroup; g != nil && g.PodGroupName != nil {
		return *g.PodGroupName
	}
	return ""
}

// describeTree is the gang that the composite group at the top is; false: it is gone, and so is what was decided about it.
func (s *gangs) describeTree(key string, members []*member, pods []*corev1.Pod) (engine.Gang, bool) {
	t := s.describedTree(key, members)
	if t == nil || len(members) == 0 && convert.ParentOfComposite(t.Root) != "" {
		return engine.Gang{}, false
	}
	started := slices.ContainsFunc(members, (*member).bound)
	g := t.Gang()
	t.Terms(&g, pods, started)
	g.Invalid = cmp.Or(g.Invalid, t.Disagreement(inAPI(members)))
	if c := s.forest.composites[key]; c != nil && !started {
		if why := convert.Misplaced(c, s.forest.find); why != "" {
			g.Invalid = why
		}
	}
	s.treeDone(&g, members)
	if started {
		convert.Capped(&g)
	}
	return g, true
}

// tellOverruled says on the groups of the tree what of theirs the group at its top decides.
func (f *Feed) tellOverruled(key string) {
	t := f.gangs.tree(key)
	if t == nil {
		return
	}
	for _, c := range t.Composites {
		f.listen.NotHonoured(c, t.OverruledComposite(c))
	}
	for _, g := range t.Groups {
		f.listen.NotHonoured(g, t.Overruled(g))
	}
}

// treeDone lets groups not wait for members that have succeeded.
func (s *gangs) treeDone(g *engine.Gang, members []*member) {
	finished := s.finished(g.Key)
	if len(finished) == 0 {
		return
	}
	done := make(map[string]bool)
	for i := range g.Groups {
		leaf := &g.Groups[i]
		n, some := finished[leaf.Name]
		if !some || leaf.Min == 0 {
			continue
		}
		there := slices.DeleteFunc(slices.Clone(members), func(m *member) bool { return m.groupName() != leaf.Name })
		coming, over := 0, 0
		for _, o := range s.owners.controllers(there) {
			coming += o.Pods
			over += o.Done
		}
		if len(there) == 0 && coming == 0 {
			done[leaf.Name] = true
			continue
		}
		if over > 0 && coming > 0 {
			leaf.Min = min(leaf.Min, coming)
		}
		leaf.Min = convert.Less(leaf.Min, n)
	}
	convert.Finish(g, done)
}

// rooted puts a pod whose PodGroup has a parent into the gang of the composite group at the top, as was decided or as it is now.
func (s *gangs) rooted(v *engine.Pod, p *corev1.Pod, t *terms) {
	key := convert.PodGroupOf(p)
	if key == "" || v.Gang != key {
		return
	}
	if t != nil && t.Group != nil {
		if above := t.Group.Above; len(above) > 0 {
			v.Gang, v.Subgroup = convert.CompositeKey(p.Namespace, above[len(above)-1].Name), *p.Spec.SchedulingGroup.PodGroupName
		}
		return
	}
	if root := s.rootOf(key); root != "" {
		v.Gang, v.Subgroup = root, *p.Spec.SchedulingGroup.PodGroupName
	}
}

// rootOf is the key of the gang that the PodGroup of the key is part of, "" where it is one itself, or does not exist.
func (s *gangs) rootOf(key string) string {
	g := s.groups[key]
	if g == nil || convert.ParentOf(g) == "" {
		return ""
	}
	return s.forest.root(g.Namespace, convert.ParentOf(g))
}

// uproot undoes the decisions about a gang of which nothing runs and whose groups are part of another now, or gone.
func (f *Feed) uproot(key string) {
	members := f.members.sorted(key)
	if slices.ContainsFunc(members, (*member).bound) {
		return
	}
	for _, m := range members {
		group := convert.PodGroupOf(m.pod)
		if m.terms != nil && group != "" && f.gangs.gangOf(group) != key {
			f.undecide(m)
		}
	}
}

// regroup takes in again the members of the PodGroups, which may be in another gang now.
func (f *Feed) regroup(groups ...string) {
	for _, key := range groups {
		for _, pod := range slices.Sorted(maps.Keys(f.members.grouped[key])) {
			m := f.members.grouped[key][pod]
			f.gangs.describeAgain(m.workload)
			f.reenter(m)
		}
		if root := f.gangs.rootOf(key); root != "" {
			f.gangs.drop(key)
			f.gangs.describeAgain(root)
		}
	}
}

// setComposite takes in a CompositePodGroup.
func (f *Feed) setComposite(c *schedulingv1alpha3.CompositePodGroup) {
	key, had := convert.CompositeKey(c.Namespace, c.Name), ""
	trees := f.gangs.forest
	old := trees.composites[key]
	if old != nil {
		had = convert.ParentOfComposite(old)
	}
	f.out.derived.saw(resourceVersion(c))
	trees.composites[key] = c
	trees.link(key, c.Namespace, had, convert.ParentOfComposite(c))
	if old == nil || old.UID != c.UID || had != convert.ParentOfComposite(c) {
		f.regroup(trees.under(key)...)
		f.gangs.describeAgain(key)
	}
	root := trees.rootOfComposite(c)
	if was := old == nil || convert.Evictable(old); was != convert.Evictable(c) {
		f.giveMembersAgain(root)
	}
	f.gangs.describeAgain(root)
	f.members.fresh[root] = true
	f.begunAbove(key)
}

// removeComposite takes a CompositePodGroup away.
func (f *Feed) removeComposite(c *schedulingv1alpha3.CompositePodGroup) {
	key := convert.CompositeKey(c.Namespace, c.Name)
	trees := f.gangs.forest
	if trees.composites[key] == nil {
		return
	}
	root := trees.rootOfComposite(trees.composites[key])
	trees.link(key, c.Namespace, convert.ParentOfComposite(trees.composites[key]), "")
	delete(trees.composites, key)
	f.listen.Forget(c.UID)
	f.out.derived.saw(resourceVersion(c))
	f.regroup(trees.under(key)...)
	f.giveMembersAgain(root)
	f.gangs.redo[root], f.gangs.redo[key] = true, true
	f.admissions.all = true // of what waits, nothing is decided any more
	f.out.wake()
}

// firm says whether a group of the gang keeps its pods from being evicted for others. It is asked for every member that comes.
func (s *gangs) firm(key string) bool {
	t := s.tree(key)
	return t != nil && !t.Evictable()
}

// begunAbove looks whether the minimum of the composite group has its nodes, and of those above it.
func (f *Feed) begunAbove(key string) {
	for range convert.TreeLevels {
		c := f.gangs.forest.composites[key]
		if c == nil {
			return
		}
		if !compositeBegun(c) && f.satisfied(key, convert.TreeLevels) {
			f.listen.Begun(c)
		}
		if convert.ParentOfComposite(c) == "" {
			return
		}
		key = convert.CompositeKey(c.Namespace, convert.ParentOfComposite(c))
	}
}

// satisfied says whether as many groups below the composite group as must start have their minimum on nodes.
func (f *Feed) satisfied(key string, levels int) bool {
	c := f.gangs.forest.composites[key]
	if c == nil || levels == 0 {
		return false
	}
	n, least := 0, 1
	if gang := c.Spec.SchedulingPolicy.Gang; gang != nil {
		least = int(gang.MinGroupCount)
	}
	for child := range f.gangs.forest.below[key] { //archtest:any-order it counts
		below := f.gangs.forest.composites[child]
		switch g := f.gangs.groups[child]; {
		case g != nil && (InitiallyScheduled(g) || f.onNodes(child, g)), below != nil && (compositeBegun(below) || f.satisfied(child, levels-1)):
			n++
		}
	}
	return n >= least
}

// onNodes says whether as many members of the group as must start together have a node.
func (f *Feed) onNodes(key string, g *schedulingv1beta1.PodGroup) bool {
	bound := 0
	for _, m := range f.members.grouped[key] { //archtest:any-order it counts
		if m.bound() {
			bound++
		}
	}
	return bound > 0 && bound >= convert.PodGroup(g).Min
}

func compositeBegun(c *schedulingv1alpha3.CompositePodGroup) bool {
	return meta.IsStatusConditionTrue(c.Status.Conditions, CompositeInitiallyScheduled)
}

// Begun says whether the minimum of the object, a PodGroup or a CompositePodGroup, once had its nodes. That is never taken back.
func Begun(o Object) bool {
	switch o := o.(type) {
	case *schedulingv1beta1.PodGroup:
		return InitiallyScheduled(o)
	case *schedulingv1alpha3.CompositePodGroup:
		return compositeBegun(o)
	}
	return false
}

// Groups returns the PodGroups of the workload, by name, and the CompositePodGroups, the root first.
func (f *Feed) Groups(workload string) (groups []*schedulingv1beta1.PodGroup, composites []*schedulingv1alpha3.CompositePodGroup) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if g := f.gangs.groups[workload]; g != nil {
		return []*schedulingv1beta1.PodGroup{g}, nil
	}
	if spoken := f.spokenFor(workload); len(spoken) > 0 {
		return spoken, nil
	}
	t := f.gangs.tree(workload)
	if t == nil {
		return nil, nil
	}
	t.Sort()
	return t.Groups, append([]*schedulingv1alpha3.CompositePodGroup{t.Root}, t.Composites...)
}

// Composite returns the CompositePodGroup, nil if there is none.
func (f *Feed) Composite(namespace, name string) *schedulingv1alpha3.CompositePodGroup {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.gangs.forest.composites[convert.CompositeKey(namespace, name)]
}

// above are the composite groups over a PodGroup, its parent first.
func (s *gangs) above(g *schedulingv1beta1.PodGroup) []convert.CompositeRecord {
	var out []convert.CompositeRecord
	for up := convert.ParentOf(g); up != "" && len(out) < convert.TreeLevels; {
		c := s.forest.composites[convert.CompositeKey(g.Namespace, up)]
		if c == nil {
			return nil
		}
		out = append(out, convert.CompositeRecordOf(c))
		up = convert.ParentOfComposite(c)
	}
	return out
}
