package fleet

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/fleet/device"
	"github.com/berth-dev/berth/fleet/fault"
)

// stackBed is the pod side: the GPU-stack pods that a test puts on the nodes.
type stackBed struct {
	mu      sync.Mutex
	pods    []device.StackPod
	daemons map[string]device.StackPod // of compute domains, by node
	changed map[string]int
}

func (s *stackBed) StackPods(node string) []device.StackPod {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d, ok := s.daemons[node]; ok {
		return append(slices.Clone(s.pods), d)
	}
	return s.pods
}

func (*stackBed) Images(string, time.Time) []corev1.ContainerImage { return nil }

func (*stackBed) Faulted(string, *fault.Effects, *fault.Effects) {}

func (s *stackBed) NodeChanged(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed[node]++
}

// bed is a controller on a fake API server, inside a synctest bubble.
type bed struct {
	*controller
	t      *testing.T
	client *fake.Clientset
	kinds  *dynamicfake.FakeDynamicClient
	leases *leaseServer
	stack  *stackBed
	poke   chan struct{}

	mu       sync.Mutex
	statuses map[string]v1alpha1.PoolStatus // last written, by pool
}

func newBed(t *testing.T, cold bool, pools []*v1alpha1.Pool, objects ...runtime.Object) *bed {
	client := fake.NewClientset(objects...)
	factory := informers.NewSharedInformerFactory(client, 0)
	b := &bed{
		t: t, client: client, poke: make(chan struct{}, 1),
		leases:   &leaseServer{start: time.Now(), stored: map[string]*coordinationv1.Lease{}},
		stack:    &stackBed{changed: map[string]int{}, daemons: map[string]device.StackPod{}},
		kinds:    dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{domainResource: "ComputeDomainList"}),
		statuses: map[string]v1alpha1.PoolStatus{},
	}
	b.controller = &controller{
		client: client, pods: b.stack, tally: newTally(nil, 40001), port: 40001,
		log:        slog.New(slog.DiscardHandler),
		leases:     newLeases(b.leases, 10*time.Second, slog.New(slog.DiscardHandler)),
		nodeStore:  factory.Core().V1().Nodes().Lister(),
		sliceStore: factory.Resource().V1().ResourceSlices().Lister(),
		poolStore:  cache.NewStore(cache.MetaNamespaceKeyFunc),
		nodeQueue:  newQueue(), poolQueue: newQueue(), byHand: make(chan struct{}, 1),
	}
	b.controller.pools = b.poolServer()
	b.controller.faults = newFaults(b.controller.pools, cache.NewStore(cache.MetaNamespaceKeyFunc))
	b.machines = &machines{cold: cold, node: b.node}
	domains := watchDomains(b.kinds)
	b.domains = newDomains(b.controller, b.kinds, domains.GetIndexer(), (&parts{controller: b.controller}).allNodes)
	b.setPools(pools...)
	b.start(factory, domains)
	return b
}

func (b *bed) start(factory informers.SharedInformerFactory, domains cache.SharedIndexInformer) {
	nodes := factory.Core().V1().Nodes().Informer()
	if _, err := nodes.AddEventHandler(b.nodeEvents()); err != nil {
		b.t.Fatal(err)
	}
	resources := factory.Resource().V1().ResourceSlices().Informer()
	if _, err := resources.AddEventHandler(b.sliceEvents()); err != nil {
		b.t.Fatal(err)
	}
	if _, err := domains.AddEventHandler(b.domains.events()); err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.t.Context())
	factory.StartWithContext(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { domains.RunWithContext(ctx) })
	if !cache.WaitFor(ctx, "", nodes.HasSyncedChecker(), resources.HasSyncedChecker(), domains.HasSyncedChecker()) {
		b.t.Fatal("no nodes")
	}
	wg.Go(func() { b.controller.leases.Run(ctx) })
	wg.Go(func() {
		if err := b.run(ctx, b.poke); err != nil {
			b.t.Error(err)
		}
	})
	b.t.Cleanup(func() { cancel(); wg.Wait(); factory.Shutdown() })
	b.settle()
}

