package cluster

import (
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/engine/internal/api"
)

// Rules between pods: what the model counts for them. For every selector that a rule of a known pod has there is a Tally, the
// number of allocated pods on each node that it matches, and for every term of required anti-affinity, and every wish, a Carrier, the
// number of allocated pods on each node that have it. Both are kept by occupy and vacate as all accounts are, so that a rollback restores
// them, and a node's counts change only with the number of its room. Domains of node labels are not known here: package
// index adds nodes up for the classes that ask.
//
// Which selectors match a pod is worked out once for all pods of a namespace with the same labels (Profile), and only of rules
// that name the namespace. Where no known pod has a rule, nothing is kept and a pod costs one comparison.

// rules is what a Model keeps of them.
type rules struct {
	edition  uint64 // goes up when a selector or term comes or goes
	tallies  map[string]*Tally
	carriers map[string]*Carrier
	fragiles map[string]*FragileRule
	named    map[string]*scopedRules // by namespace: what names it
	anywhere scopedRules             // what holds in all namespaces
	seed     maphash.Seed
	profiles map[uint64][]*Profile
	stances  map[string]*Stance
	made     int32 // carriers and fragile rules ever
}

// scopedRules are tallies, carriers and fragile rules by where their selectors look.
type scopedRules struct {
	tallies  []*Tally
	carriers []*Carrier
	fragiles []*FragileRule
}

// Tally counts the allocated pods on each node that match all of its terms, wherever those look.
type Tally struct {
	key     string
	terms   []api.PodTerm // of which the topology does not matter here
	refs    int           // rules that use it
	counted bool          // the counts are kept; before the first question they are not
	All     []int32       // by Node.Index
	Staying []int32       // likewise, without pods that are being deleted
}

// Terms are those that a pod must match, all of them, to be counted.
func (t *Tally) Terms() []api.PodTerm { return t.terms }

// Matches says whether the tally counts the pod, wherever it is.
func (t *Tally) Matches(p *Pod) bool {
	for i := range t.terms {
		if !t.terms[i].Selects(p.Namespace(), p.Labels) {
			return false
		}
	}
	return true
}

// Carrier counts the allocated pods on each node that have one term: of required anti-affinity, by which they keep pods apart,
// or one by which they wish others near, or away.
type Carrier struct {
	Term   api.PodTerm
	Weight int32 // of a wish; 0: required anti-affinity
	key    string
	id     int32
	refs   int
	On     []int32 // by Node.Index
}

// Carries says whether the pod is one of the carriers, wherever it is.
func (p *Pod) Carries(c *Carrier) bool {
	own := p.own()
	return own != nil && slices.Contains(own.Carried, c)
}

// OwnRules are the rules of a spec, with what counts for them. Pods of one shape share them.
type OwnRules struct {
	shape    *Shape
	refs     int            // known pods
	Affinity *Tally         // of pods that match all terms; nil: there is no term
	Anti     []*Tally       // by term
	Carried  []*Carrier     // by term of required anti-affinity
	Spread   []*Tally       // by constraint, those that are wishes too
	Wishes   []*Tally       // by preference
	Wished   []*Carrier     // what it wishes others for: by preference, then by term of required affinity, which weighs hardWeight
	Fragile  []*FragileRule // what others could break before it comes: by constraint, then by label of its affinity
}

// hardWeight is what a pod's required affinity weighs in the wishes of the pods that it needs, as in Kubernetes.
const hardWeight = 1

// Profile is what rules see of pods: their namespace and labels.
type Profile struct {
	namespace string
	labels    map[string]string
	edition   uint64 // of the lists
	tallies   []*Tally
	exposed   []*Carrier     // that keep it apart
	wished    []*Carrier     // that wish it near, or away
	breaks    []*FragileRule // that it could break
}

// Stance is what tells pods of one shape apart for rules: which terms of others keep it from them, and which of its own rules
// match it itself. Equal ones are one pointer. The pods of a class have one stance.
type Stance struct {
	Exposed []*Carrier     // terms of required anti-affinity of known pods that match it
	Wished  []*Carrier     // terms by which known pods wish it near, or away
	Breaks  []*FragileRule // rules of known pods that it could break
	Self    string         // by own rule, '1' where it matches: affinity, then each term of anti-affinity, then each constraint
}

// mostStances bounds how many are kept; classes keep those that they have.
const mostStances = 1 << 14

