package vcjob

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
)

func read(t *testing.T, spec string) *batch.Job {
	t.Helper()
	j := &batch.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "train", UID: "u"}}
	if err := yaml.UnmarshalStrict([]byte(spec), &j.Spec); err != nil {
		t.Fatal(err)
	}
	return j
}

// with are pods of the Job, each "name phase".
func with(j *batch.Job, pods ...string) []corev1.Pod {
	var out []corev1.Pod
	for _, text := range pods {
		name, phase, _ := strings.Cut(text, " ")
		phase, deleted := strings.CutSuffix(phase, " deleted")
		task := strings.Split(strings.TrimPrefix(name, "train-"), "-")[0]
		out = append(out, corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, Annotations: map[string]string{batch.TaskSpecKey: task}, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(j, batch.SchemeGroupVersion.WithKind("Job"))}},
			Status:     corev1.PodStatus{Phase: corev1.PodPhase(phase)},
		})
		if deleted {
			out[len(out)-1].DeletionTimestamp = &metav1.Time{}
		}
	}
	return out
}

func (p *Plan) String() string {
	var made []string
	for _, m := range p.Create {
		made = append(made, m.Name)
	}
	return strings.TrimSpace(fmt.Sprintf("%s create %v delete %v", p.Status.State.Phase, made, p.Delete))
}

const two = `
minAvailable: 3
tasks:
- {name: master, replicas: 1, template: {spec: {containers: [{name: c, image: i}]}}}
- {name: worker, replicas: 2, template: {spec: {containers: [{name: c, image: i}]}}}
`

