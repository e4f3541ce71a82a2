package provisioner

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// stage is a cluster in which a provisioner plays: an API server, a fleet that answers Machines and has their nodes come and go, and a
// scheduler that binds pods where there is room and marks them where there is none.
type stage struct {
	*server
	kind   Kind
	player player
	api    *api
	pods   cache.Indexer
	nodes  cache.Indexer
	stock  map[string]int    // machines that the provider has, by zone
	given  map[string]string // zone of machines that it gave, by name and UID
	kills  int
}

func newStage(t *testing.T, kind Kind, stock map[string]int, edit func(*v1alpha1.Pool)) *stage {
	t.Helper()
	x := &stage{
		server: &server{t: t, now: time.Date(2026, 11, 19, 0, 0, 0, 0, time.UTC), objects: make(map[string]map[string]any)},
		kind:   kind, stock: stock, given: make(map[string]string),
	}
	p := &v1alpha1.Pool{}
	p.Name, p.Generation = "h200", 1
	p.Spec.GPUs = []v1alpha1.GPU{{Model: "H200", Count: 8}}
	p.Spec.Launch = &v1alpha1.LaunchPolicy{Zones: []string{"a", "b"}, Max: new(int32(8)), ConsolidateAfter: &metav1.Duration{Duration: 10 * time.Second}}
	if edit != nil {
		edit(p)
	}
	put(x.server, "pools", p)
	if kind == Karpenter { // all nodes may go at once
		v1alpha1.Default(p)
		n := nodePoolFor(p)
		n.Spec.Disruption.Budgets = []budget{{Nodes: "100%"}}
		put(x.server, "nodepools", n)
	}
	x.fresh()
	return x
}

// like is a node of the pool, as Options.Like makes one.
func like(p *v1alpha1.Pool, i int) (*corev1.Node, error) {
	n := gpuNode(fmt.Sprintf("%s-%d", p.Name, i), "", 8)
	n.Labels = p.NodeLabels(i)
	n.Labels[corev1.LabelInstanceTypeStable] = "sim.8x-h200"
	return n, nil
}

// fresh starts a controller that knows nothing but what the API server has.
func (x *stage) fresh() {
	x.t.Helper()
	a, err := newAPI(Options{Config: x.config(), Kind: x.kind, Like: like, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		x.t.Fatal(err)
	}
	x.pods, x.nodes = cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}), cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	a.pods, a.nodes = corelisters.NewPodLister(x.pods), corelisters.NewNodeLister(x.nodes)
	a.daemons = appslisters.NewDaemonSetLister(cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}))
	x.api, x.player = a, nil
	if x.kind == Karpenter {
		x.player = newKarpenter(a)
	} else {
		x.player = newAutoscaler(a)
	}
	x.dead = false
	x.watch(true, true)
}

// watch brings the local copies of pods and of nodes up to date, each on its own.
func (x *stage) watch(pods, nodes bool) {
	if pods {
		refill(x, x.pods, podsOf(x.server))
	}
	if nodes {
		refill(x, x.nodes, nodesOf(x.server))
	}
}

func refill[T any](x *stage, to cache.Indexer, list []T) {
	var objects []any
	for i := range list {
		objects = append(objects, &list[i])
	}
	if err := to.Replace(objects, ""); err != nil {
		x.t.Fatal(err)
	}
}

// look has the controller look once. Whoever was killed on the way is replaced.
func (x *stage) look() {
	x.t.Helper()
	w, err := x.api.read(x.t.Context(), x.now)
	if err == nil {
		err = x.player.look(x.t.Context(), w)
	}
	if x.dead {
		x.kills++
		x.fresh()
	} else if err != nil {
		x.t.Fatal(err)
	}
}

// submit adds pods of 8 GPUs each.
func (x *stage) submit(gang string, pods int) {
	for i := range pods {
		x.pod(fmt.Sprintf("%s-%d", gang, i), "", 8)
	}
}

func (x *stage) pod(name, node string, gpus int64) {
	p := gpuPod(name, gpus)
	p.UID, p.Spec.NodeName = "", node
	p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(x.now)
	if node != "" {
		p.Status.Conditions = nil
	}
	put(x.server, "pods", p)
}

// end has all pods be gone.
func (x *stage) end() {
	for key := range x.objects {
		if len(key) > 5 && key[:5] == "pods/" {
			delete(x.objects, key)
		}
	}
}

func (x *stage) machines() []v1alpha1.Machine { return all[v1alpha1.Machine](x.server, "machines") }
func (x *stage) claims() []nodeClaim          { return all[nodeClaim](x.server, "nodeclaims") }