// poolServer takes the writes of pool statuses.
func (b *bed) poolServer() *poolClient {
	answer := func(req *http.Request) (*http.Response, error) {
		var body struct{ Status v1alpha1.PoolStatus }
		if err := json.NewDecoder(req.Body).Decode(&body); err != nil {
			b.t.Error(err)
		}
		name := strings.TrimSuffix(strings.TrimPrefix(req.URL.Path, "/apis/berth.dev/v1alpha1/pools/"), "/status")
		b.mu.Lock()
		b.statuses[name] = body.Status
		b.mu.Unlock()
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("{}"))}, nil
	}
	client, err := newPoolClient(&rest.Config{Host: "http://pools.invalid", Transport: roundTrip(answer)})
	if err != nil {
		b.t.Fatal(err)
	}
	return client
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// setPools replaces the Pools in the cache, as the informer would.
func (b *bed) setPools(pools ...*v1alpha1.Pool) {
	var objects []any
	for _, p := range pools {
		objects = append(objects, p)
	}
	if err := b.poolStore.Replace(objects, ""); err != nil {
		b.t.Fatal(err)
	}
	select {
	case b.poke <- struct{}{}:
	default:
	}
}

// setStack replaces the GPU-stack pods on every node, and says so for the given one.
func (b *bed) setStack(node string, pods []device.StackPod) {
	b.stack.mu.Lock()
	b.stack.pods = pods
	b.stack.mu.Unlock()
	b.nodeQueue.Add(node)
	b.settle()
}

// settle lets a second pass, enough for retries and gathered writes.
func (b *bed) settle() {
	time.Sleep(time.Second)
	synctest.Wait()
}

func (b *bed) get(name string) *corev1.Node {
	b.t.Helper()
	node, err := b.client.CoreV1().Nodes().Get(b.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	return node
}

func (b *bed) gone(name string) bool {
	_, err := b.client.CoreV1().Nodes().Get(b.t.Context(), name, metav1.GetOptions{})
	return apierrors.IsNotFound(err)
}

// edit is a user with kubectl.
func (b *bed) edit(name string, change func(*corev1.Node)) {
	b.t.Helper()
	node := b.get(name)
	change(node)
	if _, err := b.client.CoreV1().Nodes().Update(b.t.Context(), node, metav1.UpdateOptions{}); err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.client.CoreV1().Nodes().UpdateStatus(b.t.Context(), node, metav1.UpdateOptions{}); err != nil {
		b.t.Fatal(err)
	}
	b.settle()
}

// offer is "capacity/allocatable" of a resource; a dash: none.
func (b *bed) offer(name string, res corev1.ResourceName) string {
	b.t.Helper()
	show := func(list corev1.ResourceList) string {
		if q, ok := list[res]; ok {
			return q.String()
		}
		return "-"
	}
	node := b.get(name)
	return show(node.Status.Capacity) + "/" + show(node.Status.Allocatable)
}

func (b *bed) wantOffer(when, name string, res corev1.ResourceName, want string) {
	b.t.Helper()
	if got := b.offer(name, res); got != want {
		b.t.Errorf("%s: %s of %s is %s, want %s", when, res, name, got, want)
	}
}

func TestGPUsFollowTheStacksPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, false, []*v1alpha1.Pool{gpuPool("p", 1)})
		b.wantOffer("no stack yet", "p-0", device.Resource, "-/-")
		if !isReady(b.get("p-0")) {
			t.Error("a warm node is not Ready")
		}
		b.setStack("p-0", stackPods())
		b.wantOffer("whole stack", "p-0", device.Resource, "8/8")
		if got := b.get("p-0").Labels["nvidia.com/gpu.product"]; got != "NVIDIA-H100-80GB-HBM3" {
			t.Errorf("product %q", got)
		}
		b.setStack("p-0", nil)
		b.wantOffer("stack gone", "p-0", device.Resource, "8/0")
		time.Sleep(device.GracePeriod)
		b.settle()
		b.wantOffer("gone for long", "p-0", device.Resource, "0/0")
		if got := b.get("p-0").Labels["nvidia.com/gpu.product"]; got == "" {
			t.Error("the labels went with the pod")
		}
		b.setStack("p-0", stackPods())
		b.wantOffer("stack back", "p-0", device.Resource, "8/8")
		if q := b.machines.get("p-0").allocatable()[device.Resource]; q.Value() != 8 {
			t.Errorf("the kubelet admits against %s GPUs", q.String())
		}
		want := v1alpha1.PoolStatus{Nodes: 1, Ready: 1, GPUs: 8}
		got := b.statuses["p"]
		got.Conditions = nil
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestUsersEditsAreFollowedAndKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, false, []*v1alpha1.Pool{plainPool("p", 1)})
		b.edit("p-0", func(n *corev1.Node) {
			n.Status.Capacity[device.Resource] = resource.MustParse("1")
			n.Labels["mine"], n.Spec.Unschedulable = "x", true
			n.Spec.Taints = append(n.Spec.Taints, taint("mine", ""))
		})
		b.wantOffer("patched", "p-0", device.Resource, "1/1")
		relabelled := plainPool("p", 1)
		relabelled.Generation = 2
		relabelled.Spec.Labels = map[string]string{"team": "a"}
		b.setPools(relabelled)
		b.settle()
		n := b.get("p-0")
		if n.Labels["mine"] != "x" || n.Labels["team"] != "a" || !n.Spec.Unschedulable || len(n.Spec.Taints) != 1 {
			t.Errorf("labels %v, taints %v, cordoned %t", n.Labels, n.Spec.Taints, n.Spec.Unschedulable)
		}
		b.edit("p-0", func(n *corev1.Node) { delete(n.Status.Capacity, device.Resource) })
		b.wantOffer("taken back", "p-0", device.Resource, "-/-")
	})
}

func TestANodeWithoutPowerIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, false, []*v1alpha1.Pool{plainPool("p", 1)})
		b.edit("p-0", func(n *corev1.Node) { n.Annotations[DownAnnotation] = "true" })
		if !b.machines.get("p-0").handle.Down() || b.stack.changed["p-0"] == 0 {
			t.Error("the pods do not know")
		}
		renewed := b.leases.stored["p-0"].ResourceVersion
		time.Sleep(time.Minute)
		// the node lifecycle controller gives up on it
		b.edit("p-0", func(n *corev1.Node) { n.Status.Conditions[3].Status = corev1.ConditionUnknown })
		if got := b.leases.stored["p-0"].ResourceVersion; got != renewed {
			t.Error("the lease was renewed without power")
		}
		if isReady(b.get("p-0")) {
			t.Error("status was written without power")
		}
		b.edit("p-0", func(n *corev1.Node) { delete(n.Annotations, DownAnnotation) })
		if !isReady(b.get("p-0")) || b.leases.stored["p-0"].ResourceVersion == renewed {
			t.Error("power is back, the node is not")
		}
	})
}

func TestColdNodesRegisterNotReadyFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		there := newNode(want{pool: plainPool("old", 1), index: 0}, 5, facts{want: want{pool: plainPool("old", 1), index: 0}, ready: true}, noon)
		b := newBed(t, true, []*v1alpha1.Pool{plainPool("p", 1), plainPool("old", 1)}, there)
		if !isReady(b.get("old-0")) {
			t.Error("a node of an earlier run boots again")
		}
		if !b.gone("p-0") {
			t.Error("registered at once")
		}
		time.Sleep(90 * time.Second)
		b.settle()
		if n := b.get("p-0"); isReady(n) || n.Status.Conditions[3].Reason != "KubeletNotReady" {
			t.Errorf("conditions %v", n.Status.Conditions)
		}
		time.Sleep(25 * time.Second)
		b.settle()
		if !isReady(b.get("p-0")) {
			t.Error("not Ready after its boot")
		}
	})
}

func TestNodesComeAndGoWithTheirPools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		foreign := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "foreign"}}
		b := newBed(t, false, []*v1alpha1.Pool{plainPool("p", 2), gpuPool("g", 1)}, foreign)
		if err := b.client.CoreV1().Nodes().Delete(t.Context(), "p-0", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		b.settle()
		if b.gone("p-0") {
			t.Error("a deleted node does not register again")
		}
		smaller := plainPool("p", 1)
		smaller.Generation = 2
		other := gpuPool("g", 1)
		other.Generation, other.Spec.GPUs[0].Model = 2, "a100"
		network := b.get("g-0").Spec.PodCIDR
		b.setPools(smaller, other)
		b.settle()
		if b.gone("p-0") || !b.gone("p-1") {
			t.Error("want p-0 to stay and p-1 to go")
		}
		g := b.get("g-0")
		if g.Labels[corev1.LabelInstanceTypeStable] != "sim.8x-a100-sxm4-80gb" || g.Spec.PodCIDR != network {
			t.Errorf("after a change of GPUs: %s in %s", g.Labels[corev1.LabelInstanceTypeStable], g.Spec.PodCIDR)
		}
		b.setPools()
		b.settle()
		if !b.gone("p-0") || !b.gone("g-0") || b.gone("foreign") {
			t.Error("want all nodes gone but the foreign one")
		}
	})
}

