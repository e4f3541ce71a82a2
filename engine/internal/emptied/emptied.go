package emptied

import (
	"slices"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
)

// Cluster is the model of a cluster without what ends by itself.
type Cluster struct {
	*cluster.Model
	// Edition changes whenever the model does, but for visits. An answer that was found in it holds for one edition.
	Edition uint64

	of *cluster.Model // the cluster as it is
}

// Of makes the emptied cluster of the model, whose policy it shares.
func Of(m *cluster.Model) *Cluster {
	c := &Cluster{Model: cluster.NewModel(m.Config), of: m}
	for _, name := range cluster.SortedKeys(m.Nodes) {
		c.take(api.Ref{Kind: api.KindNode, Key: name})
	}
	for _, name := range cluster.SortedKeys(m.Queues) {
		c.take(api.Ref{Kind: api.KindQueue, Key: name})
	}
	for _, name := range cluster.SortedKeys(m.Bookings) {
		c.take(api.Ref{Kind: api.KindBooking, Key: name})
	}
	var stay []string
	for key, p := range m.Pods {
		if p.Stays(m) {
			stay = append(stay, key)
		}
	}
	slices.Sort(stay)
	for _, key := range stay {
		c.take(api.Ref{Kind: api.KindPod, Key: key})
	}
	return c
}

// Follow brings the model up to date with a change that the cluster was told of.
func (c *Cluster) Follow(change *api.Change) {
	if ref, ok := change.Ref(); ok {
		c.take(ref)
	} else if change.Gone != nil {
		c.take(*change.Gone)
	}
}

// take brings one object up to date. It reads what the cluster makes of the object, and not the change, because an older version or
// one that was rejected changes nothing there.
func (c *Cluster) take(at api.Ref) {
	switch at.Kind {
	case api.KindNode:
		c.takeNode(at.Key)
	case api.KindQueue:
		q := c.of.Queues[at.Key]
		if q == nil || q.Spec == nil || c.of.IsRejected(api.KindQueue, at.Key) {
			q = &cluster.Queue{}
		}
		c.QueueNamed(at.Key).Spec, c.Tree.Stale = q.Spec, true
	case api.KindBooking:
		delete(c.Bookings, at.Key)
		if b := c.of.Bookings[at.Key]; b != nil && !c.of.IsRejected(api.KindBooking, at.Key) {
			c.Bookings[at.Key] = b
		}
	case api.KindGang:
		if c.Gangs[at.Key] == nil {
			return // none of its members stays
		}
		c.SetGang(at.Key, c.specOf(at.Key))
	case api.KindPod:
		p, had := c.of.Pods[at.Key], c.Pods[at.Key]
		if p == nil || !p.Stays(c.of) {
			if had == nil {
				return
			}
			c.RemovePod(had)
			break
		}
		if p.Gang != "" {
			c.SetGang(p.Gang, c.specOf(p.Gang))
		}
		c.SetPod(had, p.Pod)
	default:
		return
	}
	c.Edition++
}

// specOf returns what is known of the gang, nil for nothing that makes sense.
func (c *Cluster) specOf(key string) *api.Gang {
	if g := c.of.Gangs[key]; g != nil && !c.of.IsRejected(api.KindGang, key) {
		return g.Spec
	}
	return nil
}

// takeNode takes the node if it counts. One that lists another node's device is rejected by name and counts without it,
// here as there.
func (c *Cluster) takeNode(name string) {
	if n := c.of.Nodes[name]; n != nil && n.Spec != nil {
		c.SetNode(c.NodeNamed(name), n.Spec)
	} else if had := c.Nodes[name]; had != nil && had.Told != nil {
		c.UnsetNode(had)
	}
}

// Visit has the gang of the cluster be in the emptied one while it is asked about there, with the members that run on their nodes.
// twin is the gang as it is there. It is not asked about a gang all of whose members stay or are leaving.
func (c *Cluster) Visit(g *cluster.Gang, ask func(twin *cluster.Gang)) {
	var visitors []*cluster.Pod
	known := g.Lone != nil // or it is there anyway, because some of it stays
	if !known {
		had := c.Gangs[g.Key]
		if known = had != nil && had.Spec != nil; !known {
			c.SetGang(g.Key, g.Spec)
		}
	}
	for _, p := range g.All() {
		if c.Pods[p.Key] != nil || p.Leaving() {
			continue
		}
		visitor := *p.Pod
		visitor.Nominated = ""
		if p.Host != nil {
			visitor.Node, visitor.Devices = p.Host.Name, p.HostDevices
		}
		c.SetPod(nil, &visitor)
		visitors = append(visitors, c.Pods[p.Key])
	}
	if len(visitors) > 0 {
		ask(visitors[0].In)
	}
	for _, p := range visitors {
		c.RemovePod(p)
	}
	if !known {
		c.SetGang(g.Key, nil)
	}
}