// TestExpand says what is made of a Job, and what becomes of it.
func TestExpand(t *testing.T) {
	for name, c := range map[string]struct {
		spec string
		pods []string
		want string
	}{
		"new":        {two, nil, "Pending create [train-master-0 train-worker-0 train-worker-1] delete []"},
		"runs":       {two, []string{"train-master-0 Running", "train-worker-0 Running", "train-worker-1 Running"}, "Running create [] delete []"},
		"one lost":   {two, []string{"train-master-0 Running", "train-worker-0 Running"}, "Pending create [train-worker-1] delete []"},
		"over":       {two, []string{"train-master-0 Succeeded", "train-worker-0 Succeeded", "train-worker-1 Succeeded"}, "Completed create [] delete []"},
		"one failed": {two, []string{"train-master-0 Succeeded", "train-worker-0 Failed", "train-worker-1 Succeeded"}, "Failed create [] delete []"},
		"restart": {two + "policies: [{event: PodFailed, action: RestartJob}]\n", []string{"train-master-0 Running", "train-worker-0 Failed", "train-worker-1 Running"},
			"Restarting create [] delete [train-master-0 train-worker-0 train-worker-1]"},
		"the master ends it": {strings.Replace(two, "replicas: 1,", "replicas: 1, policies: [{event: TaskCompleted, action: CompleteJob}],", 1),
			[]string{"train-master-0 Succeeded", "train-worker-0 Running", "train-worker-1 Running"}, "Completed create [] delete [train-worker-0 train-worker-1]"},
		"any event is not success": {two + "policies: [{event: '*', action: RestartJob}]\n", []string{"train-master-0 Succeeded", "train-worker-0 Running", "train-worker-1 Running"}, "Running create [] delete []"},
		"waits for the master":     {strings.Replace(two, "name: worker,", "name: worker, dependsOn: {name: [master]},", 1), nil, "Pending create [train-master-0] delete []"},
		"the master runs":          {strings.Replace(two, "name: worker,", "name: worker, dependsOn: {name: [master]},", 1), []string{"train-master-0 Running"}, "Pending create [train-worker-0 train-worker-1] delete []"},
		"evicted":                  {two + "policies: [{event: PodEvicted, action: RestartJob}]\n", []string{"train-master-0 Running", "train-worker-0 Running deleted", "train-worker-1 Running"}, "Restarting create [] delete [train-master-0 train-worker-1]"},
		"evicted, and no policy":   {two, []string{"train-master-0 Running", "train-worker-0 Running deleted", "train-worker-1 Running"}, "Pending create [] delete []"},
		"one pod again":            {two + "policies: [{event: PodFailed, action: RestartPod}]\n", []string{"train-master-0 Running", "train-worker-0 Failed", "train-worker-1 Running"}, "Restarting create [] delete [train-worker-0]"},
		"enough succeeded":         {two + "minSuccess: 1\n", []string{"train-master-0 Succeeded", "train-worker-0 Running", "train-worker-1 Running"}, "Completed create [] delete []"},
	} {
		t.Run(name, func(t *testing.T) {
			j := read(t, c.spec)
			p, err := Expand(j, with(j, c.pods...))
			if err != nil {
				t.Fatal(err)
			}
			if got := p.String(); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestPodsStartTogether holds the group of the pods against what the Job says, and that a Job without a minimum starts whole.
func TestPodsStartTogether(t *testing.T) {
	j := read(t, strings.Replace(two, "minAvailable: 3\n", "queue: blue\nplugins: {env: [], svc: [], pytorch: [--port=1], ssh: [], ray: []}\n", 1))
	p, err := Expand(j, nil)
	if err != nil {
		t.Fatal(err)
	}
	if g := p.Group; g.Name != "train-u" || g.Spec.MinMember != 3 || g.Spec.Queue != "blue" || g.Spec.MinTaskMember["worker"] != 2 {
		t.Errorf("%+v", g.Spec)
	}
	last := p.Create[2]
	if last.Annotations["scheduling.k8s.io/group-name"] != "train-u" || last.Labels["volcano.sh/task-spec"] != "worker" || last.Spec.SchedulerName != "volcano" || last.Spec.Subdomain != "train" {
		t.Errorf("%+v", last)
	}
	env := make(map[string]string)
	for _, e := range last.Spec.Containers[0].Env {
		env[e.Name] = e.Value
	}
	for key, want := range map[string]string{"RANK": "2", "WORLD_SIZE": "3", "MASTER_ADDR": "train-master-0.train", "MASTER_PORT": "1", "VC_TASK_INDEX": "1", "VC_WORKER_NUM": "2", "VC_MASTER_HOSTS": "train-master-0.train"} {
		if env[key] != want {
			t.Errorf("%s is %q, want %q", key, env[key], want)
		}
	}
	if got := p.Hosts.Data["worker.host"]; got != "train-worker-0.train\ntrain-worker-1.train" {
		t.Errorf("worker.host has %q", got)
	}
	if p.Keys == nil || len(last.Spec.Volumes) != 2 || len(last.Spec.Containers[0].VolumeMounts) != 2 {
		t.Errorf("keys %v, volumes %v", p.Keys, last.Spec.Volumes)
	}
	if p.Service == nil || !slices.Equal(p.Untold, []string{"spec.plugins.ray"}) {
		t.Errorf("service %v, untold %v", p.Service, p.Untold)
	}
}

// TestRetriesEnd holds that a Job that fails again and again ends.
func TestRetriesEnd(t *testing.T) {
	j := read(t, two+"policies: [{event: PodFailed, action: RestartJob}]\n")
	for range 2 {
		p, _ := Expand(j, with(j, "train-master-0 Failed"))
		if p.Status.State.Phase != batch.Restarting {
			t.Fatalf("%s", &p)
		}
		j.Status = p.Status
	}
	p, _ := Expand(j, with(j, "train-master-0 Failed", "train-worker-0 Running"))
	if got := p.String(); got != "Failed create [] delete [train-worker-0]" {
		t.Error(got)
	}
}

// TestTooMany refuses a Job that no cluster could hold.
func TestTooMany(t *testing.T) {
	j := read(t, "tasks: [{name: a, replicas: 2147483647}, {name: b, replicas: 2147483647}]")
	if _, err := Expand(j, nil); err == nil {
		t.Error("it is expanded")
	}
}

// TestCheck refuses what Volcano's webhook refuses.
func TestCheck(t *testing.T) {
	const task = "{name: a, replicas: 2, template: {spec: {containers: [{name: c}]}}}"
	for spec, want := range map[string]string{
		"tasks: []":                              "at least one task",
		"minAvailable: 3\ntasks: [" + task + "]": "spec.minAvailable: 3, with 2 replicas",
		"tasks: [" + task + "," + task + "]":     "two tasks",
		"policies: [{event: PodFailed, action: RestartJob}, {event: PodFailed, action: AbortJob}]\ntasks: [" + task + "]":                                                                                   "has a policy already",
		"policies: [{event: '*', action: RestartJob}, {event: PodFailed, action: AbortJob}]\ntasks: [" + task + "]":                                                                                         "beside event *",
		"policies: [{event: PodFailed, exitCode: 3, action: RestartJob}]\ntasks: [" + task + "]":                                                                                                            "not both",
		"plugins: {tensorboard: []}\ntasks: [" + task + "]":                                                                                                                                                 "no plugin",
		"tasks: [{name: a, replicas: 1, dependsOn: {name: [b]}, template: {spec: {containers: [{name: c}]}}}, {name: b, replicas: 1, dependsOn: {name: [a]}, template: {spec: {containers: [{name: c}]}}}]": "depends on itself",
	} {
		if err := Check(read(t, spec)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", spec, err, want)
		}
	}
	if err := Check(read(t, two)); err != nil {
		t.Error(err)
	}
}

// TestStages holds that a group does not wait for tasks that are made later.
func TestStages(t *testing.T) {
	j := read(t, strings.Replace(two, "name: master,", "name: master, dependsOn: {name: [worker]},", 1))
	p, err := Expand(j, nil)
	if err != nil {
		t.Fatal(err)
	}
	if g := p.Group.Spec; g.MinMember != 2 || len(g.MinTaskMember) != 1 || g.MinTaskMember["worker"] != 2 {
		t.Errorf("%+v", g)
	}
}

// TestUntold names every field that is set and that nobody here acts on.
func TestUntold(t *testing.T) {
	j := read(t, strings.Replace(two, "replicas: 1,", "replicas: 1, maxRetry: 2,", 1)+
		"ttlSecondsAfterFinished: 600\nplugins: {pytorch: [--master=master, --wait-master-enabled=true], svc: [--inject-hosts-env=false], ray: []}\n")
	p, err := Expand(j, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := "spec.plugins.ray, spec.plugins.pytorch --wait-master-enabled, spec.ttlSecondsAfterFinished, spec.tasks[0].maxRetry (spec.maxRetry counts)"
	if got := strings.Join(p.Untold, ", "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
