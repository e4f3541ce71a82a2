// Package vcjob is Berth's own expander of Volcano's Jobs (batch.volcano.sh): a small stand-in where Volcano's controllers do not run. It
// says which pods a Job is to have, the PodGroup that has them start together, and what has become of the Job. It is pure; vcjob.go of
// the program carries it out. What of a Job it does not do, it says.
//
// Names, labels and annotations are those of volcano.sh/apis v1.14.0, pkg/apis/batch/v1alpha1/labels.go.
package vcjob

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	bus "volcano.sh/apis/pkg/apis/bus/v1alpha1"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"
)

// Plan is what is to be done for a Job.
type Plan struct {
	Group   *scheduling.PodGroup
	Service *corev1.Service   // nil: none
	Hosts   *corev1.ConfigMap // the names of each task's pods; nil: none
	Keys    *corev1.Secret    // without its keys, which are to be made; nil: none
	Create  []*corev1.Pod
	Delete  []string // pods, by name
	Status  batch.JobStatus
	Untold  []string // fields that have no effect
}

const (
	scheduler = "volcano"
	queue     = "default"
	maxRetry  = 3
	// MaxPods is how many pods a Job may have.
	MaxPods = 10_000
)

// Expand says what the Job needs, given the pods that it has. The Job is not written to.
func Expand(job *batch.Job, pods []corev1.Pod) (Plan, error) {
	if err := Check(job); err != nil {
		return Plan{}, err
	}
	j := defaulted(job)
	total := int32(0)
	for _, t := range j.Spec.Tasks {
		total += max(0, t.Replicas)
		if total > MaxPods || t.Replicas < 0 {
			return Plan{}, fmt.Errorf("spec.tasks: want 0 to %d pods", MaxPods)
		}
	}
	x := &expansion{job: j, total: total, pods: make(map[string]*corev1.Pod)}
	for i := range pods {
		if metav1.IsControlledBy(&pods[i], job) {
			x.pods[pods[i].Name] = &pods[i]
		}
	}
	out := Plan{Group: x.group(), Service: x.service(), Hosts: x.hostFiles(), Keys: x.keys(), Untold: x.untold(), Status: *j.Status.DeepCopy()}
	x.count(&out.Status)
	x.act(&out)
	if !over(out.Status.State.Phase) {
		out.Create = x.missing(out.Delete)
	}
	return out, nil
}

// defaulted is the Job as Volcano's webhook makes it.
func defaulted(job *batch.Job) *batch.Job {
	j := job.DeepCopy()
	s := &j.Spec
	s.SchedulerName, s.Queue = or(s.SchedulerName, scheduler), or(s.Queue, queue)
	if s.MaxRetry == 0 {
		s.MaxRetry = maxRetry
	}
	plugins := maps.Clone(s.Plugins)
	for _, name := range sorted(s.Plugins) { // which others some cannot do without
		for _, needs := range map[string][]string{"mpi": {"svc", "ssh"}, "pytorch": {"svc"}, "tensorflow": {"svc"}}[name] {
			if _, ok := plugins[needs]; !ok {
				plugins[needs] = nil
			}
		}
	}
	s.Plugins = plugins
	least := int32(0)
	for i := range s.Tasks {
		t := &s.Tasks[i]
		t.Name = or(t.Name, batch.DefaultTaskSpec+strconv.Itoa(i))
		if t.MinAvailable == nil {
			n := t.Replicas
			t.MinAvailable = &n
		}
		least += *t.MinAvailable
	}
	if s.MinAvailable == 0 {
		s.MinAvailable = least
	}
	return j
}

type expansion struct {
	job   *batch.Job
	total int32
	pods  map[string]*corev1.Pod
}

func (x *expansion) owner() []metav1.OwnerReference {
	return []metav1.OwnerReference{*metav1.NewControllerRef(x.job, batch.SchemeGroupVersion.WithKind("Job"))}
}

