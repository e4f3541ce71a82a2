package share_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/engine/internal/share"
)

// tableAfter returns the rows of the first table in the text that has the header.
func tableAfter(t *testing.T, text, header string) [][]string {
	t.Helper()
	_, rest, ok := strings.Cut(text, header+"\n")
	if !ok {
		t.Fatalf("README.md has no table %q", header)
	}
	var rows [][]string
	for _, line := range strings.Split(rest, "\n")[1:] {
		if !strings.HasPrefix(line, "|") {
			break
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, cells)
	}
	return rows
}

func amounts(t *testing.T, cell string) []int64 {
	t.Helper()
	if cell == "" {
		return nil
	}
	var out []int64
	for _, f := range strings.Split(cell, ",") {
		if f = strings.TrimSpace(f); f == "-" {
			f = "-1"
		}
		out = append(out, number(t, f))
	}
	return out
}

func number(t *testing.T, s string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// The example of the README is what the code does.
func TestExampleOfTheReadme(t *testing.T) {
	data, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := tableAfter(t, string(data), "| node | parent | priority | weight | used | quota | limit | asks for |")
	var nodes []share.Node
	for _, row := range rows {
		parent := slices.IndexFunc(rows, func(r []string) bool { return r[0] == row[1] })
		nodes = append(nodes, share.Node{
			Name: row[0], Parent: parent, Priority: int32(number(t, row[2])), Weight: number(t, row[3]), Used: number(t, row[4]),
			Quota: amounts(t, row[5]), Limit: amounts(t, row[6]), Request: amounts(t, row[7]),
		})
	}
	want := map[string][]int64{}
	for _, row := range tableAfter(t, string(data), "| node | share |") {
		want[row[0]] = amounts(t, row[1])
	}
	got := map[string][]int64{}
	for i, v := range share.Fair(nodes, []int64{40, 400}) {
		got[nodes[i].Name] = v
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("shares (-README +code):\n%s", diff)
	}
	users := share.Equal([]string{"cem", "ben", "ana"}, [][]int64{{2}, {9}, {9}}, []int64{17})
	if diff := cmp.Diff([][]int64{{2}, {7}, {8}}, users); diff != "" {
		t.Errorf("users (-README +code):\n%s", diff)
	}
	cut := share.Fair([]share.Node{{Name: "a", Parent: -1, Quota: []int64{10}, Request: []int64{99}}, {Name: "b", Parent: -1, Quota: []int64{5}, Request: []int64{99}}}, []int64{9})
	if diff := cmp.Diff([][]int64{{6}, {3}}, cut); diff != "" {
		t.Errorf("quotas cut (-README +code):\n%s", diff)
	}
}

func top(name string, request ...int64) share.Node {
	return share.Node{Name: name, Parent: -1, Request: request}
}

func TestFair(t *testing.T) {
	with := func(n share.Node, edit func(*share.Node)) share.Node { edit(&n); return n }
	weight := func(n share.Node, w int64) share.Node { return with(n, func(n *share.Node) { n.Weight = w }) }
	used := func(n share.Node, u int64) share.Node { return with(n, func(n *share.Node) { n.Used = u }) }
	quota := func(n share.Node, q ...int64) share.Node { return with(n, func(n *share.Node) { n.Quota = q }) }
	limit := func(n share.Node, l ...int64) share.Node { return with(n, func(n *share.Node) { n.Limit = l }) }
	below := func(n share.Node, p int) share.Node { return with(n, func(n *share.Node) { n.Parent = p }) }
	first := func(n share.Node, p int32) share.Node { return with(n, func(n *share.Node) { n.Priority = p }) }
	type nodes = []share.Node
	type shares = [][]int64
	for _, tt := range []struct {
		name  string
		nodes nodes
		total []int64
		want  shares
	}{
		{"nothing to have", nodes{top("a", 5)}, []int64{0}, shares{{0}}},
		{"nobody asks", nodes{top("a"), quota(top("b"), 5)}, []int64{8}, shares{{0}, {0}}},
		{"a negative total", nodes{top("a", 5)}, []int64{-3}, shares{{0}}},
		{"more than all ask for", nodes{top("a", 5), top("b", 2)}, []int64{9}, shares{{5}, {2}}},
		{"halves, the odd one by name", nodes{top("b", 9), top("a", 9)}, []int64{7}, shares{{3}, {4}}},
		{"weights one to three", nodes{top("a", 99), weight(top("b", 99), 3)}, []int64{8}, shares{{2}, {6}}},
		{"what one does not want is the others'", nodes{top("a", 1), top("b", 9), top("c", 9)}, []int64{9}, shares{{1}, {4}, {4}}},
		{"a limit is kept", nodes{limit(top("a", 9), 2), top("b", 9)}, []int64{9}, shares{{2}, {7}}},
		{"a limit below the quota", nodes{limit(quota(top("a", 9), 5), 2)}, []int64{9}, shares{{2}}},
		{"quota before weight", nodes{quota(top("a", 9), 6), weight(top("b", 9), 100)}, []int64{8}, shares{{6}, {2}}},
		{"quota before priority", nodes{quota(top("a", 9), 6), first(top("b", 9), 1)}, []int64{8}, shares{{6}, {2}}},
		{"a higher priority has all first", nodes{top("a", 9), first(top("b", 5), 1)}, []int64{8}, shares{{3}, {5}}},
		{"quotas cut, largest remainder", nodes{quota(top("a", 9), 1), quota(top("b", 9), 1), quota(top("c", 9), 5)}, []int64{3}, shares{{1}, {0}, {2}}},
		{"who asks for little of its quota keeps it", nodes{quota(top("a", 1), 10), quota(top("b", 10), 10)}, []int64{6}, shares{{1}, {5}}},
		{"the classic of dominant shares: 9 CPUs, 18 GB, tasks of 1 and 4, of 3 and 1", nodes{top("a", 100, 400), top("b", 300, 100)}, []int64{9, 18}, shares{{3, 14}, {6, 4}}},
		{"a resource that is not there does not hold back the others", nodes{top("a", 4, 5), top("b", 4, 0)}, []int64{8, 0}, shares{{4, 0}, {4, 0}}},
		{"a resource that quotas used up neither", nodes{top("a", 10, 1), quota(top("b", 10, 4), 0, 4)}, []int64{10, 4}, shares{{5, 0}, {5, 4}}},
		{"the past counts", nodes{used(top("a", 99), 3), used(top("b", 99), 1)}, []int64{8}, shares{{2}, {6}}},
		{"and leaves a tenth", nodes{used(top("a", 99), 9), top("b", 99)}, []int64{31}, shares{{1}, {30}}},
		{"to each below a parent", nodes{top("p"), below(top("a", 9), 0), below(top("b", 9), 0), top("q", 9)}, []int64{8}, shares{{4}, {2}, {2}, {4}}},
		{"a limit above binds below", nodes{below(top("a", 9), 1), limit(top("p"), 3)}, []int64{8}, shares{{3}, {3}}},
		{"a quota that the parent does not have", nodes{below(quota(top("a", 9), 8), 1), quota(top("p"), 2), quota(top("q", 9), 6)}, []int64{8}, shares{{2}, {2}, {6}}},
		{"a circle has no share", nodes{{Name: "a", Parent: 1, Request: []int64{5}}, {Name: "b", Parent: 0, Request: []int64{5}}, top("c", 9)}, []int64{8}, shares{{0}, {0}, {8}}},
		{"requests beyond all bounds", nodes{top("a", 1<<62), top("b", 1<<62), quota(top("c", 1<<62), 1<<62)}, []int64{1 << 40}, shares{{0}, {0}, {1 << 40}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, share.Fair(tt.nodes, tt.total)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// anyTree draws a forest of up to twelve nodes and a total.
func anyTree(t *rapid.T) ([]share.Node, []int64) {
	dims := rapid.IntRange(1, 3).Draw(t, "resources")
	vector := func(low, high int64, name string) []int64 {
		return rapid.SliceOfN(rapid.Int64Range(low, high), dims, dims).Draw(t, name)
	}
	n := rapid.IntRange(1, 12).Draw(t, "nodes")
	nodes := make([]share.Node, n)
	for i := range nodes {
		nodes[i] = share.Node{
			Name: fmt.Sprintf("n%02d", i), Parent: rapid.IntRange(-1, i-1).Draw(t, "parent"),
			Priority: int32(rapid.IntRange(0, 1).Draw(t, "priority")), Weight: rapid.Int64Range(0, 5).Draw(t, "weight"),
			Quota: vector(0, 8, "quota"), Request: vector(0, 40, "request"),
		}
		if rapid.Bool().Draw(t, "limited") {
			nodes[i].Limit = vector(-1, 30, "limit")
		}
		if rapid.Bool().Draw(t, "with a past") {
			nodes[i].Used = rapid.Int64Range(0, 1000).Draw(t, "used")
		}
	}
	total := vector(0, 60, "total")
	if rapid.Bool().Draw(t, "bytes") {
		for i := range nodes {
			for _, v := range [][]int64{nodes[i].Quota, nodes[i].Request} {
				v[dims-1] = v[dims-1]<<40 + int64(i)*12345
			}
		}
		total[dims-1] <<= 40
	}
	return nodes, total
}

// asked is what each node asks for, within limits, worked out from the definition.
func asked(nodes []share.Node, dims int) [][]int64 {
	out := make([][]int64, len(nodes))
	for i := len(nodes) - 1; i >= 0; i-- { // parents come before children
		out[i] = make([]int64, dims)
		leaf := true
		for c := i + 1; c < len(nodes); c++ {
			if nodes[c].Parent == i {
				leaf = false
				for r := range dims {
					out[i][r] += out[c][r]
				}
			}
		}
		for r := range dims {
			if leaf {
				out[i][r] = nodes[i].Request[r]
			}
			if nodes[i].Limit != nil && nodes[i].Limit[r] >= 0 {
				out[i][r] = min(out[i][r], nodes[i].Limit[r])
			}
		}
	}
	return out
}

// No share is above what is asked for or the limit, children have no more than their parent, quotas are kept where
// they can be, and nothing is left over that is asked for.
func TestBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes, total := anyTree(t)
		ask := asked(nodes, len(total))
		got := share.Fair(nodes, total)
		for parent := -1; parent < len(nodes); parent++ {
			have := total
			if parent >= 0 {
				have = got[parent]
			}
			for r := range total {
				var sum, quotas, open, kids int64
				for i := range nodes {
					if nodes[i].Parent != parent {
						continue
					}
					kids++
					sum += got[i][r]
					quotas += min(nodes[i].Quota[r], ask[i][r])
					open += ask[i][r] - got[i][r]
					if got[i][r] < 0 || got[i][r] > ask[i][r] {
						t.Fatalf("%s has %d of %d, asks for %d", nodes[i].Name, got[i][r], r, ask[i][r])
					}
				}
				if sum > have[r] {
					t.Fatalf("below %d: %d of %d are dealt, of %d", parent, sum, r, have[r])
				}
				// Fixed point may leave a few parts of a very large total undealt.
				if slack := (total[r] >> 40) * (kids + 1); open > slack && have[r]-sum > slack && kids > 0 {
					t.Fatalf("below %d: %d of %d are left, and %d asked for", parent, have[r]-sum, r, open)
				}
				for i := range nodes {
					if nodes[i].Parent == parent && quotas <= have[r] && got[i][r] < min(nodes[i].Quota[r], ask[i][r]) {
						t.Fatalf("%s has %d of %d, less than its quota of %d", nodes[i].Name, got[i][r], r, nodes[i].Quota[r])
					}
				}
			}
		}
	})
}

// The order of the nodes is nobody's business.
func TestOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes, total := anyTree(t)
		at := make([]int, len(nodes))
		for i := range at {
			at[i] = i
		}
		perm := rapid.Permutation(at).Draw(t, "order")
		shuffled := make([]share.Node, len(nodes))
		for i, to := range perm {
			shuffled[to] = nodes[i]
			if p := nodes[i].Parent; p >= 0 {
				shuffled[to].Parent = perm[p]
			}
		}
		want, got := share.Fair(nodes, total), share.Fair(shuffled, total)
		for i, to := range perm {
			if diff := cmp.Diff(want[i], got[to]); diff != "" {
				t.Fatalf("%s (-before +after):\n%s", nodes[i].Name, diff)
			}
		}
	})
}

