package index

import (
	"cmp"
	"slices"
	"strings"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/device"
	"github.com/berth-dev/berth/engine/internal/divide"
	"github.com/berth-dev/berth/engine/internal/fit"
	"github.com/berth-dev/berth/engine/internal/quantity"
	"github.com/berth-dev/berth/engine/why"
)

// Certificates: the proof that pods of a class have no place. A certificate divides all nodes into rows, by domain and by
// what they look like to the class, and says of each row how many nodes it has, how many pods fit there, and what keeps out
// the rest. It is complete and can be added up by hand: the rows are all nodes, the sums of the rows are the sums of the
// domains, and no domain reaches what is needed. internal/oracle does add it up.
//
// For example (scenario gang-must-share-a-rack), a gang of 16 pods of one GPU must share one of three racks of four nodes.
// Rack r1 has 8 GPUs free, two on each node; r2 has 8, all on one node; r3 has 10, on two nodes. All nodes look alike to the
// class, so that there is one class of nodes and one row for each rack:
//
//	26 fit in all                                                                          Total
//	  r1 fits 8                                                                            Domains
//	    4 nodes of class 0, such as n00: 8 fit                                             a row
//	  r2 fits 8
//	    4 nodes of class 0, such as n04: 8 fit; nvidia.com/gpu short by at least 1 on 3 nodes
//	  r3 fits 10
//	    4 nodes of class 0, such as n08: 10 fit; nvidia.com/gpu short by at least 1 on 2 nodes
//	  class 0: 128 cpu, 1Ti memory, 8 nvidia.com/gpu, 110 pods; 8 fit when empty           Classes
//
// 10 is the most that one rack holds, and 10 < 16; but 26 >= 16, and so the cause is that the room is not in one rack
// (why.TopologyFragmented).
//
// A plan may have to prove thousands of refusals on thousands of nodes. Two things make that cheap. Nodes of one kind look
// alike to a class, so that what excludes them is worked out once for each kind (kindProof). And the counts are kept by
// bucket and added up by domain, so that a change on one node costs one bucket (table.go). This file has the first, and what
// is said in words:
//
//	Certify        the certificate for one question: the shared body, what is needed, and the cause
//	kindProof      what certificates say of nodes of one kind; by group of kinds, or by sign
//	clauses        what excludes all nodes of a kind, whatever is free
//	localClauses   what excludes one node beside that: its name, or what is on it now
//
// What proofs are derived from, and what invalidates them: kinds (a node that gets another spec has another kind, and
// forgetMasks drops all proofs when kinds are made anew), refusals (Class.refuse), and the numbers of classes within a
// certificate, which change when a kind comes or goes (proofs.epoch).

// Question tells the certificates of a plan apart: the same question of the same state has one. It is comparable, and used as
// the key of a map.
type Question struct {
	// Class names the class by what it is and not by where it lies: one that was dropped and made again is the same.
	Class ClassKey
	// Need is how many pods are to be placed; Segment how many of them must share a domain of SegmentLevel, 0: the gang has
	// no segments.
	Need, Segment int
	// Level is the level of which one domain must hold all of them. Levels are by number, or cluster.AnyLevel or
	// cluster.NodeLevel.
	Level, SegmentLevel int
	// Pinned is the name of the one domain that counts, because members run there; "": all count.
	Pinned string
	// Unmet and UnmetSegment are the names of levels that were asked for and that no node is in.
	Unmet, UnmetSegment string
	// At is Model.Standing: the state of the model that is asked about.
	At uint64
}