// Namespace is that of the pod: its key up to the first "/".
func (p *Pod) Namespace() string {
	namespace, _, _ := strings.Cut(p.Key, "/")
	return namespace
}

// seen is what rules between pods see of a pod.
type seen struct {
	book     *rules
	own      *OwnRules // nil: it has no rules
	profile  *Profile  // nil: not asked for yet
	stance   *Stance   // as of stanceAt; nil: not asked for yet, or none
	stanceAt uint64
	shared   bool // by all pods that nothing is known of
}

// see makes what is seen of the pod one of its own, to be written.
func (p *Pod) see() *seen {
	switch {
	case p.seen == nil:
		p.seen = &seen{}
	case p.seen.shared:
		s := *p.seen
		s.shared = false
		p.seen = &s
	}
	return p.seen
}

// own are the pod's rules; nil: it has none.
func (p *Pod) own() *OwnRules {
	if p.seen == nil {
		return nil
	}
	return p.seen.own
}

// adopt enters the rules of a pod that is known from now on.
func (m *Model) adopt(p *Pod) {
	p.seen = &m.unseen
	if !p.PodRules.Any() {
		return
	}
	sh := m.ShapeOf(p)
	if sh.Own == nil {
		sh.Own = &OwnRules{shape: sh}
	}
	own := sh.Own
	p.see().own = own
	if own.refs++; own.refs > 1 {
		return
	}
	r, s := &m.rules, sh.Spec.Rules()
	if len(s.PodAffinity) > 0 {
		own.Affinity = r.tally(s.PodAffinity)
	}
	for i := range s.PodAntiAffinity {
		own.Anti = append(own.Anti, r.tally(s.PodAntiAffinity[i:i+1]))
		own.Carried = append(own.Carried, r.carrier(s.PodAntiAffinity[i], 0))
	}
	for i := range s.PodPreferred {
		t := s.PodPreferred[i].PodTerm
		own.Wishes = append(own.Wishes, r.tally([]api.PodTerm{t}))
		if w := s.PodPreferred[i].Weight; w != 0 {
			own.Wished = append(own.Wished, r.carrier(t, w))
		}
	}
	for _, t := range s.PodAffinity {
		own.Wished = append(own.Wished, r.carrier(t, hardWeight))
	}
	for i := range s.Spread {
		c := &s.Spread[i]
		own.Spread = append(own.Spread, r.tally([]api.PodTerm{{Namespaces: []string{c.Namespace}, Labels: c.Labels}}))
		if !c.Soft {
			own.Fragile = append(own.Fragile, r.fragile(own.Spread[i], c.Topology, c))
		}
	}
	for i, t := range s.PodAffinity {
		if !slices.ContainsFunc(s.PodAffinity[:i], func(o api.PodTerm) bool { return o.Topology == t.Topology }) {
			own.Fragile = append(own.Fragile, r.fragile(own.Affinity, t.Topology, nil))
		}
	}
}

// disown undoes adopt: the pod is gone, or has another spec.
func (m *Model) disown(p *Pod) {
	own := p.own()
	p.seen = nil
	if own == nil {
		return
	}
	if own.refs--; own.refs > 0 {
		return
	}
	r := &m.rules
	if own.Affinity != nil {
		r.dropTally(own.Affinity)
	}
	for _, t := range own.Anti {
		r.dropTally(t)
	}
	for _, t := range own.Spread {
		r.dropTally(t)
	}
	for _, t := range own.Wishes {
		r.dropTally(t)
	}
	for _, c := range slices.Concat(own.Carried, own.Wished) {
		r.dropCarrier(c)
	}
	for _, k := range own.Fragile {
		r.dropFragile(k)
	}
	own.shape.Own = nil // what comes next is counted anew
}

// tally returns the tally of pods that match all terms, for one more rule.
func (r *rules) tally(terms []api.PodTerm) *Tally {
	key := selectorsKey(terms)
	t := r.tallies[key]
	if t == nil {
		r.begin()
		t = &Tally{key: key, terms: terms}
		r.tallies[key] = t
		r.edition++
		r.eachScope(terms[0].Namespaces, func(s *scopedRules) { s.tallies = append(s.tallies, t) })
	}
	t.refs++
	return t
}

