package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	v1alpha1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/provision"
	"github.com/berth-dev/berth/kube/scheduler"
	"github.com/berth-dev/berth/kube/telemetry"
	"github.com/berth-dev/berth/kube/trace"
	"github.com/berth-dev/berth/record"
)

type schedulerOptions struct {
	connection
	schedulerName string
	pods          []string
	levels        []string
	gangGrace     time.Duration
	deviceTimeout time.Duration
	policy        policyFlags
	elect, shadow bool
	listen        string
	address       string
	record        string
	gpuMetrics    string
	requests      string
	metricsToken  string
	metricsCA     string
	traces        string // a collector's URL
	file          string
	streams       Streams
}

func newCmdScheduler(s Streams) *cobra.Command {
	return newSchedulerFlags(&schedulerOptions{streams: s})
}

// newSchedulerFlags is the command over those options, which its flags fill.
func newSchedulerFlags(o *schedulerOptions) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "scheduler",
		Short: "Run Berth's scheduler against any cluster",
		Long: `Run Berth's scheduler against a cluster: one that a kubeconfig names, one of this machine, or
the one it runs in. It schedules pods with schedulerName berth and leaves all others alone.
Several may run at once; one of them leads.

With --shadow it decides what it would do with the cluster as it is and writes nothing to it;
with --record its decisions can be read, and played again, with ` + "`berth replay`" + `.

With --config most of the flags can be in a file, which is read again when it changes; a flag that is
given goes before the file. docs/install.md has its fields.`,
		Example: `  berth scheduler --kubeconfig ~/.kube/config --shadow --record decisions
  berth scheduler --context prod --level rack=example.com/rack
  berth scheduler --name lab --scheduler-name second --for second`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return schedulerKeep(cmd, o) },
	}
	o.connection.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&o.file, "config", "", "file of apiVersion berth.dev/v1alpha1 and kind SchedulerConfiguration (default: none)")
	f.StringVar(&o.schedulerName, "scheduler-name", scheduler.DefaultName, "its name: of the lease it leads by, and in its events")
	f.StringSliceVar(&o.pods, "for", nil, "schedulerNames of the pods it schedules (default: its own name)")
	f.StringSliceVar(&o.levels, "level", nil, "a topology level as NAME=LABEL, widest first (default: "+describeLevels(scheduler.DefaultLevels())+")")
	gangGraceFlag(cmd, &o.gangGrace)
	deviceTimeoutFlag(cmd, &o.deviceTimeout)
	o.policy.flags(cmd)
	f.BoolVar(&o.elect, "leader-elect", true, "take part in the election of a leader")
	f.StringVar(&o.listen, "listen", "", "address on which it answers who waits for what, and whether it is well, such as :10259 (default: none)")
	f.StringVar(&o.address, "advertise-address", os.Getenv("POD_IP"), "address at which the cluster reaches --listen, if it runs in one")
	f.StringVar(&o.record, "record", "", "folder for the log of its decisions, read by berth replay (default: none)")
	f.StringVar(&o.gpuMetrics, "gpu-metrics", exportersOf+"="+operatorNamespace, "where it reads which GPUs are broken, and for queues with reclaimIdleAfter how busy they are: exporters=NAMESPACE, several with commas between, the URL of a Prometheus, or none")
	f.StringVar(&o.requests, "provisioning-requests", "none", "ask a cluster autoscaler for the nodes of each gang at once, with a ProvisioningRequest of this class: check-capacity, best-effort-atomic, the full name of another class, or none")
	f.StringVar(&o.metricsToken, "gpu-metrics-token-file", "", "file with the bearer token for the Prometheus of --gpu-metrics (default: none)")
	f.StringVar(&o.metricsCA, "gpu-metrics-ca-file", "", "file with the certificates that vouch for the Prometheus of --gpu-metrics (default: those of the system)")
	f.StringVar(&o.traces, "otlp-endpoint", "", "URL of an OpenTelemetry collector, such as http://collector.monitoring:4318, for one span per workload from its creation until it runs (default: none)")
	f.BoolVar(&o.shadow, "shadow", false, "decide and write nothing")
	return cmd
}

func gangGraceFlag(cmd *cobra.Command, d *time.Duration) {
	cmd.Flags().DurationVar(d, "gang-grace", 5*time.Minute, "how long a gang may run under its minimum before it is let go")
}

func checkGangGrace(d time.Duration) error {
	if d <= 0 {
		return fmt.Errorf("--gang-grace %s: give a time above 0, such as 5m", d)
	}
	return nil
}

func deviceTimeoutFlag(cmd *cobra.Command, d *time.Duration) {
	cmd.Flags().DurationVar(d, "device-binding-timeout", scheduler.DefaultDeviceBindingTimeout, "how long drivers may take to attach devices with binding conditions before others are looked for")
}

func checkDeviceTimeout(d time.Duration) error {
	if d <= 0 {
		return fmt.Errorf("--device-binding-timeout %s: give a time above 0, such as 10m", d)
	}
	return nil
}

