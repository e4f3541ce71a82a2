package submit

import (
	"strings"
	"testing"

	"github.com/berth-dev/berth/kube/cluster"
)

// The pods of all objects in an AppWrapper start together or wait together, on the nodes and in the queue that it says for them.
func TestAppWrappers(t *testing.T) {
	const wrapped = `
apiVersion: workload.codeflare.dev/v1beta2
kind: AppWrapper
metadata: {name: aw, namespace: default, labels: {LABELS}}
spec:
  components:
  - INFOS
    template:
      apiVersion: batch/v1
      kind: Job
      metadata: {name: a}
      spec: {parallelism: 2, completions: 2, template: {spec: {restartPolicy: Never, containers: [{name: c, image: registry.example/c:1, resources: {limits: {nvidia.com/gpu: 8}}}]}}}
  - template:
      apiVersion: batch/v1
      kind: Job
      metadata: {name: b}
      spec: {parallelism: PODS, completions: PODS, template: {spec: {restartPolicy: Never, containers: [{name: c, image: registry.example/c:1, resources: {limits: {nvidia.com/gpu: 8}}}]}}}
`
	const queue = `
{apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: any}}
---
{apiVersion: kueue.x-k8s.io/v1beta2, kind: ClusterQueue, metadata: {name: team}, spec: {namespaceSelector: {}, resourceGroups: [{coveredResources: [nvidia.com/gpu], flavors: [{name: any, resources: [{name: nvidia.com/gpu, nominalQuota: 24}]}]}]}}
---
{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: team, namespace: default}, spec: {clusterQueue: team}}
---`
	for name, c := range map[string]struct {
		labels, infos, pods string
		busy                int
		want                Verdict
		says                string
	}{
		"free":            {pods: "2", want: Starts, says: "on 4 nodes"},
		"half free":       {pods: "2", busy: 2, want: Waits},
		"too many":        {pods: "3", want: Never},
		"pinned":          {pods: "2", infos: "podSetInfos: [{nodeSelector: {rack: none}}]", want: Never, says: "rack=none"},
		"within a quota":  {labels: "kueue.x-k8s.io/queue-name: team", pods: "1", want: Starts},
		"above the quota": {labels: "kueue.x-k8s.io/queue-name: team", pods: "2", want: Never},
	} {
		t.Run(name, func(t *testing.T) {
			f := clusterOf(4, c.busy)
			f.Speaks, f.Answers = []string{"kueue"}, []string{"berth", "default-scheduler"}
			if c.infos == "" {
				c.infos = "annotations: {}"
			}
			text := strings.NewReplacer("LABELS", c.labels, "INFOS", c.infos, "PODS", c.pods).Replace(wrapped)
			r := Check(World{Facts: f, Bare: c.busy == 0, Model: cluster.ModelOptions{For: f.Answers, Dialects: []string{"kueue"}}}, "default", items(t, queue+text))
			w := &r.Workloads[0]
			if w.Verdict != c.want || !strings.Contains(w.Summary, c.says) || c.want != Starts && len(w.Nodes) > 0 {
				t.Errorf("%s on %v: %s", w.Verdict, w.Nodes, w.Summary)
			}
		})
	}
}
