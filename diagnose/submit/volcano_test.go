package submit

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/kube/cluster"
)

// racked is nodes in racks of so many, of which HyperNodes tell.
func racked(nodes, rack int) (*facts.Facts, string) {
	f := clusterOf(nodes, 0)
	var out []string
	for at := 0; at < nodes; at += rack {
		var members []string
		for i := at; i < min(at+rack, nodes); i++ {
			members = append(members, fmt.Sprintf("{type: Node, selector: {exactMatch: {name: node-%d}}}", i))
		}
		out = append(out, fmt.Sprintf("{apiVersion: topology.volcano.sh/v1alpha1, kind: HyperNode, metadata: {name: rack-%d}, spec: {tier: 1, members: [%s]}}", at, strings.Join(members, ", ")))
	}
	f.Speaks = []string{"volcano"}
	for i, n := range f.Nodes {
		n.Labels["rack"] = fmt.Sprint(i / rack)
	}
	return f, strings.Join(out, "\n---\n")
}

// A Job of Volcano is planned with the parts that its tasks are divided into, and with what it mounts; what it asks for in vain is said, also
// where the PodGroup that is made of it asks.
func TestVolcanoJobs(t *testing.T) {
	job := func(of, task string) string {
		return `{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, metadata: {name: j, namespace: default}, spec: {schedulerName: volcano, queue: default, ` + of + ` tasks: [{name: w, ` + task +
			` template: {spec: {restartPolicy: Never, containers: [{name: c, image: registry.example/c:1, resources: {limits: {nvidia.com/gpu: 8}}}]}}}]}}`
	}
	const queue = `{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: default}, spec: {weight: 1}}`
	const parts = "replicas: 4, partitionPolicy: {totalPartitions: 2, partitionSize: 2, networkTopology: {mode: hard, highestTierAllowed: 1}},"
	for name, c := range map[string]struct {
		object  string
		verdict Verdict
		racks   []int // pods of each rack of three nodes, the fewest first
		told    []string
	}{
		"parts in racks":            {object: job("", parts), verdict: Starts, racks: []int{2, 2}},
		"without parts":             {object: job("", "replicas: 4,"), verdict: Starts},
		"some of the parts":         {object: job("", strings.Replace(parts, "partitionSize: 2", "partitionSize: 2, minPartitions: 1", 1)), verdict: Starts},
		"tasks of no task":          {object: job("topologyPolicy: {mode: task-topology},", "replicas: 1,"), verdict: Starts, told: []string{"job/j: spec.topologyPolicy"}},
		"NUMA":                      {object: job("", "replicas: 1, topologyPolicy: restricted,"), verdict: Starts, told: []string{"job/j: spec.tasks[0].topologyPolicy"}},
		"parts without a topology":  {object: job("", "replicas: 4, partitionPolicy: {totalPartitions: 2, partitionSize: 2},"), verdict: Starts, told: []string{"job/j: spec.subGroupPolicy (without a size and a hard networkTopology)"}},
		"what decides nothing here": {object: job("maxRetry: 3, minSuccess: 1, ttlSecondsAfterFinished: 60, runningEstimate: 1h, plugins: {svc: [], env: []}, policies: [{event: PodEvicted, action: RestartJob}],", "replicas: 1, maxRetry: 2, policies: [{exitCode: 3, action: RestartTask, timeout: 1m}],"), verdict: Starts},
		"a field that no Job has":   {object: job("minavailable: 1, replicas: 3,", "replicas: 1,"), verdict: Starts, told: []string{"job/j: spec.replicas"}},
	} {
		t.Run(name, func(t *testing.T) {
			f, nodes := racked(6, 3)
			r := Check(World{Facts: f, Bare: true, Model: cluster.ModelOptions{For: []string{"berth", "volcano"}, Dialects: []string{"volcano"}}}, "default", items(t, nodes+"\n---\n"+queue+"\n---\n"+c.object))
			w := &r.Workloads[0]
			if w.Verdict != c.verdict {
				t.Errorf("%s: %s", w.Verdict, w.Summary)
			}
			racks := make(map[string]int)
			for _, at := range w.Nodes {
				for _, n := range f.Nodes {
					if n.Name == at.Node {
						racks[n.Labels["rack"]] += at.Pods
					}
				}
			}
			var got []int
			for _, n := range racks {
				got = append(got, n)
			}
			slices.Sort(got)
			if c.racks != nil && !slices.Equal(got, c.racks) {
				t.Errorf("racks have %v", got)
			}
			var told []string
			for _, finding := range slices.Concat(w.Findings, r.Findings) {
				if finding.Code == "B119" || finding.Code == "B120" {
					told = append(told, strings.TrimPrefix(finding.Message, "without effect: "))
				}
			}
			if diff := cmp.Diff(c.told, told); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The claims that a Job of Volcano mounts are its pods': one that is there keeps them where it can be used, and one that is not is made.
func TestVolcanoJobsMountClaims(t *testing.T) {
	const job = `{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: default}, spec: {weight: 1}}
---
{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, metadata: {name: j, namespace: default}, spec: {schedulerName: volcano, volumes: [{mountPath: /in, volumeClaimName: data}, {mountPath: /out, volumeClaim: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}],
  tasks: [{name: w, replicas: 2, template: {spec: {containers: [{name: c, image: registry.example/c:1}]}}}]}}`
	f := clusterOf(2, 0)
	f.Speaks = []string{"volcano"}
	f.StorageClasses = []*storagev1.StorageClass{{ObjectMeta: metav1.ObjectMeta{Name: "zonal"}, Provisioner: "p", VolumeBindingMode: new(storagev1.VolumeBindingWaitForFirstConsumer)}}
	r := Check(World{Facts: f, Bare: true, Model: cluster.ModelOptions{For: []string{"berth", "volcano"}, Dialects: []string{"volcano"}}}, "default", items(t, job))
	if want := []string{"claim data exists in namespace default, and every node can use it"}; !cmp.Equal(r.Assumes, want) {
		t.Errorf("assumed is %q", r.Assumes)
	}
	if w := &r.Workloads[0]; w.Verdict != Never || !strings.Contains(w.Summary, "claim j-volume-1 ") {
		t.Errorf("%s: %s", w.Verdict, w.Summary)
	}
}
