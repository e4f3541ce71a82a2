package fleet

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"time"

	"k8s.io/client-go/rest"
)

// User is the name the fleet's token must stand for: Install gives it exactly the rights Run needs.
const User = "system:berth:fleet"

// DownAnnotation on a Node, with the value "true", takes the power from its machine.
const DownAnnotation = "sim.berth.dev/down"

// Options configure Run. Config and KubeletTLS are required.
type Options struct {
	// Config reaches the API server as User. Rate limits in it are ignored: the fleet is many
	// kubelets, and bounds its own concurrency.
	Config *rest.Config
	// KubeletTLS secures the endpoint that the API server calls for exec, logs and the like.
	KubeletTLS KubeletTLS
	// Speed is how many simulated seconds pass in a wall second; 0 means 1.
	Speed float64
	// Cold plays the boot of every machine that this run creates. Machines that are already
	// registered, and all machines of a warm fleet, are up at once.
	Cold bool
	// DataDir keeps the checkpoints of simulated training; empty: they are lost at the end.
	DataDir string
	// LeaseInterval between two heartbeats of a node; 0: LeaseInterval(0). Choose it with
	// LeaseInterval and start the controller manager with the matching GracePeriod.
	LeaseInterval time.Duration
	// Pods, if not nil, is told where the pods of this run are.
	Pods *PodNetwork
	// Progress is called after the Pools were first read and then on every change, one call at a
	// time; it must be quick. Nil: nobody looks.
	Progress func(Progress)
	Log      *slog.Logger // nil: silent
}

// KubeletTLS is what fleet/stream needs to know whom it talks to.
type KubeletTLS struct {
	Certificate tls.Certificate // valid for localhost
	ClientCAs   *x509.CertPool  // signs the API server's kubelet client certificate
	ClientName  string          // its common name
	// AggregatorName is the common name with which the API server hands on requests to aggregated APIs, by the same authority.
	AggregatorName string
}

// Progress counts what is there against what the Pools ask for.
type Progress struct {
	WantNodes, WantGPUs int // of all valid pools; GPUs only where the GPU stack is deployed with the node
	Nodes               int // registered
	Ready               int // of those, Ready and free of the not-ready taint, by this run's word
	GPUs                int // allocatable on those, or offered through DRA
}

// Done says that every node is schedulable with all of its GPUs. It may stay false for good
// reasons (a cold fleet, a node that is down, a user who removed the GPU stack), so whoever
// waits for it needs a time limit.
func (p Progress) Done() bool {
	return p.Ready >= p.WantNodes && p.GPUs >= p.WantGPUs
}

func (o *Options) complete() error {
	if o.Config == nil {
		return errors.New("fleet: no client configuration")
	}
	if o.LeaseInterval == 0 {
		o.LeaseInterval = LeaseInterval(0)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}