// step is the world beside the controller: each of its parts moves or not, as r says.
func (x *stage) step(r *rand.Rand) {
	x.t.Helper()
	maybe := func() bool { return r == nil || r.IntN(3) > 0 }
	x.now = x.now.Add(4 * time.Second)
	if r != nil {
		x.now = x.now.Add(time.Duration(r.IntN(20)) * time.Second)
	}
	there := make(map[string]bool)
	for _, m := range x.machines() {
		there[m.Name+"/"+string(m.UID)] = true
		if m.Status.Phase == "" && maybe() {
			x.answer(&m)
		}
	}
	for key, zone := range x.given {
		if !there[key] {
			delete(x.given, key)
			x.stock[zone]++
		}
	}
	x.boot(maybe)
	x.schedule(maybe)
}

func (x *stage) answer(m *v1alpha1.Machine) {
	if x.stock[m.Spec.Zone] > 0 {
		x.stock[m.Spec.Zone]--
		x.given[m.Name+"/"+string(m.UID)] = m.Spec.Zone
		m.Status.Phase, m.Status.LaunchedAt = v1alpha1.MachineLaunched, &metav1.MicroTime{Time: x.now}
	} else {
		m.Status.Phase, m.Status.Error = v1alpha1.MachineFailed, string(v1alpha1.ErrorInsufficientInstanceCapacity)
	}
	put(x.server, "machines", m)
}

// boot has nodes register and get ready, and those without a machine leave.
func (x *stage) boot(maybe func() bool) {
	has, machines := make(map[string]bool), make(map[string]*v1alpha1.Machine)
	for _, m := range x.machines() {
		machines[m.Name] = &m
	}
	for _, n := range nodesOf(x.server) {
		has[n.Name] = true
		switch m := machines[n.Name]; {
		case (m == nil || m.Status.Phase != v1alpha1.MachineLaunched) && n.DeletionTimestamp == nil:
			x.server.remove(parse("/api/v1/nodes/"+n.Name), nil)
		case m != nil && !readyNode(&n) && maybe():
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
			n.Status.Allocatable["nvidia.com/gpu"] = resource.MustParse("8")
			put(x.server, "nodes", &n)
		}
	}
	for _, m := range machines {
		if m.Status.Phase == v1alpha1.MachineLaunched && !has[m.Name] && maybe() {
			n, _ := like((&v1alpha1.Pool{ObjectMeta: metav1.ObjectMeta{Name: m.Spec.Pool}}).InZone(m.Spec.Zone, m.Spec.CapacityType), 0)
			n.Name, n.Spec.ProviderID = m.Name, providerID(m.Name)
			n.Labels[corev1.LabelTopologyZone], n.Labels[v1alpha1.LabelPool] = m.Spec.Zone, m.Spec.Pool
			delete(n.Status.Allocatable, "nvidia.com/gpu")
			if m.Annotations[v1alpha1.KeyRegisterWithTaints] != "" {
				n.Spec.Taints = []corev1.Taint{{Key: unregisteredTaint, Effect: corev1.TaintEffectNoExecute}}
			}
			put(x.server, "nodes", n)
		}
	}
}

// schedule binds pods that wait, and marks again those of nodes that are gone.
func (x *stage) schedule(maybe func() bool) {
	nodes, pods := nodesOf(x.server), podsOf(x.server)
	var bins []*bin
	for i := range nodes {
		if n := &nodes[i]; n.DeletionTimestamp == nil && readyNode(n) {
			b := newBin(n, nil)
			for j := range pods {
				if pods[j].Spec.NodeName == n.Name {
					b.put(&pods[j])
				}
			}
			bins = append(bins, b)
		}
	}
	for _, p := range pods {
		if p.Spec.NodeName != "" || !maybe() {
			continue
		}
		for _, b := range bins {
			if b.admits(&p, nil) {
				b.put(&p)
				p.Spec.NodeName, p.Status.Conditions = b.node.Name, nil
				put(x.server, "pods", &p)
				break
			}
		}
	}
}

// waiting counts the pods that have no node.
func (x *stage) waiting() (n int) {
	for _, p := range podsOf(x.server) {
		if p.Spec.NodeName == "" {
			n++
		}
	}
	return n
}

// serving are the machines that are there or are asked for, and are not on their way out.
func (x *stage) serving() (out []string) {
	leaving := make(map[string]bool)
	for _, c := range x.claims() {
		leaving[c.Name] = c.DeletionTimestamp != nil
	}
	for _, m := range x.machines() {
		if m.Status.Phase != v1alpha1.MachineFailed && !leaving[m.Name] {
			out = append(out, m.Name)
		}
	}
	slices.Sort(out)
	return out
}
