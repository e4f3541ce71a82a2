package volcano

import "github.com/berth-dev/berth/kube/dialect"

// Fields is the table of docs/from-volcano.md.
func (volcano) Fields() []dialect.Field {
	const ok, differs, no = dialect.Understood, dialect.Differs, dialect.NotYet
	return []dialect.Field{
		{Kind: "Queue", Field: "metadata.name", Is: differs, Note: "default is volcano-default in berth queue: Berth has a queue of that name"},
		{Kind: "Queue", Field: "spec.weight", Is: ok, Note: "part of what no queue is promised or uses, among queues of the same parent"},
		{Kind: "Queue", Field: "spec.deserved", Is: ok, Note: "quota: what others hold of it is reclaimed; root has at least what the queues right below it have"},
		{Kind: "Queue", Field: "spec.capability", Is: ok, Note: "limit"},
		{Kind: "Queue", Field: "spec.guarantee.resource", Is: ok, Note: "quota that is not lent"},
		{Kind: "Queue", Field: "spec.parent", Is: ok, Note: "without one, below root where a Queue root exists; workloads may also use a queue that has others below it"},
		{Kind: "Queue", Field: "spec.priority", Is: ok, Note: "what is over goes to queues of higher priority first"},
		{Kind: "Queue", Field: "spec.reclaimable", Is: ok, Note: "false: what its workloads hold beyond what it deserves is not reclaimed for other queues; within it higher priorities preempt"},
		{Kind: "Queue", Field: "spec.dequeueStrategy", Is: ok, Note: "traverse; fifo: a workload that waits for quota or for room holds up those behind it"},
		{Kind: "Queue", Field: "deviceclass/*, cores.deviceclass/*, memory.deviceclass/* in amounts", Is: no, Note: "told: devices of claims are not counted by class"},
		{Kind: "Queue", Field: "spec.affinity", Is: differs, Note: "its workloads are on nodes of the groups that it names by the label volcano.sh/nodegroup-name, and so are those of queues below it that have none; a queue without one may have all nodes, those of groups too"},
		{Kind: "Queue", Field: "volcano.sh/nodegroup-resource-limits", Is: no, Note: "told"},
		{Kind: "Queue", Field: "spec.extendClusters, spec.type", Is: no},
		{Kind: "Queue", Field: "volcano.sh/hierarchy, volcano.sh/hierarchy-weights", Is: differs, Note: "root/a or root/a/b with whole weights: the queue is below one that the path implies, hierarchy-a; deeper paths are told, and spec.parent counts before them"},
		{Kind: "Queue", Field: "status", Is: differs, Note: "state Open, allocated, running and pending; queues are not closed"},
		{Kind: "PodGroup", Field: "spec.minMember", Is: differs, Note: "decided when the workload enters its queue; later edits do not count"},
		{Kind: "PodGroup", Field: "spec.minTaskMember", Is: differs, Note: "a subgroup for each task, by the key volcano.sh/task-spec; pods of a task without a minimum are scheduled by themselves, and spec.minMember above the sum is told"},
		{Kind: "PodGroup", Field: "spec.minResources", Is: differs, Note: "not needed: a gang starts when its pods find places"},
		{Kind: "PodGroup", Field: "spec.queue", Is: ok, Note: "default where absent"},
		{Kind: "PodGroup", Field: "spec.priorityClassName", Is: ok, Note: "priority of its pods instead of their own, where the class exists"},
		{Kind: "PodGroup", Field: "spec.networkTopology", Is: ok, Note: "hard: all pods in one HyperNode of the highest tier that is allowed; soft: in one of the lowest tier, if they fit"},
		{Kind: "PodGroup", Field: "spec.subGroupPolicy", Is: differs, Note: "a policy with a size and a hard networkTopology: segments of so many of the pods that it selects, by rank; several policies where each selects one task of spec.minTaskMember. minSubGroups that come to another number than the minimum are told, and several policies otherwise"},
		{Kind: "PodGroup", Field: "status", Is: ok, Note: "phase, conditions Unschedulable and Scheduled, running, succeeded, failed"},
		{Kind: "HyperNode", Field: "spec.tier, spec.tierName", Is: ok, Note: "each tier is one level of the scheduler's topology: the one whose label divides nodes alike, else one that no node has a label of; where none is left, PodGroups that require it wait"},
		{Kind: "HyperNode", Field: "spec.members", Is: ok, Note: "exactMatch, regexMatch and labelMatch; a node is in the first HyperNode of a tier, by name, that has it"},
		{Kind: "Job (batch.volcano.sh)", Field: "all", Is: no, Note: "no controller of Berth's makes pods of them; pods that Volcano's own controller makes are read"},
		{Kind: "annotation", Field: "scheduling.volcano.sh/group-name, scheduling.k8s.io/group-name", Is: ok, Note: "the pod waits until the PodGroup exists"},
		{Kind: "annotation", Field: "scheduling.volcano.sh/group-min-member", Is: ok, Note: "on the controller of pods that name no PodGroup"},
		{Kind: "annotation", Field: "scheduling.volcano.sh/group-min-resources", Is: differs, Note: "not needed, as spec.minResources"},
		{Kind: "annotation", Field: "scheduling.volcano.sh/queue-name", Is: ok, Note: "where the pod names no PodGroup"},
		{Kind: "annotation, label", Field: "volcano.sh/queue-name", Is: ok, Note: "the same"},
		{Kind: "annotation, label", Field: "volcano.sh/task-spec", Is: ok, Note: "with spec.minTaskMember"},
		{Kind: "annotation, label", Field: "volcano.sh/preemptable", Is: differs, Note: "without it a pod can be preempted"},
		{Kind: "annotation, label", Field: "volcano.sh/* otherwise", Is: no, Note: "told; among them cooldown-time, revocable-zone, jdb-min-available, sla-waiting-time, numa-topology-policy, vgpu-podgroup-policy"},
		{Kind: "resource", Field: "volcano.sh/vgpu-number, vgpu-memory, vgpu-memory-percentage, vgpu-cores", Is: differs, Note: "parts of GPUs on nodes of Volcano's device plugin for vGPUs, as its scheduler gives them. Several containers of a pod have GPUs of their own, and each counts as the largest, which is told. Cards in use are filled first"},
		{Kind: "annotation", Field: "volcano.sh/vgpu-mode", Is: differs, Note: "hami-core; mig is told: GPUs that MIG divides as pods ask get no pods"},
		{Kind: "annotation", Field: "volcano.sh/vgpu-use-gpuuuid, vgpu-nouse-gpuuuid, nvidia.com/use-gputype, nouse-gputype", Is: ok},
		{Kind: "behaviour", Field: "pods that name Berth and have keys of the project", Is: ok, Note: "read like those that name its scheduler"},
		{Kind: "label", Field: "ray.io/priority-class-name", Is: ok, Note: "on Ray's objects: priority of their pods, where the class exists"},
		{Kind: "behaviour", Field: "RayClusters with the label volcano.sh/queue-name", Is: differs, Note: "their pods get the scheduler volcano by an admission policy of --dialect, as KubeRay's operator does it where it is told to; the labels for the network topology are told"},
		{Kind: "behaviour", Field: "a PodGroup for pods that name none", Is: ok, Note: "Berth makes it, for kubectl get podgroups, with minMember 1 unless the controller says more"},
	}
}