func (x *expansion) groupName() string { return x.job.Name + "-" + string(x.job.UID) }

// group has the minimum of the Job, and those of its tasks where they ask for less than all.
func (x *expansion) group() *scheduling.PodGroup {
	s := &x.job.Spec
	g := &scheduling.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: x.job.Namespace, Name: x.groupName(), OwnerReferences: x.owner(), Annotations: keysOf(x.job.Annotations), Labels: keysOf(x.job.Labels)}}
	g.Spec.MinMember, g.Spec.Queue, g.Spec.PriorityClassName = s.MinAvailable, s.Queue, s.PriorityClassName
	sum, first := int32(0), int32(0)
	tasks := make(map[string]int32)
	for _, t := range s.Tasks {
		sum += *t.MinAvailable
		if t.DependsOn == nil || len(t.DependsOn.Name) == 0 {
			tasks[t.Name] = *t.MinAvailable
			first += t.Replicas
		}
	}
	if sum <= s.MinAvailable && len(s.Tasks) > 1 && len(tasks) > 0 {
		g.Spec.MinTaskMember = tasks
	}
	if first > 0 { // pods of tasks that wait for others are not there when the group starts
		g.Spec.MinMember = min(g.Spec.MinMember, first)
	}
	if t := s.NetworkTopology; t != nil {
		g.Spec.NetworkTopology = topology(t)
	}
	for i := range s.Tasks {
		if p := s.Tasks[i].PartitionPolicy; p != nil {
			g.Spec.SubGroupPolicy = append(g.Spec.SubGroupPolicy, partitions(&s.Tasks[i]))
		}
	}
	return g
}

func topology(t *batch.NetworkTopologySpec) *scheduling.NetworkTopologySpec {
	return &scheduling.NetworkTopologySpec{Mode: scheduling.NetworkTopologyMode(t.Mode), HighestTierAllowed: t.HighestTierAllowed, HighestTierName: t.HighestTierName}
}

// partitions is the policy of a task that is divided, as Volcano's controller has it in the PodGroup.
func partitions(t *batch.TaskSpec) scheduling.SubGroupPolicySpec {
	p := t.PartitionPolicy
	size, least := p.PartitionSize, p.MinPartitions
	out := scheduling.SubGroupPolicySpec{
		Name: t.Name, SubGroupSize: &size, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{batch.TaskSpecKey: t.Name}}, MatchLabelKeys: []string{batch.TaskPartitionID},
	}
	if least > 0 {
		out.MinSubGroups = &least
	}
	if p.NetworkTopology != nil {
		out.NetworkTopology = topology(p.NetworkTopology)
	}
	return out
}

// keysOf are the keys of Volcano's own, which it passes on.
func keysOf(all map[string]string) map[string]string {
	out := make(map[string]string)
	for key, value := range all {
		if domain, _, _ := strings.Cut(key, "/"); domain == "volcano.sh" || strings.HasSuffix(domain, ".volcano.sh") {
			out[key] = value
		}
	}
	return out
}

func (x *expansion) plugin(name string) ([]string, bool) {
	args, ok := x.job.Spec.Plugins[name]
	return args, ok
}

// service is the headless one by which pods find each other, where a plugin asks for it.
func (x *expansion) service() *corev1.Service {
	if !x.named() {
		return nil
	}
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: x.job.Namespace, Name: x.job.Name, OwnerReferences: x.owner()},
		Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, PublishNotReadyAddresses: true, Ports: []corev1.ServicePort{{Name: "placeholder", Port: 1}},
			Selector: map[string]string{batch.JobNameKey: x.job.Name, batch.JobNamespaceKey: x.job.Namespace},
		},
	}
}

// named says whether pods have names to find each other by.
func (x *expansion) named() bool {
	for _, plugin := range []string{"svc", "ssh", "pytorch", "mpi", "tensorflow", "ray"} {
		if _, ok := x.plugin(plugin); ok {
			return true
		}
	}
	return false
}

