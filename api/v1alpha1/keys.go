package v1alpha1

// The keys by which people ask, on a pod or a PodGroup. Each but KeyUser is read as an annotation or, where there is
// none, as a label. Space around a value does not count, and an empty value is as none.
const (
	KeyPrefix = "berth.dev/"

	KeyQueue    = KeyPrefix + "queue"
	KeyGang     = KeyPrefix + "gang"     // name of the gang within the namespace
	KeySubgroup = KeyPrefix + "subgroup" // name of a part of the gang; serve/decode: of a part of a part
	// KeyMinSubgroups is how many of its subgroups a gang must start with: a number, and serve=2 for those in a subgroup.
	KeyMinSubgroups = KeyPrefix + "min-subgroups"
	// KeySubgroupTopology is the level that the pod's subgroup must share: a level, and serve=block for all in a subgroup.
	KeySubgroupTopology = KeyPrefix + "subgroup-topology"

	KeyMin               = KeyPrefix + "min"                // members that start together
	KeySize              = KeyPrefix + "size"               // members that there will be
	KeyTopologyRequired  = KeyPrefix + "topology-required"  // a level, or a node label key
	KeyTopologyPreferred = KeyPrefix + "topology-preferred" // the same
	KeySegment           = KeyPrefix + "segment"            // size@level
	KeySpread            = KeyPrefix + "spread"             // a level
	KeyWholeNodes        = KeyPrefix + "whole-nodes"        // true or false
	KeyBalanced          = KeyPrefix + "balanced"           // true or false

	KeyGPUModel = KeyPrefix + "gpu-model" // alternatives, best first, with commas between; or SameGPUModel
	// KeyGPUAlignment is what the pod's GPUs must have in common on their node: nvlink, numa, or both with a comma between.
	// numa=preferred is a wish.
	KeyGPUAlignment = KeyPrefix + "gpu-alignment"
	KeyGPUFraction  = KeyPrefix + "gpu-fraction"
	KeyGPUMemory    = KeyPrefix + "gpu-memory"

	// SameGPUModel is the value of KeyGPUModel of a gang whose GPUs are of one model, whichever it is.
	SameGPUModel = "same"

	LabelExperiment    = KeyPrefix + "experiment"       // which experiment a pod is of; a label: `berth cost --by experiment`
	KeyUser            = KeyPrefix + "user"             // whose work it is; an annotation: kube/policy/manifests/user.yaml
	KeyHold            = KeyPrefix + "hold"             // true or operator: it does not begin until it is released
	KeyPreemptible     = KeyPrefix + "preemptible"      // true, false or surplus
	KeyExpectedRun     = KeyPrefix + "expected-run"     // how long it runs: 90m
	KeyMaxRun          = KeyPrefix + "max-run"          // after so long it is ended
	KeyCheckpoint      = KeyPrefix + "checkpoint"       // how often it saves its work
	KeyRestartCost     = KeyPrefix + "restart-cost"     // how long it takes to be where it was
	KeyPreemptionDelay = KeyPrefix + "preemption-delay" // how long it waits before others are evicted for it
	// KeyDeadline carries the time that a Job gives all its pods to them, beside what these say themselves.
	KeyDeadline = KeyPrefix + "job-deadline"

	// KeyEvictAt is on a pod that is warned: when it will be evicted, in RFC 3339 and UTC. Whoever has saved the pod's work before
	// then, such as its trainer, puts the same value under KeyCheckpointed, and the wait is over: of a gang once all its members
	// that are warned say so. A value of another warning counts for nothing.
	KeyEvictAt      = KeyPrefix + "evict-at"
	KeyCheckpointed = KeyPrefix + "checkpointed"
	// KeySurge is on a pod that is moved and stays until the next one is ready: a Surge.
	KeySurge = KeyPrefix + "surge"
	// KeyFreeze is an annotation of namespace SystemNamespace. true: Berth evicts nothing in the whole cluster, from queues too
	// that are made later. Anything but false, or nothing, is taken for true: rather nothing ends than what somebody meant to keep.
	KeyFreeze = KeyPrefix + "freeze-evictions"
	// KeyQueues is on a namespace: the queues that it may use, as the scheduler writes it.
	KeyQueues = KeyPrefix + "queues"
	// KeyWantedGPUs is on a binding, and so on the pod: a JSON list of device IDs.
	KeyWantedGPUs = KeyPrefix + "wanted-gpus"
	// KeyLease is on a binding, and so on the pod: by which lease its scheduler leads, NAME/UID/TRANSITIONS/HOLDER.
	KeyLease = KeyPrefix + "lease"
)

