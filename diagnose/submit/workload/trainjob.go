package workload

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/utils/ptr"
)

// TrainJobs of Kubeflow Trainer (kubeflow/trainer v2.3, commit 8c0f5059, pkg/runtime/core/trainingruntime.go and the plugins below
// pkg/runtime/framework). A TrainJob is made into a JobSet from the template of its runtime: patched, with as many nodes, and with the
// resources of a node.
const (
	trainerGroup = "trainer.kubeflow.org"
	// trainerStep is the label of a replicated job that says which step of a TrainJob it is: trainer, or one that prepares.
	trainerStep = "trainer.kubeflow.org/trainjob-ancestor-step"
	stepTrainer = "trainer"
	// trainerNode is the container that trains, and with MPI the replicated job of the nodes too.
	trainerNode = "node"

	runtimeKind        = "TrainingRuntime"
	clusterRuntimeKind = "ClusterTrainingRuntime"
)

// RuntimeOf is the kind and name of the runtime that a TrainJob names; "": it is none.
func RuntimeOf(u *unstructured.Unstructured) (kind, name string) {
	if u.GetKind() != "TrainJob" || u.GroupVersionKind().Group != trainerGroup {
		return "", ""
	}
	kind, _, _ = unstructured.NestedString(u.Object, "spec", "runtimeRef", "kind")
	name, _, _ = unstructured.NestedString(u.Object, "spec", "runtimeRef", "name")
	return cmp.Or(kind, clusterRuntimeKind), name
}

// InstalledRuntime is the ClusterTrainingRuntime of the name as Kubeflow Trainer installs it (manifests/base/runtimes), in so far as it
// matters here; nil: it installs none of the name.
func InstalledRuntime(name string) *unstructured.Unstructured {
	container := map[string]any{"containers": []any{map[string]any{"name": trainerNode, "image": "runtime"}}}
	job := func(name string, labels map[string]any, more map[string]any) map[string]any {
		out := map[string]any{"name": name, "template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": map[string]any{"template": map[string]any{"spec": container}}}}
		maps.Copy(out, more)
		return out
	}
	trains := map[string]any{trainerStep: stepTrainer}
	policy, jobs := map[string]any{"numNodes": int64(1)}, []any{job(trainerNode, trains, nil)}
	switch name {
	case "torch-distributed", "jax-distributed", "xgboost-distributed":
	case "deepspeed-distributed", "mlx-distributed":
		policy["mpi"] = map[string]any{"runLauncherAsNode": true}
		after := map[string]any{"dependsOn": []any{map[string]any{"name": trainerNode, "status": "Ready"}}}
		jobs = []any{job(trainerNode, nil, nil), job("launcher", trains, after)}
	default:
		return nil
	}
	out := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": trainerGroup + "/v1alpha1", "kind": clusterRuntimeKind, "metadata": map[string]any{"name": name},
		"spec": map[string]any{"mlPolicy": policy, "template": map[string]any{"spec": map[string]any{"replicatedJobs": jobs}}},
	}}
	return out.DeepCopy()
}

// jobSetTemplate is a JobSet's metadata and spec, as a runtime has them and a patch of one.
type jobSetTemplate struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     map[string]any    `json:"spec"`
}

// trainingRuntime is what matters here of the spec of a TrainingRuntime.
type trainingRuntime struct {
	Policy *struct {
		Nodes *int32 `json:"numNodes"`
		MPI   *struct {
			LauncherIsNode bool `json:"runLauncherAsNode"`
		} `json:"mpi"`
	} `json:"mlPolicy"`
	Groups struct {
		Coscheduling *struct {
			Timeout *int64 `json:"scheduleTimeoutSeconds"`
		} `json:"coscheduling"`
		Volcano *struct {
			Topology map[string]any `json:"networkTopology"`
		} `json:"volcano"`
	} `json:"podGroupPolicy"`
	Template jobSetTemplate `json:"template"`
}

// trainJobSpec is what matters here of the spec of a TrainJob.
type trainJobSpec struct {
	Suspend bool `json:"suspend"`
	Trainer struct {
		Nodes     *int32                       `json:"numNodes"`
		Image     string                       `json:"image"`
		Resources *corev1.ResourceRequirements `json:"resourcesPerNode"`
	} `json:"trainer"`
	Labels      map[string]string `json:"labels"` // of the JobSet, before v2.3
	Annotations map[string]string `json:"annotations"`
	Patches     []struct {
		Runtime struct {
			Template jobSetTemplate `json:"template"`
		} `json:"trainingRuntimeSpec"`
	} `json:"runtimePatches"`
	// Overrides are what patches were called in earlier versions.
	Overrides []struct {
		Targets []struct {
			Name string `json:"name"`
		} `json:"targetJobs"`
		Metadata map[string]any `json:"metadata"`
		Spec     map[string]any `json:"spec"`
	} `json:"podTemplateOverrides"`
}

