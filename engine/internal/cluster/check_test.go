package cluster

import (
	"slices"
	"testing"
	"time"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

// audited is a small model with something in every account.
func audited(t *testing.T) *Model {
	normal, _ := api.Config{}.Normal()
	gpus := func(n int64) api.Resources { return api.Resources{{Resource: "nvidia.com/gpu", Value: n}} }
	later := time.Date(2026, 11, 15, 13, 0, 0, 0, time.UTC)
	node := func(name string) api.Node {
		return api.Node{Name: name, Allocatable: append(gpus(4), api.Amount{Resource: api.Pods, Value: 9}), Devices: []api.Device{
			{ID: name + "0", Model: "A"}, {ID: name + "1", Model: "A"}, {ID: name + "2", Model: "A"}, {ID: name + "3", Model: "A"}}}
	}
	m := NewModel(normal)
	m.LoadAll(&api.Snapshot{
		Version: api.SnapshotVersion,
		Nodes:   []api.Node{node("n0"), node("n1")},
		Queues: []api.Queue{{Name: "org", Limits: api.Resources{{Resource: "nvidia.com/gpu@A", Value: 8}}},
			{Name: "team", Parent: "org", FairUsers: true, MaxRunning: 9, Quota: gpus(2)}},
		Gangs: []api.Gang{{Key: "g", Queue: "team", User: "ann", Core: true, Group: api.Group{Min: 1}}},
		Pods: []api.Pod{
			{Key: "g-0", UID: "u", Gang: "g", Node: "n0", Devices: []string{"n00"}, Evictable: true, Spec: api.Spec{Requests: gpus(1)}},
			{Key: "g-1", UID: "u", Gang: "g", Rank: 1, Node: "n0", Devices: []string{"n01"}, Evictable: true, Spec: api.Spec{Requests: gpus(1)}},
			{Key: "blind", Node: "n1", Spec: api.Spec{Requests: gpus(1)}},
			{Key: "waits", Queue: "team", Spec: api.Spec{Requests: gpus(9)}},
		},
		Assumptions: []api.Assumption{{Pod: "g-2", UID: "u", Version: 1, Node: "n1", Devices: []string{"n10"}, Until: later}},
		Evictions:   []api.Eviction{{Pod: "g-1", UID: "u", Version: 1, Cause: api.Preempted, For: "waits", At: later, Until: later}},
		Holds:       []api.Hold{{Gang: "waits", Version: 1, Node: "n0", Requests: gpus(1), Until: later}},
		Latest:      1,
	})
	m.Freshen()
	m.Queues["org"].Workloads()
	if found := checkAll(m); len(found) > 0 {
		t.Fatalf("a sound model has discrepancies: %v", found)
	}
	return m
}

// checkAll recounts everything.
func checkAll(m *Model) []api.Discrepancy {
	c := NewCheck(m)
	c.Cluster()
	c.Queue(&m.Unqueued)
	for _, name := range SortedKeys(m.Queues) {
		c.Queue(m.Queues[name])
	}
	for _, name := range SortedKeys(m.Nodes) {
		c.Node(m.Nodes[name])
	}
	return c.Found
}

func discrepancy(kind, key, account, resource string, kept, counted int64) api.Discrepancy {
	return api.Discrepancy{Kind: kind, Key: key, Account: account, Resource: resource, Kept: kept, Counted: counted}
}

// A check names the account that was tampered with. It protects every sum that is kept by adding and subtracting.
func TestCheckNamesWhatIsWrong(t *testing.T) {
	const gpu, ofA = "nvidia.com/gpu", "nvidia.com/gpu@A"
	for _, c := range []struct {
		name   string
		tamper func(*Model)
		want   api.Discrepancy
	}{
		{"capacity", func(m *Model) { m.Capacity.Add(quantity.DimGPU, 1) }, discrepancy("cluster", "", "capacity", gpu, 9, 8)},
		{"taken", func(m *Model) { m.Taken.Add(quantity.DimGPU, -1) }, discrepancy("cluster", "", "taken", gpu, 2, 3)},
		{"used", func(m *Model) { m.Queues["team"].Used.Add(quantity.DimGPU, 2000) }, discrepancy("queue", "team", "used", gpu, 4000, 2000)},
		{"used above", func(m *Model) { m.Queues["org"].Used.Add(quantity.DimGPU, 2000) }, discrepancy("queue", "org", "used", gpu, 4000, 2000)},
		{"used of a model", func(m *Model) { m.Queues["team"].Used.Add(m.Dims.ID(ofA), 1000) }, discrepancy("queue", "team", "used", ofA, 3000, 2000)},
		{"used is lost", func(m *Model) { m.Queues["team"].Used = nil }, discrepancy("queue", "team", "used", gpu, 0, 2000)},
		{"leaving", func(m *Model) { m.Queues["team"].Leaving.Add(quantity.DimGPU, 1000) }, discrepancy("queue", "team", "leaving", gpu, 2000, 1000)},
		{"pledged", func(m *Model) { m.Queues["team"].Pledged.Add(quantity.DimGPU, 1000) }, discrepancy("queue", "team", "pledged", gpu, 2000, 1000)},
		{"firm", func(m *Model) { m.Queues["team"].Firm.Add(quantity.DimGPU, -1000) }, discrepancy("queue", "team", "firm", gpu, 0, 1000)},
		{"a user", func(m *Model) { m.Queues["team"].Users["ann"][quantity.DimGPU] += 1000 }, discrepancy("queue", "team", "user ann", gpu, 3000, 2000)},
		{"a user is lost", func(m *Model) { delete(m.Queues["team"].Users, "ann") }, discrepancy("queue", "team", "user ann", gpu, 0, 2000)},
		{"workloads", func(m *Model) { m.Queues["team"].Counted++ }, discrepancy("queue", "team", "workloads", "", 2, 1)},
		{"a pod is lost to its queue", func(m *Model) { q := m.Queues["team"]; q.Pods = q.Pods[:1] }, discrepancy("queue", "team", "used", gpu, 2000, 1000)},
		{"a pod is twice in its queue", func(m *Model) { q := m.Queues["team"]; q.Pods = append(q.Pods, q.Pods[0]) }, discrepancy("queue", "team", "pods", firstPod, 0, 1)},
		{"a pod without a queue is lost", func(m *Model) { m.Unqueued.Pods = nil }, discrepancy("pod", "blind", "payer", "", 0, 1)},
		{"a queue in the wrong place", func(m *Model) { m.Queues["team"].Parent = nil }, discrepancy("queue", "team", "parent", "org", 0, 1)},
		{"free", func(m *Model) { m.Nodes["n0"].Free.Add(quantity.DimGPU, 1) }, discrepancy("node", "n0", "free", gpu, 2, 1)},
		{"yield", func(m *Model) { m.Nodes["n0"].Yield.Add(quantity.DimGPU, 1) }, discrepancy("node", "n0", "yield", gpu, 3, 2)},
		{"loose devices", func(m *Model) { m.Nodes["n0"].FreeDevices++ }, discrepancy("node", "n0", "free devices", "", 3, 2)},
		{"blind devices", func(m *Model) { m.Nodes["n1"].UnknownDevices-- }, discrepancy("node", "n1", "unknown devices", "", 0, 1)},
		{"holders", func(m *Model) { m.Nodes["n0"].Holders[0]++ }, discrepancy("node", "n0", "holders", "n00", 2, 1)},
		{"a device", func(m *Model) { m.Nodes["n0"].Devices[0].Free = true }, discrepancy("node", "n0", "device", "n00", 1, 0)},
		{"an occupant is lost", func(m *Model) { n := m.Nodes["n1"]; n.Pods = n.Pods[:0] }, discrepancy("node", "n1", "free", gpu, 3, 4)},
		{"an occupant is there twice", func(m *Model) { n := m.Nodes["n1"]; n.Pods = append(n.Pods, n.Pods[0]) }, discrepancy("node", "n1", "pods", "blind", 0, 1)},
		{"a hold does not count", func(m *Model) { m.Holds["waits@n0"].On = nil }, discrepancy("node", "n0", "hold", "waits", 0, 1)},
		{"an eviction does not count", func(m *Model) { m.Pods["g-1"].Evicting = false }, discrepancy("pod", "g-1", "evicting", "", 0, 1)},
		{"a pod on the wrong node", func(m *Model) { m.Pods["blind"].Host = m.Nodes["n0"] }, discrepancy("pod", "blind", "allocation", "n1", 0, 1)},
		{"requests", func(m *Model) { m.Pods["waits"].kind.count++ }, discrepancy("cluster", "", "requests", "9 GPUs, 0m CPU, models ", 2, 1)},
		{"a kind of request is lost", func(m *Model) { clear(m.Asked.kinds) }, discrepancy("cluster", "", "requests", "1 GPUs, 0m CPU, models ", 0, 3)},
		{"supply", func(m *Model) { m.Supply.byModel["A"]-- }, discrepancy("cluster", "", "supply", "A", 7, 8)},
		{"a model is lost", func(m *Model) { clear(m.Supply.byModel) }, discrepancy("cluster", "", "supply", "A", 0, 8)},
		{"a trial was not undone", func(m *Model) { m.Journal = append(m.Journal, Undo{}) }, discrepancy("cluster", "", "journal", "", 1, 0)},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := audited(t)
			if c.want.Resource == firstPod {
				c.want.Resource = m.Queues["team"].Pods[0].Key
			}
			c.tamper(m)
			if found := checkAll(m); !slices.Contains(found, c.want) {
				t.Errorf("%v is not among %v", c.want, found)
			}
		})
	}
}

