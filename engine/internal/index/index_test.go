package index

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/quantity"
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
		p := api.Pod{Key: fmt.Sprintf("p%d", i), Version: 1, Spec: api.Spec{Requests: gpus(int64(1 + i%3))}}
		if i >= 5 {
			p.Spec.Selector = map[string]string{fmt.Sprint("key", i): "a"} // no node has the key yet
		}
		if i == 2 || i == 4 { // a node that gets the key is closed to it
			p.Spec.Affinity = []api.Term{{Labels: []api.Requirement{{Key: "key7", Op: api.NotIn, Values: []string{"a"}}}}}
		}
		snap.Pods = append(snap.Pods, p)
	}
	m.LoadAll(&snap)
	m.Freshen()
	return m
}

func check(x *Index) []api.Discrepancy {
	return x.CheckNodes(x.Check(nil), x.m.SortedNodes())
}

// checkCertificates finds certificates that an index of the same model which has kept nothing makes otherwise.
func checkCertificates(t *rapid.T, x *Index) {
	fresh := New(x.m)
	x.m.Respecced = append(x.m.Respecced, x.m.SortedNodes()...)
	fresh.Refresh()
	for _, key := range cluster.SortedKeys(x.m.Pods) {
		sh := x.m.ShapeOf(x.m.Pods[key])
		for _, level := range []int{cluster.AnyLevel, cluster.NodeLevel, x.m.Level("rack")} {
			q := Question{Class: ClassKey{Shape: sh}, Need: 9, Level: level}
			kept, because := x.Certify(x.ClassOf(q.Class, nil), q)
			counted, cause := fresh.Certify(fresh.ClassOf(q.Class, nil), q)
			if !reflect.DeepEqual(counted, kept) || cause != because {
				t.Fatalf("pod %s: %s, not %s; - counted, + kept: %s", key, because, cause, cmp.Diff(counted, kept))
			}
		}
	}
}

// Counts follow whatever happens to nodes, and what is tried out leaves no trace. It protects the one rule of the index: a
// class is what it would be if it were counted anew, at whatever number it was last used, and so are its certificates.
func TestCountsFollowTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := racks()
		x := New(m)
		x.Refresh()
		first := make(map[string]api.Node)
		for name, n := range m.Nodes {
			first[name] = *n.Told
		}
		told := func(name string) api.Node { // as it is, or as it was before it left
			if n := m.Nodes[name]; n != nil && n.Told != nil {
				return *n.Told
			}
			return first[name]
		}
		version := uint64(1)
		for range rapid.IntRange(1, 16).Draw(t, "steps") {
			n := rapid.SampledFrom(cluster.SortedKeys(first)).Draw(t, "node")
			p := m.Pods[rapid.SampledFrom(cluster.SortedKeys(m.Pods)).Draw(t, "pod")]
			version++
			switch rapid.IntRange(0, 8).Draw(t, "what") {
			case 0: // two classes of one shape are used, which share what nodes mean to the shape
				for priority := range int32(2) {
					x.ClassOf(ClassKey{Shape: m.ShapeOf(p), Priority: priority}, nil)
				}
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
				told := told(n)
				told.Version, told.Labels = version, map[string]string{"rack": fmt.Sprint(rapid.IntRange(0, 2).Draw(t, "rack"))}
				m.Apply(&api.Change{Node: &told})
			case 3: // a node is cordoned, or not
				told := told(n)
				told.Version, told.Cordoned = version, !told.Cordoned
				m.Apply(&api.Change{Node: &told})
			case 4: // a plan is tried and rolled back
				mark := m.Mark()
				if p.Host == nil && p.In != nil && m.Nodes[n] != nil && m.Nodes[n].Bucket != nil {
					m.PutOn(p, m.Nodes[n], nil)
				}
				x.Certify(x.ClassOf(ClassKey{Shape: m.ShapeOf(p)}, nil), Question{Need: 9, Level: rapid.IntRange(-2, 0).Draw(t, "level")})
				m.Rollback(mark)
			case 5: // a node comes back as it was, if it has left
				told := told(n)
				told.Version = version
				m.Apply(&api.Change{Node: &told})
			case 6: // a node leaves; its pods stay
				m.Apply(&api.Change{Gone: &api.Ref{Kind: api.KindNode, Key: n, Version: version}})
			case 7: // a node gets a label
				told := told(n)
				told.Version, told.Labels = version, maps.Clone(told.Labels)
				told.Labels[fmt.Sprint("key", rapid.IntRange(5, 7).Draw(t, "key"))] = rapid.SampledFrom([]string{"a", "b", n}).Draw(t, "value")
				m.Apply(&api.Change{Node: &told})
			case 8: // a node gets other GPUs
				told := told(n)
				told.Version, told.Allocatable = version, api.Resources{{Resource: gpu, Value: rapid.Int64Range(3, 5).Draw(t, "GPUs")}, {Resource: api.Pods, Value: 9}}
				m.Apply(&api.Change{Node: &told})
			}
			m.Freshen()
			x.Refresh()
			if rapid.Bool().Draw(t, "check") {
				if found := check(x); len(found) > 0 {
					t.Fatalf("found %v", found)
				}
				checkCertificates(t, x)
			}
		}
		if found := check(x); len(found) > 0 {
			t.Fatalf("at the end: %v", found)
		}
	})
}

