package submit

import (
	"slices"
	"strings"
	"testing"

	"github.com/berth-dev/berth/kube/cluster"
)

// TestGangsOfDialects plans gangs that another scheduler's keys make as what they are: all of their pods, not one of those alike.
func TestGangsOfDialects(t *testing.T) {
	const kaiQueue = `
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: team}
spec: {resources: {gpu: {quota: -1, limit: -1}, cpu: {quota: -1, limit: -1}, memory: {quota: -1, limit: -1}}}
---
`
	const kueueQueue = `
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
  - {coveredResources: [cpu], flavors: [{name: any, resources: [{name: cpu, nominalQuota: 100}]}]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: team, namespace: default}
spec: {clusterQueue: team}
---
`
	job := func(labels, annotations, scheduler string) string {
		return `
apiVersion: batch/v1
kind: Job
metadata: {name: train, namespace: default, labels: {` + labels + `}, annotations: {` + annotations + `}}
spec:
  parallelism: 3
  completions: 3
  template:
    spec:
      schedulerName: ` + scheduler + `
      restartPolicy: Never
      containers:
      - {name: train, image: registry.example/train:1, resources: {requests: {cpu: 100m}}}
`
	}
	for name, c := range map[string]struct{ dialect, scheduler, objects string }{
		"kai":                            {"kai", "kai-scheduler", kaiQueue + job("kai.scheduler/queue: team", `kai.scheduler/batch-min-member: "3"`, "kai-scheduler")},
		"kueue":                          {"kueue", "default-scheduler", kueueQueue + job("kueue.x-k8s.io/queue-name: team", "", "default-scheduler")},
		"kueue, suspended by its author": {"kueue", "default-scheduler", kueueQueue + strings.Replace(job("kueue.x-k8s.io/queue-name: team", "", "default-scheduler"), "spec:\n", "spec:\n  suspend: true\n", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			f := twoZones()
			f.Speaks = []string{c.dialect}
			w := World{Facts: f, Bare: true, Model: cluster.ModelOptions{For: []string{"berth", c.scheduler}, Dialects: []string{c.dialect}}}
			r := Check(w, "default", items(t, c.objects))
			if len(r.Workloads) != 1 || r.Workloads[0].Verdict != Starts {
				t.Errorf("%+v", r.Workloads)
			}
		})
	}
}

// TestAsksInVain tells of everything in the manifests that has no effect: keys of pods, fields of objects, and dialects that are not read.
func TestAsksInVain(t *testing.T) {
	const pod = `
apiVersion: v1
kind: Pod
metadata: {name: train, namespace: default, labels: {kueue.x-k8s.io/queue-name: team}, annotations: {kai.scheduler/task-priority: "3"}}
spec:
  schedulerName: kai-scheduler
  containers:
  - {name: train, image: registry.example/train:1, resources: {requests: {cpu: 100m}}}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: team}
spec: {shards: [a], resources: {gpu: {quota: -1, limit: -1}}}
`
	for name, c := range map[string]struct {
		dialects []string
		want     []string
	}{
		"read": {[]string{"kai"}, []string{
			"without effect: pod/train: kai.scheduler/task-priority (without effect)",
			"without effect: pod/train: kueue.x-k8s.io/queue-name (not read without --dialect kueue)",
			"without effect: queue/team: spec.shards",
		}},
		"not read": {nil, []string{
			"without effect: pod/train: kai.scheduler/task-priority (a key of another scheduler)",
			"without effect: pod/train: kueue.x-k8s.io/queue-name (not read without --dialect kueue)",
			"without effect: queue/team: it is not read without --dialect kai",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			f := twoZones()
			f.Speaks = c.dialects
			w := World{Facts: f, Bare: true, Model: cluster.ModelOptions{For: []string{"berth"}, Dialects: c.dialects}}
			var got []string
			for _, f := range Check(w, "default", items(t, pod)).Findings {
				got = append(got, f.Message)
				if f.Code != "B119" || f.Line == 0 {
					t.Errorf("%+v", f)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}
