package fleet

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-dev/berth/fleet/clock"
	"github.com/berth-dev/berth/fleet/kubelet"
	"github.com/berth-dev/berth/fleet/storage"
	"github.com/berth-dev/berth/fleet/stream"
	"github.com/berth-dev/berth/fleet/usage"
	"github.com/berth-dev/berth/fleet/workload"
)

// Run plays the fleet until ctx ends, and then returns nil. The cluster must have been prepared
// by Install.
func Run(ctx context.Context, o Options) error {
	if err := o.complete(); err != nil {
		return err
	}
	p, err := assemble(o)
	if err != nil {
		return err
	}
	group, running := errgroup.WithContext(ctx)
	group.Go(func() error { return p.server.Serve(running) })
	group.Go(func() error { return p.kubelet.Run(running) })
	group.Go(func() error { p.leases.Run(running); return nil })
	group.Go(func() error { return p.control(running) })
	group.Go(func() error { return p.storage(running, o) })
	group.Go(func() error { p.metrics.announce(running, p.port); return nil })
	if err := group.Wait(); ctx.Err() == nil {
		return err
	}
	return nil // asked to stop, and whatever was under way broke off
}

// parts is what one Run consists of.
type parts struct {
	*controller
	kubelet     *kubelet.Kubelet
	server      *stream.Server
	metrics     *metricsAPI
	informers   informers.SharedInformerFactory
	nodes       cache.SharedIndexInformer
	slices      cache.SharedIndexInformer
	poolCache   cache.SharedIndexInformer
	faultCache  cache.SharedIndexInformer
	launchCache cache.SharedIndexInformer
	domainCache cache.SharedIndexInformer
}

// assemble makes the parts and ties them together; nothing moves yet.
func assemble(o Options) (*parts, error) {
	p, err := newParts(o)
	if err != nil {
		return nil, err
	}
	if err := p.addKubelet(o); err != nil {
		return nil, err
	}
	certificate, bundle, err := newMetricsCertificate(time.Now())
	if err != nil {
		return nil, err
	}
	p.metrics = &metricsAPI{client: p.client.CoreV1().RESTClient(), log: o.Log, bundle: bundle}
	p.server, err = stream.Listen("127.0.0.1:0", stream.Options{
		Backend: p.kubelet, Certificate: o.KubeletTLS.Certificate,
		ClientCAs: o.KubeletTLS.ClientCAs, ClientName: o.KubeletTLS.ClientName, Log: o.Log,
		Aggregated: usage.Handler(p.kubelet), AggregatorName: o.KubeletTLS.AggregatorName, AggregatedCertificate: certificate,
	})
	if err != nil {
		return nil, err
	}
	p.port = int32(p.server.Port())
	p.tally = newTally(o.Progress, p.port)
	return p, nil
}

// newParts makes the node side.
func newParts(o Options) (*parts, error) {
	client, err := newClient(o.Config)
	if err != nil {
		return nil, err
	}
	pools, err := newPoolClient(o.Config)
	if err != nil {
		return nil, err
	}
	p := &parts{informers: informers.NewSharedInformerFactory(client, 0), poolCache: pools.informer(), faultCache: pools.faultInformer(), launchCache: pools.machineInformer()}
	p.nodes = p.informers.Core().V1().Nodes().Informer()
	p.slices = p.informers.Resource().V1().ResourceSlices().Informer()
	p.controller = &controller{
		client:     client,
		pools:      pools,
		leases:     newLeases(client.CoordinationV1().Leases(corev1.NamespaceNodeLease), o.LeaseInterval, o.Log),
		log:        o.Log,
		nodeStore:  p.informers.Core().V1().Nodes().Lister(),
		sliceStore: p.informers.Resource().V1().ResourceSlices().Lister(),
		poolStore:  p.poolCache.GetStore(),
		nodeQueue:  newQueue(),
		poolQueue:  newQueue(),
		byHand:     make(chan struct{}, 1),
		faults:     newFaults(pools, p.faultCache.GetStore()),
		launches:   newLaunches(p.launchCache.GetStore()),
	}
	p.machines = &machines{clock: clock.Clock{Speed: o.Speed}, cold: o.Cold, node: p.node}
	kinds, err := dynamic.NewForConfig(unlimited(o.Config))
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	p.domainCache = watchDomains(kinds)
	p.domains = newDomains(p.controller, kinds, p.domainCache.GetIndexer(), p.allNodes)
	return p, nil
}

