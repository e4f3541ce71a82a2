package workload

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// volcanoScheduler is who schedules pods of Volcano's Jobs that name nobody.
const volcanoScheduler = "volcano"

// volcanoTask is what matters here of a task of a Job of Volcano.
type volcanoTask struct {
	Name         string                 `json:"name"`
	Replicas     int32                  `json:"replicas"`
	MinAvailable *int32                 `json:"minAvailable"`
	Template     corev1.PodTemplateSpec `json:"template"`
	DependsOn    struct {
		Name []string `json:"name"`
	} `json:"dependsOn"`
}

// volcanoJob makes the pods of a Job of Volcano, and the PodGroup that its controller makes for them, with the defaults of its webhook
// (volcano v1.15, pkg/webhooks/admission/jobs/mutate and pkg/controllers/job). above is the object that was given, at whose path the Job's
// spec is: the Job itself, or the CronJob that makes it.
func (m *maker) volcanoJob(w *Workload, above, u *unstructured.Unstructured, at string) error {
	var spec struct {
		SchedulerName     string         `json:"schedulerName"`
		Queue             string         `json:"queue"`
		MinAvailable      int32          `json:"minAvailable"`
		PriorityClassName string         `json:"priorityClassName"`
		NetworkTopology   map[string]any `json:"networkTopology"`
		Tasks             []volcanoTask  `json:"tasks"`
	}
	if _, ok := u.Object["spec"].(map[string]any); !ok {
		return errors.New("spec is no object")
	}
	if err := decode(u.Object["spec"], &spec); err != nil {
		return fmt.Errorf("spec: %w", err)
	}
	var first, least int32
	tasks := make(map[string]any)
	for i := range spec.Tasks {
		t := &spec.Tasks[i]
		t.Name = cmp.Or(t.Name, "default"+strconv.Itoa(i))
		if t.MinAvailable == nil {
			t.MinAvailable = &t.Replicas
		}
		if least += *t.MinAvailable; len(t.DependsOn.Name) == 0 {
			first += t.Replicas
			tasks[t.Name] = int64(*t.MinAvailable)
		}
		n := int(t.Replicas)
		if suspended(above) {
			n = 0
		}
		w.add(m.volcanoPods(above, u, t, fmt.Sprintf("%s/tasks/%d/template", at, i), n, cmp.Or(spec.SchedulerName, volcanoScheduler)))
	}
	member := cmp.Or(spec.MinAvailable, least)
	group := map[string]any{"queue": cmp.Or(spec.Queue, "default")}
	if len(spec.Tasks) > 1 && least <= member && len(tasks) > 0 {
		group["minTaskMember"] = tasks
	}
	if first > 0 { // pods of tasks that wait for others are not there when the group starts
		member = min(member, first)
	}
	group["minMember"] = int64(member)
	if spec.PriorityClassName != "" {
		group["priorityClassName"] = spec.PriorityClassName
	}
	if spec.NetworkTopology != nil {
		group["networkTopology"] = spec.NetworkTopology
	}
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "spec": group}}
	o.SetNamespace(u.GetNamespace())
	o.SetName(u.GetName())
	o.SetUID(m.next())
	if len(w.Parts) > 0 {
		w.Also = append(w.Also, o)
	}
	return nil
}

// volcanoCronJob is what the next Job of a CronJob of Volcano makes (volcano v1.15, pkg/controllers/cronjob).
func (m *maker) volcanoCronJob(w *Workload, u *unstructured.Unstructured) error {
	template, ok, err := unstructured.NestedMap(u.Object, "spec", "jobTemplate")
	if err != nil || !ok {
		return errors.New("spec.jobTemplate is no object")
	}
	job := &unstructured.Unstructured{Object: template}
	job.SetNamespace(u.GetNamespace())
	job.SetName(u.GetName() + "-next")
	return m.volcanoJob(w, u, job, "/spec/jobTemplate/spec")
}

// volcanoPods makes the pods of a task.
func (m *maker) volcanoPods(above, u *unstructured.Unstructured, task *volcanoTask, template string, n int, scheduler string) Part {
	t := task.Template.DeepCopy()
	t.Spec.SchedulerName = cmp.Or(t.Spec.SchedulerName, scheduler)
	if t.Labels == nil {
		t.Labels = make(map[string]string)
	}
	if t.Annotations == nil {
		t.Annotations = make(map[string]string)
	}
	for _, from := range []map[string]string{u.GetLabels(), u.GetAnnotations()} { // which are passed on
		maps.Copy(t.Annotations, volcanoKeys(from))
	}
	t.Labels[crewLabels["batch.volcano.sh"]] = u.GetName()
	t.Annotations["scheduling.volcano.sh/group-name"] = u.GetName()
	t.Annotations["volcano.sh/task-spec"] = task.Name
	called := u.GetName() + "-" + strings.ToLower(task.Name)
	return m.replicaSet(task.Name, above, called, template, t, n)
}

// volcanoKeys are the keys of Volcano's own.
func volcanoKeys(keys map[string]string) map[string]string {
	out := make(map[string]string)
	for key, value := range keys { //archtest:any-order each has its own key
		if domain, _, _ := strings.Cut(key, "/"); domain == "volcano.sh" || strings.HasSuffix(domain, ".volcano.sh") {
			out[key] = value
		}
	}
	return out
}
