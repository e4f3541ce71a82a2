package submit

import (
	"fmt"
	"strings"
	"testing"

	"github.com/berth-dev/berth/diagnose/check"
	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/cluster"
)

// queueOf makes a queue of four GPUs in a project's objects.
var queueOf = map[string]string{
	"kai": `
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: team}
spec: {resources: {gpu: {quota: 4, limit: 4}, cpu: {quota: -1, limit: -1}, memory: {quota: -1, limit: -1}}}
---
`,
	"kueue": `
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: any}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: team}
spec:
  namespaceSelector: {}
  resourceGroups:
  - {coveredResources: [nvidia.com/gpu], flavors: [{name: any, resources: [{name: nvidia.com/gpu, nominalQuota: 4}]}]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: team, namespace: default}
spec: {clusterQueue: team}
---
`,
	"volcano": `
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: team}
spec: {capability: {nvidia.com/gpu: 4}}
---
`,
}

// TestQueuesStopLaterReplicas has servers of which a queue lets in fewer than they are to have, on nodes with room for all: the queue is named, and
// nobody is told to buy nodes.
func TestQueuesStopLaterReplicas(t *testing.T) {
	serve := func(labels, annotations, scheduler string, replicas int) string {
		return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: serve, namespace: default, labels: {%s}}
spec:
  replicas: %d
  selector: {matchLabels: {app: serve}}
  template:
    metadata: {labels: {app: serve, %s}, annotations: {%s}}
    spec:
      schedulerName: %s
      containers: [{name: serve, image: registry.example/serve:1, resources: {limits: {nvidia.com/gpu: 1}}}]
`, labels, replicas, labels, annotations, scheduler)
	}
	for name, c := range map[string]struct {
		dialect, scheduler, objects string
		nodes                       int
		cause                       why.Cause
		layer                       check.Layer
		says                        string
	}{
		"kai":                {"kai", "kai-scheduler", queueOf["kai"] + serve("kai.scheduler/queue: team", "", "kai-scheduler", 6), 2, why.OverQueueLimit, check.L3, "queue team"},
		"kai, of a quota":    {"kai", "kai-scheduler", strings.Replace(queueOf["kai"], "limit: 4", "limit: 16", 1) + serve("kai.scheduler/queue: team", "", "kai-scheduler", 6), 2, why.OverQuota, check.L3, "at most 4 of its 6 pods start at once, even if nothing else ran; the next is stopped: needs 1 nvidia.com/gpu within the quota of queue team"},
		"kueue":              {"kueue", "default-scheduler", queueOf["kueue"] + serve("kueue.x-k8s.io/queue-name: team", "", "default-scheduler", 6), 2, why.OverQueueLimit, check.L3, "the next is stopped: the work needs 1 nvidia.com/gpu of queue team, which uses 4 of 4"},
		"volcano":            {"volcano", "volcano", queueOf["volcano"] + serve("", "scheduling.volcano.sh/queue-name: team", "volcano", 6), 2, why.OverQueueLimit, check.L3, "the next is stopped: the work needs 1 nvidia.com/gpu of queue team, which uses 4 of 4"},
		"no queue, no nodes": {"kai", "default-scheduler", serve("", "", "default-scheduler", 20), 2, why.ClusterFull, check.L1, "at most 16 of its 20 pods fit at once"},
	} {
		t.Run(name, func(t *testing.T) {
			f := clusterOf(c.nodes, 0)
			f.Speaks = []string{c.dialect}
			w := World{Facts: f, Bare: true, Model: cluster.ModelOptions{For: []string{"berth", c.scheduler}, Dialects: []string{c.dialect}}}
			r := Check(w, "default", items(t, c.objects))
			got := r.Workloads[0]
			if got.Verdict != Never || got.Cause != c.cause || got.Layer != c.layer || !strings.Contains(got.Summary, c.says) {
				t.Errorf("%s, %s, layer %s, for %s: %s\n%+v", got.Verdict, got.Cause, got.Layer, got.Owner, got.Summary, got.Fixes)
			}
		})
	}
}