// A node that gets a label which no node had is closed to every class of a shape that rules the label out. Classes of one
// shape share what node kinds mean to it: the first one that is brought up to date works that out, and the others still have
// to take the node out of their sums.
func TestFreshLabelClosesNodeToAllClassesOfShape(t *testing.T) {
	m := racks()
	x := New(m)
	x.Refresh()
	classes := func() (out []*Class) {
		for priority := range int32(3) {
			out = append(out, x.ClassOf(ClassKey{Shape: m.ShapeOf(m.Pods["p2"]), Priority: priority}, nil))
		}
		return out
	}
	classes()
	told := *m.Nodes["n0"].Told
	told.Version, told.Labels = 2, map[string]string{"rack": "0", "key7": "a"}
	m.Apply(&api.Change{Node: &told})
	m.Freshen()
	x.Refresh()
	for _, c := range classes() {
		if c.Total != 5 { // three GPUs each, on nodes with four
			t.Errorf("of priority %d, %d fit, and 5 nodes are open", c.Priority, c.Total)
		}
	}
	if found := check(x); len(found) > 0 {
		t.Errorf("found %v", found)
	}
}

// A class that is for no node of a bucket shares the cells of that bucket with others, until one is. Whatever came and went
// there meanwhile, it then counts the bucket as it is.
func TestShutBucketOpens(t *testing.T) {
	m := racks()
	x := New(m)
	x.Refresh()
	shut := func() (c *Class, buckets int) {
		c = x.ClassOf(ClassKey{Shape: m.ShapeOf(m.Pods["p5"])}, nil) // for nodes with key5, of which there are none
		for i := range c.ByBucket {
			if c.ByBucket[i].shared {
				buckets++
			}
		}
		return c, buckets
	}
	told := func(change api.Change) {
		m.Apply(&change)
		m.Freshen()
		x.Refresh()
	}
	is := func(buckets int, total int64) {
		t.Helper()
		if c, shared := shut(); shared != buckets || c.Total != total {
			t.Errorf("%d buckets are shut and %d pods fit, want %d and %d", shared, c.Total, buckets, total)
		}
		if found := check(x); len(found) > 0 {
			t.Errorf("found %v", found)
		}
	}
	is(2, 0)
	mark := m.Mark()
	m.PutOn(m.Pods["p0"], m.Nodes["n1"], nil)
	is(2, 0)
	m.Rollback(mark)
	is(2, 0)
	full := *m.Pods["p2"].Pod
	full.Version, full.Node = 2, "n0"
	told(api.Change{Pod: &full})
	is(2, 0)
	for i, total := range []int64{0, 1} { // n0 has too little left, and n1 has room
		n := *m.Nodes[fmt.Sprint("n", i)].Told
		n.Version, n.Labels = 2, map[string]string{"rack": "0", "key5": "a"}
		told(api.Change{Node: &n})
		is(1, total)
	}
	gone := full
	gone.Version, gone.Node = 3, ""
	told(api.Change{Pod: &gone})
	is(1, 2)
}

// Resources hold as many pods as the scarcest of them does, also where products of amounts overflow.
func TestQuotientIsTheLeast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var free quantity.Vector
		var demands []quantity.Demand
		want := int64(math.MaxInt64)
		for dim := range rapid.IntRange(0, 4).Draw(t, "resources") {
			has := rapid.OneOf(rapid.Int64Range(-5, 100), rapid.Int64Range(0, math.MaxInt64)).Draw(t, "free")
			asks := rapid.OneOf(rapid.Int64Range(1, 20), rapid.Int64Range(1, api.MaxAmount)).Draw(t, "amount")
			free.Add(dim, has)
			demands = append(demands, quantity.Demand{Dim: dim, Amount: asks})
			want = min(want, max(0, has/asks))
		}
		if got := Quotient(free, demands); got != want {
			t.Errorf("%v holds %v %d times, want %d", free, demands, got, want)
		}
		v := &view{nodes: 1, ifEvicted: slices.Concat(free, make([]int64, 4))}
		if got := v.evictedQuotient(0, demands); got != want {
			t.Errorf("%v holds %v %d times in the view, want %d", free, demands, got, want)
		}
	})
}

