package engine

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/device"
	"github.com/berth-dev/berth/engine/internal/fit"
	"github.com/berth-dev/berth/engine/internal/place"
	"github.com/berth-dev/berth/engine/internal/quantity"
	"github.com/berth-dev/berth/engine/why"
)

// proofKey tells certificates of a plan apart: the same question of the same state has one.
type proofKey struct {
	class               *class
	need, segment       int
	level, segmentLevel int
	pinned              string
	unmet, unmetSegment string // names of levels that no node is in
	at                  uint64 // State.standing
}

// proof is where in the plan a certificate is, and what it amounts to.
type proof struct {
	certificate int
	cause       why.Cause
	gates       []why.Gate // the one that it proves
}

// prove makes, or finds, the certificate that the order has no place, and the gate that it proves.
func (y *cycle) prove(o order) why.Gate {
	if y.quiet {
		return why.Gate{Cause: why.ClusterFull, Certificate: -1}
	}
	s := y.s
	level := s.m.Level(o.layout.Required)
	key := proofKey{class: o.class, need: len(o.pods), level: level, at: s.m.Standing(), unmet: s.m.Unmet(o.layout.Required)}
	if o.layout.Segment > 0 {
		key.segment, key.segmentLevel, key.unmetSegment = o.layout.Segment, s.m.Level(o.layout.SegmentLevel), s.m.Unmet(o.layout.SegmentLevel)
	}
	if home := s.home(level, o.running); home != nil {
		key.pinned = home.name()
	}
	p, ok := y.proofs[key]
	if !ok {
		s.sync(o.class)
		cert, cause := s.certify(key)
		p = proof{certificate: len(y.plan.Certificates), cause: cause}
		y.plan.Certificates = append(y.plan.Certificates, cert)
		if y.proofs == nil {
			y.proofs = make(map[proofKey]proof)
		}
		gate := why.Gate{Cause: cause, Object: cert.Level, Need: int64(cert.Need), Certificate: p.certificate}
		for _, d := range cert.Domains {
			if cert.Pinned == "" || cert.Pinned == d.Name {
				gate.Have = max(gate.Have, d.Fits)
			}
		}
		p.gates = []why.Gate{gate}
		y.proofs[key] = p
	}
	return p.gates[0]
}

func (sc scope) name() string {
	if sc.node != nil {
		return sc.node.Name
	}
	return sc.domains[0].Name
}

// proveShort looks for a class of the gang of which too few fit, whatever the others do.
func (y *cycle) proveShort(g *cluster.Gang, k kin) (why.Gate, bool) {
	for _, o := range y.certain(g, k) {
		if _, ok := y.s.chooseScope(o); !ok {
			return y.prove(o), true
		}
	}
	return why.Gate{}, false
}

// certain lists, per leaf and class, members that must start for the minimum, once for each level that they
// must share: of a leaf that must start, all but as many as the minimum can do without.
func (y *cycle) certain(g *cluster.Gang, k kin) []order {
	var out []order
	for _, leaf := range g.Tree.Must() {
		spare, first := len(leaf.Pods)-leaf.Min(), len(leaf.Pods)
		if leaf.Group.Layout.Segment > 0 {
			spare, first = 0, max(0, leaf.Min()-leaf.Allocated)
		}
		var classes []*class
		pods := make(map[*class][]*cluster.Pod)
		for _, p := range leaf.Pods {
			if p.Host != nil || first == 0 {
				continue
			}
			first--
			c := k.class(p)
			if pods[c] == nil {
				classes = append(classes, c)
			}
			pods[c] = append(pods[c], p)
		}
		for _, c := range classes {
			n := len(pods[c]) - spare
			for _, up := range g.Tree.Path(leaf) {
				if l := up.Group.Layout; n > 0 && (l.Required != "" || up == g.Tree) {
					out = append(out, order{class: c, layout: api.Layout{Required: l.Required}, pods: pods[c][:n], want: n, running: up.RunningPods()})
				}
			}
		}
	}
	return out
}

