package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/controlplane/home"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/fleet/file"
	"github.com/berth-dev/berth/fleet/provisioner"
	"github.com/berth-dev/berth/kube/dialect/all"
)

// defaultName is the cluster that commands mean when no --name is given.
const defaultName = "berth"

// Who can schedule pods that name no scheduler.
const (
	stockScheduler = "stock"
	berthScheduler = "berth"
)

type upOptions struct {
	name, data, fleet string
	fleetGiven        bool // --fleet was written, so it also changes an existing cluster
	apiPort           int
	speed             float64
	ephemeral, detach bool
	cold, merge       bool
	withoutScheduler  bool   // Berth's own
	defaultScheduler  string // who schedules pods that name no scheduler
	dialects          []string
	gangGrace         time.Duration
	deviceTimeout     time.Duration
	policy            policyFlags
	provisioner       string   // which provisioner is played; "": none, Berth launches machines itself
	requests          string   // class of ProvisioningRequests that Berth writes; none: it writes none
	expanders         []string // of the cluster autoscaler that is played
	nodeRepair        bool     // whether the Karpenter that is played repairs nodes
	with              []string // other projects' controllers
	operators         string   // the program that has them
	page              string   // the link to the page, once it is served

	streams Streams
	deps    Deps
}

// ControlPlaneOptions are what `up` asks of the control plane.
type ControlPlaneOptions struct {
	Dir       home.Dir
	Listener  net.Listener
	Name      string
	Ephemeral bool
	Log       *os.File
	NodeGrace time.Duration

	NoControllers, NoScheduler bool
	NoGroups                   bool

	DialPod func(ctx context.Context, to netip.AddrPort) (conn net.Conn, found bool, err error)

	Progress func(step string)
}

func newCmdUp(s Streams, d Deps) *cobra.Command {
	o := &upOptions{streams: s, deps: d}
	cmd := &cobra.Command{
		Use:   "up [FLEET]",
		Short: "Start a cluster with a simulated GPU fleet",

		SuggestFor: []string{"start", "create", "run"},
		Long: `Start a real Kubernetes control plane and a simulated GPU fleet in this process.

The cluster's data lasts: stop with Ctrl-C or ` + "`berth down`" + `, start again with the same
command. Nothing listens outside loopback, and your own kubeconfig is left alone unless
you ask with --merge-kubeconfig.

It prints a link to a page that shows the cluster in a browser; the link works once, and ` + "`berth ui`" + ` makes
another (docs/page.md).

A scheduler or fleet that ends by itself is started again. With --detach, what is printed then, and
what a crash says, is in stderr.log in the data folder; the components log to berth.log beside it.

FLEET is a preset or a fleet file, as with --fleet. Given for a cluster that exists, it replaces
that cluster's fleet: pools that it does not have are removed with their nodes.`,
		Example: `  berth up                          # the lab fleet: 32 GPUs of three models
  berth up layers --name l          # a second cluster, whose nodes have no GPUs yet
  berth up my-fleet.yaml --detach
  berth up --default-scheduler berth  # no stock scheduler: Berth schedules everything
  berth up --dialect kai            # manifests for KAI run unchanged: kubectl get queue, podgroups
  berth up --with jobset,lws        # with the controllers and webhooks of JobSet and LeaderWorkerSet
  berth up --provision karpenter    # NodePools and NodeClaims make the nodes of pools with launch
  berth up --ephemeral --speed 60   # keeps nothing; a simulated minute takes a second`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.whichFleet(cmd.Flags().Changed("fleet"), args); err != nil {
				return err
			}
			if err := o.check(); err != nil {
				return err
			}
			return failed(upRun(cmd.Context(), o))
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.fleet, "fleet", "lab", "preset ("+presetNames()+") or fleet file")
	nameFlag(cmd, &o.name, defaultName, "name of the cluster")
	f.StringVar(&o.data, "data", "", "data folder (default: the cluster's own under $BERTH_HOME)")
	f.BoolVar(&o.ephemeral, "ephemeral", false, "keep nothing and do not wait for the disk")
	f.BoolVar(&o.detach, "detach", false, "return when the cluster is ready and leave it running")
	f.IntVar(&o.apiPort, "api-port", 0, "port of the API server on loopback (default: the cluster's last, or the first free from 6443)")
	f.Float64Var(&o.speed, "speed", 1, "how many simulated seconds pass in a second: boots, pulls, run times")
	f.StringVar(&o.defaultScheduler, "default-scheduler", stockScheduler, "who schedules pods that name no scheduler: stock or berth")
	f.StringSliceVar(&o.dialects, "dialect", nil, "serve the kinds of another scheduler and schedule its pods: "+strings.Join(all.Names(), ", "))
	gangGraceFlag(cmd, &o.gangGrace)
	deviceTimeoutFlag(cmd, &o.deviceTimeout)
	o.policy.flags(cmd)
	f.StringVar(&o.provisioner, "provision", "", "play a node provisioner for pools with launch, in Berth's place: "+strings.Join(provisioner.Kinds(), " or ")+"; see docs/provisioners.md")
	f.StringVar(&o.requests, "provisioning-requests", "none", "with --provision autoscaler: ask it for the nodes of each gang at once: check-capacity, best-effort-atomic or none")
	f.StringSliceVar(&o.expanders, "expander", nil, "with --provision autoscaler: how it chooses one of several node groups, one after the other: "+strings.Join(provisioner.Expanders(), ", ")+" (default "+provisioner.Expanders()[0]+")")
	f.BoolVar(&o.nodeRepair, "node-repair", false, "with --provision karpenter: replace nodes that are unhealthy for long, as its feature gate NodeRepair does")
	f.StringSliceVar(&o.with, "with", nil, "run controllers of other projects too: jobset, lws, mpi, pytorch, ray, trainjob, vcjob; see docs/operators.md")
	f.BoolVar(&o.withoutScheduler, "without-scheduler", false, "do not run Berth's scheduler: for one that is installed with berth install")
	f.BoolVar(&o.cold, "cold", false, "play the nodes' boots instead of starting warm")
	f.BoolVar(&o.merge, "merge-kubeconfig", false, "add the cluster to your own kubeconfig and select it")
	cmd.RegisterFlagCompletionFunc("dialect", cobra.FixedCompletions(all.Names(), cobra.ShellCompDirectiveNoFileComp))
	cmd.RegisterFlagCompletionFunc("provision", cobra.FixedCompletions(provisioner.Kinds(), cobra.ShellCompDirectiveNoFileComp))
	cmd.RegisterFlagCompletionFunc("provisioning-requests", cobra.FixedCompletions([]string{"check-capacity", "best-effort-atomic", "none"}, cobra.ShellCompDirectiveNoFileComp))
	cmd.RegisterFlagCompletionFunc("expander", cobra.FixedCompletions(provisioner.Expanders(), cobra.ShellCompDirectiveNoFileComp))
	cmd.RegisterFlagCompletionFunc("default-scheduler", cobra.FixedCompletions([]string{stockScheduler, berthScheduler}, cobra.ShellCompDirectiveNoFileComp))
	fleets := func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return strings.Split(presetNames(), ", "), cobra.ShellCompDirectiveDefault
	}
	cmd.RegisterFlagCompletionFunc("fleet", fleets)
	cmd.ValidArgsFunction = fleets
	return cmd
}

