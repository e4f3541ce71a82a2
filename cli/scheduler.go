package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	v1alpha1 "github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/scheduler"
	"github.com/berth-dev/berth/record"
)

type schedulerOptions struct {
	connection
	schedulerName string
	pods          []string
	levels        []string
	gangGrace     time.Duration
	policy        policyFlags
	elect, shadow bool
	listen        string
	record        string
	streams       Streams
}

func newCmdScheduler(s Streams) *cobra.Command {
	o := &schedulerOptions{streams: s}
	cmd := &cobra.Command{
		Use:   "scheduler",
		Short: "Run Berth's scheduler against any cluster",
		Long: `Run Berth's scheduler against a cluster: one that a kubeconfig names, one of this machine, or
the one it runs in. It schedules pods with schedulerName berth and leaves all others alone.
Several may run at once; one of them leads.

With --shadow it decides what it would do with the cluster as it is and writes nothing to it;
with --record its decisions can be read, and played again, with ` + "`berth replay`" + `.`,
		Example: `  berth scheduler --kubeconfig ~/.kube/config --shadow --record decisions
  berth scheduler --context prod --level rack=example.com/rack
  berth scheduler --name lab --scheduler-name second --for second`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return schedulerRun(cmd.Context(), o) },
	}
	o.connection.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&o.schedulerName, "scheduler-name", scheduler.DefaultName, "its name: of the lease it leads by, and in its events")
	f.StringSliceVar(&o.pods, "for", nil, "schedulerNames of the pods it schedules (default: its own name)")
	f.StringSliceVar(&o.levels, "level", nil, "a topology level as NAME=LABEL, widest first (default: "+describeLevels(scheduler.DefaultLevels())+")")
	gangGraceFlag(cmd, &o.gangGrace)
	o.policy.flags(cmd)
	f.BoolVar(&o.elect, "leader-elect", true, "take part in the election of a leader")
	f.StringVar(&o.listen, "listen", "", "address on which it answers who waits for what, and whether it is well, such as :10259 (default: none)")
	f.StringVar(&o.record, "record", "", "folder for the log of its decisions, read by berth replay (default: none)")
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

func (o *schedulerOptions) options() (scheduler.Options, error) {
	list, err := parseLevels(o.levels)
	if err != nil {
		return scheduler.Options{}, err
	}
	if err := checkGangGrace(o.gangGrace); err != nil {
		return scheduler.Options{}, err
	}
	config, err := o.policy.config(engine.Config{Levels: list})
	if err != nil {
		return scheduler.Options{}, err
	}
	if o.schedulerName == "" || slices.Contains(o.pods, "") {
		return scheduler.Options{}, errors.New("--scheduler-name and --for: a scheduler has a name")
	}
	pods := o.pods
	if len(pods) == 0 {
		pods = []string{o.schedulerName}
	}
	out := scheduler.Options{
		Name: o.schedulerName, For: pods, Engine: config, GangGrace: o.gangGrace, Shadow: o.shadow,
		Decisions: record.Options{Dir: o.record, Berth: Version}, Log: slog.New(slog.NewTextHandler(o.streams.Err, nil)),
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

func schedulerRun(ctx context.Context, o *schedulerOptions) error {
	opts, err := o.options()
	if err != nil {
		return err
	}
	if opts.Config, err = o.target(); err != nil {
		return exitError{code: exitUnknown, err: err}
	}
	if o.listen != "" {
		if opts.Answers, err = net.Listen("tcp", o.listen); err != nil {
			return failed(fmt.Errorf("--listen %s: %w", o.listen, err))
		}
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	klog.SetSlogLogger(opts.Log.With("component", "client-go"))
	opts.Log.Info("scheduling", "cluster", opts.Config.Host, "for", strings.Join(opts.For, ","), "shadow", opts.Shadow)
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	return failed(scheduler.Run(ctx, opts))
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
