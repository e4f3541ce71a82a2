package workload

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/kube/dialect/controllers"
)

// Labels that KubeRay writes on pods (v1.6.0, ray-operator/controllers/ray/utils/constant.go:19-21), by which the scheduler knows who
// starts together.
const (
	rayNodeType = "ray.io/node-type"
	rayGroup    = "ray.io/group"
	rayHead     = "headgroup"
)

// rayGroupSpec is what matters here of a group of a RayCluster.
type rayGroupSpec struct {
	Name     string                 `json:"groupName"`
	Template corev1.PodTemplateSpec `json:"template"`
}

// raySpec is what matters here of the spec of a RayCluster. How many workers a group has, kube/dialect/controllers says.
type raySpec struct {
	Autoscaling bool `json:"enableInTreeAutoscaling"`
	Autoscaler  struct {
		Resources *corev1.ResourceRequirements `json:"resources"`
	} `json:"autoscalerOptions"`
	Head    rayGroupSpec   `json:"headGroupSpec"`
	Workers []rayGroupSpec `json:"workerGroupSpecs"`
}

func (m *maker) rayCluster(w *Workload, u *unstructured.Unstructured) error {
	return m.rayPods(w, u, u, u.Object["spec"], "/spec", false)
}

func (m *maker) rayService(w *Workload, u *unstructured.Unstructured) error {
	spec, _, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "rayClusterConfig")
	return m.rayPods(w, u, m.rayClusterOf(w, u, spec), spec, "/spec/rayClusterConfig", false)
}

// rayJob is the cluster that a RayJob makes, unless it names one that is there, and the pod that submits it
// (ray-operator/controllers/ray/rayjob_controller.go; GetSubmitterTemplate of common/job.go).
func (m *maker) rayJob(w *Workload, u *unstructured.Unstructured) error {
	return m.rayJobOf(w, u, u.Object["spec"], "/spec")
}

// rayCronJob is what its next RayJob makes (ray-operator/controllers/ray/raycronjob_controller.go).
func (m *maker) rayCronJob(w *Workload, u *unstructured.Unstructured) error {
	template, _, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "jobTemplate")
	return m.rayJobOf(w, u, template, "/spec/jobTemplate")
}

// rayJobOf makes the pods of a RayJob whose spec is at the path in the object u.
func (m *maker) rayJobOf(w *Workload, u *unstructured.Unstructured, from any, at string) error {
	var spec struct {
		Mode      string                  `json:"submissionMode"`
		Selector  map[string]string       `json:"clusterSelector"`
		Submitter *corev1.PodTemplateSpec `json:"submitterPodTemplate"`
	}
	if err := decode(from, &spec); err != nil {
		return fmt.Errorf("%s: %w", dotted(at), err)
	}
	if len(spec.Selector) == 0 {
		of, _ := from.(map[string]any)
		cluster := of["rayClusterSpec"]
		if err := m.rayPods(w, u, m.rayClusterOf(w, u, cluster), cluster, at+"/rayClusterSpec", spec.Mode == "SidecarMode"); err != nil {
			return err
		}
		if len(w.Parts) == 0 {
			return nil
		}
	}
	if spec.Mode != "" && spec.Mode != "K8sJobMode" {
		return nil
	}
	t, path := spec.Submitter, at+"/submitterPodTemplate"
	if t == nil {
		t, path = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{raySubmitter()}}}, at
	}
	if len(t.Spec.Containers) == 0 {
		return nil
	}
	p := m.standIn(u, "submitter", path, t, 1)
	p.Made = spec.Submitter == nil
	w.add(p)
	return nil
}

// raySubmitter is the container that submits a job where the manifest has none.
func raySubmitter() corev1.Container {
	return corev1.Container{Name: "ray-job-submitter", Image: "ray", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("200Mi")},
		Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi")},
	}}
}

// rayAutoscaler is the container that KubeRay puts beside the head of a cluster with autoscaling (BuildAutoscalerContainer of common/pod.go).
func rayAutoscaler(own *corev1.ResourceRequirements) corev1.Container {
	c := corev1.Container{Name: "autoscaler", Image: "ray"}
	if own != nil {
		c.Resources = *own.DeepCopy()
		return c
	}
	amounts := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("512Mi")}
	c.Resources = corev1.ResourceRequirements{Requests: amounts, Limits: amounts.DeepCopy()}
	return c
}

// rayClusterOf is the RayCluster that a RayJob or a RayService makes, with its labels and annotations.
func (m *maker) rayClusterOf(w *Workload, u *unstructured.Unstructured, spec any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "ray.io/v1", "kind": "RayCluster", "spec": spec}}
	m.below(o, u, u.GetName()+"-xxxxx")
	o.SetLabels(u.GetLabels())
	o.SetAnnotations(u.GetAnnotations())
	w.Also = append(w.Also, o)
	return o
}

// rayPods makes the pods of a cluster whose spec is at the path in the object u. submits says that the head's pod submits a job too.
// Of a spec without any pod template nothing is made.
func (m *maker) rayPods(w *Workload, u, cluster *unstructured.Unstructured, from any, path string, submits bool) error {
	var spec raySpec
	if err := decode(from, &spec); err != nil {
		return fmt.Errorf("%s: %w", dotted(path), err)
	}
	wanted := make(map[string]int)
	read := controllers.New().Read(cluster, nil)
	if read.Problem != "" {
		return fmt.Errorf("%s", read.Problem)
	}
	for _, p := range read.Value.(*controllers.Set).Parts {
		wanted[p.Role] = p.Pods
	}
	head := &spec.Head.Template.Spec
	if spec.Autoscaling && len(head.Containers) > 0 {
		head.Containers = append(head.Containers, rayAutoscaler(spec.Autoscaler.Resources))
	}
	if submits && len(head.Containers) > 0 {
		head.Containers = append(head.Containers, raySubmitter())
	}
	missing := ""
	add := func(name, role, group, at string, t *corev1.PodTemplateSpec) {
		if len(t.Spec.Containers) == 0 {
			missing = at
			return
		}
		if t.Labels == nil {
			t.Labels = make(map[string]string)
		}
		t.Labels[facts.CrewLabels["ray.io"]], t.Labels[rayNodeType], t.Labels[rayGroup] = cluster.GetName(), role, group
		w.add(m.standIn(u, name, at, t, wanted[group]))
	}
	add("headGroupSpec", "head", rayHead, path+"/headGroupSpec/template", &spec.Head.Template)
	for i := range spec.Workers {
		g := &spec.Workers[i]
		add(g.Name, "worker", g.Name, fmt.Sprintf("%s/workerGroupSpecs/%d/template", path, i), &g.Template)
	}
	if missing != "" && len(w.Parts) > 0 {
		return fmt.Errorf("%s has no containers", dotted(missing))
	}
	return nil
}
