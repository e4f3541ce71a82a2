package place

import (
	"strings"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/index"
)

// Kin makes classes of a gang's members for one GPU model and one choice of flavors. All members
// are placed with the same model and the same flavors, so these are of the gang's attempt and not
// of a pod. A Kin is good for one attempt: it does not see refusals that come later.
type Kin struct {
	s *Placer
	// base is what all members have in common: priority, packing, images, refusals, and whether
	// nodes are theirs alone.
	base  index.ClassKey
	model string
	// all says that the model is meant for members that name none, too.
	all bool
	// flavors is the choice of flavors that members are narrowed to; nil where the queues have
	// none.
	flavors *cluster.Choice
	// Refusals keep the gang from nodes: one for each node, by node. Nothing here changes them.
	Refusals []*api.Refusal
}

// NewKin makes the kin of the gang's members with the GPU model and the flavors; "" and nil where
// it has no choice of these. With all the model is also that of members that name no model.
func (p *Placer) NewKin(g *cluster.Gang, t cluster.Turn, model string, all bool, flavors *cluster.Choice, refusals []*api.Refusal) Kin {
	k := Kin{s: p, model: model, all: all, flavors: flavors, Refusals: refusals}
	k.base.Priority, k.base.Packing, k.base.Images = t.Priority, p.m.PackingOf(g), p.m.ImagesOf(g)
	if g.Whole {
		k.base.Whole = g.Key
	}
	// A refusal keeps the whole gang from the node, so its members are of a class of their own.
	// Node names cannot contain the separator.
	var names []string
	for _, r := range k.Refusals {
		names = append(names, r.Node)
	}
	k.base.Refused = strings.Join(names, "\x00")
	return k
}