// firstPod stands for the first pod of the queue's list, which is in no order.
const firstPod = "*"

// After a rollback every account is what it was, whatever was tried.
func TestRollbackRestoresAccounts(t *testing.T) {
	m := audited(t)
	free := slices.Clone(m.Nodes["n1"].Free)
	used := slices.Clone(m.Queues["org"].Used)
	mark, room, numbers := m.Mark(), m.Room.Now, slices.Clone(m.Nodes["n1"].Bucket.Numbers)
	m.PutOn(m.Pods["waits"], m.Nodes["n1"], nil)
	m.Remove(m.Pods["blind"])
	m.IgnoreHold(m.Holds["waits@n0"])
	m.MarkEvicting(m.Pods["g-0"])
	m.PutHold(&Hold{Hold: &api.Hold{Gang: "g", Node: "n1", Requests: api.Resources{{Resource: "nvidia.com/gpu", Value: 1}}}}, m.Nodes["n1"])
	if slices.Equal(free, m.Nodes["n1"].Free) || slices.Equal(used, m.Queues["org"].Used) {
		t.Error("the trial changed nothing")
	}
	m.Rollback(mark)
	if m.Room.Now != room || !slices.Equal(numbers, m.Nodes["n1"].Bucket.Numbers) {
		t.Errorf("the room has number %d, not %d, and nodes' have %d, not %d", m.Room.Now, room, m.Nodes["n1"].Bucket.Numbers, numbers)
	}
	if found := checkAll(m); len(found) > 0 {
		t.Errorf("after the rollback: %v", found)
	}
}

