package fleet

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/util/workqueue"
)

const (
	// renewalsPerSecond bounds what heartbeats cost: at 30 a second, 5,000 nodes take 0.09 of a
	// core in all (docs/performance.md).
	renewalsPerSecond = 30
	// shortestLease is the kubelet's own renewal interval.
	shortestLease = 10 * time.Second
	// leaseTick is how finely renewals are spread over the interval.
	leaseTick = 250 * time.Millisecond
	// leaseWorkers bounds how many renewals are in flight.
	leaseWorkers = 8
)

// LeaseInterval is how often each of the given number of nodes renews its lease: every 10 s as
// a kubelet does, and more rarely once that would be more than 30 renewals a second.
func LeaseInterval(nodes int) time.Duration {
	seconds := (nodes + renewalsPerSecond - 1) / renewalsPerSecond
	return max(shortestLease, time.Duration(seconds)*time.Second)
}

// GracePeriod is the --node-monitor-grace-period that fits a lease interval: one renewal may be
// lost and the next be late. At 10 s it is Kubernetes' default of 50 s.
func GracePeriod(interval time.Duration) time.Duration {
	return 2*interval + 30*time.Second
}

// leases renews one Lease per live node, spread evenly over the interval: each node sits in one
// bucket of a wheel, and the wheel turns once per interval.
type leases struct {
	client   coordinationclient.LeaseInterface
	interval time.Duration
	log      *slog.Logger
	queue    workqueue.TypedRateLimitingInterface[string]

	mu      sync.Mutex
	buckets []map[string]bool
	nodes   map[string]*heartbeat
	earlier map[string]string // resource versions of the leases that an earlier run left
}

// heartbeat is what is known of one node's lease. version is the Lease's resource version, empty
// until it was read or written, and belongs to the one worker that has the node's key.
type heartbeat struct {
	uid     types.UID
	bucket  int
	version string
	skew    atomic.Int64 // of the node's clock, nanoseconds
}

func newLeases(client coordinationclient.LeaseInterface, interval time.Duration, log *slog.Logger) *leases {
	l := &leases{client: client, interval: interval, log: log, nodes: map[string]*heartbeat{}}
	l.queue = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	l.buckets = make([]map[string]bool, max(1, int(interval/leaseTick)))
	for i := range l.buckets {
		l.buckets[i] = map[string]bool{}
	}
	return l
}

// Recall reads the leases of an earlier run in one call, so that each is renewed with one write.
// Call it before the first Add.
func (l *leases) Recall(ctx context.Context) error {
	list, err := l.client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list leases: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.earlier = make(map[string]string, len(list.Items))
	for _, lease := range list.Items {
		l.earlier[lease.Name] = lease.ResourceVersion
	}
	return nil
}

// Add starts the heartbeat of a node, with a renewal at once. A node that is there already keeps
// its place; one that was recreated gets a lease of its own.
func (l *leases) Add(node string, uid types.UID) {
	l.mu.Lock()
	h, ok := l.nodes[node]
	if ok && h.uid == uid {
		l.mu.Unlock()
		return
	}
	if ok {
		delete(l.buckets[h.bucket], node)
	}
	bucket := l.emptiest()
	l.nodes[node] = &heartbeat{uid: uid, bucket: bucket, version: l.earlier[node]}
	l.buckets[bucket][node] = true
	l.mu.Unlock()
	l.queue.Add(node)
}

// Skew sets how wrong the clock of a node is by which it renews its lease.
func (l *leases) Skew(node string, by time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h := l.nodes[node]; h != nil && h.skew.Swap(int64(by)) != int64(by) {
		l.queue.Add(node)
	}
}

// emptiest is the first of the buckets with the fewest nodes. The lock is held.
func (l *leases) emptiest() int {
	best := 0
	for i, b := range l.buckets {
		if len(b) < len(l.buckets[best]) {
			best = i
		}
	}
	return best
}

// Remove ends the heartbeat of a node: it is gone or down. The Lease itself stays; the garbage
// collector takes it with the node.
func (l *leases) Remove(node string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h, ok := l.nodes[node]; ok {
		delete(l.buckets[h.bucket], node)
		delete(l.nodes, node)
	}
}

// Run renews until ctx ends.
func (l *leases) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for range leaseWorkers {
		wg.Go(func() { l.work(ctx) })
	}
	defer wg.Wait()
	defer l.queue.ShutDown()
	tick := time.NewTicker(l.interval / time.Duration(len(l.buckets)))
	defer tick.Stop()
	for i := 0; ; i = (i + 1) % len(l.buckets) {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			l.turn(i)
		}
	}
}

// turn makes the nodes of one bucket due.
func (l *leases) turn(bucket int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for node := range l.buckets[bucket] {
		l.queue.Add(node)
	}
}

func (l *leases) work(ctx context.Context) {
	for {
		node, quit := l.queue.Get()
		if quit {
			return
		}
		if err := l.renew(ctx, node); err != nil && ctx.Err() == nil {
			l.log.Warn("renew lease", "node", node, "err", err)
			l.queue.AddRateLimited(node)
		} else {
			l.queue.Forget(node)
		}
		l.queue.Done(node)
	}
}

// renew writes the node's lease once: an update of the one last seen, without reading it first.
func (l *leases) renew(ctx context.Context, node string) error {
	l.mu.Lock()
	h := l.nodes[node]
	l.mu.Unlock()
	if h == nil {
		return nil
	}
	if h.version == "" {
		return l.claim(ctx, node, h)
	}
	err := l.update(ctx, node, h)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return l.claim(ctx, node, h)
	}
	return err
}

// claim makes the node's lease, or takes over the one that is there.
func (l *leases) claim(ctx context.Context, node string, h *heartbeat) error {
	h.version = ""
	made, err := l.client.Create(ctx, l.leaseOf(node, h), metav1.CreateOptions{})
	if err == nil {
		h.version = made.ResourceVersion
	}
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	old, err := l.client.Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return err
	}
	h.version = old.ResourceVersion
	return l.update(ctx, node, h)
}

func (l *leases) update(ctx context.Context, node string, h *heartbeat) error {
	got, err := l.client.Update(ctx, l.leaseOf(node, h), metav1.UpdateOptions{})
	if err == nil {
		h.version = got.ResourceVersion
	}
	return err
}

// leaseOf is the node's lease, renewed now. It is owned by the node, so that it goes with it.
func (l *leases) leaseOf(node string, h *heartbeat) *coordinationv1.Lease {
	holder, now := node, metav1.NewMicroTime(time.Now().Add(time.Duration(h.skew.Load())))
	seconds := int32((GracePeriod(l.interval) - 10*time.Second) / time.Second)
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name: node, Namespace: corev1.NamespaceNodeLease, ResourceVersion: h.version,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node, UID: h.uid}},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &now},
	}
}
