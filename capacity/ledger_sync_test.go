package capacity

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// What Sync is given is taken whole or refused whole: one GPU that cannot be leaves the account of all others as it was.
func TestSyncIsRefusedWhole(t *testing.T) {
	at := time.Date(2026, 11, 19, 12, 0, 0, 0, time.UTC)
	gpu := func(unit string, index int, micro Micro) GPU {
		return GPU{ID: ID{unit, index}, Price: Price{Known: true, Micro: micro, Currency: "USD"}}
	}
	l := New()
	if err := l.Sync(at, []GPU{gpu("a", 0, 5), gpu("b", 0, 5), gpu("z", 0, 5)}); err != nil {
		t.Fatal(err)
	}
	was := l.GPUs()
	later := at.Add(time.Minute)
	if err := l.Sync(later, []GPU{gpu("a", 0, 7), gpu("b", 0, -1), gpu("c", 0, 5)}); err == nil {
		t.Fatal("a price below nothing was taken")
	}
	if diff := cmp.Diff(was, l.GPUs()); diff != "" {
		t.Errorf("after what was refused (-before +after):\n%s", diff)
	}
	if err := l.Sync(later, []GPU{gpu("a", 0, 5)}); err != nil || len(l.GPUs()) != 1 {
		t.Errorf("the next one: %v, %d GPUs", err, len(l.GPUs()))
	}
}