func describeLevels(list []engine.Level) string {
	words := make([]string, len(list))
	for i, l := range list {
		words[i] = l.Name + "=" + l.Label
	}
	return strings.Join(words, ",")
}

func parseLevels(words []string) ([]engine.Level, error) {
	if len(words) == 0 {
		return scheduler.DefaultLevels(), nil
	}
	var out []engine.Level
	for _, w := range words {
		name, label, _ := strings.Cut(w, "=")
		if name == "" || label == "" {
			return nil, fmt.Errorf("--level %q: write NAME=LABEL, such as rack=%s", w, v1alpha1.LabelRack)
		}
		out = append(out, engine.Level{Name: name, Label: label})
	}
	return out, nil
}

// exportersOf begins the value of --gpu-metrics that names namespaces, and operatorNamespace is where NVIDIA's GPU Operator has its
// exporters.
const (
	exportersOf       = "exporters"
	operatorNamespace = "gpu-operator"
)

// parseGPUMetrics reads --gpu-metrics.
func parseGPUMetrics(text string) (out scheduler.GPUMetrics, err error) {
	what, namespaces, named := strings.Cut(text, "=")
	switch {
	case text == "none":
	case what == exportersOf && named:
		out.Exporters = strings.Split(namespaces, ",")
		for _, n := range out.Exporters {
			if trouble := validation.IsDNS1123Label(n); len(trouble) > 0 {
				return out, fmt.Errorf("--gpu-metrics %q: %q is no name of a namespace", text, n)
			}
		}
	default:
		if out.Prometheus, err = telemetry.ParseURL(text); err != nil {
			return out, fmt.Errorf("--gpu-metrics %q: give exporters=NAMESPACE, the URL of a Prometheus, or none", text)
		}
	}
	return out, nil
}

// parseRequests reads --provisioning-requests: the class, or "" for none.
func parseRequests(text string) (string, error) {
	switch text {
	case "none":
		return "", nil
	case "check-capacity":
		return provision.CheckCapacity, nil
	case "best-effort-atomic":
		return provision.BestEffortAtomic, nil
	}
	if trouble := validation.IsDNS1123Subdomain(text); len(trouble) > 0 || !strings.Contains(text, ".") {
		return "", fmt.Errorf("--provisioning-requests %q: give check-capacity, best-effort-atomic, the name of a class such as %s, or none", text, provision.CheckCapacity)
	}
	return text, nil
}

// openMetrics adds how a Prometheus is asked that does not answer everybody.
func (o *schedulerOptions) openMetrics(m *scheduler.GPUMetrics) error {
	m.TokenFile, m.CAFile = o.metricsToken, o.metricsCA
	switch {
	case m.TokenFile == "" && m.CAFile == "":
		return nil
	case m.Prometheus == nil:
		return errors.New("--gpu-metrics-token-file and --gpu-metrics-ca-file: give the URL of a Prometheus with --gpu-metrics")
	case m.Prometheus.Scheme != "https":
		return fmt.Errorf("--gpu-metrics %s: a token and certificates are for https", m.Prometheus)
	}
	for flag, file := range map[string]string{"--gpu-metrics-token-file": m.TokenFile, "--gpu-metrics-ca-file": m.CAFile} {
		if file == "" {
			continue
		}
		if _, err := os.ReadFile(file); err != nil {
			return fmt.Errorf("%s: %w", flag, err)
		}
	}
	return nil
}

func (o *schedulerOptions) options() (scheduler.Options, error) {
	list, err := parseLevels(o.levels)
	if err != nil {
		return scheduler.Options{}, err
	}
	if err := checkGangGrace(o.gangGrace); err != nil {
		return scheduler.Options{}, err
	}
	if err := checkDeviceTimeout(o.deviceTimeout); err != nil {
		return scheduler.Options{}, err
	}
	config, err := o.policy.config(engine.Config{Levels: list})
	if err != nil {
		return scheduler.Options{}, err
	}
	if _, err := netip.ParseAddr(o.address); err != nil && o.address != "" {
		return scheduler.Options{}, fmt.Errorf("--advertise-address %q: give an IP address, such as 10.1.2.3", o.address)
	}
	if o.schedulerName == "" || slices.Contains(o.pods, "") {
		return scheduler.Options{}, errors.New("--scheduler-name and --for: a scheduler has a name")
	}
	measured, err := parseGPUMetrics(o.gpuMetrics)
	if err == nil {
		err = o.openMetrics(&measured)
	}
	if err != nil {
		return scheduler.Options{}, err
	}
	if class, err := parseRequests(o.requests); err != nil {
		return scheduler.Options{}, err
	} else if class != "" && o.shadow {
		return scheduler.Options{}, errors.New("--provisioning-requests writes objects, and --shadow writes nothing: leave one of them out")
	}
	pods := o.pods
	if len(pods) == 0 {
		pods = []string{o.schedulerName}
	}
	out := scheduler.Options{
		Name: o.schedulerName, For: pods, Engine: config, GangGrace: o.gangGrace, DeviceBindingTimeout: o.deviceTimeout, Shadow: o.shadow, GPUMetrics: measured,
		Decisions: record.Options{Dir: o.record, Berth: Version}, Log: slog.New(slog.NewTextHandler(o.streams.Err, nil)),
	}
	if o.traces != "" {
		to, err := trace.ParseEndpoint(o.traces)
		if err != nil {
			return scheduler.Options{}, fmt.Errorf("--otlp-endpoint %w", err)
		}
		out.Traces = trace.New(to, Version, out.Log)
	}
	if o.elect {
		out.Identity = electionIdentity()
	}
	return out, nil
}