// trainJob makes the pods of the JobSet that a TrainJob becomes, and the PodGroup that its runtime has for them. Without its runtime it
// makes none.
func (m *maker) trainJob(w *Workload, u *unstructured.Unstructured) error {
	kind, name := RuntimeOf(u)
	from := (*unstructured.Unstructured)(nil)
	if m.runtime != nil {
		from = m.runtime(kind, u.GetNamespace(), name)
	}
	if from == nil {
		return nil
	}
	var rt trainingRuntime
	if err := decode(from.Object["spec"], &rt); err != nil {
		return fmt.Errorf("%s %s: spec: %w", kind, name, err)
	}
	if rt.Template.Spec == nil {
		return fmt.Errorf("%s %s has no spec.template.spec", kind, name)
	}
	var job trainJobSpec
	if err := decode(u.Object["spec"], &job); err != nil {
		return fmt.Errorf("spec: %w", err)
	}
	set := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "spec": rt.Template.Spec}}
	m.below(set, u, u.GetName())
	labels, annotations := maps.Clone(rt.Template.Metadata.Labels), maps.Clone(rt.Template.Metadata.Annotations)
	add := func(to *map[string]string, keys map[string]string) {
		if *to == nil {
			*to = make(map[string]string)
		}
		maps.Copy(*to, keys)
	}
	for _, p := range job.Patches {
		add(&labels, p.Runtime.Template.Metadata.Labels)
		add(&annotations, p.Runtime.Template.Metadata.Annotations)
	}
	queue := annotations["scheduling.volcano.sh/queue-name"]
	for _, keys := range []map[string]string{job.Labels, u.GetLabels()} { // the TrainJob's own count for its pods, as those of any controller above
		add(&labels, keys)
	}
	for _, keys := range []map[string]string{job.Annotations, u.GetAnnotations()} {
		add(&annotations, keys)
	}
	set.SetLabels(labels)
	set.SetAnnotations(annotations)
	if job.Suspend {
		_ = unstructured.SetNestedField(set.Object, true, "spec", "suspend") // an object by now: it was decoded as one
	}
	total, class, err := job.expand(&rt, set, u.GetName())
	if err != nil {
		return err
	}
	if total == 0 {
		return nil
	}
	if err := m.jobSet(w, set); err != nil {
		return fmt.Errorf("%s %s: %w", kind, name, err)
	}
	for i := range w.Parts {
		w.Parts[i].Template, w.Parts[i].Made = "/spec", true
	}
	if g := rt.podGroup(total, queue, class); g != nil {
		g.SetNamespace(u.GetNamespace())
		g.SetName(u.GetName())
		g.SetUID(m.next())
		w.Also = append(w.Also, g)
	}
	return nil
}

// expand changes the JobSet's replicated jobs as the TrainJob says. total is how many pods they have, class their last priority class.
func (j *trainJobSpec) expand(rt *trainingRuntime, set *unstructured.Unstructured, called string) (total int, class string, err error) {
	const at = "spec.replicatedJobs of its runtime"
	list, _, err := unstructured.NestedSlice(set.Object, "spec", "replicatedJobs")
	if err != nil {
		return 0, "", fmt.Errorf("%s is no list", at)
	}
	byName := make(map[string]*batchv1.JobTemplateSpec)
	templates := make([]*batchv1.JobTemplateSpec, len(list))
	names := make([]string, len(list))
	for i, item := range list {
		r, ok := item.(map[string]any)
		if !ok {
			return 0, "", fmt.Errorf("%s[%d] is no object", at, i)
		}
		names[i], _ = r["name"].(string)
		templates[i] = &batchv1.JobTemplateSpec{}
		if err := decode(r["template"], templates[i]); err != nil {
			return 0, "", fmt.Errorf("%s[%d].template: %w", at, i, err)
		}
		byName[names[i]] = templates[i]
	}
	if err := j.patch(byName); err != nil {
		return 0, "", err
	}
	for i, t := range templates {
		n, trains := rt.nodes(j, names[i], t)
		t.Spec.Parallelism, t.Spec.Completions = &n, &n
		if trains {
			j.train(t)
		}
		if t.Spec.Template.Spec.PriorityClassName != "" {
			class = t.Spec.Template.Spec.PriorityClassName
		}
		rt.mark(&t.Spec.Template.ObjectMeta, called)
		r := list[i].(map[string]any)
		if t.Labels[trainerStep] != "" { // several replicas are not made of a step
			r["replicas"] = int64(1)
		}
		replicas := 1
		if k, ok := number(r["replicas"]); ok {
			replicas = k
		}
		total += times(replicas, max(0, int(n)))
		var tree map[string]any
		if err := decode(t, &tree); err != nil {
			return 0, "", err
		}
		r["template"] = tree
	}
	return total, class, unstructured.SetNestedSlice(set.Object, list, "spec", "replicatedJobs")
}

