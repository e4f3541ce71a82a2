package oracle

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
)

// Check proves a certificate about the gang anew from the snapshot, and says what is wrong with it; nil:
// nothing. The snapshot is the world in which the gang had its turn: starts that came before it in the
// same plan are among its assumptions.
func Check(snap engine.Snapshot, cfg engine.Config, now time.Time, gang string, cert why.Certificate) error {
	w := newWorld(snap, cfg, now)
	err := errors.New("no waiting member asks for this")
	for _, p := range w.waiting(gang) {
		models := []string{""}
		if len(p.GPU.Models) > 0 && w.hasGPU(p) || w.apart(w.gang[gang]) && amount(p.Requests, w.gpu) > 0 {
			models = w.models(w.gang[gang])
		}
		narrow, ok := w.narrowed(p, cert.Flavors)
		if ok && slices.Equal(request(p), cert.Request) && slices.Contains(models, cert.Model) {
			if err = (&audit{w, narrow, p.Spec, cert}).all(); err == nil {
				return nil
			}
		}
	}
	return err
}

// audit is a certificate against the world and a pod that it may be about.
type audit struct {
	w    *world
	pod  engine.Pod  // narrowed to the flavors of the certificate
	asks engine.Spec // of the pod itself
	cert why.Certificate
}

// line is the nodes of one domain that look alike, or what a certificate says about them. Rows whose
// classes differ only in how devices are linked are one line.
type line struct {
	domain, looks string
}

// account is what there is to say about a line.
type account struct {
	nodes    int
	fits     int64
	example  string         // the first by name
	perEmpty map[int64]bool // values that occur
	removed  map[why.Clause]int
	short    map[string]why.Short
}

func (a *audit) all() error {
	for _, step := range []func() error{a.claim, a.order, a.rows, a.sums, a.proof, a.bound} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// claim checks that the gang must place as many as the certificate says, where it says.
func (a *audit) claim() error {
	g := a.w.gang[a.pod.Gang]
	l := g.Layout
	switch bounds := a.bounds(g); {
	case !slices.Contains(bounds, bounded{a.cert.Level, a.cert.Pinned}):
		return fmt.Errorf("in one domain of %q, pinned to %q: want one of %v", a.cert.Level, a.cert.Pinned, bounds)
	case a.cert.Segment != 0 && (a.cert.Segment != l.Segment || a.cert.SegmentLevel != l.SegmentLevel):
		return fmt.Errorf("segments of %d in %q, want %d in %q", a.cert.Segment, a.cert.SegmentLevel, l.Segment, l.SegmentLevel)
	case !slices.Contains(a.needs(g, g.Group), a.cert.Need):
		return fmt.Errorf("needs %d, want one of %v", a.cert.Need, a.needs(g, g.Group))
	}
	return nil
}

// bounded is a level of which the pod must be in one domain with others, and which, where others run.
type bounded struct{ level, pinned string }

// bounds lists what the pods are bound by: their gang, the groups they are in, and, if it is a single one,
// its segment.
func (a *audit) bounds(g engine.Gang) (out []bounded) {
	for _, group := range append(slices.Clip(g.Groups), g.Group) {
		if !inside(g, a.pod.Subgroup, group.Name) {
			continue
		}
		members := a.w.members(g, group)
		out = append(out, bounded{group.Layout.Required, a.w.home(a.w.up(members), group.Layout.Required)})
		if size := group.Layout.Segment; size > 0 && a.cert.Need == 1 {
			i := slices.IndexFunc(members, func(p engine.Pod) bool { return p.Key == a.pod.Key }) / size * size
			mates := a.w.up(members[i:min(i+size, len(members))])
			out = append(out, bounded{group.Layout.SegmentLevel, a.w.home(mates, group.Layout.SegmentLevel)})
		}
	}
	return out
}

// needs lists how many pods like this one a group must place: per leaf that must start, all that wait but
// as many as its minimum can do without, or with segments those among the first. A gang that has its
// minimum wants one more.
func (a *audit) needs(g engine.Gang, group engine.Group) (out []int) {
	if group.Name == "" && a.w.full(g, group) {
		return a.wanted(g, group)
	}
	var below []engine.Group
	for _, c := range g.Groups {
		if c.Parent == group.Name {
			below = append(below, c)
		}
	}
	if group.MinGroups > 0 && group.MinGroups < len(below) {
		return nil
	}
	for _, c := range below {
		out = append(out, a.needs(g, c)...)
	}
	if len(below) > 0 {
		return out
	}
	members := a.w.members(g, group)
	waiting := slices.DeleteFunc(slices.Clone(members), func(p engine.Pod) bool { return a.w.at[p.Key].node != "" })
	lacked := cmp.Or(group.Min, group.Size, len(members)) - (len(members) - len(waiting))
	for _, wishes := range []bool{false, true} {
		if group.Layout.Segment > 0 {
			out = append(out, a.like(waiting[:min(max(0, lacked), len(waiting))], wishes))
		}
		out = append(out, a.like(waiting, wishes)-(len(waiting)-lacked))
	}
	return out
}

// wanted lists what may be needed of a group that has its minimum: one more, and where each group below is wanted what that one needs.
func (a *audit) wanted(g engine.Gang, group engine.Group) []int {
	out := []int{1}
	for _, c := range g.Groups {
		switch {
		case !group.Each || c.Parent != group.Name:
		case a.w.full(g, c):
			out = append(out, a.wanted(g, c)...)
		default:
			out = append(out, a.needs(g, c)...)
		}
	}
	return out
}

// like counts the pods that are like the one in question. With wishes, pods that preferences tell apart are not: the engine may count
// them apart, and what is proved of fewer pods is proved of all.
func (a *audit) like(pods []engine.Pod, wishes bool) (count int) {
	for _, p := range pods {
		if reflect.DeepEqual(p.Spec, a.asks) && a.w.seenAlike(p, a.pod) && !(wishes && a.w.wishedApart(p, a.pod)) {
			count++
		}
	}
	return count
}

// order checks that everything is sorted, so that equal certificates are equal bytes.
func (a *audit) order() error {
	ok := slices.IsSortedFunc(a.cert.Domains, func(x, y why.Domain) int { return cmp.Compare(x.Name, y.Name) })
	for _, d := range a.cert.Domains {
		ok = ok && slices.IsSortedFunc(d.Rows, func(x, y why.Row) int { return cmp.Compare(x.Class, y.Class) })
		for _, r := range d.Rows {
			ok = ok && slices.IsSortedFunc(r.Short, func(x, y why.Short) int { return cmp.Compare(x.Resource, y.Resource) })
			ok = ok && slices.IsSortedFunc(r.Removed, func(x, y why.Clause) int {
				return cmp.Or(cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Detail, y.Detail))
			})
		}
	}
	if !ok {
		return errors.New("not in order")
	}
	return nil
}