func (r *rules) dropTally(t *Tally) {
	if t.refs--; t.refs > 0 {
		return
	}
	delete(r.tallies, t.key)
	r.edition++
	r.eachScope(t.terms[0].Namespaces, func(s *scopedRules) {
		s.tallies = slices.DeleteFunc(s.tallies, func(o *Tally) bool { return o == t })
	})
	r.end()
}

// carrier returns the carriers of the term, for one more rule.
func (r *rules) carrier(term api.PodTerm, weight int32) *Carrier {
	key := selectorsKey([]api.PodTerm{term}) + "\x00" + term.Topology + "\x00" + strconv.Itoa(int(weight))
	c := r.carriers[key]
	if c == nil {
		r.begin()
		r.made++
		c = &Carrier{Term: term, Weight: weight, key: key, id: r.made}
		r.carriers[key] = c
		r.edition++
		r.eachScope(term.Namespaces, func(s *scopedRules) { s.carriers = append(s.carriers, c) })
	}
	c.refs++
	return c
}

func (r *rules) dropCarrier(c *Carrier) {
	if c.refs--; c.refs > 0 {
		return
	}
	delete(r.carriers, c.key)
	r.edition++
	r.eachScope(c.Term.Namespaces, func(s *scopedRules) {
		s.carriers = slices.DeleteFunc(s.carriers, func(o *Carrier) bool { return o == c })
	})
	r.end()
}

// fragile returns the rule of known pods about those that the tally counts, for one more pod that has it.
func (r *rules) fragile(t *Tally, topology string, c *api.Spread) *FragileRule {
	key := t.key + "\x00" + topology
	if c != nil {
		key += fmt.Sprintf("\x00%d %d", c.MaxSkew, c.MinDomains)
	}
	k := r.fragiles[key]
	if k == nil {
		r.made++
		k = &FragileRule{Tally: t, Topology: topology, Spread: c, key: key, id: r.made}
		r.fragiles[key] = k
		r.edition++
		r.eachScope(t.terms[0].Namespaces, func(s *scopedRules) { s.fragiles = append(s.fragiles, k) })
	}
	k.refs++
	return k
}

func (r *rules) dropFragile(k *FragileRule) {
	if k.refs--; k.refs > 0 {
		return
	}
	delete(r.fragiles, k.key)
	r.edition++
	r.eachScope(k.Tally.terms[0].Namespaces, func(s *scopedRules) {
		s.fragiles = slices.DeleteFunc(s.fragiles, func(o *FragileRule) bool { return o == k })
	})
	r.end()
}

// begin makes room for the first rule.
func (r *rules) begin() {
	if r.tallies == nil {
		r.tallies, r.carriers, r.named = make(map[string]*Tally), make(map[string]*Carrier), make(map[string]*scopedRules)
		r.fragiles = make(map[string]*FragileRule)
		r.profiles, r.stances, r.seed = make(map[uint64][]*Profile), make(map[string]*Stance), maphash.MakeSeed()
	}
}

// end forgets everything with the last rule.
func (r *rules) end() {
	if len(r.tallies)+len(r.carriers)+len(r.fragiles) == 0 {
		*r = rules{edition: r.edition, made: r.made}
	}
}

// eachScope visits where a selector of the namespaces, nil for all, is listed.
func (r *rules) eachScope(namespaces []string, visit func(*scopedRules)) {
	if namespaces == nil {
		visit(&r.anywhere)
		return
	}
	for _, name := range namespaces {
		s := r.named[name]
		if s == nil {
			s = &scopedRules{}
			r.named[name] = s
		}
		visit(s)
		if len(s.tallies)+len(s.carriers)+len(s.fragiles) == 0 {
			delete(r.named, name)
		}
	}
}

// selectorsKey is equal for terms that select the same pods in the same words.
func selectorsKey(terms []api.PodTerm) string {
	var b strings.Builder
	for _, t := range terms {
		if t.Namespaces == nil {
			b.WriteByte('*')
		}
		for _, n := range t.Namespaces {
			b.WriteString(n)
			b.WriteByte(1)
		}
		if t.Labels == nil {
			b.WriteByte(2)
		}
		for _, q := range t.Labels {
			b.WriteByte(3)
			b.WriteString(q.Key)
			b.WriteByte(4)
			b.WriteString(string(q.Op))
			for _, v := range q.Values {
				b.WriteByte(5)
				b.WriteString(v)
			}
		}
		b.WriteByte(6)
	}
	return b.String()
}

