package submit

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/diagnose/edit"
	"github.com/berth-dev/berth/diagnose/facts"
)

// shapes put a pod template, as JSON, into objects of the kinds that people write. Each has two pods, or what that kind has at
// least; NAME is the object's.
var shapes = map[string]string{
	"Pod":         `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "NAME"}, "spec": SPEC}`,
	"Job":         `{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "NAME"}, "spec": {"parallelism": 2, "completions": 2, JOB "template": {"spec": SPEC}}}`,
	"CronJob":     `{"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "NAME"}, "spec": {"schedule": "0 3 * * *", "jobTemplate": {"spec": {"parallelism": 2, "completions": 2, JOB "template": {"spec": SPEC}}}}}`,
	"Deployment":  `{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "NAME"}, "spec": {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": SPEC}}}`,
	"StatefulSet": `{"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "NAME"}, "spec": {"replicas": 2, "serviceName": "NAME", "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": SPEC}}}`,
	"List":        `{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "NAME"}, "spec": {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": SPEC}}}]}`,
	"JobSet":      `{"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "NAME"}, "spec": {"replicatedJobs": [{"name": "w", "replicas": 2, "template": {"spec": {JOB "template": {"spec": SPEC}}}}]}}`,
	"PyTorchJob":  `{"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "NAME"}, "spec": {"runPolicy": {JOB "cleanPodPolicy": "None"}, "pytorchReplicaSpecs": {"Master": {"replicas": 1, "template": {"spec": SPEC}}, "Worker": {"replicas": 1, "template": {"spec": SPEC}}}}}`,
	"RayCluster":  `{"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "NAME"}, "spec": {"headGroupSpec": {"template": {"spec": {"containers": [{"name": "h", "image": "ray"}]}}}, "workerGroupSpecs": [{"groupName": "gpu", "replicas": 2, "template": {"spec": SPEC}}]}}`,
	"LWS":         `{"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet", "metadata": {"name": "NAME"}, "spec": {"replicas": 1, "leaderWorkerTemplate": {"size": 2, "workerTemplate": {"spec": SPEC}}}}`,
	"Volcano":     `{"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "NAME"}, "spec": {"minAvailable": 2, "tasks": [{"name": "w", "replicas": 2, "template": {"spec": SPEC}}]}}`,
	"unknown":     `{"apiVersion": "example.com/v7", "kind": "Training", "metadata": {"name": "NAME"}, "spec": {"roles": {"worker": {"replicas": 2, "podTemplate": {"spec": SPEC}}}}}`,
}

// shaped is the object of the shape with the pod.
func shaped(shape, name, spec, job string) string {
	if slices.Contains([]string{"Deployment", "StatefulSet", "List"}, shape) { // whose pods run for good
		spec = strings.Replace(spec, `"restartPolicy": "Never",`, "", 1)
	}
	return strings.NewReplacer("NAME", name, "SPEC", spec, "JOB ", job).Replace(shapes[shape])
}

// twoZones has H100s in one zone, and A100s in another behind a taint.
func twoZones() *facts.Facts {
	f := clusterOf(12, 0)
	for i, n := range f.Nodes {
		n.Labels["topology.kubernetes.io/zone"] = []string{"east", "west"}[i/6]
		n.Labels["nvidia.com/cuda.driver.major"], n.Labels["nvidia.com/cuda.driver.minor"] = "535", "216"
		n.Labels["nvidia.com/cuda.runtime.major"], n.Labels["nvidia.com/cuda.runtime.minor"] = "12", "2"
		if i >= 6 {
			n.Labels["nvidia.com/gpu.product"] = "NVIDIA-A100-SXM4-40GB"
			n.Spec.Taints = []corev1.Taint{{Key: "dedicated", Value: "gpu", Effect: corev1.TaintEffectNoSchedule}}
		}
	}
	return f
}

