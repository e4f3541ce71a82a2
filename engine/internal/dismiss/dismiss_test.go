package dismiss

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/calendar"
	"github.com/berth-dev/berth/engine/internal/cluster"
	"github.com/berth-dev/berth/engine/internal/draft"
	"github.com/berth-dev/berth/engine/internal/index"
	"github.com/berth-dev/berth/engine/internal/place"
	"github.com/berth-dev/berth/engine/internal/preempt"
)

var noon = time.Date(2026, 11, 16, 12, 0, 0, 0, time.UTC)

func gpus(n int64) api.Resources { return api.Resources{{Resource: "nvidia.com/gpu", Value: n}} }

// runs is a pod that somebody makes again.
func runs(key, queue, node string) api.Pod {
	return api.Pod{Key: key, UID: key, Version: 1, Queue: queue, Node: node, Owner: "job", Evictable: true, Started: noon.Add(-time.Hour), Spec: api.Spec{Requests: gpus(1)}}
}

func node(name string) api.Node {
	return api.Node{Name: name, Version: 1, Allocatable: append(gpus(8), api.Amount{Resource: api.Pods, Value: 99})}
}

// begin makes the dismissals of a cycle on the snapshot.
func begin(snap api.Snapshot) (*draft.Draft, *Dismissals) {
	config, _ := api.Config{}.Normal()
	m := cluster.NewModel(config)
	ix := index.New(m)
	candidates := preempt.New(m, ix, place.New(m, ix))
	snap.Version = api.SnapshotVersion
	m.LoadAll(&snap)
	m.Freshen()
	ix.Refresh()
	d := draft.New(noon, 100)
	times := calendar.New(m, &d, calendar.Questions{})
	return &d, New(&d, m, times, candidates, func(*cluster.Pod) {}, m.Tally)
}

// evicted are the pods that the plan evicts, with the cause.
func evicted(d *draft.Draft) (out []string) {
	for _, e := range d.Plan.Evictions {
		out = append(out, string(e.Cause)+" "+e.Pod)
	}
	return out
}

// A queue that is drained gives up what somebody makes again, and nothing while it is frozen or once it has been asked.
func TestQueuesThatAreDrained(t *testing.T) {
	bare := runs("bare", "team", "n")
	bare.Owner = ""
	for _, c := range []struct {
		name string
		edit func(*api.Snapshot)
		want []string
	}{
		{"drained", nil, []string{"drained a", "drained b"}},
		{"frozen", func(s *api.Snapshot) { s.Queues[0].Frozen = true }, nil},
		{"held only", func(s *api.Snapshot) { s.Queues[0].Stop = api.StopHold }, nil},
		{"one was refused lately", func(s *api.Snapshot) {
			s.Evictions = []api.Eviction{{Pod: "a", UID: "a", Version: 1, Cause: api.Drained, Refused: true, At: noon, Until: noon.Add(time.Minute)}}
		}, []string{"drained b"}},
		{"one was refused long ago", func(s *api.Snapshot) {
			s.Evictions = []api.Eviction{{Pod: "a", UID: "a", Version: 1, Cause: api.Drained, Refused: true, At: noon.Add(-time.Hour), Until: noon.Add(-time.Minute)}}
		}, []string{"drained a", "drained b"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			snap := api.Snapshot{
				Nodes:  []api.Node{node("n")},
				Queues: []api.Queue{{Name: "team", Version: 1, Stop: api.StopDrain, Warning: time.Minute}, {Name: "other", Version: 1}},
				Pods:   []api.Pod{runs("a", "team", "n"), runs("b", "team", "n"), runs("c", "other", "n"), bare},
			}
			if c.edit != nil {
				c.edit(&snap)
			}
			d, y := begin(snap)
			y.Queues()
			if diff := cmp.Diff(c.want, evicted(d)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if i := slices.IndexFunc(d.Plan.Evictions, func(e api.Eviction) bool { return !e.At.Equal(noon.Add(time.Minute)) }); i >= 0 {
				t.Errorf("%s is evicted at %s: its queue warns for a minute", d.Plan.Evictions[i].Pod, d.Plan.Evictions[i].At)
			}
		})
	}
}

// Nobody is evicted where more than half of all nodes are quarantined: it is more likely that the watch is broken.
func TestQuarantine(t *testing.T) {
	for _, c := range []struct {
		name string
		bad  int
		want []string
	}{{"none", 0, nil}, {"one of three", 1, []string{"unhealthy a"}}, {"two of three", 2, nil}} {
		t.Run(c.name, func(t *testing.T) {
			snap := api.Snapshot{Nodes: []api.Node{node("n0"), node("n1"), node("n2")}, Pods: []api.Pod{runs("a", "", "n0"), runs("b", "", "n2")}}
			for i := range c.bad {
				snap.Nodes[i].Quarantine, snap.Nodes[i].Cordoned = "xid", true
			}
			d, y := begin(snap)
			y.Quarantine()
			if diff := cmp.Diff(c.want, evicted(d)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
