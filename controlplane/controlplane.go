// Package controlplane runs a real Kubernetes control plane inside this process: etcd,
// kube-apiserver, the controllers that people who schedule work rely on, and the stock
// kube-scheduler for pods that name no other. Everything listens on loopback; etcd listens
// on a socket in the data folder and nowhere else.
//
// It is not a distribution: no kubelets (package fleet simulates them), no network plugin,
// no add-ons. cmd/berth calls it, once per process: Kubernetes keeps its feature gates,
// its logger and its metrics in process-wide variables. Together with internal/conformance
// this is the only place that compiles k8s.io/kubernetes.
package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/berth-dev/berth/controlplane/home"
)

// Options say what to start. Dir and Listener are required.
type Options struct {
	Dir       home.Dir     // held by the caller (home.Dir.Lock)
	Listener  net.Listener // of the API server, on loopback
	Name      string       // of the cluster, its context and its user in kubeconfig
	Ephemeral bool         // do not wait for the disk: a crash may lose everything
	Log       *os.File     // where the components log

	// NodeGrace is how long a node may be silent before it counts as unreachable, and
	// goes with the fleet's lease interval. 0: Kubernetes' default.
	NodeGrace time.Duration

	NoControllers bool // nobody makes pods of Jobs, or collects what is orphaned
	NoScheduler   bool // nobody schedules pods that name the stock scheduler, or none

	// NoGroups leaves out Kubernetes' own kinds for groups of pods (PodGroup and Workload of scheduling.k8s.io), so that kubectl
	// finds another project's kinds of these names.
	NoGroups bool

	// DialPod, if not nil, connects to the simulated pod that has an address; found is false where none has. The API server reaches pods
	// and services through it that somebody asks it to proxy to, and all other addresses over the machine's network.
	DialPod func(ctx context.Context, to netip.AddrPort) (conn net.Conn, found bool, err error)

	// Progress, where not nil, is told of each step done.
	Progress func(step string)
}

// Cluster is a running control plane.
type Cluster struct {
	dir    home.Dir
	keys   keys
	server string // https://127.0.0.1:port

	noGroups bool

	failed  chan error         // first component that stopped by itself
	stop    context.CancelFunc // clients of the API server: controllers, scheduler
	stopAPI context.CancelFunc
	done    []<-chan struct{} // of the clients
	apiDone <-chan struct{}
	etcd    *etcd
}

// Start brings the control plane up and returns once the API server is ready and, unless left out, the
// controllers and the scheduler run. On error nothing is left running.
func Start(ctx context.Context, opts Options) (*Cluster, error) {
	if opts.Progress == nil {
		opts.Progress = func(string) {}
	}
	if err := checkLoopback(opts.Listener); err != nil {
		return nil, err
	}
	tuneMemory()
	c := &Cluster{
		dir:      opts.Dir,
		noGroups: opts.NoGroups,
		server:   "https://" + opts.Listener.Addr().String(),
		failed:   make(chan error, 8),
	}
	if err := c.start(ctx, opts); err != nil {
		c.Stop()
		return nil, err
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context, opts Options) (err error) {
	if err := setVersion(); err != nil {
		return err
	}
	if err := resetRun(opts.Dir); err != nil {
		return err
	}
	if c.keys, err = loadKeys(opts.Dir); err != nil {
		return err
	}
	if err := c.writeKubeconfig(opts.Dir.Kubeconfig(), opts.Name, "admin"); err != nil {
		return err
	}
	if c.etcd, err = startEtcd(opts.Dir, opts.Ephemeral, opts.Log); err != nil {
		return fmt.Errorf("start etcd: %w", err)
	}
	go c.watchEtcd()
	opts.Progress("etcd")
	if err := c.startAPIServer(ctx, opts); err != nil {
		return fmt.Errorf("start kube-apiserver: %w", err)
	}
	opts.Progress("kube-apiserver")
	return c.startClients(ctx, opts)
}

// startClients starts what talks to the API server.
func (c *Cluster) startClients(ctx context.Context, opts Options) error {
	clients, stop := context.WithCancel(context.WithoutCancel(ctx))
	c.stop = stop
	for _, part := range []struct {
		name string
		skip bool
		run  func(context.Context) error
	}{
		{"kube-controller-manager", opts.NoControllers, func(ctx context.Context) error { return c.runControllers(ctx, opts.NodeGrace) }},
		{"kube-scheduler", opts.NoScheduler, c.runScheduler},
	} {
		if part.skip {
			continue
		}
		if err := c.writeKubeconfig(c.componentConfig(part.name), "berth", identityOf[part.name]); err != nil {
			return err
		}
		c.done = append(c.done, c.spawn(clients, part.name, part.run))
		opts.Progress(part.name)
	}
	return nil
}

var identityOf = map[string]string{
	"kube-controller-manager": "controller-manager",
	"kube-scheduler":          "scheduler",
}

// spawn runs a component until ctx ends. One that ends sooner has failed.
func (c *Cluster) spawn(ctx context.Context, name string, run func(context.Context) error) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := run(ctx)
		if ctx.Err() == nil {
			c.fail(fmt.Errorf("%s stopped: %w", name, err))
		}
	}()
	return done
}

