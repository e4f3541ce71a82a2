// Package trainjob is Berth's own expander of Kubeflow's TrainJobs (trainer.kubeflow.org/v1alpha1): a small stand-in for a controller that
// does not compile here. It makes the JobSet of a TrainJob from its runtime, as Kubeflow Trainer v2.3.0 does, for nodes that run PyTorch
// or anything else; what of a TrainJob it does not do, it says. It is pure; trainjob.go of the program carries it out.
package trainjob

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	// Group is that of its kinds.
	Group = "trainer.kubeflow.org"
	// step is the label of a replicated job that says which step of a TrainJob it is.
	step = Group + "/trainjob-ancestor-step"
	port = "29400"
	// Torch is the runtime that Kubeflow installs, and that is there without an object too.
	Torch = "torch-distributed"
)

// RuntimeOf is the kind and name of the runtime that the TrainJob names.
func RuntimeOf(job *unstructured.Unstructured) (kind, name string) {
	kind, _, _ = unstructured.NestedString(job.Object, "spec", "runtimeRef", "kind")
	name, _, _ = unstructured.NestedString(job.Object, "spec", "runtimeRef", "name")
	if kind == "" {
		kind = "ClusterTrainingRuntime"
	}
	return kind, name
}

// Builtin is the runtime of the name, nil for none.
func Builtin(name string) *unstructured.Unstructured {
	if name != Torch {
		return nil
	}
	return &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"mlPolicy": map[string]any{"numNodes": int64(1), "torch": map[string]any{}},
		"template": map[string]any{"spec": map[string]any{"replicatedJobs": []any{map[string]any{
			"name": "node",
			"template": map[string]any{
				"metadata": map[string]any{"labels": map[string]any{step: "trainer"}},
				"spec":     map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "node", "image": "pytorch/pytorch"}}}}},
			},
		}}}},
	}}}
}

// known are the fields of a TrainJob, and of its trainer, that have an effect.
var (
	known        = []string{"runtimeRef", "trainer", "suspend", "labels", "annotations"}
	knownTrainer = []string{"image", "command", "args", "env", "numNodes", "resourcesPerNode", "numProcPerNode"}
)

// Expand is the JobSet of the TrainJob, and the fields that have no effect. Neither object is written to.
func Expand(job, runtime *unstructured.Unstructured) (*unstructured.Unstructured, []string, error) {
	spec, _, _ := unstructured.NestedMap(job.Object, "spec")
	template, ok, _ := unstructured.NestedMap(runtime.Object, "spec", "template", "spec")
	if !ok {
		return nil, nil, errors.New("the runtime has no spec.template.spec")
	}
	trainer, _ := spec["trainer"].(map[string]any)
	untold := slices.Concat(unknown(spec, "spec", known), unknown(trainer, "spec.trainer", knownTrainer))
	nodes := number(trainer["numNodes"])
	if nodes == 0 {
		n, _, _ := unstructured.NestedInt64(runtime.Object, "spec", "mlPolicy", "numNodes")
		nodes = max(1, n)
	}
	if nodes > 10_000 {
		return nil, nil, fmt.Errorf("spec.trainer.numNodes is %d: want 1 to 10000", nodes)
	}
	_, torch, _ := unstructured.NestedFieldNoCopy(runtime.Object, "spec", "mlPolicy", "torch")
	found := false
	list, _ := template["replicatedJobs"].([]any)
	for _, item := range list {
		r, _ := item.(map[string]any)
		label, _, _ := unstructured.NestedString(r, "template", "metadata", "labels", step)
		if label != "trainer" {
			continue
		}
		found = true
		var env []any
		if torch {
			env = torchEnv(job.GetName(), fmt.Sprint(r["name"]), nodes, trainer)
		}
		if err := train(r, trainer, nodes, env); err != nil {
			return nil, nil, err
		}
	}
	if !found {
		return nil, nil, fmt.Errorf("no replicated job of the runtime has the label %s: trainer", step)
	}
	if s, ok := spec["suspend"].(bool); ok {
		template["suspend"] = s
	}
	yes := true
	out := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "spec": template}}
	out.SetNamespace(job.GetNamespace())
	out.SetName(job.GetName())
	out.SetLabels(texts(spec["labels"]))
	out.SetAnnotations(texts(spec["annotations"]))
	out.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: job.GetAPIVersion(), Kind: job.GetKind(), Name: job.GetName(), UID: job.GetUID(), Controller: &yes, BlockOwnerDeletion: &yes}})
	return out, untold, nil
}

