package fleet

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/fleet/device"
	"github.com/berth-dev/berth/fleet/fault"
)

const (
	// nodeWorkers bounds how many nodes are written at once.
	nodeWorkers = 16
	// poolStatusDelay gathers the changes of many nodes into one write of their pool's status.
	poolStatusDelay = 500 * time.Millisecond
)

// controller keeps Nodes as the Pools and the machines want them.
//
//	Pool events ----> machines.set ----> nodeQueue ----> sync: create, update, delete, status
//	Node and slice events, GPU-stack pods, timers ----^     |
//	                 '----> tally ----> poolQueue ----> Pool status
//
// A key is worked on by one worker at a time, and many events of a key become one look.
type controller struct {
	client   kubernetes.Interface
	pools    *poolClient
	machines *machines
	leases   *leases
	tally    *tally
	pods     podSide
	port     int32 // of the kubelets' endpoint
	log      *slog.Logger

	nodeStore  corelisters.NodeLister
	sliceStore resourcelisters.ResourceSliceLister
	poolStore  cache.Store
	nodeQueue  workqueue.TypedRateLimitingInterface[string]
	poolQueue  workqueue.TypedRateLimitingInterface[string]
	byHand     chan struct{} // capacity 1: nodes to adopt may have changed
	faults     *faults       // nil: there is no such kind
	launches   *launches     // nil: nobody launches machines
	domains    *domains      // nil: there are no compute domains

	mu       sync.Mutex
	problems map[string]string // by pool; see wanted
}

// podSide is what the node side needs of fleet/kubelet.
type podSide interface {
	StackPods(node string) []device.StackPod
	Images(node string, now time.Time) []corev1.ContainerImage
	NodeChanged(node string)
	Faulted(node string, before, now *fault.Effects)
}

func newQueue() workqueue.TypedRateLimitingInterface[string] {
	return workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](20*time.Millisecond, 30*time.Second))
}

// nodeEvents is what the informer calls.
func (c *controller) nodeEvents() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { c.nodeSeen(nil, obj.(*corev1.Node)) },
		UpdateFunc: func(old, obj any) { c.nodeSeen(old.(*corev1.Node), obj.(*corev1.Node)) },
		DeleteFunc: c.nodeGone,
	}
}

func (c *controller) nodeSeen(old, node *corev1.Node) {
	c.countPools(c.tally.SetNode(node))
	c.domains.nodeSeen(old, node)
	if is := markOf(node); is != markOf(old) || is.fake && old.UID != node.UID {
		c.adopt()
	}
	if old == nil || old.UID != node.UID {
		c.pods.NodeChanged(node.Name)
	}
	c.nodeQueue.Add(node.Name)
}

func (c *controller) nodeGone(obj any) {
	name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
	if err != nil {
		return
	}
	c.countPools(c.tally.DropNode(name))
	if node, ok := obj.(*corev1.Node); ok {
		c.domains.nodeSeen(node, nil)
	}
	if m := c.machines.get(name); m != nil && m.wants().byHand {
		c.adopt()
	}
	c.leases.Remove(name)
	c.pods.NodeChanged(name)
	c.nodeQueue.Add(name)
}

func (c *controller) countPools(pools []string) {
	for _, name := range pools {
		c.poolQueue.AddAfter(name, poolStatusDelay)
	}
}

// poolEvents calls changed for everything that can alter which nodes are wanted.
func poolEvents(changed func()) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { changed() },
		UpdateFunc: func(old, obj any) {
			if a, b := old.(*v1alpha1.Pool), obj.(*v1alpha1.Pool); a.UID != b.UID || a.Generation != b.Generation {
				changed()
			}
		},
		DeleteFunc: func(any) { changed() },
	}
}

// takePools brings the machines in line with the Pools. One goroutine calls it.
func (c *controller) takePools() error {
	pools := c.listPools()
	nodes, problems := wanted(pools)
	nodes = append(nodes, launched(pools, c.launches.list(), nodes)...)
	taken, err := c.takenSlots()
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.problems = problems
	c.mu.Unlock()
	c.tally.SetWanted(nodes)
	registered, err := c.nodeStore.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	nodes = append(nodes, adopted(registered, nodes, c.known)...)
	changed := c.machines.set(nodes, taken, time.Now())
	for _, name := range changed {
		c.nodeQueue.Add(name)
		c.pods.NodeChanged(name)
	}
	for _, pool := range pools {
		c.poolQueue.AddAfter(pool.Name, poolStatusDelay)
	}
	return nil
}

// adopt has the machines looked at again: a node that was made by hand came, changed or went.
func (c *controller) adopt() {
	select {
	case c.byHand <- struct{}{}:
	default: // one is waiting already
	}
}

// known is what the node's machine is wanted for.
func (c *controller) known(name string) (want, bool) {
	m := c.machines.get(name)
	if m == nil {
		return want{}, false
	}
	return m.wants(), true
}

func (c *controller) listPools() []*v1alpha1.Pool {
	var pools []*v1alpha1.Pool
	for _, obj := range c.poolStore.List() {
		pools = append(pools, obj.(*v1alpha1.Pool))
	}
	return pools
}

// takenSlots are the slots of all registered nodes.
func (c *controller) takenSlots() (map[string]slot, error) {
	nodes, err := c.nodeStore.List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	taken := make(map[string]slot, len(nodes))
	for _, n := range nodes {
		if s, ok := slotOf(n.Spec.PodCIDR); ok {
			taken[n.Name] = s
		}
	}
	return taken, nil
}

// run works on the queues until ctx ends. changed carries a token whenever Pools changed. The
// Pools are read before any node is looked at: a node whose pool is not known would be deleted.
func (c *controller) run(ctx context.Context, changed <-chan struct{}) error {
	if err := c.takePools(); err != nil {
		return err
	}
	due := newDue(c.takeFaults(ctx, time.Now()))
	c.answerLaunches(ctx, time.Now())
	defer due.stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	for range nodeWorkers {
		wg.Go(func() { work(ctx, c.log, "node", c.nodeQueue, c.syncNode) })
	}
	wg.Go(func() { work(ctx, c.log, "pool", c.poolQueue, c.syncPool) })
	if c.domains != nil {
		wg.Go(func() { work(ctx, c.log, "compute domain", c.domains.queue, c.domains.sync) })
		defer c.domains.queue.ShutDown()
	}
	defer c.nodeQueue.ShutDown()
	defer c.poolQueue.ShutDown()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-c.byHand:
		case <-c.launches.news():
		case <-c.faults.news():
			due.set(c.takeFaults(ctx, time.Now()))
			c.answerLaunches(ctx, time.Now())
			continue
		case <-due.C():
			due.set(c.takeFaults(ctx, time.Now()))
			continue
		}
		if err := c.takePools(); err != nil {
			return err
		}
		due.set(c.takeFaults(ctx, time.Now()))
		c.answerLaunches(ctx, time.Now())
	}
}

// work runs sync for each key of the queue, again after a while where it fails.
func work(ctx context.Context, log *slog.Logger, kind string, queue workqueue.TypedRateLimitingInterface[string], sync func(context.Context, string) error) {
	for {
		key, quit := queue.Get()
		if quit {
			return
		}
		if err := sync(ctx, key); err != nil && ctx.Err() == nil {
			log.Debug("sync", kind, key, "err", err)
			queue.AddRateLimited(key)
		} else {
			queue.Forget(key)
		}
		queue.Done(key)
	}
}
