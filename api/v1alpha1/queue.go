package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BerthQueue is what workloads are charged to: what they are promised together, how much they may hold, and
// which namespaces may use it. Queues form a tree: what a queue's workloads hold counts for all queues
// above it too. A pod, or the PodGroup it is in, names its queue under the key berth.dev/queue; one
// that names none is charged to the queue that its namespace names under the same key, else to
// the queue called default, which has no quota of GPUs unless an administrator gives it one.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=bq
// +kubebuilder:printcolumn:name="Parent",type=string,JSONPath=`.spec.parent`,description="The queue above it."
// +kubebuilder:printcolumn:name="Quota",type=string,JSONPath=`.spec.resources[?(@.name=="nvidia.com/gpu")].quota`,description="GPUs that its workloads are promised together."
// +kubebuilder:printcolumn:name="Limit",type=string,JSONPath=`.spec.resources[?(@.name=="nvidia.com/gpu")].limit`,description="The most GPUs that its workloads may hold together."
// +kubebuilder:printcolumn:name="Used",type=string,JSONPath=`.status.resources[?(@.name=="nvidia.com/gpu")].used`,description="GPUs that its workloads, and those of queues below it, hold."
// +kubebuilder:printcolumn:name="Borrowed",type=string,JSONPath=`.status.resources[?(@.name=="nvidia.com/gpu")].borrowed`,description="GPUs that they hold beyond its quota."
// +kubebuilder:printcolumn:name="Waiting",type=integer,JSONPath=`.status.waiting`,description="Workloads that wait for a place."
// +kubebuilder:printcolumn:name="Wanted",type=string,JSONPath=`.status.resources[?(@.name=="nvidia.com/gpu")].wanted`,priority=1,description="GPUs that they wait for."
// +kubebuilder:printcolumn:name="Share",type=string,JSONPath=`.status.resources[?(@.name=="nvidia.com/gpu")].fairShare`,priority=1,description="GPUs that are its due now."
// +kubebuilder:printcolumn:name="Running",type=integer,JSONPath=`.status.running`,priority=1,description="Workloads that hold something."
// +kubebuilder:printcolumn:name="GPU-Hours",type=string,JSONPath=`.status.gpuHours`,priority=1,description="GPU-hours that its workloads have used."
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="metadata.name is named in labels: at most 63 characters"
// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.parent) || self.spec.parent != self.metadata.name",message="spec.parent: a queue is not below itself"
type BerthQueue struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// Spec is what the queue allows. Without it the queue is open to all, is promised nothing and
	// limits nothing.
	// +optional
	Spec QueueSpec `json:"spec,omitzero"`
	// Status is written by Berth.
	// +optional
	Status QueueStatus `json:"status,omitzero"`
}

// BerthQueueList is a list of BerthQueues.
//
// +kubebuilder:object:root=true
type BerthQueueList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []BerthQueue `json:"items"`
}

