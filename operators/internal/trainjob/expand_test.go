package trainjob

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

const job = `
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: bert, namespace: a, uid: u}
spec:
  runtimeRef: {name: torch-distributed}
  labels: {kai.scheduler/queue: blue}
  trainer: {image: mine, numNodes: 4, numProcPerNode: 8, resourcesPerNode: {limits: {nvidia.com/gpu: 8}}, env: [{name: A, value: b}]}
  podTemplateOverrides: [{}]
`

// TestExpand makes the JobSet of a TrainJob.
func TestExpand(t *testing.T) {
	u := object(t, job)
	before := u.DeepCopy()
	set, untold, err := Expand(u, Builtin(Torch))
	if err != nil {
		t.Fatal(err)
	}
	text, _ := yaml.Marshal(set.Object)
	for _, want := range []string{"completions: 4", "parallelism: 4", "image: mine", "nvidia.com/gpu: 8", "PET_NNODES", "value: bert-node-0-0.bert", "kai.scheduler/queue: blue", "controller: true", "name: A"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("there is no %s in\n%s", want, text)
		}
	}
	if !slices.Equal(untold, []string{"spec.podTemplateOverrides"}) {
		t.Errorf("untold %v", untold)
	}
	if a, _ := yaml.Marshal(before.Object); string(a) != func() string { b, _ := yaml.Marshal(u.Object); return string(b) }() {
		t.Error("the TrainJob was written to")
	}
	if kind, name := RuntimeOf(u); kind != "ClusterTrainingRuntime" || name != Torch {
		t.Error(kind, name)
	}
}

// TestRefused says in a sentence why a runtime makes no JobSet.
func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		"{spec: {}}": "has no spec.template.spec",
		"{spec: {template: {spec: {replicatedJobs: [{name: x}]}}}}":                                                                                         "no replicated job of the runtime has the label",
		"{spec: {template: {spec: {replicatedJobs: [{name: x, template: {metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}}}]}}}}": "has no containers",
	} {
		if _, _, err := Expand(object(t, job), object(t, text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
	if _, _, err := Expand(object(t, strings.Replace(job, "numNodes: 4", "numNodes: 4000000", 1)), Builtin(Torch)); err == nil {
		t.Error("a TrainJob that no cluster can hold is expanded")
	}
}

// TestStatus passes on how the JobSet ended.
func TestStatus(t *testing.T) {
	set := object(t, "{status: {conditions: [{type: StartupPolicyCompleted, status: 'True'}, {type: Completed, status: 'True', reason: AllJobsCompleted}]}}")
	if got := Status(set); len(got) != 1 || got[0].(map[string]any)["type"] != "Complete" {
		t.Error(got)
	}
}