// whichFleet reads the fleet, which can be given as a flag or alone.
func (o *upOptions) whichFleet(flag bool, args []string) error {
	o.fleetGiven = flag || len(args) > 0
	if flag && len(args) > 0 && args[0] != o.fleet {
		return fmt.Errorf("two fleets are given, %s and %s: give one", args[0], o.fleet)
	}
	if len(args) > 0 {
		o.fleet = args[0]
	}
	return nil
}

func presetNames() string {
	var names []string
	for _, p := range file.Presets() {
		names = append(names, p.Name)
	}
	return strings.Join(names, ", ")
}

func (o *upOptions) check() error {
	if err := home.CheckName(o.name); err != nil {
		return err
	}
	if o.apiPort < 0 || o.apiPort > 65535 {
		return fmt.Errorf("--api-port %d: a port is a number from 1 to 65535", o.apiPort)
	}
	if o.withoutScheduler && o.defaultScheduler == berthScheduler {
		return errors.New("--without-scheduler and --default-scheduler berth: nobody would schedule anything")
	}
	if o.defaultScheduler != stockScheduler && o.defaultScheduler != berthScheduler {
		return fmt.Errorf("--default-scheduler %q: choose %s (kube-scheduler) or %s", o.defaultScheduler, stockScheduler, berthScheduler)
	}
	for _, name := range o.dialects {
		if all.Find(name) == nil {
			return fmt.Errorf("--dialect %q: choose %s", name, strings.Join(all.Names(), ", "))
		}
	}
	if o.provisioner != "" && !slices.Contains(provisioner.Kinds(), o.provisioner) {
		return fmt.Errorf("--provision %q: choose %s", o.provisioner, strings.Join(provisioner.Kinds(), " or "))
	}
	if class, err := parseRequests(o.requests); err != nil {
		return err
	} else if class != "" && o.provisioner != string(provisioner.Autoscaler) {
		return errors.New("--provisioning-requests: nobody answers them without --provision autoscaler")
	}
	if len(o.expanders) > 0 && o.provisioner != string(provisioner.Autoscaler) {
		return errors.New("--expander: nobody chooses node groups without --provision autoscaler")
	}
	if err := provisioner.CheckExpanders(o.expanders); err != nil {
		return fmt.Errorf("--expander: %w", err)
	}
	if o.nodeRepair && o.provisioner != string(provisioner.Karpenter) {
		return errors.New("--node-repair: nobody repairs nodes without --provision karpenter")
	}
	if err := checkGangGrace(o.gangGrace); err != nil {
		return err
	}
	if err := checkDeviceTimeout(o.deviceTimeout); err != nil {
		return err
	}
	if _, err := o.policy.config(engine.Config{}); err != nil {
		return err
	}
	if !(o.speed > 0 && o.speed <= 100000) {
		return fmt.Errorf("--speed %v: give a number above 0, up to 100000", o.speed)
	}
	return o.checkWith()
}

