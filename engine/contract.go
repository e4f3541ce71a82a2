package engine

import (
	"github.com/berth-dev/berth/engine/internal/api"
	"github.com/berth-dev/berth/engine/internal/calendar"
	"github.com/berth-dev/berth/engine/internal/census"
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

const (
	Default   = api.Default
	TimeShare = api.TimeShare
	FIFO      = api.FIFO
	Strict    = api.Strict
)

const (
	Tight  = api.Tight
	Loose  = api.Loose
	LeastF = api.LeastF
	Priced = api.Priced
)

const (
	In               = api.In
	NotIn            = api.NotIn
	Exists           = api.Exists
	DoesNotExist     = api.DoesNotExist
	Gt               = api.Gt
	Lt               = api.Lt
	NoSchedule       = api.NoSchedule
	PreferNoSchedule = api.PreferNoSchedule
	NoExecute        = api.NoExecute

	Exclusive = api.Exclusive
)

const (
	CPU    = api.CPU
	Memory = api.Memory
	Pods   = api.Pods
)

const (
	StopHold  = api.StopHold
	StopDrain = api.StopDrain
)

const (
	Prefer  = api.Prefer
	Require = api.Require
)

const (
	Reclaimed = api.Reclaimed
	Preempted = api.Preempted
	Shared    = api.Shared
	Overran   = api.Overran
	MaxRun    = api.MaxRun
	Idled     = api.Idled
	Moved     = api.Moved
	Booked    = api.Booked
	Drained   = api.Drained
	Unhealthy = api.Unhealthy
	Broken    = api.Broken
)

const (
	KindNode            = api.KindNode
	KindPod             = api.KindPod
	KindGang            = api.KindGang
	KindQueue           = api.KindQueue
	KindAssumption      = api.KindAssumption
	KindRefusal         = api.KindRefusal
	KindHold            = api.KindHold
	KindDisruption      = api.KindDisruption
	KindBooking         = api.KindBooking
	KindEviction        = api.KindEviction
	KindPromise         = api.KindPromise
	KindUsage           = api.KindUsage
	KindRunTimeEstimate = api.KindRunTimeEstimate
	KindDegradation     = api.KindDegradation
	KindRequestMix      = api.KindRequestMix
	KindConfig          = api.KindConfig
)

const (
	Begin  = api.Begin
	Repair = api.Repair
	Grow   = api.Grow
)

const NodeLevel = api.NodeLevel

const SnapshotVersion = api.SnapshotVersion

// Several joins the values of an attribute of an Offer that has more than one.
const Several = api.Several

// OfModel names the part of the resource that is of one GPU model, as queues count it.
func OfModel(resource, model string) string { return api.OfModel(resource, model) }

// OfFlavor names the part of the resource that is of one flavor of nodes, as queues count it, and FlavorOf undoes it.
func OfFlavor(resource, flavor string) string { return api.OfFlavor(resource, flavor) }

func FlavorOf(name string) (resource, flavor string, ok bool) { return api.FlavorOf(name) }