// The check finds a count that is wrong, of a node, a bucket and a domain, and a best node that is not.
func TestCheckFindsWrongCounts(t *testing.T) {
	for name, tamper := range map[string]func(*Class){
		"node":   func(c *Class) { c.ByBucket[0].Cells[1].Fits++ },
		"bucket": func(c *Class) { c.ByBucket[0].sum-- },
		"domain": func(c *Class) { c.Sums[0]++ },
		"total":  func(c *Class) { c.Total++ },
		"top":    func(c *Class) { c.tops[0]-- },
		"best":   func(c *Class) { c.ByBucket[0].best++ },
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

// What is kept of certificates is what would be counted anew, while a plan is tried, after part of it was rolled back, and
// when nodes have changed.
func TestKeptCertificatesFollowTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := racks()
		x := New(m)
		x.Refresh()
		version, marks := uint64(1), []cluster.Mark(nil)
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			n := m.Nodes[rapid.SampledFrom(cluster.SortedKeys(m.Nodes)).Draw(t, "node")]
			p := m.Pods[rapid.SampledFrom(cluster.SortedKeys(m.Pods)).Draw(t, "pod")]
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0: // a pod is tried on a node
				if p.Host == nil && p.In != nil {
					marks = append(marks, m.Mark())
					m.PutOn(p, n, nil)
				}
			case 1: // it is tried what would be if it were gone
				if p.Host != nil {
					marks = append(marks, m.Mark())
					m.Remove(p)
				}
			case 2: // some of it is rolled back
				if len(marks) > 0 {
					i := rapid.IntRange(0, len(marks)-1).Draw(t, "mark")
					m.Rollback(marks[i])
					marks = marks[:i]
				}
			case 3: // all of it is, and a pod is bound, or ends
				m.Rollback(0)
				marks, version = nil, version+1
				told := *p.Pod
				told.Version = version
				if told.Node == "" {
					told.Node = n.Name
				} else {
					told.Node = ""
				}
				m.Apply(&api.Change{Pod: &told})
				m.Freshen()
				x.Refresh()
			}
			q := Question{
				Class: ClassKey{Shape: m.ShapeOf(p)}, Need: 9,
				Level: rapid.SampledFrom([]int{cluster.AnyLevel, cluster.NodeLevel, m.Level("rack")}).Draw(t, "level"),
			}
			c := x.ClassOf(q.Class, nil)
			kept, _ := x.Certify(c, q)
			x.classes.forgetMasks()
			counted, _ := x.Certify(c, q)
			if diff := cmp.Diff(counted, kept); diff != "" {
				t.Fatalf("- counted, + kept: %s", diff)
			}
		}
	})
}

// Certificates of many racks are added up in parts, of which only those are added up again where room changed.
func TestCertificatesOfManyRacks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		config, _ := api.Config{Levels: []api.Level{{Name: "rack", Label: "rack"}}}.Normal()
		m := cluster.NewModel(config)
		snap := api.Snapshot{Version: api.SnapshotVersion}
		for i := range 40 {
			snap.Nodes = append(snap.Nodes, api.Node{
				Name: fmt.Sprintf("n%02d", i), Version: 1, Labels: map[string]string{"rack": fmt.Sprint(i), "key7": fmt.Sprint(i % 3)},
				Allocatable: api.Resources{{Resource: gpu, Value: int64(2 + i%2)}, {Resource: api.Pods, Value: 9}},
			})
		}
		for i := range 4 {
			snap.Pods = append(snap.Pods, api.Pod{Key: fmt.Sprintf("p%d", i), Version: 1, Spec: api.Spec{Requests: gpus(int64(1 + i%3))}})
		}
		snap.Pods[3].Spec.Selector = map[string]string{"key7": "1"}
		m.LoadAll(&snap)
		m.Freshen()
		x := New(m)
		x.Refresh()
		for version := range uint64(rapid.IntRange(1, 4).Draw(t, "steps")) {
			p := m.Pods[rapid.SampledFrom(cluster.SortedKeys(m.Pods)).Draw(t, "pod")]
			n := rapid.SampledFrom(cluster.SortedKeys(m.Nodes)).Draw(t, "node")
			if rapid.Bool().Draw(t, "cordons") {
				told := *m.Nodes[n].Told
				told.Version, told.Cordoned = version+2, !told.Cordoned
				m.Apply(&api.Change{Node: &told})
			} else {
				told := *p.Pod
				told.Version, told.Node = version+2, n
				m.Apply(&api.Change{Pod: &told})
			}
			m.Freshen()
			x.Refresh()
			checkCertificates(t, x)
		}
	})
}

