package provision

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/capacity/launch"
	"github.com/berth-dev/berth/engine"
)

// Options configure Run. Config, Cluster and Like are required.
type Options struct {
	Config *rest.Config
	// Cluster is what the scheduler knows.
	Cluster Cluster
	// Like is node i of a pool, ready and empty. The pool has its defaults.
	Like func(pool *v1alpha1.Pool, i int) (*corev1.Node, error)
	// ByOthers says that somebody else makes the nodes of pools with launch: nothing is launched or released here.
	ByOthers bool
	// Every is how often it is looked whether something is to be done; 0: each second.
	Every time.Duration
	// Backoff is how long a provider is not asked again after it refused once; each time in a row doubles it. 0: one minute.
	Backoff time.Duration
	Log     *slog.Logger // nil: silent
}

// Cluster is the scheduler, as far as it is asked. kube/scheduler.Observer is one.
type Cluster interface {
	Cycles() int64
	Snapshot(context.Context) (engine.Snapshot, engine.Config, error)
}

// store is what is read and written of the API server.
type store interface {
	Pools(context.Context) ([]v1alpha1.Pool, error)
	Reservations(context.Context) ([]v1alpha1.Reservation, error)
	Machines(context.Context) ([]v1alpha1.Machine, error)
	Create(context.Context, *v1alpha1.Machine) error // nil where one of the name exists
	Delete(context.Context, *v1alpha1.Machine) error // nil where it is gone
	SetIdle(context.Context, *v1alpha1.Machine, time.Time) error
	SetPool(context.Context, string, v1alpha1.PoolStatus) error // machines, stockouts and shortages
	SetUsable(context.Context, *v1alpha1.Reservation) error     // its conditions
	// Nodes are all of them; SetLeaves writes when one goes away, and with what, and "" that it does not.
	Nodes(context.Context) ([]corev1.Node, error)
	SetLeaves(ctx context.Context, node, at, with string) error
	// Drain cordons the node and evicts its pods, as far as they may be: all, or those that no scheduler of Berth's evicts by itself.
	// Busy says whether work is on it.
	Drain(ctx context.Context, node string, all bool) error
	Busy(context.Context, string) (bool, error)
}

// maxBackoff bounds how long a provider is not asked again.
const maxBackoff = 30 * time.Minute

func (o Options) normal() Options {
	if o.Every == 0 {
		o.Every = time.Second
	}
	if o.Backoff == 0 {
		o.Backoff = time.Minute
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Run launches and releases machines until ctx ends. What fails is tried again at the next look.
func Run(ctx context.Context, o Options) error {
	if o.Config == nil || o.Cluster == nil || o.Like == nil {
		return errors.New("provision: connection, cluster and nodes are required")
	}
	o = o.normal()
	s, err := newAPI(o.Config)
	if err != nil {
		return fmt.Errorf("provision: %w", err)
	}
	c := &controller{Options: o, store: s}
	tick := time.NewTimer(o.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		next := o.Every
		launching, err := c.look(ctx, time.Now())
		if err != nil && ctx.Err() == nil {
			o.Log.Warn("provision", "err", err)
		}
		if !launching {
			next *= idleLooks // only whether reservations are usable is kept
		}
		tick.Reset(next)
	}
}

// idleLooks is how much rarer it is looked where no pool launches machines.
const idleLooks = 5

// controller is between two looks without any state but when it last looked for nodes that leave, and whether there were any.
type controller struct {
	Options
	store
	lookedEnds time.Time
	ended      bool
}

// look decides once, and carries the decisions out. What is read is what the API server has, not a copy of it. It says whether any pool
// launches machines.
func (c *controller) look(ctx context.Context, now time.Time) (launching bool, err error) {
	pools, err := c.Pools(ctx)
	if err != nil {
		return false, err
	}
	reservations, err := c.Reservations(ctx)
	if err != nil {
		return false, err
	}
	machines, err := c.Machines(ctx)
	if err != nil {
		return false, err
	}
	if err := c.tellUsable(ctx, reservations, pools, machines, now); err != nil {
		return false, err
	}
	if err := c.tellEnds(ctx, pools, reservations, machines, now); err != nil {
		c.Log.Warn("nodes that leave", "err", err) // machines are launched all the same
	}
	v := &view{now: now, pools: make(map[string]*v1alpha1.Pool), machines: machines, backoff: c.Backoff}
	for i := range pools {
		p := pools[i].DeepCopy()
		v1alpha1.Default(p)
		v.pools[p.Name] = p
		launching = launching || p.Spec.Launch != nil
	}
	if launching = launching || len(machines) > 0; !launching || c.ByOthers {
		return false, nil
	}
	snap, policy, err := c.Cluster.Snapshot(ctx)
	if err != nil {
		return true, fmt.Errorf("look at the cluster: %w", err)
	}
	w := c.world(v, reservations, snap, policy)
	if err := c.tellIdle(ctx, v, w); err != nil {
		return true, err
	}
	d := launch.Decide(*w)
	return true, errors.Join(c.tellPools(ctx, v, w, d), c.carryOut(ctx, v, d))
}

// carryOut does what was decided. Refusals are in the pools' status by now, so that no failed machine is deleted before what it
// says is remembered.
func (c *controller) carryOut(ctx context.Context, v *view, d launch.Decisions) error {
	var problems []error
	for _, x := range d.All {
		err := error(nil)
		switch x.Do {
		case launch.Launch:
			c.Log.Info("launch", "machine", x.Machine, "pool", x.Pool, "zone", x.Zone, "from", x.From.String(), "for", x.For)
			err = c.Create(ctx, machineOf(x))
		case launch.Drain:
			c.Log.Info("drain", "machine", x.Machine, "why", x.Reason())
			err = c.Drain(ctx, x.Machine, x.Code != launch.Ends || !v.now.Before(x.Until.Add(-before(v.pools[x.Pool])/2)))
		case launch.Release:
			err = c.release(ctx, v, x)
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("%s %s: %w", x.Do, x.Machine, err))
		}
	}
	return errors.Join(problems...)
}

// release gives a machine back, unless work has come to it since it was decided.
func (c *controller) release(ctx context.Context, v *view, x launch.Decision) error {
	m := v.machine(x.Machine)
	if m == nil {
		return nil
	}
	if x.Code == launch.Idle || x.Code == launch.Unneeded || x.Code == launch.Incomplete {
		if busy, err := c.Busy(ctx, x.Machine); busy || err != nil {
			return err
		}
	}
	c.Log.Info("release", "machine", x.Machine, "why", x.Reason())
	return c.Delete(ctx, m)
}
