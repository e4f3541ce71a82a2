package workload

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

// said is the pods of an object by part, with what their first container asks for, and what is made beside them.
// A second document is the runtime that it names.
func said(t *testing.T, text string) string {
	t.Helper()
	var object map[string]any
	text, beside, _ := strings.Cut(text, "\n---\n")
	runtime := &unstructured.Unstructured{}
	for text, into := range map[string]*map[string]any{text: &object, beside: &runtime.Object} {
		if err := yaml.Unmarshal([]byte(text), into); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	w, _, err := Of(object, Options{At: time.Unix(0, 0), Namespace: "team", UID: func() types.UID { n++; return types.UID(fmt.Sprint(n)) }, Runtime: func(kind, _, name string) *unstructured.Unstructured {
		if runtime.GetKind() == kind && runtime.GetName() == name {
			return runtime
		}
		return InstalledRuntime(name)
	}})
	if err != nil {
		return err.Error()
	}
	if w == nil {
		return "nothing"
	}
	var b strings.Builder
	for i := range w.Parts {
		p := &w.Parts[i]
		fmt.Fprintf(&b, "%s %d at %s", p.Name, p.Wanted, p.Template)
		if len(p.Pods) > 0 {
			spec := &p.Pods[0].Spec
			c := spec.Containers[0]
			for _, name := range []string{"cpu", "memory", "nvidia.com/gpu"} {
				if q, ok := c.Resources.Requests[corev1.ResourceName(name)]; ok {
					fmt.Fprintf(&b, " %s=%s", name, q.String())
				} else if q, ok := c.Resources.Limits[corev1.ResourceName(name)]; ok {
					fmt.Fprintf(&b, " %s=%s", name, q.String())
				}
			}
			if spec.SchedulerName != "" {
				fmt.Fprintf(&b, " by %s", spec.SchedulerName)
			}
			if gang := p.Pods[0].Labels["grove.io/podgang"] + p.Pods[0].Annotations["scheduling.k8s.io/group-name"] + p.Pods[0].Labels["scheduling.x-k8s.io/pod-group"]; gang != "" {
				fmt.Fprintf(&b, " in %s", gang)
			}
			for _, key := range slices.Sorted(maps.Keys(spec.NodeSelector)) {
				fmt.Fprintf(&b, " on %s=%s", key, spec.NodeSelector[key])
			}
		}
		b.WriteString("\n")
	}
	if w.Unplanned != "" {
		fmt.Fprintln(&b, w.Unplanned)
	}
	for _, o := range w.Also {
		u := o.(*unstructured.Unstructured)
		groups, _, _ := unstructured.NestedSlice(u.Object, "spec", "podgroups")
		fmt.Fprintf(&b, "%s %s:", u.GetKind(), u.GetName())
		for _, g := range groups {
			fmt.Fprintf(&b, " %v %v", g.(map[string]any)["name"], g.(map[string]any)["minReplicas"])
		}
		if spec := u.Object["spec"].(map[string]any); spec["minMember"] != nil {
			fmt.Fprintf(&b, " %v in %v", spec["minMember"], spec["queue"])
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestExpanders(t *testing.T) {
	for name, c := range map[string]struct{ object, want string }{
		"Grove: cliques, and a scaling group beyond its minimum": {`
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {name: serve}
spec:
  replicas: 1
  template:
    podCliqueScalingGroups: [{name: decode, cliqueNames: [lead, work], replicas: 2, minAvailable: 1}]
    cliques:
    - {name: router, spec: {replicas: 2, minAvailable: 1, podSpec: {containers: [{name: r, image: i, resources: {requests: {cpu: 2}}}]}}}
    - {name: lead, spec: {replicas: 1, podSpec: {containers: [{name: r, image: i, resources: {limits: {nvidia.com/gpu: 8}}}]}}}
    - {name: work, spec: {replicas: 3, podSpec: {schedulerName: kai-scheduler, containers: [{name: r, image: i}]}}}
`, `0-router 2 at /spec/template/cliques/0/spec/podSpec cpu=2 in serve-0
0-decode-0-lead 1 at /spec/template/cliques/1/spec/podSpec nvidia.com/gpu=8 in serve-0
0-decode-1-lead 1 at /spec/template/cliques/1/spec/podSpec nvidia.com/gpu=8 in serve-0-decode-0
0-decode-0-work 3 at /spec/template/cliques/2/spec/podSpec by kai-scheduler in serve-0
0-decode-1-work 3 at /spec/template/cliques/2/spec/podSpec by kai-scheduler in serve-0-decode-0
PodGang serve-0: serve-0-router 1 serve-0-decode-0-lead 1 serve-0-decode-0-work 3
PodGang serve-0-decode-0: serve-0-decode-1-lead 1 serve-0-decode-1-work 3
`},
		"Grove: claims that pods share": {`
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {name: serve, annotations: {grove.io/mnnvl-group: a}}
spec:
  template:
    cliques:
    - {name: router, resourceSharing: [{name: nic, scope: AllReplicas}], spec: {replicas: 1, podSpec: {containers: [{name: r, image: i}]}}}
`, `1 at /spec/template/cliques/0/spec/podSpec in serve-0
podcliqueset/serve is planned without the claims of devices that its operator gives its pods by resourceSharing and grove.io/mnnvl-group
PodGang serve-0: serve-0-router 1
`},
		"Spark: driver and executors, with what the JVM takes on top": {`
apiVersion: sparkoperator.k8s.io/v1beta2
kind: SparkApplication
metadata: {name: pi}
spec:
  type: Scala
  image: spark
  batchScheduler: volcano
  batchSchedulerOptions: {queue: blue}
  driver: {cores: 2, memory: 512m}
  executor: {instances: 3, coreRequest: 500m, memory: 8g, gpu: {name: nvidia.com/gpu, quantity: 1}}
`, `driver 1 at /spec/driver cpu=2 memory=896Mi by volcano in spark-pi-pg
executor 3 at /spec/executor cpu=500m memory=9011Mi nvidia.com/gpu=1 by volcano in spark-pi-pg
PodGroup spark-pi-pg: 1 in blue
`},
		"Spark: executors as they are needed": {`
apiVersion: sparkoperator.k8s.io/v1beta2
kind: SparkApplication
metadata: {name: pi}
spec:
  type: Python
  dynamicAllocation: {enabled: true, initialExecutors: 2, minExecutors: 1, maxExecutors: 10}
  driver: {memory: 1000m}
  executor: {memoryOverhead: 1g}
`, `driver 1 at /spec/driver cpu=1 memory=1400Mi
executor 2 at /spec/executor cpu=1 memory=2Gi
`},
		"Spark: no size": {`{apiVersion: sparkoperator.k8s.io/v1beta2, kind: SparkApplication, metadata: {name: pi}, spec: {driver: {memory: lots}}}`,
			`spec.driver: memory: "lots" is no size such as 512m or 4g`},
		"KServe: a model, a transformer, and defaults": {`
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: llm}
spec:
  predictor: {minReplicas: 2, model: {modelFormat: {name: huggingface}, resources: {limits: {nvidia.com/gpu: 1}, requests: {nvidia.com/gpu: 1}}}}
  transformer: {containers: [{name: t, image: i}]}
`, `predictor 2 at /spec/predictor nvidia.com/gpu=1
transformer 1 at /spec/transformer cpu=1 memory=2Gi
`},
		"KServe: a model on several nodes": {`
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: llm}
spec:
  predictor:
    model: {modelFormat: {name: huggingface}, resources: {limits: {nvidia.com/gpu: 8}}}
    workerSpec: {pipelineParallelSize: 3, tensorParallelSize: 8, containers: [{name: w, image: i, resources: {limits: {nvidia.com/gpu: 8}}}]}
`, `predictor 1 at /spec/predictor nvidia.com/gpu=8
predictor-worker 2 at /spec/predictor/workerSpec nvidia.com/gpu=8
`},
		"KServe: a model on several nodes that says how large it is alone": {`
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: llm}
spec:
  predictor:
    model: {modelFormat: {name: huggingface}}
    workerSpec: {pipelineParallelSize: 2, tensorParallelSize: 2}
`, `predictor 1 at /spec/predictor cpu=1 memory=2Gi nvidia.com/gpu=1
predictor-worker 3 at /spec/predictor/workerSpec nvidia.com/gpu=1
`},
		"KServe: a model that one node holds": {`
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: llm}
spec:
  predictor:
    model: {modelFormat: {name: huggingface}}
    workerSpec: {pipelineParallelSize: 3, containers: [{name: w, image: i, resources: {limits: {nvidia.com/gpu: 8}}}]}
`, `1 at /spec/predictor cpu=1 memory=2Gi nvidia.com/gpu=3
`},
		"KServe: workers that say what they have": {`
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: llm}
spec:
  predictor:
    model: {modelFormat: {name: huggingface}}
    workerSpec: {pipelineParallelSize: 2, tensorParallelSize: 4, containers: [{name: w, image: i, resources: {requests: {nvidia.com/gpu: 3}, limits: {nvidia.com/gpu: 3}}}]}
`, `predictor 1 at /spec/predictor cpu=1 memory=2Gi nvidia.com/gpu=2
predictor-worker 2 at /spec/predictor/workerSpec nvidia.com/gpu=3
`},
		"KServe: a head with too few": {`
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: llm}
spec:
  predictor:
    model: {modelFormat: {name: huggingface}, resources: {limits: {nvidia.com/gpu: 1}}}
    workerSpec: {pipelineParallelSize: 2, tensorParallelSize: 4, containers: [{name: w, image: i, resources: {limits: {nvidia.com/gpu: 3}}}]}
`, `spec.predictor.workerSpec: tensorParallelSize x pipelineParallelSize is 8 GPUs, and its 3 nodes ask for 1 and 2 times 3`},
		"Dynamo: components, one over several nodes": {`
apiVersion: nvidia.com/v1beta1
kind: DynamoGraphDeployment
metadata: {name: llm}
spec:
  components:
  - {name: Frontend, type: frontend}
  - {name: decode, replicas: 2, multinode: {nodeCount: 4}, podTemplate: {spec: {containers: [{name: main, image: i, resources: {limits: {nvidia.com/gpu: 8}}}]}}}
`, `Frontend 1 at /spec/components/0/podTemplate
decode/leader-0 1 at /spec/components/1/podTemplate nvidia.com/gpu=8
decode/worker-0 3 at /spec/components/1/podTemplate nvidia.com/gpu=8
decode/leader-1 1 at /spec/components/1/podTemplate nvidia.com/gpu=8
decode/worker-1 3 at /spec/components/1/podTemplate nvidia.com/gpu=8
LeaderWorkerSet llm-decode:
`},
		"Dynamo: services of the first version": {`
apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeployment
metadata: {name: llm}
spec:
  services:
    Worker: {replicas: 2, resources: {limits: {gpu: "2", custom: {rdma/ib: "1"}}}, extraPodSpec: {mainContainer: {image: i}}}
    Frontend: {replicas: 1}
`, `Frontend 1 at /spec/services/Frontend
Worker 2 at /spec/services/Worker nvidia.com/gpu=2
`},
		"Spark: on a schedule": {`
apiVersion: sparkoperator.k8s.io/v1beta2
kind: ScheduledSparkApplication
metadata: {name: pi}
spec: {schedule: "@hourly", template: {driver: {memory: 1g}, executor: {instances: 2}}}
`, `driver 1 at /spec/template/driver cpu=1 memory=1408Mi
executor 2 at /spec/template/executor cpu=1 memory=1408Mi
`},
		"the spec of a pod under any key": {`
apiVersion: example.com/v1
kind: Server
metadata: {name: s}
spec: {replicas: 2, worker: {containers: [{name: w, image: i, resources: {limits: {nvidia.com/gpu: 4}}}]}}
`, `2 at /spec/worker nvidia.com/gpu=4
`},
		"TrainJob: nodes and resources of its own, patched": {`
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: bert}
spec:
  runtimeRef: {kind: TrainingRuntime, name: mine}
  trainer: {numNodes: 4, resourcesPerNode: {limits: {nvidia.com/gpu: 8}}}
  runtimePatches:
  - manager: a.example/b
    trainingRuntimeSpec: {template: {spec: {replicatedJobs: [{name: node, template: {spec: {template: {spec: {nodeSelector: {pool: h100}}}}}}]}}}
  - {manager: c.example/d}
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainingRuntime
metadata: {name: mine}
spec:
  mlPolicy: {numNodes: 2, torch: {}}
  podGroupPolicy: {volcano: {}}
  template:
    metadata: {annotations: {scheduling.volcano.sh/queue-name: blue}}
    spec:
      replicatedJobs:
      - {name: data, template: {metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: dataset-initializer}}, spec: {template: {spec: {containers: [{name: data, image: i}]}}}}}
      - {name: node, replicas: 3, template: {metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}, spec: {template: {spec: {schedulerName: volcano, containers: [{name: node, image: i, resources: {requests: {cpu: 4}}}]}}}}}
`, `data-0 1 at /spec in bert
node-0 4 at /spec cpu=4 nvidia.com/gpu=8 by volcano in bert on pool=h100
PodGroup bert: 5 in blue
`},
		"TrainJob: as many nodes as its runtime says, of a group": {`
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: bert}
spec: {runtimeRef: {name: mine}}
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: mine}
spec:
  mlPolicy: {numNodes: 2}
  podGroupPolicy: {coscheduling: {}}
  template: {spec: {replicatedJobs: [{name: w, template: {metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}, spec: {template: {spec: {containers: [{name: c, image: i}]}}}}}]}}
`, `2 at /spec in bert
PodGroup bert: 2 in <nil>
`},
		"TrainJob: MPI, whose launcher is a node": {`
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: bert}
spec: {runtimeRef: {name: deepspeed-distributed}, trainer: {numNodes: 4, resourcesPerNode: {requests: {cpu: 2}}}}
`, `node-0 3 at /spec cpu=2
launcher-0 1 at /spec cpu=2
`},
		"TrainJob: overrides of an earlier version": {`
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: bert}
spec: {runtimeRef: {name: torch-distributed}, trainer: {numNodes: 2}, podTemplateOverrides: [{targetJobs: [{name: node}], spec: {nodeSelector: {pool: a100}}}]}
`, `2 at /spec on pool=a100
`},
		"TrainJob: a patch of nothing": {`
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: bert}
spec: {runtimeRef: {name: torch-distributed}, runtimePatches: [{manager: a, trainingRuntimeSpec: {template: {spec: {replicatedJobs: [{name: worker}]}}}}]}
`, `spec.runtimePatches: the runtime has no replicated job worker`},
		"TrainJob: no runtime": {`
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: bert}
spec: {runtimeRef: {name: mine}}
`, `nothing`},
		"a pattern": {`
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: torch}
spec: {template: {spec: {replicatedJobs: [{name: node, template: {spec: {template: {spec: {containers: [{name: n, image: i}]}}}}}]}}}
`, "nothing"},
	} {
		if diff := cmp.Diff(c.want, strings.TrimPrefix(said(t, c.object), " ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// FuzzSparkMemory: whatever an application says of its memory, its pods ask for an amount of it or it is refused.
func FuzzSparkMemory(f *testing.F) {
	f.Add("4g", "", "0.1")
	f.Add("500p", "", "9e5")
	f.Add("1t", "300p", "NaN")
	f.Add("-1", "12 k", "Inf")
	f.Fuzz(func(t *testing.T, memory, overhead, factor string) {
		role := map[string]any{"memory": memory, "memoryOverhead": overhead}
		u := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "sparkoperator.k8s.io/v1beta2", "kind": "SparkApplication", "metadata": map[string]any{"name": "a", "namespace": "b"},
			"spec": map[string]any{"memoryOverheadFactor": factor, "driver": role, "executor": map[string]any{}},
		}}
		n := 0
		w, _, err := Of(u.Object, Options{Namespace: "b", UID: func() types.UID { n++; return types.UID(fmt.Sprint(n)) }})
		if err != nil {
			return
		}
		for _, p := range w.Parts {
			for _, pod := range p.Pods {
				if q := pod.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory]; q.Sign() <= 0 {
					t.Errorf("memory %q, overhead %q, factor %q: the pod asks for %s", memory, overhead, factor, q.String())
				}
			}
		}
	})
}
