package cluster

import (
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// Gang is a workload: a Gang with its members, or a pod by itself.
type Gang struct {
	Key    string
	Spec   *api.Gang // nil: not known, or a lone pod
	Lone   *Pod      // the pod that is a gang of its own, instead of members
	Single struct {
		Pods [1]*Pod // lone
		Branch
		group api.Group
	} // what a lone pod's tree is made of
	Whole   bool // keeps others' GPU work off its nodes
	Members []*Pod

	stale bool // is in Model.stale
	Tree  *Branch

	Evictable bool   // may be evicted whole, as of the last tally
	Done      bool   // wants no more than room to grow, as of the last tally
	Runs      bool   // some of it has an allocation, as of the last tally
	Payer     *Queue // its queue, as of the last tally; nil: none, or one that is not known
	Tallies   uint64 // made so far
	Moves     uint64 // how often a member was given an allocation, lost it, or was told to give it up or not to; trials count

	wanting  []quantity.Demand // what its members without an allocation ask for, as entered in wantedOf.wanted
	wantedOf *Queue
	lacks    bool // it counts in the account of its queue with what it lacks, if it has a queue
}

// Branch is a group of a gang with its members: a node of the gang's tree.
type Branch struct {
	Group     *api.Group
	Children  []*Branch // by name
	Pods      []*Pod    // of a leaf, in rank order, those on their way out left out
	Allocated int       // of pods
}

// Known says whether the gang that the pods name exists.
func (g *Gang) Known() bool { return g.Lone != nil || g.Spec != nil }

// WorkloadNamed returns the gang of the key that has members, nil if there is none.
func (m *Model) WorkloadNamed(key string) *Gang {
	if g := m.Gangs[key]; g != nil && len(g.Members) > 0 {
		return g
	}
	if p := m.Pods[key]; p != nil && p.In != nil && p.In.Lone == p {
		return p.In
	}
	return nil
}

// Turn is what decides when a gang has its turn in a cycle.
type Turn struct {
	Repair   bool
	Priority int32
	Created  time.Time
	Key      string
	Lone     bool
}

// Compare puts gangs that run under their minimum first, then by priority, age and name.
func (t Turn) Compare(o Turn) int {
	if t.Repair != o.Repair {
		return Before(t.Repair)
	}
	if t.Priority != o.Priority {
		return Before(t.Priority > o.Priority)
	}
	if c := t.Created.Compare(o.Created); c != 0 {
		return c
	}
	if c := strings.Compare(t.Key, o.Key); c != 0 {
		return c
	}
	if t.Lone != o.Lone {
		return Before(t.Lone)
	}
	return 0
}

func Before(first bool) int {
	if first {
		return -1
	}
	return 1
}

func (m *Model) gangNamed(key string) *Gang {
	g := m.Gangs[key]
	if g == nil {
		g = &Gang{Key: key}
		m.Gangs[key] = g
	}
	return g
}

// SetGang gives the gang a new spec, or with nil takes it away. What its members hold is charged to the
// new spec's queue.
func (m *Model) SetGang(key string, got *api.Gang) {
	g := m.gangNamed(key)
	for _, p := range g.Members {
		m.uncharge(p)
	}
	g.Spec = got
	for _, p := range g.Members {
		if p.Host != nil {
			m.charge(p)
			m.revalue(p)
		}
	}
	m.repledge(key)
	m.expectAnewFor(key)
	valid := got != nil && !m.IsRejected(api.KindGang, key)
	m.rewhole(g, valid && got.Layout.WholeNodes)
	if valid {
		m.meetLevels(got)
	}
	m.markStale(g)
	m.forgetGang(g)
}

// rewhole takes note of whether the gang keeps others' GPU work off its nodes.
func (m *Model) rewhole(g *Gang, whole bool) {
	if g.Whole == whole {
		return
	}
	g.Whole = whole
	m.WholeNodeGangs++
	if !whole {
		m.WholeNodeGangs -= 2
	}
	for _, p := range g.Members {
		if p.Host != nil {
			m.touched(p.Host)
		}
	}
	for _, h := range m.HoldsOf[g.Key] {
		if h.On != nil {
			m.touched(h.On)
		}
	}
}

// forgetGang drops a gang of which nothing is left.
func (m *Model) forgetGang(g *Gang) {
	if g.Spec == nil && len(g.Members) == 0 && m.Gangs[g.Key] == g {
		delete(m.Gangs, g.Key)
	}
}

// markStale notes that the gang's tally and place in line have to be worked out anew.
func (m *Model) markStale(g *Gang) {
	if g.stale {
		return
	}
	g.stale = true
	m.stale = append(m.stale, g)
}

// Freshen works out what follows from many changes together: the tree of queues, the tallies of gangs that changed, and what
// those lack in the accounts of their queues. It returns the gangs, with those that are gone. The list is good until the
// next change.
func (m *Model) Freshen() []*Gang {
	m.Rebuild()
	changed := m.stale
	for _, g := range changed {
		g.stale = false
		if !g.Gone() {
			m.Tally(g)
		}
		if !g.Gone() && g.Wants() {
			m.want(g)
		} else {
			m.unwant(g)
		}
	}
	m.stale = m.stale[:0]
	return changed
}

// Gone says whether nothing is left of the gang.
func (g *Gang) Gone() bool { return g.Lone == nil && g.Spec == nil && len(g.Members) == 0 }

// Tally builds the gang's tree and counts its members.
func (m *Model) Tally(g *Gang) {
	m.countMembers(g)
	g.Tallies++
	g.Done, g.Runs = g.Tree.Satisfied() && g.Tree.Need() == 0, g.Tree.Running() > 0
}

func (m *Model) countMembers(g *Gang) {
	g.Evictable, g.Payer = g.evictableNow(), m.Queues[g.Queue()]
	if g.Lone != nil {
		g.Single.Branch = Branch{Group: &g.Single.group, Pods: g.Single.Pods[:1]}
		g.Tree = &g.Single.Branch
		g.Tree.count()
		return
	}
	slices.SortFunc(g.Members, ComparePods)
	if g.Spec == nil || m.IsRejected(api.KindGang, g.Key) {
		g.Tree = &Branch{Group: &api.Group{}}
		g.Tree.adopt(g.Members, "")
		return
	}
	g.Tree = newBranch(g.Spec, &g.Spec.Group)
	if len(g.Spec.Groups) == 0 {
		g.Tree.adopt(g.Members, "")
		return
	}
	g.Tree.Each(func(b *Branch) {
		if len(b.Children) == 0 {
			b.adopt(g.Members, b.Group.Name)
		}
	})
}

// newBranch builds the tree below a group of the gang.
func newBranch(g *api.Gang, group *api.Group) *Branch {
	b := &Branch{Group: group}
	for i := range g.Groups {
		if g.Groups[i].Parent == group.Name {
			b.Children = append(b.Children, newBranch(g, &g.Groups[i]))
		}
	}
	slices.SortFunc(b.Children, func(x, y *Branch) int { return strings.Compare(x.Group.Name, y.Group.Name) })
	return b
}

// adopt makes the members that name the subgroup the leaf's pods.
func (b *Branch) adopt(members []*Pod, subgroup string) {
	b.Pods = make([]*Pod, 0, len(members))
	for _, p := range members {
		if p.Subgroup == subgroup {
			b.Pods = append(b.Pods, p)
		}
	}
	b.count()
}

// count leaves out members on their way out and counts those with an allocation.
func (b *Branch) count() {
	if slices.ContainsFunc(b.Pods, func(p *Pod) bool { return !p.counts() }) {
		b.Pods = slices.DeleteFunc(slices.Clone(b.Pods), func(p *Pod) bool { return !p.counts() })
	}
	b.Allocated = 0
	for _, p := range b.Pods {
		if p.Host != nil {
			b.Allocated++
		}
	}
}

// Each visits the branch and all below it, parents first.
func (b *Branch) Each(visit func(*Branch)) {
	visit(b)
	for _, c := range b.Children {
		c.Each(visit)
	}
}

// Min is how many members of a leaf are to run next: those of its minimum together, and where each is wanted then one more.
func (b *Branch) Min() int {
	//mutate: gang-each-is-wanted
	if b.Group.Each && b.Allocated < len(b.Pods) {
		return max(b.Keep(), b.Allocated+1)
	}
	return b.Keep()
}

// Keep is how many members of a leaf start together, and without which it does not run.
func (b *Branch) Keep() int {
	switch {
	case b.Group.Min > 0:
		return b.Group.Min
	case b.Group.Size > 0:
		return b.Group.Size
	}
	return len(b.Pods)
}

// MinGroups is how many groups below an inner branch are to have all that they need next: those that must start, and where each is wanted
// one more than have it.
func (b *Branch) MinGroups() int {
	//mutate: gang-each-group-is-wanted
	if b.beyond() && len(b.Lacks()) > 0 {
		return b.Done() + 1
	}
	return b.KeepGroups()
}

// KeepGroups is how many groups below an inner branch must start, and without which it does not run.
func (b *Branch) KeepGroups() int {
	if b.Group.MinGroups > 0 {
		return b.Group.MinGroups
	}
	return len(b.Children)
}

// beyond says whether the branch has its minimum and each of the groups below it is wanted all the same.
func (b *Branch) beyond() bool { return b.Group.Each && b.Satisfied() }

// Has says whether the group below the branch has all that it needs next: its minimum, and where the branch wants each group then also what is
// wanted beyond the minimum.
func (b *Branch) Has(c *Branch) bool {
	return c.Satisfied() && (!b.beyond() || c.Need() == 0)
}

// Lacks lists the groups below the branch that do not have all that they need next, and could, because their members exist: by name, those
// without their minimum first.
func (b *Branch) Lacks() []*Branch {
	var begins, more []*Branch
	for _, c := range b.Children {
		switch {
		case b.Has(c) || !c.Complete():
		case c.Satisfied():
			more = append(more, c)
		default:
			begins = append(begins, c)
		}
	}
	return append(begins, more...)
}

// Satisfied says whether the branch has its minimum on nodes.
func (b *Branch) Satisfied() bool {
	if len(b.Children) == 0 {
		return b.Allocated >= b.Keep()
	}
	n := 0
	for _, c := range b.Children {
		if c.Satisfied() {
			n++
		}
	}
	return n >= b.KeepGroups()
}

// Done counts the groups below the branch that have all that they need next.
func (b *Branch) Done() int {
	n := 0
	for _, c := range b.Children {
		if b.Has(c) {
			n++
		}
	}
	return n
}

// Complete says whether the members that the minimum needs exist.
func (b *Branch) Complete() bool {
	if len(b.Children) == 0 {
		return len(b.Pods) >= b.Min()
	}
	n := 0
	for _, c := range b.Children {
		if c.Complete() {
			n++
		}
	}
	return n >= b.KeepGroups()
}

// Waiting counts the members without an allocation.
func (b *Branch) Waiting() int {
	n := len(b.Pods) - b.Allocated
	for _, c := range b.Children {
		n += c.Waiting()
	}
	return n
}

// Running counts the members with an allocation.
func (b *Branch) Running() int {
	n := b.Allocated
	for _, c := range b.Children {
		n += c.Running()
	}
	return n
}

// Wants says whether the gang has members to place.
func (g *Gang) Wants() bool {
	if g.Lone != nil {
		return g.Lone.Waits()
	}
	return slices.ContainsFunc(g.Members, (*Pod).Waits)
}

func (g *Gang) TurnNow() Turn {
	t := Turn{Key: g.Key, Lone: g.Lone != nil}
	switch {
	case g.Lone != nil:
		t.Priority, t.Created = g.Lone.Priority, g.Lone.Created
	case g.Spec != nil:
		t.Priority, t.Created = g.Spec.Priority, g.Spec.Created
	}
	t.Repair = g.Tree.Running() > 0 && !g.Tree.Satisfied()
	return t
}

// TurnOf is the turn that the pod's workload had when it was in line, as far as it is known.
func (m *Model) TurnOf(p *Pod) Turn {
	if g := m.Gangs[p.Gang]; p.Gang != "" && g != nil && g.Spec != nil {
		return Turn{Key: g.Key, Priority: g.Spec.Priority, Created: g.Spec.Created}
	}
	return Turn{Key: p.Key, Priority: p.Priority, Created: p.Created, Lone: p.Gang == ""}
}

// SortGangs sorts gangs by key, each once.
func SortGangs(gangs []*Gang) {
	slices.SortFunc(gangs, func(a, b *Gang) int { return strings.Compare(a.Key, b.Key) })
}

// Layout returns the layout of the gang as a whole.
func (g *Gang) Layout() api.Layout {
	if g.Spec == nil {
		return api.Layout{}
	}
	return g.Spec.Layout
}

// Alike returns the gang's first waiting member, and whether counting decides the gang: no subgroups, all
// waiting members of one shape, and no segment begun already.
func (g *Gang) Alike() (*Pod, bool) {
	var first *Pod
	if g.Lone != nil {
		return g.Lone, true
	}
	for _, p := range g.Tree.Pods {
		if p.Host != nil {
			continue
		}
		if first == nil {
			first = p
		}
		if p.Shape != first.Shape || p.Stance() != first.Stance() {
			return first, false
		}
	}
	begun := g.Layout().Segment > 0 && g.Tree.Allocated > 0
	return first, len(g.Tree.Children) == 0 && !begun
}

func (g *Gang) HasLeaf(name string) bool {
	if len(g.Spec.Groups) == 0 {
		return name == ""
	}
	found := false
	for i := range g.Spec.Groups {
		if g.Spec.Groups[i].Parent == name {
			return false
		}
		found = found || g.Spec.Groups[i].Name == name
	}
	return found
}

// Degraded says whether the gang runs under its minimum.
func (g *Gang) Degraded() bool { return g.Tree.Running() > 0 && !g.Tree.Satisfied() }

// Terms returns what holds for the gang over time.
func (g *Gang) Terms() *api.Terms {
	switch {
	case g.Lone != nil:
		return &g.Lone.Terms
	case g.Spec != nil:
		return &g.Spec.Terms
	}
	return &api.Terms{}
}

// Queue returns the name of the queue that the gang is charged to.
func (g *Gang) Queue() string {
	if g.Lone != nil {
		return g.Lone.Queue
	}
	if g.Spec == nil {
		return ""
	}
	return g.Spec.Queue
}

// User returns whose the gang is.
func (g *Gang) User() string {
	if g.Lone != nil {
		return g.Lone.User
	}
	if g.Spec == nil {
		return ""
	}
	return g.Spec.User
}

// evictableNow says whether all members of the gang may be evicted for others, its minimum included.
func (g *Gang) evictableNow() bool {
	if g.Spec != nil && g.Spec.Core {
		return false
	}
	return !slices.ContainsFunc(g.All(), func(p *Pod) bool { return !p.Evictable && !p.Leaving() })
}

// All returns the gang's pods.
func (g *Gang) All() []*Pod {
	if g.Lone != nil {
		return g.Single.Pods[:1]
	}
	return g.Members
}
