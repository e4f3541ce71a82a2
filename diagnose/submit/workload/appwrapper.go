package workload

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/kube/dialect/controllers"
)

const (
	appWrapperGroup = "workload.codeflare.dev"
	appWrapperKind  = "AppWrapper"
	// mostPodSets is how many sets of pods its webhook allows, as Kueue does.
	mostPodSets = 8
)

// appWrapperSpec is what matters here of the spec of an AppWrapper.
type appWrapperSpec struct {
	Components []struct {
		PodSets  []podSet       `json:"podSets"`
		Infos    []podSetInfo   `json:"podSetInfos"`
		Template map[string]any `json:"template"`
	} `json:"components"`
}

// podSet is pods that an author declares to be in an object.
type podSet struct {
	Path     string `json:"path"`
	Replicas *int32 `json:"replicas"`
}

// podSetInfo is what is added to the pods of a set.
type podSetInfo struct {
	Labels          map[string]string          `json:"labels"`
	Annotations     map[string]string          `json:"annotations"`
	NodeSelector    map[string]string          `json:"nodeSelector"`
	Tolerations     []corev1.Toleration        `json:"tolerations"`
	SchedulingGates []corev1.PodSchedulingGate `json:"schedulingGates"`
}

// appWrapper makes the objects in an AppWrapper, and their pods, as their own controllers would (project-codeflare/appwrapper, commit b47a99ec,
// internal/controller/appwrapper/resource_management.go, and its webhook for what it refuses). Which of the pods start together
// kube/dialect/controllers says.
func (m *maker) appWrapper(w *Workload, u *unstructured.Unstructured) error {
	var spec appWrapperSpec
	if err := decode(u.Object["spec"], &spec); err != nil {
		return fmt.Errorf("spec: %w", err)
	}
	sets := 0
	for i := range spec.Components {
		c := &spec.Components[i]
		at := fmt.Sprintf("spec.components[%d]", i)
		in := &unstructured.Unstructured{Object: c.Template}
		paths := setsIn(in)
		if len(c.PodSets) > 0 {
			if len(paths) > 0 && len(paths) != len(c.PodSets) {
				return fmt.Errorf("%s.podSets: there are %d, and the %s has %d: its webhook refuses it", at, len(c.PodSets), in.GetKind(), len(paths))
			}
			paths = nil
			for _, s := range c.PodSets {
				paths = append(paths, s.Path)
			}
		}
		sets += len(paths)
		if err := refusedComponent(u, in); err != nil {
			return fmt.Errorf("%s.template: %w", at, err)
		}
		for k, path := range paths {
			info := &podSetInfo{}
			if k < len(c.Infos) {
				info = &c.Infos[k]
			}
			if err := info.inject(in.Object, path, u.GetName()); err != nil {
				return fmt.Errorf("%s.podSets[%d].path: %w", at, k, err)
			}
		}
		if err := m.component(w, u, in, c.PodSets, at, fmt.Sprintf("/spec/components/%d/template", i)); err != nil {
			return err
		}
	}
	switch {
	case len(spec.Components) > 0 && sets == 0:
		return errors.New("spec.components: nothing in it has pods that its controller knows of; name them in podSets: its webhook refuses it")
	case sets > mostPodSets:
		return fmt.Errorf("spec.components: they have %d sets of pods, and %d are allowed: its webhook refuses it", sets, mostPodSets)
	}
	return nil
}

func refusedComponent(u, in *unstructured.Unstructured) error {
	switch {
	case in.GetKind() == "" || in.GetAPIVersion() == "":
		return errors.New("it is no object with apiVersion and kind")
	case in.GetKind() == appWrapperKind && in.GroupVersionKind().Group == appWrapperGroup:
		return errors.New("an AppWrapper in another is not allowed")
	case in.GetNamespace() != "" && in.GetNamespace() != u.GetNamespace():
		return fmt.Errorf("metadata.namespace is %s, and that of the AppWrapper %s: its webhook refuses it", in.GetNamespace(), u.GetNamespace())
	}
	return nil
}

// component makes one of the objects, which is at the path in the AppWrapper. Of a kind that is not known here it has the pods that are declared.
func (m *maker) component(w *Workload, u, in *unstructured.Unstructured, declared []podSet, at, path string) error {
	labels := in.GetLabels()
	if labels == nil {
		labels = make(map[string]string)
	}
	labels[controllers.AppWrapperLabel] = u.GetName()
	in.SetLabels(labels)
	typed, err := Typed(in, u.GetNamespace())
	if err == nil {
		err = firstOf(InvalidMeta(typed), invalid(typed))
	}
	if err != nil {
		return fmt.Errorf("%s.template: %w", at, err)
	}
	m.below(typed, u, typed.GetName())
	inner := &Workload{Ref: facts.RefTo(typed), Object: typed}
	if err := m.make(inner, typed); err != nil {
		return fmt.Errorf("%s.template: %w", at, err)
	}
	if of, ok := typed.(*unstructured.Unstructured); ok && len(declared) > 0 && (inner.Guess != "" || len(inner.Parts) == 0) {
		inner.Parts, inner.Guess = nil, ""
		for i, s := range declared {
			part, err := m.declared(of, i, s)
			if err != nil {
				return fmt.Errorf("%s.podSets[%d]: %w", at, i, err)
			}
			inner.add(part)
		}
	}
	if claim, ok := typed.(*corev1.PersistentVolumeClaim); ok {
		claim.Status.Phase = corev1.ClaimPending
	}
	for _, p := range inner.Parts {
		p.Template = path + p.Template
		if p.Name = strings.TrimSuffix(typed.GetName()+"/"+p.Name, "/"); p.Above == nil {
			p.Above = u
		}
		if suspended(u) {
			p.Wanted, p.Pods = 0, nil
		}
		for _, pod := range p.Pods {
			if len(pod.OwnerReferences) == 0 {
				pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(u, kindOf(u))}
			}
		}
		w.add(p)
	}
	if _, pod := typed.(*corev1.Pod); !pod {
		w.Also = append(w.Also, typed)
	}
	w.Also = append(w.Also, inner.Also...)
	w.shared = append(w.shared, inner.Claims()...)
	w.Vain = append(w.Vain, inner.Vain...)
	if inner.Guess != "" {
		w.Guess = inner.Guess
	}
	return nil
}

