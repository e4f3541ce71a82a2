package dialect

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// Dialect reads one project's objects for the scheduler. Its methods are pure: the same arguments give the same answer, and
// nothing that they are given is written to. Objects are hostile: every list that is kept has a bound.
//
// What it reads becomes values of Berth's own: a queue, and keys under berth.dev/ (api/v1alpha1/keys.go) that count for a
// pod as if its controller had them, below the berth.dev keys of the pod and of its controllers. A dialect that needs
// something no key expresses says so in Unread.
type Dialect interface {
	// Name switches it on: kai, volcano, kueue, coscheduling.
	Name() string
	// SchedulerNames are what the project's users put into spec.schedulerName; none where they keep their own (Kueue).
	SchedulerNames() []string
	// Kinds are what it reads, those first without which it makes no sense: it is in use where the first is served.
	Kinds() []Kind
	// Domains are those of the keys of labels and annotations that ask for something: kai.scheduler covers
	// kai.scheduler/queue and any.kai.scheduler/queue. Keys in them that Pod did not read are told to the pod's author.
	Domains() []string
	// Trim drops, in place, what Read does not need. Metadata's managed fields are gone already.
	Trim(*unstructured.Unstructured)
	// Read says what an object of one of Kinds is. It is asked again when an object of a kind that is not Grouping changes.
	Read(o *unstructured.Unstructured, w World) Object
	// Pod says how the pod is to be scheduled. It is asked for pods with one of SchedulerNames, and for all that Berth schedules:
	// those are the dialect's that have a key in one of Domains, or whose controllers have. nil: it has nothing to say of this one.
	Pod(p *Pod, w World) *Terms
	// Fields is the table of what is understood, for the page docs/from-NAME.md.
	Fields() []Field
	// Install is what an embedded cluster gets that is to look as if the project were installed.
	Install() Install
}

// Kind is a kind of another project's.
type Kind struct {
	schema.GroupVersionKind
	Plural     string
	Namespaced bool
	// Grouping is of a kind of which there are about as many objects as workloads. Read must not look at others through World.
	Grouping bool
	// Status says that Read looks at the object's status too.
	Status bool
}

// Name is the kind without its version, as World has it: Queue.scheduling.run.ai.
func (k Kind) Name() string { return k.Kind + "." + k.Group }

// World is what is known of the rest of the cluster.
type World interface {
	// Object is what Read said of an object, nil for none. namespace is "" for kinds without.
	Object(kind, namespace, name string) *Object
	// Objects are all of the kind in the namespace, "" for all, by namespace and name.
	Objects(kind, namespace string) []*Object
	// Priority is that of a PriorityClass.
	Priority(class string) (int32, bool)
}

// Object is what one foreign object says.
type Object struct {
	Kind            string // Kind.Name
	Namespace, Name string
	UID             types.UID
	// Queue is the object as a queue, with a name and a spec; nil: it is none.
	Queue *v1alpha1.BerthQueue
	// Implies is a queue that exists by being named, while no object says it; nil: none.
	Implies *v1alpha1.BerthQueue
	// Flavors are amounts of Queue by flavor of nodes, and ImpliesFlavors of Implies; nil: none.
	Flavors, ImpliesFlavors *FlavorQuotas
	// Keeps says that what runs in Queue is not evicted for other queues, however much it borrows.
	Keeps bool
	// Entrance says that workloads come into a queue through it: its status says how many.
	Entrance bool
	// Value is what the dialect keeps of it for Pod and Read, of any type; it is not written to.
	Value any
	// Unread are the fields that are set and have no effect, as paths: spec.shards. Those of status are never among them.
	Unread []string
	// Problem is why it cannot be carried out at all; "": it can.
	Problem string
	// Shut is why nothing begins by it for now; the zero value: things do.
	Shut Shut
	// Steers says of a queue that Pod looks at it: pods are read again when it changes. Of other objects that is always so.
	Steers bool
}

// Shut is why a queue is shut, in the project's words.
type Shut struct{ Reason, Message string }

// Pod is a pod with its controllers.
type Pod struct {
	*corev1.Pod
	Owners []Owner // the nearest first; of those that nobody has seen yet none
}

