package conformance

import (
	"cmp"
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"pgregory.net/rapid"
)

// stock is the stock scheduler with its default configuration. It is asked for its filters alone and schedules
// nothing; its view of nodes and pods is set from outside, its view of volumes is fixed.
type stock struct {
	profile  framework.Framework
	snapshot *cache.Snapshot
	nominees nominees
}

func newStock(t *testing.T, storage ...runtime.Object) *stock {
	k := &stock{snapshot: cache.NewEmptySnapshot(), nominees: nominees{}}
	client := fake.NewClientset(storage...)
	watches := scheduler.NewInformerFactory(client, 0, nil)
	silent := func(string) events.EventRecorderLogger { return events.NewFakeRecorder(0) }
	s, err := scheduler.New(t.Context(), client, watches, nil, silent, scheduler.WithNodeInfoSnapshot(k.snapshot))
	if err != nil {
		t.Fatalf("stock scheduler: %v", err)
	}
	watches.Start(t.Context().Done())
	watches.WaitForCacheSync(t.Context().Done())
	if err := s.WaitForHandlersSync(t.Context()); err != nil {
		t.Fatalf("stock scheduler: %v", err)
	}
	k.profile = s.Profiles[corev1.DefaultSchedulerName]
	k.profile.SetPodNominator(k.nominees)
	return k
}

// show makes the fleet what the scheduler sees.
func (k *stock) show(f fleet) {
	*k.snapshot = *cache.NewSnapshot(f.bound, f.nodes)
	clear(k.nominees)
	for _, p := range f.nominated {
		info, err := framework.NewPodInfo(p)
		if err != nil {
			panic(err)
		}
		k.nominees[p.Status.NominatedNodeName] = append(k.nominees[p.Status.NominatedNodeName], info)
	}
}

// preFilter stands for a node that a plugin left out of its list of nodes, before any filter ran.
const preFilter = "PreFilter"

// judge returns, by node of the fleet shown, the plugin that would not have the pod there; "" is a feasible node.
func (k *stock) judge(t rapid.TB, nodes []*corev1.Node, p *corev1.Pod) map[string]string {
	ctx, state := context.Background(), framework.NewCycleState()
	only, status, _ := k.profile.RunPreFilterPlugins(ctx, state, p)
	out := make(map[string]string, len(nodes))
	for _, n := range nodes {
		at := status
		switch {
		case !status.IsSuccess():
		case !only.AllNodes() && !only.NodeNames.Has(n.Name):
			out[n.Name] = preFilter
			continue
		default:
			info, err := k.snapshot.Get(n.Name)
			if err != nil {
				t.Fatalf("node %s: %v", n.Name, err)
			}
			at = k.profile.RunFilterPluginsWithNominatedPods(ctx, state, p, info)
		}
		if at.IsSuccess() {
			continue
		}
		if !at.IsRejected() {
			t.Fatalf("stock scheduler, pod %s on node %s: %v", p.Name, n.Name, at.AsError())
		}
		out[n.Name] = cmp.Or(at.Plugin(), preFilter) // none is named where lists of nodes have none in common
	}
	return out
}

// nominees are the pods nominated for each node. The framework only reads them here.
type nominees map[string][]fwk.PodInfo

func (n nominees) NominatedPodsForNode(node string) []fwk.PodInfo { return n[node] }

func (nominees) AddNominatedPod(klog.Logger, fwk.PodInfo, *fwk.NominatingInfo) {}
func (nominees) DeleteNominatedPodIfExists(*corev1.Pod)                        {}
func (nominees) UpdateNominatedPod(klog.Logger, *corev1.Pod, fwk.PodInfo)      {}