// flat draws siblings of one resource, or of several, without a past.
func flat(t *rapid.T, dims int) ([]share.Node, []int64) {
	n := rapid.IntRange(1, 6).Draw(t, "nodes")
	nodes := make([]share.Node, n)
	for i := range nodes {
		nodes[i] = share.Node{
			Name: fmt.Sprintf("n%02d", i), Parent: -1, Weight: rapid.Int64Range(1, 4).Draw(t, "weight"),
			Request: rapid.SliceOfN(rapid.Int64Range(0, 30), dims, dims).Draw(t, "request"),
		}
	}
	return nodes, rapid.SliceOfN(rapid.Int64Range(1, 40), dims, dims).Draw(t, "total")
}

// Who asks for more, or weighs more, never gets less of it.
func TestMoreIsNotLess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes, total := flat(t, 1)
		for i := range nodes {
			nodes[i].Quota = []int64{rapid.Int64Range(0, 10).Draw(t, "quota")}
		}
		i := rapid.IntRange(0, len(nodes)-1).Draw(t, "who")
		before := share.Fair(nodes, total)[i][0]
		if rapid.Bool().Draw(t, "weight") {
			nodes[i].Weight += rapid.Int64Range(1, 5).Draw(t, "more")
		} else {
			nodes[i].Request = []int64{nodes[i].Request[0] + rapid.Int64Range(1, 20).Draw(t, "more")}
		}
		if after := share.Fair(nodes, total)[i][0]; after < before {
			t.Fatalf("%s had %d and has %d", nodes[i].Name, before, after)
		}
	})
}

