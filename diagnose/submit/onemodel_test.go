package submit

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/berth-dev/berth/kube/cluster"
)

// The pods of one server have GPUs of one model: none is spread over several, and servers of one set may differ.
func TestServersHaveOneModel(t *testing.T) {
	const lws = `{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, metadata: {name: s, namespace: default, annotations: {KEYS}}, spec: {replicas: REPLICAS, leaderWorkerTemplate: {size: 2, workerTemplate: {spec: {containers: [{name: c, image: registry.example/c:1, resources: {limits: {nvidia.com/gpu: 8}}}]}}}}}`
	const h100, a100, unknown = "NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-40GB", ""
	for name, c := range map[string]struct {
		nodes    []string // their models
		keys     string
		replicas int
		want     Verdict
		on       []string // nodes of those that start
	}{
		"one of each":            {nodes: []string{h100, a100}, replicas: 1, want: Never},
		"two of one":             {nodes: []string{h100, a100, a100}, replicas: 1, want: Starts, on: []string{"node-1", "node-2"}},
		"servers apart":          {nodes: []string{h100, a100, a100, h100}, replicas: 2, want: Starts, on: []string{"node-0", "node-1", "node-2", "node-3"}},
		"one model everywhere":   {nodes: []string{h100, h100}, replicas: 1, want: Starts, on: []string{"node-0", "node-1"}},
		"one that nobody knows":  {nodes: []string{h100, unknown}, replicas: 1, want: Starts, on: []string{"node-0", "node-1"}},
		"as its author names it": {nodes: []string{h100, a100, a100, h100}, keys: "berth.dev/gpu-model: H100", replicas: 1, want: Starts, on: []string{"node-0", "node-3"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := clusterOf(len(c.nodes), 0)
			for i, model := range c.nodes {
				f.Nodes[i].Labels["nvidia.com/gpu.product"] = model
				if model == "" {
					delete(f.Nodes[i].Labels, "nvidia.com/gpu.product")
				}
			}
			f.Answers = []string{"berth", "default-scheduler"}
			text := strings.NewReplacer("KEYS", c.keys, "REPLICAS", fmt.Sprint(c.replicas)).Replace(lws)
			w := &Check(World{Facts: f, Bare: true, Model: cluster.ModelOptions{For: f.Answers}}, "default", items(t, text)).Workloads[0]
			var on []string
			for _, at := range w.Nodes {
				on = append(on, at.Node)
			}
			slices.Sort(on)
			if w.Verdict != c.want || !slices.Equal(on, c.on) {
				t.Errorf("%s on %v: %s", w.Verdict, on, w.Summary)
			}
		})
	}
}

// A server of several nodes divides its model over the GPUs of all of them: what each is told of is no more than it has.
func TestServersOfSeveralNodesShareAModel(t *testing.T) {
	f := clusterOf(3, 0)
	f.Answers = []string{"berth", "default-scheduler"}
	for _, c := range []struct {
		nodes int
		want  Verdict
	}{{2, Starts}, {1, Never}} {
		w := &Check(World{Facts: f, Bare: true, Model: cluster.ModelOptions{For: f.Answers}}, "default", items(t, fmt.Sprintf(`
{apiVersion: nvidia.com/v1beta1, kind: DynamoGraphDeployment, metadata: {name: d, namespace: default}, spec: {components: [{name: decode, multinode: {nodeCount: %d},
  podTemplate: {spec: {containers: [{name: main, image: registry.example/vllm:1, command: [python3, -m, dynamo.vllm], args: [--tensor-parallel-size, "16"], resources: {limits: {nvidia.com/gpu: "8"}}}]}}}]}}`, c.nodes))).Workloads[0]
		if w.Verdict != c.want {
			t.Errorf("%d nodes: %s: %s", c.nodes, w.Verdict, w.Summary)
		}
	}
}