// Certify makes the certificate that answers the question, and names the cause that its counts amount to. The class must be
// up to date, and there must be no place for what is needed: of a gang that fits it would prove nothing.
//
// For example, a gang of 4 pods with 8 GPUs each must share a rack. Rack r1 has 3 nodes of which
// each holds one, and rack r2 has 9 nodes with 4 GPUs free on each: its row says 0 fit, 9 nodes are
// short of GPUs, the best by 4. The largest sum is 3, and 3 is less than 4.
//
// Most of it (body) is shared by all questions about the class and level, whatever they need: its lists must not be written
// to. Where nothing has changed since the last one it costs a lookup; see table.go.
func (x *Index) Certify(c *Class, key Question) (why.Certificate, why.Cause) {
	cert := why.Certificate{
		Need: key.Need, Level: cmp.Or(key.Unmet, x.m.Topology.LevelName(key.Level)), Pinned: key.Pinned, Segment: key.Segment,
		Request: x.requestOf(c), Model: c.Model, Flavors: c.Shape.Flavors, Total: c.Total,
	}
	// The lists of the body are shared with other certificates.
	b := x.bodyOf(c, key.Level)
	cert.Classes, cert.Domains = b.classes, b.domains
	cert.IfEvicted = b.mostEvicted(key.Pinned)
	if key.Segment > 0 {
		cert.SegmentLevel = cmp.Or(key.UnmetSegment, x.m.Topology.LevelName(key.SegmentLevel))
		// The list is copied before segments are entered: the body keeps it for other questions.
		cert.Domains = slices.Clone(cert.Domains)
		x.countSegments(c, key, &cert)
	}
	// Rules between pods come before the causes that are counted: without them there would be room.
	//mutate: cause-pod-rules
	if b.matching > 0 && b.largest > 0 && x.keptByRules(c, key) {
		return cert, why.PodRules
	}
	return cert, b.cause(c, &cert)
}

// requestOf is what a pod of the class asks for of its node, in the units of nodes and by name of the resource, and after
// that what it asks for of cards. That each pod is one pod of the node's number is left out: every pod is.
func (x *Index) requestOf(c *Class) []api.Amount {
	out := make(api.Resources, 0, len(c.Demands))
	for _, d := range c.Demands {
		if d.Dim != quantity.DimPods {
			out = append(out, api.Amount{Resource: x.m.Dims.Names[d.Dim], Value: d.Amount})
		}
	}
	return append(out.Sorted(), partRequest(c.Shape.Spec.Part)...)
}

// partRequest is what a part takes of one card, and of how many cards, under names that no resource has (why.CardMemory and
// others); nil: there is no part. What is not asked for is left out.
func partRequest(p *api.Part) (out []api.Amount) {
	if p == nil {
		return nil
	}
	for _, a := range []api.Amount{{Resource: why.CardCompute, Value: p.Compute}, {Resource: why.CardMemory, Value: p.Memory}, {Resource: why.CardShare, Value: p.Share}} {
		if a.Value > 0 {
			out = append(out, a)
		}
	}
	if p.Cards > 1 {
		out = append(out, api.Amount{Resource: why.Cards, Value: int64(p.Cards)})
	}
	return out
}

// partSupply is what an empty node has of the same: the amounts of its largest card, and the number of cards that give parts.
// model "" is any. nil where no card will do.
func partSupply(p *api.Part, cards []device.Card, model string) (out []api.Amount) {
	var memory, count int64
	for i := range cards {
		if c := &cards[i]; c.MaxSharers > 0 && (model == "" || c.Model == model) {
			memory, count = max(memory, c.Memory), count+1
		}
	}
	if count == 0 {
		return nil
	}
	for _, a := range partRequest(p) {
		switch a.Resource {
		case why.CardMemory:
			a.Value = memory
		case why.Cards:
			a.Value = count
		default:
			a.Value = api.Whole
		}
		out = append(out, a)
	}
	return out
}

// countSegments enters in each domain of the certificate how many whole segments it holds, which is what a gang with
// segments is measured by. Nodes outside any domain of the level have none. It costs a look at the buckets of each domain.
func (x *Index) countSegments(c *Class, key Question, cert *why.Certificate) {
	parts := x.Parts(c, Scope{}, key.Level)
	for i := range cert.Domains {
		for _, p := range parts {
			if p.Name == cert.Domains[i].Name {
				inner := x.Parts(c, p.Scope, key.SegmentLevel)
				cert.Domains[i].Segments = int64(divide.CountSegments(Counts(inner), key.Segment))
			}
		}
	}
}

// proofs is what all certificates of a class share. Everything in it can be dropped and made anew
// (forgetProofs).
//
// Node kinds that the class cannot tell apart are one kindProof, and certificates call these
// classes by number: in the order of their keys, so that two certificates of one state agree word
// by word. When a kind comes or goes the numbers change, and with them every row that was made
// before.
//
// For example, a class meets kinds with the keys "pool=a" and "pool=c": they are numbers 0 and 1. A node of a pool b comes.
// Its kind is number 1 from then on, pool=c is 2, and all rows, which name classes by number, are void.
type proofs struct {
	byGroup []*kindProof // by group of node kinds; nil: not met yet
	bySign  map[sign]*kindProof
	numbers []*kindProof // by number: sorted by key
	epoch   uint64       // goes up when numbers change: rows and bodies of another epoch are void
	made    uint64       // goes up when a bucket is given rows that say something else
	counted position     // the state that the rows of all buckets are of
	ruled   uint64       // likewise, of a class under rules between pods (Class.ruled)
	bodies  []*body      // one for each level that was asked about
}