// What could fit once more is free is added up by node, by domain and in all, of the nodes that are for the class.
func TestCouldHold(t *testing.T) {
	m := racks()
	m.PutOn(m.Pods["p4"], m.Nodes["n0"], nil) // 2 of 4 GPUs are free there,
	m.PutOn(m.Pods["p2"], m.Nodes["n1"], nil) // 1 there
	m.PutOn(m.Pods["p0"], m.Nodes["n2"], nil) // and 3 there
	x := New(m)
	x.Refresh()
	freed := func(gpus map[string]int64) func(func(*cluster.Node, int, int64)) {
		return func(add func(*cluster.Node, int, int64)) {
			for _, n := range cluster.SortedKeys(gpus) {
				add(m.Nodes[n], m.Dims.ID(gpu), gpus[n]-1)
				add(m.Nodes[n], m.Dims.ID(gpu), 1)
				add(m.Nodes[n], m.Dims.ID(api.CPU), 1000) // which nobody asks for
			}
		}
	}
	for _, c := range []struct {
		pod             string // of the class
		gpus            map[string]int64
		node, rack, all int64
	}{
		{"p2", nil, 1, 3, 4},
		{"p2", map[string]int64{"n0": 1}, 1, 3, 5},
		{"p2", map[string]int64{"n0": 4, "n1": 5}, 2, 5, 8},
		{"p5", map[string]int64{"n0": 4, "n1": 5}, 0, 0, 0}, // no node has its label
	} {
		class := x.ClassOf(ClassKey{Shape: m.ShapeOf(m.Pods[c.pod])}, nil)
		for _, q := range []struct {
			level int
			want  int64
		}{{cluster.NodeLevel, c.node}, {m.Level("rack"), c.rack}, {cluster.AnyLevel, c.all}} {
			if got := x.CouldHold(class, q.level, freed(c.gpus)); got != q.want {
				t.Errorf("%s with %v: %d at level %d, want %d", c.pod, c.gpus, got, q.level, q.want)
			}
		}
	}
}

// A trial that was rolled back leaves what was counted before it as it is, of the nodes that it touched too.
func TestRolledBackTrialsCostNoCertificate(t *testing.T) {
	m := racks()
	x := New(m)
	x.Refresh()
	c := x.ClassOf(ClassKey{Shape: m.ShapeOf(m.Pods["p2"])}, nil)
	all, rack := x.bodyOf(c, cluster.AnyLevel), x.bodyOf(c, m.Level("rack"))
	rows := x.rowsOf(c, m.Nodes["n1"].Bucket)
	mark := m.Mark()
	m.PutOn(m.Pods["p1"], m.Nodes["n1"], nil)
	if c.counted(m.Nodes["n1"].Bucket) {
		t.Error("the trial does not show in the rows")
	}
	m.Rollback(mark)
	x.Use(c)
	if x.bodyOf(c, cluster.AnyLevel) != all || x.bodyOf(c, m.Level("rack")) != rack || x.rowsOf(c, m.Nodes["n1"].Bucket) != rows {
		t.Error("certificates are made anew though nothing has changed")
	}
}

// Pods that changed places before their trial was rolled back, as ranks are dealt, leave no count of the trial behind: neither
// in a class that was used in it nor in one that was not.
func TestDealtPodsAreRolledBack(t *testing.T) {
	m := racks()
	x := New(m)
	x.Refresh()
	used := x.ClassOf(ClassKey{Shape: m.ShapeOf(m.Pods["p0"])}, nil)
	x.ClassOf(ClassKey{Shape: m.ShapeOf(m.Pods["p2"])}, nil)
	mark := m.Mark()
	a, b, c := m.Pods["p0"], m.Pods["p1"], m.Pods["p3"]
	m.PutOn(a, m.Nodes["n0"], nil)
	m.PutOn(b, m.Nodes["n3"], nil)
	m.PutOn(c, m.Nodes["n4"], nil)
	a.Host.Pods[0], c.Host.Pods[0] = c, a
	a.Host, c.Host = c.Host, a.Host
	x.Use(used)
	m.Rollback(mark)
	if found := check(x); len(found) > 0 {
		t.Error(found)
	}
}

// A certificate counts every node once and proves what the counts say.
func TestCertificateCountsEveryNode(t *testing.T) {
	m := racks()
	x := New(m)
	x.Refresh()
	c := x.ClassOf(ClassKey{Shape: m.ShapeOf(m.Pods["p2"])}, nil) // 3 GPUs: one fits on each node
	cert, _ := x.Certify(c, Question{Need: 4, Level: m.Level("rack")})
	if len(cert.Domains) != 2 || cert.Domains[0].Fits != 3 || cert.Domains[1].Fits != 3 || cert.Total != 6 {
		t.Errorf("certificate is %+v", cert)
	}
}