// watchEtcd reports an etcd that stops by itself. Stopping it closes the channel.
func (c *Cluster) watchEtcd() {
	if err, ok := <-c.etcd.server.Err(); ok {
		c.fail(fmt.Errorf("etcd stopped: %w", err))
	}
}

func (c *Cluster) fail(err error) {
	select {
	case c.failed <- err:
	default: // somebody failed before; that one is reported
	}
}

// Failed delivers the error of a component that stopped by itself.
func (c *Cluster) Failed() <-chan error { return c.failed }

// Stop ends everything in order: clients first, then the API server, then etcd.
func (c *Cluster) Stop() {
	if c.stop != nil {
		c.stop()
		wait(10*time.Second, c.done...)
	}
	if c.stopAPI != nil {
		c.stopAPI()
		wait(10*time.Second, c.apiDone)
	}
	if c.etcd != nil {
		c.etcd.stop()
	}
	klog.Flush()
}

func wait(limit time.Duration, all ...<-chan struct{}) {
	t := time.NewTimer(limit)
	defer t.Stop()
	for _, done := range all {
		select {
		case <-done:
		case <-t.C:
			return
		}
	}
}

// Config is how the component with that identity ("admin", "fleet") calls the API server:
// its own token, protobuf, no throttling on the client's side.
func (c *Cluster) Config(identity string) (*rest.Config, error) {
	token, err := c.keys.token(identity)
	if err != nil {
		return nil, err
	}
	return &rest.Config{
		Host:            c.server,
		BearerToken:     token,
		TLSClientConfig: rest.TLSClientConfig{CAFile: c.keys.file("ca.crt")},
		ContentConfig: rest.ContentConfig{
			ContentType:        "application/vnd.kubernetes.protobuf",
			AcceptContentTypes: "application/vnd.kubernetes.protobuf,application/json",
		},
		QPS: -1,
	}, nil
}

// KubeletTLS is what the fleet's kubelets need to be called by this API server.
func (c *Cluster) KubeletTLS() (KubeletTLS, error) { return c.keys.kubeletTLS() }

// interruptedFor bounds how long a start that was interrupted waits for the API server to be ready.
const interruptedFor = 30 * time.Second

// waitReady returns when the API server says it is. Who interrupts the start waits too: an API server that is stopped
// before its start hooks are done takes that for a failure of theirs, and ends the process with the stacks of its
// goroutines. Once it is ready it stops in order.
func (c *Cluster) waitReady(interrupted context.Context) error {
	ctx, cancel := context.WithCancel(context.WithoutCancel(interrupted))
	defer cancel()
	defer context.AfterFunc(interrupted, func() { time.AfterFunc(interruptedFor, cancel) })()
	if err := c.waitForReady(ctx); err != nil {
		return err
	}
	return context.Cause(interrupted)
}

func (c *Cluster) waitForReady(ctx context.Context) error {
	cfg, err := c.Config("admin")
	if err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if ready(ctx, client, c.server+"/readyz") {
			return nil
		}
		select {
		case <-tick.C:
		case err := <-c.failed:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func ready(ctx context.Context, client *http.Client, url string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// resetRun makes the folder of what belongs to one run only: sockets and the components'
// own configuration files.
func resetRun(d home.Dir) error {
	return errors.Join(os.RemoveAll(d.Run()), os.MkdirAll(d.Run(), 0o700))
}

func checkLoopback(l net.Listener) error {
	a, ok := l.Addr().(*net.TCPAddr)
	if !ok || !a.IP.IsLoopback() {
		return fmt.Errorf("the API server may listen on loopback only, not on %s", l.Addr())
	}
	return nil
}
