package engine_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-dev/berth/engine"
)

// groupLoss is a gang of groups that fills a node, and what a plan evicts of it.
type groupLoss struct {
	gang  engine.Gang
	least []int // of each group
	has   []int
}

// lawful says whether the gang may be left with so many members of each group: with all or none where it is disrupted whole. Of another
// the first groups that its minimum needs keep their own minimums, the others may go. A group that is disrupted whole keeps all or none.
func (l *groupLoss) lawful(left []int) bool {
	if slices.Max(left) == 0 {
		return true
	}
	for i, n := range left {
		switch {
		case n == l.has[i]:
		case l.gang.Whole, n > 0 && (l.gang.Groups[i].Whole || n < l.least[i]), n == 0 && i < l.gang.MinGroups:
			return false
		}
	}
	return true
}

// Of a gang of groups goes what its minimums and its groups' disruption modes allow, nothing of which could stay.
func TestVictimsOfGroups(t *testing.T) {
	cases, parts := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		cases++
		l := groupLoss{gang: engine.Gang{Key: "g", Version: 1, Priority: 1}}
		l.gang.Whole = seldom(t, 5)
		var pods []engine.Pod
		count := 1 + upTo(t, 3)
		l.gang.MinGroups = 1 + upTo(t, count-1)
		for i := range count {
			name := fmt.Sprint("g", i)
			has := 1 + upTo(t, 3)
			least := 1 + upTo(t, has-1)
			l.has, l.least = append(l.has, has), append(l.least, least)
			l.gang.Groups = append(l.gang.Groups, engine.Group{Name: name, Min: least, Whole: seldom(t, 2)})
			for j := range has {
				pods = append(pods, engine.Pod{
					Key: fmt.Sprintf("%s-%d", name, j), UID: "u", Version: 1, Gang: "g", Subgroup: name, Rank: j, Evictable: true, Node: "n",
					Spec: gpus(1), Started: noon.Add(-time.Hour - time.Duration(upTo(t, 30))*time.Minute),
				})
			}
		}
		needs := 1 + upTo(t, len(pods)-1)
		pods = append(pods, engine.Pod{Key: "new", Version: 1, Priority: 5, Spec: gpus(int64(needs))})
		plan := engine.Schedule(engine.Snapshot{
			Version: engine.SnapshotVersion, Nodes: []engine.Node{{Name: "n", Version: 1, Allocatable: slices.Concat(gpus(int64(len(pods)-1)).Requests, engine.Resources{{Resource: engine.Pods, Value: 100}})}}, Gangs: []engine.Gang{l.gang}, Pods: pods,
		}, noon, engine.Config{})
		left := slices.Clone(l.has)
		for _, e := range plan.Evictions {
			i := slices.IndexFunc(l.gang.Groups, func(g engine.Group) bool { return e.Pod[:len(g.Name)] == g.Name })
			left[i]--
		}
		if len(plan.Evictions) < needs || !l.lawful(left) {
			t.Fatalf("%+v of %v: %v stay where %d are to go\n%s", l.gang, l.has, left, needs, engine.Describe(plan))
		}
		// Nothing lawful that stays more than this frees enough.
		more := slices.Clone(left)
		for next(more, left, l.has) {
			gone := 0
			for i := range more {
				gone += l.has[i] - more[i]
			}
			if gone >= needs && l.lawful(more) {
				t.Fatalf("%+v of %v: %v stay where %d are to go, and %v could\n%s", l.gang, l.has, left, needs, more, engine.Describe(plan))
			}
		}
		if slices.Max(left) > 0 {
			parts++
		}
	})
	if cases >= 50 && parts == 0 {
		t.Error("every gang went whole")
	}
}

// next counts up the digits, each from its least to its most; false: they are at their most.
func next(digits, least, most []int) bool {
	for i := range digits {
		if digits[i] < most[i] {
			digits[i]++
			return true
		}
		digits[i] = least[i]
	}
	return false
}

// A group that is being bound may be refused by its node: until it runs it keeps no minimum for which another group could go.
func TestGroupOnItsWayKeepsNoMinimum(t *testing.T) {
	gang := engine.Gang{Key: "g", Version: 1, Group: engine.Group{MinGroups: 1}, Groups: []engine.Group{{Name: "a", Min: 1}, {Name: "b", Min: 1}}}
	member := func(group string) engine.Pod {
		return engine.Pod{Key: "g-" + group, UID: "u", Version: 1, Gang: "g", Subgroup: group, Evictable: true, Spec: gpus(1)}
	}
	a, b := member("a"), member("b")
	a.Node, a.Started = "n0", noon.Add(-time.Hour)
	node := func(name string) engine.Node {
		return engine.Node{Name: name, Version: 1, Allocatable: slices.Concat(gpus(1).Requests, engine.Resources{{Resource: engine.Pods, Value: 100}})}
	}
	snap := engine.Snapshot{
		Version: engine.SnapshotVersion, Nodes: []engine.Node{node("n0"), node("n1")}, Gangs: []engine.Gang{gang},
		Pods:        []engine.Pod{a, b, {Key: "new", UID: "u", Version: 1, Priority: 5, Spec: gpus(1)}},
		Assumptions: []engine.Assumption{{Pod: "g-b", UID: "u", Version: 1, Node: "n1", Until: noon.Add(time.Minute)}},
	}
	if plan := engine.Schedule(snap, noon, engine.Config{}); len(plan.Evictions) > 0 {
		t.Errorf("while group b is on its way:\n%s", engine.Describe(plan))
	}
	snap.Pods[1].Node, snap.Pods[1].Started, snap.Assumptions = "n1", noon.Add(-time.Hour), nil
	if plan := engine.Schedule(snap, noon, engine.Config{}); len(plan.Evictions) != 1 || plan.Evictions[0].Pod != "g-b" {
		t.Errorf("once it runs:\n%s", engine.Describe(plan))
	}
}