// certify counts, per domain and node class, how many pods fit and what keeps out the rest.
func (s *State) certify(key proofKey) (why.Certificate, why.Cause) {
	c := key.class
	cert := why.Certificate{
		Need: key.need, Level: cmp.Or(key.unmet, s.m.Topology.LevelName(key.level)), Pinned: key.pinned, Segment: key.segment,
		Request: s.requestOf(c), Model: c.model, Total: c.total,
	}
	b := s.bodyOf(c, key.level)
	cert.Classes, cert.Domains = b.cert.Classes, b.cert.Domains
	cert.IfEvicted = b.table.mostEvicted(key.pinned)
	if key.segment > 0 {
		cert.SegmentLevel = cmp.Or(key.unmetSegment, s.m.Topology.LevelName(key.segmentLevel))
		cert.Domains = slices.Clone(cert.Domains)
		s.countSegments(key, &cert)
	}
	return cert, b.table.cause(&cert)
}

// bodyOf makes the part of a certificate that any need of the class shares.
func (s *State) bodyOf(c *class, level int) *body {
	b := &c.proofs.body
	if b.made && b.level == level && b.at == s.m.Log.Moment && b.shape == s.m.Topology.Shape {
		return b
	}
	*b = body{made: true, level: level, at: s.m.Log.Moment, shape: s.m.Topology.Shape, table: s.makeTable(c, level)}
	b.table.finish(&b.cert)
	return b
}

func (s *State) requestOf(c *class) []api.Amount {
	out := make(api.Resources, 0, len(c.demands))
	for _, d := range c.demands {
		if d.Dim != quantity.DimPods {
			out = append(out, api.Amount{Resource: s.m.Dims.Names[d.Dim], Value: d.Amount})
		}
	}
	return out.Sorted()
}

func (s *State) countSegments(key proofKey, cert *why.Certificate) {
	parts := s.parts(key.class, scope{}, key.level)
	for i := range cert.Domains {
		for _, p := range parts {
			if p.name == cert.Domains[i].Name {
				inner := s.parts(key.class, p.scope, key.segmentLevel)
				cert.Domains[i].Segments = int64(place.CountSegments(counts(inner), key.segment))
			}
		}
	}
}

// proofs is what certificates of a class share.
type proofs struct {
	byKind  []*kindProof // by node kind; nil: not met yet
	bySign  map[sign]*kindProof
	numbers []*kindProof // by number: sorted by key
	epoch   uint64       // goes up when numbers change
	body    body
}

// add gives the kind its number.
func (p *proofs) add(at int, k *kindProof) {
	p.numbers = slices.Insert(p.numbers, at, k)
	p.renumber()
}

// keep drops the kinds that are not present any more.
func (p *proofs) keep(present []bool) {
	kept := make([]*kindProof, 0, len(p.numbers))
	for i, k := range p.numbers {
		if present[i] {
			kept = append(kept, k)
		}
	}
	p.numbers, p.bySign = kept, nil
	for i, k := range p.byKind {
		if k != nil && !slices.Contains(kept, k) {
			p.byKind[i] = nil
		}
	}
	p.renumber()
}

func (p *proofs) renumber() {
	p.epoch++
	for i, k := range p.numbers {
		k.number = i
	}
}

// body is a certificate that can be used again while nothing changes.
type body struct {
	made  bool
	level int
	at    uint64 // touchLog.moment
	shape uint64 // of the topology
	cert  why.Certificate
	table *table
}

// kindProof is how node kinds that the class cannot tell apart look to it.
type kindProof struct {
	number  int
	key     string
	class   why.Class
	clauses []why.Clause // clauses that depend on a node's name aside
}

