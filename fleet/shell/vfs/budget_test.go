package vfs

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/fleet/shell/budget"
)

// TestRemovedFilesCountWhileOpen checks that a file is not free just because it has no name.
func TestRemovedFilesCountWhileOpen(t *testing.T) {
	f := New(Options{Limit: 100 << 10})
	h, err := f.OpenFile("/f", WriteOnly|Create, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Write(make([]byte, 90<<10)); err != nil {
		t.Fatal(err)
	}
	if err := f.Remove("/f"); err != nil {
		t.Fatal(err)
	}
	if err := f.WriteFile("/g", make([]byte, 50<<10), 0); !errors.Is(err, ENOSPC) {
		t.Errorf("write beside an open file without a name: %v", err)
	}
	h.Close()
	if err := f.WriteFile("/g", make([]byte, 50<<10), 0); err != nil {
		t.Errorf("after it was closed: %v", err)
	}
}

// TestStore checks that volumes share a budget, that small ones fit into a full one, and that what is discarded
// or collected is given back.
func TestStore(t *testing.T) {
	store := budget.NewStore(1<<20, 64<<10)
	a, b := NewVolumeIn(store, 0), NewVolumeIn(store, 0)
	if err := a.WriteFile("/f", make([]byte, 1<<20), 0); err != nil {
		t.Fatal(err)
	}
	if err := b.WriteFile("/f", make([]byte, 200<<10), 0); !errors.Is(err, ENOSPC) {
		t.Errorf("a volume beyond the budget of all: %v", err)
	}
	if err := b.WriteFile("/g", make([]byte, 32<<10), 0); err != nil {
		t.Errorf("a small volume in a full store: %v", err)
	}
	a.Discard()
	if err := b.WriteFile("/f", make([]byte, 200<<10), 0); err != nil {
		t.Errorf("after another was discarded: %v", err)
	}
	if err := a.WriteFile("/f", []byte("x"), 0); !errors.Is(err, ENOSPC) {
		t.Errorf("write to a discarded volume: %v", err)
	}
	runtime.KeepAlive(b)
	b = nil
	for deadline := time.Now().Add(10 * time.Second); ; {
		runtime.GC()
		if used, _ := store.Used(); used == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("a volume that nobody has is still counted")
		}
	}
}

func TestLinksCountTheirTargets(t *testing.T) {
	f := New(Options{Limit: 10 << 10})
	if err := f.Symlink(strings.Repeat("x", maxPath+1), "/l"); !errors.Is(err, ENAMETOOLONG) {
		t.Errorf("a target that is too long: %v", err)
	}
	n := 0
	for f.Symlink(strings.Repeat("x", maxPath), "/l"+strings.Repeat("i", n)) == nil {
		n++
	}
	if n != 2 {
		t.Errorf("%d links of 4 KiB in 10 KiB", n)
	}
}
