package submit

import (
	"strings"
	"testing"
)

// A resource without an amount is one that nobody gets, and a set without templates one that no API server takes.
func TestUnfinishedManifests(t *testing.T) {
	const container = "{name: c, image: registry.example/c:1, resources: {limits: {nvidia.com/gpu: }}}"
	for object, want := range map[string]string{
		"apiVersion: v1\nkind: Pod\nmetadata: {name: w}\nspec: {containers: [" + container + "]}":                                                                                       "without effect: pod/w: spec.containers[0].resources.limits.nvidia.com/gpu (it has no value: none is asked for)",
		"apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: w}\nspec: {pytorchReplicaSpecs: {Worker: {replicas: 1, template: {spec: {containers: [" + container + "]}}}}}": "without effect: pytorchjob/w: spec.pytorchReplicaSpecs.Worker.template.spec.containers[0].resources.limits.nvidia.com/gpu (it has no value: none is asked for)",
	} {
		r := Check(World{Facts: clusterOf(1, 0), Bare: true}, "default", items(t, object))
		if got := strings.Join(told(&r), "; "); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	w := Check(World{Facts: clusterOf(1, 0), Bare: true}, "default", items(t, "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: w}\nspec: {replicatedJobs: [{name: a}, {name: b, dependsOn: [{name: a}]}]}")).Workloads[0]
	if w.Verdict != Never || !strings.Contains(w.Summary, "containers: there are none") {
		t.Errorf("%s: %s", w.Verdict, w.Summary)
	}
}

// A pod that is written out in another object is no template: that it is a Pod has an effect. What pods do not have is still told.
func TestPodsInAppWrappers(t *testing.T) {
	const wrapped = "apiVersion: workload.codeflare.dev/v1beta2\nkind: AppWrapper\nmetadata: {name: w}\nspec: {components: [{template: {apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {FIELD containers: [{name: c, image: registry.example/c:1}]}}}]}"
	for field, want := range map[string]string{
		"":                  "",
		"priorityClass: x,": "without effect: appwrapper/w: spec.components.0.template.spec.priorityClass (there is no such field)",
	} {
		r := Check(World{Facts: clusterOf(1, 0), Bare: true}, "default", items(t, strings.ReplaceAll(wrapped, "FIELD", field)))
		if got := strings.Join(told(&r), "; "); got != want {
			t.Errorf("with %q: %q, want %q", field, got, want)
		}
	}
}
