package engine

import (
	"github.com/berth-dev/berth/engine/internal/api"
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
	if y.quiet {
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
		cert, cause := s.ix.Certify(key)
		p = proof{certificate: len(y.Plan.Certificates), cause: cause}
		y.Plan.Certificates = append(y.Plan.Certificates, cert)
		if y.proofs == nil {
			y.proofs = make(map[index.Question]proof)
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

// proveShort looks for a class of the gang of which too few fit, whatever the others do.
func (y *cycle) proveShort(g *cluster.Gang, k place.Kin) (why.Gate, bool) {
	for _, o := range y.certain(g, k) {
		if _, ok := y.s.placer.ChooseScope(o); !ok {
			return y.prove(o), true
		}
	}
	return why.Gate{}, false
}

// certain lists, per leaf and class, members that must start for the minimum, once for each level that they
// must share: of a leaf that must start, all but as many as the minimum can do without.
func (y *cycle) certain(g *cluster.Gang, k place.Kin) []place.Order {
	var out []place.Order
	for _, leaf := range g.Tree.Must() {
		spare, first := len(leaf.Pods)-leaf.Min(), len(leaf.Pods)
		if leaf.Group.Layout.Segment > 0 {
			spare, first = 0, max(0, leaf.Min()-leaf.Allocated)
		}
		var classes []*index.Class
		pods := make(map[*index.Class][]*cluster.Pod)
		for _, p := range leaf.Pods {
			if p.Host != nil || first == 0 {
				continue
			}
			first--
			c := k.Class(p)
			if pods[c] == nil {
				classes = append(classes, c)
			}
			pods[c] = append(pods[c], p)
		}
		for _, c := range classes {
			n := len(pods[c]) - spare
			for _, up := range g.Tree.Path(leaf) {
				if l := up.Group.Layout; n > 0 && (l.Required != "" || up == g.Tree) {
					out = append(out, place.Order{Class: c, Layout: api.Layout{Required: l.Required}, Pods: pods[c][:n], Want: n, Running: up.RunningPods()})
				}
			}
		}
	}
	return out
}