// kindProof returns how the node's kind looks to the class.
func (s *State) kindProof(c *class, n *cluster.Node) *kindProof {
	p := &c.proofs
	id := s.kind(n).id
	if id >= len(p.byKind) {
		p.byKind = append(p.byKind, make([]*kindProof, len(s.kinds)-len(p.byKind))...)
	}
	if p.byKind[id] == nil {
		p.byKind[id] = s.findKindProof(c, n)
	}
	return p.byKind[id]
}

// sign is what kinds look like to a class that asks about so many labels that these are not told: kinds of one sign look
// the same. It is made without any text, for there may be as many kinds as nodes.
type sign struct {
	profile  int32
	hasModel bool
	mask     maskState
	failing  uint64 // labels of the selector
	affinity bool
}

func (s *State) findKindProof(c *class, n *cluster.Node) *kindProof {
	if len(c.shape.Keys) <= mostTold {
		return s.newKindProof(c, n)
	}
	match := s.matcherOf(c.look)
	s.maskOf(c, n)
	kind := s.kind(n)
	g := sign{profile: kind.profile.id, hasModel: slices.Contains(kind.models, c.model), mask: c.look.masks[kind.id].state}
	if g.mask == removed {
		g.failing, g.affinity = match.failing(&s.kindsOf[n.Index]), match.likes(&s.kindsOf[n.Index])
	}
	p := &c.proofs
	k := p.bySign[g]
	if k == nil {
		k = s.newKindProof(c, n)
		if p.bySign == nil {
			p.bySign = make(map[sign]*kindProof)
		}
		p.bySign[g] = k
	}
	return k
}

func (s *State) newKindProof(c *class, n *cluster.Node) *kindProof {
	p := &c.proofs
	k := &kindProof{}
	is := s.maskOf(c, n)
	personalKind := is == (mask{}) || c.look.masks[s.kind(n).id].state == personal
	if !personalKind {
		k.clauses = s.clauses(c, n, is.state)
	}
	told := s.tellsOf(c, s.kind(n))
	k.key = fmt.Sprintf("%q", told) + " " + s.kind(n).profile.told + " " + strconv.FormatBool(personalKind)
	if told == nil {
		for _, clause := range k.clauses {
			k.key += " " + string(clause.Kind) + " " + clause.Detail
		}
	}
	at, found := slices.BinarySearchFunc(p.numbers, k, func(a, b *kindProof) int { return strings.Compare(a.key, b.key) })
	if found {
		return p.numbers[at]
	}
	k.class = s.describeKind(c, n, told)
	p.add(at, k)
	return k
}

// tellsOf lists the labels of the kind that the class asks about, unless these are so many that nobody would read them.
// Then kinds differ by what excludes them.
func (s *State) tellsOf(c *class, k *nodeKind) []string {
	if len(c.shape.Keys) > mostTold {
		return nil
	}
	var out []string
	for _, key := range c.shape.Keys {
		if v, ok := k.labels[key]; ok && v != ownName {
			out = append(out, key+"="+v)
		}
	}
	return out
}

func (s *State) describeKind(c *class, n *cluster.Node, told []string) why.Class {
	k := s.kind(n)
	out := why.Class{Labels: told, Cordoned: k.cordoned, Allocatable: k.alloc, Models: k.models, PerEmpty: s.perEmpty(c, n)}
	for _, t := range k.taints {
		out.Taints = append(out.Taints, t.String())
	}
	return out
}

// perEmpty is how many pods of the class an empty node like this one holds.
func (s *State) perEmpty(c *class, n *cluster.Node) int64 {
	empty := &cluster.Node{Name: n.Name, Spec: n.Spec, Models: n.Models, Uniform: n.Uniform, Free: s.kind(n).size, Devices: slices.Clone(n.Devices), FreeDevices: int64(len(n.Devices))}
	for i := range empty.Devices {
		empty.Devices[i].Free = true
	}
	k := quotient(empty.Free, c.demands)
	if c.shape.GPUs > 0 {
		k = min(k, deviceRoom(c, empty))
	}
	if len(c.shape.Spec.Ports) > 0 {
		k = min(k, 1)
	}
	return k
}

