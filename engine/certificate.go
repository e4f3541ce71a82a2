package engine

import (
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/index"
	"github.com/berth-dev/berth/engine/internal/place"
	"github.com/berth-dev/berth/engine/why"
)

// proof is where in the plan a certificate is, and what it amounts to.
type proof struct {
	certificate int
	cause       why.Cause
	gates       []why.Gate // the one that it proves
}

// prove makes, or finds, the certificate that the order has no place, and the gate that it proves.
func (y *cycle) prove(o place.Order) why.Gate {
	if y.quiet || y.blind() {
		return why.Gate{Cause: why.ClusterFull, Certificate: -1}
	}
	s := y.s
	level := s.m.Level(o.Layout.Required)
	key := index.Question{Class: o.Class, Need: len(o.Pods), Level: level, At: s.m.Standing(), Unmet: s.m.Unmet(o.Layout.Required)}
	if o.Layout.Segment > 0 {
		key.Segment, key.SegmentLevel, key.UnmetSegment = o.Layout.Segment, s.m.Level(o.Layout.SegmentLevel), s.m.Unmet(o.Layout.SegmentLevel)
	}
	if home := s.placer.Home(level, o.Running); home != nil {
		key.Pinned = home.Name()
	}
	p, ok := y.proofs[key]
	if !ok {
		s.ix.Sync(o.Class)
		if y.proofs == nil {
			y.proofs = make(map[index.Question]proof)
		}
		p = y.newProof(o, key)
		y.proofs[key] = p
	}
	return p.gates[0]
}

// mostSketched is how many questions a sketch answers with a proof: those of the first in line.
const mostSketched = 16

// blind says whether the cycle proves nothing any more.
func (y *cycle) blind() bool { return y.sketch && len(y.proofs) >= mostSketched }

// newProof makes the certificate. Where pods of the order concern each other there may be none: that they were placed one after
// the other, as many as go, is the proof.
func (y *cycle) newProof(o place.Order, key index.Question) proof {
	if have, short := y.s.placer.TooFew(o); short {
		if o.Class.Far() {
			return proof{certificate: -1, cause: why.ClusterFull, gates: []why.Gate{{Cause: why.ClusterFull, Need: int64(len(o.Pods)), Have: int64(have), Certificate: -1}}}
		}
		return proof{certificate: -1, cause: why.PodRules, gates: []why.Gate{{Cause: why.PodRules, Need: int64(len(o.Pods)), Have: int64(have), Certificate: -1}}}
	}
	cert, cause := y.s.ix.Certify(key)
	p := proof{certificate: len(y.Plan.Certificates), cause: cause}
	y.Plan.Certificates = append(y.Plan.Certificates, cert)
	gate := why.Gate{Cause: cause, Object: cert.Level, Need: int64(cert.Need), Certificate: p.certificate}
	for _, d := range cert.Domains {
		if cert.Pinned == "" || cert.Pinned == d.Name {
			gate.Have = max(gate.Have, d.Fits)
		}
	}
	p.gates = []why.Gate{gate}
	return p
}

// proveShort looks for a class of the gang of which too few fit, whatever the others do.
func (y *cycle) proveShort(g *cluster.Gang, k place.Kin) (why.Gate, bool) {
	for _, o := range place.Certain(g, k) {
		if _, ok := y.s.placer.ChooseScope(o); !ok {
			return y.prove(o), true
		}
	}
	return why.Gate{}, false
}