// container is a pod of one container, with its resources and what else is said of it, and more of the pod.
func container(resources, of, more string) string {
	if !strings.Contains(of, `"image"`) {
		of += `, "image": "registry.example/t:1"`
	}
	return fmt.Sprintf(`{"restartPolicy": "Never", %s "containers": [{"name": "main", "resources": %s %s}]}`, more, resources, of)
}

const gpu1, gpu8 = `{"limits": {"nvidia.com/gpu": 1}}`, `{"limits": {"nvidia.com/gpu": 8}}`

const tolerates = `"tolerations": [{"key": "dedicated", "operator": "Exists"}],`

// TestMistakesInEveryShape submits each mistake in every kind of object, and has it named each time: by the rule, or by the
// cause for which it can never start.
func TestMistakesInEveryShape(t *testing.T) {
	for _, c := range []struct {
		name, spec, job string
		says            []string // one of: codes of rules, or causes
		not             []string // shapes that cannot make the mistake
	}{
		{name: "whole GPU and slice", spec: container(`{"limits": {"nvidia.com/gpu": 1, "nvidia.com/mig-1g.10gb": 1}}`, "", tolerates), says: []string{"B101"}},
		{name: "whole and slice in two containers", spec: `{"restartPolicy": "Never",` + tolerates + `"containers": [{"name": "a", "image": "x", "resources": {"limits": {"nvidia.com/mig-3g.40gb": 2}}}, {"name": "b", "image": "x", "resources": ` + gpu1 + `}]}`, says: []string{"B101"}},
		{name: "requests alone", spec: container(`{"requests": {"nvidia.com/gpu": 2}}`, "", tolerates), says: []string{"B102"}},
		{name: "requests alone in an init container", spec: `{"restartPolicy": "Never",` + tolerates + `"initContainers": [{"name": "i", "image": "x", "resources": {"requests": {"nvidia.com/gpu": 1}}}], "containers": [{"name": "b", "image": "x"}]}`, says: []string{"B102"}},
		{name: "requests and limits differ", spec: container(`{"requests": {"nvidia.com/gpu": 1}, "limits": {"nvidia.com/gpu": 2}}`, "", tolerates), says: []string{"gpu-request-invalid"}},
		{name: "half a GPU", spec: container(`{"limits": {"nvidia.com/gpu": "500m"}}`, "", tolerates), says: []string{"gpu-request-invalid"}},
		{name: "no retries on spot nodes", spec: container(gpu1, "", `"nodeSelector": {"karpenter.sh/capacity-type": "spot"},`), job: `"backoffLimit": 0,`, says: []string{"B104"}, not: []string{"Pod", "Deployment", "StatefulSet", "List", "RayCluster", "LWS", "Volcano", "unknown"}},
		{name: "newer CUDA", spec: container(gpu1, `, "image": "nvcr.io/nvidia/cuda:13.0.1-runtime-ubuntu24.04"`, tolerates), says: []string{"B106", "cuda-newer-than-driver"}},
		{name: "no such model", spec: container(gpu1, "", tolerates+`"nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-B300"},`), says: []string{"B108", "label-near-miss", "no-matching-node"}},
		{name: "one of two models", spec: container(gpu1, "", tolerates+`"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "nvidia.com/gpu.product", "operator": "In", "values": ["NVIDIA-H100-80GB-HBM3", "H200"]}]}]}}},`), says: []string{"B108"}},
		{name: "7 of 8", spec: container(`{"limits": {"nvidia.com/gpu": 7}}`, "", tolerates), says: []string{"B109"}},
		{name: "5 of 8", spec: container(`{"limits": {"nvidia.com/gpu": 5}}`, "", tolerates), says: []string{"B109"}},
		{name: "more than an eighth of the CPU", spec: container(`{"limits": {"nvidia.com/gpu": 1}, "requests": {"cpu": 12}}`, "", tolerates), says: []string{"B109"}},
		{name: "more than a quarter of the memory", spec: container(`{"limits": {"nvidia.com/gpu": 2, "memory": "200Gi"}}`, "", tolerates), says: []string{"B109"}},
		{name: "no toleration", spec: container(gpu1, "", `"nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB"},`), says: []string{"B110", "gpu-taint-not-tolerated"}},
		{name: "no toleration, and nodes without the taint", spec: container(gpu1, "", ""), says: []string{"B110"}},
		{name: "told of more nodes than there are pods", spec: container(gpu8, `, "command": ["torchrun", "--nnodes=5", "t.py"]`, tolerates), says: []string{"B107", "world-size-mismatch"}, not: []string{"Pod", "Deployment"}},
		{name: "told so in a script", spec: container(gpu8, `, "command": ["bash", "-c", "exec torchrun --nnodes 5 --nproc-per-node=8 t.py"]`, tolerates), says: []string{"B107", "world-size-mismatch"}, not: []string{"Pod", "Deployment"}},
		{name: "more ranks than GPUs", spec: container(gpu8, `, "env": [{"name": "WORLD_SIZE", "value": "64"}]`, tolerates), says: []string{"B107", "world-size-mismatch"}, not: []string{"Pod", "Deployment"}},
	} {
		for shape := range shapes {
			if slices.Contains(c.not, shape) {
				continue
			}
			t.Run(c.name+"/"+shape, func(t *testing.T) {
				r := Check(World{Facts: twoZones(), Bare: true}, "default", items(t, shaped(shape, "mine", c.spec, c.job)))
				w := r.Workloads[0]
				said := []string{string(w.Cause)}
				for _, f := range w.Findings {
					said = append(said, f.Code)
				}
				if !slices.ContainsFunc(c.says, func(s string) bool { return slices.Contains(said, s) }) {
					t.Errorf("%s, %s: nothing of %s is said, but %s", w.Verdict, w.Summary, c.says, said)
				}
			})
		}
	}
}

