package index

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
)

// The scores of a class that followed the model are those of one that is counted anew, whatever happened in between: they depend on
// all nodes that the class fits on, and not on how it came to that.
func TestScoresFollowTheModel(t *testing.T) {
	same := 0
	rapid.Check(t, func(t *rapid.T) {
		m := wishers(t)
		x := New(m)
		x.Refresh()
		version := uint64(1)
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			version++
			p := m.Pods[rapid.SampledFrom(cluster.SortedKeys(m.Pods)).Draw(t, "pod")]
			n := m.Nodes[rapid.SampledFrom(cluster.SortedKeys(m.Nodes)).Draw(t, "node")]
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0:
				x.ClassOf(classOf(m, p), nil)
			case 1: // a pod is bound, or ends
				told := *p.Pod
				told.Version = version
				if told.Node == "" {
					told.Node = n.Name
					if len(n.Told.Offers) > 0 && told.Claims != nil {
						told.Devices = []string{n.Told.Offers[0].ID}
					}
				} else {
					told.Node, told.Devices = "", nil
				}
				m.Apply(&api.Change{Pod: &told})
			case 2: // a node changes
				told := *n.Told
				told.Version = version
				anyNode(t, &told)
				m.Apply(&api.Change{Node: &told})
			case 3: // a plan is tried, looked at and rolled back
				mark := m.Mark()
				if p.Host == nil && p.In != nil && n.Bucket != nil {
					m.PutOn(p, n, nil)
				}
				x.ClassOf(classOf(m, p), nil)
				m.Rollback(mark)
			case 4: // a node leaves and comes back
				told := *n.Told
				m.Apply(&api.Change{Gone: &api.Ref{Kind: api.KindNode, Key: n.Name, Version: version}})
				version++
				told.Version = version
				m.Apply(&api.Change{Node: &told})
			}
			m.Freshen()
			x.Refresh()
		}
		fresh := New(m)
		m.Respecced = append(m.Respecced, m.SortedNodes()...)
		fresh.Refresh()
		for _, key := range cluster.SortedKeys(m.Pods) {
			p := m.Pods[key]
			class := classOf(m, p)
			kept, counted := scores(x, x.ClassOf(class, nil)), scores(fresh, fresh.ClassOf(class, nil))
			if diff := cmp.Diff(counted, kept); diff != "" {
				t.Fatalf("pod %s: - counted, + kept: %s", key, diff)
			}
			if len(kept) > 1 {
				same++
			}
		}
	})
	if same == 0 {
		t.Error("no pod has a choice: it says nothing")
	}
}

func classOf(m *cluster.Model, p *cluster.Pod) ClassKey {
	key := ClassKey{Shape: m.ShapeOf(p), Stance: p.Stance()}
	if p.In != nil {
		key.Images = m.ImagesOf(p.In)
	}
	return key
}

// scores are what the class makes of the nodes, and which it takes for the best of each bucket.
func scores(x *Index, c *Class) map[string]int64 {
	out := make(map[string]int64)
	for _, b := range x.m.Topology.Buckets {
		c.topOf(b)
		f := &c.ByBucket[b.ID]
		for i, n := range b.Nodes {
			if f.Cells[i].Fits > 0 {
				out[n.Name] = f.Cells[i].score
			}
		}
		if f.best >= 0 {
			out["best "+fmt.Sprint(b.ID)] = int64(slices.Index(b.Nodes, b.Nodes[f.best]))
		}
	}
	return out
}

func anyNode(t *rapid.T, n *api.Node) {
	n.Labels = map[string]string{"rack": rapid.SampledFrom([]string{"0", "1"}).Draw(t, "rack"), "disk": rapid.SampledFrom([]string{"a", "b"}).Draw(t, "disk")}
	if rapid.Bool().Draw(t, "named") {
		n.Labels["host"] = n.Name
	}
	n.Taints, n.Images, n.Offers = nil, nil, nil
	for i := range rapid.SampledFrom([]int{0, 0, 1, 3}).Draw(t, "offers") {
		n.Offers = append(n.Offers, api.Offer{ID: fmt.Sprintf("%s/%d", n.Name, i), Selections: []string{rapid.SampledFrom([]string{"large", "small"}).Draw(t, "selection")}})
	}
	for _, name := range []string{"big", "small"} {
		if rapid.Bool().Draw(t, "pulled") {
			n.Images = append(n.Images, api.Image{Name: name, Bytes: int64(len(name)) << 29})
		}
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "taints") {
		n.Taints = append(n.Taints, api.Taint{Key: fmt.Sprint("t", i), Effect: api.PreferNoSchedule})
	}
}

// wishers is a model of nodes and pods with preferences of all kinds.
func wishers(t *rapid.T) *cluster.Model {
	config, _ := api.Config{Levels: []api.Level{{Name: "rack", Label: "rack"}}}.Normal()
	m := cluster.NewModel(config)
	snap := api.Snapshot{Version: api.SnapshotVersion}
	for i := range 5 {
		n := api.Node{Name: fmt.Sprintf("n%d", i), Version: 1, Allocatable: api.Resources{{Resource: gpu, Value: 2}, {Resource: api.Pods, Value: 9}}}
		anyNode(t, &n)
		snap.Nodes = append(snap.Nodes, n)
	}
	for i := range 7 {
		p := api.Pod{Key: fmt.Sprintf("a/p%d", i), Version: 1, Labels: map[string]string{"app": fmt.Sprint(i % 2)}, Spec: api.Spec{Requests: gpus(1)}}
		if rapid.IntRange(0, 2).Draw(t, "claims") == 0 {
			p.Requests, p.Claims = nil, &api.Claims{Requests: []api.DeviceRequest{{Name: "c/r", Options: []api.DeviceOption{{Selection: "large", Count: 1}, {Selection: "small", Count: 1}}}}}
		}
		app := []api.Requirement{{Key: "app", Op: "In", Values: []string{rapid.SampledFrom([]string{"0", "1"}).Draw(t, "app")}}}
		if rapid.Bool().Draw(t, "prefers") {
			p.Preferred = []api.Preference{{Weight: rapid.SampledFrom([]int32{1, 70}).Draw(t, "weight"), Term: api.Term{Labels: []api.Requirement{{Key: "disk", Op: "In", Values: []string{"a"}}}}}}
		}
		p.Images = []string{rapid.SampledFrom([]string{"big", "small", "none"}).Draw(t, "image"), "small"}[:rapid.IntRange(0, 2).Draw(t, "images")]
		rules := &api.PodRules{}
		if rapid.Bool().Draw(t, "wishes") {
			rules.PodPreferred = []api.PodPreference{{Weight: rapid.SampledFrom([]int32{-100, -3, 40}).Draw(t, "weight"), PodTerm: api.PodTerm{Topology: rapid.SampledFrom([]string{"rack", "host"}).Draw(t, "key"), Namespaces: []string{"a"}, Labels: app}}}
		}
		if rapid.Bool().Draw(t, "spreads") {
			rules.Spread = []api.Spread{{Topology: rapid.SampledFrom([]string{"rack", "host"}).Draw(t, "key"), Namespace: "a", Labels: app, MaxSkew: 2, Soft: true}}
		}
		if rules.Any() {
			p.PodRules = rules
		}
		snap.Pods = append(snap.Pods, p)
	}
	m.LoadAll(&snap)
	m.Freshen()
	return m
}
