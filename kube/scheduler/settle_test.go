package scheduler

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// reached is a watch that has come to a version.
type reached struct {
	cache.SharedIndexInformer
	version string
}

func (r *reached) LastSyncResourceVersion() string { return r.version }

// The engine forgets what is gone once every watch had passed it a minute before, and not what is newer than
// the slowest of them. (An end has a version of ours, just above the pod's.)
func TestEngineForgetsWhatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 1))
		s := w.still(t)
		fast, slow := &reached{version: "9999"}, &reached{version: fmt.Sprint(1000 + settleEvery/2)}
		s.settler.watches = []cache.SharedIndexInformer{fast, slow}
		for i := range settleEvery {
			p := pod(fmt.Sprintf("p-%d", i), 9)
			p.UID, p.ResourceVersion = types.UID(p.Name), fmt.Sprint(1000+i)
			s.feed.Set(p)
			s.feed.Remove(p)
		}
		var left []int
		for range 3 {
			s.cycle(time.Now())
			left = append(left, len(s.state.Dump().Gone))
			time.Sleep(settleAfter - time.Second)
		}
		if diff := cmp.Diff([]int{settleEvery, settleEvery, settleEvery / 2}, left); diff != "" {
			t.Error(diff)
		}
	})
}

// A pod that was kept back for its claim is old when it is given. The engine must not take it for one that came
// too late, nor its own notes on it.
func TestOldPodIsGivenAfterAllHasSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		claim, volume := boundClaim("data", "r1")
		w := newWorld(t, node("n1", "r1", 1), claiming("a", "data"))
		s := w.still(t)
		newer := node("n2", "r1", 0)
		newer.ResourceVersion = "6000"
		s.feed.Set(newer)
		s.settleAt(t, "5000")
		s.feed.Set(claim)
		s.feed.Set(volume)
		s.cycle(time.Now())
		if i, ok := s.binds.queue.next(); !ok || i.Pod != "default/a" {
			t.Fatal("the pod was forgotten")
		}
		s.cycle(time.Now())
		if i, ok := s.binds.queue.next(); ok {
			t.Errorf("the assumption was forgotten: %s again", i.Pod)
		}
	})
}

// A watch that hears of nothing still moves on. The engine numbers its own notes from the newest object that it
// has seen, and must not take them for old.
func TestWatchIsAheadOfItsObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, node("n1", "r1", 1), pod("a", 1))
		s := w.still(t)
		s.feed.Refuse("default/a", "n1", "no")
		s.settleAt(t, "5000")
		s.cycle(time.Now())
		if _, ok := s.binds.queue.next(); !ok {
			t.Fatal("not planned")
		}
		s.cycle(time.Now())
		if i, ok := s.binds.queue.next(); ok {
			t.Errorf("the assumption was forgotten: %s again", i.Pod)
		}
	})
}

// settleAt has all watches at a version and the engine told so.
func (s *scheduler) settleAt(t *testing.T, version string) {
	t.Helper()
	s.settler.watches = []cache.SharedIndexInformer{&reached{version: version}}
	for i := range settleEvery {
		gone := node(fmt.Sprint("gone-", i), "", 1)
		gone.ResourceVersion = "1"
		s.feed.Remove(gone)
	}
	s.cycle(time.Now())
	time.Sleep(settleAfter)
	for _, c := range s.settled(time.Now()) {
		s.apply(append(s.inbox.take(), c))
		return
	}
	t.Fatal("not settled")
}