func podName(job, task string, index int32) string { return fmt.Sprintf("%s-%s-%d", job, task, index) }

// missing are the pods that the Job should have and has not, but for tasks that wait for others, and those that are just deleted.
func (x *expansion) missing(deleted []string) []*corev1.Pod {
	var out []*corev1.Pod
	for i := range x.job.Spec.Tasks {
		t := &x.job.Spec.Tasks[i]
		if !x.open(t) {
			continue
		}
		for n := range t.Replicas {
			name := podName(x.job.Name, t.Name, n)
			if x.pods[name] == nil && !slices.Contains(deleted, name) {
				out = append(out, x.pod(t, n))
			}
		}
	}
	return out
}

// open says whether the tasks that this one depends on run: all of them, or any.
func (x *expansion) open(t *batch.TaskSpec) bool {
	if t.DependsOn == nil || len(t.DependsOn.Name) == 0 {
		return true
	}
	runs := func(name string) bool {
		for i := range x.job.Spec.Tasks {
			if d := &x.job.Spec.Tasks[i]; d.Name == name {
				return x.in(d, corev1.PodRunning)+x.in(d, corev1.PodSucceeded) >= *d.MinAvailable
			}
		}
		return true // there is none to wait for
	}
	if t.DependsOn.Iteration == batch.IterationAny {
		return slices.ContainsFunc(t.DependsOn.Name, runs)
	}
	return !slices.ContainsFunc(t.DependsOn.Name, func(name string) bool { return !runs(name) })
}

// in counts the pods of the task in the phase.
func (x *expansion) in(t *batch.TaskSpec, phase corev1.PodPhase) (n int32) {
	for i := range t.Replicas {
		if p := x.pods[podName(x.job.Name, t.Name, i)]; p != nil && p.Status.Phase == phase {
			n++
		}
	}
	return n
}

func (x *expansion) pod(t *batch.TaskSpec, index int32) *corev1.Pod {
	j, text := x.job, strconv.Itoa(int(index))
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: j.Namespace, Name: podName(j.Name, t.Name, index), OwnerReferences: x.owner()}, Spec: *t.Template.Spec.DeepCopy()}
	p.Labels, p.Annotations = maps.Clone(t.Template.Labels), maps.Clone(t.Template.Annotations)
	if p.Labels == nil {
		p.Labels = make(map[string]string)
	}
	if p.Annotations == nil {
		p.Annotations = make(map[string]string)
	}
	maps.Copy(p.Labels, map[string]string{batch.JobNameKey: j.Name, batch.JobNamespaceKey: j.Namespace, batch.QueueNameKey: j.Spec.Queue, batch.TaskSpecKey: t.Name, batch.TaskIndex: text})
	maps.Copy(p.Annotations, map[string]string{
		batch.JobNameKey: j.Name, batch.TaskSpecKey: t.Name, batch.TaskIndex: text, batch.QueueNameKey: j.Spec.Queue, batch.JobVersion: strconv.Itoa(int(j.Status.Version)),
		scheduling.KubeGroupNameAnnotationKey: x.groupName(),
	})
	p.Spec.SchedulerName = or(p.Spec.SchedulerName, j.Spec.SchedulerName)
	p.Spec.PriorityClassName = or(p.Spec.PriorityClassName, j.Spec.PriorityClassName)
	if p.Spec.RestartPolicy == "" {
		p.Spec.RestartPolicy = corev1.RestartPolicyNever
	}
	if x.named() {
		p.Spec.Hostname, p.Spec.Subdomain = or(p.Spec.Hostname, p.Name), or(p.Spec.Subdomain, j.Name)
	}
	if t.PartitionPolicy != nil && t.PartitionPolicy.PartitionSize > 0 {
		p.Labels[batch.TaskPartitionID] = strconv.Itoa(int(index / t.PartitionPolicy.PartitionSize))
	}
	x.mount(&p.Spec)
	env := x.env(t, index)
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			list[i].Env = append(list[i].Env, env...)
		}
	}
	return p
}