// patch changes the templates, by replicated job. A patch of one that the runtime does not have is refused.
func (j *trainJobSpec) patch(templates map[string]*batchv1.JobTemplateSpec) error {
	for _, p := range j.Patches {
		list, _ := p.Runtime.Template.Spec["replicatedJobs"].([]any)
		for _, item := range list {
			r, _ := item.(map[string]any)
			name, _ := r["name"].(string)
			if err := merge(templates, "spec.runtimePatches", name, r["template"]); err != nil {
				return err
			}
		}
	}
	for _, o := range j.Overrides {
		for _, target := range o.Targets {
			pod := map[string]any{"metadata": o.Metadata, "spec": o.Spec}
			maps.DeleteFunc(pod, func(_ string, v any) bool { return len(v.(map[string]any)) == 0 })
			if err := merge(templates, "spec.podTemplateOverrides", target.Name, map[string]any{"spec": map[string]any{"template": pod}}); err != nil {
				return err
			}
		}
	}
	return nil
}

// merge merges the patch into the template of the name.
func merge(templates map[string]*batchv1.JobTemplateSpec, at, name string, patch any) error {
	t := templates[name]
	if t == nil {
		return fmt.Errorf("%s: the runtime has no replicated job %s", at, name)
	}
	if patch == nil {
		return nil
	}
	was, err := json.Marshal(t)
	if err != nil {
		return err
	}
	with, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	is, err := strategicpatch.StrategicMergePatch(was, with, batchv1.JobTemplateSpec{})
	if err != nil {
		return fmt.Errorf("%s: replicated job %s: %w", at, name, err)
	}
	out := batchv1.JobTemplateSpec{}
	if err := json.Unmarshal(is, &out); err != nil {
		return fmt.Errorf("%s: replicated job %s: %w", at, name, wrong(err))
	}
	*t = out
	return nil
}

// nodes is how many pods the replicated job has, and whether they train. With MPI it is the nodes that the TrainJob counts, of which the
// launcher may be one.
func (rt *trainingRuntime) nodes(j *trainJobSpec, name string, t *batchv1.JobTemplateSpec) (n int32, trains bool) {
	n = ptr.Deref(t.Spec.Parallelism, 1)
	step := t.Labels[trainerStep] == stepTrainer
	if step && rt.Policy != nil {
		n = ptr.Deref(rt.Policy.Nodes, 1)
	}
	wanted := j.Trainer.Nodes
	if rt.Policy == nil || rt.Policy.MPI == nil {
		if step && wanted != nil {
			n = *wanted
		}
		return n, step
	}
	if name == trainerNode && wanted != nil {
		if n = *wanted; rt.Policy.MPI.LauncherIsNode {
			n = max(n-1, 1)
		}
	}
	return n, step || name == trainerNode && rt.Policy.MPI.LauncherIsNode
}

// train gives the container that trains the image and, beside those of the runtime, the resources of the TrainJob.
func (j *trainJobSpec) train(t *batchv1.JobTemplateSpec) {
	list := t.Spec.Template.Spec.Containers
	i := slices.IndexFunc(list, func(c corev1.Container) bool { return c.Name == trainerNode })
	if i < 0 {
		return
	}
	if list[i].Image = cmp.Or(j.Trainer.Image, list[i].Image); j.Trainer.Resources == nil {
		return
	}
	has := &list[i].Resources
	for _, of := range []struct {
		to   *corev1.ResourceList
		from corev1.ResourceList
	}{{&has.Requests, j.Trainer.Resources.Requests}, {&has.Limits, j.Trainer.Resources.Limits}} {
		if *of.to == nil {
			*of.to = make(corev1.ResourceList)
		}
		maps.Copy(*of.to, of.from)
	}
}

// mark gives the pods what says which PodGroup of the runtime's policy they are in.
func (rt *trainingRuntime) mark(o *metav1.ObjectMeta, group string) {
	switch {
	case rt.Groups.Coscheduling != nil:
		metav1.SetMetaDataLabel(o, "scheduling.x-k8s.io/pod-group", group)
	case rt.Groups.Volcano != nil:
		metav1.SetMetaDataAnnotation(o, "scheduling.k8s.io/group-name", group)
	}
}

// podGroup is the PodGroup of the runtime's policy; nil: it has none.
func (rt *trainingRuntime) podGroup(pods int, queue, class string) *unstructured.Unstructured {
	spec := map[string]any{"minMember": int64(pods)}
	version := "scheduling.x-k8s.io/v1alpha1"
	switch {
	case rt.Groups.Coscheduling != nil:
		spec["scheduleTimeoutSeconds"] = ptr.Deref(rt.Groups.Coscheduling.Timeout, 60)
	case rt.Groups.Volcano != nil:
		version = "scheduling.volcano.sh/v1beta1"
		for key, value := range map[string]string{"queue": queue, "priorityClassName": class} { //archtest:any-order each has its own key
			if value != "" {
				spec[key] = value
			}
		}
		if rt.Groups.Volcano.Topology != nil {
			spec["networkTopology"] = rt.Groups.Volcano.Topology
		}
	default:
		return nil
	}
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": version, "kind": "PodGroup", "spec": spec}}
}