// QueueSpec is what the queue is promised and what it allows. A change holds at once for what waits. What
// runs is left alone where it is then above a limit or not allowed any more; quota that the queue lost is
// borrowed from then on.
type QueueSpec struct {
	// Parent is the queue above this one. Without it the queue is at the top. Workloads can be
	// charged to any queue, also to one with others below it.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Parent string `json:"parent,omitempty"`

	// Resources says how much of each resource the queue's workloads are promised and may hold
	// together. What is not listed is neither promised nor limited.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +listMapKey=gpuModel
	// +kubebuilder:validation:MaxItems=16
	Resources []QueueResource `json:"resources,omitempty"`

	// Weight is of the queue's part, among its siblings, of what none of them is promised or uses.
	// Default: 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65536
	Weight int32 `json:"weight,omitempty"`

	// Priority is of queues among their siblings: what is over goes to higher ones first. It does
	// not touch what a queue is promised. Default: 0.
	// +optional
	Priority int32 `json:"priority,omitempty"`

	// MaxRunning is how many workloads may run at a time, here and in the queues below together. A
	// gang is one workload. Absent: any number.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MaxRunning int32 `json:"maxRunning,omitempty"`

	// FairUsers says that the queue's users have equal parts of it: of two that wait, the one goes
	// first who holds less. A workload names its user under the key berth.dev/user.
	// +optional
	FairUsers bool `json:"fairUsers,omitempty"`

	// Budgets are what the queue's workloads may use in a period of time. One that is used up lets
	// nothing start until the next period; what runs goes on.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Budgets []QueueBudget `json:"budgets,omitempty"`

	// MinRunTime is how long a workload runs before it may be evicted for others. Absent: as the
	// scheduler is configured.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^(0|([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+)$`
	MinRunTime *metav1.Duration `json:"minRunTime,omitempty"`

	// Warning is the time from when an eviction is said on a pod until it is done. Then the pod
	// still has its termination grace period.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^(0|([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+)$`
	Warning *metav1.Duration `json:"warning,omitempty"`

	// PromoteAfter lets a workload that has waited for so long go before higher priorities of the
	// queue. Absent: never.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^(0|([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+)$`
	PromoteAfter *metav1.Duration `json:"promoteAfter,omitempty"`

	// ReclaimIdleAfter lets work be evicted, for anybody who needs its place, when its GPUs were
	// measured to do nothing for so long. Absent: never.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^(0|([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+)$`
	ReclaimIdleAfter *metav1.Duration `json:"reclaimIdleAfter,omitempty"`

	// IdleBelow is the utilisation of a GPU, in percent, below which it counts as doing nothing. Of a pod
	// with several the busiest counts. Default: 5.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	IdleBelow int32 `json:"idleBelow,omitempty"`

	// KeepDisruptionBudgets says that PodDisruptionBudgets of the queue's pods are never violated.
	// Without it that is the last resort of reclaim and preemption, as it is upstream.
	// +optional
	KeepDisruptionBudgets bool `json:"keepDisruptionBudgets,omitempty"`

	// Placement is how the queue's work, and that of the queues below it, is laid on nodes: pack (fill
	// a node before the next) or spread. Absent: as the queue above it says, then as the nodes' pool
	// does, then as the scheduler is configured.
	// +optional
	Placement QueuePlacement `json:"placement,omitempty"`

	// CountPartsBy is how much of a GPU a part of one counts in this queue and in those below it: larger
	// (the larger of its shares of the card's compute and memory), compute (its share of compute, of
	// memory where it asks for no compute) or memory. Absent: as the queue above it says, and at the
	// top larger.
	// +optional
	CountPartsBy CountPartsBy `json:"countPartsBy,omitempty"`

	// QueueingStrategy is whether work may pass work of the queue that is before it, by priority and then
	// by age, and that waits: BestEffortFIFO (it may, as long as it delays no start that was promised) or
	// StrictFIFO (it may not, while the other waits for quota or for room). Absent: BestEffortFIFO.
	// +optional
	QueueingStrategy QueueingStrategy `json:"queueingStrategy,omitempty"`

	// StopPolicy stops the queue and those below it: Hold (nothing new starts; what runs goes on) or
	// HoldAndDrain (what runs is evicted as well, unless nobody would make it again). Absent, as well
	// as None: it is open.
	// +optional
	StopPolicy StopPolicy `json:"stopPolicy,omitempty"`

	// FreezeEvictions keeps Berth from evicting anything that runs in the queue and in those below it,
	// for whatever cause: quota, priority, maximum run time, bookings, moves, drains.
	// +optional
	FreezeEvictions bool `json:"freezeEvictions,omitempty"`

	// Bookings are a calendar: times at which nodes are kept for this queue and those below it.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Bookings []QueueBooking `json:"bookings,omitempty"`

	// NamespaceSelector selects, by their labels, the namespaces whose workloads may use the
	// queue; workloads of others wait with the reason QueueForbidden. Absent, as well as empty
	// ({}): all namespaces. The label kubernetes.io/metadata.name selects a namespace by name.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn', 'Exists', 'DoesNotExist'])",message="operator must be In, NotIn, Exists or DoesNotExist"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator.endsWith('In') == (has(e.values) && size(e.values) > 0))",message="In and NotIn need values, Exists and DoesNotExist have none"
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
}

