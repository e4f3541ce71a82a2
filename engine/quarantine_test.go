package engine_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/engine"
)

// Work leaves nodes whose hardware is not trusted: gangs whole, members above the minimum by themselves, and nothing that nobody
// would make again, that would come back, that may not be evicted, or whose queue is frozen.
func TestWorkLeavesQuarantine(t *testing.T) {
	bad := func(y *yard, nodes ...int) *yard {
		for _, i := range nodes {
			y.snap.Nodes[i].Quarantine = "GpuXidErrorWatch"
			y.snap.Nodes[i].Cordoned = true
		}
		return y
	}
	owned := func(y *yard) *yard {
		for i := range y.snap.Pods {
			y.snap.Pods[i].Owner = "job"
		}
		return y
	}
	for _, c := range []struct {
		name string
		yard *yard
		want []string
	}{
		{"a pod", bad(owned(newYard(2, 2).queue("a", -1).runs("x", "a", "n0", 1).runs("y", "a", "n1", 1)), 0), []string{"x unhealthy for "}},
		{"a pod without a queue", bad(owned(newYard(2, 2).runs("x", "", "n0", 1)), 0), []string{"x unhealthy for "}},
		{"a gang, whole", bad(owned(newYard(3, 2).queue("a", -1).gang("g", "a", 2, 2, []string{"n0", "n1"}).runs("y", "a", "n2", 1)), 0), []string{"g-0 unhealthy for ", "g-1 unhealthy for "}},
		{"members above the minimum", bad(owned(newYard(3, 2).queue("a", -1).gang("g", "a", 1, 2, []string{"n0", "n1", "n2"})), 2), []string{"g-2 unhealthy for "}},
		{"nobody would make it again", bad(newYard(2, 2).queue("a", -1).runs("x", "a", "n0", 1), 0), nil},
		{"nobody would make one of the gang again", bad(func() *yard {
			y := owned(newYard(3, 2).queue("a", -1).gang("g", "a", 2, 2, []string{"n0", "n1"}))
			y.snap.Pods[1].Owner = ""
			return y
		}(), 0), nil},
		{"it may not be evicted", bad(owned(newYard(2, 2).queue("a", -1).runs("x", "a", "n0", 1, fixed)), 0), nil},
		{"its queue is frozen", bad(owned(newYard(2, 2).queue("a", -1, func(q *engine.Queue) { q.Frozen = true }).runs("x", "a", "n0", 1)), 0), nil},
		{"more than half of the nodes", bad(owned(newYard(3, 2).queue("a", -1).runs("x", "a", "n0", 1)), 0, 1), nil},
		{"half of the nodes", bad(owned(newYard(2, 2).queue("a", -1).runs("x", "a", "n0", 1)), 0), []string{"x unhealthy for "}},
		{"it would come back, for it tolerates the cordon", bad(owned(newYard(2, 2).queue("a", -1).runs("x", "a", "n0", 1, func(p *engine.Pod) { p.Tolerations = []engine.Toleration{{Op: "Exists"}} })), 0), nil},
		{"it would come back, for the node is open", func() *yard {
			y := bad(owned(newYard(2, 2).queue("a", -1).runs("x", "a", "n0", 1)), 0)
			y.snap.Nodes[0].Cordoned = false
			return y
		}(), nil},
		{"a taint closes it", func() *yard {
			y := bad(owned(newYard(2, 2).queue("a", -1).runs("x", "a", "n0", 1)), 0)
			y.snap.Nodes[0].Cordoned, y.snap.Nodes[0].Taints = false, []engine.Taint{{Key: "sick", Effect: engine.NoSchedule}}
			return y
		}(), []string{"x unhealthy for "}},
		{"no node", owned(newYard(2, 2).queue("a", -1).runs("x", "a", "n0", 1)), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			plan := c.yard.plan(t)
			if diff := cmp.Diff(c.want, victims(plan)); diff != "" {
				t.Errorf("evicted (-want +got):\n%s\n%s", diff, text(t, plan))
			}
			s := c.yard.load(t)
			s.Apply(s.Plan(noon).Changes...)
			if again := s.Plan(noon.Add(time.Second)); len(again.Evictions) > 0 {
				t.Errorf("evicted again: %q", victims(again))
			}
			if bad, _ := s.Audit(0, 1<<20); len(bad) > 0 {
				t.Errorf("audit: %v", bad)
			}
		})
	}
}

// The warning of a queue holds here too.
func TestQuarantineWarns(t *testing.T) {
	y := newYard(2, 2).queue("a", -1, func(q *engine.Queue) { q.Warning = time.Minute }).runs("x", "a", "n0", 1, func(p *engine.Pod) { p.Owner = "job" })
	y.snap.Nodes[0].Quarantine, y.snap.Nodes[0].Cordoned = "GpuXidErrorWatch", true
	plan := y.plan(t)
	if len(plan.Evictions) != 1 || !plan.Evictions[0].At.Equal(noon.Add(time.Minute)) {
		t.Errorf("evictions %+v", plan.Evictions)
	}
}
