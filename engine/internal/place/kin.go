package place

import (
	"strings"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/index"
)

// Kin makes classes of a gang's members for one GPU model and one choice of flavors.
type Kin struct {
	s        *Placer
	base     index.ClassKey
	model    string
	all      bool // the model is meant for members that do not name one, too
	flavors  *cluster.Choice
	Refusals []*api.Refusal
}

// NewKin makes the kin of the gang's members with the GPU model and the flavors; all: also of those that name no model.
func (p *Placer) NewKin(g *cluster.Gang, t cluster.Turn, model string, all bool, flavors *cluster.Choice, refusals []*api.Refusal) Kin {
	k := Kin{s: p, model: model, all: all, flavors: flavors, Refusals: refusals}
	k.base.Priority, k.base.Packing, k.base.Images = t.Priority, p.m.PackingOf(g), p.m.ImagesOf(g)
	if g.Whole {
		k.base.Whole = g.Key
	}
	var names []string
	for _, r := range k.Refusals {
		names = append(names, r.Node)
	}
	k.base.Refused = strings.Join(names, "\x00")
	return k
}