// rows counts every node anew and compares what the certificate says, line by line.
func (a *audit) rows() error {
	want, got := map[line]*account{}, map[line]*account{}
	for _, n := range a.w.Nodes {
		domain, _ := a.w.domainOf(n, a.cert.Level)
		a.count(at(want, line{domain, looks(a.class(n))}), n)
	}
	for _, d := range a.cert.Domains {
		for _, r := range d.Rows {
			if r.Class < 0 || r.Class >= len(a.cert.Classes) {
				return fmt.Errorf("class %d does not exist", r.Class)
			}
			c := a.cert.Classes[r.Class]
			at(got, line{d.Name, looks(c)}).quote(r, c)
		}
	}
	for _, l := range slices.SortedFunc(maps.Keys(want), func(x, y line) int { return cmp.Compare(x.domain+x.looks, y.domain+y.looks) }) {
		if w, g := fmt.Sprintf("%+v", *want[l]), fmt.Sprintf("%+v", *at(got, l)); w != g {
			return fmt.Errorf("domain %q, nodes like %s:\n got %s\nwant %s", l.domain, l.looks, g, w)
		}
	}
	if len(got) != len(want) {
		return errors.New("rows about nodes that are not there")
	}
	return nil
}

func at(m map[line]*account, l line) *account {
	if m[l] == nil {
		m[l] = &account{perEmpty: map[int64]bool{}, removed: map[why.Clause]int{}, short: map[string]why.Short{}}
	}
	return m[l]
}

// count adds a node of the world.
func (a *audit) count(acc *account, n engine.Node) {
	acc.add(1, a.w.most(a.pod, n, a.cert.Model), n.Name, a.class(n).PerEmpty)
	for _, c := range a.clauses(n) {
		acc.removed[c]++
	}
	for _, r := range a.pod.Requests {
		if free := a.unnominated().free(a.pod, n, r.Resource); r.Value > 0 && free < r.Value {
			acc.lack(why.Short{Resource: r.Resource, Nodes: 1, By: r.Value - free})
		}
	}
}