// train gives the replicated job what the trainer says.
func train(r, trainer map[string]any, nodes int64, env []any) error {
	if err := errors.Join(
		unstructured.SetNestedField(r, nodes, "template", "spec", "parallelism"), unstructured.SetNestedField(r, nodes, "template", "spec", "completions"),
	); err != nil {
		return err
	}
	list, _, err := unstructured.NestedSlice(r, "template", "spec", "template", "spec", "containers")
	if err != nil || len(list) == 0 {
		return errors.New("the runtime's trainer has no containers")
	}
	at := slices.IndexFunc(list, func(c any) bool { m, _ := c.(map[string]any); return m["name"] == "node" })
	c, ok := list[max(at, 0)].(map[string]any)
	if !ok {
		return errors.New("the runtime's trainer has no containers")
	}
	for _, key := range []string{"image", "command", "args"} {
		if v := trainer[key]; v != nil {
			c[key] = v
		}
	}
	if v := trainer["resourcesPerNode"]; v != nil {
		c["resources"] = v
	}
	had, _ := c["env"].([]any)
	more, _ := trainer["env"].([]any)
	if all := slices.Concat(had, env, more); len(all) > 0 {
		c["env"] = all
	}
	return unstructured.SetNestedSlice(r, list, "template", "spec", "template", "spec", "containers")
}

// torchEnv is how torchrun finds the other nodes.
func torchEnv(job, role string, nodes int64, trainer map[string]any) []any {
	each := "auto"
	if v := trainer["numProcPerNode"]; v != nil {
		each = fmt.Sprint(v)
	}
	set := func(name, value string) any { return map[string]any{"name": name, "value": value} }
	return []any{
		set("PET_NNODES", strconv.FormatInt(nodes, 10)), set("PET_NPROC_PER_NODE", each),
		map[string]any{"name": "PET_NODE_RANK", "valueFrom": map[string]any{"fieldRef": map[string]any{"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}},
		set("PET_MASTER_ADDR", job+"-"+role+"-0-0."+job), set("PET_MASTER_PORT", port),
	}
}

func unknown(m map[string]any, at string, has []string) (out []string) {
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if !slices.Contains(has, key) {
			out = append(out, at+"."+key)
		}
	}
	return out
}

func number(v any) int64 {
	switch n := v.(type) {
	case int64:
		return n
	case float64:
		return int64(n)
	}
	return 0
}

func texts(v any) map[string]string {
	m, _ := v.(map[string]any)
	out := make(map[string]string, len(m))
	for key, value := range m {
		out[key] = fmt.Sprint(value)
	}
	return out
}

// Status is the TrainJob's, as its JobSet says: Complete, Failed or Suspended; nil: none of them yet.
func Status(set *unstructured.Unstructured) []any {
	list, _, _ := unstructured.NestedSlice(set.Object, "status", "conditions")
	var out []any
	for _, item := range list {
		c, _ := item.(map[string]any)
		name := map[string]string{"Completed": "Complete", "Failed": "Failed", "Suspended": "Suspended"}[fmt.Sprint(c["type"])]
		if name == "" || c["status"] != "True" {
			continue
		}
		out = append(out, map[string]any{"type": name, "status": "True", "reason": c["reason"], "message": c["message"], "lastTransitionTime": c["lastTransitionTime"]})
	}
	return out
}
