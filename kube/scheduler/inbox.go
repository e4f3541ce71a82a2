package scheduler

import (
	"sync"

	"github.com/berth-dev/berth/engine"
)

// inbox gathers changes until the next cycle takes them. Any goroutine may put.
type inbox struct {
	mu      sync.Mutex
	changes []engine.Change
	signal  chan struct{} // capacity 1: there is something
}

func newInbox() *inbox { return &inbox{signal: make(chan struct{}, 1)} }

func (b *inbox) put(changes ...engine.Change) {
	if len(changes) == 0 {
		return
	}
	b.mu.Lock()
	b.changes = append(b.changes, changes...)
	b.mu.Unlock()
	b.stir()
}

// stir makes a cycle run, changes or not.
func (b *inbox) stir() {
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
