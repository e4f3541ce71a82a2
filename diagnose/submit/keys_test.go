package submit

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/berth-dev/berth/kube/cluster"
	"github.com/berth-dev/berth/kube/dialect/all"
)

// told is what a report says has no effect.
func told(r *Report) (out []string) {
	all := slices.Clone(r.Findings)
	for i := range r.Workloads {
		all = append(all, r.Workloads[i].Findings...)
	}
	for _, f := range all {
		if f.Code == "B119" {
			out = append(out, f.Message)
		}
	}
	return out
}

// A key for another scheduler is told on the object on which people write it, also where another project's controller makes the pods, the
// stock scheduler places them, and a dialect that has the key is in use.
func TestKeysOnTheObjectsOfControllers(t *testing.T) {
	const (
		pod      = "spec: {containers: [{name: c, image: registry.example/c:1}]}"
		template = "template: {" + pod + "}"
	)
	kinds := map[string]string{
		"JobSet":     "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: w, KEYS}\nspec: {replicatedJobs: [{name: r, replicas: 1, template: {spec: {parallelism: 2, completions: 2, " + template + "}}}]}",
		"set":        "apiVersion: leaderworkerset.x-k8s.io/v1\nkind: LeaderWorkerSet\nmetadata: {name: w, KEYS}\nspec: {replicas: 1, leaderWorkerTemplate: {size: 2, workerTemplate: {" + pod + "}}}",
		"PyTorchJob": "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: w, KEYS}\nspec: {pytorchReplicaSpecs: {Worker: {replicas: 2, " + template + "}}}",
		"MPIJob":     "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata: {name: w, KEYS}\nspec: {mpiReplicaSpecs: {Launcher: {replicas: 1, " + template + "}, Worker: {replicas: 2, " + template + "}}}",
		"RayCluster": "apiVersion: ray.io/v1\nkind: RayCluster\nmetadata: {name: w, KEYS}\nspec: {headGroupSpec: {" + template + "}, workerGroupSpecs: [{groupName: g, replicas: 2, " + template + "}]}",
		"RayJob":     "apiVersion: ray.io/v1\nkind: RayJob\nmetadata: {name: w, KEYS}\nspec: {entrypoint: x, rayClusterSpec: {headGroupSpec: {" + template + "}, workerGroupSpecs: [{groupName: g, replicas: 2, " + template + "}]}}",
		"AppWrapper": "apiVersion: workload.codeflare.dev/v1beta2\nkind: AppWrapper\nmetadata: {name: w, KEYS}\nspec: {components: [{template: {apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: registry.example/c:1}]}}}}}]}",
		"Deployment": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: w, KEYS}\nspec: {replicas: 2, selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, " + pod + "}}",
	}
	for kind, text := range kinds {
		for _, key := range []string{"slurmjob.slinky.slurm.net/account", "yunikorn.apache.org/app-id", "kai.scheduler/topology-required-placement", "volcano.sh/preemptable"} {
			for _, dialects := range [][]string{nil, all.Names()} {
				f := clusterOf(1, 0)
				f.Speaks = dialects
				object := strings.ReplaceAll(text, "KEYS", fmt.Sprintf("annotations: {%s: x}", key))
				r := Check(World{Facts: f, Bare: true, Model: cluster.ModelOptions{For: []string{"berth"}, Dialects: dialects}}, "default", items(t, object))
				if got := told(&r); len(r.Workloads) != 1 || r.Workloads[0].Verdict != Starts || !slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, key) }) {
					t.Errorf("%s with %s and dialects %q: told %q, %+v", kind, key, dialects, got, r.Workloads)
				}
			}
		}
	}
}