// position tells apart all states that nodes are ever in. Two equal positions are one state, also
// after a trial that was rolled back.
type position struct {
	room  uint64 // Room.Now
	shape uint64 // Topology.Shape: a level may come without a change of any node's room
}

// add gives the kind the number at, which is the place where its key belongs among the others. Those after it get the next.
func (p *proofs) add(at int, k *kindProof) {
	p.numbers = slices.Insert(p.numbers, at, k)
	p.renumber()
}

// keep drops the kinds that are not present any more; present is by number. What groups say of kinds that stay is still
// true. The index by sign is made anew as kinds are met.
func (p *proofs) keep(present []bool) {
	kept := make([]*kindProof, 0, len(p.numbers))
	for i, k := range p.numbers {
		if present[i] {
			kept = append(kept, k)
		}
	}
	p.numbers, p.bySign = kept, nil
	for i, k := range p.byGroup {
		if k != nil && !slices.Contains(kept, k) {
			p.byGroup[i] = nil
		}
	}
	p.renumber()
}

// renumber gives the kinds their numbers by their places in the list. All rows are void by that, since they name classes by
// number.
func (p *proofs) renumber() {
	p.epoch++
	for i, k := range p.numbers {
		k.number = i
	}
}

// kindProof is how node kinds that the class cannot tell apart look to it: what certificates say of
// them, and which clauses exclude them, whatever is free.
type kindProof struct {
	number   int            // in certificates of this epoch
	key      string         // all that is said of the kind in words, by which kinds are sorted
	class    why.Class      // how certificates describe the nodes
	personal bool           // what excludes a node depends on its name, and is asked of each node
	clauses  []why.Clause   // what excludes all of its nodes, once each; empty: nothing does, or personal
	removes1 []why.Clause   // the clauses of one node, counted and sorted; nil: not made yet
	removed  [][]why.Clause // by number of nodes: the same of so many; nil: not made yet
}

// removes returns the clauses as counted for so many nodes of the kind, sorted; nil: nothing excludes them. Each list is made
// once for each number of nodes, and never written to: thousands of rows of a large cluster share a few lists.
func (k *kindProof) removes(nodes int) []why.Clause {
	if len(k.clauses) == 0 {
		return nil
	}
	if nodes >= len(k.removed) {
		k.removed = append(k.removed, make([][]why.Clause, nodes+1-len(k.removed))...)
	}
	if k.removed[nodes] == nil {
		if k.removes1 == nil {
			var row why.Row
			note(&row, k.clauses, 1)
			sortClauses(row.Removed)
			k.removes1 = row.Removed
		}
		k.removed[nodes] = slices.Clone(k.removes1)
		for i := range k.removed[nodes] {
			k.removed[nodes][i].Nodes *= nodes
		}
	}
	return k.removed[nodes]
}

// kindProof returns how the node's kind looks to the class. A kind that was not met before may get a number, which raises
// the epoch. Otherwise it costs a lookup by the group of the kind.
func (x *Index) kindProof(c *Class, n *cluster.Node) *kindProof {
	p := &c.proofs
	id := x.group(c.look.groups, x.Kind(n)).id
	if id >= len(p.byGroup) {
		p.byGroup = append(p.byGroup, make([]*kindProof, id+1-len(p.byGroup))...)
	}
	if p.byGroup[id] == nil {
		p.byGroup[id] = x.findKindProof(c, n)
	}
	return p.byGroup[id]
}

// sign is what a kind looks like to a class that asks about more labels than certificates tell (mostTold): kinds of one sign
// read the same in a certificate. Such kinds are not grouped by labels (group.go), and there may be as many as nodes, so the
// sign is made of numbers and not of text.
type sign struct {
	profile  int32     // everything but labels: taints, cordon, resources, devices
	hasModel bool      // the node has GPUs of the model that the class asks for
	mask     maskState // what the kind means to the class
	failing  uint64    // the labels of the selector that the kind does not have, by bit; of an excluded kind alone
	affinity bool      // the kind meets the node affinity; of an excluded kind alone
}

