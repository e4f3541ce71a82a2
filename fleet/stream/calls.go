package stream

import "sync"

// calls counts the Backend's calls under way. Unlike a sync.WaitGroup it can be closed while
// some may still begin: those are turned away.
type calls struct {
	mu     sync.Mutex
	open   int
	closed bool
	idle   chan struct{} // made by close, closed when open is down to 0
}

// begin counts one more call; false means that it is too late for one.
func (c *calls) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.open++
	return true
}

// end is owed for every begin that was true.
func (c *calls) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open--
	if c.closed && c.open == 0 {
		close(c.idle)
	}
}

// close lets no more calls begin. The channel is closed when the last one has ended.
func (c *calls) close() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed, c.idle = true, make(chan struct{})
	if c.open == 0 {
		close(c.idle)
	}
	return c.idle
}
