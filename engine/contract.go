package engine

import (
	"time"

	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/calendar"
	"github.com/berth-dev/berth/engine/internal/census"
	"github.com/berth-dev/berth/engine/internal/describe"
	"github.com/berth-dev/berth/engine/why"
)

// The values of the contract. They are declared, with their fields, units and JSON, in engine/internal/api, because the
// packages that decide are below this one and speak of the same values. These names are the ones to use.

// What the world tells: objects, by key, in versions.
type (
	Node       = api.Node
	Device     = api.Device
	Offer      = api.Offer
	Counter    = api.Counter
	Draw       = api.Draw
	Image      = api.Image
	Pod        = api.Pod
	Spec       = api.Spec
	GPU        = api.GPU
	Terms      = api.Terms
	Gang       = api.Gang
	Group      = api.Group
	Layout     = api.Layout
	Queue      = api.Queue
	Budget     = api.Budget
	Disruption = api.Disruption
	Booking    = api.Booking
)

// The vocabulary of what pods ask of nodes, as Kubernetes defines it.
type (
	Amount        = api.Amount
	Resources     = api.Resources
	Requirement   = api.Requirement
	Op            = api.Op
	Term          = api.Term
	Preference    = api.Preference
	Taint         = api.Taint
	Effect        = api.Effect
	Toleration    = api.Toleration
	PodTerm       = api.PodTerm
	PodPreference = api.PodPreference
	Spread        = api.Spread
	PodRules      = api.PodRules
	Port          = api.Port
	Wish          = api.Wish

	Claims          = api.Claims
	DeviceRequest   = api.DeviceRequest
	DeviceOption    = api.DeviceOption
	DeviceAgreement = api.DeviceAgreement
	Use             = api.Use
	SetGroups       = api.SetGroups
	Share           = api.Share

	Part = api.Part
	// Slice is a resource of which one is a part of a GPU.
	Slice = api.Slice
)

// Bounds of what objects may say.
const (
	MaxAmount       = api.MaxAmount
	MaxOffers       = api.MaxOffers
	MaxClaimDevices = api.MaxClaimDevices
	MaxOfOneClaim   = api.MaxOfOneClaim
	MaxCardMemory   = api.MaxCardMemory
)

// ParseShare reads a share of a device as lists of devices have it, and DeviceOf is the device that an entry of such a list is about.
func ParseShare(text string) (Share, bool) { return api.ParseShare(text) }
func DeviceOf(text string) string          { return api.DeviceOf(text) }

// Whole is a whole GPU in the units of Part and Slice.
const Whole = api.Whole

// What the engine remembers between plans. A plan edits it by Changes; it comes back by Apply.
type (
	Assumption      = api.Assumption
	Refusal         = api.Refusal
	Hold            = api.Hold
	HeldCard        = api.HeldCard
	Eviction        = api.Eviction
	EvictionCause   = api.EvictionCause
	Promise         = api.Promise
	QueueUsage      = api.QueueUsage
	UserUsage       = api.UserUsage
	RunTimeEstimate = api.RunTimeEstimate
	Degradation     = api.Degradation
	RequestMix      = api.RequestMix
	RequestKind     = api.RequestKind
	ModelSupply     = api.ModelSupply
)

// What is counted between plans, and when those that wait will start.
type (
	Report   = census.Report
	Usage    = census.Usage
	Largest  = census.Largest
	QueueUse = census.QueueUse
	Crowd    = census.Crowd
	Tally    = census.Tally
	Held     = census.Held
	Estimate = calendar.Estimate
)

// ForecastVersion is the version of Estimate.
const ForecastVersion = calendar.ForecastVersion

// How everything comes in, and what is answered.
type (
	Change      = api.Change
	Ref         = api.Ref
	Kind        = api.Kind
	Rejected    = api.Rejected
	Snapshot    = api.Snapshot
	Plan        = api.Plan
	Start       = api.Start
	StartKind   = api.StartKind
	Placement   = api.Placement
	Waiting     = api.Waiting
	Discrepancy = api.Discrepancy
)