// IdleThreshold is IdleBelow, or its default.
func (s *QueueSpec) IdleThreshold() int32 {
	if s.IdleBelow > 0 {
		return s.IdleBelow
	}
	return 5
}

// QueueResource is one resource of a queue, or as much of it as is of one GPU model. Amounts of GPUs may have thousandths, such as
// 1.5 or 250m, because pods may have parts of them.
//
// +kubebuilder:validation:XValidation:rule="has(self.quota) || has(self.limit) || has(self.userLimit)",message="says nothing: want quota, limit or userLimit"
// +kubebuilder:validation:XValidation:rule="!has(self.gpuModel) || size(self.gpuModel) == 0 || self.name.endsWith('/gpu')",message="gpuModel is for GPUs alone"
// +kubebuilder:validation:XValidation:rule="!has(self.quota) || !has(self.limit) || !quantity(string(self.quota)).isGreaterThan(quantity(string(self.limit)))",message="quota must not be above limit"
// +kubebuilder:validation:XValidation:rule="!has(self.lend) || has(self.quota) && !quantity(string(self.lend)).isGreaterThan(quantity(string(self.quota)))",message="lend must not be above quota: nobody can lend more than he has"
// +kubebuilder:validation:XValidation:rule="!has(self.lend) || !has(self.gpuModel) || size(self.gpuModel) == 0",message="lend is of a resource as a whole: limit the other queues' amounts of one model instead"
// +kubebuilder:validation:XValidation:rule="!self.name.contains('/') || self.name.endsWith('/gpu') || !has(self.quota) || quantity(string(self.quota)).isInteger()",message="quota must be a whole number: nobody can have part of such a resource"
// +kubebuilder:validation:XValidation:rule="!self.name.contains('/') || self.name.endsWith('/gpu') || !has(self.limit) || quantity(string(self.limit)).isInteger()",message="limit must be a whole number: nobody can have part of such a resource"
// +kubebuilder:validation:XValidation:rule="!self.name.contains('/') || self.name.endsWith('/gpu') || !has(self.lend) || quantity(string(self.lend)).isInteger()",message="lend must be a whole number: nobody can have part of such a resource"
// +kubebuilder:validation:XValidation:rule="!self.name.contains('/') || self.name.endsWith('/gpu') || !has(self.userLimit) || quantity(string(self.userLimit)).isInteger()",message="userLimit must be a whole number: nobody can have part of such a resource"
type QueueResource struct {
	// Name of the resource as pods request it: nvidia.com/gpu, cpu, memory.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`
	Name string `json:"name"`

	// GPUModel makes the amounts those of one GPU model, such as H100: beside what is said of the
	// resource as a whole, not instead of it. A long name counts as its short one. List the
	// resource as a whole first: kubectl get shows the first entry.
	// +optional
	// +default=""
	// +kubebuilder:validation:MaxLength=63
	GPUModel string `json:"gpuModel,omitempty"`

	// Quota is what the queue's workloads are promised together. As long as they do not use it
	// others may, and it comes back when they ask for it. Absent: 0 where any queue has a quota of
	// the resource, so that all that is held is borrowed; where none has, nothing of it is promised.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!quantity(string(self)).isLessThan(quantity('0'))",message="must not be negative"
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	Quota *resource.Quantity `json:"quota,omitempty"`

	// Limit is the most that the queue's running workloads may hold of it together. 0 lets
	// nothing start that asks for any. Absent: no limit but what there is.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!quantity(string(self)).isLessThan(quantity('0'))",message="must not be negative"
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	Limit *resource.Quantity `json:"limit,omitempty"`

	// Lend is the most of the quota that others may have while it is not used. Absent: all of it.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!quantity(string(self)).isLessThan(quantity('0'))",message="must not be negative"
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	Lend *resource.Quantity `json:"lend,omitempty"`

	// UserLimit is the most that the running workloads of one user may hold of it together, in
	// this queue. Workloads that name no user count as one user's.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!quantity(string(self)).isLessThan(quantity('0'))",message="must not be negative"
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	UserLimit *resource.Quantity `json:"userLimit,omitempty"`
}