// Pods that change places in a trial are not where the journal says: part of it undone is a state of its own.
func TestRollbackOfPodsThatChangedPlaces(t *testing.T) {
	m := audited(t)
	a, b, first, second := m.Pods["waits"], m.Pods["g-0"], m.Nodes["n0"], m.Nodes["n1"]
	m.Remove(b)
	m.PutOn(a, first, nil)
	mark, between := m.Mark(), m.Room.Now
	m.PutOn(b, second, nil)
	for _, p := range []*Pod{a, b} { // as place deals ranks
		p.Host.Pods = slices.DeleteFunc(p.Host.Pods, func(o *Pod) bool { return o == p })
	}
	a.Host, b.Host = second, first
	first.Pods, second.Pods = append(first.Pods, b), append(second.Pods, a)
	m.Rollback(mark)
	if m.Room.Now == between {
		t.Error("the room has the number of a state in which the pod is on the other node")
	}
	m.Rollback(0)
}

// Freshen returns each gang that changed once, with those that are gone, and counts what the others lack.
func TestFreshenReturnsWhatChanged(t *testing.T) {
	m := audited(t)
	if changed := m.Freshen(); len(changed) > 0 {
		t.Fatalf("%d gangs changed by themselves", len(changed))
	}
	m.Apply(&api.Change{Pod: &api.Pod{Key: "g-2", UID: "u", Version: 2, Gang: "g", Rank: 2, Spec: api.Spec{Requests: api.Resources{{Resource: "nvidia.com/gpu", Value: 1}}}}})
	m.Apply(&api.Change{Gone: &api.Ref{Kind: api.KindPod, Key: "waits", Version: 3}})
	var keys []string
	for _, g := range m.Freshen() {
		if g.Gone() != (g.Key == "waits") {
			t.Errorf("gang %s is gone: %v", g.Key, g.Gone())
		}
		keys = append(keys, g.Key)
	}
	slices.Sort(keys)
	if want := []string{"g", "waits"}; !slices.Equal(keys, want) {
		t.Errorf("changed are %v, not %v", keys, want)
	}
	if found := checkAll(m); len(found) > 0 {
		t.Errorf("found %v", found)
	}
}

// A queue that somebody runs in, and that is not known, is in the tree from the moment that it is named, and not only once the
// tree is made anew: what runs in it can be asked for.
func TestQueuesKnownByNameAreInTheTree(t *testing.T) {
	m := audited(t)
	version := m.Tree.Version
	m.Apply(&api.Change{Pod: &api.Pod{Key: "stray", UID: "u", Version: 9, Queue: "nowhere", Node: "n1", Evictable: true}})
	m.Freshen()
	var top []string
	for _, q := range m.Tree.Top {
		top = append(top, q.Name)
	}
	if want := []string{"nowhere", "org"}; !slices.Equal(top, want) || m.Tree.Version == version {
		t.Errorf("at the top are %v, not %v", top, want)
	}
	if found := checkAll(m); len(found) > 0 {
		t.Error(found)
	}
}