// env are the variables of the plugins env, svc, pytorch and mpi.
func (x *expansion) env(t *batch.TaskSpec, index int32) (out []corev1.EnvVar) {
	set := func(name, value string) { out = append(out, corev1.EnvVar{Name: name, Value: value}) }
	if _, ok := x.plugin("env"); ok {
		set("VC_TASK_INDEX", strconv.Itoa(int(index)))
		set("VK_TASK_INDEX", strconv.Itoa(int(index)))
	}
	if args, ok := x.plugin("svc"); ok && argument(args, "inject-hosts-env", "true") != "false" {
		for i := range x.job.Spec.Tasks {
			d := &x.job.Spec.Tasks[i]
			name := strings.ToUpper(strings.ReplaceAll(d.Name, "-", "_"))
			set("VC_"+name+"_HOSTS", strings.Join(x.hosts(d), ","))
			set("VC_"+name+"_NUM", strconv.Itoa(int(d.Replicas)))
		}
	}
	if args, ok := x.plugin("pytorch"); ok {
		x.pytorch(args, t, index, set)
	}
	if args, ok := x.plugin("mpi"); ok {
		if worker := x.task(argument(args, "worker", "worker")); worker != nil && t.Name == argument(args, "master", "master") {
			set("MPI_HOST", strings.Join(x.hosts(worker), ","))
		}
	}
	return out
}

func (x *expansion) pytorch(args []string, t *batch.TaskSpec, index int32, set func(name, value string)) {
	master, worker := argument(args, "master", "master"), argument(args, "worker", "worker")
	m := x.task(master)
	if m == nil {
		return
	}
	world := m.Replicas
	if w := x.task(worker); w != nil {
		world += w.Replicas
	}
	set("MASTER_ADDR", x.hosts(m)[0])
	set("MASTER_PORT", argument(args, "port", "23456"))
	set("WORLD_SIZE", strconv.Itoa(int(world)))
	switch t.Name {
	case master:
		set("RANK", "0")
	case worker:
		set("RANK", strconv.Itoa(int(index)+1))
	}
}

// argument is that of a plugin: --master=name.
func argument(args []string, name, otherwise string) string {
	for _, a := range args {
		if key, value, ok := strings.Cut(strings.TrimLeft(a, "-"), "="); ok && key == name {
			return value
		}
	}
	return otherwise
}

func (x *expansion) task(name string) *batch.TaskSpec {
	for i := range x.job.Spec.Tasks {
		if x.job.Spec.Tasks[i].Name == name && x.job.Spec.Tasks[i].Replicas > 0 {
			return &x.job.Spec.Tasks[i]
		}
	}
	return nil
}

func (x *expansion) hosts(t *batch.TaskSpec) []string {
	out := make([]string, t.Replicas)
	for i := range out {
		out[i] = podName(x.job.Name, t.Name, int32(i)) + "." + x.job.Name
	}
	return out
}

// arguments are those of the plugins that this expander acts on.
var arguments = map[string][]string{
	"env": nil, "svc": {"inject-hosts-env", "publish-not-ready-addresses", "disable-network-policy"}, "ssh": {"ssh-key-file-path"},
	"pytorch": {"master", "worker", "port"}, "mpi": {"master", "worker", "port"},
}

