package queue

import (
	"testing"
	"time"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/quantity"
)

var noon = time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)

// two is a cluster of eight GPUs and two queues: one has a quota of two and runs a pod with four, the other waits for eight.
func two() *cluster.Model {
	gpus := func(n int64) api.Resources { return api.Resources{{Resource: "nvidia.com/gpu", Value: n}} }
	config, _ := api.Config{HalfLife: time.Hour}.Normal()
	m := cluster.NewModel(config)
	m.LoadAll(&api.Snapshot{
		Version: api.SnapshotVersion,
		Nodes:   []api.Node{{Name: "n", Version: 1, Allocatable: append(gpus(8), api.Amount{Resource: api.Pods, Value: 9})}},
		Queues:  []api.Queue{{Name: "a", Version: 1, Quota: gpus(2)}, {Name: "b", Version: 1}},
		Pods: []api.Pod{
			{Key: "runs", Version: 1, Queue: "a", Node: "n", Started: noon.Add(-time.Hour), Spec: api.Spec{Requests: gpus(4)}},
			{Key: "waits", Version: 1, Queue: "b", Spec: api.Spec{Requests: gpus(8)}},
		},
	})
	m.Freshen()
	return m
}

// Each queue has its quota as far as it needs it, and what is left is divided by weight.
func TestFairSharesBeginWithQuota(t *testing.T) {
	m := two()
	NewLedger(m).FairShares(noon)
	a, b := m.Queues["a"].Fair.At(quantity.DimGPU)/api.Whole, m.Queues["b"].Fair.At(quantity.DimGPU)/api.Whole
	if a < 2 || a > 4 || a+b != 8 {
		t.Errorf("the shares are %d and %d of 8", a, b)
	}
}

// Use accrues from one call to the next, comes back as memory, and is not counted twice.
func TestAccrueCountsOnce(t *testing.T) {
	m := two()
	l := NewLedger(m)
	accrue := func(now time.Time) {
		for i, c := range l.Accrue(now) {
			if c.Usage != nil {
				c.Usage.Version = m.Latest + uint64(i) + 1
			}
			m.Apply(&c)
		}
		m.Freshen()
	}
	accrue(noon)
	before := m.Usages["a"].Total
	accrue(noon.Add(10 * time.Minute))
	if got := m.Usages["a"].Total - before; got != 4*600 {
		t.Errorf("4 GPUs for 10 minutes are %d GPU-seconds", got)
	}
	accrue(noon.Add(10 * time.Minute))
	if got := m.Usages["a"].Total - before; got != 4*600 {
		t.Errorf("after asking again they are %d", got)
	}
}
