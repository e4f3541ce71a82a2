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
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/kube/dialect"
)

// volcanoScheduler is the scheduler of pods of Volcano's Jobs that name none.
const volcanoScheduler = "volcano"

// volcanoSpec has the fields of a Job of Volcano (volcano.sh/apis v1.15, pkg/apis/batch/v1alpha1/job.go). Those of which nothing follows
// here, as they are about what becomes of pods that run, are read all the same: what is left decides where pods go, and is told.
type volcanoSpec struct {
	SchedulerName     string          `json:"schedulerName"`
	Queue             string          `json:"queue"`
	MinAvailable      int32           `json:"minAvailable"`
	PriorityClassName string          `json:"priorityClassName"`
	NetworkTopology   map[string]any  `json:"networkTopology"`
	Tasks             []volcanoTask   `json:"tasks"`
	Volumes           []volcanoVolume `json:"volumes"`

	Policies        []volcanoPolicy     `json:"policies"`
	Plugins         map[string][]string `json:"plugins"`
	MaxRetry        any                 `json:"maxRetry"`
	MinSuccess      any                 `json:"minSuccess"`
	TTL             any                 `json:"ttlSecondsAfterFinished"`
	RunningEstimate any                 `json:"runningEstimate"`
}

// volcanoTask is a task of it.
type volcanoTask struct {
	Name         string                 `json:"name"`
	Replicas     int32                  `json:"replicas"`
	MinAvailable *int32                 `json:"minAvailable"`
	Template     corev1.PodTemplateSpec `json:"template"`
	DependsOn    struct {
		Name      []string `json:"name"`
		Iteration any      `json:"iteration"`
	} `json:"dependsOn"`
	Partitions *volcanoPartitions `json:"partitionPolicy"`

	Policies []volcanoPolicy `json:"policies"`
	MaxRetry any             `json:"maxRetry"`
}

// volcanoPartitions divides the pods of a task.
type volcanoPartitions struct {
	Total           int32          `json:"totalPartitions"`
	Size            int32          `json:"partitionSize"`
	Least           int32          `json:"minPartitions"`
	NetworkTopology map[string]any `json:"networkTopology"`
}

// volcanoVolume is one that all pods mount: a claim that is there, or one that is made.
type volcanoVolume struct {
	MountPath string                            `json:"mountPath"`
	ClaimName string                            `json:"volumeClaimName"`
	Claim     *corev1.PersistentVolumeClaimSpec `json:"volumeClaim"`
}

// volcanoJob makes the pods of a Job of Volcano, and the PodGroup that its controller makes for them, with the defaults of its webhook
// (volcano v1.15, pkg/webhooks/admission/jobs/mutate and pkg/controllers/job). above is the object that was given, at whose path the Job's
// spec is: the Job itself, or the CronJob that makes it.
func (m *maker) volcanoJob(w *Workload, above, u *unstructured.Unstructured, at string) error {
	var spec volcanoSpec
	if _, ok := u.Object["spec"].(map[string]any); !ok {
		return errors.New("spec is no object")
	}
	if err := decode(u.Object["spec"], &spec); err != nil {
		return fmt.Errorf("spec: %w", err)
	}
	w.Vain = append(w.Vain, dialect.Take(u.Object["spec"], dotted(at), &volcanoSpec{})...)
	spec.fill()
	if err := spec.refused(dotted(at), u.GetName(), m.queues); err != nil {
		return byVolcano(err)
	}
	w.volcanoClaims(u, spec.Volumes)
	var first, least int32
	var parts []any
	tasks := make(map[string]any)
	for i := range spec.Tasks {
		t := &spec.Tasks[i]
		if least += *t.MinAvailable; len(t.DependsOn.Name) == 0 {
			first += t.Replicas
			tasks[t.Name] = int64(*t.MinAvailable)
		}
		if t.Partitions != nil {
			parts = append(parts, t.Partitions.policy(t.Name))
		}
		n := int(t.Replicas)
		if suspended(above) {
			n = 0
		}
		w.add(m.volcanoPods(w, above, u, t, fmt.Sprintf("%s/tasks/%d/template", at, i), n, cmp.Or(spec.SchedulerName, volcanoScheduler)))
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
	if len(parts) > 0 {
		group["subGroupPolicy"] = parts
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

// fill has the defaults of the webhook.
func (s *volcanoSpec) fill() {
	for i := range s.Tasks {
		t := &s.Tasks[i]
		t.Name = cmp.Or(t.Name, "default"+strconv.Itoa(i))
		if p := t.Partitions; p != nil && t.MinAvailable == nil && p.Least > 0 && p.Size > 0 {
			t.MinAvailable = new(p.Least * p.Size)
		}
		if t.MinAvailable == nil {
			t.MinAvailable = new(t.Replicas)
		}
	}
}

// policy is that of the PodGroup for the pods of the task (getSubGroupPolicy of pkg/controllers/job/job_controller_actions.go).
func (p *volcanoPartitions) policy(task string) map[string]any {
	out := map[string]any{
		"name": task, "subGroupSize": int64(p.Size), "labelSelector": map[string]any{"matchLabels": map[string]any{volcanoTaskKey: task}},
		"matchLabelKeys": []any{"volcano.sh/partition-id"},
	}
	if p.Least > 0 {
		out["minSubGroups"] = int64(p.Least)
	}
	if p.NetworkTopology != nil {
		out["networkTopology"] = p.NetworkTopology
	}
	return out
}

const volcanoTaskKey = "volcano.sh/task-spec"

// volcanoClaims are the claims that the pods mount together: those of the Job's volumes that have one.
func (w *Workload) volcanoClaims(u *unstructured.Unstructured, volumes []volcanoVolume) {
	for i, v := range volumes {
		if v.ClaimName == "" && v.Claim == nil {
			continue
		}
		c := &corev1.PersistentVolumeClaim{}
		c.Namespace, c.Name = u.GetNamespace(), cmp.Or(v.ClaimName, fmt.Sprintf("%s-volume-%d", u.GetName(), i))
		if v.Claim != nil {
			c.Spec = *v.Claim.DeepCopy()
			c.UID, c.Status.Phase = types.UID(u.GetNamespace()+"/"+c.Name), corev1.ClaimPending
			w.shared = append(w.shared, c)
		}
		w.mounts = append(w.mounts, c.Name)
	}
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
func (m *maker) volcanoPods(w *Workload, above, u *unstructured.Unstructured, task *volcanoTask, template string, n int, scheduler string) Part {
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
	t.Labels[facts.CrewLabels["batch.volcano.sh"]] = u.GetName()
	t.Annotations["scheduling.volcano.sh/group-name"] = u.GetName()
	t.Annotations[volcanoTaskKey], t.Labels[volcanoTaskKey] = task.Name, task.Name
	for i, name := range w.mounts {
		t.Spec.Volumes = claimed(t.Spec.Volumes, fmt.Sprintf("job-volume-%d", i), name)
	}
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
