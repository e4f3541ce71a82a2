package kai

import "github.com/berth-dev/berth/kube/dialect"

// Fields is the table of docs/from-kai.md.
func (kai) Fields() []dialect.Field {
	const ok, differs, no = dialect.Understood, dialect.Differs, dialect.NotYet
	return []dialect.Field{
		{Kind: "Queue", Field: "spec.parentQueue", Is: ok, Note: "parent; workloads may also use a queue that has others below it"},
		{Kind: "Queue", Field: "spec.resources.gpu.quota", Is: ok, Note: "quota in GPUs, to a thousandth of one; -1 is unlimited"},
		{Kind: "Queue", Field: "spec.resources.cpu.quota", Is: ok, Note: "millicores"},
		{Kind: "Queue", Field: "spec.resources.memory.quota", Is: ok, Note: "MB, 10^6 bytes"},
		{Kind: "Queue", Field: "spec.resources.*.limit", Is: differs, Note: "-1 is none; absent or 0, nothing beyond the quota; a resource that the queue does not list is not limited"},
		{Kind: "Queue", Field: "spec.resources.gpu.overQuotaWeight", Is: differs, Note: "weight of the queue for all resources, 1 where absent or below 1"},
		{Kind: "Queue", Field: "spec.resources.cpu.overQuotaWeight", Is: no, Note: "that of gpu counts; told where they differ"},
		{Kind: "Queue", Field: "spec.priority", Is: ok, Note: "priority among siblings; 100 where absent"},
		{Kind: "Queue", Field: "spec.preemptMinRuntime, spec.reclaimMinRuntime", Is: differs, Note: "minRunTime: the longer of both, for preemption and reclaim"},
		{Kind: "Queue", Field: "status", Is: ok, Note: "childQueues, allocated, allocatedNonPreemptible, requested"},
		{Kind: "PodGroup", Field: "spec.minMember", Is: differs, Note: "decided when the workload enters its queue; later edits do not count"},
		{Kind: "PodGroup", Field: "spec.subGroups", Is: ok, Note: "subgroups with minMember, minSubGroup, parent and topologyConstraint"},
		{Kind: "PodGroup", Field: "spec.minSubGroup", Is: ok, Note: "all subgroups where absent"},
		{Kind: "PodGroup", Field: "spec.queue", Is: ok},
		{Kind: "PodGroup", Field: "spec.priorityClassName", Is: ok, Note: "priority of its pods instead of their own; 50 where the class does not exist"},
		{Kind: "PodGroup", Field: "spec.preemptibility", Is: ok, Note: "without it, priorities of 100 and above are not preemptible and stay within quota; semi-preemptible: members above the minimum may be evicted"},
		{Kind: "PodGroup", Field: "spec.topologyConstraint", Is: ok, Note: "levels by node label key or by the Topology's alias; the scheduler must know the label as a level"},
		{Kind: "PodGroup", Field: "spec.preemptionDelay", Is: ok},
		{Kind: "PodGroup", Field: "spec.stalenessGracePeriod", Is: no, Note: "one period for all: berth up --gang-grace"},
		{Kind: "PodGroup", Field: "spec.markUnschedulable, spec.schedulingBackoff", Is: no, Note: "pods that wait always say why"},
		{Kind: "PodGroup", Field: "status", Is: ok, Note: "phase, running, pending, succeeded, failed, resourcesStatus, schedulingConditions"},
		{Kind: "Topology", Field: "spec.levels", Is: ok, Note: "nodeLabel and alias"},
		{Kind: "SchedulingShard, Config, BindRequest", Field: "all", Is: no, Note: "configuration of KAI's own processes"},
		{Kind: "label", Field: "kai.scheduler/queue, runai/queue", Is: ok, Note: "on the topmost controller, then on the pod; else the label project; else default-queue"},
		{Kind: "label", Field: "kai.scheduler/subgroup-name", Is: ok},
		{Kind: "label", Field: "kai.scheduler/preemptibility", Is: ok},
		{Kind: "label", Field: "priorityClassName", Is: ok},
		{Kind: "label", Field: "kai.scheduler/node-pool", Is: no, Note: "shards"},
		{Kind: "label", Field: "user", Is: no, Note: "berth.dev/user, which an admission policy guards"},
		{Kind: "annotation", Field: "pod-group-name", Is: ok, Note: "the pod waits until the PodGroup exists"},
		{Kind: "annotation", Field: "kai.scheduler/batch-min-member", Is: ok, Note: "on a Job; a Deployment's pods are groups of their own, and it has no effect there"},
		{Kind: "annotation", Field: "kai.scheduler/min-member", Is: ok, Note: "on a StatefulSet"},
		{Kind: "annotation", Field: "kai.scheduler/topology, -required-placement, -preferred-placement", Is: ok},
		{Kind: "annotation", Field: "kai.scheduler/segment-size, segment-topology-required-placement", Is: ok},
		{Kind: "annotation", Field: "kai.scheduler/segment-topology-preferred-placement", Is: no},
		{Kind: "annotation", Field: "kai.scheduler/preemption-delay", Is: ok},
		{Kind: "annotation", Field: "kai.scheduler/staleness-grace-period", Is: no, Note: "one period for all: berth up --gang-grace"},
		{Kind: "annotation", Field: "kai.scheduler/task-priority", Is: no},
		{Kind: "annotation", Field: "gpu-fraction, gpu-memory, gpu-fraction-num-devices", Is: ok, Note: "on nodes with an agent that gives parts of GPUs"},
		{Kind: "annotation", Field: "gpu-fraction-container-name, mps", Is: no},
		{Kind: "behaviour", Field: "a PodGroup per Job, StatefulSet or pod; one per pod of a Deployment", Is: ok, Note: "Berth makes them, for kubectl get podgroups; minMember 1 unless a key says more"},
		{Kind: "behaviour", Field: "Deployments have class inference, others train", Is: ok},
		{Kind: "behaviour", Field: "Ray, Kubeflow, JobSet and LeaderWorkerSet groups", Is: differs, Note: "the object says what starts together: docs/operators.md; one PodGroup per object"},
		{Kind: "behaviour", Field: "Spark groups", Is: no, Note: "their pods are taken one by one unless they name a PodGroup"},
	}
}
