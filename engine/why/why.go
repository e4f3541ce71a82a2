// Package why is the vocabulary of explanations: verdicts, causes, gates and certificates, as plain
// values. The engine fills them, and everything that answers "why is it pending" uses them. The package
// decides nothing; it makes the sentences, which are made nowhere else.
package why

import "time"

// Verdict is the engine's answer about a workload.
type Verdict string

const (
	Placed      Verdict = "placed"
	Blocked     Verdict = "blocked"     // a gate before placement is shut: quota, members that do not exist yet
	Impossible  Verdict = "impossible"  // proved: the certificate shows it
	NotFound    Verdict = "not-found"   // the search ended at its budget; a place may exist
	Unsupported Verdict = "unsupported" // the workload asks for something the engine does not decide yet, by name
	Invalid     Verdict = "invalid"     // the object contradicts itself; it was rejected
	Absent      Verdict = "absent"      // no workload of that name
)

// Cause is the code of one reason to wait. Codes are a contract: they are added, never renamed.
type Cause string

const (
	ClusterFull          Cause = "cluster-full"           // nodes match, and too little is free on them in all
	Fragmented           Cause = "fragmented"             // enough is free in all, too little on any one node
	TopologyFragmented   Cause = "topology-fragmented"    // enough fits in all, too little in any one domain
	LargerThanAnyNode    Cause = "larger-than-any-node"   // one pod does not fit on an empty matching node
	Stranded             Cause = "cpu-or-memory-stranded" // GPUs are free where another resource is not
	PodRules             Cause = "pod-rules"              // rules between pods keep it from nodes that have room
	NoMatchingNode       Cause = "no-matching-node"       // selectors, taints and the like leave no node
	GangIncomplete       Cause = "gang-incomplete"        // members that the minimum needs do not exist
	GangMissing          Cause = "gang-missing"           // the pods name a gang that does not exist
	GroupMissing         Cause = "group-missing"          // a pod names a subgroup that its gang does not have
	QueueMissing         Cause = "queue-missing"          // the queue does not exist
	QueueForbidden       Cause = "queue-forbidden"        // the queue is not for the workload's namespace
	QueueStopped         Cause = "queue-stopped"          // an operator stopped the queue, or one above it
	WorkloadHeld         Cause = "workload-held"          // the workload is held back on purpose
	OverQueueLimit       Cause = "over-queue-limit"       // the queue's limit is reached by what runs
	ExceedsQueueMaximum  Cause = "exceeds-queue-maximum"  // larger than the limit of an empty queue: never
	OverUserLimit        Cause = "over-user-limit"        // the user's limit in the queue is reached by what runs
	QueueBusy            Cause = "queue-busy"             // as many workloads of the queue run as may
	OverBudget           Cause = "over-budget"            // the queue has used up its budget for the period
	OverQuota            Cause = "over-quota"             // it may not be evicted, and so may not borrow beyond the queue's quota
	NotLent              Cause = "not-lent"               // what is free is other queues' quota that they do not lend
	MakingRoom           Cause = "making-room"            // what it waits for is being freed for it
	KeptForPromise       Cause = "kept-for-promise"       // it fits, and would delay what was promised to one before it
	KeptByBooking        Cause = "kept-by-booking"        // it fits, on nodes that are booked for another queue before it is over
	BehindTheHead        Cause = "behind-the-head"        // one before it in its queue is blocked and may not be passed
	UnknownTopologyLevel Cause = "unknown-topology-level" // no node has a domain at the level asked for
	SearchBudget         Cause = "search-budget"          // not found within the budget
	UnsupportedFeature   Cause = "unsupported-feature"    // see Gate.Object for which
	InvalidObject        Cause = "invalid-object"         // see Gate.Object for why
)

// Feature is something a pod may ask for that the engine does not decide yet. A pod with one waits as
// Unsupported; it is never placed as if it had not asked.
type Feature string

const (
	PodAffinity     Feature = "pod-affinity"
	PodAntiAffinity Feature = "pod-anti-affinity"
	TopologySpread  Feature = "topology-spread"
	MIG             Feature = "mig"
	Fraction        Feature = "gpu-fraction"
	Claims          Feature = "resource-claims"

	// Devices of resource claims that are not decided, where no others would do.
	SharedDevices Feature = "devices-of-several-nodes"
	NodeResources Feature = "devices-with-node-resources" // of which a claim takes cpu or memory of the node besides
)

// Amount is a quantity of one resource: milli-CPU for cpu, bytes for memory and storage, else a count.
type Amount struct {
	Resource string `json:"resource"`
	Value    int64  `json:"value"`
	Milli    int64  `json:"milli,omitempty"` // thousandths above Value, 0 to 999: of GPUs in queues alone
}