// mostTold is how many labels a certificate names: of those that a node selector asks for and a node has not, the first
// by name; of those that node classes are told apart by, none where a pod asks about more.
const mostTold = 8

// clauses lists what about the class excludes the node whatever is free on it. is is what the node means to the class.
func (s *State) clauses(c *class, n *cluster.Node, is maskState) []why.Clause {
	var out []why.Clause
	add := func(kind why.ClauseKind, detail string) { out = append(out, why.Clause{Kind: kind, Detail: detail}) }
	if is != welcome {
		s.excluding(c, n, add)
	}
	if c.model != "" && !slices.Contains(n.Models, c.model) {
		add(why.ByModel, c.model)
	}
	return out
}

// excluding adds what of the node's labels, taints and cordon excludes it.
func (s *State) excluding(c *class, n *cluster.Node, add func(why.ClauseKind, string)) {
	spec, node, match, told := c.shape.Spec, n.Spec, s.matcherOf(c.look), 0
	for i := range match.selector {
		if l := &match.selector[i]; told < mostTold && !l.matches(&s.kindsOf[n.Index]) {
			add(why.BySelector, l.detail)
			told++
		}
	}
	if spec.Affinity != nil && !match.likes(&s.kindsOf[n.Index]) {
		add(why.ByAffinity, "")
	}
	for _, t := range fit.Untolerated(node.Taints, spec.Tolerations, nil) {
		add(why.ByTaint, t.String())
	}
	if node.Cordoned && !toleratesCordon(spec) {
		add(why.ByCordon, "")
	}
}

// localClauses lists what excludes this very node: its name, and what is on it.
func (s *State) localClauses(c *class, n *cluster.Node) []why.Clause {
	var out []why.Clause
	add := func(kind why.ClauseKind, detail string) { out = append(out, why.Clause{Kind: kind, Detail: detail}) }
	spec := c.shape.Spec
	if spec.NodeName != "" && spec.NodeName != n.Name {
		add(why.ByNodeName, spec.NodeName)
	}
	if c.allowed != nil && !c.allowed[n.Name] {
		add(why.ByNodeSet, "")
	}
	if i, ok := c.barred[n.Name]; ok {
		add(why.ByRefusal, c.refusals[i].Reason)
	}
	if len(spec.Ports) > 0 {
		if port := n.PortTaken(c.shape.Spec.Ports, c.priority); port != "" {
			add(why.ByPort, port)
		}
	}
	if len(n.Nominated) > 0 && quotient(n.Free, c.demands) > 0 && quotient(n.LessNominated(c.priority), c.demands) == 0 {
		add(why.ByNominated, "")
	}
	return append(out, s.gpuClauses(c, n)...)
}

// gpuClauses lists what excludes the node although the count of its free GPUs would do.
func (s *State) gpuClauses(c *class, n *cluster.Node) []why.Clause {
	if c.shape.GPUs == 0 {
		return nil
	}
	var out []why.Clause
	if s.m.WholeNodeGangs > 0 || c.whole != "" {
		if by := s.spoiled(c, n); by != "" {
			out = append(out, why.Clause{Kind: why.ByWholeNode, Detail: by})
		}
	}
	if n.Free.At(quantity.DimGPU) < c.shape.GPUs || deviceRoom(c, n) > 0 || c.model != "" && !slices.Contains(n.Models, c.model) {
		return out
	}
	kind, detail := why.ByIsland, ""
	if loose := (&class{classKey: c.classKey, want: device.Want{Count: c.want.Count, Model: c.want.Model}}); deviceRoom(loose, n) == 0 {
		kind, detail = why.ByModel, c.model
	}
	return append(out, why.Clause{Kind: kind, Detail: detail})
}
