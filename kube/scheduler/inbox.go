package scheduler

import (
	"slices"
	"sync"

	"github.com/berth-dev/berth/engine"
)

// inbox gathers changes until the next cycle takes them. Any goroutine may put. While none is taken, because another
// scheduler leads, only the last change of each object is kept.
type inbox struct {
	mu      sync.Mutex
	changes []engine.Change
	thinAt  int           // how many changes are looked through for those that later ones replace
	signal  chan struct{} // capacity 1: there is something
}

// thinFrom is more changes than come between two cycles.
const thinFrom = 50_000

func newInbox() *inbox { return &inbox{signal: make(chan struct{}, 1), thinAt: thinFrom} }

func (b *inbox) Put(changes ...engine.Change) {
	if len(changes) == 0 {
		return
	}
	b.mu.Lock()
	b.changes = append(b.changes, changes...)
	if len(b.changes) > b.thinAt {
		b.changes = thin(b.changes)
		b.thinAt = max(thinFrom, 2*len(b.changes))
	}
	b.mu.Unlock()
	b.Wake()
}

// Wake makes a cycle run, changes or not.
func (b *inbox) Wake() {
	select {
	case b.signal <- struct{}{}:
	default:
	}
}

// take empties the inbox.
func (b *inbox) take() []engine.Change {
	b.mu.Lock()
	defer b.mu.Unlock()
	changes := b.changes
	b.changes = nil
	return changes
}

// thin leaves out changes of objects that change again further on: objects are given whole, so that the last counts.
func thin(changes []engine.Change) []engine.Change {
	seen := make(map[engine.Ref]bool, len(changes)/2)
	kept := len(changes)
	for i := len(changes) - 1; i >= 0; i-- {
		if at := refOf(&changes[i]); at == (engine.Ref{}) || !seen[at] {
			seen[at] = true
			kept--
			changes[kept] = changes[i]
		}
	}
	return slices.Clone(changes[kept:])
}

// refOf is the object that the change is about, without version; empty for what is about none.
func refOf(c *engine.Change) engine.Ref {
	if c.Gone != nil {
		return engine.Ref{Kind: c.Gone.Kind, Key: c.Gone.Key}
	}
	ref, _ := c.Ref()
	ref.Version = 0
	return ref
}