// Owner is a controller of a pod.
type Owner struct {
	Kind   string // Job, StatefulSet, ReplicaSet, Deployment
	Name   string
	UID    types.UID
	Meta   metav1.ObjectMeta // its labels and annotations, long ones left out, and nothing else
	Pods   int               // how many it still wants to run at a time; 0 where it makes none
	InTurn bool              // it makes a pod only once the one before is ready
	// APIVersion is of a kind that is not Kubernetes' own; "": it is.
	APIVersion string
	// Part is, of an object of a Maker's that makes several workloads alike, which of them the pod is in; "": it makes one.
	Part string
	// By is its own controller, seen or not; nil: none.
	By *metav1.OwnerReference
	// Coupled is, of an Indexed Job whose pods find each other by name and all run at one time, how many there are; 0: it is none.
	Coupled int
}

// Terms is how a pod is to be scheduled.
type Terms struct {
	// Keys are values under berth.dev keys. Gangs are v1alpha1.KeyGang (any name that no user would choose, within the
	// namespace), with KeyMin or KeySize; the queue is KeyQueue.
	Keys map[string]string
	// Priority counts instead of the pod's own; nil: its own.
	Priority *int32
	// Patient says that nobody is evicted for it.
	Patient bool
	// Flavors are the kinds of nodes that it may have, best first: a node must be of one of them. Without any all nodes do.
	Flavors []Flavor
	// Entrance is the name of the object in the pod's namespace through which it comes into its queue; "": it names the queue itself.
	Entrance string
	// Gate is the one scheduling gate that the pod has, which Berth takes away when it starts the pod; "": none.
	Gate string
	// Awaits is what the pod cannot be scheduled without and is not there yet, as a sentence: "PodGroup train does not exist".
	Awaits string
	// Checks are what others have to agree to once it has quota and places, and before it starts, by name.
	Checks []string
	// Unready is that one of Checks has not agreed yet, as a sentence: its quota and places are kept until then. "": all have.
	Unready string
	// Reserved says that it had quota and places when its object was last written: after a restart it has them again before others.
	Reserved bool
	// Ends is why what runs of it is to end, in the project's word: its Job is suspended. "": it goes on.
	Ends string
	// After is before when it is not planned; zero: there is no such time.
	After time.Time
	// Unread are the keys of the pod, or of its controllers, in the dialect's domains that have no effect.
	Unread []string
	// Heeded are keys outside of the dialect's domains that were read.
	Heeded []string
	// Group is the object of a Grouping kind that stands for the pod's workload in the project's tools; nil: none.
	Group *GroupRef
	// Missing is, of a Maker, the object that the pod was made for and that nobody has seen; "": none is missing.
	Missing string
	// Part is, of a Maker, which of several workloads alike of its Group the pod is in; "": there is one.
	Part string
	// Least is, of a Maker, how many pods start together; 0: the pod starts by itself.
	Least int
	// Says is, of a Maker, what starts together and where that is said, as a sentence; "": the pod starts by itself.
	Says string
}

// Flavor is a kind of nodes.
type Flavor struct {
	Labels      map[string]string   // that such a node has
	Tolerations []corev1.Toleration // that pods need there beside their own
	Names       map[string]string   // what the project calls it, by resource
	Prefer      int32               // how much such nodes are preferred to others that will do, up to 100; 0: not at all
}

// FlavorQuotas are amounts of a queue that count apart by flavor of nodes, beside those of each resource as a whole, which BerthQueues
// do not have. A node is of the flavor of a group whose labels it has, of several of the one with the most.
type FlavorQuotas struct {
	Groups  []FlavorGroup
	Amounts []FlavorAmount
	// QuotaFirst says that flavors of which the queue has quota left are tried before those of which it would borrow.
	QuotaFirst bool
}

// FlavorGroup is the flavors of some resources, in the order in which they are tried.
type FlavorGroup struct {
	Resources []string // sorted
	Flavors   []NodeFlavor
}

// NodeFlavor is the nodes with the labels.
type NodeFlavor struct {
	Name   string
	Labels map[string]string
}

// FlavorAmount is what a queue has of one resource in one flavor.
type FlavorAmount struct {
	Resource, Flavor string
	Quota            resource.Quantity
	Limit            *resource.Quantity // nil: none
}

// GroupRef is such an object, which people made or which Berth is to make.
type GroupRef struct {
	Kind, Namespace, Name string
	// Make returns the object as the project itself would make it; nil: people make it.
	Make func() *unstructured.Unstructured
}

// Named says whether both are of the same name.
func (r *GroupRef) Named(o *GroupRef) bool {
	return r.Kind == o.Kind && r.Namespace == o.Namespace && r.Name == o.Name
}

