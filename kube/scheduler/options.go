package scheduler

import (
	"log/slog"
	"net"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/answer"
	"github.com/berth-dev/berth/kube/cluster"
	"github.com/berth-dev/berth/kube/metrics"
	"github.com/berth-dev/berth/kube/telemetry"
	"github.com/berth-dev/berth/kube/trace"
	"github.com/berth-dev/berth/record"
)

// User is the name that the scheduler has on an embedded cluster: Install gives it exactly the rights that Run
// needs.
const User = "system:berth:scheduler"

// DefaultName is what pods put into spec.schedulerName to be scheduled by Berth.
const DefaultName = cluster.DefaultName

// DefaultLevels are the topology that a fleet's pools describe, widest first.
func DefaultLevels() []engine.Level { return cluster.DefaultLevels() }

// DefaultDeviceBindingTimeout is how long drivers may take to attach devices.
const DefaultDeviceBindingTimeout = cluster.AttachFor

// Options configure Run. Config is required.
type Options struct {
	// Config reaches the API server. Rate limits in it are ignored: the scheduler bounds its own
	// concurrency.
	Config *rest.Config
	Engine engine.Config
	Name   string // of the scheduler, its lease and its events; "": DefaultName
	// For are the schedulerNames of the pods that it schedules; nil: Name alone.
	For []string
	// Dialects are those that are read, by name, also while the API server does not serve their kinds; others are where it does.
	Dialects []string
	// GangGrace is how long a gang may run under its minimum, while it is being repaired, before its members
	// are released; 0: five minutes.
	GangGrace time.Duration
	// DeviceBindingTimeout is how long drivers may take to attach devices that have binding conditions; 0: DefaultDeviceBindingTimeout.
	DeviceBindingTimeout time.Duration
	// Identity takes part in leader election under this name; "": there is no other scheduler of this name.
	Identity string
	// Shadow decides and writes nothing but Decisions.
	Shadow bool
	// GPUMetrics is where it reads how busy GPUs are.
	GPUMetrics GPUMetrics
	// Decisions is where every decision is recorded, to be made again later; without a folder, nowhere.
	Decisions record.Options
	// Answers is where the scheduler says what workloads wait for, and whether it is healthy itself; nil: nowhere. Run closes it.
	Answers net.Listener
	// Address is where the cluster that this process runs in reaches Answers: the pod's own. "": it is not in one.
	Address string
	// Page is shown to people through the API server, with Answers; nil: there is none.
	Page answer.Page
	Log  *slog.Logger // nil: silent
	// Traces is where a span of each workload goes that is started; nil: nowhere.
	Traces *trace.Exporter
	// Asked says whether nodes have been asked for on behalf of a pod; nil: none are asked for. A pod that needs nodes is marked as
	// Unschedulable only then: an autoscaler that saw it before would make nodes for it alone, and not for its gang.
	Asked func(*corev1.Pod) bool
	// Observer is shown what the scheduler knows, while it leads; nil: there is no observer.
	Observer *Observer

	serving   *serving                                   // of Answers
	plan      func(*engine.State, time.Time) engine.Plan // makes the plans; nil: the engine
	queues    queueClient                                // nil: through Config
	foreign   dynamic.Interface                          // for objects of dialects; nil: through Config
	writing   kubernetes.Interface                       // for watches and writes; nil: the one for everything
	binding   kubernetes.Interface                       // for bindings; nil: the one for everything
	unfenced  kubernetes.Interface                       // for what is written whether or not this process leads; nil: nothing is
	telemetry telemetry.Source                           // for GPUMetrics; nil: as those say
	metrics   *metrics.Recorder                          // nil: there are none
	reach     *reach                                     // whether the API server answers; nil: it is not watched
}

func (o Options) normal() Options {
	if o.Name == "" {
		o.Name = DefaultName
	}
	if o.For == nil {
		o.For = []string{o.Name}
	}
	if o.GangGrace == 0 {
		o.GangGrace = gangGrace
	}
	if o.Engine.GangGrace == 0 {
		o.Engine.GangGrace = o.GangGrace
	}
	if o.plan == nil {
		o.plan = (*engine.State).Plan
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Decisions.Log == nil {
		o.Decisions.Log = o.Log
	}
	if o.Engine.AssumeFor == 0 {
		o.Engine.AssumeFor = assumeFor
	}
	return o
}

const (
	// batch is how long a cycle waits for more changes once there is one.
	batch = 2 * time.Millisecond
	// longBatch is how long it waits after cycles that took long: planning leaves nine tenths of a core to others.
	longBatch = 50 * time.Millisecond
	// assumeFor bounds how long a binding may be on its way. It is long because a large backlog is planned at
	// once and bound at the API server's speed.
	assumeFor = 2 * time.Minute
	// unaskedFor is how long a pod is kept from autoscalers at most until nodes are asked for, and unaskedEvery how often it is looked
	// at meanwhile.
	unaskedFor   = 15 * time.Second
	unaskedEvery = 500 * time.Millisecond
	// gathering is how long a gang may lack members before it is said: they are made one after the other.
	gathering = 3 * time.Second
	// patience is how many nodes one after the other may refuse a workload before it is slowed down.
	patience = 5
	// awaken is how long an API server that has just started may refuse what it will allow.
	awaken = 30 * time.Second
	// guardEvery is how often it is looked at whether sealed terms are safe on pods, and guardFor how long at most.
	guardEvery = 10 * time.Second
	guardFor   = 2 * time.Second
	// gangGrace is how long a gang may run under its minimum where nothing else is said.
	gangGrace = 5 * time.Minute
	// finishFor is how long, at the end, what is being sent may take to be finished.
	finishFor = 3 * time.Second
	// binders and reporters bound the requests in flight that are answered quickly.
	binders   = 48
	reporters = 8
)
