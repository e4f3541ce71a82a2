// Package budget counts what simulated containers hold of this process's memory, and refuses
// or ends those that would hold too much. It is the only place that decides.
//
// Memory is for what commands hold while they run: variables, pipes, lines, arguments, syntax
// trees. Whoever is over its limit is killed, as the kernel does it. Store is for what outlives
// commands: files and logs. Whoever finds it full gets an error and goes on. Scope, Buffer and
// Lines are how commands hold bytes without counting by hand.
//
// Nothing here measures the Go heap: callers say what they hold before they allocate it, rounded
// up. Packages shell, lang, fd and vfs call it, and the simulated kubelet for its logs.
package budget

import (
	"errors"
	"sync"
)

// ErrMemory is what a Take returns that was refused. The asker is being killed.
//
//lint:ignore ST1005 users know it in these words
var ErrMemory = errors.New("Cannot allocate memory")

// Memory is what all containers may hold together. Safe for concurrent use.
type Memory struct {
	mu    sync.Mutex
	limit int64
	free  int64 // of each group, outside the limit
	used  int64 // over all groups, beyond what is free to each
	open  map[*Account]struct{}
}

// NewMemory makes the memory of all. Each group may hold free bytes whatever the others hold, so
// that one who holds little is never in the way of those who hold much: at worst limit plus free
// times the number of groups is held.
func NewMemory(limit, free int64) *Memory {
	return &Memory{limit: limit, free: free, open: map[*Account]struct{}{}}
}

// Used is what all groups hold beyond what is free to each, and the limit of that.
func (m *Memory) Used() (used, limit int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used, m.limit
}

// Group is what one container may hold.
type Group struct {
	memory *Memory
	limit  int64
	used   int64 // guarded by memory.mu
}

// Group makes the budget of one container.
func (m *Memory) Group(limit int64) *Group { return &Group{memory: m, limit: limit} }

// Used is what the group holds, and its limit.
func (g *Group) Used() (used, limit int64) {
	g.memory.mu.Lock()
	defer g.memory.mu.Unlock()
	return g.used, g.limit
}

// add counts n more bytes, or fewer. Called with the lock held.
func (g *Group) add(n int64) {
	m := g.memory
	m.used -= max(0, g.used-m.free)
	g.used += n
	m.used += max(0, g.used-m.free)
}

// Account is what is killed as one: a command that somebody asked for, and all that it started.
type Account struct {
	group *Group
	kill  func()
	used  int64 // guarded by memory.mu
	dead  bool  // likewise
}

// Open makes an account; kill is called once, from any goroutine, if it has to go. It must not wait.
func (g *Group) Open(kill func()) *Account {
	a := &Account{group: g, kill: kill}
	g.memory.mu.Lock()
	defer g.memory.mu.Unlock()
	g.memory.open[a] = struct{}{}
	return a
}

// Close gives back all that the account still holds.
func (a *Account) Close() {
	m := a.group.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	a.bury()
	delete(m.open, a)
}

// bury stops counting what the account holds: it is on its way out. Called with the lock held.
func (a *Account) bury() {
	if a.dead {
		return
	}
	a.group.add(-a.used)
	a.used, a.dead = 0, true
}

// Take asks for n bytes. Where they do not fit, whoever holds the most is killed: of the container
// if its own limit is reached, of all containers if theirs is. What the victim holds counts as free
// from then on. ErrMemory means that the victim is the asker.
func (a *Account) Take(n int64) error {
	m := a.group.memory
	m.mu.Lock()
	var victims []*Account
	for !a.dead && !a.fits(n) {
		v := a.largest(n)
		v.bury()
		victims = append(victims, v)
	}
	dead := a.dead
	if !dead {
		a.used += n
		a.group.add(n)
	}
	m.mu.Unlock()
	for _, v := range victims {
		v.kill()
	}
	if dead {
		return ErrMemory
	}
	return nil
}

// fits says whether n more bytes are within both limits.
func (a *Account) fits(n int64) bool {
	g, m := a.group, a.group.memory
	return n <= g.limit-g.used && a.beyond(n) <= m.limit-m.used
}

// beyond is how many of n more bytes would count towards the limit of all.
func (a *Account) beyond(n int64) int64 {
	g := a.group
	return max(0, g.used+n-g.memory.free) - max(0, g.used-g.memory.free)
}

// largest is the account that has to go for n more bytes of a. Ties go against the asker.
func (a *Account) largest(n int64) *Account {
	own := n > a.group.limit-a.group.used // its container's limit is the one that is reached
	worst, most := a, a.used+n
	for other := range a.group.memory.open {
		if !other.dead && other.used > most && (!own || other.group == a.group) {
			worst, most = other, other.used
		}
	}
	return worst
}

// Give returns n bytes.
func (a *Account) Give(n int64) {
	m := a.group.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	if a.dead {
		return
	}
	n = min(n, a.used)
	a.used -= n
	a.group.add(-n)
}