// A fleet that has come to rest writes nothing but leases.
func TestAFleetAtRestIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, false, []*v1alpha1.Pool{plainPool("p", 3), gpuPool("g", 2), draPool("d", 1)})
		b.setStack("d-0", append(stackPods(), draPods()[0]))
		b.setStack("g-0", append(stackPods(), draPods()[0]))
		b.setStack("g-1", append(stackPods(), draPods()[0]))
		b.client.ClearActions()
		for _, name := range []string{"p-0", "p-1", "p-2", "g-0", "g-1", "d-0"} {
			b.nodeQueue.Add(name)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		for _, a := range b.client.Actions() {
			if a.GetVerb() != "watch" && a.GetVerb() != "list" {
				t.Errorf("%s %s", a.GetVerb(), a.GetResource().Resource)
			}
		}
	})
}

// byHandNode is a node as KWOK's users write it.
func byHandNode(name string, labels map[string]string) *corev1.Node {
	list := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("32"), corev1.ResourceMemory: resource.MustParse("256Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}
	n := &corev1.Node{Status: corev1.NodeStatus{Capacity: list, Allocatable: list.DeepCopy()}}
	n.Name, n.UID, n.Labels, n.Annotations = name, types.UID("uid-"+name), labels, map[string]string{kwokAnnotation: "fake"}
	n.Spec.Taints = []corev1.Taint{{Key: kwokAnnotation, Value: "fake", Effect: corev1.TaintEffectNoSchedule}}
	return n
}

// Nodes made by hand for KWOK come alive with what their author wrote, and stay their author's: nobody deletes them, and
// nobody makes them again.
func TestNodesMadeByHandComeAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stranger := byHandNode("stranger", nil)
		delete(stranger.Annotations, kwokAnnotation)
		b := newBed(t, false, nil, byHandNode("early", nil), stranger)
		if _, err := b.client.CoreV1().Nodes().Create(t.Context(), byHandNode("late", nil), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		b.settle()
		for _, name := range []string{"early", "late"} {
			n := b.get(name)
			if !isReady(n) || n.Spec.PodCIDR == "" || b.offer(name, corev1.ResourceMemory) != "256Gi/256Gi" || b.offer(name, corev1.ResourcePods) != "110/110" {
				t.Errorf("node %s: %+v", name, n.Status)
			}
			if diff := cmp.Diff(byHandNode(name, nil).Spec.Taints, n.Spec.Taints); diff != "" {
				t.Error(diff)
			}
		}
		if isReady(b.get("stranger")) {
			t.Error("a node that nobody marked came alive")
		}
		if err := b.client.CoreV1().Nodes().Delete(t.Context(), "late", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		b.setPools()
		b.settle()
		if !b.gone("late") || b.gone("early") {
			t.Errorf("late gone: %t, early gone: %t", b.gone("late"), b.gone("early"))
		}
		if b.machines.get("late") != nil {
			t.Error("a node that was deleted still has a machine")
		}
	})
}

// A node in a pool of the fake GPU operator advertises the GPUs that its labels describe, once the GPU stack stands on it.
func TestNodesOfTheFakeGPUOperatorAdvertise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, false, nil,
			byHandNode("labelled", map[string]string{fakeGPULabel: "default", productLabel: "NVIDIA-A100-SXM4-80GB", countLabel: "8"}),
			byHandNode("plain", map[string]string{fakeGPULabel: "default"}))
		if got := b.get("labelled").Labels["nvidia.com/gpu.deploy.device-plugin"]; got != "true" {
			t.Errorf("the GPU stack is not asked for: %q", got)
		}
		b.setStack("labelled", stackPods())
		b.setStack("plain", stackPods())
		if diff := cmp.Diff([]string{"8/8", "2/2"}, []string{b.offer("labelled", device.Resource), b.offer("plain", device.Resource)}); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"NVIDIA-A100-SXM4-80GB", "Tesla-K80"}, []string{b.get("labelled").Labels[productLabel], b.get("plain").Labels[productLabel]}); diff != "" {
			t.Error(diff)
		}
		// What it advertises later says nothing about what it has.
		b.setStack("labelled", nil)
		b.edit("labelled", func(n *corev1.Node) { delete(n.Labels, countLabel) })
		b.setStack("labelled", stackPods())
		if got := b.offer("labelled", device.Resource); got != "8/8" {
			t.Errorf("after its plugin was away it offers %s", got)
		}
	})
}