// HoldByOperator is the value of KeyHold that the policy berth-hold guards: only who may "hold" the workloads of a namespace
// (apiGroup berth.dev) writes it and takes it away. It counts whatever else a workload says.
const HoldByOperator = "operator"

// SystemNamespace is where the scheduler's own objects are, and what an operator says about all of the cluster.
const SystemNamespace = "kube-system"

// KeyTerms and KeySeal are annotations in which a Binding carries the Record of a pod that starts at once, and its seal. The
// API server copies them onto the pod in the same write that gives the pod its node, so a bound pod has its terms whenever
// the process dies.
//
// An annotation can be edited by whoever may edit the pod, which a condition cannot. Two things make up for that: the seal,
// without which the record counts for nothing, and the policy berth-terms, which keeps both from being removed.
const (
	KeyTerms = KeyPrefix + "terms"
	KeySeal  = KeyPrefix + "terms-seal"
)

// PodIdle is the type of a pod's condition: since its last transition, while it is True, the pod's GPUs have been
// measured to do nothing. It is a condition because only who may write the status of pods can set it: whoever runs the node,
// and not the pod's author.
const PodIdle = KeyPrefix + "Idle"

// The annotations by which the fleet keeps its books on objects.
const (
	// KeyGPUs is on a pod: which GPUs it was given, as JSON by container. The scheduler reads it too.
	KeyGPUs = KeyPrefix + "gpus"
	// KeyGPUTopology is on a Node: where its GPUs lie, as a JSON list of GPUPlace. The scheduler reads it; on nodes that are
	// not of the fleet, people write it.
	KeyGPUTopology = KeyPrefix + "gpu-topology"
	// KeyLaunchedFor is on a Node: the workload that it was launched for, as namespace/name. The scheduler keeps the node for it
	// until it has started, or the node is 15 minutes old. Whoever makes nodes may write it.
	KeyLaunchedFor = KeyPrefix + "launched-for"
	// KeyLeavesAt is on a Node: when it goes away for good, as RFC 3339 has it. Until then the scheduler starts nothing there that would
	// not be over, unless it saves its state; then it evicts what runs, with the warning of its queue.
	KeyLeavesAt = KeyPrefix + "leaves-at"
	// KeyLeavesWith is on a Node that goes away: with what, as people read it: "reservation block".
	KeyLeavesWith = KeyPrefix + "leaves-with"
	// LeavesWithReservation begins the value of KeyLeavesWith on nodes whose reservation ends.
	LeavesWithReservation = "reservation "
	// KeyCordonedFor is on a Node that the scheduler has cordoned for its maintenance: the time under KeyLeavesAt that had come.
	KeyCordonedFor = KeyPrefix + "cordoned-for"
	// KeyDevicePluginResource is on a Node: the resource that a device plugin has registered there.
	KeyDevicePluginResource = KeyPrefix + "device-plugin-resource"
	// KeyMIG is on a Node: what MIG has made of its GPUs, as JSON by index.
	KeyMIG = KeyPrefix + "mig"
	// KeyApplied is on a Node of the fleet: what its pool last gave it.
	KeyApplied = KeyPrefix + "applied"
	// KeyRegisterWithTaints is on a Machine: the taints that its kubelet registers its node with, as --register-with-taints has them:
	// key=value:Effect, with commas between.
	KeyRegisterWithTaints = KeyPrefix + "register-with-taints"
	// KeyFleetInstalled is on the definition of Pools: the first installation came to its end.
	KeyFleetInstalled = KeyPrefix + "fleet-installed"
)

// GPUPlace is one GPU of a node, in the list under KeyGPUTopology.
type GPUPlace struct {
	ID        string `json:"id,omitempty"`        // its UUID, as KeyGPUs has it; all GPUs of a node have one, or none
	NUMA      *int   `json:"numa,omitempty"`      // the number of its NUMA node; nil: not known
	NVLink    string `json:"nvlink,omitempty"`    // GPUs of a node with the same name reach each other over NVLink; "": none
	Unhealthy bool   `json:"unhealthy,omitempty"` // it is not among those that the node offers
	Memory    int64  `json:"memory,omitempty"`    // MiB; 0: not known
	// Parts is how many pods may have a part of it at a time, where an agent on the node gives each pod the parts that its
	// annotation KeyWantedGPUs names and keeps it to its memory; 0: it is given whole only.
	Parts int `json:"parts,omitempty"`
}