// untold are fields that this expander does not act on.
func (x *expansion) untold() (out []string) {
	s := &x.job.Spec
	for _, name := range sorted(s.Plugins) {
		if slices.Contains([]string{"tensorflow", "ray", "hcclrank"}, name) {
			out = append(out, "spec.plugins."+name)
		}
	}
	for _, name := range sorted(s.Plugins) {
		for _, a := range s.Plugins[name] {
			key, _, _ := strings.Cut(strings.TrimLeft(a, "-"), "=")
			if of, ok := arguments[name]; ok && !slices.Contains(of, key) {
				out = append(out, "spec.plugins."+name+" --"+key)
			}
		}
	}
	if len(s.Volumes) > 0 {
		out = append(out, "spec.volumes")
	}
	if s.TTLSecondsAfterFinished != nil {
		out = append(out, "spec.ttlSecondsAfterFinished")
	}
	if s.RunningEstimate != nil {
		out = append(out, "spec.runningEstimate")
	}
	for i := range s.Tasks {
		if s.Tasks[i].TopologyPolicy != "" && s.Tasks[i].TopologyPolicy != batch.None {
			out = append(out, fmt.Sprintf("spec.tasks[%d].topologyPolicy", i))
		}
		if s.Tasks[i].MaxRetry != 0 {
			out = append(out, fmt.Sprintf("spec.tasks[%d].maxRetry (spec.maxRetry counts)", i))
		}
		out = append(out, unacted(s.Tasks[i].Policies, fmt.Sprintf("spec.tasks[%d].policies", i))...)
	}
	return append(out, unacted(s.Policies, "spec.policies")...)
}

