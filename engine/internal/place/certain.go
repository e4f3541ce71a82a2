package place

import (
	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/index"
)

// Certain lists, per leaf and class, members that must start for the minimum, once for each level
// that they must share. Each order is a necessary condition: if it has no place even with all other
// members left out, the gang has none, and counts prove it where a search would have to be
// exhausted. They are not sufficient together, because each is looked at as if it were alone.
//
// Of a leaf that must start, all but as many as the minimum can do without are certain, of
// whichever class. For example, of a leaf with 6 pods of class a and 4 of class b, of which 8 must
// start, 2 can be left out: at least 4 of class a start, and at least 2 of class b.
//
// It costs one pass over the members. Orders are by leaf, then by the rank of the first of a class,
// then from the root of the tree down.
func Certain(g *cluster.Gang, k Kin) []Order {
	var out []Order
	// A group that others could start instead of is in no list: none of its members is certain.
	for _, leaf := range g.Tree.Must() {
		// spare is how many of the waiting pods the minimum can do without. Running members need
		// not be taken off: both the pods and the minimum count them. first is how many of the
		// waiting pods are looked at.
		spare, first := len(leaf.Pods)-leaf.Min(), len(leaf.Pods)
		// Segments are counted by rank. The minimum is then the first members and no others, and
		// nothing can be spared.
		if leaf.Group.Layout.Segment > 0 {
			spare, first = 0, max(0, leaf.Min()-leaf.Allocated)
		}
		var classes []*index.Class
		pods := make(map[index.ClassKey][]*cluster.Pod)
		for _, p := range leaf.Pods {
			if p.Host != nil || first == 0 {
				continue
			}
			first--
			c := k.Class(p)
			if pods[c.ClassKey] == nil {
				classes = append(classes, c)
			}
			pods[c.ClassKey] = append(pods[c.ClassKey], p)
		}
		for _, c := range classes {
			if c.Opens() { // others of the gang may open nodes to it
				continue
			}
			// At worst all that are spared are of this class.
			n := len(pods[c.ClassKey]) - spare
			for _, up := range g.Tree.Path(leaf) {
				// What a group requires holds for all groups in it. The root is in the list even if
				// it requires nothing: the whole cluster is the widest domain. The other wishes of
				// the layout are left out; they would only make the condition harder to count.
				if l := up.Group.Layout; n > 0 && (l.Required != "" || up == g.Tree) {
					out = append(out, Order{Class: c, Layout: api.Layout{Required: l.Required}, Pods: pods[c.ClassKey][:n], Want: n, Running: up.RunningPods()})
				}
			}
		}
	}
	return out
}
