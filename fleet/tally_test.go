package fleet

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/fleet/device"
)

func counted(name, pool string, ready, tainted bool, gpus string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.LabelPool: pool}}}
	if ready {
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	}
	if tainted {
		node.Spec.Taints = []corev1.Taint{taint(corev1.TaintNodeNotReady, "")}
	}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = 40001
	node.Status.Allocatable = quantities(map[corev1.ResourceName]string{device.Resource: gpus})
	return node
}

func TestProgress(t *testing.T) {
	var got Progress
	calls := 0
	ta := newTally(func(p Progress) { got = p; calls++ }, 40001)
	step := func(what string, want Progress, done bool) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" || got.Done() != done {
			t.Errorf("%s: done %t %s", what, got.Done(), diff)
		}
	}
	ta.SetNode(counted("p-0", "p", true, true, "0"))
	if calls > 0 {
		t.Error("reported before the pools were read")
	}
	ta.SetWanted(wants(gpuPool("p", 2)))
	step("pools read", Progress{WantNodes: 2, WantGPUs: 16, Nodes: 1}, false)
	ta.SetNode(counted("p-0", "p", true, false, "8"))
	ta.SetNode(counted("p-1", "p", true, false, "99"))
	step("more GPUs than asked for count as asked", Progress{WantNodes: 2, WantGPUs: 16, Nodes: 2, Ready: 2, GPUs: 16}, true)
	before := calls
	ta.SetNode(counted("p-1", "p", true, false, "99"))
	if calls != before {
		t.Error("reported without news")
	}
	stale := counted("p-1", "p", true, false, "8")
	stale.Status.DaemonEndpoints.KubeletEndpoint.Port = 39999
	ta.SetNode(stale)
	step("what an earlier run wrote is no progress", Progress{WantNodes: 2, WantGPUs: 16, Nodes: 2, Ready: 1, GPUs: 8}, false)
	ta.SetNode(counted("p-1", "p", true, false, "8"))
	ta.SetNode(counted("foreign", "", true, false, "8"))
	ta.DropNode("p-0")
	step("a node is gone", Progress{WantNodes: 2, WantGPUs: 16, Nodes: 1, Ready: 1, GPUs: 8}, false)
}

// The running counts equal those made from scratch.
func TestTallyAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ta := newTally(nil, 40001)
		ta.SetWanted(nil)
		nodes := map[string]*corev1.Node{}
		for range rapid.IntRange(0, 30).Draw(t, "steps") {
			name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "node")
			if rapid.Bool().Draw(t, "drop") {
				delete(nodes, name)
				ta.DropNode(name)
				continue
			}
			nodes[name] = counted(name, rapid.SampledFrom([]string{"p", "q"}).Draw(t, "pool"),
				rapid.Bool().Draw(t, "ready"), rapid.Bool().Draw(t, "tainted"), rapid.SampledFrom([]string{"0", "4"}).Draw(t, "gpus"))
			ta.SetNode(nodes[name])
		}
		want := map[string]poolCount{}
		for _, node := range nodes {
			c := ta.countOf(node)
			p := want[c.pool]
			p.nodes++
			p.gpus += c.gpus
			if c.ready {
				p.ready++
			}
			want[c.pool] = p
		}
		for _, pool := range []string{"p", "q"} {
			if ta.Pool(pool) != want[pool] {
				t.Fatalf("pool %s: %+v, want %+v", pool, ta.Pool(pool), want[pool])
			}
		}
	})
}

func TestPoolStatusIsWrittenOnChangeOnly(t *testing.T) {
	pool := gpuPool("p", 2)
	status := func(n poolCount, problem string) (ready, valid string) {
		next, changed := poolStatus(pool, n, problem)
		if !changed {
			t.Errorf("%+v %q is no news", n, problem)
		}
		pool.Status = next
		if again, changed := poolStatus(pool, n, problem); changed {
			t.Errorf("the same again is news: %s", cmp.Diff(next, again))
		}
		r, v := meta.FindStatusCondition(next.Conditions, v1alpha1.PoolReady), meta.FindStatusCondition(next.Conditions, v1alpha1.PoolValid)
		return r.Reason + " " + r.Message, string(v.Status) + " " + v.Message
	}
	for _, tc := range []struct {
		n            poolCount
		problem      string
		ready, valid string
	}{
		{poolCount{}, "", "NodesNotReady 0 of 2 nodes are Ready", "True "},
		{poolCount{nodes: 2, ready: 2, gpus: 8}, "", "GPUsMissing 8 of 16 GPUs are allocatable", "True "},
		{poolCount{nodes: 2, ready: 2, gpus: 16}, "", "AllReady ", "True "},
		{poolCount{nodes: 2, ready: 2, gpus: 16}, "no such model", "AllReady ", "False no such model"},
	} {
		ready, valid := status(tc.n, tc.problem)
		if ready != tc.ready || valid != tc.valid {
			t.Errorf("%+v: %q, %q, want %q, %q", tc.n, ready, valid, tc.ready, tc.valid)
		}
	}
}

// What a node offers counts once the MIG manager is through with it, and at once where none is to come.
func TestOfferedGPUs(t *testing.T) {
	for _, tc := range []struct {
		labels map[string]string
		want   int64
	}{
		{nil, 11},
		{map[string]string{migConfigLabel: "all-balanced"}, 11},
		{map[string]string{migConfigLabel: "all-balanced", migDeployLabel: "true"}, 0},
		{map[string]string{migConfigLabel: "all-balanced", migDeployLabel: "true", migStateLabel: migPending}, 0},
		{map[string]string{migConfigLabel: "all-balanced", migDeployLabel: "true", migStateLabel: migFailed}, 11},
	} {
		node := &corev1.Node{}
		node.Labels = tc.labels
		node.Status.Allocatable = quantities(map[corev1.ResourceName]string{"nvidia.com/gpu": "1", "nvidia.com/mig-1g.10gb": "7", "nvidia.com/gpu.shared": "3", "cpu": "64", "example.com/gpu": "5"})
		if got := offeredGPUs(node); got != tc.want {
			t.Errorf("%v: %d, want %d", tc.labels, got, tc.want)
		}
	}
}

// A pool of MIG expects what its configuration makes of the GPUs, and nothing where nobody knows.
func TestExpectedMIG(t *testing.T) {
	for _, tc := range []struct {
		strategy v1alpha1.MIGStrategy
		config   string
		want     int64
	}{
		{"mixed", "all-balanced", 32}, {"single", "all-1g.10gb", 56}, {"single", "all-balanced", 0}, {"none", "all-1g.10gb", 8},
		{"single", "all-disabled", 8}, {"mixed", "all-enabled", 0}, {"mixed", "mine", 0}, {"mixed", "all-1g.5gb", 0},
	} {
		if got := expectedGPUs(migPool("p", 1, tc.strategy, tc.config)); got != tc.want {
			t.Errorf("%s %s: %d, want %d", tc.strategy, tc.config, got, tc.want)
		}
	}
}
