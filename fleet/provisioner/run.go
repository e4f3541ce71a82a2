package provisioner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/fleet/clock"
)

// Options configure Run. Config, Kind and Like are required.
type Options struct {
	Config *rest.Config
	Kind   Kind
	// Like is node i of a pool, ready and empty. The pool has its defaults.
	Like func(pool *v1alpha1.Pool, i int) (*corev1.Node, error)
	// Expanders choose which node group of the autoscaler grows, one after the other; none: least-waste.
	Expanders []string
	// NodeRepair is Karpenter's feature gate of that name: nodes that are unhealthy for long are replaced.
	NodeRepair bool
	// Speed is the fleet's, and the waits of who is played run at it; 0: 1.
	Speed float64
	Every time.Duration // between two looks; 0: half a second
	Log   *slog.Logger  // nil: silent
}

// player is who is played: one look at what there is, and what follows.
type player interface {
	look(ctx context.Context, w *world) error
}

// Run plays until ctx ends. What fails is tried again at the next look.
func Run(ctx context.Context, o Options) error {
	if o.Config == nil || o.Like == nil {
		return errors.New("provisioner: connection and nodes are required")
	}
	if o.Every == 0 {
		o.Every = 500 * time.Millisecond
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	a, err := newAPI(o)
	if err != nil {
		return fmt.Errorf("provisioner: %w", err)
	}
	var p player
	switch o.Kind {
	case Karpenter:
		p = newKarpenter(a)
	case Autoscaler:
		p = newAutoscaler(a)
	default:
		return fmt.Errorf("provisioner: %q is none: choose %s", o.Kind, strings.Join(Kinds(), " or "))
	}
	a.informers.StartWithContext(ctx)
	defer a.informers.Shutdown()
	if !cache.WaitForCacheSync(ctx.Done(), a.synced...) {
		return nil
	}
	tick := time.NewTicker(o.Every)
	defer tick.Stop()
	for {
		w, err := a.read(ctx, time.Now())
		if err == nil {
			err = p.look(ctx, w)
		}
		if err != nil && ctx.Err() == nil {
			o.Log.Warn(string(o.Kind), "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func newAPI(o Options) (*api, error) {
	cfg := rest.CopyConfig(o.Config)
	cfg.QPS, cfg.Burst, cfg.RateLimiter = -1, 0, nil
	core, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	dyn, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	f := informers.NewSharedInformerFactory(core, 0)
	a := &api{Options: o, Clock: clock.Clock{Speed: o.Speed}, core: core, dyn: dyn, informers: f, samples: make(map[string]*corev1.Node), told: make(map[string]time.Time)}
	a.pods, a.nodes, a.daemons = f.Core().V1().Pods().Lister(), f.Core().V1().Nodes().Lister(), f.Apps().V1().DaemonSets().Lister()
	a.synced = []cache.InformerSynced{f.Core().V1().Pods().Informer().HasSynced, f.Core().V1().Nodes().Informer().HasSynced, f.Apps().V1().DaemonSets().Informer().HasSynced}
	return a, nil
}
