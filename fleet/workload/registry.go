// Package workload is what a container's program does when it is not a shell command: a
// simulated training or inference process that computes, uses its GPUs, writes checkpoints,
// fails, and waits for its peers the way NCCL does.
//
// It is not a scheduler and knows no Kubernetes objects beyond a pod's annotations and owner.
// fleet/kubelet calls [ParseSpec] at admission and [Registry.Run] as the container's process;
// telemetry and nvidia-smi read [Registry.Use].
//
// What a program prints is what it does. A collective (sim.berth.dev/world) goes through
//
//	rendezvous --all ranks met--> working --last step--> exit 0
//	    |                            |
//	 time-out                    rank lost
//	    v                            v
//	  exit 1                      stalled --time-out--> exit 134 (SIGABRT)
//
// and a communicator that lost a rank is never repaired, as with NCCL: a rank that comes back
// waits in a new rendezvous until the survivors have timed out, restarted and joined it.
//
// Cost: progress is computed from time. A working program sleeps on one timer and wakes only
// to print (see pace), to checkpoint and to end; steps themselves cost nothing.
package workload

import (
	"context"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/berth-dev/berth/fleet/clock"
)

// Options of a Registry.
type Options struct {
	Clock clock.Clock
	// Store keeps checkpoints; nil keeps them in memory.
	Store Store
}

// Registry is where the programs of a fleet meet. It is safe for concurrent use.
type Registry struct {
	clock clock.Clock
	store Store

	ending func(pod string) // nil: nobody wants to know

	mu    sync.Mutex
	crews map[meeting]*crew     // those with at least one program
	pods  map[string][]*process // running programs by Identity.Pod
}

// New makes a Registry; there is one per fleet.
func New(opts Options) *Registry {
	if opts.Store == nil {
		opts.Store = newMemoryStore()
	}
	return &Registry{
		clock: opts.Clock,
		store: opts.Store,
		crews: map[meeting]*crew{},
		pods:  map[string][]*process{},
	}
}

// Run is the program: it joins its group, works, prints to out, and returns its exit code. It
// returns soon after ctx ends. The cause of ctx says by which signal: its ExitCode() int
// method, where it has one, is the exit code (143 for SIGTERM); any other cause is SIGKILL,
// 137. With spec.IgnoreTerm the caller keeps SIGTERM to itself and ends ctx with the kill.
func (r *Registry) Run(ctx context.Context, id Identity, spec Spec, out io.Writer) (exit int) {
	p := &process{
		registry: r,
		id:       id,
		spec:     spec.complete(),
		out:      out,
		met:      make(chan struct{}),
	}
	if id.Index >= spec.World && spec.World > 0 {
		p.print("rank %d is outside a world of %d ranks", id.Index, spec.World)
		return exitError
	}
	r.join(p)
	defer r.leave(p)
	if r.ending != nil {
		defer r.ending(id.Pod)
	}
	return p.main(ctx)
}

// Use is what each GPU of the pod reads now: load in percent and memory in bytes. The load is
// 0 while it waits for ranks or is stalled; memory is held from the first step to the end.
func (r *Registry) Use(pod string) (gpuUtil int, gpuMem int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.pods[pod] {
		util, mem := p.use()
		gpuUtil, gpuMem = min(gpuUtil+util, 100), gpuMem+mem
	}
	return gpuUtil, gpuMem
}

// Ending has f called whenever a program of a pod ends, while Loads still tells of it. It is set before the first Run.
func (r *Registry) Ending(f func(pod string)) { r.ending = f }

// Load is what a program asked of each of its GPUs, from its first step to its last.
type Load struct {
	From, To time.Time // To is zero while it works
	GPUUtil  int       // percent
}

// Loads is what the programs that run in the pod ask of its GPUs, and asked of them before they stalled.
func (r *Registry) Loads(pod string) []Load {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []Load
	now := time.Now()
	for _, p := range r.pods[pod] {
		if l, ok := p.load(now); ok {
			all = append(all, l)
		}
	}
	return all
}

// join enters p into its crew. Whoever completes a set of ranks starts their communicator.
func (r *Registry) join(p *process) {
	r.mu.Lock()
	r.pods[p.id.Pod] = append(r.pods[p.id.Pod], p)
	name := meeting{group: p.id.Group, world: p.spec.World}
	c := r.crews[name]
	if c == nil {
		c = &crew{meeting: name, indices: map[int]int{}}
		r.crews[name] = c
	}
	p.crew = c
	formed := c.enter(p)
	r.mu.Unlock()
	if formed != nil {
		r.begin(formed)
	}
}

// begin starts a complete communicator from its last checkpoint. The store is read without
// the lock: peers that die meanwhile have broken the communicator before its first step.
func (r *Registry) begin(c *communicator) {
	progress, _, err := r.store.Load(c.key)
	r.mu.Lock()
	defer r.mu.Unlock()
	c.base, c.unreadable = progress.Steps, err
	c.began = time.Now().Add(c.clock.Wall(c.warmup))
	for _, p := range c.ranks {
		close(p.met)
	}
}

// leave takes p out, breaking its communicator if work is left in it, and forgets what is
// empty.
func (r *Registry) leave(p *process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if rest := slices.DeleteFunc(r.pods[p.id.Pod], p.is); len(rest) > 0 {
		r.pods[p.id.Pod] = rest
	} else {
		delete(r.pods, p.id.Pod)
	}
	if p.comm != nil {
		p.comm.lose(p, time.Now())
	}
	p.crew.exit(p)
	if p.crew.size == 0 {
		delete(r.crews, p.crew.meeting)
	}
}
