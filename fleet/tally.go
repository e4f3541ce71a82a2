package fleet

import (
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/fleet/device"
	"github.com/berth-dev/berth/fleet/gpu"
)

// tally counts nodes and GPUs by pool as they change, so that nobody has to walk the fleet. Pools
// that are gone have no nodes once the last one is deleted.
type tally struct {
	report func(Progress) // nil: nobody looks
	port   int32          // of the kubelets' endpoint; see nodeCount.live

	mu     sync.Mutex
	pools  map[string]poolCount
	nodes  map[string]nodeCount
	slices map[string]int64 // the GPUs in each node's ResourceSlice, where this run published one
	wants  map[string]int64 // the GPUs each wanted node will have; nil until Pools were read
	sum    Progress
}

// nodeCount is what one node adds to its pool.
type nodeCount struct {
	pool               string
	ready, schedulable bool
	gpus               int64 // allocatable, or in its ResourceSlice
	// live: its status was written by this run, which the port in it tells. What an earlier run
	// left may not be true any more, and is no progress.
	live bool
}

// poolCount is the sum over a pool's nodes.
type poolCount struct{ nodes, ready, gpus int64 }

func newTally(report func(Progress), port int32) *tally {
	return &tally{
		report: report, port: port,
		pools: map[string]poolCount{}, nodes: map[string]nodeCount{}, slices: map[string]int64{},
	}
}

func (t *tally) countOf(node *corev1.Node) nodeCount {
	return nodeCount{
		pool: node.Labels[v1alpha1.LabelPool], gpus: offeredGPUs(node),
		ready: isReady(node), schedulable: isSchedulable(node),
		live: node.Status.DaemonEndpoints.KubeletEndpoint.Port == t.port,
	}
}

// offeredGPUs counts what the node's device plugin offers, MIG devices and shares of GPUs among it. While the MIG manager has
// work to do there it is nothing: what is offered goes away again.
func offeredGPUs(node *corev1.Node) int64 {
	state, config := node.Labels[migStateLabel], node.Labels[migConfigLabel]
	if config != "" && node.Labels[migDeployLabel] == "true" && state != migSuccess && state != migFailed {
		return 0
	}
	n := int64(0)
	for name, q := range node.Status.Allocatable {
		if IsGPU(name) {
			n += q.Value()
		}
	}
	return n
}

// IsGPU says whether the resource is GPUs, MIG devices or shares of either, as NVIDIA's device plugin names them.
func IsGPU(name corev1.ResourceName) bool { return device.IsResource(string(name)) }

// SetNode counts a node as it is now, and returns the pools whose figures changed.
func (t *tally) SetNode(node *corev1.Node) []string {
	next := t.countOf(node)
	t.mu.Lock()
	defer t.mu.Unlock()
	next.gpus += t.slices[node.Name]
	return t.change(node.Name, next, true)
}

// DropNode forgets a node that is gone; its ResourceSlice goes with it.
func (t *tally) DropNode(name string) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.slices, name)
	return t.change(name, nodeCount{}, false)
}

// SetSlice counts the GPUs that a node offers in its ResourceSlices, as a whole or in parts, besides those in its status.
func (t *tally) SetSlice(name string, gpus int64) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	next, there := t.nodes[name]
	if !there {
		return nil
	}
	next.gpus += gpus - t.slices[name]
	t.slices[name] = gpus
	return t.change(name, next, true)
}

// change replaces what is counted of a node. The lock is held.
func (t *tally) change(name string, next nodeCount, there bool) (pools []string) {
	last, was := t.nodes[name]
	if was == there && last == next {
		return nil
	}
	if was {
		t.add(name, last, -1)
		delete(t.nodes, name)
		pools = append(pools, last.pool)
	}
	if there {
		t.add(name, next, 1)
		t.nodes[name] = next
		pools = append(pools, next.pool)
	}
	t.tell()
	return pools
}

// add counts a node in (sign 1) or out (-1) of its pool and, where it is wanted, of the sum.
func (t *tally) add(name string, c nodeCount, sign int64) {
	p := t.pools[c.pool]
	p.nodes += sign
	p.gpus += sign * c.gpus
	if c.ready {
		p.ready += sign
	}
	t.pools[c.pool] = p
	if p == (poolCount{}) {
		delete(t.pools, c.pool)
	}
	gpus, wanted := t.wants[name]
	if !wanted {
		return
	}
	t.sum.Nodes += int(sign)
	if c.live && c.schedulable {
		t.sum.Ready += int(sign)
		t.sum.GPUs += int(sign * min(c.gpus, gpus))
	}
}

// SetWanted says which nodes there should be.
func (t *tally) SetWanted(nodes []want) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wants = make(map[string]int64, len(nodes))
	t.sum = Progress{WantNodes: len(nodes)}
	for _, w := range nodes {
		gpus := expectedGPUs(w.pool)
		t.wants[w.name()] = gpus
		t.sum.WantGPUs += int(gpus)
	}
	t.pools = map[string]poolCount{}
	for name, c := range t.nodes {
		t.add(name, c, 1)
	}
	t.tell()
}

// expectedGPUs is what a node of the pool advertises once it is up, without a user's doing.
func expectedGPUs(pool *v1alpha1.Pool) int64 {
	if pool.Spec.GPUStack != v1alpha1.GPUStackOperator {
		return 0
	}
	if pool.Spec.MIG != (v1alpha1.MIG{}) && !cutByClaims(&pool.Spec) {
		return expectedMIG(pool)
	}
	return int64(pool.GPUsPerNode())
}

// expectedMIG counts what a node offers once the MIG manager is through: MIG devices, and GPUs that stay whole. Of a
// configuration that only a ConfigMap may have nothing is expected, nor of one that fails.
func expectedMIG(pool *v1alpha1.Pool) int64 {
	devices := gpu.Devices("", gpuGroups(&pool.Spec))
	specs, known := gpu.NamedMIG(pool.Spec.MIG.Config, devices)
	if !known {
		return 0
	}
	parts, err := gpu.ApplyMIG(specs, devices, make([]gpu.Partition, len(devices)))
	if err != nil {
		return 0
	}
	m := device.New(device.Config{Devices: devices})
	if m.Repartition(parts) != nil {
		return 0
	}
	return int64(m.Offers(string(pool.Spec.MIG.Strategy)))
}

// tell reports the sum. The lock is held, which keeps reports in order.
func (t *tally) tell() {
	if t.report != nil && t.wants != nil {
		t.report(t.sum)
	}
}

// Pool is the count of one pool.
func (t *tally) Pool(name string) poolCount {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pools[name]
}
