package api

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berth-dev/berth/engine/internal/fit"
	"github.com/berth-dev/berth/engine/why"
)

// The vocabulary of node constraints, with Kubernetes' meaning.
type (
	Op            = fit.Op
	Requirement   = fit.Requirement
	Term          = fit.Term
	Preference    = fit.Preference
	Effect        = fit.Effect
	Taint         = fit.Taint
	Toleration    = fit.Toleration
	PodTerm       = fit.PodTerm
	PodPreference = fit.PodPreference
	Spread        = fit.Spread
	Port          = fit.Port
	Amount        = why.Amount
)

const (
	In           = fit.In
	NotIn        = fit.NotIn
	Exists       = fit.Exists
	DoesNotExist = fit.DoesNotExist
	Gt           = fit.Gt
	Lt           = fit.Lt

	NoSchedule       = fit.NoSchedule
	PreferNoSchedule = fit.PreferNoSchedule
	NoExecute        = fit.NoExecute

	Exclusive = fit.Exclusive
)

// CPU, Memory and Pods are the resources with a name of their own. Every pod takes one of Pods without
// asking.
const (
	CPU    = "cpu"
	Memory = "memory"
	Pods   = "pods"
)

// Resources is a vector of amounts: milli-CPU for cpu, bytes for memory and storage, else a count.
// The order does not matter; a name occurs once. Its JSON is an object.
type Resources []Amount