// Nobody that does not have all sees another of its priority and weight with more of everything that it asks for. By
// more a unit is meant of one resource; of several, two, as each round of dealing may round one way.
func TestNoEnvy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes, total := flat(t, rapid.IntRange(1, 3).Draw(t, "resources"))
		for i := range nodes {
			nodes[i].Weight = 1
		}
		got := share.Fair(nodes, total)
		more := int64(min(2, len(total)))
		for i := range nodes {
			for j := range nodes {
				envy, asks := true, false
				for r, ask := range nodes[i].Request {
					asks = asks || ask > 0
					envy = envy && (ask == 0 || got[i][r] < ask && got[j][r] > got[i][r]+more)
				}
				if envy && asks {
					t.Fatalf("%s has %v, asks for %v and would rather have the %v of %s, of %v", nodes[i].Name, got[i], nodes[i].Request, got[j], nodes[j].Name, total)
				}
			}
		}
	})
}

// level is the dominant part of a share, by weight, over a common denominator.
func level(n *share.Node, got, total []int64) int64 {
	var worst int64
	for r, g := range got {
		worst = max(worst, g*720720/total[r])
	}
	return worst / n.Weight
}

// Of one resource: no division of whole units has a higher lowest level, then a higher second lowest, and so on,
// by more than a unit. Brute force over all of them.
func TestLevelsAreMaxMin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 3).Draw(t, "nodes")
		total := []int64{rapid.Int64Range(1, 9).Draw(t, "total")}
		nodes := make([]share.Node, n)
		for i := range nodes {
			nodes[i] = share.Node{Name: fmt.Sprint(i), Parent: -1, Weight: rapid.Int64Range(1, 3).Draw(t, "weight"), Request: []int64{rapid.Int64Range(0, 9).Draw(t, "request")}}
		}
		got := share.Fair(nodes, total)
		best := bestLevels(nodes, total[0], make([]int64, n), 0, nil)
		for i, v := range levelsOf(nodes, total, got) {
			if v+720720/total[0] < best[i] {
				t.Fatalf("%v of %v for %+v: levels %v, and %v are possible", got, total, nodes, levelsOf(nodes, total, got), best)
			}
		}
	})
}

