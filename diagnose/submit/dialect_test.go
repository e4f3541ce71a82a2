package submit

import (
	"slices"
	"strings"
	"testing"

	"github.com/berth-dev/berth/kube/cluster"
	"github.com/berth-dev/berth/kube/dialect/all"
)

// TestGangsOfDialects plans gangs that another scheduler's keys make as what they are: all of their pods, not one of those alike.
func TestGangsOfDialects(t *testing.T) {
	const kaiQueue = `
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: team}
spec: {resources: {gpu: {quota: -1, limit: -1}, cpu: {quota: -1, limit: -1}, memory: {quota: -1, limit: -1}}}
---
`
	const kueueQueue = `
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: any}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: team}
spec:
  namespaceSelector: {}
  resourceGroups:
  - {coveredResources: [cpu], flavors: [{name: any, resources: [{name: cpu, nominalQuota: 100}]}]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: team, namespace: default}
spec: {clusterQueue: team}
---
`
	job := func(labels, annotations, scheduler string) string {
		return `
apiVersion: batch/v1
kind: Job
metadata: {name: train, namespace: default, labels: {` + labels + `}, annotations: {` + annotations + `}}
spec:
  parallelism: 3
  completions: 3
  template:
    spec:
      schedulerName: ` + scheduler + `
      restartPolicy: Never
      containers:
      - {name: train, image: registry.example/train:1, resources: {requests: {cpu: 100m}}}
`
	}
	const class = `
apiVersion: kueue.x-k8s.io/v1beta1
kind: WorkloadPriorityClass
metadata: {name: urgent}
value: 1000
---
`
	for name, c := range map[string]struct {
		dialect, scheduler, objects string
		priority                    int32
	}{
		"kueue, by its own priority class": {"kueue", "default-scheduler", class + kueueQueue + job("kueue.x-k8s.io/queue-name: team, kueue.x-k8s.io/priority-class: urgent", "", "default-scheduler"), 1000},
		"kai":                              {"kai", "kai-scheduler", kaiQueue + job("kai.scheduler/queue: team", `kai.scheduler/batch-min-member: "3"`, "kai-scheduler"), 50},
		"kai, cliques of Grove": {"kai", "kai-scheduler", kaiQueue + `
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {name: serve}
spec:
  template:
    cliques:
    - {name: a, labels: {kai.scheduler/queue: team}, spec: {replicas: 1, podSpec: {schedulerName: kai-scheduler, containers: [{name: m, image: registry.example/a:1, resources: {requests: {cpu: 100m}}}]}}}
    - {name: b, labels: {kai.scheduler/queue: team}, spec: {replicas: 2, podSpec: {schedulerName: kai-scheduler, containers: [{name: m, image: registry.example/b:1, resources: {requests: {cpu: 100m}}}]}}}
`, 50},
		"kueue":                          {"kueue", "default-scheduler", kueueQueue + job("kueue.x-k8s.io/queue-name: team", "", "default-scheduler"), 0},
		"kueue, suspended by its author": {"kueue", "default-scheduler", kueueQueue + strings.Replace(job("kueue.x-k8s.io/queue-name: team", "", "default-scheduler"), "spec:\n", "spec:\n  suspend: true\n", 1), 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := twoZones()
			f.Speaks = []string{c.dialect}
			w := World{Facts: f, Bare: true, Model: cluster.ModelOptions{For: []string{"berth", c.scheduler}, Dialects: []string{c.dialect}}}
			r := Check(w, "default", items(t, c.objects))
			if len(r.Workloads) != 1 || r.Workloads[0].Verdict != Starts || r.Workloads[0].Terms.Priority != c.priority {
				t.Errorf("%+v, priority %d", r.Workloads, r.Workloads[0].Terms.Priority)
			}
		})
	}
}