// Policy.
type (
	Config      = api.Config
	Policy      = api.Policy
	Level       = api.Level
	Packing     = api.Packing
	PartsBy     = api.PartsBy
	FlavorGroup = api.FlavorGroup
	Flavor      = api.Flavor
	Shape       = api.Shape
	Rate        = api.Rate
	Moves       = api.Moves
	Stop        = api.Stop
)

// The values of these types that have names.
const (
	// Config.Policy and Packing, Queue.Stop, and the Wishes of a GPU.
	Default, TimeShare, FIFO, Strict = api.Default, api.TimeShare, api.FIFO, api.Strict
	Tight, Loose, LeastF, Priced     = api.Tight, api.Loose, api.LeastF, api.Priced
	StopHold, StopDrain              = api.StopHold, api.StopDrain
	Prefer, Require                  = api.Prefer, api.Require

	// Resources of Kubernetes, operators of requirements, and effects of taints.
	CPU, Memory, Pods               = api.CPU, api.Memory, api.Pods
	In, NotIn, Exists, DoesNotExist = api.In, api.NotIn, api.Exists, api.DoesNotExist
	Gt, Lt                          = api.Gt, api.Lt
	NoSchedule, PreferNoSchedule    = api.NoSchedule, api.PreferNoSchedule
	NoExecute                       = api.NoExecute
	Exclusive                       = api.Exclusive // Port.Protocol

	// Start.Kind, and Eviction.Cause.
	Begin, Repair, Grow          = api.Begin, api.Repair, api.Grow
	Reclaimed, Preempted, Shared = api.Reclaimed, api.Preempted, api.Shared
	Overran, MaxRun, Idled       = api.Overran, api.MaxRun, api.Idled
	Moved, Booked, Drained       = api.Moved, api.Booked, api.Drained
	Unhealthy, Broken            = api.Unhealthy, api.Broken

	// Ref.Kind.
	KindNode, KindPod, KindGang, KindQueue = api.KindNode, api.KindPod, api.KindGang, api.KindQueue
	KindAssumption, KindRefusal, KindHold  = api.KindAssumption, api.KindRefusal, api.KindHold
	KindDisruption, KindBooking            = api.KindDisruption, api.KindBooking
	KindEviction, KindPromise, KindUsage   = api.KindEviction, api.KindPromise, api.KindUsage
	KindRunTimeEstimate, KindDegradation   = api.KindRunTimeEstimate, api.KindDegradation
	KindRequestMix, KindConfig             = api.KindRequestMix, api.KindConfig

	NodeLevel       = api.NodeLevel
	SnapshotVersion = api.SnapshotVersion
)

// Several joins the values of an attribute of an Offer that has more than one.
const Several = api.Several

// OfModel names the part of the resource that is of one GPU model, as queues count it.
func OfModel(resource, model string) string { return api.OfModel(resource, model) }

// OfFlavor names the part of the resource that is of one flavor of nodes, as queues count it, and FlavorOf undoes it.
func OfFlavor(resource, flavor string) string { return api.OfFlavor(resource, flavor) }

func FlavorOf(name string) (resource, flavor string, ok bool) { return api.FlavorOf(name) }

// How answers read.

// Describe writes a plan for people and golden files: starts, evictions, promises, waits with all their gates, edits of memory
// in one line, and when to look again, from the plan's own moment.
func Describe(p Plan) string { return describe.Plan(p) }

// DescribeExplanation writes an explanation with every row of its certificates.
func DescribeExplanation(e why.Explanation) string { return describe.Explanation(e) }

// DescribeReport writes a report: a line for all, one for each pool, one for each model's largest jobs.
func DescribeReport(r Report) string { return describe.Report(r) }

// DescribeQueues writes queues, in the order of the tree and indented by it: what each is promised, may have and uses,
// what waits in it, and what there is to warn of.
func DescribeQueues(uses []QueueUse) string { return describe.Queues(uses) }

// DescribeForecast writes estimates, one a line, from the moment they were made.
func DescribeForecast(now time.Time, all []Estimate) string { return describe.Forecast(now, all) }

// DescribeRejected writes rejections, one a line.
func DescribeRejected(all []Rejected) string { return describe.Rejected(all) }