// TestNothingIsWrongWithGoodManifests submits what people run every day in every kind of object: it starts, and nothing is found.
func TestNothingIsWrongWithGoodManifests(t *testing.T) {
	for name, spec := range map[string]string{
		"no GPU":             container(`{"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"memory": "2Gi"}}`, "", ""),
		"nothing said":       container(`{}`, "", ""),
		"one GPU":            container(`{"limits": {"nvidia.com/gpu": 1, "cpu": 8, "memory": "64Gi"}}`, "", tolerates),
		"as text":            container(`{"limits": {"nvidia.com/gpu": "2"}, "requests": {"nvidia.com/gpu": "2", "cpu": "4"}}`, "", tolerates),
		"whole nodes":        container(gpu8, `, "command": ["torchrun", "--nnodes=2", "--nproc_per_node=8", "t.py"], "env": [{"name": "NCCL_DEBUG", "value": "INFO"}]`, tolerates),
		"elastic":            container(gpu8, `, "command": ["torchrun", "--nnodes=1:8", "t.py"]`, tolerates),
		"the right model":    container(gpu1, "", tolerates+`"nodeSelector": {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB"},`),
		"an old CUDA":        container(gpu1, `, "image": "nvcr.io/nvidia/cuda:12.1.0-base-ubuntu22.04"`, tolerates),
		"half of a node":     container(`{"limits": {"nvidia.com/gpu": 4, "cpu": 32, "memory": "256Gi"}}`, "", tolerates),
		"shared memory":      container(gpu1, `, "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}]`, tolerates+`"volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}],`),
		"tolerates anything": container(gpu1, "", `"tolerations": [{"operator": "Exists"}],`),
	} {
		for shape := range shapes {
			if name == "whole nodes" && (shape == "Pod" || shape == "Deployment") {
				continue
			}
			t.Run(name+"/"+shape, func(t *testing.T) {
				r := Check(World{Facts: twoZones(), Bare: true}, "default", items(t, shaped(shape, "mine", spec, "")))
				w := r.Workloads[0]
				if len(r.Workloads) != 1 || w.Verdict != Starts || len(w.Findings) > 0 {
					t.Errorf("%s %s: %s\n%+v", w.Verdict, w.Cause, w.Summary, w.Findings)
				}
			})
		}
	}
}