func upRun(ctx context.Context, o *upOptions) error {
	pools, err := file.Load(o.fleet)
	if err != nil {
		return err
	}
	dir, err := o.dir()
	if err != nil {
		return err
	}
	if err := o.replaceFleet(dir); err != nil {
		return err
	}
	if o.detach {
		return upDetached(o, dir)
	}
	s := &session{upOptions: o, dir: dir, pools: pools, report: o.reporter()}
	err = s.run(ctx)
	s.report.end(err)
	return err
}

// replaceFleet makes sure that a cluster's fleet is not replaced by accident: on a terminal it asks, elsewhere it says
// so. Nothing is asked by the child of a detached start, whose parent has asked.
func (o *upOptions) replaceFleet(dir home.Dir) error {
	r, err := dir.Load()
	if err != nil || !o.fleetGiven || r.Ephemeral || r.Fleet == "" || r.Fleet == o.fleet || detachedChild() {
		return nil // what is wrong with the folder is said later, by who holds it
	}
	what := fmt.Sprintf("Cluster %q has fleet %s. Fleet %s replaces it: pools that %s does not have are removed with their nodes.", o.name, r.Fleet, o.fleet, o.fleet)
	if !isTerminal(o.streams.Err) || !isTerminal(o.streams.In) {
		fmt.Fprintln(o.streams.Err, what)
		return nil
	}
	fmt.Fprint(o.streams.Err, what+" Go on? [y/N] ")
	answer, _ := bufio.NewReader(o.streams.In).ReadString('\n')
	if a := strings.ToLower(strings.TrimSpace(answer)); a == "y" || a == "yes" {
		return nil
	}
	return fmt.Errorf("cluster %q keeps fleet %s: start it without a fleet, or use another --name for %s", o.name, r.Fleet, o.fleet)
}

// dir is the data folder. Nothing is made yet.
func (o *upOptions) dir() (home.Dir, error) {
	root, err := home.Root()
	if err != nil {
		return home.Dir{}, err
	}
	if o.data == "" {
		return home.Named(root, o.name), nil
	}
	return home.At(root, o.name, o.data)
}

// claim reads the folder's record, or makes its first, and refuses what this binary cannot
// use. What an ephemeral cluster left behind is removed: nobody was promised it.
func (o *upOptions) claim(dir home.Dir) (home.Record, error) {
	r, err := dir.Load()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r = home.Record{Name: o.name}
	case err != nil:
		return r, err
	case o.checkOwner(dir, r) != nil:
		return r, o.checkOwner(dir, r)
	case r.Ephemeral:
		if err := dir.Wipe(); err != nil {
			return r, err
		}
		r = home.Record{Name: o.name}
	case o.ephemeral:
		return r, fmt.Errorf("cluster %q keeps its data: start it without --ephemeral, or use another --name for one that does not", o.name)
	default:
		if err := dir.Compatible(r, o.deps.Kubernetes); err != nil {
			return r, err
		}
	}
	if o.fleetGiven || r.Fleet == "" {
		r.Fleet, r.Nodes = o.fleet, 0
	}
	r.Format, r.Kubernetes, r.Ephemeral = home.Format, o.deps.Kubernetes, o.ephemeral
	r.PID, r.Ready, r.Started = os.Getpid(), false, time.Now().UTC().Format(time.RFC3339)
	return r, nil
}

// checkOwner refuses a folder that another cluster of this machine has its data in, running or not. A folder that was
// found by its own name is the cluster's, whatever its record says.
func (o *upOptions) checkOwner(dir home.Dir, r home.Record) error {
	if r.Name == o.name || o.data == "" && !dir.Linked() {
		return nil
	}
	return fmt.Errorf("folder %s has the data of cluster %q: start that with --name %s, or give %q another folder", dir.Path, r.Name, r.Name, o.name)
}

// listen opens the API server's port: the one asked for, else the cluster's last, else
// the first free one from 6443.
func (o *upOptions) listen(r home.Record) (net.Listener, error) {
	port := o.apiPort
	if port == 0 {
		port = r.APIPort
	}
	if port != 0 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			return nil, fmt.Errorf("port %d of the API server is taken: choose another with --api-port", port)
		}
		return l, nil
	}
	for port = 6443; port < 6543; port++ {
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return l, nil
		}
	}
	return net.Listen("tcp", "127.0.0.1:0")
}

func openLog(dir home.Dir) (*os.File, error) {
	if err := os.Rename(dir.Log(), dir.Log()+".old"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return os.OpenFile(dir.Log(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
}