// findKindProof finds the proof of a kind that was not met before: one of the same sign or the same key, or a new one. It
// costs the text of a description, and for classes with signs that of the first of each sign alone.
func (x *Index) findKindProof(c *Class, n *cluster.Node) *kindProof {
	if len(c.Shape.Keys) <= mostTold {
		return x.newKindProof(c, n)
	}
	match := x.matcherOf(c.look)
	kind := x.Kind(n)
	g := sign{profile: kind.profile.id, hasModel: slices.Contains(kind.Models, c.Model), mask: x.maskOfKind(c, &x.kindsOf[n.Index]).State}
	if g.mask == Excluded {
		g.failing, g.affinity = match.failing(&x.kindsOf[n.Index]), match.likes(&x.kindsOf[n.Index])
	}
	p := &c.proofs
	k := p.bySign[g]
	if k == nil {
		k = x.newKindProof(c, n)
		if p.bySign == nil {
			p.bySign = make(map[sign]*kindProof)
		}
		p.bySign[g] = k
	}
	return k
}

// newKindProof makes the proof of the node's kind and gives it a number, or finds one with the same key. The key is all that
// a certificate says of the kind in text, so that two proofs with one key would be two rows that read alike. The node is any
// of the kind.
func (x *Index) newKindProof(c *Class, n *cluster.Node) *kindProof {
	p := &c.proofs
	// Where what excludes a node depends on its name, n says nothing of the others of its kind: its clauses are left out, and
	// each node is asked when rows are counted (countNode).
	k := &kindProof{}
	is := x.MaskOf(c, n)
	k.personal = x.maskOfKind(c, &x.kindsOf[n.Index]).State == personal
	if !k.personal {
		k.clauses = x.clauses(c, n, is.State)
	}
	g := x.group(c.look.groups, x.Kind(n))
	k.key = g.plain
	if k.personal {
		k.key = g.personal
	}
	// Without labels the key of two kinds may be the same although different clauses exclude them: these go into the key.
	if g.told == nil {
		for _, clause := range k.clauses {
			k.key += " " + string(clause.Kind) + " " + clause.Detail
		}
	}
	// Numbers follow from the keys alone, and not from the order in which kinds were met: equal states give equal certificates.
	at, found := slices.BinarySearchFunc(p.numbers, k, func(a, b *kindProof) int { return strings.Compare(a.key, b.key) })
	if found {
		return p.numbers[at]
	}
	k.class = x.describeKind(c, n, g.told)
	p.add(at, k)
	return k
}

// describeKind is what a certificate says of nodes of the kind, of which n is one: told are the labels to name. It must be
// the same for each node of the kind, so that nothing of what is free on n enters into it.
func (x *Index) describeKind(c *Class, n *cluster.Node, told []string) why.Class {
	k := x.Kind(n)
	alloc := k.alloc
	if part := c.Shape.Spec.Part; part != nil {
		alloc = slices.Concat(alloc, partSupply(part, n.Cards, c.Wants.Model))
	}
	return why.Class{Labels: told, Taints: k.taintTexts, Cordoned: k.cordoned, Allocatable: alloc, Models: k.Models, PerEmpty: x.perEmpty(c, n)}
}

// perEmpty is how many pods of the class an empty node like this one holds: the least of what its
// resources, its devices, its claims and its ports allow. Rules between pods do not count. 0 on all nodes means that no end
// of work ever helps (why.LargerThanAnyNode).
func (x *Index) perEmpty(c *Class, n *cluster.Node) int64 {
	k := Quotient(x.Kind(n).size, c.Demands)
	// The devices are asked on a copy of the node on which all of them are free and healthy. Of what the copy leaves out, such
	// as pods and holds, deviceRoom reads nothing.
	if c.Shape.HasGPU && k > 0 {
		empty := cluster.Node{Spec: n.Spec, GPUsByClaims: n.GPUsByClaims, Models: n.Models, Uniform: n.Uniform, Devices: slices.Clone(n.Devices), FreeDevices: int64(len(n.Devices))}
		for i := range empty.Devices {
			empty.Devices[i].Free = true
		}
		for i := range n.Cards {
			empty.Cards = append(empty.Cards, n.Cards[i].Empty())
		}
		// Nodes that look alike have devices of other names: those count for each node alone.
		any := *c
		any.named = false
		k = min(k, deviceRoom(&any, &empty))
	}
	if claims := c.ClaimsOn(n); claims != nil && k > 0 {
		if n.Offers == nil {
			return 0
		}
		k = min(k, n.Offers.Empty().Pods(claims, min(k, mostPods)))
	}
	if len(c.Shape.Spec.Ports) > 0 {
		k = min(k, 1)
	}
	return k
}