// unacted are policies for events that this expander does not see, or with actions that it does not take.
func unacted(list []batch.LifecyclePolicy, at string) (out []string) {
	for i := range list {
		p := &list[i]
		if !slices.Contains([]bus.Action{bus.RestartJobAction, bus.RestartTaskAction, bus.RestartPodAction, bus.CompleteJobAction, bus.TerminateJobAction, bus.AbortJobAction}, p.Action) {
			out = append(out, fmt.Sprintf("%s[%d].action", at, i))
		}
		for _, event := range eventsOf(p) {
			if !slices.Contains([]bus.Event{bus.AnyEvent, bus.PodFailedEvent, bus.PodEvictedEvent, bus.TaskCompletedEvent}, event) {
				out = append(out, fmt.Sprintf("%s[%d].event %s", at, i, event))
			}
		}
		if p.Timeout != nil {
			out = append(out, fmt.Sprintf("%s[%d].timeout", at, i))
		}
	}
	return out
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// count counts the pods by phase.
func (x *expansion) count(s *batch.JobStatus) {
	s.MinAvailable, s.Pending, s.Running, s.Succeeded, s.Failed, s.Terminating = x.job.Spec.MinAvailable, 0, 0, 0, 0, 0
	for _, p := range x.pods {
		switch {
		case p.DeletionTimestamp != nil:
			s.Terminating++
		case p.Status.Phase == corev1.PodRunning:
			s.Running++
		case p.Status.Phase == corev1.PodSucceeded:
			s.Succeeded++
		case p.Status.Phase == corev1.PodFailed:
			s.Failed++
		default:
			s.Pending++
		}
	}
}

func over(p batch.JobPhase) bool {
	return slices.Contains([]batch.JobPhase{batch.Completed, batch.Failed, batch.Terminated, batch.Aborted}, p)
}

// act carries out the policies, or says how far the Job is.
func (x *expansion) act(out *Plan) {
	s := &out.Status
	if over(s.State.Phase) {
		out.Delete = x.alive()
		return
	}
	if s.State.Phase == batch.Restarting && s.Terminating > 0 { // by a policy: nobody else evicted them
		return
	}
	switch action, task, pod := x.due(); action {
	case bus.RestartPodAction:
		if s.RetryCount++; s.RetryCount >= x.job.Spec.MaxRetry {
			s.State.Phase, s.State.Reason = batch.Failed, "MaxRetryReached"
			out.Delete = x.alive()
			return
		}
		s.State.Phase = batch.Restarting
		if x.pods[pod].DeletionTimestamp == nil {
			out.Delete = []string{pod}
		}
	case bus.RestartJobAction, bus.RestartTaskAction:
		if s.RetryCount++; s.RetryCount >= x.job.Spec.MaxRetry {
			s.State.Phase, s.State.Reason = batch.Failed, "MaxRetryReached"
			out.Delete = x.alive()
			return
		}
		if s.State.Phase = batch.Restarting; action == bus.RestartJobAction {
			s.Version++
			task = ""
		}
		out.Delete = x.of(task)
	case bus.CompleteJobAction:
		s.State.Phase, out.Delete = batch.Completed, x.alive()
	case bus.TerminateJobAction:
		s.State.Phase, out.Delete = batch.Terminated, x.alive()
	case bus.AbortJobAction:
		s.State.Phase, out.Delete = batch.Aborted, x.alive()
	default:
		s.State.Phase = x.phase(s)
	}
}

func (x *expansion) phase(s *batch.JobStatus) batch.JobPhase {
	least := x.job.Spec.MinAvailable
	if x.job.Spec.MinSuccess != nil {
		least = *x.job.Spec.MinSuccess
		if s.Succeeded >= least {
			return batch.Completed
		}
	}
	switch {
	case x.total > 0 && s.Succeeded+s.Failed >= x.total && s.Succeeded >= least:
		return batch.Completed
	case x.total > 0 && s.Succeeded+s.Failed >= x.total:
		return batch.Failed
	case s.Running+s.Succeeded >= x.job.Spec.MinAvailable && s.Running > 0:
		return batch.Running
	}
	return batch.Pending
}

// due is the first action that a policy asks for because of a pod, by name, that failed or that somebody evicts, or a task that is
// over; and the task, and the pod.
func (x *expansion) due() (bus.Action, string, string) {
	for _, name := range sorted(x.pods) {
		p := x.pods[name]
		event := bus.PodFailedEvent
		switch {
		case p.DeletionTimestamp != nil && p.Status.Phase != corev1.PodFailed && p.Status.Phase != corev1.PodSucceeded:
			event = bus.PodEvictedEvent
		case p.Status.Phase != corev1.PodFailed || p.DeletionTimestamp != nil:
			continue
		}
		task := p.Annotations[batch.TaskSpecKey]
		if a := x.policy(task, event, exitCode(p)); a != "" {
			return a, task, name
		}
	}
	for i := range x.job.Spec.Tasks {
		t := &x.job.Spec.Tasks[i]
		if t.Replicas > 0 && x.in(t, corev1.PodSucceeded) == t.Replicas {
			if a := x.policy(t.Name, bus.TaskCompletedEvent, 0); a != "" {
				return a, t.Name, ""
			}
		}
	}
	return "", "", ""
}

func exitCode(p *corev1.Pod) int32 {
	for _, c := range p.Status.ContainerStatuses {
		if c.State.Terminated != nil && c.State.Terminated.ExitCode != 0 {
			return c.State.Terminated.ExitCode
		}
	}
	return 0
}

// policy is the task's action for the event, or else the Job's.
func (x *expansion) policy(task string, event bus.Event, code int32) bus.Action {
	var lists [][]batch.LifecyclePolicy
	if t := x.task(task); t != nil {
		lists = append(lists, t.Policies)
	}
	for _, list := range append(lists, x.job.Spec.Policies) {
		for _, p := range list {
			events := eventsOf(&p)
			if slices.Contains(events, event) || event != bus.TaskCompletedEvent && slices.Contains(events, bus.AnyEvent) || p.ExitCode != nil && code != 0 && *p.ExitCode == code {
				return p.Action
			}
		}
	}
	return ""
}

// alive are the pods that are not over, by name.
func (x *expansion) alive() []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(x.pods)) {
		if p := x.pods[name]; p.DeletionTimestamp == nil && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			out = append(out, name)
		}
	}
	return out
}

// of are the pods of the task, "" for all, by name.
func (x *expansion) of(task string) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(x.pods)) {
		if p := x.pods[name]; p.DeletionTimestamp == nil && (task == "" || p.Annotations[batch.TaskSpecKey] == task) {
			out = append(out, name)
		}
	}
	return out
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
