package attempt

import (
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/index"
	"github.com/berth-dev/berth/engine/internal/place"
	"github.com/berth-dev/berth/engine/why"
)

// Stuck is a plain question to which the counts have no answer: no domain has room for it. It says nothing yet about
// why.
type Stuck struct {
	// Proved says that another gang asked the same, so that the proof is there.
	Proved bool
	// Standing is that of the model when it was asked.
	Standing uint64

	key   index.Question
	order place.Order
}

// Stuck says whether a look at the counts shows that the gang, whose question is a plain one, has no place. It is
// what most pending gangs cost in a cycle: thousands of them ask the same few questions, and each is a lookup.
func (a *Attempts) Stuck(g *cluster.Gang, t cluster.Turn) (Stuck, bool) {
	p := a.Plain(g, t)
	if !p.OK || a.m.HasHeld(g) {
		return Stuck{}, false
	}
	a.ix.Use(p.Class)
	s := Stuck{Standing: a.m.Standing(), order: place.Order{Class: p.Class, Layout: g.Layout(), Pods: g.Tree.Pods[:p.Need], Want: len(g.Tree.Pods)}}
	s.key = index.Question{Class: p.Class.ClassKey, Need: p.Need, Level: p.Level, At: s.Standing, Unmet: a.m.Unmet(g.Layout().Required)}
	if _, s.Proved = a.proofs[s.key]; s.Proved {
		return s, true
	}
	_, fits := a.placer.ChooseScope(s.order)
	return s, !fits
}

// Show proves it, unless it is proved, and returns the gates. All that ask the same are given the same slice, so
// it must not be changed.
func (a *Attempts) Show(s Stuck) []why.Gate {
	switch {
	case s.Proved:
	case a.blind():
		a.proofs[s.key] = []why.Gate{place.NoRoom}
	default:
		a.ix.Use(s.order.Class)
		a.prove(s.order)
	}
	return a.proofs[s.key]
}

// prove makes, or finds, the certificate that the order has no place, and the gate that it proves.
func (a *Attempts) prove(o place.Order) why.Gate {
	if a.Quiet || a.blind() {
		return place.NoRoom
	}
	level := a.m.Level(o.Layout.Required)
	key := index.Question{Class: o.Class.ClassKey, Need: len(o.Pods), Level: level, At: a.m.Standing(), Unmet: a.m.Unmet(o.Layout.Required)}
	if o.Layout.Segment > 0 {
		key.Segment, key.SegmentLevel, key.UnmetSegment = o.Layout.Segment, a.m.Level(o.Layout.SegmentLevel), a.m.Unmet(o.Layout.SegmentLevel)
	}
	if home := a.placer.Home(level, o.Running); home != nil {
		key.Pinned = home.Name()
	}
	gates, ok := a.proofs[key]
	if !ok {
		a.ix.Sync(o.Class)
		if a.proofs == nil {
			a.proofs = make(map[index.Question][]why.Gate)
		}
		gates = []why.Gate{a.newProof(o, key)}
		a.proofs[key] = gates
	}
	return gates[0]
}

// mostSketched is how many questions a sketch answers with a proof: those of the first in line.
const mostSketched = 16

// blind says whether the cycle proves nothing any more.
func (a *Attempts) blind() bool { return a.Sketch && len(a.proofs) >= mostSketched }

// newProof makes the certificate. Where pods of the order concern each other there may be none: that they were placed
// one after the other, as many as go, is the proof. Have is the most that fits in any domain that the gang may be in.
func (a *Attempts) newProof(o place.Order, key index.Question) why.Gate {
	if have, short := a.placer.TooFew(o); short {
		cause := why.PodRules
		if o.Class.Far() {
			cause = why.ClusterFull
		}
		return why.Gate{Cause: cause, Need: int64(len(o.Pods)), Have: int64(have), Certificate: -1}
	}
	cert, cause := a.ix.Certify(o.Class, key)
	gate := why.Gate{Cause: cause, Object: cert.Level, Need: int64(cert.Need), Certificate: len(a.draft.Plan.Certificates)}
	a.draft.Plan.Certificates = append(a.draft.Plan.Certificates, cert)
	for _, d := range cert.Domains {
		if cert.Pinned == "" || cert.Pinned == d.Name {
			gate.Have = max(gate.Have, d.Fits)
		}
	}
	return gate
}

// proveShort looks for a class of the gang of which too few fit, whatever the others do. For each class it compares
// what must start (place.Certain) with what fits if the class had all nodes to itself.
func (a *Attempts) proveShort(g *cluster.Gang, k place.Kin) (why.Gate, bool) {
	for _, o := range place.Certain(g, k) {
		if _, ok := a.placer.ChooseScope(o); !ok {
			return a.prove(o), true
		}
	}
	return why.Gate{}, false
}
