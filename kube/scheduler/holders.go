package scheduler

import (
	"cmp"
	"context"
	"time"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/answer"
	"github.com/berth-dev/berth/kube/cluster"
)

// holders lists the workloads that have what the workload waits for; nil where no other has it.
func (s *scheduler) holders(ctx context.Context, key string, w *engine.Waiting, certs []why.Certificate) (*answer.Holders, error) {
	gate := w.Gates[0]
	h := &answer.Holders{}
	var ask func() []engine.Held
	switch {
	case gate.Cause == why.OverQueueLimit:
		h.Queue, h.Resource = gate.Object, gate.Resource
		ask = func() []engine.Held { return s.state.Charged(h.Queue, h.Resource) }
	case gate.Certificate >= 0:
		h.Resource = lacking(&certs[gate.Certificate], cmp.Or(s.opts.Engine.GPU, cluster.DefaultGPU))
		ask = func() []engine.Held { return s.state.Holders(key, h.Resource, time.Now()) }
	default:
		return nil, nil
	}
	var held []engine.Held
	if err := s.ask(ctx, func() { held = ask() }); err != nil || len(held) == 0 {
		return nil, err
	}
	for i, o := range held {
		if i < maxNamed {
			h.Items = append(h.Items, answer.Holder{Reference: s.reference(o.Workload), Amount: o.Amount})
			continue
		}
		h.Others.Workloads++
		h.Others.Amount += o.Amount
	}
	return h, nil
}

// lacking is the resource that most nodes have too little of; GPUs, where they are among those.
func lacking(c *why.Certificate, gpu string) string {
	nodes := make(map[string]int)
	most := ""
	for _, d := range c.Domains {
		for _, r := range d.Rows {
			for _, x := range r.Short {
				nodes[x.Resource] += x.Nodes
				if n := nodes[x.Resource]; n > nodes[most] || n == nodes[most] && x.Resource < most {
					most = x.Resource
				}
			}
		}
	}
	if most == "" || nodes[gpu] > 0 {
		return gpu
	}
	return most
}
