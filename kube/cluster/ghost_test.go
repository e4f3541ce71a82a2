package cluster

import (
	"testing"
	"time"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/convert"
	upstream "github.com/berth-dev/berth/kube/devices"
)

// watched is a feed, and the engine behind it, that hears of objects as watches tell of them.
type watched struct {
	*clock
	state *engine.State
}

func newWatched() *watched {
	w := &watched{clock: &clock{now: noon}, state: engine.Load(engine.Snapshot{}, engine.Config{})}
	w.Feed = New(Options{
		Convert: convert.Options{SchedulerNames: []string{DefaultName}}, Sink: &w.changes, Listener: &silence{missing: make(map[string][]string)},
		Selects: upstream.NewMatcher(), Now: func() time.Time { return w.now },
	})
	return w
}

// knows is what the engine was told of objects, without versions.
func (w *watched) knows() engine.Snapshot {
	for range 2 {
		w.Settle()
		w.state.Apply(w.changes.take()...)
	}
	all := w.state.Dump()
	out := engine.Snapshot{Nodes: all.Nodes, Pods: all.Pods, Gangs: all.Gangs, Queues: all.Queues, Disruptions: all.Disruptions}
	for i := range out.Nodes {
		out.Nodes[i].Version = 0
	}
	for i := range out.Pods {
		out.Pods[i].Version = 0
	}
	for i := range out.Gangs {
		out.Gangs[i].Version = 0
	}
	for i := range out.Queues {
		out.Queues[i].Version = 0
	}
	for i := range out.Disruptions {
		out.Disruptions[i].Version = 0
	}
	return out
}

// A node that goes while the watch is cut is taken away as it was last seen, whatever the engine was told of it since.
func TestNodeGoesWhileTheWatchIsCut(t *testing.T) {
	w := newWatched()
	n := node("n1", "r1", 1)
	n.ResourceVersion = "10"
	w.SetNode(n)
	w.SetCSINode(limitOf("n1", 3)) // the node is given again, for what another object says of it
	w.RemoveNode(n)
	if got := w.knows().Nodes; len(got) > 0 {
		t.Errorf("the engine has %v", got)
	}
}
