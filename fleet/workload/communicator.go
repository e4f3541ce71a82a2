package workload

import (
	"math"
	"sync"
	"time"

	"github.com/berth-dev/berth/fleet/clock"
)

// forever is a duration that no simulation reaches.
const forever = time.Duration(math.MaxInt64)

// communicator is a set of ranks that met and now step together; a program that works alone
// has one to itself. Registry.mu guards the fields below it, which are fixed once the ranks'
// met channels are closed, except for loss.
type communicator struct {
	clock clock.Clock
	key   string     // of its checkpoint
	ranks []*process // by rank
	step  time.Duration
	total int64         // steps of the whole work, 0: endless
	every time.Duration // work between checkpoints, 0: none

	base       int64         // step it resumed from
	unreadable error         // why its checkpoint could not be read
	warmup     time.Duration // of its slowest rank
	began      time.Time     // of the step after base, on the wall, warm-up over; zero while it is being set up
	loss       *loss         // set once: it never works again
	lost       chan struct{}

	saving sync.Mutex
	saved  int64 // step of the last attempt to save, -1: none yet, MaxInt64: work is done
	failed error // outcome of that attempt
}

// loss is how a communicator broke.
type loss struct {
	rank int
	pod  string
	at   time.Time
	step int64 // whole steps done by then
}

// newCommunicator is as slow as its slowest rank; rank 0 says how much work there is.
func newCommunicator(key string, ranks []*process) *communicator {
	first := ranks[0].spec
	c := &communicator{
		clock: ranks[0].registry.clock,
		key:   key,
		ranks: ranks,
		total: first.steps(),
		every: first.Checkpoint,
		lost:  make(chan struct{}),
		saved: -1,
	}
	for _, p := range ranks {
		p.comm = c
		c.step = max(c.step, p.spec.Step)
		c.warmup = max(c.warmup, p.spec.Warmup)
	}
	return c
}

// length is the work from base to the end.
func (c *communicator) length() time.Duration {
	left := max(c.total-c.base, 0)
	if c.total == 0 || left > int64(forever/c.step) {
		return forever
	}
	return time.Duration(left) * c.step
}

// stepAt is how many whole steps are done after some work since began.
func (c *communicator) stepAt(worked time.Duration) int64 {
	step := c.base + int64(worked/c.step)
	if c.total > 0 {
		step = min(step, c.total)
	}
	return step
}

// worked is the work since began. Rounding takes back what the clock's speed, a float, costs.
func (c *communicator) worked(now time.Time) time.Duration {
	if c.began.IsZero() || now.Before(c.began) {
		return 0
	}
	return c.clock.Simulated(now.Sub(c.began)).Round(time.Microsecond)
}

// over says whether the last step is done. It compares on the wall, as the timers of the
// ranks do: in simulated time a rank could wake at the end and find a nanosecond missing.
func (c *communicator) over(now time.Time) bool {
	length := c.length()
	return length != forever && !c.began.IsZero() && !now.Before(c.began.Add(c.clock.Wall(length)))
}

// working says whether steps go by.
func (c *communicator) working(now time.Time) bool {
	return !c.began.IsZero() && !now.Before(c.began) && c.loss == nil && !c.over(now)
}

// lose breaks the communicator by the end of p, unless its work is done or it is broken.
func (c *communicator) lose(p *process, now time.Time) {
	if c.loss != nil || c.over(now) {
		return
	}
	c.loss = &loss{rank: p.index, pod: p.id.Pod, at: now, step: c.stepAt(c.worked(now))}
	close(c.lost)
}

// save writes the checkpoint of a step. Every rank calls it at that step; the first does the
// work, and all learn how it went. A rank that comes late does not take the others back.
func (c *communicator) save(store Store, step int64) error {
	c.saving.Lock()
	defer c.saving.Unlock()
	if step <= c.saved {
		return c.failed
	}
	c.saved, c.failed = step, store.Save(c.key, Progress{Steps: step})
	return c.failed
}

// finish forgets the checkpoint of work that is done, so that the same group can run again.
func (c *communicator) finish(store Store) error {
	c.saving.Lock()
	defer c.saving.Unlock()
	if c.saved == math.MaxInt64 {
		return c.failed
	}
	c.saved, c.failed = math.MaxInt64, store.Delete(c.key)
	return c.failed
}
