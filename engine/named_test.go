package engine_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/engine"
)

// shared is a node whose cards are named after it, and give parts.
func shared(name, model string, cards int) engine.Node {
	n := engine.Node{Name: name, Allocatable: engine.Resources{{Resource: gpu, Value: int64(cards)}, {Resource: engine.Pods, Value: 20}}}
	for i := range cards {
		n.Devices = append(n.Devices, engine.Device{ID: name + "/GPU-" + name + string(rune('a'+i)), Model: model, Memory: 1000, Parts: 10})
	}
	return n
}

// TestNamedGPUs has pods that may have some GPUs only: by name, not by name, and by what they are not.
func TestNamedGPUs(t *testing.T) {
	for name, c := range map[string]struct {
		part *engine.Part
		ask  int64
		gpu  engine.GPU
		want string // node and devices, or a piece of why it waits
	}{
		"a part of one":        {part: &engine.Part{Cards: 1, Memory: 10}, gpu: engine.GPU{Only: []string{"GPU-n1b"}}, want: "n1 [n1/GPU-n1b]"},
		"a whole one":          {ask: 1, gpu: engine.GPU{Only: []string{"GPU-n1b"}}, want: "n1 [n1/GPU-n1b]"},
		"two of three":         {ask: 2, gpu: engine.GPU{Only: []string{"GPU-n0a", "GPU-n1a", "GPU-n1b"}}, want: "n1 [n1/GPU-n1a n1/GPU-n1b]"},
		"all but one":          {part: &engine.Part{Cards: 1, Memory: 10}, gpu: engine.GPU{Only: []string{"GPU-n0a", "GPU-n0b"}, Except: []string{"GPU-n0a"}}, want: "n0 [n0/GPU-n0b]"},
		"not a model":          {ask: 1, gpu: engine.GPU{NotModels: []string{"A"}}, want: "n1 [n1/GPU-n1a]"},
		"one that is unknown":  {ask: 1, gpu: engine.GPU{Only: []string{"GPU-x"}}, want: strings.Repeat("no free GPU that it may use (only GPU-x) on 1 node;", 2)},
		"a part of an unknown": {part: &engine.Part{Cards: 1, Memory: 10}, gpu: engine.GPU{Only: []string{"GPU-x"}}, want: strings.Repeat("no free GPU that it may use (only GPU-x) on 1 node;", 2)},
		"neither of two":       {ask: 1, gpu: engine.GPU{NotModels: []string{"A", "B"}}, want: strings.Repeat("no free GPU that it may use (not model A or B) on 1 node;", 2)},
		"more than are named":  {ask: 2, gpu: engine.GPU{Only: []string{"GPU-n0a", "GPU-n1b"}}, want: strings.Repeat("no free GPU that it may use (only GPU-n0a or GPU-n1b) on 1 node;", 2)},
	} {
		t.Run(name, func(t *testing.T) {
			p := engine.Pod{Key: "p", UID: "p", Spec: engine.Spec{Part: c.part, GPU: c.gpu}}
			if c.ask > 0 {
				p.Requests = engine.Resources{{Resource: gpu, Value: c.ask}}
			}
			s := engine.Load(engine.Snapshot{Version: engine.SnapshotVersion, Nodes: []engine.Node{shared("n0", "A", 2), shared("n1", "B", 2)}, Pods: []engine.Pod{p}}, engine.Config{})
			plan := s.Plan(noon)
			got := ""
			for _, start := range plan.Starts {
				got = start.Placements[0].Node + " [" + strings.Join(start.Placements[0].Devices, " ") + "]"
			}
			for _, cert := range plan.Certificates {
				for _, d := range cert.Domains {
					for _, r := range d.Rows {
						for _, clause := range r.Removed {
							got += clause.Text() + ";"
						}
					}
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}