// declared makes the pods of a set, whose path leads to a pod template.
func (m *maker) declared(of *unstructured.Unstructured, i int, s podSet) (Part, error) {
	v, err := valueAt(of.Object, s.Path)
	if err != nil {
		return Part{}, err
	}
	var t corev1.PodTemplateSpec
	if err := decode(v, &t); err != nil {
		return Part{}, err
	}
	path := strings.NewReplacer(".", "/", "[", "/", "]", "").Replace(strings.TrimPrefix(s.Path, "template"))
	return m.standIn(of, fmt.Sprintf("set-%d", i), path, &t, atLeast(s.Replicas, 0)), nil
}

// setsIn are the paths of the pod templates that the AppWrapper's controller finds by itself, in kinds that it knows.
func setsIn(u *unstructured.Unstructured) (out []string) {
	has := func(path string) {
		if _, err := valueAt(u.Object, path); err == nil {
			out = append(out, path)
		}
	}
	each := func(list, field string) {
		v, _ := valueAt(u.Object, list)
		items, _ := v.([]any)
		for i := range items {
			has(fmt.Sprintf("%s[%d].%s", list, i, field))
		}
	}
	switch u.GetAPIVersion() + " " + u.GetKind() {
	case "v1 Pod":
		has("template")
	case "apps/v1 Deployment", "apps/v1 StatefulSet", "batch/v1 Job":
		has("template.spec.template")
	case "jobset.x-k8s.io/v1alpha2 JobSet":
		each("template.spec.replicatedJobs", "template.spec.template")
	case "kubeflow.org/v1 PyTorchJob":
		has("template.spec.pytorchReplicaSpecs.Master.template")
		has("template.spec.pytorchReplicaSpecs.Worker.template")
	case "ray.io/v1 RayCluster":
		has("template.spec.headGroupSpec.template")
		each("template.spec.workerGroupSpecs", "template")
	case "ray.io/v1 RayJob":
		has("template.spec.rayClusterSpec.headGroupSpec.template")
		each("template.spec.rayClusterSpec.workerGroupSpecs", "template")
	}
	return out
}

// valueAt is the value at a path such as template.spec.replicatedJobs[0].template, whose first word is the object.
func valueAt(object map[string]any, path string) (any, error) {
	rest, ok := strings.CutPrefix(path, "template")
	if !ok || rest != "" && rest[0] != '.' && rest[0] != '[' {
		return nil, fmt.Errorf("%q does not begin with template", path)
	}
	var at any = object
	for _, step := range strings.FieldsFunc(strings.ReplaceAll(rest, "[", ".["), func(r rune) bool { return r == '.' }) {
		if index, is := strings.CutPrefix(step, "["); is {
			list, _ := at.([]any)
			i, err := strconv.Atoi(strings.TrimSuffix(index, "]"))
			if err != nil || i < 0 || i >= len(list) {
				return nil, fmt.Errorf("%q leads nowhere at %s", path, step)
			}
			at = list[i]
			continue
		}
		of, _ := at.(map[string]any)
		if at, ok = of[step]; !ok {
			return nil, fmt.Errorf("%q leads nowhere at %s", path, step)
		}
	}
	return at, nil
}

// inject adds what the set's pods get to the template at the path.
func (i *podSetInfo) inject(object map[string]any, path, name string) error {
	v, err := valueAt(object, path)
	if err != nil {
		return err
	}
	template, _ := v.(map[string]any)
	spec, ok := template["spec"].(map[string]any)
	if !ok {
		return fmt.Errorf("%q is no pod template", path)
	}
	metadata, _ := template["metadata"].(map[string]any)
	if metadata == nil {
		metadata = make(map[string]any)
		template["metadata"] = metadata
	}
	labels := maps.Clone(i.Labels)
	if labels == nil {
		labels = make(map[string]string)
	}
	labels[controllers.AppWrapperLabel] = name
	addKeys(metadata, "labels", labels)
	addKeys(metadata, "annotations", i.Annotations)
	addKeys(spec, "nodeSelector", i.NodeSelector)
	for _, more := range []struct {
		field string
		of    any
		n     int
	}{{"tolerations", i.Tolerations, len(i.Tolerations)}, {"schedulingGates", i.SchedulingGates, len(i.SchedulingGates)}} {
		if more.n == 0 {
			continue
		}
		var list []any
		if err := decode(more.of, &list); err != nil {
			return err
		}
		had, _ := spec[more.field].([]any)
		spec[more.field] = append(had, list...)
	}
	return nil
}

// addKeys adds keys that the field of the object does not have.
func addKeys(object map[string]any, field string, more map[string]string) {
	if len(more) == 0 {
		return
	}
	has, _ := object[field].(map[string]any)
	if has == nil {
		has = make(map[string]any)
		object[field] = has
	}
	for key, value := range more { //archtest:any-order each has its own key
		if _, ok := has[key]; !ok {
			has[key] = value
		}
	}
}