// QueueBudget is an amount of one resource, held over time, that may be used in each period.
//
// +kubebuilder:validation:XValidation:rule="duration(self.period) >= duration('1m')",message="period must be a minute or more"
type QueueBudget struct {
	// Resource as pods request it. Default: nvidia.com/gpu.
	// +optional
	// +default="nvidia.com/gpu"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`
	Resource string `json:"resource,omitempty"`

	// Hours is what may be used in a period: GPU-hours, for cpu core-hours, for memory byte-hours
	// (500Gi). What runs when they are used up goes on, and counts.
	// +kubebuilder:validation:XValidation:rule="!quantity(string(self)).isLessThan(quantity('0'))",message="must not be negative"
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	Hours resource.Quantity `json:"hours"`

	// Period is how long one lasts: 24h, 168h. Periods follow each other without a gap. Calendar
	// months, which are not of one length, are not periods.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^(0|([0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h))+)$`
	Period metav1.Duration `json:"period"`

	// From is when a period begins, and so when all begin. Absent: 1970-01-05, a Monday: days
	// begin at midnight UTC, and weeks on Mondays.
	// +optional
	From *metav1.Time `json:"from,omitempty"`
}

// QueueBooking keeps nodes for the queue for a time. Until it begins, work that is over by then may be on
// them; what is still there when it begins is evicted. It is no promise that the queue may hold more than
// its limit.
//
// +kubebuilder:validation:XValidation:rule="self.to > self.from",message="to must be after from"
type QueueBooking struct {
	// Name of the booking within the queue.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// From is when it begins.
	From metav1.Time `json:"from"`
	// To is when it ends.
	To metav1.Time `json:"to"`
	// Nodes is how many are kept: the first by name of those that the selector selects. Where there
	// are fewer, all of them.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	Nodes int32 `json:"nodes"`
	// NodeSelector selects nodes by their labels. Absent: all nodes.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
}

