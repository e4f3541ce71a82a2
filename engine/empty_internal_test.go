package engine

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/engine/internal/api"
)

// The emptied cluster has the nodes that the cluster has, with the same devices, whatever is told in which order. A device that two nodes
// list counts on the first, and costs the other that device and no more.
func TestEmptiedHasEveryNode(t *testing.T) {
	version := uint64(0)
	node := func(name string, ids ...string) api.Change {
		version++
		n := &api.Node{Name: name, Version: version, Allocatable: api.Resources{{Resource: testGPU, Value: int64(len(ids))}}}
		for _, id := range ids {
			n.Devices = append(n.Devices, api.Device{ID: id})
		}
		return api.Change{Node: n}
	}
	gone := func(name string) api.Change {
		version++
		return api.Change{Gone: &api.Ref{Kind: api.KindNode, Key: name, Version: version}}
	}
	devices := func(s *State) map[string]string {
		out := make(map[string]string)
		for name, n := range s.m.Nodes {
			if n.Spec == nil {
				continue
			}
			out[name] = fmt.Sprintf("%d of %d devices", n.FreeDevices, len(n.Devices))
		}
		return out
	}
	s := Load(api.Snapshot{Version: api.SnapshotVersion}, api.Config{})
	s.emptied()
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
		s.Apply(c)
		kept, again := s.emptied(), s.empty
		s.empty = nil
		if diff := cmp.Diff(devices(s), devices(kept)); diff != "" {
			t.Errorf("after change %d (-the cluster +the emptied one):\n%s", i, diff)
		}
		if diff := cmp.Diff(devices(s), devices(s.emptied())); diff != "" {
			t.Errorf("emptied after change %d (-the cluster +the emptied one):\n%s", i, diff)
		}
		s.empty = again
	}
}