// TestInvalidRequestsAreFixed does what the fix of a refused request says, and the workload starts.
func TestInvalidRequestsAreFixed(t *testing.T) {
	for _, resources := range []string{`{"requests": {"nvidia.com/gpu": 2}}`, `{"requests": {"nvidia.com/gpu": 1}, "limits": {"nvidia.com/gpu": 2}}`, `{"limits": {"nvidia.com/gpu": "500m"}}`, `{"requests": {"cpu": 4}, "limits": {"cpu": 2}}`} {
		for shape := range shapes {
			given := items(t, shaped(shape, "mine", container(resources, "", tolerates), ""))
			w := Check(World{Facts: twoZones(), Bare: true}, "default", given).Workloads[0]
			if w.Verdict != Never || len(w.Fixes) != 1 || !w.Fixes[0].Verified {
				t.Errorf("%s in a %s: %s %s, fixes %+v", resources, shape, w.Verdict, w.Summary, w.Fixes)
				continue
			}
			object, err := edit.PatchTree(given[0].Object, w.Fixes[0].Patch)
			if err != nil {
				t.Fatal(err)
			}
			if again := Check(World{Facts: twoZones(), Bare: true}, "default", []Item{{Object: object}}).Workloads[0]; again.Verdict != Starts {
				text, _ := json.Marshal(object)
				t.Errorf("%s in a %s, fixed: %s %s\n%s", resources, shape, again.Verdict, again.Summary, text)
			}
		}
	}
}

// TestWhatHasNoTemplateIsSaid submits objects that ask for GPUs in a way that only their operator knows.
func TestWhatHasNoTemplateIsSaid(t *testing.T) {
	r := Check(World{Facts: twoZones(), Bare: true}, "default", items(t, `
{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainJob, metadata: {name: ft}, spec: {trainer: {numNodes: 2, resourcesPerNode: {limits: {nvidia.com/gpu: 8}}}}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {a: b}}
---
{apiVersion: example.com/v1, kind: Widget, metadata: {name: w}, spec: {limits: {cpu: 1}}}
---
{apiVersion: ray.io/v1, kind: RayJob, metadata: {name: r}, spec: {rayClusterSpec: {headGroupSpec: {template: {spec: {serviceAccountName: a}}}}}}
---
{apiVersion: kueue.x-k8s.io/v1beta2, kind: ProvisioningRequestConfig, metadata: {name: c}, spec: {provisioningClassName: queued.example.com}}
`))
	want := []string{
		"trainjob/ft, which asks for nvidia.com/gpu, has no pods here: it names no runtime",
		"widget/w was not planned: which pods kind Widget of example.com has is not known",
		"rayjob/r has no pods here: no pod template of it is in the manifests",
		"provisioningrequestconfig/c is not read, and nothing that it says has an effect: docs/from-kueue.md lists what is read",
	}
	var got []string
	for _, f := range r.Findings {
		if f.Code == "B120" {
			got = append(got, f.Message)
		}
	}
	if !slices.Equal(got, want) || len(r.Workloads) != 0 {
		t.Errorf("%q", got)
	}
}

// TestWhatIsGuessedIsSaid plans the pods that are found in an object of a kind that is not known, and lists them as an assumption.
func TestWhatIsGuessedIsSaid(t *testing.T) {
	r := Check(World{Facts: twoZones(), Bare: true}, "default", items(t, shaped("unknown", "t", container(gpu1, "", tolerates), "")))
	want := "training/t has the pods of the pod templates in it, 2 of spec.roles.worker.podTemplate; what the controller of kind Training of example.com makes is not known here"
	if r.Workloads[0].Verdict != Starts || !slices.Contains(r.Assumes, want) {
		t.Errorf("%s, assumed %q", r.Workloads[0].Summary, r.Assumes)
	}
}
