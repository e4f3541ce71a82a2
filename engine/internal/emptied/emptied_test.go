package emptied

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
)

const gpu = "nvidia.com/gpu"

// The emptied cluster has the nodes that the cluster has, with the same devices, whatever is told in which order. A device that two nodes
// list counts on the first, and costs the other that device and no more.
func TestEmptiedHasEveryNode(t *testing.T) {
	version := uint64(0)
	node := func(name string, ids ...string) api.Change {
		version++
		n := &api.Node{Name: name, Version: version, Allocatable: api.Resources{{Resource: gpu, Value: int64(len(ids))}}}
		for _, id := range ids {
			n.Devices = append(n.Devices, api.Device{ID: id})
		}
		return api.Change{Node: n}
	}
	gone := func(name string) api.Change {
		version++
		return api.Change{Gone: &api.Ref{Kind: api.KindNode, Key: name, Version: version}}
	}
	devices := func(m *cluster.Model) map[string]string {
		out := make(map[string]string)
		for name, n := range m.Nodes {
			if n.Spec == nil {
				continue
			}
			out[name] = fmt.Sprintf("%d of %d devices", n.FreeDevices, len(n.Devices))
		}
		return out
	}
	m := cluster.NewModel(api.Config{GPU: gpu})
	kept := Of(m)
	for i, c := range []api.Change{
		node("n1", "a", "b"),
		node("n0", "a"), // a counts here from now on
		node("n1", "a", "b", "c"),
		node("n1", "b", "b"), // makes no sense
		node("n1", "a", "b", "c", "d"),
		gone("n0"),
		node("n1", "a", "b"),
		node("n2", "b", "e"),
		gone("n1"),
		node("n2", "b", "e", "f"),
	} {
		m.Apply(&c)
		kept.Follow(&c)
		if diff := cmp.Diff(devices(m), devices(kept.Model)); diff != "" {
			t.Errorf("after change %d (-the cluster +the emptied one):\n%s", i, diff)
		}
		if diff := cmp.Diff(devices(m), devices(Of(m).Model)); diff != "" {
			t.Errorf("emptied after change %d (-the cluster +the emptied one):\n%s", i, diff)
		}
	}
}

// While one asks about a gang it is there as it is in the cluster: what runs of it runs, on the same node, what waits waits, and what
// is leaving is not there. Nothing is left of the visit. What stays is there all the time.
func TestVisitsLeaveNothing(t *testing.T) {
	pod := func(key, gang, node string) api.Pod {
		return api.Pod{Key: key, UID: "u", Gang: gang, Node: node, Spec: api.Spec{Requests: api.Resources{{Resource: gpu, Value: 1}}}}
	}
	leaves, stays := pod("g-2", "g", "n"), pod("server", "", "n")
	leaves.Terminating, stays.Endless = true, true
	m := cluster.NewModel(api.Config{GPU: gpu})
	m.LoadAll(&api.Snapshot{
		Version: api.SnapshotVersion,
		Nodes:   []api.Node{{Name: "n", Allocatable: api.Resources{{Resource: gpu, Value: 8}, {Resource: api.Pods, Value: 9}}}},
		Gangs:   []api.Gang{{Key: "g", Group: api.Group{Min: 2}}, {Key: "other", Group: api.Group{Min: 1}}},
		Pods:    []api.Pod{pod("g-0", "g", "n"), pod("g-1", "g", ""), leaves, pod("o-0", "other", "n"), stays},
	})
	m.Freshen()
	c := Of(m)
	c.Freshen()
	free := func() int64 { return c.Nodes["n"].Free.At(c.Dims.ID(gpu)) }
	if free() != 7 || len(c.Pods) != 1 {
		t.Fatalf("%d GPUs are free and %d pods are there", free(), len(c.Pods))
	}
	edition, asked := c.Edition, false
	c.Visit(m.Gangs["g"], func(twin *cluster.Gang) {
		c.Freshen()
		asked = true
		if len(twin.Members) != 2 || twin.Tree.Running() != 1 || free() != 6 {
			t.Errorf("%d members, %d of them run, %d GPUs are free", len(twin.Members), twin.Tree.Running(), free())
		}
	})
	c.Freshen()
	if !asked || free() != 7 || len(c.Pods) != 1 || c.Gangs["g"] != nil || c.Edition != edition {
		t.Errorf("asked: %v; afterwards %d GPUs are free, %d pods are there, and the gang %v", asked, free(), len(c.Pods), c.Gangs["g"])
	}
}