// levelsOf lists the levels of all, the lowest first.
func levelsOf(nodes []share.Node, total []int64, got [][]int64) []int64 {
	out := make([]int64, 0, len(nodes))
	for i := range nodes {
		out = append(out, level(&nodes[i], got[i], total))
	}
	slices.Sort(out)
	return out
}

func bestLevels(nodes []share.Node, total int64, give []int64, i int, best []int64) []int64 {
	if i == len(nodes) {
		var sum int64
		shares := make([][]int64, len(give))
		for k, g := range give {
			sum += g
			shares[k] = []int64{g}
		}
		if sum > total {
			return best
		}
		if v := levelsOf(nodes, []int64{total}, shares); best == nil || slices.Compare(v, best) > 0 {
			return v
		}
		return best
	}
	for g := int64(0); g <= min(total, nodes[i].Request[0]); g++ {
		give[i] = g
		best = bestLevels(nodes, total, give, i+1, best)
	}
	return best
}

// Of two resources: no bundles of whole units in proportion to what is asked for have a higher lowest level, by more
// than a unit of either resource.
func TestLowestLevelOfBundles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes, total := flat(t, 2)
		got := share.Fair(nodes, total)
		// The lowest level that all can reach, or have all they ask for before: raised in steps until a resource ends.
		const steps = 20000
		reach := 0
		for k := range steps {
			sum := make([]int64, len(total)) // in parts of 1/steps of a unit, times 720720
			for i := range nodes {
				n := &nodes[i]
				full := level(&share.Node{Weight: 1}, n.Request, total)
				if full == 0 {
					continue
				}
				x := min(full*steps, int64(k)*720720*n.Weight)
				for r, ask := range n.Request {
					sum[r] += ask * (x / full)
				}
			}
			if sum[0] > total[0]*steps || sum[1] > total[1]*steps {
				break
			}
			reach = k
		}
		for i := range nodes {
			n := &nodes[i]
			for r, ask := range n.Request {
				full := level(&share.Node{Weight: 1}, n.Request, total)
				if full == 0 {
					continue
				}
				x := min(full*steps, int64(reach)*720720*n.Weight)
				if want := ask * (x / full) / steps; got[i][r] < want-1 {
					t.Fatalf("%s of %+v has %v of %v, and %d of %d are possible", n.Name, nodes, got[i], total, want, r)
				}
			}
		}
	})
}

