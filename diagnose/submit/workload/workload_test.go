package workload

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/kube/manifest"
)

const pod = `{spec: {containers: [{name: a, image: x, resources: {limits: {nvidia.com/gpu: 1}}}]}}`

// TestOf makes the pods of every kind: what Kubernetes' controllers do, and what can be told of others.
func TestOf(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"pod", `{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: a}]}}`, "p at : p"},
		{"job", `{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {parallelism: 3, completions: 2, template: ` + pod + `}}`, "j at /spec/template: j-0 j-1"},
		{"suspended job", `{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {suspend: true, template: ` + pod + `}}`, "idle: spec.suspend is true: it has no pods until that changes"},
		{"generated name", `{apiVersion: batch/v1, kind: Job, metadata: {generateName: j-}, spec: {template: ` + pod + `}}`, "j-xxxxx at /spec/template: j-xxxxx-0"},
		{"cron job", `{apiVersion: batch/v1, kind: CronJob, metadata: {name: c}, spec: {jobTemplate: {spec: {template: ` + pod + `}}}}`, "c-next at /spec/jobTemplate/spec/template: c-next-0"},
		{"deployment", `{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {replicas: 2, template: ` + pod + `}}`, "d at /spec/template: d-0 d-1"},
		{"deployment without replicas", `{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {template: ` + pod + `}}`, "d at /spec/template: d-0"},
		{"stateful set", `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: s}, spec: {replicas: 2, volumeClaimTemplates: [{metadata: {name: v}}], template: ` + pod + `}}`, "s at /spec/template: s-0 s-1\nclaim v-s-0\nclaim v-s-1"},
		{"daemon set", `{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: d}, spec: {template: {spec: {nodeSelector: {gpu: "true"}, containers: [{name: a}]}}}}`, "d at /spec/template: d-0"},
		{"job set", `{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: js}, spec: {replicatedJobs: [
			{name: driver, template: {spec: {template: ` + pod + `}}}, {name: workers, replicas: 2, template: {spec: {parallelism: 2, completions: 2, template: ` + pod + `}}}]}}`,
			"js-driver-0 at /spec/replicatedJobs/0/template/spec/template: js-driver-0-0\njs-workers-0 at /spec/replicatedJobs/1/template/spec/template: js-workers-0-0 js-workers-0-1\njs-workers-1 at /spec/replicatedJobs/1/template/spec/template: js-workers-1-0 js-workers-1-1"},
		{"pytorch job", `{apiVersion: kubeflow.org/v1, kind: PyTorchJob, metadata: {name: t}, spec: {pytorchReplicaSpecs: {Master: {replicas: 1, template: ` + pod + `}, Worker: {replicas: 2, template: ` + pod + `}}}}`,
			"t-master at /spec/pytorchReplicaSpecs/Master/template: t-master-0\nt-worker at /spec/pytorchReplicaSpecs/Worker/template: t-worker-0 t-worker-1"},
		{"leader worker set", `{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, metadata: {name: l}, spec: {replicas: 2, leaderWorkerTemplate: {size: 3, leaderTemplate: ` + pod + `, workerTemplate: ` + pod + `}}}`,
			"l-leader-0 at /spec/leaderWorkerTemplate/leaderTemplate: l-leader-0-0\nl-worker-0 at /spec/leaderWorkerTemplate/workerTemplate: l-worker-0-0 l-worker-0-1\n" +
				"l-leader-1 at /spec/leaderWorkerTemplate/leaderTemplate: l-leader-1-0\nl-worker-1 at /spec/leaderWorkerTemplate/workerTemplate: l-worker-1-0 l-worker-1-1"},
		{"leader worker set of one template", `{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, metadata: {name: l}, spec: {leaderWorkerTemplate: {size: 3, workerTemplate: ` + pod + `}}}`,
			"l-leader-0 at /spec/leaderWorkerTemplate/workerTemplate: l-leader-0-0\nl-worker-0 at /spec/leaderWorkerTemplate/workerTemplate: l-worker-0-0 l-worker-0-1"},
		{"leader worker set with claims", `{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, metadata: {name: l}, spec: {leaderWorkerTemplate: {size: 2, volumeClaimTemplates: [{metadata: {name: v}}], workerTemplate: ` + pod + `}}}`,
			"l-leader-0 at /spec/leaderWorkerTemplate/workerTemplate: l-leader-0-0\nl-worker-0 at /spec/leaderWorkerTemplate/workerTemplate: l-worker-0-0\nclaim v-l-leader-0-0\nclaim v-l-worker-0-0"},
		{"job set with claims", `{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: js}, spec: {volumeClaimPolicies: [{templates: [{metadata: {name: data}}, {metadata: {name: out}}]}], replicatedJobs: [
			{name: w, template: {spec: {template: {spec: {containers: [{name: a, volumeMounts: [{name: data, mountPath: /d}]}]}}}}}]}}`,
			"js-w-0 at /spec/replicatedJobs/0/template/spec/template: js-w-0-0 with data-js\nclaim data-js\nclaim out-js"},
		{"leader worker set of none", `{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, metadata: {name: l}, spec: {replicas: 0, leaderWorkerTemplate: {size: 3, workerTemplate: ` + pod + `}}}`,
			"idle: it asks for no pods"},
		{"ray cluster", `{apiVersion: ray.io/v1, kind: RayCluster, metadata: {name: r}, spec: {headGroupSpec: {template: ` + pod + `}, workerGroupSpecs: [{groupName: gpus, replicas: 2, template: ` + pod + `}]}}`,
			"r-headgroupspec at /spec/headGroupSpec/template: r-headgroupspec-0\nr-gpus at /spec/workerGroupSpecs/0/template: r-gpus-0 r-gpus-1"},
		{"ray cluster of many hosts, with groups out of bounds", `{apiVersion: ray.io/v1, kind: RayCluster, metadata: {name: r}, spec: {headGroupSpec: {template: ` + pod + `}, workerGroupSpecs: [
			{groupName: slices, replicas: 2, numOfHosts: 2, template: ` + pod + `}, {groupName: few, replicas: 0, minReplicas: 1, template: ` + pod + `}, {groupName: idle, replicas: 2, suspend: true, template: ` + pod + `}]}}`,
			"r-headgroupspec at /spec/headGroupSpec/template: r-headgroupspec-0\nr-slices at /spec/workerGroupSpecs/0/template: r-slices-0 r-slices-1 r-slices-2 r-slices-3\n" +
				"r-few at /spec/workerGroupSpecs/1/template: r-few-0\nr-idle at /spec/workerGroupSpecs/2/template: "},
		{"ray cluster without a head", `{apiVersion: ray.io/v1, kind: RayCluster, metadata: {name: r}, spec: {workerGroupSpecs: [{groupName: gpus, template: ` + pod + `}]}}`,
			"spec.headGroupSpec.template has no containers"},
		{"ray cluster of another form", `{apiVersion: ray.io/v1, kind: RayCluster, metadata: {name: r}, spec: {headGroupSpec: {template: {spec: {containers: all}}}}}`,
			"spec: headGroupSpec.template.spec.containers is string, and not as the kind has it ([]v1.Container)"},
		{"ray job", `{apiVersion: ray.io/v1, kind: RayJob, metadata: {name: r}, spec: {rayClusterSpec: {headGroupSpec: {template: ` + pod + `}}}}`,
			"r-headgroupspec at /spec/rayClusterSpec/headGroupSpec/template: r-headgroupspec-0\nr-submitter at /spec: r-submitter-0"},
		{"ray job on a schedule", `{apiVersion: ray.io/v1, kind: RayCronJob, metadata: {name: r}, spec: {schedule: "@daily", jobTemplate: {rayClusterSpec: {headGroupSpec: {template: ` + pod + `}}}}}`,
			"r-headgroupspec at /spec/jobTemplate/rayClusterSpec/headGroupSpec/template: r-headgroupspec-0\nr-submitter at /spec/jobTemplate: r-submitter-0"},
		{"ray job over HTTP", `{apiVersion: ray.io/v1, kind: RayJob, metadata: {name: r}, spec: {submissionMode: HTTPMode, rayClusterSpec: {headGroupSpec: {template: ` + pod + `}}}}`,
			"r-headgroupspec at /spec/rayClusterSpec/headGroupSpec/template: r-headgroupspec-0"},
		{"ray job for a cluster that is there", `{apiVersion: ray.io/v1, kind: RayJob, metadata: {name: r}, spec: {clusterSelector: {ray.io/cluster: c}, submitterPodTemplate: ` + pod + `}}`,
			"r-submitter at /spec/submitterPodTemplate: r-submitter-0"},
		{"suspended ray job", `{apiVersion: ray.io/v1, kind: RayJob, metadata: {name: r}, spec: {suspend: true, rayClusterSpec: {headGroupSpec: {template: ` + pod + `}}}}`,
			"idle: spec.suspend is true: it has no pods until that changes"},
		{"ray service", `{apiVersion: ray.io/v1, kind: RayService, metadata: {name: r}, spec: {rayClusterConfig: {headGroupSpec: {template: ` + pod + `}}}}`,
			"r-headgroupspec at /spec/rayClusterConfig/headGroupSpec/template: r-headgroupspec-0"},
		{"train job that changes its runtime's templates", `{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainJob, metadata: {name: t}, spec: {runtimeRef: {name: r}, runtimePatches: [{trainingRuntimeSpec: {template: {spec: {replicatedJobs: [{name: node, template: {spec: {template: {spec: {containers: [{name: node}]}}}}}]}}}}]}}`, "none"},
		{"unknown kind", `{apiVersion: example.com/v1, kind: Training, metadata: {name: x}, spec: {anything: [{inside: {replicas: 2, podTemplate: ` + pod + `}}]}}`, "x at /spec/anything/0/inside/podTemplate: x-0 x-1"},
		{"servers of several nodes", `{apiVersion: nvidia.com/v1beta1, kind: DynamoGraphDeployment, metadata: {name: d}, spec: {components: [{name: Frontend, podTemplate: ` + pod + `}, {name: decode, replicas: 2, multinode: {nodeCount: 2}, podTemplate: ` + pod + `}]}}`,
			"d-frontend at /spec/components/0/podTemplate: d-frontend-0\n" +
				"d-decode-leader-0 at /spec/components/1/podTemplate: d-decode-leader-0-0\nd-decode-worker-0 at /spec/components/1/podTemplate: d-decode-worker-0-0\n" +
				"d-decode-leader-1 at /spec/components/1/podTemplate: d-decode-leader-1-0\nd-decode-worker-1 at /spec/components/1/podTemplate: d-decode-worker-1-0"},
		{"llm inference service", `{apiVersion: serving.kserve.io/v1alpha2, kind: LLMInferenceService, metadata: {name: l}, spec: {replicas: 2, template: {containers: [{name: main, image: x}]}, prefill: {template: {containers: [{name: main, image: x}]}}}}`,
			"l-serve at /spec/template: l-serve-0 l-serve-1\nl-prefill at /spec/prefill/template: l-prefill-0"},
		{"llm inference service of several nodes", `{apiVersion: serving.kserve.io/v1alpha1, kind: LLMInferenceService, metadata: {name: l}, spec: {parallelism: {data: 16, dataLocal: 8}, template: {containers: [{name: main, image: x}]}, worker: {containers: [{name: main, image: x}]}}}`,
			"l-serve-leader-0 at /spec/worker: l-serve-leader-0-0\nl-serve-worker-0 at /spec/worker: l-serve-worker-0-0"},
		{"app wrapper", `{apiVersion: workload.codeflare.dev/v1beta2, kind: AppWrapper, metadata: {name: aw}, spec: {components: [
			{template: {apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {parallelism: 2, completions: 2, template: {spec: {restartPolicy: Never, containers: [{name: a, image: x}]}}}}},
			{template: {apiVersion: v1, kind: Service, metadata: {name: s}, spec: {}}}, {template: {apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: a, image: x}]}}},
			{template: {apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: js}, spec: {replicatedJobs: [{name: w, replicas: 2, template: {spec: {template: ` + pod + `}}}]}}}]}}`,
			"j at /spec/components/0/template/spec/template: j-0 j-1\np at /spec/components/2/template: p\n" +
				"js-w-0 at /spec/components/3/template/spec/replicatedJobs/0/template/spec/template: js-w-0-0\njs-w-1 at /spec/components/3/template/spec/replicatedJobs/0/template/spec/template: js-w-1-0"},
		{"suspended app wrapper", `{apiVersion: workload.codeflare.dev/v1beta2, kind: AppWrapper, metadata: {name: aw}, spec: {suspend: true, components: [{template: {apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: a, image: x}]}}}]}}`,
			"idle: spec.suspend is true: it has no pods until that changes"},
		{"app wrapper of an unknown kind", `{apiVersion: workload.codeflare.dev/v1beta2, kind: AppWrapper, metadata: {name: aw}, spec: {components: [{podSets: [{path: template.spec.worker, replicas: 2}], template: {apiVersion: example.com/v1, kind: T, metadata: {name: t}, spec: {replicas: 2, worker: {spec: {containers: [{name: a}]}}}}}]}}`,
			"t-set-0 at /spec/components/0/template/spec/worker: t-set-0-0 t-set-0-1"},
		{"app wrapper whose path leads nowhere", `{apiVersion: workload.codeflare.dev/v1beta2, kind: AppWrapper, metadata: {name: aw}, spec: {components: [{podSets: [{path: "template.spec.jobs[1].template"}], template: {apiVersion: example.com/v1, kind: T, metadata: {name: t}, spec: {jobs: [{}]}}}]}}`,
			`spec.components[0].podSets[0].path: "template.spec.jobs[1].template" leads nowhere at [1]`},
		{"app wrapper of none", `{apiVersion: workload.codeflare.dev/v1beta2, kind: AppWrapper, metadata: {name: aw}, spec: {components: [{template: {apiVersion: v1, kind: Service, metadata: {name: s}, spec: {}}}]}}`,
			"spec.components: nothing in it has pods that its controller knows of; name them in podSets: its webhook refuses it"},
		{"app wrapper in another", `{apiVersion: workload.codeflare.dev/v1beta2, kind: AppWrapper, metadata: {name: aw}, spec: {components: [{template: {apiVersion: workload.codeflare.dev/v1beta2, kind: AppWrapper, metadata: {name: b}}}]}}`,
			"spec.components[0].template: an AppWrapper in another is not allowed"},
		{"no pods", `{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {template: x}}`, "none"},
		{"a billion", `{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {parallelism: 1000000000, template: ` + pod + `}}`, "j at /spec/template: 5000 of 1000000000"},
		{"wrong type", `{apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {parallelism: many}}`, "Job j: spec.parallelism is string, and not as the kind has it (int32)"},
		{"wrong name", `{apiVersion: example.com/v1, kind: Training, metadata: {name: 1}}`, "metadata.name is no text: put it in quotes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			docs, err := manifest.Parse("x", []byte(c.text))
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			gpu, cpu := &corev1.Node{}, &corev1.Node{}
			gpu.Name, gpu.Labels, cpu.Name = "g", map[string]string{"gpu": "true"}, "c"
			w, _, err := Of(docs[0].Object, Options{At: time.Unix(0, 0), Namespace: "default", Nodes: []*corev1.Node{gpu, cpu}, UID: func() types.UID { n++; return types.UID(fmt.Sprint(n)) }})
			if diff := cmp.Diff(c.want, words(w, err)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func words(w *Workload, err error) string {
	switch {
	case err != nil:
		return err.Error()
	case w == nil:
		return "none"
	case w.Idle != "":
		return "idle: " + w.Idle
	}
	var out []string
	for _, p := range w.Parts {
		var names []string
		for _, pod := range p.Pods {
			name := pod.Name
			for _, v := range pod.Spec.Volumes {
				if c := v.PersistentVolumeClaim; c != nil && !strings.HasSuffix(c.ClaimName, "-"+pod.Name) {
					name += " with " + c.ClaimName
				}
			}
			names = append(names, name)
		}
		if p.Wanted > 10 {
			names = []string{fmt.Sprintf("%d of %d", len(p.Pods), p.Wanted)}
		}
		out = append(out, fmt.Sprintf("%s at %s: %s", p.Maker.GetName(), p.Template, strings.Join(names, " ")))
	}
	for _, c := range w.Claims() {
		out = append(out, "claim "+c.Name)
	}
	return strings.Join(out, "\n")
}

// An object that is suspended until a queue lets it in has the pods that it will have then, if something resumes its kind.
func TestSuspendedUntilLetIn(t *testing.T) {
	const pod, queued = "{spec: {containers: [{name: c, image: i}]}}", "metadata: {name: x, labels: {queue: q}}"
	for text, want := range map[string]int{
		"{apiVersion: ray.io/v1, kind: RayJob, " + queued + ", spec: {suspend: true, rayClusterSpec: {headGroupSpec: {template: " + pod + "}}}}":                                   2,
		"{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, " + queued + ", spec: {suspend: true, replicatedJobs: [{name: a, template: {spec: {template: " + pod + "}}}]}}":      1,
		"{apiVersion: kubeflow.org/v1, kind: PyTorchJob, " + queued + ", spec: {runPolicy: {suspend: true}, pytorchReplicaSpecs: {Worker: {replicas: 3, template: " + pod + "}}}}": 3,
		"{apiVersion: ray.io/v1, kind: RayJob, metadata: {name: x}, spec: {suspend: true, rayClusterSpec: {headGroupSpec: {template: " + pod + "}}}}":                              0,
		"{apiVersion: example.com/v1, kind: Other, " + queued + ", spec: {suspend: true, replicas: 2, template: " + pod + "}}":                                                     0,
	} {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(text), &object); err != nil {
			t.Fatal(err)
		}
		w, _, err := Of(object, Options{UID: func() types.UID { return "u" }, LetIn: func(m *metav1.ObjectMeta) bool { return m.Labels["queue"] != "" }})
		if err != nil {
			t.Fatal(err)
		}
		got := 0
		for _, p := range w.Parts {
			got += p.Wanted
		}
		if got != want || (w.Idle != "") != (want == 0) {
			t.Errorf("%d pods, idle %q, want %d of\n%s", got, w.Idle, want, text)
		}
	}
}

// FuzzOf reads objects of any shape: pods come of it, or an error, and never too many.
func FuzzOf(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"j"},"spec":{"parallelism":3,"template":{"spec":{"containers":[{}]}}}}`))
	f.Add([]byte(`{"apiVersion":"x/v1","kind":"T","spec":{"replicas":-1,"template":{"spec":{"containers":[1]}}}}`))
	f.Add([]byte(`{"apiVersion":"ray.io/v1","kind":"RayJob","metadata":{"name":"r"},"spec":{"rayClusterSpec":{"enableInTreeAutoscaling":true,"headGroupSpec":{"template":{"spec":{"containers":[{}]}}},"workerGroupSpecs":[{"groupName":"g","replicas":9999999,"numOfHosts":4,"template":{"spec":{"containers":[{}]}}}]}}}`))
	f.Add([]byte(`{"apiVersion":"leaderworkerset.x-k8s.io/v1","kind":"LeaderWorkerSet","metadata":{"name":"l","annotations":{"leaderworkerset.sigs.k8s.io/exclusive-topology":"rack"}},"spec":{"replicas":2147483647,"leaderWorkerTemplate":{"size":2147483647,"workerTemplate":{"spec":{"containers":[{}]}}}}}`))
	f.Add([]byte(`{"apiVersion":"trainer.kubeflow.org/v1alpha1","kind":"TrainJob","metadata":{"name":"t"},"spec":{"runtimeRef":{"name":"r"},"trainer":{"numNodes":2147483647},"runtimePatches":[{"trainingRuntimeSpec":{"template":{"spec":{"replicatedJobs":[{"name":"node","template":{"spec":{"template":{"spec":{"nodeSelector":{"a":"b"}}}}}}]}}}}]}}`))
	f.Add([]byte("{\"spec\":{\"template\":{\"spec\":{\"replicatedJobs\":[1,{\"name\":\"node\"}]}}}}\n---\n{\"apiVersion\":\"trainer.kubeflow.org/v1alpha1\",\"kind\":\"TrainJob\",\"metadata\":{\"name\":\"t\"},\"spec\":{\"suspend\":true}}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		docs, err := manifest.Parse("x", data)
		if err != nil {
			return
		}
		for _, d := range docs {
			n := 0
			runtime := func(string, string, string) *unstructured.Unstructured {
				if u := (&unstructured.Unstructured{Object: docs[0].Object}); len(docs) > 1 && checkMeta(u.Object) == nil {
					return u
				}
				return InstalledRuntime("deepspeed-distributed")
			}
			w, _, err := Of(d.Object, Options{Namespace: "default", UID: func() types.UID { n++; return types.UID(fmt.Sprint(n)) }, Runtime: runtime})
			if err != nil || w == nil {
				continue
			}
			for _, p := range w.Parts {
				if len(p.Pods) > MostPods {
					t.Fatalf("%d pods", len(p.Pods))
				}
				for _, pod := range p.Pods[:min(2, len(p.Pods))] {
					Fill(pod, nil)
				}
			}
			w.Claims()
		}
	})
}

// Devices that an operator gives pods by claims of its own are said to be missing from the plan.
func TestLLMDevicesThatAreNotPlanned(t *testing.T) {
	docs, err := manifest.Parse("x", []byte(`{apiVersion: serving.kserve.io/v1alpha2, kind: LLMInferenceService, metadata: {name: l, annotations: {serving.kserve.io/exp-dra-device-class: gpu.nvidia.com}}, spec: {template: {containers: [{name: main, image: x}]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	w, _, err := Of(docs[0].Object, Options{Namespace: "default", UID: func() types.UID { return "u" }})
	if want := "llminferenceservice/l is planned without the claims of devices that its operator gives its pods by serving.kserve.io/exp-dra-device-class"; err != nil || w.Unplanned != want {
		t.Errorf("%v: %q", err, w.Unplanned)
	}
}

// Pods that are found by their shape in an object of a kind that is not known are said to be a guess; those of kinds that are known are not.
func TestGuesses(t *testing.T) {
	for text, want := range map[string]string{
		`{apiVersion: example.com/v1, kind: Training, metadata: {name: x}, spec: {replicas: 2, template: ` + pod + `, head: {containers: [{name: a, image: x}]}}}`: "training/x has the pods of the pod templates in it, 2 of spec.head, 2 of spec.template; what the controller of kind Training of example.com makes is not known here",
		`{apiVersion: argoproj.io/v1alpha1, kind: Rollout, metadata: {name: x}, spec: {replicas: 2, template: ` + pod + `}}`:                                       "",
		`{apiVersion: kubeflow.org/v1, kind: PyTorchJob, metadata: {name: x}, spec: {pytorchReplicaSpecs: {Worker: {replicas: 2, template: ` + pod + `}}}}`:        "",
		`{apiVersion: kubeflow.org/v1, kind: Other, metadata: {name: x}, spec: {template: ` + pod + `}}`:                                                           "other/x has the pods of the pod templates in it, 1 of spec.template; what the controller of kind Other of kubeflow.org makes is not known here",
		`{apiVersion: ray.io/v1, kind: RayCluster, metadata: {name: r}, spec: {headGroupSpec: {template: ` + pod + `}}}`:                                           "",
	} {
		docs, err := manifest.Parse("x", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		w, _, err := Of(docs[0].Object, Options{Namespace: "default", UID: func() types.UID { return "u" }})
		if err != nil || w == nil || w.Guess != want {
			t.Errorf("%v: %q is guessed of\n%s", err, w.Guess, text)
		}
	}
}

// Of a kind that is not known, the fields that ask for places, a queue or a turn beside its pod templates are told, and workers are
// counted by the number that is named as their template is.
func TestPlacingFieldsOfUnknownKinds(t *testing.T) {
	text := `{apiVersion: workload.serving.volcano.sh/v1alpha1, kind: ModelServing, metadata: {name: ms}, spec: {schedulerName: volcano, replicas: 2, schedule: "* * * * *", tolerations: [], template: {gangPolicy: {minRoleReplicas: {a: 1}}, roles: [
		{name: a, replicas: 2, entryTemplate: ` + pod + `, workerReplicas: 3, workerTemplate: ` + pod + `}]}}}`
	docs, err := manifest.Parse("x", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	w, _, err := Of(docs[0].Object, Options{Namespace: "default", UID: func() types.UID { n++; return types.UID(fmt.Sprint(n)) }})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range w.Parts {
		got = append(got, fmt.Sprintf("%d at %s", p.Wanted, p.Template))
	}
	for _, text := range w.Vain {
		field, _, _ := strings.Cut(text, " (")
		got = append(got, field)
	}
	want := []string{"4 at /spec/template/roles/0/entryTemplate", "12 at /spec/template/roles/0/workerTemplate", "spec.schedulerName", "spec.template.gangPolicy"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
