package submit

import (
	"fmt"
	"strings"
	"testing"
)

// A server of a model that runs on several pods is told of the GPUs of all of them, and starts; one that runs by itself has to have them.
func TestServersOnSeveralPods(t *testing.T) {
	const (
		group  = "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nmetadata: {name: w}\nspec: {replicas: 1, leaderWorkerTemplate: {size: 2, workerTemplate: {spec: {containers: [CONTAINER]}}}}"
		single = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: w}\nspec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [CONTAINER]}}}"
	)
	for _, c := range []struct {
		object, command string
		want            Verdict
	}{
		{group, "python3 -m sglang.launch_server --tp 2 --dist-init-addr $(LWS_LEADER_ADDRESS):20000 --nnodes $(LWS_GROUP_SIZE)", Starts},
		{group, "python3 -m vllm.entrypoints.openai.api_server --tensor-parallel-size 2", Starts},
		{single, "sglang serve --tp 2 --nnodes 2 --node-rank 0", Never}, // there is one pod
		{single, "sglang serve --tp 2 --nnodes ${NODES}", Starts},
		{single, "bash multi-node-serving.sh leader; vllm serve llm --tensor-parallel-size 2", Starts},
		{single, "sglang serve --tp 2 --nnodes 1 --node-rank 0 --dist-init-addr 10.0.0.1:1", Never},
		{single, "vllm serve llm --tensor-parallel-size 2", Never},
	} {
		container := fmt.Sprintf("{name: c, image: registry.example/c:1, command: [sh, -c, %q], resources: {limits: {nvidia.com/gpu: 1}}}", c.command)
		w := Check(World{Facts: clusterOf(2, 0), Bare: true}, "default", items(t, strings.ReplaceAll(c.object, "CONTAINER", container))).Workloads[0]
		if w.Verdict != c.want {
			t.Errorf("%s: %s, want %s: %s", c.command, w.Verdict, c.want, w.Summary)
		}
	}
}