// electionIdentity is another one for every process.
func electionIdentity() string {
	host, err := os.Hostname()
	if err != nil {
		host = "berth"
	}
	return fmt.Sprintf("%s_%d_%d", host, os.Getpid(), time.Now().UnixNano())
}

// gcPercent lets the heap, most of which is objects that live as long as the cluster, grow further between
// collections: they cost a sixth of the scheduler's time otherwise.
const gcPercent = 300

// schedulerKeep runs the scheduler, with a file until the file says something else, and then anew: what a State is told when
// it is made is not changed under it. The lease is given back in between, so another one may lead then.
func schedulerKeep(cmd *cobra.Command, o *schedulerOptions) error {
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if o.file == "" {
		return schedulerRun(ctx, o)
	}
	given := cmd.Flags()
	fill := func(c schedulerConfig) (schedulerOptions, error) { // the flags again, over the file
		next := schedulerOptions{streams: o.streams}
		again := newSchedulerFlags(&next)
		var err error
		given.Visit(func(f *pflag.Flag) { err = errors.Join(err, copyFlag(again.Flags(), f)) })
		if err = errors.Join(err, c.fill(again.Flags())); err == nil {
			_, err = next.options()
		}
		if err != nil {
			return next, fmt.Errorf("--config %s: %w", o.file, err)
		}
		next.connection = o.connection
		return next, nil
	}
	for ctx.Err() == nil {
		text, c, err := readConfig(o.file)
		if err != nil {
			return err
		}
		now, err := fill(c)
		if err != nil {
			return err
		}
		log := slog.New(slog.NewTextHandler(o.streams.Err, nil))
		running, end := context.WithCancel(ctx)
		go func() {
			defer end()
			if changed(running, o.file, text, func(c schedulerConfig) error { _, err := fill(c); return err }, log) {
				log.Info("the configuration file has changed: starting anew with it", "file", o.file)
			}
		}()
		err = schedulerRun(running, &now)
		end()
		if err != nil {
			return err
		}
	}
	return nil
}

// copyFlag gives another set the value of a flag that was written.
func copyFlag(to *pflag.FlagSet, f *pflag.Flag) error {
	same := to.Lookup(f.Name)
	if same == nil {
		return nil // cobra's own
	}
	same.Changed = true
	if list, ok := f.Value.(pflag.SliceValue); ok {
		return same.Value.(pflag.SliceValue).Replace(list.GetSlice())
	}
	return same.Value.Set(f.Value.String())
}

func schedulerRun(ctx context.Context, o *schedulerOptions) error {
	opts, err := o.options()
	if err != nil {
		return err
	}
	if opts.Config, err = o.target(); err != nil {
		return exitError{code: exitUnknown, err: err}
	}
	if o.listen != "" {
		opts.Address = o.address
		if opts.Answers, err = net.Listen("tcp", o.listen); err != nil {
			return failed(fmt.Errorf("--listen %s: %w", o.listen, err))
		}
		page, err := sharedPage(opts.Config, "", o.record, opts.Log)
		if err != nil {
			return failed(err)
		}
		defer page.Close()
		opts.Page = page
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	klog.SetSlogLogger(opts.Log.With("component", "client-go"))
	opts.Log.Info("scheduling", "cluster", opts.Config.Host, "for", strings.Join(opts.For, ","), "shadow", opts.Shadow)
	return failed(o.run(ctx, opts))
}

// run schedules, and asks for nodes beside it where that is wanted.
func (o *schedulerOptions) run(ctx context.Context, opts scheduler.Options) error {
	class, err := parseRequests(o.requests)
	if err != nil || class == "" {
		return errors.Join(err, scheduler.Run(ctx, opts))
	}
	opts.Observer, opts.Asked = &scheduler.Observer{}, provision.Asked
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	asked := make(chan error, 1)
	go func() {
		asked <- provision.RunRequests(ctx, provision.RequestOptions{Config: opts.Config, Cluster: opts.Observer, Class: class, Log: opts.Log.With("component", "requests")})
	}()
	err = scheduler.Run(ctx, opts)
	stop()
	return errors.Join(err, <-asked)
}

// target is the cluster that was chosen, or the one this process runs in. A scheduler takes over work: it is
// never pointed at a cluster that nobody named.
func (o *schedulerOptions) target() (*rest.Config, error) {
	if o.explicit() {
		return o.config()
	}
	cfg, err := rest.InClusterConfig()
	if errors.Is(err, rest.ErrNotInCluster) {
		return nil, errors.New("which cluster? give --kubeconfig FILE, --context NAME, or --name for one of this machine")
	}
	return cfg, err
}
