package controlplane

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A cluster takes memory while it works, gives it back once when it has come to rest, and takes
// it again at the first second of work.
func TestMemoryIsGivenBackAtRest(t *testing.T) {
	const mib = 1 << 20
	type step struct {
		Percent  int
		Released int
	}
	var tune tuner
	var total uint64
	live := func(seconds int, live, each uint64) (s step) {
		for range seconds {
			total += each
			if tune.second(live, total) {
				s.Released++
			}
		}
		s.Percent = tune.percent
		return s
	}
	got := []step{
		live(10, 100*mib, 200*mib),   // a small cluster starts
		live(100, 100*mib, 2*mib),    // and rests
		live(60, 1400*mib, 300*mib),  // it becomes a large one
		live(14, 1400*mib, 30*mib),   // a lull is no rest
		live(1, 1400*mib, 300*mib),   //
		live(300, 1400*mib, 30*mib),  // this is
		live(1, 1400*mib, 300*mib),   // work
		live(300, 1400*mib, 139*mib), // rest again
	}
	want := []step{{200, 0}, {200, 1}, {300, 0}, {300, 0}, {300, 0}, {100, 1}, {300, 0}, {100, 1}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("percents and releases (-want +got):\n%s", diff)
	}
}
