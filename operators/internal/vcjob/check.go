package vcjob

import (
	"errors"
	"fmt"
	"slices"

	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	bus "volcano.sh/apis/pkg/apis/bus/v1alpha1"
)

// plugins are those that Volcano v1.15 knows (pkg/controllers/job/plugins/factory.go).
var plugins = []string{"env", "svc", "ssh", "pytorch", "mpi", "tensorflow", "ray", "hcclrank"}

// Check is why Volcano's webhook refuses a Job that is created, nil for none (pkg/webhooks/admission/jobs/validate/admit_job.go). What it
// says of queues is left out: a queue may be made later.
func Check(job *batch.Job) error {
	s := &job.Spec
	if len(s.Tasks) == 0 {
		return errors.New("spec.tasks: a Job has at least one task")
	}
	var all []error
	wrong := func(format string, args ...any) { all = append(all, fmt.Errorf(format, args...)) }
	names := make(map[string]bool)
	total := int64(0)
	for i := range s.Tasks {
		t := &s.Tasks[i]
		if t.Replicas < 0 {
			wrong("spec.tasks[%d].replicas: %d is below 0", i, t.Replicas)
		}
		total += int64(t.Replicas)
		if t.MinAvailable != nil && (*t.MinAvailable < 0 || *t.MinAvailable > t.Replicas) {
			wrong("spec.tasks[%d].minAvailable: want a number from 0 to the %d of replicas", i, t.Replicas)
		}
		if t.Name != "" && names[t.Name] {
			wrong("spec.tasks[%d].name: there are two tasks %q", i, t.Name)
		}
		names[t.Name] = true
		if len(t.Template.Spec.Containers) == 0 {
			wrong("spec.tasks[%d].template.spec.containers: a pod has at least one", i)
		}
		if p := t.PartitionPolicy; p != nil && (p.TotalPartitions < 1 || p.PartitionSize < 1 || int64(p.TotalPartitions)*int64(p.PartitionSize) != int64(t.Replicas)) {
			wrong("spec.tasks[%d].partitionPolicy: want totalPartitions times partitionSize to be the %d of replicas", i, t.Replicas)
		}
		all = append(all, checkPolicies(t.Policies, fmt.Sprintf("spec.tasks[%d].policies", i))...)
	}
	if int64(s.MinAvailable) > total || s.MinAvailable < 0 {
		wrong("spec.minAvailable: %d, with %d replicas in all tasks", s.MinAvailable, total)
	}
	for i := range s.Tasks {
		if d := s.Tasks[i].DependsOn; d != nil && reaches(s.Tasks, s.Tasks[i].Name, d.Name, len(s.Tasks)) {
			wrong("spec.tasks[%d].dependsOn: the task depends on itself", i)
		}
	}
	for _, name := range sorted(s.Plugins) {
		if !slices.Contains(plugins, name) {
			wrong("spec.plugins: there is no plugin %q", name)
		}
	}
	all = append(all, checkPolicies(s.Policies, "spec.policies")...)
	return errors.Join(all...)
}

// reaches says whether the task is one of the names, or one that those depend on; depth bounds the way there.
func reaches(tasks []batch.TaskSpec, task string, names []string, depth int) bool {
	if slices.Contains(names, task) {
		return true
	}
	for i := range tasks {
		if d := tasks[i].DependsOn; depth > 0 && d != nil && slices.Contains(names, tasks[i].Name) && reaches(tasks, task, d.Name, depth-1) {
			return true
		}
	}
	return false
}

var (
	events = []bus.Event{
		bus.AnyEvent, bus.PodFailedEvent, bus.PodEvictedEvent, bus.PodPendingEvent, bus.JobUnknownEvent, bus.TaskCompletedEvent, bus.TaskFailedEvent, bus.JobUpdatedEvent,
	}
	actions = []bus.Action{
		bus.AbortJobAction, bus.RestartJobAction, bus.RestartTaskAction, bus.RestartPodAction, bus.RestartPartitionAction, bus.TerminateJobAction, bus.CompleteJobAction,
		bus.ResumeJobAction,
	}
)

func checkPolicies(list []batch.LifecyclePolicy, at string) (out []error) {
	seen, codes := make(map[bus.Event]bool), make(map[int32]bool)
	wrong := func(i int, format string, args ...any) {
		out = append(out, fmt.Errorf("%s[%d]: %s", at, i, fmt.Sprintf(format, args...)))
	}
	for i, p := range list {
		of := eventsOf(&p)
		switch {
		case (len(of) > 0) == (p.ExitCode != nil):
			wrong(i, "want an event or an exitCode, and not both")
		case !slices.Contains(actions, p.Action):
			wrong(i, "there is no action %q", p.Action)
		case p.ExitCode != nil && (*p.ExitCode == 0 || codes[*p.ExitCode]):
			wrong(i, "exitCode %d is no failure, or has a policy already", *p.ExitCode)
		}
		if p.ExitCode != nil {
			codes[*p.ExitCode] = true
		}
		for _, event := range of {
			if !slices.Contains(events, event) {
				wrong(i, "there is no event %q", event)
			}
			if seen[event] {
				wrong(i, "event %s has a policy already", event)
			}
			seen[event] = true
		}
	}
	if seen[bus.AnyEvent] && len(seen) > 1 {
		out = append(out, fmt.Errorf("%s: beside event * no other has a policy", at))
	}
	return out
}

// eventsOf are the policy's, each once.
func eventsOf(p *batch.LifecyclePolicy) (out []bus.Event) {
	for _, event := range append(slices.Clone(p.Events), p.Event) {
		if event != "" && !slices.Contains(out, event) {
			out = append(out, event)
		}
	}
	return out
}