// profileOf returns the pod's profile, with lists that are up to date.
func (r *rules) profileOf(p *Pod) *Profile {
	var f *Profile
	if p.seen != nil {
		f = p.seen.profile
	}
	if f == nil {
		f = r.internProfile(p.Namespace(), p.Labels)
		p.see().profile = f
	}
	//mutate: rules-new-selectors
	if f.edition != r.edition {
		f.edition, f.tallies, f.exposed, f.wished, f.breaks = r.edition, f.tallies[:0], nil, nil, nil
		f.meet(&r.anywhere)
		if s := r.named[f.namespace]; s != nil {
			f.meet(s)
		}
	}
	return f
}

func (r *rules) internProfile(namespace string, labels map[string]string) *Profile {
	h := maphash.String(r.seed, namespace)
	for k, v := range labels {
		h += maphash.String(r.seed, k) * (2*maphash.String(r.seed, v) + 1)
	}
	for _, f := range r.profiles[h] {
		if f.namespace == namespace && maps.Equal(f.labels, labels) {
			return f
		}
	}
	if len(r.profiles) >= mostProfiles { // pods keep those that they have
		clear(r.profiles)
	}
	f := &Profile{namespace: namespace, labels: labels}
	r.profiles[h] = append(r.profiles[h], f)
	return f
}

// mostProfiles bounds how many profiles are kept to be found again.
const mostProfiles = 1 << 17

// counts says whether the tally counts pods of the profile.
func (t *Tally) counts(f *Profile) bool {
	return !slices.ContainsFunc(t.terms, func(term api.PodTerm) bool { return !term.Selects(f.namespace, f.labels) })
}

// meet lists what of the rules matches the profile.
func (f *Profile) meet(s *scopedRules) {
	for _, t := range s.tallies {
		if t.counts(f) {
			f.tallies = append(f.tallies, t)
		}
	}
	for _, k := range s.fragiles {
		if k.Tally.counts(f) {
			f.breaks = append(f.breaks, k)
		}
	}
	for _, c := range s.carriers {
		switch {
		case !c.Term.Selects(f.namespace, f.labels):
		case c.Weight == 0:
			f.exposed = append(f.exposed, c)
		default:
			f.wished = append(f.wished, c)
		}
	}
}

// Stance returns the pod's stance; nil where no rule of a known pod is about it and it has none.
func (p *Pod) Stance() *Stance {
	if p.seen == nil || p.seen.book == nil || p.seen.book.tallies == nil {
		return nil
	}
	r, own := p.seen.book, p.seen.own
	if p.seen.stance != nil && p.seen.stanceAt == r.edition {
		return p.seen.stance
	}
	f := r.profileOf(p)
	if own == nil && len(f.exposed)+len(f.wished)+len(f.breaks) == 0 {
		return nil
	}
	self := own.self(p)
	var b strings.Builder
	b.WriteString(self)
	for _, list := range [][]*Carrier{f.exposed, f.wished} {
		slices.SortFunc(list, func(a, b *Carrier) int { return int(a.id - b.id) })
		for _, c := range list {
			b.WriteByte(' ')
			b.WriteString(strconv.Itoa(int(c.id)))
		}
	}
	slices.SortFunc(f.breaks, func(a, b *FragileRule) int { return int(a.id - b.id) })
	for _, k := range f.breaks {
		b.WriteByte(' ')
		b.WriteString(strconv.Itoa(int(k.id)))
	}
	key := b.String()
	s := r.stances[key]
	if s == nil {
		if len(r.stances) >= mostStances {
			clear(r.stances)
		}
		s = &Stance{Exposed: slices.Clone(f.exposed), Wished: slices.Clone(f.wished), Breaks: slices.Clone(f.breaks), Self: self}
		r.stances[key] = s
	}
	p.seen.stance, p.seen.stanceAt = s, r.edition
	return s
}

// self says which of the rules match the pod itself.
func (o *OwnRules) self(p *Pod) string {
	if o == nil {
		return ""
	}
	var b strings.Builder
	add := func(t *Tally) {
		if t != nil && t.Matches(p) {
			b.WriteByte('1')
			return
		}
		b.WriteByte('0')
	}
	add(o.Affinity)
	for _, t := range o.Anti {
		add(t)
	}
	for _, t := range o.Spread {
		add(t)
	}
	return b.String()
}