func FuzzFair(f *testing.F) {
	f.Add([]byte("a tree of some nodes with amounts"))
	f.Fuzz(func(t *testing.T, data []byte) {
		next := func() int64 {
			if len(data) == 0 {
				return 0
			}
			b := data[0]
			data = data[1:]
			return int64(b&31) << (b >> 5 * 8) // up to 2^61
		}
		total := []int64{next(), next()}
		var nodes []share.Node
		for len(data) > 0 && len(nodes) < 20 {
			nodes = append(nodes, share.Node{
				Name: fmt.Sprint(len(nodes)), Parent: int(next()%21) - 1, Priority: int32(next() % 3), Weight: next() - 1, Used: next(),
				Quota: []int64{next(), next()}, Request: []int64{next(), next()}, Limit: []int64{next() - 1, next() - 1},
			})
		}
		got := share.Fair(nodes, total)
		for r := range total {
			var sum int64
			for i, n := range nodes {
				if got[i][r] < 0 || n.Limit[r] >= 0 && got[i][r] > n.Limit[r] {
					t.Fatalf("%s has %d of %d", n.Name, got[i][r], r)
				}
				if n.Parent < 0 {
					sum += got[i][r]
				}
			}
			if sum > total[r] {
				t.Fatalf("%d of %d dealt", sum, total[r])
			}
		}
	})
}

// BenchmarkShares1000: 1,000 queues in a tree of depth 3, three resources, quotas, limits, weights, priorities, a past.
func BenchmarkShares1000(b *testing.B) {
	nodes, total := share.Thousand()
	b.ReportAllocs()
	for b.Loop() {
		share.Fair(nodes, total)
	}
}