// TestKeysAlone tells of keys for other schedulers on objects that have no pods to tell it, and of a suspended Job that names its LocalQueue
// by an annotation, as Kueue once had it.
func TestKeysAlone(t *testing.T) {
	const manifests = `apiVersion: v1
kind: Namespace
metadata: {name: dev, annotations: {yunikorn.apache.org/namespace.quota: '{"cpu": "64"}', example.com/owner: a}}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: kept, annotations: {yunikorn.apache.org/allow-preemption: "false"}}
value: 10
---
apiVersion: batch/v1
kind: Job
metadata: {name: old, annotations: {kueue.x-k8s.io/queue-name: team}}
spec:
  suspend: true
  template: {spec: {restartPolicy: Never, containers: [{name: c, image: registry.example/train:1}]}}
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: held, labels: {kueue.x-k8s.io/queue-name: team}}
spec: {suspend: true, runtimeRef: {name: torch-distributed}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: slurm, annotations: {slurmjob.slinky.slurm.net/partition: debug}}
spec:
  template: {spec: {restartPolicy: Never, containers: [{name: c, image: registry.example/train:1}]}}
`
	f := twoZones()
	f.Speaks = []string{"kueue"}
	w := World{Facts: f, Bare: true, Model: cluster.ModelOptions{For: []string{"berth"}, Dialects: f.Speaks}}
	var got []string
	for _, f := range Check(w, "default", items(t, manifests)).Findings {
		got = append(got, f.Message)
	}
	want := []string{
		"without effect: namespace/dev: metadata: yunikorn.apache.org/namespace.quota",
		"without effect: priorityclass/kept: metadata: yunikorn.apache.org/allow-preemption",
		"without effect: job/old: kueue.x-k8s.io/queue-name as an annotation: it is a label",
		"without effect: trainjob/held: it names a queue, and nobody sets spec.suspend to false: kueue lets in Jobs, pods, and the objects that docs/from-kueue.md lists",
		"without effect: job/slurm: slurmjob.slinky.slurm.net/partition (a key of another scheduler)",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// TestAsksInVain tells of everything in the manifests that has no effect: keys of pods, fields of objects, and dialects that are not read.
func TestAsksInVain(t *testing.T) {
	const pod = `
apiVersion: v1
kind: Pod
metadata: {name: train, namespace: default, labels: {kueue.x-k8s.io/queue-name: team}, annotations: {kai.scheduler/task-priority: "3"}}
spec:
  schedulerName: kai-scheduler
  containers:
  - {name: train, image: registry.example/train:1, resources: {requests: {cpu: 100m}}}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: team}
spec: {shards: [a], resources: {gpu: {quota: -1, limit: -1}}}
`
	for name, c := range map[string]struct {
		dialects []string
		want     []string
	}{
		"read": {[]string{"kai"}, []string{
			"without effect: pod/train: kai.scheduler/task-priority (without effect)",
			"without effect: pod/train: kueue.x-k8s.io/queue-name (not read without --dialect kueue)",
			"without effect: queue/team: spec.shards",
		}},
		"not read": {nil, []string{
			"without effect: pod/train: kai.scheduler/task-priority (a key of another scheduler)",
			"without effect: pod/train: kueue.x-k8s.io/queue-name (not read without --dialect kueue)",
			"without effect: queue/team: it is not read without --dialect kai",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			f := twoZones()
			f.Speaks = c.dialects
			w := World{Facts: f, Bare: true, Model: cluster.ModelOptions{For: []string{"berth"}, Dialects: c.dialects}}
			var got []string
			for _, f := range Check(w, "default", items(t, pod)).Findings {
				got = append(got, f.Message)
				if f.Code != "B119" || f.Line == 0 {
					t.Errorf("%+v", f)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

// TestMadeByOthers plans what other projects' controllers make as they make it: with the queue, the gang and the scheduler that follow from
// their objects.
func TestMadeByOthers(t *testing.T) {
	const template = `{spec: {restartPolicy: Never, containers: [{name: c, image: registry.example/train:1, resources: {requests: {cpu: CPU}}}]}}`
	vcjob := func(spec, cpu string) string {
		return `{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, metadata: {name: train}, spec: {` + spec + ` tasks: [{name: a, replicas: 2, template: ` + strings.Replace(template, "CPU", cpu, 1) + `}]}}`
	}
	cron := func(job string) string {
		return strings.Replace(strings.Replace(job, "kind: Job", "kind: CronJob", 1), "spec: {", "spec: {jobTemplate: {spec: {", 1) + "}}"
	}
	ray := `{apiVersion: ray.io/v1, kind: RayCluster, metadata: {name: train, labels: {LABELS}}, spec: {headGroupSpec: {template: ` + strings.Replace(template, "CPU", "1", 1) + `}}}`
	const queue = "\n---\n{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: team}, spec: {capability: {cpu: 3}}}"
	for name, c := range map[string]struct {
		dialect, objects string
		want             Verdict
		summary          string
	}{
		"a Job of Volcano":                {"volcano", vcjob("queue: team,", "1") + queue, Starts, "queue team"},
		"whose queue is missing":          {"volcano", vcjob("queue: nobody,", "1"), Starts, "queue nobody"},
		"more than its queue may have":    {"volcano", vcjob("queue: team,", "2") + queue, Never, "queue team"},
		"a CronJob of Volcano":            {"volcano", cron(vcjob("queue: team,", "1")) + queue, Starts, "queue team"},
		"whose Jobs' queue is missing":    {"volcano", cron(vcjob("queue: nobody,", "1")), Starts, "queue nobody"},
		"a RayCluster in a queue of KAI":  {"kai", strings.Replace(ray, "LABELS", "kai.scheduler/queue: nobody", 1), Starts, "queue nobody"},
		"a RayCluster in a LocalQueue":    {"kueue", strings.Replace(ray, "LABELS", "kueue.x-k8s.io/queue-name: nobody", 1), Starts, "queue nobody"},
		"a RayCluster of the default one": {"kai", strings.Replace(ray, "LABELS", "", 1), Starts, ""},
		"a pod of a PodGroup": {"coscheduling", `{apiVersion: v1, kind: Pod, metadata: {name: train, labels: {scheduling.x-k8s.io/pod-group: g}}, spec: {containers: [{name: c, image: registry.example/train:1}]}}
---
{apiVersion: scheduling.x-k8s.io/v1alpha1, kind: PodGroup, metadata: {name: g}, spec: {minMember: 2}}`, Never, "gang g needs 2 pods to start"},
	} {
		t.Run(name, func(t *testing.T) {
			f := twoZones()
			f.Speaks = []string{c.dialect}
			names := append([]string{"berth", "default-scheduler"}, all.Find(c.dialect).SchedulerNames()...)
			r := Check(World{Facts: f, Bare: true, Model: cluster.ModelOptions{For: names, Dialects: []string{c.dialect}}}, "default", items(t, c.objects))
			if len(r.Workloads) != 1 || r.Workloads[0].Verdict != c.want || !strings.Contains(r.Workloads[0].Summary, c.summary) {
				t.Errorf("%+v", r.Workloads)
			}
			for _, f := range r.Findings {
				t.Errorf("%+v", f)
			}
			for _, f := range r.Workloads[0].Findings {
				if f.Code == "B103" && c.dialect != "coscheduling" { // whose PodGroups name no queue
					t.Errorf("%+v", f)
				}
			}
		})
	}
}

// TestGangsOfControllers plans the pods of objects that start together as the scheduler does: where there is no room for all of them, none starts.
// Each object asks for thirteen nodes of twelve.
func TestGangsOfControllers(t *testing.T) {
	const template = `template: {spec: {restartPolicy: Never, tolerations: [{operator: Exists}], containers: [{name: c, image: registry.example/train:1, resources: {limits: {nvidia.com/gpu: 8}}}]}}`
	worker := strings.Replace(template, "template", "workerTemplate", 1)
	exclusive := func(kind, spec string) string {
		return strings.Replace(kind, "name: train", "name: train, annotations: {leaderworkerset.sigs.k8s.io/exclusive-topology: topology.kubernetes.io/zone, alpha.jobset.sigs.k8s.io/exclusive-topology: topology.kubernetes.io/zone}", 1) + spec
	}
	const (
		ray    = `{apiVersion: ray.io/v1, kind: RayCluster, metadata: {name: train}, spec: `
		rayJob = `{apiVersion: ray.io/v1, kind: RayJob, metadata: {name: train}, spec: {submissionMode: HTTPMode, rayClusterSpec: `
		lws    = `{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, metadata: {name: train}, spec: `
		set    = `{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: train}, spec: `
		mpi    = `{apiVersion: kubeflow.org/v2beta1, kind: MPIJob, metadata: {name: train}, spec: `
		torch  = `{apiVersion: kubeflow.org/v1, kind: PyTorchJob, metadata: {name: train}, spec: `
	)
	apart := func(size, policy string) string { // subgroups that have a zone each
		return strings.Replace(lws, "name: train", "name: train, annotations: {leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology: topology.kubernetes.io/zone}", 1) +
			`{leaderWorkerTemplate: {size: ` + size + `, ` + policy + worker + `}}}`
	}
	jobs := func(replicas, parallelism string) string {
		return `{replicatedJobs: [{name: w, replicas: ` + replicas + `, template: {spec: {parallelism: ` + parallelism + `, completions: ` + parallelism + `, ` + template + `}}}]}}`
	}
	for name, c := range map[string]struct {
		object string
		want   Verdict
	}{
		"RayCluster":                           {ray + `{headGroupSpec: {` + template + `}, workerGroupSpecs: [{groupName: g, replicas: 6, numOfHosts: 2, ` + template + `}]}}`, Never},
		"RayJob":                               {rayJob + `{headGroupSpec: {` + template + `}, workerGroupSpecs: [{groupName: g, replicas: 12, ` + template + `}]}}}`, Never},
		"LeaderWorkerSet":                      {lws + `{leaderWorkerTemplate: {size: 13, ` + worker + `}}}`, Never},
		"JobSet":                               {set + jobs("13", "1"), Never},
		"MPIJob":                               {mpi + `{mpiReplicaSpecs: {Launcher: {` + template + `}, Worker: {replicas: 12, ` + template + `}}}}`, Never},
		"PyTorchJob":                           {torch + `{pytorchReplicaSpecs: {Master: {` + template + `}, Worker: {replicas: 12, ` + template + `}}}}`, Never},
		"JobSet of Jobs that have a zone each": {exclusive(set, jobs("2", "6")), Starts},
		"JobSet of more Jobs than zones":       {exclusive(set, jobs("3", "1")), Never},
		"LeaderWorkerSet of groups that have a zone each": {exclusive(lws, `{replicas: 2, leaderWorkerTemplate: {size: 6, `+worker+`}}}`), Starts},
		"LeaderWorkerSet of more groups than zones":       {exclusive(lws, `{replicas: 3, leaderWorkerTemplate: {size: 1, `+worker+`}}}`), Never},
		// The workers have a zone, and the leader none beside them: the plan takes their rule for one that others may cease to break.
		"LeaderWorkerSet of groups larger than their zones":        {exclusive(lws, `{leaderWorkerTemplate: {size: 7, `+worker+`}}}`), Waits},
		"LeaderWorkerSet of subgroups that have a zone each":       {apart("12", "subGroupPolicy: {subGroupSize: 6}, "), Starts},
		"LeaderWorkerSet of more subgroups than zones":             {apart("3", "subGroupPolicy: {subGroupSize: 1, subGroupPolicyType: LeaderWorker}, "), Never},
		"LeaderWorkerSet whose leader is one more in a subgroup":   {apart("11", "subGroupPolicy: {subGroupSize: 5}, "), Starts},
		"LeaderWorkerSet whose leader is in no subgroup":           {apart("5", "subGroupPolicy: {subGroupSize: 2, subGroupPolicyType: LeaderExcluded}, "), Starts},
		"LeaderWorkerSet of three subgroups beside their leader":   {apart("7", "subGroupPolicy: {subGroupSize: 2, subGroupPolicyType: LeaderExcluded}, "), Never},
		"LeaderWorkerSet of subgroups of several sizes":            {apart("6", "subGroupPolicy: {subGroupSize: 4}, "), Never},
		"LeaderWorkerSet of subgroups apart that it does not have": {apart("4", ""), Never},
	} {
		t.Run(name, func(t *testing.T) {
			f := twoZones()
			f.Answers = []string{"berth", "default-scheduler"}
			r := Check(World{Facts: f, Bare: true, Model: cluster.ModelOptions{For: f.Answers}}, "default", items(t, c.object))
			if len(r.Workloads) != 1 || r.Workloads[0].Verdict != c.want {
				t.Errorf("%+v", r.Workloads)
			}
		})
	}
}

// TestAssumesQueues takes queues of KAI and Volcano that the manifests name to exist on a fleet: they are often in a file of their own.
func TestAssumesQueues(t *testing.T) {
	const pod = "{apiVersion: v1, kind: Pod, metadata: {name: p, KEYS}, spec: {schedulerName: NAME, containers: [{name: c, image: registry.example/c:1}]}}"
	of := func(scheduler, keys, more string) string {
		return strings.Replace(strings.Replace(pod, "KEYS", keys, 1), "NAME", scheduler, 1) + more
	}
	for name, c := range map[string]struct {
		dialect, objects string
		bare             bool
		want             Verdict
		said             []string
	}{
		"KAI's": {"kai", of("kai-scheduler", "labels: {kai.scheduler/queue: team}", ""), true, Starts,
			[]string{"queue team of scheduling.run.ai exists, and has quota for everything"}},
		"the parent of one of KAI's": {"kai", of("kai-scheduler", "labels: {kai.scheduler/queue: team}", "\n---\n{apiVersion: scheduling.run.ai/v2, kind: Queue, metadata: {name: team}, spec: {parentQueue: all, resources: {cpu: {quota: -1, limit: -1}}}}"), true, Starts,
			[]string{"queue all of scheduling.run.ai exists, and has quota for everything"}},
		"of a PodGroup of Volcano": {"volcano", of("volcano", "annotations: {scheduling.volcano.sh/group-name: g}", "\n---\n{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: g}, spec: {queue: team}}"), true, Starts,
			[]string{"queue team of scheduling.volcano.sh exists, and has quota for everything"}},
		"a cluster is looked into": {"kai", of("kai-scheduler", "labels: {kai.scheduler/queue: team}", ""), false, Never, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := clusterOf(2, 0)
			d := all.Find(c.dialect)
			f.Speaks, f.Answers = []string{c.dialect}, append([]string{"berth", "default-scheduler"}, d.SchedulerNames()...)
			r := Check(World{Facts: f, Bare: c.bare, Model: cluster.ModelOptions{For: f.Answers, Dialects: f.Speaks}}, "default", items(t, c.objects))
			if r.Workloads[0].Verdict != c.want {
				t.Errorf("%s: %s", r.Workloads[0].Verdict, r.Workloads[0].Summary)
			}
			if !slices.Equal(r.Assumes, c.said) {
				t.Errorf("assumed is %q, want %q", r.Assumes, c.said)
			}
		})
	}
}

// TestAssumesLocalQueues takes LocalQueues that manifests name and do not contain to exist, as other queues, where there is no cluster to look into.
func TestAssumesLocalQueues(t *testing.T) {
	const job = `
apiVersion: batch/v1
kind: Job
metadata: {name: train, labels: {kueue.x-k8s.io/queue-name: team, kueue.x-k8s.io/priority-class: high}}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: registry.example/c:1, resources: {limits: {nvidia.com/gpu: 8}}}]}}}
`
	const local, cluster1 = "LocalQueue team exists in namespace default", "ClusterQueue team exists, and has quota for everything"
	const class = "WorkloadPriorityClass high exists, with value 0"
	for name, c := range map[string]struct {
		more string
		bare bool
		want Verdict
		said []string
	}{
		"none is there":            {bare: true, want: Starts, said: []string{local, cluster1, class}},
		"its ClusterQueue is not":  {bare: true, more: "---\n{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: team, namespace: default}, spec: {clusterQueue: team}}", want: Starts, said: []string{cluster1, class}},
		"a cluster is looked into": {want: Never},
	} {
		t.Run(name, func(t *testing.T) {
			f := clusterOf(2, 0)
			f.Speaks, f.Answers = []string{"kueue"}, []string{"berth", "default-scheduler"}
			r := Check(World{Facts: f, Bare: c.bare, Model: cluster.ModelOptions{For: f.Answers, Dialects: []string{"kueue"}}}, "default", items(t, job+c.more))
			if r.Workloads[0].Verdict != c.want {
				t.Errorf("%s: %s", r.Workloads[0].Verdict, r.Workloads[0].Summary)
			}
			for _, text := range []string{local, cluster1, class} {
				if slices.Contains(r.Assumes, text) != slices.Contains(c.said, text) {
					t.Errorf("assumed is %q", r.Assumes)
				}
			}
		})
	}
}