// mostTold is how many labels a certificate names. Of those that a node selector asks for and a node does not have, it names
// the first by name. Of those by which nodes are told apart it names all, or none where the pod asks about more than so many.
const mostTold = 8

// clauses lists what about the class excludes the node whatever is free on it; empty: nothing does. is is what the node
// means to the class (MaskOf). The list is the same for all nodes of a kind, unless what the kind means is personal. Nodes'
// names, refusals and what is on the node are left to localClauses.
func (x *Index) clauses(c *Class, n *cluster.Node, is maskState) []why.Clause {
	var out []why.Clause
	add := func(kind why.ClauseKind, detail string) { out = append(out, why.Clause{Kind: kind, Detail: detail}) }
	if is != allowed {
		x.excluding(c, n, add)
	}
	if c.Model != "" && !slices.Contains(n.Models, c.Model) {
		add(why.ByModel, c.Model)
	}
	// The node gives its GPUs whole, or through claims alone, or has no devices that would meet the claims even when empty.
	if c.Shape.Spec.Part != nil && !n.GPUsByClaims && n.Cards == nil {
		add(why.ByWholeOnly, "")
	}
	if c.Shut(n) {
		add(why.ByClaimsOnly, "")
	}
	if claims := c.ClaimsOn(n); claims != nil && (n.Offers == nil || n.Offers.Empty().Pods(claims, 1) == 0) {
		add(why.ByDevices, claims.String())
	}
	return out
}

// excluding adds what of the node's labels, taints and cordon excludes it: the rules of Class.judge, with names. All reasons
// are listed and not the first, because removing one alone would not help.
func (x *Index) excluding(c *Class, n *cluster.Node, add func(why.ClauseKind, string)) {
	spec, node, match, told := c.Shape.Spec, n.Spec, x.matcherOf(c.look), 0
	// match.selector is sorted by label, so that of many labels the same ones are told each time.
	for i := range match.selector {
		if l := &match.selector[i]; told < mostTold && !l.matches(&x.kindsOf[n.Index]) {
			add(why.BySelector, l.detail)
			told++
		}
	}
	if spec.Affinity != nil && !match.likes(&x.kindsOf[n.Index]) {
		add(why.ByAffinity, "")
	}
	for _, t := range fit.Untolerated(node.Taints, spec.Tolerations, nil) {
		add(why.ByTaint, t.String())
	}
	if node.Cordoned && !toleratesCordon(spec) {
		add(why.ByCordon, "")
	}
}

// localClauses lists what excludes this one node beside its kind: its name, a refusal, and what is on it now, as far as the
// shortage of a resource does not say so already. It may look at devices one by one, and is asked only where it may add
// something (special).
func (x *Index) localClauses(c *Class, n *cluster.Node) []why.Clause {
	var out []why.Clause
	add := func(kind why.ClauseKind, detail string) { out = append(out, why.Clause{Kind: kind, Detail: detail}) }
	spec := c.Shape.Spec
	if spec.NodeName != "" && spec.NodeName != n.Name {
		add(why.ByNodeName, spec.NodeName)
	}
	if c.allowed != nil && !c.allowed[n.Name] {
		add(why.ByNodeSet, "")
	}
	if i, ok := c.refusedBy[n.Name]; ok {
		add(why.ByRefusal, c.refusals[i].Reason)
	}
	if len(spec.Ports) > 0 {
		if port := n.PortTaken(c.Shape.Spec.Ports, c.Priority); port != "" {
			add(why.ByPort, port)
		}
	}
	// There is room, but for the pods that are nominated to the node.
	if len(n.Nominated) > 0 && Quotient(n.Free, c.Demands) > 0 && Quotient(n.LessNominated(c.Priority), c.Demands) == 0 {
		add(why.ByNominated, "")
	}
	// The node's devices would do if none of them were held.
	if claims := c.ClaimsOn(n); claims != nil && n.Offers != nil && n.Offers.Pods(claims, 1) == 0 && n.Offers.Empty().Pods(claims, 1) > 0 {
		add(why.ByHeld, claims.String())
	}
	return append(out, x.gpuClauses(c, n)...)
}

