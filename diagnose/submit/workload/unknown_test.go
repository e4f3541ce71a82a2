package workload

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

func read(t *testing.T, text string) map[string]any {
	t.Helper()
	var object map[string]any
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	return object
}

func TestUnknownField(t *testing.T) {
	for name, c := range map[string]struct{ object, want string }{
		"none": {object: `
apiVersion: batch/v1
kind: Job
metadata: {name: j, creationTimestamp: null}
spec: {parallelism: 2, template: {spec: {restartPolicy: Never, containers: [{name: c, image: i, resources: {limits: {cpu: 1, nvidia.com/gpu: "8"}}, ports: [{containerPort: 80}]}]}}}
status: {}`},
		"in a container": {object: `
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {containers: [{name: c, image: i, resource: {limits: {nvidia.com/gpu: 1}}}]}`,
			want: "spec.containers[0].resource: kind Pod has no such field: kubectl has the API server refuse it"},
		"several": {object: `
apiVersion: batch/v1
kind: Job
metadata: {name: j, queue: q}
spec: {completion: 2, template: {spec: {toleration: [], containers: [{name: c, image: i}]}}}`,
			want: "metadata.queue: kind Job has no such field, nor spec.completion, spec.template.spec.toleration: kubectl has the API server refuse it"},
		"another version":         {object: `{apiVersion: autoscaling/v1, kind: HorizontalPodAutoscaler, metadata: {name: h}, spec: {targetCPUUtilizationPercentage: 50}}`},
		"the wrong type":          {object: `{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: {}}}`},
		"another project's":       {object: `{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: q, spec: {weight: 1}}}`, want: "metadata.spec: kind Queue has no such field: kubectl has the API server refuse it"},
		"another project's field": {object: `{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: q}, spec: {wieght: 1}}`}, // its dialect tells of it
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := UnknownField(read(t, c.object)); err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

// TestUnknownInTemplates tells of fields that the pods of an object of another project's are not given.
func TestUnknownInTemplates(t *testing.T) {
	for name, c := range map[string]struct {
		object string
		want   []string
	}{
		"of a JobSet": {`
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: j}
spec: {replicatedJobs: [{name: w, template: {spec: {completion: 2, template: {spec: {containers: [{name: c, image: i, gpu: 1}]}}}}}]}`,
			[]string{"spec.replicatedJobs.0.template.spec.completion (there is no such field)", "spec.replicatedJobs.0.template.spec.template.spec.containers[0].gpu (there is no such field)"}},
		"of a job of Kubeflow's": {`
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: j}
spec: {pytorchReplicaSpecs: {Worker: {replicas: 2, template: {labels: {a: b}, spec: {nodeselector: {a: b}, containers: [{name: c, image: i}]}}}}}`,
			[]string{"spec.pytorchReplicaSpecs.Worker.template.labels (there is no such field)", "spec.pytorchReplicaSpecs.Worker.template.spec.nodeselector (there is no such field)"}},
		"of a kind that is not known": {`
apiVersion: example.com/v1
kind: Runner
metadata: {name: r}
spec: {runnerTemplate: {labels: {a: b}, spec: {tolerate: [], containers: [{name: c, image: i}]}}}`,
			[]string{"spec.runnerTemplate.spec.tolerate (there is no such field)"}},
	} {
		t.Run(name, func(t *testing.T) {
			w, _, err := Of(read(t, c.object), Options{UID: func() types.UID { return "u" }})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(w.Vain, c.want) {
				t.Errorf("got  %q\nwant %q", w.Vain, c.want)
			}
		})
	}
}
