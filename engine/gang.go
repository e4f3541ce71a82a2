package engine

import (
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// gang is a workload: a Gang with its members, or a pod by itself.
type gang struct {
	key    string
	spec   *api.Gang // nil: not known, or a lone pod
	lone   *pod      // the pod that is a gang of its own, instead of members
	single struct {
		pods [1]*pod // lone
		branch
		group api.Group
	} // what a lone pod's tree is made of
	whole   bool // keeps others' GPU work off its nodes
	members []*pod

	stale bool // is in State.stale
	tree  *branch

	// What a cycle looks at first, close together.
	turn  turn
	lined bool   // is in State.line, at turn
	soft  bool   // may be evicted whole, as of the last tally
	done  bool   // has its minimum, as of the last tally
	runs  bool   // some of it has a seat, as of the last tally
	payer *queue // its queue, as of the last tally; nil: none, or one that is not known
	plain plain
	able  ability
	start int // index, plus one, of its Start in the plan that is being made; 0: none

	lane     *lane             // that it is in, while those are kept
	ask      ask               // what it asks for, since the last tally
	special  uint64            // the cycle in which it has an answer of its own
	wanting  []quantity.Demand // what its members without a seat ask for, as entered in wantedOf.wanted
	wantedOf *queue
	noted    uint64 // roster.round in which note was taken of it
}

// branch is a group of a gang with its members: a node of the gang's tree.
type branch struct {
	group    *api.Group
	children []*branch // by name
	pods     []*pod    // of a leaf, in rank order, those on their way out left out
	seated   int       // of pods
}

// turn is what decides when a gang has its turn in a cycle.
type turn struct {
	repair   bool
	priority int32
	created  time.Time
	key      string
	lone     bool
}

// compare puts gangs that run under their minimum first, then by priority, age and name.
func (t turn) compare(o turn) int {
	if t.repair != o.repair {
		return before(t.repair)
	}
	if t.priority != o.priority {
		return before(t.priority > o.priority)
	}
	if c := t.created.Compare(o.created); c != 0 {
		return c
	}
	if c := strings.Compare(t.key, o.key); c != 0 {
		return c
	}
	if t.lone != o.lone {
		return before(t.lone)
	}
	return 0
}

func before(first bool) int {
	if first {
		return -1
	}
	return 1
}

func (s *State) gangNamed(key string) *gang {
	g := s.gangs[key]
	if g == nil {
		g = &gang{key: key}
		s.gangs[key] = g
	}
	return g
}

// setGang gives the gang a new spec, or with nil takes it away. What its members hold is charged to the
// new spec's queue.
func (s *State) setGang(key string, got *api.Gang) {
	g := s.gangNamed(key)
	for _, p := range g.members {
		s.unbook(p)
	}
	g.spec = got
	for _, p := range g.members {
		if p.seat != nil {
			s.book(p)
		}
	}
	s.repledge(key)
	valid := got != nil && !s.isRejected(api.KindGang, key)
	s.rewhole(g, valid && got.Layout.WholeNodes)
	if valid {
		s.meetLevels(got)
	}
	s.restale(g)
	s.forgetGang(g)
}

// rewhole takes note of whether the gang keeps others' GPU work off its nodes.
func (s *State) rewhole(g *gang, whole bool) {
	if g.whole == whole {
		return
	}
	g.whole = whole
	s.wholes++
	if !whole {
		s.wholes -= 2
	}
	for _, p := range g.members {
		if p.seat != nil {
			s.touched(p.seat)
		}
	}
	for _, h := range s.holdsOf[g.key] {
		if h.on != nil {
			s.touched(h.on)
		}
	}
}

// forgetGang drops a gang of which nothing is left.
func (s *State) forgetGang(g *gang) {
	if g.spec == nil && len(g.members) == 0 && s.gangs[g.key] == g {
		delete(s.gangs, g.key)
	}
}

// restale notes that the gang's tally and place in line have to be worked out anew.
func (s *State) restale(g *gang) {
	if g.stale {
		return
	}
	g.stale = true
	s.stale = append(s.stale, g)
}

// manyStale is how many gangs may be put in line one by one; more are sorted in together.
const manyStale = 256

// freshen works out what restale noted.
func (s *State) freshen() {
	s.regrow()
	for _, g := range s.stale {
		g.stale = false
		if g.lone == nil && g.spec == nil && len(g.members) == 0 {
			s.unlist(g)
			delete(s.short, g)
			continue
		}
		s.tally(g)
		s.relist(g)
	}
	s.stale = s.stale[:0]
	if s.loose > 0 {
		slices.SortFunc(s.line, func(a, b *gang) int { return a.turn.compare(b.turn) })
		s.loose = 0
	}
}

// tally builds the gang's tree and counts its members.
func (s *State) tally(g *gang) {
	s.countMembers(g)
	g.done, g.runs = g.tree.satisfied(), g.tree.running() > 0
}

func (s *State) countMembers(g *gang) {
	g.plain, g.ask, g.able, g.soft, g.payer = plain{}, ask{}, ability{}, g.evictable(), s.queues[g.queue()]
	if g.lone != nil {
		g.single.branch = branch{group: &g.single.group, pods: g.single.pods[:1]}
		g.tree = &g.single.branch
		g.tree.count()
		return
	}
	slices.SortFunc(g.members, comparePods)
	if g.spec == nil || s.isRejected(api.KindGang, g.key) {
		g.tree = &branch{group: &api.Group{}}
		g.tree.adopt(g.members, "")
		return
	}
	g.tree = newBranch(g.spec, &g.spec.Group)
	if len(g.spec.Groups) == 0 {
		g.tree.adopt(g.members, "")
		return
	}
	g.tree.each(func(b *branch) {
		if len(b.children) == 0 {
			b.adopt(g.members, b.group.Name)
		}
	})
}

// newBranch builds the tree below a group of the gang.
func newBranch(g *api.Gang, group *api.Group) *branch {
	b := &branch{group: group}
	for i := range g.Groups {
		if g.Groups[i].Parent == group.Name {
			b.children = append(b.children, newBranch(g, &g.Groups[i]))
		}
	}
	slices.SortFunc(b.children, func(x, y *branch) int { return strings.Compare(x.group.Name, y.group.Name) })
	return b
}

// adopt makes the members that name the subgroup the leaf's pods.
func (b *branch) adopt(members []*pod, subgroup string) {
	b.pods = make([]*pod, 0, len(members))
	for _, p := range members {
		if p.Subgroup == subgroup {
			b.pods = append(b.pods, p)
		}
	}
	b.count()
}

// count leaves out members on their way out and counts those with a seat.
func (b *branch) count() {
	if slices.ContainsFunc(b.pods, func(p *pod) bool { return !p.counts() }) {
		b.pods = slices.DeleteFunc(slices.Clone(b.pods), func(p *pod) bool { return !p.counts() })
	}
	b.seated = 0
	for _, p := range b.pods {
		if p.seat != nil {
			b.seated++
		}
	}
}

// each visits the branch and all below it, parents first.
func (b *branch) each(visit func(*branch)) {
	visit(b)
	for _, c := range b.children {
		c.each(visit)
	}
}

// min is how many members of a leaf start together.
func (b *branch) min() int {
	switch {
	case b.group.Min > 0:
		return b.group.Min
	case b.group.Size > 0:
		return b.group.Size
	}
	return len(b.pods)
}

// minGroups is how many groups below an inner branch must start.
func (b *branch) minGroups() int {
	if b.group.MinGroups > 0 {
		return b.group.MinGroups
	}
	return len(b.children)
}

// satisfied says whether the branch has its minimum on nodes.
func (b *branch) satisfied() bool {
	if len(b.children) == 0 {
		return b.seated >= b.min()
	}
	return b.done() >= b.minGroups()
}

// done counts the groups below the branch that have their minimum.
func (b *branch) done() int {
	n := 0
	for _, c := range b.children {
		if c.satisfied() {
			n++
		}
	}
	return n
}

// complete says whether the members that the minimum needs exist.
func (b *branch) complete() bool {
	if len(b.children) == 0 {
		return len(b.pods) >= b.min()
	}
	n := 0
	for _, c := range b.children {
		if c.complete() {
			n++
		}
	}
	return n >= b.minGroups()
}

// waiting counts the members without a seat.
func (b *branch) waiting() int {
	n := len(b.pods) - b.seated
	for _, c := range b.children {
		n += c.waiting()
	}
	return n
}

// running counts the members with a seat.
func (b *branch) running() int {
	n := b.seated
	for _, c := range b.children {
		n += c.running()
	}
	return n
}

// relist puts the gang where it belongs in the line, or takes it out of it.
func (s *State) relist(g *gang) {
	wants := g.wants()
	t := g.turnNow()
	if t.repair && !wants {
		s.short[g] = true
	} else {
		delete(s.short, g)
	}
	if !wants || t != g.turn {
		s.unlist(g)
	}
	g.turn = t
	if !wants {
		return
	}
	if !g.lined {
		i := len(s.line)
		if len(s.stale) > manyStale {
			s.loose++
		} else {
			i, _ = slices.BinarySearchFunc(s.line, t, func(o *gang, t turn) int { return o.turn.compare(t) })
		}
		s.line = slices.Insert(s.line, i, g)
		g.lined = true
	}
	s.enlane(g)
	s.want(g)
}

// unlist takes the gang out of the line, if it is in it.
func (s *State) unlist(g *gang) {
	if !g.lined {
		return
	}
	i, _ := slices.BinarySearchFunc(s.line[:len(s.line)-s.loose], g.turn, func(o *gang, t turn) int { return o.turn.compare(t) })
	s.line = slices.Delete(s.line, i, i+1)
	g.lined = false
	s.unlane(g)
	s.unwant(g)
}

// wants says whether the gang has members to place.
func (g *gang) wants() bool {
	if g.lone != nil {
		return g.lone.waits()
	}
	return slices.ContainsFunc(g.members, (*pod).waits)
}

func (g *gang) turnNow() turn {
	t := turn{key: g.key, lone: g.lone != nil}
	switch {
	case g.lone != nil:
		t.priority, t.created = g.lone.Priority, g.lone.Created
	case g.spec != nil:
		t.priority, t.created = g.spec.Priority, g.spec.Created
	}
	t.repair = g.tree.running() > 0 && !g.tree.satisfied()
	return t
}

// sortGangs sorts gangs by key, each once.
func sortGangs(gangs []*gang) {
	slices.SortFunc(gangs, func(a, b *gang) int { return strings.Compare(a.key, b.key) })
}

// layout returns the layout of the gang as a whole.
func (g *gang) layout() api.Layout {
	if g.spec == nil {
		return api.Layout{}
	}
	return g.spec.Layout
}
