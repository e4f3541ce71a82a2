package index

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
)

const gpu = "nvidia.com/gpu"

func gpus(n int64) api.Resources { return api.Resources{{Resource: gpu, Value: n}} }

// racks is a model of six nodes with four GPUs each, three to a rack.
func racks() *cluster.Model {
	config, _ := api.Config{Levels: []api.Level{{Name: "rack", Label: "rack"}}}.Normal()
	m := cluster.NewModel(config)
	snap := api.Snapshot{Version: api.SnapshotVersion}
	for i := range 6 {
		snap.Nodes = append(snap.Nodes, api.Node{
			Name: fmt.Sprintf("n%d", i), Version: 1, Labels: map[string]string{"rack": fmt.Sprint(i / 3)},
			Allocatable: api.Resources{{Resource: gpu, Value: 4}, {Resource: api.Pods, Value: 9}},
		})
	}
	for i := range 8 {
		snap.Pods = append(snap.Pods, api.Pod{Key: fmt.Sprintf("p%d", i), Version: 1, Spec: api.Spec{Requests: gpus(int64(1 + i%3))}})
	}
	m.LoadAll(&snap)
	m.Freshen()
	return m
}

func check(x *Index) []api.Discrepancy {
	found := x.Check(nil)
	for _, name := range cluster.SortedKeys(x.m.Nodes) {
		found = x.CheckNode(found, x.m.Nodes[name])
	}
	return found
}

// Counts follow whatever happens to nodes, and what is tried out leaves no trace. It protects the one rule of the index: a
// class is what it would be if it were counted anew, at whatever position of the log it was last used.
func TestCountsFollowTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := racks()
		x := New(m)
		x.Refresh()
		version := uint64(1)
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			n := rapid.SampledFrom(cluster.SortedKeys(m.Nodes)).Draw(t, "node")
			p := m.Pods[rapid.SampledFrom(cluster.SortedKeys(m.Pods)).Draw(t, "pod")]
			version++
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0: // a class is used
				x.ClassOf(ClassKey{Shape: m.ShapeOf(p)}, nil)
			case 1: // a pod is bound, or ends
				told := *p.Pod
				told.Version = version
				if told.Node == "" {
					told.Node = n
				} else {
					told.Node = ""
				}
				m.Apply(&api.Change{Pod: &told})
			case 2: // a node moves to another rack
				told := *m.Nodes[n].Told
				told.Version, told.Labels = version, map[string]string{"rack": fmt.Sprint(rapid.IntRange(0, 2).Draw(t, "rack"))}
				m.Apply(&api.Change{Node: &told})
			case 3: // a node is cordoned, or not
				told := *m.Nodes[n].Told
				told.Version, told.Cordoned = version, !told.Cordoned
				m.Apply(&api.Change{Node: &told})
			case 4: // a plan is tried and rolled back
				mark, end := m.Mark(), m.Log.End()
				if p.Host == nil && p.In != nil {
					m.PutOn(p, m.Nodes[n], nil)
				}
				x.ClassOf(ClassKey{Shape: m.ShapeOf(p)}, nil)
				m.Rollback(mark)
				x.Rewind(end)
			}
			m.Freshen()
			x.Refresh()
			if rapid.Bool().Draw(t, "check") {
				if found := check(x); len(found) > 0 {
					t.Fatalf("found %v", found)
				}
			}
		}
		if found := check(x); len(found) > 0 {
			t.Fatalf("at the end: %v", found)
		}
	})
}

// The check finds a count that is wrong, of a node, a bucket and a domain.
func TestCheckFindsWrongCounts(t *testing.T) {
	for name, tamper := range map[string]func(*Class){
		"node":   func(c *Class) { c.ByBucket[0].Cells[1].Fits++ },
		"bucket": func(c *Class) { c.ByBucket[0].sum-- },
		"domain": func(c *Class) { c.Sums[0]++ },
		"total":  func(c *Class) { c.Total++ },
	} {
		t.Run(name, func(t *testing.T) {
			m := racks()
			x := New(m)
			x.Refresh()
			c := x.ClassOf(ClassKey{Shape: m.ShapeOf(m.Pods["p0"])}, nil)
			if found := check(x); len(found) > 0 {
				t.Fatalf("a sound index has discrepancies: %v", found)
			}
			tamper(c)
			if found := check(x); len(found) == 0 {
				t.Error("nothing is found")
			}
		})
	}
}

// A certificate counts every node once and proves what the counts say.
func TestCertificateCountsEveryNode(t *testing.T) {
	m := racks()
	x := New(m)
	x.Refresh()
	c := x.ClassOf(ClassKey{Shape: m.ShapeOf(m.Pods["p2"])}, nil) // 3 GPUs: one fits on each node
	cert, _ := x.Certify(Question{Class: c, Need: 4, Level: m.Level("rack")})
	if len(cert.Domains) != 2 || cert.Domains[0].Fits != 3 || cert.Domains[1].Fits != 3 || cert.Total != 6 {
		t.Errorf("certificate is %+v", cert)
	}
}