// addKubelet makes the pod side, with a connection of its own: pods are most of the traffic.
func (p *parts) addKubelet(o Options) error {
	client, err := newClient(o.Config)
	if err != nil {
		return err
	}
	dir := o.DataDir
	if dir != "" {
		dir = filepath.Join(dir, "checkpoints")
	}
	store, err := workload.NewFileStore(dir)
	if err != nil {
		return fmt.Errorf("open checkpoints: %w", err)
	}
	pace := clock.Clock{Speed: o.Speed}
	p.kubelet = kubelet.New(kubelet.Options{
		Client:        client,
		Machine:       p.handle,
		Workloads:     workload.New(workload.Options{Clock: pace, Store: store}),
		Clock:         pace,
		Log:           o.Log,
		StackChanged:  p.nodeQueue.Add,
		ImagesChanged: func(node string) { p.nodeQueue.AddAfter(node, statusFrequency) },
		Domains:       p.domains,
	})
	p.controller.pods, p.domains.pods = p.kubelet, p.kubelet
	if o.Pods != nil {
		o.Pods.kubelet.Store(p.kubelet)
	}
	return nil
}

// storage makes volumes once the nodes are known.
func (p *parts) storage(ctx context.Context, o Options) error {
	if !cache.WaitFor(ctx, "", p.nodes.HasSyncedChecker()) {
		return nil
	}
	return storage.Run(ctx, storage.Options{Client: p.client, Node: p.node, Nodes: p.allNodes, Clock: clock.Clock{Speed: o.Speed}, Log: o.Log})
}

// allNodes are those that are registered.
func (p *parts) allNodes() []*corev1.Node {
	list, err := p.nodeStore.List(labels.Everything())
	if err != nil {
		return nil // a store in memory has no errors
	}
	return list
}

// handle gives the kubelet the machine of a node; nil: not one of ours.
func (p *parts) handle(node string) *kubelet.Machine {
	if m := p.machines.get(node); m != nil {
		return m.handle
	}
	return nil
}

// newClient is a client with a connection of its own: clients that share a dialer share the
// connection.
func newClient(cfg *rest.Config) (kubernetes.Interface, error) {
	cfg = unlimited(cfg)
	if cfg.Dial == nil {
		cfg.Dial = (&net.Dialer{}).DialContext
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	return client, nil
}

// control reads what is there, then follows it until ctx ends.
func (p *parts) control(ctx context.Context) error {
	changed := make(chan struct{}, 1)
	poke := func() {
		select {
		case changed <- struct{}{}:
		default: // one is waiting already
		}
	}
	if _, err := p.nodes.AddEventHandler(p.nodeEvents()); err != nil {
		return fmt.Errorf("watch nodes: %w", err)
	}
	if _, err := p.slices.AddEventHandler(p.sliceEvents()); err != nil {
		return fmt.Errorf("watch resource slices: %w", err)
	}
	if _, err := p.poolCache.AddEventHandler(poolEvents(poke)); err != nil {
		return fmt.Errorf("watch pools: %w", err)
	}
	if _, err := p.faultCache.AddEventHandler(p.faults.events()); err != nil {
		return fmt.Errorf("watch faults: %w", err)
	}
	if _, err := p.launchCache.AddEventHandler(p.launches.events()); err != nil {
		return fmt.Errorf("watch machines: %w", err)
	}
	if _, err := p.domainCache.AddEventHandler(p.domains.events()); err != nil {
		return fmt.Errorf("watch compute domains: %w", err)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { p.domainCache.RunWithContext(ctx) })
	wg.Go(func() { p.launchCache.RunWithContext(ctx) })
	wg.Go(func() { p.poolCache.RunWithContext(ctx) })
	wg.Go(func() { p.faultCache.RunWithContext(ctx) })
	p.informers.StartWithContext(ctx)
	defer p.informers.Shutdown()
	if err := p.leases.Recall(ctx); err != nil {
		return err
	}
	if !cache.WaitFor(ctx, "", p.nodes.HasSyncedChecker(), p.slices.HasSyncedChecker(), p.poolCache.HasSyncedChecker(), p.faultCache.HasSyncedChecker(), p.launchCache.HasSyncedChecker(), p.domainCache.HasSyncedChecker()) {
		return nil
	}
	return p.run(ctx, changed)
}