// QueueStatus is what the queue's workloads, and those of the queues below it, hold and ask for, as last
// counted. It follows within seconds. No decision depends on the counts; spending, budgets and promises
// are what a scheduler that takes over goes on from.
type QueueStatus struct {
	// Running is how many workloads hold something. A gang is one workload.
	// +optional
	Running int32 `json:"running,omitempty"`
	// Waiting is how many workloads have pods without a place.
	// +optional
	Waiting int32 `json:"waiting,omitempty"`
	// Resources are nvidia.com/gpu and those that spec lists, sorted; a resource as a whole comes
	// before its models.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +listMapKey=gpuModel
	Resources []QueueUse `json:"resources,omitempty"`
	// GPUHours are all that its workloads have used since the queue was first seen, to a thousandth.
	// +optional
	GPUHours *resource.Quantity `json:"gpuHours,omitempty"`
	// Spending is the same in exact numbers, and what still counts against the queue.
	// +optional
	Spending *QueueSpending `json:"spending,omitempty"`
	// Budgets are those of spec, in its order, in the period that is.
	// +optional
	// +listType=atomic
	Budgets []QueueBudgetUse `json:"budgets,omitempty"`
	// Promises are start times given to workloads of the queue that are first in line and blocked,
	// in the order of the line: 32 at most.
	// +optional
	// +listType=atomic
	Promises []QueuePromise `json:"promises,omitempty"`
	// Conditions of the queue; the types are QueueValid and QueuePromisesExceedParent.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// QueueUse is how much of one resource, or of one GPU model, is held and asked for.
type QueueUse struct {
	// Name of the resource.
	Name string `json:"name"`
	// GPUModel that the amounts are of; empty: the resource as a whole.
	// +optional
	// +default=""
	GPUModel string `json:"gpuModel,omitempty"`
	// Used is what pods that have a node hold, until they are gone.
	Used resource.Quantity `json:"used"`
	// Wanted is what pods without a place ask for.
	Wanted resource.Quantity `json:"wanted"`
	// Borrowed is what is used beyond the quota; absent where no queue has a quota of the resource.
	// +optional
	Borrowed *resource.Quantity `json:"borrowed,omitempty"`
	// Lent is what others hold of the quota that this queue does not use.
	// +optional
	Lent *resource.Quantity `json:"lent,omitempty"`
	// FairShare is what is the queue's due now: its quota as far as it asks for it, and its part of
	// what is over.
	// +optional
	FairShare *resource.Quantity `json:"fairShare,omitempty"`
}

// QueueSpending is what the queue has used, as of a time.
type QueueSpending struct {
	// At is when it was counted.
	At metav1.Time `json:"at"`
	// TotalSeconds are GPU-seconds since the queue was first seen.
	TotalSeconds int64 `json:"totalSeconds"`
	// DecayedSeconds are GPU-seconds, halved for every half-life that has passed since.
	DecayedSeconds int64 `json:"decayedSeconds"`
	// Users are those whose use still counts, where the queue treats its users alike: the 256 who
	// used most, by name.
	// +optional
	// +listType=map
	// +listMapKey=user
	Users []QueueUserSpending `json:"users,omitempty"`
}

// QueueUserSpending is what one user of the queue has used of it.
type QueueUserSpending struct {
	// User whose workloads they were; empty: nobody's in particular.
	User string `json:"user"`
	// DecayedSeconds are GPU-seconds, halved for every half-life that has passed since.
	DecayedSeconds int64 `json:"decayedSeconds"`
}

// QueueBudgetUse is how much of one budget is used up.
type QueueBudgetUse struct {
	// Resource of the budget.
	Resource string `json:"resource"`
	// From is when the period began.
	From metav1.Time `json:"from"`
	// To is when it ends, and the budget is whole again.
	To metav1.Time `json:"to"`
	// SpentHours is what was used in the period, to a thousandth, and Hours what may be.
	SpentHours resource.Quantity `json:"spentHours"`
	// Hours is what may be used in the period.
	Hours resource.Quantity `json:"hours"`
	// SpentSeconds is what was used, exactly: of GPUs in GPU-seconds, of cpu in thousandths of a
	// core-second, of memory in byte-seconds.
	SpentSeconds int64 `json:"spentSeconds"`
}

// QueuePromise is a start time given to a workload. Nothing that was started since delays it.
type QueuePromise struct {
	// Workload is its key: namespace/name of a pod by itself, namespace/gang/name of a gang,
	// namespace/podgroup/name of a PodGroup.
	Workload string `json:"workload"`
	// Since is when the promise was given.
	Since metav1.Time `json:"since"`
	// Start is when the workload starts at the latest, as long as nothing breaks; it may be sooner.
	Start metav1.Time `json:"start"`
}

// QueueValid is the type of the condition that says whether the spec can be carried out; its
// message says what is wrong: a selector that makes no sense, a parent that does not exist, parents
// that form a circle, a quota above its limit. A queue that is not valid is open to nobody.
const QueueValid = "Valid"

// QueuePromisesExceedParent is the type of the condition that is True of a queue when those below it
// are promised more together than it is. They work; not all of them can have what they are promised
// at a time.
const QueuePromisesExceedParent = "PromisesExceedParent"

// MaxPromises is how many promises there are in a status at most.
const MaxPromises = 32

// DefaultQueue is the name of the queue that workloads are charged to when neither they nor their
// namespaces name one.
const DefaultQueue = "default"

// NewDefaultQueue returns the default queue as Berth creates it: it has no quota of the GPU resource, so that
// all GPUs of its workloads are borrowed.
func NewDefaultQueue(gpu string) *BerthQueue {
	return &BerthQueue{
		TypeMeta:   metav1.TypeMeta{APIVersion: GroupVersion.String(), Kind: QueueKind},
		ObjectMeta: metav1.ObjectMeta{Name: DefaultQueue},
		Spec:       QueueSpec{Resources: []QueueResource{{Name: gpu, Quota: resource.NewQuantity(0, resource.DecimalSI)}}},
	}
}