// Node is a machine that may run pods.
type Node struct {
	Name    string `json:"name"`
	Version uint64 `json:"version,omitempty"`
	Pool    string `json:"pool,omitempty"` // reports are made per pool
	// Machine is what its provider calls the machine, "" where nobody says. Two nodes of one machine are one that registered under another
	// name and whose first object is still there. Decisions do not depend on it; what is paid for does.
	Machine  string            `json:"machine,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Taints   []Taint           `json:"taints,omitempty"`
	Cordoned bool              `json:"cordoned,omitempty"` // spec.unschedulable
	// Quarantine is why the hardware of the node is not trusted, in a word; "": it is trusted. Work leaves the node, if a cordon
	// or a taint keeps it from coming back.
	Quarantine  string    `json:"quarantine,omitempty"`
	Allocatable Resources `json:"allocatable,omitempty"`
	Devices     []Device  `json:"devices,omitempty"` // nil: only counts are known
	// Packing is how nodes are chosen among those that have the same, for work whose queue does not say; "": Config.Packing.
	// Nodes with another than loose go before those with loose.
	Packing Packing `json:"packing,omitempty"`
	// Offers are the devices that resource claims are met with, and Counters what partitions of them share.
	Offers   []Offer   `json:"offers,omitempty"`
	Counters []Counter `json:"counters,omitempty"`
	// ByClaims are the resources that the node gives through claims alone, sorted: what it offers are the very units that it
	// counts. Any other resource is had by count, whatever the node offers beside it: network cards close no GPUs.
	ByClaims []string `json:"byClaims,omitempty"`
	// Slices are the resources of which one is a part of a GPU, by name, each once. One of Config.GPU that is not listed is a
	// whole GPU, and one of any other resource none of it.
	Slices []Slice `json:"slices,omitempty"`
	// Model is the GPU model of what the node has of GPUs where Devices is nil; "": not known. Where what it has are instances of MIG
	// that are offered as GPUs it is that of the instance, A100-MIG-1g.5gb, so that nobody who names an A100 gets one; see CountedModel.
	Model string `json:"model,omitempty"`
	// Images are the container images that the node has, by name, each once.
	Images []Image `json:"images,omitempty"`
}

// Image is a container image on a node.
type Image struct {
	Name  string `json:"name"` // as pods spell it, with a tag or a digest
	Bytes int64  `json:"bytes"`
}

// Image returns the node's copy of the image.
func (n *Node) Image(name string) (Image, bool) {
	if n == nil {
		return Image{}, false
	}
	at, ok := slices.BinarySearchFunc(n.Images, name, func(im Image, name string) int { return strings.Compare(im.Name, name) })
	if !ok {
		return Image{}, false
	}
	return n.Images[at], true
}

// Device is one GPU of a node.
type Device struct {
	ID        string `json:"id"`               // unique in the cluster
	Model     string `json:"model,omitempty"`  //
	Clique    string `json:"clique,omitempty"` // devices of one clique reach each other over NVLink; "": none
	NUMA      int    `json:"numa,omitempty"`   // the number of its NUMA node; -1: not known
	Unhealthy bool   `json:"unhealthy,omitempty"`
	Memory    int64  `json:"memory,omitempty"` // MiB; 0: not known
	// Parts is how many pods may have a part of it at a time; 0: it is given whole only. Its memory is known if it is not 0.
	Parts int `json:"parts,omitempty"`
}

// Pod is one pod: waiting, or an occupant of a node.
type Pod struct {
	Key     string `json:"key"` // namespace/name
	UID     string `json:"uid,omitempty"`
	Version uint64 `json:"version,omitempty"`
	// Labels are what rules between pods select it by; its namespace is its key up to the first "/".
	Labels map[string]string `json:"labels,omitempty"`

	Gang     string `json:"gang,omitempty"`     // key of its gang; "": the pod is a gang of its own, under its own key
	Subgroup string `json:"subgroup,omitempty"` // of the gang
	Rank     int    `json:"rank,omitempty"`     // order among the members; equal ranks by key
	// Queue, User, Priority, Created and Terms are those of a pod that is a gang of its own. Priority also
	// counts for a nominated pod.
	Queue    string    `json:"queue,omitempty"`
	User     string    `json:"user,omitempty"` // whose it is; "": nobody's in particular
	Priority int32     `json:"priority,omitempty"`
	Created  time.Time `json:"created,omitzero"`
	Terms    Terms     `json:"terms,omitzero"`
	// Invalid says what the author of a pod that is a gang of its own wrote that cannot be read: see Gang.Invalid.
	Invalid string `json:"invalid,omitempty"`

	Spec

	Node        string    `json:"node,omitempty"`        // where it is bound; "": nowhere yet
	Devices     []string  `json:"devices,omitempty"`     // the GPUs it holds, or has a part of, where known
	Evictable   bool      `json:"evictable,omitempty"`   // may be evicted for others; never true of what others bound
	Terminating bool      `json:"terminating,omitempty"` // holds everything until it is gone
	ReleaseAt   time.Time `json:"releaseAt,omitzero"`    // when a terminating pod is gone at the latest
	Nominated   string    `json:"nominated,omitempty"`   // a node that others nominated it for
	Foreign     bool      `json:"foreign,omitempty"`     // another scheduler's: takes its room, and is never placed by us
	Endless     bool      `json:"endless,omitempty"`     // it does not end by itself, unless its terms say so
	Started     time.Time `json:"started,omitzero"`      // since when it has its node; zero: for long
	Idle        time.Time `json:"idle,omitzero"`         // since when its GPUs were measured to do nothing; zero: not measured, or busy
	Budgets     []string  `json:"budgets,omitempty"`     // keys of the disruption budgets that cover it, sorted
	Owner       string    `json:"owner,omitempty"`       // what makes it again, under any name, when it is gone; "": nothing
	Surges      bool      `json:"surges,omitempty"`      // its owner can be had to make the next one before it is gone
	// Images are those of its containers and image volumes, one for each. A node that has them is preferred; of a gang the images of
	// the first pod by key count for all.
	Images []string `json:"images,omitempty"`
}

// Spec is everything about a pod that decides where it fits.
type Spec struct {
	Requests Resources         `json:"requests,omitempty"`
	Selector map[string]string `json:"selector,omitempty"`
	// Affinity is the required terms, of which one must match; nil asks for nothing, and a list
	// without terms matches no node.
	Affinity    []Term       `json:"affinity,omitzero"`
	Preferred   []Preference `json:"preferred,omitempty"`
	Tolerations []Toleration `json:"tolerations,omitempty"`
	Ports       []Port       `json:"ports,omitempty"`
	NodeName    string       `json:"nodeName,omitempty"` // the one node it may be on
	Nodes       []string     `json:"nodes,omitzero"`     // the nodes its volumes allow; nil: all
	GPU         GPU          `json:"gpu,omitzero"`
	*PodRules                // nil: it has none, as most pods; Rules reads it
	Claims      *Claims      `json:"claims,omitempty"` // devices of resource claims; nil: none
	Part        *Part        `json:"part,omitempty"`   // of GPUs, in place of a GPU count; nil: none
	// Claimed is what parts of GPUs count in queues that the pod has, or asks for, through resource claims, in thousandths. Whole GPUs
	// that it has so are among its requests.
	Claimed  int64         `json:"claimed,omitempty"`
	Features []why.Feature `json:"features,omitempty"` // what else it asks for, which the engine does not decide yet
}

// PodRules are the rules between pods of a spec. PodAffinity and PodAntiAffinity are required: for each term of the first there is a
// pod that it matches in the node's domain, and for no term of the second. A pod with a term of PodAntiAffinity is also kept
// apart from pods that come later.
type PodRules struct {
	PodAffinity     []PodTerm       `json:"podAffinity,omitempty"`
	PodAntiAffinity []PodTerm       `json:"podAntiAffinity,omitempty"`
	PodPreferred    []PodPreference `json:"podPreferred,omitempty"`
	Spread          []Spread        `json:"spread,omitempty"`
}

// GPU is what a pod asks of the devices behind its GPU count.
type GPU struct {
	Models []string `json:"models,omitempty"` // alternatives, best first; a gang gets one of them for all its members
	Clique Wish     `json:"clique,omitempty"` // all in one NVLink clique
	NUMA   Wish     `json:"numa,omitempty"`   // all on one NUMA node

	// Which devices will do, by name; a device's name is what stands behind the last slash of its ID. Of a node whose devices are not
	// listed none has a name, and none will do.
	Only      []string `json:"only,omitempty"` // nil: all
	Except    []string `json:"except,omitempty"`
	NotModels []string `json:"notModels,omitempty"` // models that will not do
}

// Names says whether only some devices of a model will do.
func (g *GPU) Names() bool { return len(g.Only)+len(g.Except)+len(g.NotModels) > 0 }

// Takes says whether a device with this ID and model will do, as far as Only, Except and NotModels go. An ID of "" is of a device that
// is not listed.
func (g *GPU) Takes(id, model string) bool {
	name := id[strings.LastIndexByte(id, '/')+1:]
	if slices.Contains(g.NotModels, model) {
		return false
	}
	if len(g.Only)+len(g.Except) == 0 {
		return true
	}
	return name != "" && (g.Only == nil || slices.Contains(g.Only, name)) && !slices.Contains(g.Except, name)
}

// Which is Only, Except and NotModels as text; of long lists the first names.
func (g *GPU) Which() string {
	var out []string
	for _, l := range []struct {
		word string
		of   []string
	}{{"only ", g.Only}, {"not ", g.Except}, {"not model ", g.NotModels}} {
		if len(l.of) > 0 {
			text := l.word + strings.Join(l.of[:min(len(l.of), 3)], " or ")
			if len(l.of) > 3 {
				text += fmt.Sprintf(" or %d more", len(l.of)-3)
			}
			out = append(out, text)
		}
	}
	return strings.Join(out, ", ")
}

// Wish is how much a pod wants something.
type Wish string

const (
	Prefer  Wish = "prefer"
	Require Wish = "require"
)

// Terms are what holds for a workload over time: how long it runs, what stopping it costs, and when others may be
// stopped for it.
type Terms struct {
	Expected   time.Duration `json:"expected,omitempty"`   // how long it runs, as its author says; 0: not said
	Max        time.Duration `json:"max,omitempty"`        // after so long it is ended; 0: never
	Like       string        `json:"like,omitempty"`       // the key of the RunTimeEstimate about workloads like it
	Checkpoint time.Duration `json:"checkpoint,omitempty"` // how often it saves its work; 0: never, as far as is known
	Restart    time.Duration `json:"restart,omitempty"`    // what starting again costs it; 0: Config.Restart
	Grace      time.Duration `json:"grace,omitempty"`      // the time that its pods have to end
	Delay      time.Duration `json:"delay,omitempty"`      // how long it waits, say for an autoscaler, before others are stopped for it
	Patient    bool          `json:"patient,omitempty"`    // others are never stopped for it
	Held       bool          `json:"held,omitempty"`       // it does not begin until it is released; what runs of it goes on
}

// Gang is a workload: what is placed whole. A pod that names no gang is one by itself.
type Gang struct {
	Key      string    `json:"key"`
	Version  uint64    `json:"version,omitempty"`
	Queue    string    `json:"queue,omitempty"` // "": no queue, no quota
	User     string    `json:"user,omitempty"`  // whose it is; "": nobody's in particular
	Priority int32     `json:"priority,omitempty"`
	Created  time.Time `json:"created,omitzero"`
	Terms    Terms     `json:"terms,omitzero"`
	// Core says that its minimum is never evicted, though its members are evictable: only those above it are.
	Core bool `json:"core,omitempty"`
	// Invalid says what its author wrote that cannot be read, in a sentence: the gang waits until it is mended.
	Invalid string  `json:"invalid,omitempty"`
	Group           // of all its members; its Name and Parent are empty
	Groups  []Group `json:"groups,omitempty"`
}

// Group is a part of a gang with a minimum and a layout of its own. Groups form a tree; pods are in the
// leaves.
type Group struct {
	Name   string `json:"name,omitempty"`
	Parent string `json:"parent,omitempty"` // "": the gang itself
	// Min is how many members start together, or not at all; above it members come one by one as there
	// is room. 0: all of Size. Size is how many members there will be; 0: as many as exist. Both are
	// for leaves.
	Min  int `json:"min,omitempty"`
	Size int `json:"size,omitempty"`
	// MinGroups is, of a group with groups below it, how many of those must start; 0: all. Where there are fewer the gang waits for
	// more: it is incomplete.
	MinGroups int `json:"minGroups,omitempty"`
	// Whole says that its members are evicted for others all together or not at all, those above its minimum too.
	Whole bool `json:"whole,omitempty"`
	// Each says that what is above the minimum is wanted as the minimum is, one after the other in the gang's turn: room is made for it,
	// and it may be promised a start. Of a leaf that is every member, which does not go with segments; of a group with groups below it every
	// one of these, with its own minimum. It has an effect where all groups above have it too.
	Each   bool   `json:"each,omitempty"`
	Layout Layout `json:"layout,omitzero"`
}

// Layout is how members lie on the topology. A level is a name of Config.Levels, "node", or a node
// label key.
type Layout struct {
	Required  string `json:"required,omitempty"`  // all in one domain of this level
	Preferred string `json:"preferred,omitempty"` // in as few domains of this level as possible
	// Segment members each, in order of rank, share a domain of SegmentLevel.
	Segment      int    `json:"segment,omitempty"`
	SegmentLevel string `json:"segmentLevel,omitempty"`
	Balanced     bool   `json:"balanced,omitempty"`   // over the domains of Preferred evenly, where that is possible
	Spread       string `json:"spread,omitempty"`     // over the domains of this level as evenly as possible
	WholeNodes   bool   `json:"wholeNodes,omitempty"` // no other workload has a GPU on its nodes
}

// Queue is where workloads are charged. Queues form a tree; what a queue's workloads hold counts for all queues
// above it too. Amounts are of resources, of one GPU model, or of one flavor: see OfModel and OfFlavor.
type Queue struct {
	Name    string `json:"name"`
	Version uint64 `json:"version,omitempty"`
	Parent  string `json:"parent,omitempty"` // "": it is at the top
	// Quota is what it is promised: its workloads can reclaim it from borrowers. What is not named is 0
	// where any queue has a quota above 0 of the resource; where none has, nothing of it is promised or borrowed.
	Quota Resources `json:"quota,omitempty"`
	// DevicesOnly says that its quota is of GPUs and other devices, whose names have a domain, and of CPU, memory and the
	// like only where Quota names them. Of those that it does not name nothing is asked back from its workloads, and those
	// that may not be evicted start without a quota.
	DevicesOnly bool      `json:"devicesOnly,omitempty"`
	Limits      Resources `json:"limits,omitempty"` // the most that its workloads may hold together; what is not named is not limited
	Lend        Resources `json:"lend,omitempty"`   // the most of its unused quota that others may have; what is not named is lent in full
	Weight      int64     `json:"weight,omitempty"` // of its part, among its siblings, of what is over; 0: 1
	// Priority is of queues among their siblings: what is over goes to higher ones first.
	Priority int32 `json:"priority,omitempty"`
	// Namespaces are those whose workloads may use it, sorted; nil: all, and a list without names: none. A
	// workload's namespace is its key up to the first "/".
	Namespaces []string `json:"namespaces,omitzero"`

	MaxRunning int       `json:"maxRunning,omitempty"` // workloads that may run at a time; 0: any number
	FairUsers  bool      `json:"fairUsers,omitempty"`  // its users have equal parts of it
	UserLimits Resources `json:"userLimits,omitempty"` // the most that one user's workloads may hold together
	Budgets    []Budget  `json:"budgets,omitempty"`

	MinRun       time.Duration `json:"minRun,omitempty"`       // what runs for less is not evicted for others; 0: Config.MinRun
	Warning      time.Duration `json:"warning,omitempty"`      // from when an eviction is said until it is done
	PromoteAfter time.Duration `json:"promoteAfter,omitempty"` // what waited so long goes before higher priorities; 0: never
	// Strict says that nothing of the queue starts after one of its workloads that waits for room or for quota, be it for ever.
	Strict      bool          `json:"strict,omitempty"`
	ReclaimIdle time.Duration `json:"reclaimIdle,omitempty"` // what was measured idle for so long may be evicted for anybody; 0: never
	// KeepBudgets says that disruption budgets of its pods are never violated; else that is the last resort.
	KeepBudgets bool `json:"keepBudgets,omitempty"`
	// Packing is how nodes are chosen for its workloads; "": as for the queue above it, and at the top as nodes say.
	Packing Packing `json:"packing,omitempty"`
	// PartsBy is how parts of GPUs count in the queue and in those above it; "": as the queue above it says, and at the top larger.
	PartsBy PartsBy `json:"partsBy,omitempty"`
	// Stop is whether workloads of the queue, and of those below it, begin; "": they do.
	Stop Stop `json:"stop,omitempty"`
	// Frozen says that nothing is evicted of what runs in the queue and in those below it, for whatever cause.
	Frozen bool `json:"frozen,omitempty"`
	// Keeps says that what runs in the queue is not evicted for another queue's quota or share, however much the queue borrows. Within
	// the queue higher priorities go first as everywhere.
	Keeps bool `json:"keeps,omitempty"`
	// Flavors are the kinds of nodes on which amounts of some resources count apart. Of each group that covers a resource which
	// they request, members of a gang that request the same get one flavor, the first that their queues afford and that has
	// places, and are on no other nodes. The flavors of the queue itself count, and not those of queues above it.
	Flavors []FlavorGroup `json:"flavors,omitempty"`
	// QuotaFirst says that flavors of which the queue has quota left are tried before those of which it would borrow.
	QuotaFirst bool `json:"quotaFirst,omitempty"`
}

// Stop is how a queue is stopped.
type Stop string

const (
	StopHold  Stop = "hold"  // nothing begins; what runs goes on, and is repaired
	StopDrain Stop = "drain" // nothing begins, and what runs is evicted, as far as an owner makes it again
)

// Budget is what the queue's workloads may use in a period: Seconds of one resource held. Periods follow each other
// from From on.
type Budget struct {
	Resource string        `json:"resource"`
	Seconds  int64         `json:"seconds"`
	Period   time.Duration `json:"period"`
	From     time.Time     `json:"from,omitzero"`
}

// Span returns the period of the budget that the time is in.
func (b *Budget) Span(at time.Time) (from, to time.Time) {
	since := at.Sub(b.From)
	if b.From.IsZero() {
		since = time.Duration(at.UnixNano())
	}
	into := since % b.Period
	if into < 0 {
		into += b.Period
	}
	from = at.Add(-into)
	return from, from.Add(b.Period)
}

// OfModel names, in amounts of queues, the resource as far as it is of one GPU model.
func OfModel(resource, model string) string { return resource + "@" + model }

// CountedModel is the model as whose GPUs queues count those of the model: of an instance of MIG, A100-MIG-1g.5gb, that of the GPU
// that it is cut from, A100. Amounts and rates of queues are for models that are counted.
func CountedModel(model string) string {
	whole, _, _ := strings.Cut(model, "-MIG-")
	return whole
}

// Disruption is a disruption budget: how many of the pods that name it may be evicted now.
type Disruption struct {
	Key     string `json:"key"`
	Version uint64 `json:"version,omitempty"`
	Allowed int    `json:"allowed"`
}

// Booking keeps nodes for a queue for a time: an entry in a calendar. Until From, work that is over by then may be
// on them; from then on only that of the queue, and of those below it. A booking without a queue says that the nodes go away.
// Until then only work starts on them that is over by then, saves its state before, or does not say how long it takes and has an hour.
type Booking struct {
	Name    string    `json:"name"`
	Version uint64    `json:"version,omitempty"`
	Queue   string    `json:"queue"` // "": the nodes go away
	Nodes   []string  `json:"nodes"` // sorted
	From    time.Time `json:"from"`
	To      time.Time `json:"to"` // zero, without a queue: they do not come back
}

// Leaves says that the nodes go away for good.
func (b *Booking) Leaves() bool { return b.Queue == "" && b.To.IsZero() }

// Assumption is a placement that was planned and is being carried out: the pod occupies the node until it
// is bound, gone, or Until has passed. Memory; lost harmlessly.
type Assumption struct {
	Pod     string    `json:"pod"`
	UID     string    `json:"uid,omitempty"`
	Version uint64    `json:"version"`
	Node    string    `json:"node"`
	Devices []string  `json:"devices,omitempty"`
	Until   time.Time `json:"until"`
}

// Refusal says that a node would not have a pod. The pod's gang does not try the node again before
// Until. Memory; lost harmlessly.
type Refusal struct {
	Pod     string    `json:"pod"`
	UID     string    `json:"uid,omitempty"`
	Version uint64    `json:"version"`
	Node    string    `json:"node"`
	Reason  string    `json:"reason"`
	Until   time.Time `json:"until"`
}

// Hold keeps a freed place for the gang it was freed for. Memory; rebuilt from nominations.
type Hold struct {
	Gang     string    `json:"gang"` // or the Owner of pods that are gangs of their own
	Version  uint64    `json:"version"`
	Node     string    `json:"node"`
	Requests Resources `json:"requests"`
	// Cards are the GPUs that it keeps or keeps parts of, on a node that gives parts: one entry for each pod and GPU.
	Cards []HeldCard `json:"cards,omitempty"`
	// Devices are those that it keeps for claims, by Offer.ID, once for each pod, and Claimed what parts of GPUs among them count in
	// queues, as Spec.Claimed.
	Devices []string  `json:"devices,omitempty"`
	Claimed int64     `json:"claimed,omitempty"`
	Until   time.Time `json:"until"`
	// Coming says that the pod it is for is on its way from elsewhere: it is kept though no pod waits for it yet.
	Coming bool `json:"coming,omitempty"`
}

// HeldCard is what a Hold keeps of one GPU for one pod.
type HeldCard struct {
	ID   string `json:"id"`
	Part *Part  `json:"part,omitempty"` // nil: the GPU is kept whole
}

// EvictionCause is why a pod is evicted. Codes are a contract: they are added, never renamed.
type EvictionCause string

const (
	Reclaimed EvictionCause = "reclaimed" // it held what another queue was promised
	Preempted EvictionCause = "preempted" // work of its queue with a higher priority needs the place
	Shared    EvictionCause = "shared"    // its queue had more than its fair share (policy timeshare)
	Overran   EvictionCause = "overran"   // it ran longer than was said, into a promise
	MaxRun    EvictionCause = "max-run"   // its time was up
	Idled     EvictionCause = "idle"      // its GPUs did nothing
	Moved     EvictionCause = "moved"     // it is to run elsewhere, so that a larger place becomes whole
	Booked    EvictionCause = "booked"    // its node is kept for a queue by a Booking
	Drained   EvictionCause = "drained"   // its queue is drained
	Unhealthy EvictionCause = "unhealthy" // its node, or that of others of its gang, is quarantined
	Broken    EvictionCause = "broken"    // its gang runs under its minimum and cannot be repaired
)

// Eviction is a pod that is to end, from when that is decided until it is seen to end. Until then it holds what it
// holds, and cannot be chosen as a victim again. Memory; rebuilt from the pods' conditions, and from an annotation where it surges.
type Eviction struct {
	Pod     string        `json:"pod"`
	UID     string        `json:"uid,omitempty"`
	Version uint64        `json:"version"`
	Cause   EvictionCause `json:"cause"`
	For     string        `json:"for,omitempty"` // the workload that gets the place; "": the cause says it all
	To      string        `json:"to,omitempty"`  // of Moved: the node where its workload's next pod has a place
	// Surge says, of Moved, that the pod stays until the next one of its owner runs in the place that is held for it.
	Surge bool      `json:"surge,omitempty"`
	At    time.Time `json:"at"` // it is warned until then
	// Until is when it is not expected to end any more, if it has not been seen to.
	Until time.Time `json:"until"`
	// Refused says that it could not be evicted: it is not tried again before Until.
	Refused bool `json:"refused,omitempty"`
}

// Promise is a start time given to a workload that is first in line and blocked. Nothing that starts after Since may
// delay it. Memory; kept in the status of its queue.
type Promise struct {
	Gang    string    `json:"gang"`
	Version uint64    `json:"version"`
	Since   time.Time `json:"since"`
	Start   time.Time `json:"start"` // the earliest; it may come sooner, and later only by the doing of others
	Nodes   []string  `json:"nodes"` // where, as things stand; sorted
}

// QueueUsage is what a queue has used, as of At. Memory; kept in its status.
type QueueUsage struct {
	Queue   string    `json:"queue"`
	Version uint64    `json:"version"`
	At      time.Time `json:"at"`
	Decayed int64     `json:"decayed"`         // GPU-seconds, halved every Config.HalfLife
	Spent   []int64   `json:"spent,omitempty"` // of each of its budgets, in the period that At is in
	Total   int64     `json:"total,omitempty"` // GPU-seconds since it was first seen
	// Users are those of a queue with FairUsers whose use still counts, sorted by name.
	Users []UserUsage `json:"users,omitempty"`
}

// UserUsage is what one user of a queue has used there.
type UserUsage struct {
	User    string `json:"user"`
	Decayed int64  `json:"decayed"` // GPU-seconds, halved every Config.HalfLife
}

// Degradation is since when a gang has been running under its minimum. Memory; lost harmlessly, it then starts anew.
type Degradation struct {
	Gang    string    `json:"gang"`
	Version uint64    `json:"version"`
	Since   time.Time `json:"since"`
}

// RunTimeEstimate is how long workloads like each other ran. Memory; lost harmlessly.
type RunTimeEstimate struct {
	Like    string        `json:"like"`
	Version uint64        `json:"version"`
	Count   int           `json:"count"`  // of workloads that it is drawn from
	Short   time.Duration `json:"short"`  // one in ten ran shorter
	Median  time.Duration `json:"median"` // half of them ran shorter
	Long    time.Duration `json:"long"`   // nine in ten ran shorter
}

// Kind names a kind of object in references.
type Kind string

const (
	KindNode            Kind = "node"
	KindPod             Kind = "pod"
	KindGang            Kind = "gang"
	KindQueue           Kind = "queue"
	KindAssumption      Kind = "assumption" // key: the pod's
	KindRefusal         Kind = "refusal"    // key: the pod's, "@", the node's
	KindHold            Kind = "hold"       // key: the gang's, "@", the node's
	KindDisruption      Kind = "disruption"
	KindBooking         Kind = "booking"
	KindEviction        Kind = "eviction" // key: the pod's
	KindPromise         Kind = "promise"  // key: the gang's
	KindUsage           Kind = "usage"    // key: the queue's
	KindRunTimeEstimate Kind = "run-time-estimate"
	KindDegradation     Kind = "degradation" // key: the gang's
	KindRequestMix      Kind = "request-mix" // key: "cluster"
	KindConfig          Kind = "config"      // in a Rejected alone; key: the field
)

// Ref names one version of an object.
type Ref struct {
	Kind    Kind   `json:"kind"`
	Key     string `json:"key"`
	Version uint64 `json:"version,omitempty"`
}

// Change is one fact about the world or one edit of memory. Exactly one field is set. An object replaces
// what was known under its key unless that is as new or newer; Gone removes it in the same way. The state
// keeps what a Change points to: do not write to it afterwards.
type Change struct {
	Node            *Node            `json:"node,omitempty"`
	Pod             *Pod             `json:"pod,omitempty"`
	Gang            *Gang            `json:"gang,omitempty"`
	Queue           *Queue           `json:"queue,omitempty"`
	Assumption      *Assumption      `json:"assumption,omitempty"`
	Refusal         *Refusal         `json:"refusal,omitempty"`
	Hold            *Hold            `json:"hold,omitempty"`
	Disruption      *Disruption      `json:"disruption,omitempty"`
	Booking         *Booking         `json:"booking,omitempty"`
	Eviction        *Eviction        `json:"eviction,omitempty"`
	Promise         *Promise         `json:"promise,omitempty"`
	Usage           *QueueUsage      `json:"usage,omitempty"`
	RunTimeEstimate *RunTimeEstimate `json:"runTimeEstimate,omitempty"`
	Degradation     *Degradation     `json:"degradation,omitempty"`
	RequestMix      *RequestMix      `json:"requestMix,omitempty"`
	Gone            *Ref             `json:"gone,omitempty"`
	// Settled promises that no change of this version or older will come any more, so that what is
	// kept about things gone can be dropped. It alone depends on its place in a history.
	Settled uint64 `json:"settled,omitempty"`
}

// Rejected says which change, or which standing object, makes no sense and why. The object stays known
// and has no effect until a newer version mends it.
type Rejected struct {
	Ref
	Reason string `json:"reason"`
}

// SnapshotVersion is the version of Snapshot's JSON.
//
//	1  2026-11-15  first
//	2  2026-11-15  Queue.Namespaces, Gang.Invalid
//	3  2026-11-15  queues in a tree with quota and the rest of Queue; Terms, Core, User, Started, Idle, Budgets, Owner, Pod.Invalid;
//	               Disruption, Booking, Eviction, Promise, Spending, Lesson, Lapse; Hold.Coming; Plan.Evictions and Promises
//	4  2026-11-15  Pod.Surges, Pod.Endless, Eviction.Surge, Spending.Users
//	5  2026-11-16  Queue.DevicesOnly; a quota of 0 alone promises nothing
//	6  2026-11-16  names: Spending is QueueUsage (usage), Lesson is RunTimeEstimate, Lapse is Degradation
//	7  2026-11-16  Pod.Labels; rules between pods: Spec.PodAffinity, PodAntiAffinity, PodPreferred, Spread
//	8  2026-11-16  Device.NUMA may be -1, not known; Port.Protocol may be exclusive; Node.Packing, Queue.Packing
//	9  2026-11-17  devices of resource claims: Node.Offers and Counters, Spec.Claims
//	10 2026-11-17  Node.Images, Pod.Images; Spread.Default
//	11 2026-11-17  parts of GPUs: Device.Memory and Parts, Spec.Part
//	12 2026-11-17  RequestMix; Packing may be priced
//	13 2026-11-17  Claims.Counted
//	14 2026-11-17  parts count in queues: amounts of queues may have decimals, Queue.PartsBy
//	15 2026-11-17  Hold.Cards; operators' verbs: Queue.Stop and Frozen, Terms.Held
//	16 2026-11-17  Node.Slices and Spec.Claimed: instances of MIG and replicas count in queues
//	17 2026-11-17  Node.Quarantine, eviction cause unhealthy
//	18 2026-11-17  Node.Model: quotas of one model count slices on nodes without whole GPUs; Gang.Whole
//	19 2026-11-17  Queue.Strict
//	20 2026-11-17  Hold.Devices and Claimed: places that are held keep devices of claims
//	21 2026-11-18  Offer.Reach: devices that several nodes reach
//	22 2026-11-18  shares of devices: Offer.Shared, Capacity, Uses and Held; Offer.Fails and Blocks; DeviceRequest.Claim
//	23 2026-11-18  Queue.Flavors and QuotaFirst: amounts of queues by kind of node
//	24 2026-11-18  Queue.Keeps: what a queue borrows is not asked back; Queue.Lend of one GPU model is refused
//	25 2026-11-18  Offer.Groups; an attribute of an Offer may have several values; DeviceOption.As
//	26 2026-11-18  GPU.Only, Except and NotModels: pods that may have some devices of a node; clauses gpu-named; Part.Spread; a minimum of groups above their number is waited for, not refused
//	27 2026-11-18  Group.Whole: groups below a gang may be disrupted whole too
//	28 2026-11-19  Node.ByClaims and Claims.GPUsByCount: devices that are no GPUs close no GPUs. Before, a node with offers gave all
//	               that it had by claims
//	29 2026-11-19  Group.Each: members above the minimum that others are evicted for
//	30 2026-11-19  Node.Machine: two Node objects of one machine are paid for once
//	31 2026-11-19  Group.Each of groups, and of gangs with groups
const SnapshotVersion = 31

// Snapshot is everything a State knows, in canonical order. Times are in UTC.
type Snapshot struct {
	Version          int               `json:"version"`
	Nodes            []Node            `json:"nodes,omitempty"`            // by name
	Pods             []Pod             `json:"pods,omitempty"`             // by key
	Gangs            []Gang            `json:"gangs,omitempty"`            // by key
	Queues           []Queue           `json:"queues,omitempty"`           // by name
	Assumptions      []Assumption      `json:"assumptions,omitempty"`      // by pod
	Refusals         []Refusal         `json:"refusals,omitempty"`         // by pod, node
	Holds            []Hold            `json:"holds,omitempty"`            // by gang, node
	Disruptions      []Disruption      `json:"disruptions,omitempty"`      // by key
	Bookings         []Booking         `json:"bookings,omitempty"`         // by name
	Evictions        []Eviction        `json:"evictions,omitempty"`        // by pod
	Promises         []Promise         `json:"promises,omitempty"`         // by gang
	Usages           []QueueUsage      `json:"usages,omitempty"`           // by queue
	RunTimeEstimates []RunTimeEstimate `json:"runTimeEstimates,omitempty"` // by key
	Degradations     []Degradation     `json:"degradations,omitempty"`     // by gang
	RequestMix       *RequestMix       `json:"requestMix,omitempty"`       // nil: none was told
	Gone             []Ref             `json:"gone,omitempty"`             // by kind, key: what is known to be gone
	Settled          uint64            `json:"settled,omitempty"`
	// Latest is the highest version of any change seen; edits of memory get versions above it.
	Latest uint64 `json:"latest,omitempty"`
}

// Plan is what to do now, in order, and what waits for what.
type Plan struct {
	Now          time.Time         `json:"now"`
	Starts       []Start           `json:"starts,omitempty"`
	Evictions    []Eviction        `json:"evictions,omitempty"` // pods to end, new in this plan; each is in Changes too
	Waiting      []Waiting         `json:"waiting,omitempty"`   // in the order they were considered
	Certificates []why.Certificate `json:"certificates,omitempty"`
	// Short are gangs that run under their minimum and have no member to place: those that they lack do not
	// exist. Sorted.
	Short []string `json:"short,omitempty"`
	// Promises are the start times that stand, in the order of the line. New ones are in Changes too.
	Promises []Promise `json:"promises,omitempty"`
	Changes  []Change  `json:"changes,omitempty"` // edits of memory; Apply them when the starts are carried out
	// WakeAt is the earliest moment at which the answer can change without an event; zero: never.
	WakeAt time.Time `json:"wakeAt,omitzero"`
}

// StartKind says what a Start does to its gang.
type StartKind string

const (
	Begin  StartKind = "begin"  // its minimum starts, and what more there was room for
	Repair StartKind = "repair" // it ran under its minimum and has it again
	Grow   StartKind = "grow"   // members above the minimum
)

// Start is members of one gang to bind together. Starts are in the order in which they were decided: each keeps the rules
// between pods beside those before it. A gang that begins and grows in one plan may have two, where others come in between.
type Start struct {
	Gang  string    `json:"gang"`
	Kind  StartKind `json:"kind"`
	Model string    `json:"model,omitempty"` // the GPU model chosen, where alternatives were given
	// Borrowed is what it takes beyond the quota of its queue, or of one above it: it may have to be given back.
	Borrowed   Resources   `json:"borrowed,omitempty"`
	Placements []Placement `json:"placements"` // by rank
}

// Placement is one pod on one node. Devices is a choice that an agent on the node may honour; nil where
// devices are not known.
type Placement struct {
	Pod     string   `json:"pod"`
	UID     string   `json:"uid,omitempty"`
	Node    string   `json:"node"`
	Devices []string `json:"devices,omitempty"`
}

// Waiting is a gang that has members to place and none of them started now.
type Waiting struct {
	Gang    string      `json:"gang"`
	Verdict why.Verdict `json:"verdict"`
	Cause   why.Cause   `json:"cause"` // of the gate that binds first
	Gates   []why.Gate  `json:"gates"` // all that are shut, the binding one first; certificates are the plan's
	// Short says that the gang runs, under its minimum: it is to be repaired, or let go.
	Short bool `json:"short,omitempty"`
}
