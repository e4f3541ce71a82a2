package shell

import (
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/berth-dev/berth/fleet/shell/budget"
	"github.com/berth-dev/berth/fleet/shell/internal/lang"
	"github.com/berth-dev/berth/fleet/shell/vfs"
)

// What containers may hold of this process. docs/shell.md shows the same figures to users.
const (
	// ContainerMemory is what the commands of one container may hold, and AllMemory what those of all containers
	// may. Whoever is beyond is killed. freeMemory of each container is outside AllMemory: a few small processes.
	ContainerMemory = 64 << 20
	AllMemory       = 256 << 20
	freeMemory      = 128 << 10
	leastMemory     = 8 << 20 // of a container with a lower limit: what is counted is rounded up

	// VolumeStorage is what one volume, or the root of one container, may hold at most, and AllStorage what all of
	// them may. Whoever is beyond gets "No space left on device". freeStorage of each is outside AllStorage.
	VolumeStorage = 64 << 20
	AllStorage    = 256 << 20
	freeStorage   = 64 << 10
)

// Budget is what all containers that share it may use together. Safe for concurrent use.
type Budget struct {
	memory *budget.Memory
	store  *budget.Store
	turns  turns
}

// NewBudget makes the budget of a fleet.
func NewBudget() *Budget { return newBudget(AllMemory, AllStorage) }

func newBudget(memory, storage int64) *Budget {
	return &Budget{
		memory: budget.NewMemory(memory, freeMemory), store: budget.NewStore(storage, freeStorage),
		turns: turns{step: allStep / time.Duration(runtime.GOMAXPROCS(0))},
	}
}

// NewFS makes the root of a container that counts towards the budget.
func (b *Budget) NewFS() *FS {
	return vfs.New(vfs.Options{Image: image(), Limit: VolumeStorage, Store: b.store})
}

// NewVolume makes an empty volume that counts towards the budget. It holds at most limitBytes, and never more than
// VolumeStorage; 0 means that.
func (b *Budget) NewVolume(limitBytes int64) *Volume {
	if limitBytes <= 0 || limitBytes > VolumeStorage {
		limitBytes = VolumeStorage
	}
	return vfs.NewVolumeIn(b.store, limitBytes)
}

// outOfMemory is why a session was killed that held too much.
type outOfMemory struct{}

func (outOfMemory) Error() string { return "out of memory" }
func (outOfMemory) Unwrap() error { return lang.SIGKILL }

func isOutOfMemory(err error) bool { return errors.As(err, &outOfMemory{}) }

// budgets are a container's own.
type budgets struct {
	all    *Budget
	memory *budget.Group
}

// open makes the container's own budgets.
func (c *Container) open() {
	all := c.Budget
	if all == nil {
		all = NewBudget()
	}
	limit := c.Memory
	if limit <= 0 || limit > ContainerMemory {
		limit = ContainerMemory
	}
	c.state.budgets = budgets{all, all.memory.Group(max(limit, leastMemory))}
}

// processCost is what a process counts: its goroutine, its buffers and what it copies through.
const processCost = 24 << 10

// argCost is what an argument counts for each command that it is handed to: its place in a few lists.
const argCost = 128

// What all containers may compute together: half of each core, at 5 µs a step. What each may do without waiting for
// its turn is little, and lets a command that does little answer at once however busy the others are.
const (
	allStep   = 10 * time.Microsecond // of a core's time, per step
	allBurst  = 100 * time.Millisecond
	quietStep = 10 * time.Millisecond // of a container's allowance to skip the queue, per step
	quietMost = 2 * time.Second       // 200 steps
)

// turns paces the work of all containers: each step reserves the next free moment.
type turns struct {
	step time.Duration

	mu   sync.Mutex
	paid time.Time // work is paid for up to here
}

// turnBatch is how many steps a container that has to wait reserves at once, so that it waits less often.
const turnBatch = 50

// take reserves n steps and returns how long it is until their turn comes.
func (t *turns) take(n int, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if least := now.Add(-allBurst); t.paid.Before(least) {
		t.paid = least
	}
	t.paid = t.paid.Add(time.Duration(n) * t.step)
	return t.paid.Sub(now)
}
