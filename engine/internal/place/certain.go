package place

import (
	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/index"
)

// Certain lists, per leaf and class, members that must start for the minimum, once for each level that they
// must share: of a leaf that must start, all but as many as the minimum can do without.
func Certain(g *cluster.Gang, k Kin) []Order {
	var out []Order
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
			if c.Opens() { // others of the gang may open nodes to it
				continue
			}
			n := len(pods[c]) - spare
			for _, up := range g.Tree.Path(leaf) {
				if l := up.Group.Layout; n > 0 && (l.Required != "" || up == g.Tree) {
					out = append(out, Order{Class: c, Layout: api.Layout{Required: l.Required}, Pods: pods[c][:n], Want: n, Running: up.RunningPods()})
				}
			}
		}
	}
	return out
}