// quote adds a row of the certificate.
func (acc *account) quote(r why.Row, c why.Class) {
	acc.add(r.Nodes, r.Fits, r.Example, c.PerEmpty)
	for _, cl := range r.Removed {
		acc.removed[why.Clause{Kind: cl.Kind, Detail: cl.Detail}] += cl.Nodes
	}
	for _, s := range r.Short {
		acc.lack(s)
	}
}

func (acc *account) add(nodes int, fits int64, example string, perEmpty int64) {
	acc.nodes, acc.fits = acc.nodes+nodes, acc.fits+fits
	if acc.example == "" || example < acc.example {
		acc.example = example
	}
	acc.perEmpty[perEmpty] = true
}

func (acc *account) lack(s why.Short) {
	old, ok := acc.short[s.Resource]
	if ok {
		s.Nodes, s.By = s.Nodes+old.Nodes, min(s.By, old.By)
	}
	acc.short[s.Resource] = s
}

// sums checks that the rows of a domain add up to it, the domains to the total, and segments to what the
// rows can hold.
func (a *audit) sums() error {
	var total int64
	for _, d := range a.cert.Domains {
		var fits int64
		for _, r := range d.Rows {
			fits += r.Fits
		}
		if total += fits; d.Fits != fits {
			return fmt.Errorf("domain %q: %d, its rows say %d", d.Name, d.Fits, fits)
		}
		if segments, _ := a.segments(d.Name); a.counts(d.Name) && d.Segments != segments {
			return fmt.Errorf("domain %q: %d segments, want %d", d.Name, d.Segments, segments)
		}
	}
	if a.cert.Total != total {
		return fmt.Errorf("total %d, domains say %d", a.cert.Total, total)
	}
	return nil
}

// counts says whether there is a domain of the certificate's level by this name: "" may be the nodes
// outside.
func (a *audit) counts(domain string) bool {
	return slices.ContainsFunc(a.w.Nodes, func(n engine.Node) bool {
		d, in := a.w.domainOf(n, a.cert.Level)
		return in && d == domain
	})
}

// segments is how many whole segments the domain holds, and the most pods that fit beside them in one
// segment domain.
func (a *audit) segments(domain string) (whole, beside int64) {
	if a.cert.Segment == 0 {
		return 0, 0
	}
	fits := map[string]int64{}
	for _, n := range a.w.Nodes {
		d, _ := a.w.domainOf(n, a.cert.Level)
		if inner, in := a.w.domainOf(n, a.cert.SegmentLevel); in && d == domain {
			fits[inner] += a.w.most(a.pod, n, a.cert.Model)
		}
	}
	for _, f := range fits {
		whole += f / int64(a.cert.Segment)
		beside = max(beside, f%int64(a.cert.Segment))
	}
	return whole, beside
}

// proof checks the conclusion: no domain that counts holds what is needed.
func (a *audit) proof() error {
	need, size := int64(a.cert.Need), int64(a.cert.Segment)
	for _, d := range a.cert.Domains {
		if !a.counts(d.Name) || a.cert.Pinned != "" && a.cert.Pinned != d.Name {
			continue
		}
		holds := d.Fits >= need
		if size > 0 {
			whole, beside := a.segments(d.Name)
			holds = whole > need/size || whole == need/size && beside >= need%size
		}
		if holds {
			return fmt.Errorf("domain %q holds the %d that are needed", d.Name, need)
		}
	}
	return nil
}

// bound checks that IfEvicted is no less than what would fit with everything gone that may go.
func (a *audit) bound() error {
	empty := *a.w
	empty.Pods = slices.DeleteFunc(slices.Clone(a.w.Pods), func(q engine.Pod) bool { return q.Node != "" && (q.Evictable || q.Terminating) })
	fits := map[string]int64{"": 0}
	for _, n := range a.w.Nodes {
		if d, in := a.w.domainOf(n, a.cert.Level); in && (a.cert.Pinned == "" || a.cert.Pinned == d) {
			fits[d] += empty.most(a.pod, n, a.cert.Model)
		}
	}
	if most := slices.Max(slices.Collect(maps.Values(fits))); a.cert.IfEvicted < most {
		return fmt.Errorf("a domain would hold %d with all gone that may go, not %d", most, a.cert.IfEvicted)
	}
	return nil
}