// Field is a row of the table of a dialect's page.
type Field struct {
	Kind  string // Queue, PodGroup, "label", "annotation", "behaviour"
	Field string // spec.resources.gpu.quota, kai.scheduler/queue
	Is    Degree
	Note  string // what it becomes, or how it differs
}

// Degree is how far a field is understood.
type Degree string

const (
	Understood Degree = "understood"
	Differs    Degree = "differs"
	NotYet     Degree = "not yet"
)

// Install is what makes a cluster look as if the project were installed, as YAML documents.
type Install struct {
	Definitions []string // CustomResourceDefinitions
	Objects     []string // to be made where they are not there: PriorityClasses, default queues
	// Hides are resources of Kubernetes with the plural of one of the definitions, as group/version, that are not served
	// beside it so that kubectl finds the project's.
	Hides []string
}

// GroupState is what has become of a workload.
type GroupState struct {
	Min                                 int
	Running, Pending, Succeeded, Failed int // pods; Running have a node
	Begun                               bool
	Reason, Message                     string // why it waits; "": it does not
	Cause                               string // code of engine/why for it
	Queue                               string
	Preemptible                         bool
	Allocated, Requested                corev1.ResourceList
	Ended                               string  // Complete or Failed, as the Job behind it says; "": it goes on, or there is none
	Evicted                             bool    // the Job behind it ran, and is suspended again
	Flavor                              *Flavor // that its pods are on, or will be; nil: none, or several
	Checks                              []string
	Reserved                            bool   // it has quota and places, and waits for Checks
	Ends                                string // Terms.Ends
}

// QueueState is what a queue's workloads hold and want, with those of queues below it.
type QueueState struct {
	Children         []string
	Running, Waiting int
	Reserved         int // of Waiting, those that have quota and places, and wait for checks
	// Allocated is held, Firm the part of it that may not be evicted, Requested held or waited for.
	Allocated, Firm, Requested corev1.ResourceList
	// ByFlavor is Allocated by the name of the flavor, and ReservedByFlavor the same with what is kept for workloads that wait for checks.
	ByFlavor, ReservedByFlavor map[string]corev1.ResourceList
	Problem                    string // why nothing of it can be carried out; "": it can
	Shut                       Shut
	Unread                     []string
}

// Admitter is a Dialect whose project lets workloads in before anybody places their pods: Jobs are suspended until then, and pods have
// a scheduling gate. Here a plan lets them in: what starts is let in.
type Admitter interface {
	// Rival is the Lease that the project's own controller holds. While it is held Berth lets nobody in.
	Rival() types.NamespacedName
	// Queued says whether a Job with this metadata is let in. While it is suspended the pods that it will have are scheduled.
	Queued(job *metav1.ObjectMeta) bool
}

// Maker is a Dialect of projects that have no scheduler, and whose controllers make pods. Its Terms have the keys of a gang alone, and
// count below those of the dialect of the pod's scheduler. All its kinds are Grouping; one that is served is read, whichever it is.
type Maker interface {
	Dialect
	Makes()
}

// Surveyor is a Dialect whose objects say which nodes are near each other. Its terms name tiers by their keys; kube/cluster finds the
// level of the scheduler's topology that stands for each.
type Surveyor interface {
	// Topologies are lists of tiers, each widest first.
	Topologies(w World) [][]Tier
}

// Tier is a division of nodes into domains.
type Tier struct {
	Key string // a node label, or any other name
	// Of is the domain that the node is in; "": in none.
	Of func(n *corev1.Node) string
}

// ByLabel is the tier of nodes by their values of a label.
func ByLabel(key string) Tier {
	return Tier{Key: key, Of: func(n *corev1.Node) string { return n.Labels[key] }}
}

// Reporter is a Dialect that tells its users how things are in the words that they know. Each returns the status that the
// object is to have, given the one it has; nil: it stays as it is. Of conditions that others wrote none is lost. at is the
// time for conditions that turn.
type Reporter interface {
	GroupStatus(o *unstructured.Unstructured, s GroupState, at time.Time) map[string]any
	QueueStatus(o *unstructured.Unstructured, s QueueState, at time.Time) map[string]any
}

// Deactivator is a Reporter that changes what an object asks for, as the project itself does. Nothing is reported of the object before
// that is done.
type Deactivator interface {
	// GroupSpec returns the fields of the object's spec that are to change; nil: none.
	GroupSpec(o *unstructured.Unstructured) map[string]any
}