// count enters the pod, which takes its room on the node, in the tallies and carriers or, with by = -1, takes it out.
func (m *Model) count(p *Pod, n *Node, by int32) {
	r := &m.rules
	if r.tallies == nil {
		return
	}
	for _, t := range r.profileOf(p).tallies {
		if t.counted {
			t.add(p, n, by)
		}
	}
	if own := p.own(); own != nil {
		for _, c := range own.Carried {
			//mutate: rules-carriers
			c.On = addAt(c.On, n.Index, by)
		}
		for _, c := range own.Wished {
			c.On = addAt(c.On, n.Index, by)
		}
	}
}

func (t *Tally) add(p *Pod, n *Node, by int32) {
	//mutate: rules-tally
	t.All = addAt(t.All, n.Index, by)
	//mutate: rules-spread-leaves-out-the-deleted
	if !p.Terminating {
		t.Staying = addAt(t.Staying, n.Index, by)
	}
}

func addAt(list []int32, i, by int32) []int32 {
	if int(i) >= len(list) {
		list = append(list, make([]int32, int(i)+1-len(list)+len(list)/4)...)
	}
	list[i] += by
	return list
}

// Counted returns the tally with its counts, which are made when they are first asked for: at the cost of a look at every
// pod.
func (m *Model) Counted(t *Tally) *Tally {
	if !t.counted {
		t.counted = true
		//archtest:any-order each node is counted by itself
		for _, n := range m.Nodes {
			for _, p := range n.Pods {
				if slices.Contains(m.rules.profileOf(p).tallies, t) {
					t.add(p, n, 1)
				}
			}
		}
	}
	return t
}

// rules recounts what the node's pods count for.
func (a *Check) rules(n *Node) {
	r := &a.m.rules
	count := func(rule []api.PodTerm, account string, kept []int32, counts func(p *Pod) int) {
		var is, counted int64
		if int(n.Index) < len(kept) {
			is = int64(kept[n.Index])
		}
		for _, p := range n.Pods {
			counted += int64(counts(p))
		}
		if is != counted { // the text of a rule costs more than its count
			a.Note("node", n.Name, account, fmt.Sprint(rule), is, counted)
		}
	}
	//archtest:any-order Audit sorts what is found
	for _, t := range r.tallies {
		if t.counted {
			count(t.terms, "matching pods", t.All, func(p *Pod) int { return int(auditBit(t.Matches(p))) })
			count(t.terms, "matching pods that stay", t.Staying, func(p *Pod) int { return int(auditBit(!p.Terminating && t.Matches(p))) })
		}
	}
	//archtest:any-order Audit sorts what is found
	for _, c := range r.carriers {
		count([]api.PodTerm{c.Term}, "rules of pods", c.On, func(p *Pod) (times int) {
			if own := p.own(); own != nil {
				for _, o := range slices.Concat(own.Carried, own.Wished) {
					times += int(auditBit(o == c))
				}
			}
			return times
		})
	}
}

// HasRules says whether some known pod has a rule that pods must be counted for.
func (m *Model) HasRules() bool { return m.rules.tallies != nil }

// RulesEdition goes up when a rule comes that no known pod had, or goes with the last that had it: pods may be under other
// rules then, and of other classes.
func (m *Model) RulesEdition() uint64 { return m.rules.edition }

// Swap lets pods of one class that have allocations change places: each is taken out of the counts, swap is done, and they are counted
// again. The rooms of their nodes have other numbers then. What a node gives and what queues are charged stays the same where the
// pods are alike; of pods of which some may be evicted and others may not, each takes its accounts along.
func (m *Model) Swap(pods []*Pod, swap func()) {
	//mutate: index-swap-unlike -> false
	unlike := slices.ContainsFunc(pods, func(p *Pod) bool { return p.canGo() != pods[0].canGo() })
	if !unlike && !m.HasRules() {
		swap()
		return
	}
	for _, p := range pods {
		m.count(p, p.Host, -1)
		if unlike {
			m.uncharge(p)
			m.account(p, p.Host, -1)
		}
	}
	swap()
	for _, p := range pods {
		if unlike {
			m.account(p, p.Host, 1)
			m.charge(p)
		}
		m.count(p, p.Host, 1)
		m.touched(p.Host)
	}
}