// Gate is one thing that stands between a workload and its start, with the numbers that say so.
// Which fields are set depends on the cause; numbers are in units of Resource, or pods where it is "".
type Gate struct {
	Cause    Cause  `json:"cause"`
	Object   string `json:"object,omitempty"`   // queue, gang, subgroup, level or feature that the gate is about
	Resource string `json:"resource,omitempty"` //
	Need     int64  `json:"need,omitempty"`     // what the workload asks of the gate
	Have     int64  `json:"have,omitempty"`     // what there is of it
	Limit    int64  `json:"limit,omitempty"`    // of a queue
	// Milli says that Need, Have and Limit are in thousandths of Resource: one of them is no whole number.
	Milli bool `json:"milli,omitempty"`
	// Share is set where work could be evicted for the workload, and is not because one of its queues would have more than its fair
	// share with it.
	Share Share `json:"share,omitzero"`
	// Certificate is the index, in the plan's or explanation's list, of the certificate that proves this
	// gate; -1 where the numbers above are all there is to say.
	Certificate int `json:"certificate"`
}

// Groups is the Resource of a gate of GangIncomplete that counts groups: fewer are there than must start. Without it members are counted.
const Groups = "groups"

// Share is the fair share of a queue that a workload would have it exceed.
type Share struct {
	Queue    string `json:"queue"`
	Resource string `json:"resource"`
	Fair     int64  `json:"fair"`            // the share
	With     int64  `json:"with"`            // what the queue would have with the workload
	Milli    bool   `json:"milli,omitempty"` // Fair and With are in thousandths of Resource
}

// Certificate proves that Need pods of one class fit nowhere, by counting. It claims per-node constraints
// alone: on every node Fits pods is the most that go there, so a domain holds at most the sum of its rows.
// Every node of the cluster is in exactly one row.
type Certificate struct {
	Need    int    `json:"need"`              // pods that must be placed, all in one domain of Level
	Level   string `json:"level,omitempty"`   // "": anywhere in the cluster
	Pinned  string `json:"pinned,omitempty"`  // the domain that members already run in, and so the only one that counts
	Segment int    `json:"segment,omitempty"` // pods are placed in segments of this size, each within one domain of SegmentLevel
	// SegmentLevel is "" without segments. A domain then holds the sum over its segment domains of
	// floor(fits/Segment) whole segments.
	SegmentLevel string   `json:"segmentLevel,omitempty"`
	Request      []Amount `json:"request"`           // of one pod, sorted by resource
	Model        string   `json:"model,omitempty"`   // GPU model asked for
	Flavors      []string `json:"flavors,omitempty"` // of nodes that alone count, sorted; their labels are among what is asked for
	Domains      []Domain `json:"domains"`           // sorted by name; nodes outside any domain of Level are in the one named ""
	Classes      []Class  `json:"classes"`           // rows refer to these by index
	Total        int64    `json:"total"`             // pods that fit in the whole cluster, domains aside
	// IfEvicted is the most that could fit in the best domain if everything that may be evicted, and
	// everything on its way out, were gone: a bound by resources alone. Under Need, no eviction helps.
	IfEvicted int64 `json:"ifEvicted"`
}

// Domain is one topology domain: how many pods fit in it, and why not more.
type Domain struct {
	Name     string `json:"name"` // path from the widest level, joined by "/"
	Fits     int64  `json:"fits"`
	Segments int64  `json:"segments,omitempty"` // whole segments that fit, where the workload has segments
	Rows     []Row  `json:"rows"`               // sorted by class
}

// Row is the nodes of one class in one domain.
type Row struct {
	Class   int      `json:"class"`
	Nodes   int      `json:"nodes"`
	Fits    int64    `json:"fits"`
	Example string   `json:"example"`           // the first of the nodes by name
	Removed []Clause `json:"removed,omitempty"` // clauses that exclude nodes whatever is free on them, sorted
	Short   []Short  `json:"short,omitempty"`   // resources too short for one pod, sorted by resource
}

// Class is a kind of node, as far as this workload can tell nodes apart.
type Class struct {
	Labels      []string `json:"labels,omitempty"` // "key=value" of the keys that the pods ask about, sorted; values that are the node's own name are left out
	Taints      []string `json:"taints,omitempty"` // "key=value:effect", sorted
	Cordoned    bool     `json:"cordoned,omitempty"`
	Allocatable []Amount `json:"allocatable"`
	Models      []string `json:"models,omitempty"` // of its devices, sorted, each once
	PerEmpty    int64    `json:"perEmpty"`         // pods that its allocatable and its devices hold, clauses aside; 0: not one, ever
}