// gpuClauses lists what excludes the node although the count of its free GPUs would do. It asks the
// same question again with one condition less, and names the condition without which there is room:
// names of devices, parts that are given away, the model, and at last how the devices are
// connected. It names one of these at most, and beside it a gang that has the node to itself.
func (x *Index) gpuClauses(c *Class, n *cluster.Node) []why.Clause {
	if !c.Shape.HasGPU {
		return nil
	}
	var out []why.Clause
	if x.m.WholeNodeGangs > 0 || c.Whole != "" {
		if by := x.sharesWith(c, n); by != "" {
			out = append(out, why.Clause{Kind: why.ByWholeNode, Detail: by})
		}
	}
	if n.GPUsByClaims || !c.Shape.Spec.CountsGPUs(n.Spec) {
		return out // claims say which devices, and have clauses of their own
	}
	if c.named && c.lacksNamed(n) {
		return append(out, why.Clause{Kind: why.ByNamed, Detail: c.Shape.Spec.GPU.Which()})
	}
	// Parts are not whole GPUs: what the cards lack is all there is to say.
	if part := c.Shape.Spec.Part; part != nil {
		if short := partShort(c, n); short != "" {
			out = append(out, why.Clause{Kind: why.ByParts, Detail: short})
		}
		return out
	}
	// Too few are free by count, which is told as a shortage; or they will do; or the model is told by the kind's clauses.
	if n.Free.At(quantity.DimGPU) < c.Shape.GPUs || deviceRoom(c, n) > 0 || c.Model != "" && !slices.Contains(n.Models, c.Model) {
		return out
	}
	// From here on enough GPUs are free by count, of the right model by what the node says, and yet there is no room.
	if c.named {
		if any := (&Class{ClassKey: c.ClassKey, Wants: c.Wants}); deviceRoom(any, n) > 0 {
			return append(out, why.Clause{Kind: why.ByNamed, Detail: c.Shape.Spec.GPU.Which()})
		}
	}
	if n.Cards != nil && deviceRoom(c, withoutParts(n)) > 0 {
		return append(out, why.Clause{Kind: why.ByShared})
	}
	// What is left is how the free devices are connected. If they would not do connected in any way, it is their model.
	kind, detail := why.ByIsland, ""
	if loose := (&Class{ClassKey: c.ClassKey, named: c.named, Wants: device.Want{Count: c.Wants.Count, Model: c.Wants.Model}}); deviceRoom(loose, n) == 0 {
		kind, detail = why.ByModel, c.Model
	}
	return append(out, why.Clause{Kind: kind, Detail: detail})
}

// withoutParts is a copy of the node as its devices would be if no parts of them were given away. Cards that are held whole
// stay taken.
func withoutParts(n *cluster.Node) *cluster.Node {
	out := &cluster.Node{Spec: n.Spec, Models: n.Models, Uniform: n.Uniform, Devices: slices.Clone(n.Devices), FreeDevices: n.FreeDevices, UnknownDevices: n.UnknownDevices}
	for i := range n.Cards {
		if c := &n.Cards[i]; c.Sharers > 0 && !c.Closed {
			out.Devices[i].Free = true
			out.FreeDevices++
		}
	}
	return out
}

// partShort is what the node's cards lack at the moment for a part that the class asks for; "": nothing, or the node gives no
// parts. Only cards count that would hold the part when empty; why.SmallCards where none would. Where cards lack different
// things it is what the best of them lacks: in the order of closed, memory, compute and the number of pods, the last.
func partShort(c *Class, n *cluster.Node) string {
	part, best := c.Shape.Spec.Part, -1
	if n.Cards == nil || deviceRoom(c, n) > 0 {
		return ""
	}
	if n.UnknownDevices > 0 {
		return why.UnknownCards
	}
	// The nearest to enough comes last.
	order := []device.Short{device.Closed, device.Memory, device.Compute, device.Sharers}
	for i := range n.Cards {
		empty := n.Cards[i].Empty()
		if !c.Takes(n, i) || empty.Lacks(part, c.Wants.Model) != device.Enough {
			continue
		}
		if lacks := n.Cards[i].Lacks(part, c.Wants.Model); lacks != device.Enough {
			best = max(best, slices.Index(order, lacks))
		}
	}
	if best < 0 {
		return why.SmallCards
	}
	return string(order[best])
}
