package scheduler

import (
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/cluster"
)

// settler tells the engine, now and then, up to which version nothing more can come, so that it forgets what is
// gone. Every version in the engine is of a node, a pod or a PodGroup, or above one of a pod that was seen, so
// that is the oldest version which one of their watches had reached. A watch runs ahead of what it has handed
// on: the version is only used settleAfter later. Handing on never waits for the API server.
type settler struct {
	watches []cache.SharedIndexInformer
	reached uint64 // resource version; 0: none taken
	at      time.Time
}

const (
	settleEvery = 1000 // objects gone
	settleAfter = time.Minute
)

// ready returns the resource version up to which all has come, 0 if it is not time.
func (t *settler) ready(gone int, now time.Time) uint64 {
	switch {
	case gone < settleEvery:
		return 0
	case t.reached == 0:
		t.reached, t.at = t.oldest(), now
		return 0
	case now.Sub(t.at) < settleAfter:
		return 0
	}
	v := t.reached
	t.reached = 0
	return v
}

func (t *settler) oldest() uint64 {
	var oldest uint64
	for i, w := range t.watches {
		if v := cluster.ParseVersion(w.LastSyncResourceVersion()); i == 0 || v < oldest {
			oldest = v
		}
	}
	return oldest
}

// settled returns the change that lets the engine forget, if it is time. What the feed gave before must be taken
// from the inbox after this and applied before the change.
func (s *scheduler) settled(now time.Time) []engine.Change {
	v := s.feed.Forget(func(gone int) uint64 { return s.settler.ready(gone, now) })
	if v == 0 {
		return nil
	}
	// A watch can be ahead of every object in it. The engine numbers its own edits from the newest it knows.
	return []engine.Change{{Settled: min(v<<cluster.VersionBits, s.version)}}
}