// What a pod asks of a part of a GPU, in Certificate.Request; in Class.Allocatable it is what the largest card of the node has, and
// how many cards there are. They are no resources of Kubernetes.
const (
	CardMemory  = "gpu-memory"  // MiB of one card
	CardShare   = "gpu-share"   // thousandths of the memory of one card
	CardCompute = "gpu-compute" // thousandths of the compute of one card
	Cards       = "gpu-cards"   // that parts are of
)

// Details of a clause ByParts. UnknownCards: somebody on the node has GPUs, and nobody said which. SmallCards: its cards would not do
// if they were empty.
const (
	UnknownCards = "unknown"
	SmallCards   = "size"
)

// ClauseKind is which part of a pod, or of its place, excluded a node.
type ClauseKind string

const (
	BySelector  ClauseKind = "selector"      // Detail: the requirement
	ByAffinity  ClauseKind = "affinity"      // no required term matches
	ByTaint     ClauseKind = "taint"         // Detail: the taint that is not tolerated
	ByCordon    ClauseKind = "cordon"        //
	ByNodeName  ClauseKind = "node-name"     // Detail: the name asked for
	ByNodeSet   ClauseKind = "allowed-nodes" // not among the nodes its volumes allow
	ByPort      ClauseKind = "host-port"     // Detail: the first port taken
	ByModel     ClauseKind = "gpu-model"     // Detail: the model asked for
	ByNamed     ClauseKind = "gpu-named"     // no GPU that the pod may use, by name or model, or none that is free; Detail: which it may use
	ByIsland    ClauseKind = "gpu-island"    // devices are free, but not in one NVLink clique or NUMA node
	ByWholeNode ClauseKind = "whole-node"    // Detail: the workload that has, or spoils, the whole node
	ByDevices   ClauseKind = "devices"       // no devices that match its resource claims, or too few; Detail: the requests
	// The node gives its GPUs through resource claims, and the pod has none.
	ByClaimsOnly ClauseKind = "claims-only"
	ByHeld       ClauseKind = "devices-held" // there are such devices, and others hold too many of them; Detail: the requests
	// ByWholeOnly, ByParts and ByShared are about parts of GPUs: the node gives none, or has too little left on its cards (Detail:
	// memory, compute, pods, whole, size or unknown), or its cards are given away in parts to others while the pod wants whole ones.
	ByWholeOnly ClauseKind = "gpu-whole-only"
	ByParts     ClauseKind = "gpu-parts"
	ByShared    ClauseKind = "gpu-shared"
	ByRefusal   ClauseKind = "refused"   // Detail: the reason of the refusal
	ByNominated ClauseKind = "nominated" // room is kept for nominated pods of the same or higher priority

	// Rules between pods. Detail: the rule, as selector and topology key, and for some of the domains that it closes what closes
	// them, with the domain. The pod that is in the way, where there is one, is the word before " in ".
	ByPodAffinity        ClauseKind = "pod-affinity"            // no pod that it must be near is in the node's domain
	ByPodAntiAffinity    ClauseKind = "pod-anti-affinity"       // a pod that it must be away from is
	ByOthersAntiAffinity ClauseKind = "anti-affinity-of-others" // a pod is that must be away from it
	BySpread             ClauseKind = "topology-spread"         // the domain has more pods than its constraint admits
	ByPodsToCome         ClauseKind = "pods-to-come"            // a pod that has a place held, or is nominated, would lose it by its rule
)

// Clause excluded Nodes nodes of a row.
type Clause struct {
	Kind   ClauseKind `json:"kind"`
	Detail string     `json:"detail,omitempty"`
	Nodes  int        `json:"nodes"`
}

// Short is a resource of which Nodes nodes of a row have too little free for one pod, whether or not a
// clause excludes them too.
type Short struct {
	Resource string `json:"resource"`
	Nodes    int    `json:"nodes"`
	By       int64  `json:"by"` // the smallest shortage among them
}

// Explanation is why one workload waits or runs, as of one moment.
type Explanation struct {
	Workload     string        `json:"workload"`
	Now          time.Time     `json:"now"`
	Verdict      Verdict       `json:"verdict"`
	Cause        Cause         `json:"cause,omitempty"` // the gate that binds first; "" when placed
	Ahead        int           `json:"ahead"`           // workloads planned before it in this cycle
	Gates        []Gate        `json:"gates,omitempty"` // all that are shut, the binding one first
	Certificates []Certificate `json:"certificates,omitempty"`
	// Releasing is what terminating pods give back on nodes that match, by ReleasedBy at the latest.
	Releasing  []Amount  `json:"releasing,omitempty"`
	ReleasedBy time.Time `json:"releasedBy,omitzero"`
	Steps      int       `json:"steps,omitempty"` // search steps used of the budget
}
