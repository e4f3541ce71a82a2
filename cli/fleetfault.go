package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/fleet"
)

func newCmdFleetFault(s Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fault",
		Short: "Inject faults into the simulated fleet, and clear them",
		Long: `Inject faults into the simulated fleet, and clear them. A fault is an object of the cluster
(` + "`kubectl get faults`" + `); while it is active, nodes, pods, logs and metrics show what the real trouble would show.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },

		SuggestionsMinimumDistance: suggestDistance,
	}
	cmd.AddCommand(newCmdFaultInject(s), newCmdFaultList(s), newCmdFaultClear(s))
	return cmd
}

// faultOptions are what `inject` was asked for. Strings and numbers that were not given are zero.
type faultOptions struct {
	streams                           Streams
	cluster, as, output               string
	node, pool                        string
	selector                          map[string]string
	everywhere, dryRun                bool
	gpus                              []int
	uuids                             []string
	count, gpuCount, xid, probability int32
	state, condition, taint           string
	launchError, zone                 string
	available                         int32
	by, after, lasts, every           time.Duration
	seed                              int64
	hasSeed                           bool
}

func newCmdFaultInject(s Streams) *cobra.Command {
	o := &faultOptions{streams: s}
	cmd := &cobra.Command{
		Use:   "inject TYPE",
		Short: "Inject a fault",
		Long:  "Inject a fault.\n\nTypes:\n" + faultTypeHelp(),
		Example: `  berth fleet fault inject xid --xid 79 --node h100-0 --gpu 3
  berth fleet fault inject plugin-crash --pool a100 --count 1 --for 10m
  berth fleet fault inject ecc --pool h100 --every 1h --for 5m --probability 20 --seed 7
  berth fleet fault inject quarantine --node h100-0 --condition AcceleratedHardwareReady=False
  berth fleet fault inject registry-down --all-nodes
  berth fleet fault inject launch-fails --pool h200 --zone us-east-2a --error InsufficientInstanceCapacity`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.hasSeed = cmd.Flags().Changed("seed")
			if err := checkOutput(o.output); err != nil {
				return err
			}
			f, err := o.fault(args[0])
			if err != nil {
				return err
			}
			return faultInject(cmd.Context(), o, f)
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var out []string
			for _, t := range faultTypes {
				out = append(out, string(t.name)+"\t"+t.what)
			}
			return out, cobra.ShellCompDirectiveNoFileComp
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.node, "node", "", "the node that is hit")
	f.StringVar(&o.pool, "pool", "", "the pool whose nodes are hit")
	f.StringToStringVarP(&o.selector, "selector", "l", nil, "labels of the nodes that are hit: key=value,...")
	f.BoolVar(&o.everywhere, "all-nodes", false, "every node is hit")
	f.Int32Var(&o.count, "count", 0, "how many of those nodes are hit (default all)")
	f.IntSliceVar(&o.gpus, "gpu", nil, "index of a GPU that is hit; may be repeated (default one that is drawn)")
	f.StringSliceVar(&o.uuids, "uuid", nil, "UUID of a GPU that is hit; may be repeated")
	f.Int32Var(&o.gpuCount, "gpus", 0, "how many GPUs of each node are hit, drawn")
	f.Int32Var(&o.xid, "xid", 0, "with xid: the number")
	f.StringVar(&o.state, "state", "", "with driver-upgrade: the state that it stays in (default it goes through all)")
	f.StringVar(&o.condition, "condition", "", "with quarantine: the node's condition, TYPE=True or TYPE=False, whichever is bad")
	f.StringVar(&o.taint, "taint", "", "with startup-taint-stays and node-readiness-taint: the taint's key")
	f.DurationVar(&o.by, "by", 0, "with boot-slow and registry-slow: how much longer it takes; with clock-skew: how wrong the clock is")
	f.StringVar(&o.launchError, "error", "", "with launch-fails: what the provider answers")
	f.StringVar(&o.zone, "zone", "", "with launch-fails: where (default in all zones)")
	f.Int32Var(&o.available, "available", 0, "with launch-fails: how many machines of the pool there are nevertheless")
	f.DurationVar(&o.after, "after", 0, "when it first happens (default at once)")
	f.DurationVar(&o.lasts, "for", 0, "how long it lasts (default until it is cleared)")
	f.DurationVar(&o.every, "every", 0, "time from one start to the next; needs --for")
	f.Int32Var(&o.probability, "probability", 0, "percent with which it happens each time; needs --every")
	f.Int64Var(&o.seed, "seed", 0, "seed of what is drawn (default by the fault's name)")
	f.StringVar(&o.as, "as", "", "name of the fault (default TYPE-1, TYPE-2, ...)")
	f.BoolVar(&o.dryRun, "dry-run", false, "only have the API server check it")
	f.StringVarP(&o.output, "output", "o", "table", "table, json, yaml or name")
	nameFlag(cmd, &o.cluster, defaultName, "name of the cluster")
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions([]string{"upgrade-required", "cordon-required", "wait-for-jobs-required", "pod-deletion-required", "drain-required", "pod-restart-required", "validation-required", "uncordon-required", "upgrade-failed"}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("error", cobra.FixedCompletions([]string{"InsufficientInstanceCapacity", "ReservationCapacityExceeded", "VcpuLimitExceeded", "ZONE_RESOURCE_POOL_EXHAUSTED", "QUOTA_EXCEEDED", "AllocationFailed", "Unauthorized", "LaunchTimeout"}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("pool", func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return o.poolNames(cmd.Context()), cobra.ShellCompDirectiveNoFileComp
	})
	return cmd
}

// fault is the object that the flags describe. The API server checks it; what is refused here is what flags alone can say wrong.
func (o *faultOptions) fault(kind string) (v1alpha1.Fault, error) {
	f := v1alpha1.Fault{}
	f.Name, f.Spec.Type = o.as, v1alpha1.FaultType(kind)
	if !slices.ContainsFunc(faultTypes, func(t faultTypeLine) bool { return t.name == f.Spec.Type }) {
		return f, fmt.Errorf("there is no fault type %q%s; `berth fleet fault inject --help` lists them", kind, didYouMean(kind))
	}
	s := &f.Spec
	s.Node, s.Pool, s.UUIDs = o.node, o.pool, o.uuids
	s.UpgradeState, s.Taint = o.state, o.taint
	s.Error, s.Zone, s.Available = v1alpha1.LaunchError(o.launchError), o.zone, given(o.available)
	if len(o.selector) > 0 || o.everywhere {
		labels := o.selector
		if labels == nil {
			labels = map[string]string{}
		}
		s.Selector = &labels
	}
	if s.Node == "" && s.Pool == "" && s.Selector == nil {
		return f, errors.New("say where: --node, --pool, --selector or --all-nodes")
	}
	for _, i := range o.gpus {
		if i < 0 || i > math.MaxInt32 {
			return f, fmt.Errorf("--gpu %d: there is no such index", i)
		}
		s.GPUs = append(s.GPUs, int32(i))
	}
	s.Count, s.GPUCount, s.Xid, s.Probability = given(o.count), given(o.gpuCount), given(o.xid), given(o.probability)
	s.By, s.After, s.For, s.Every = span(o.by), span(o.after), span(o.lasts), span(o.every)
	if o.hasSeed {
		s.Seed = &o.seed
	}
	if o.condition != "" {
		kind, status, ok := strings.Cut(o.condition, "=")
		if !ok || status != "True" && status != "False" {
			return f, fmt.Errorf("--condition %q: want TYPE=True or TYPE=False", o.condition)
		}
		s.Condition = &v1alpha1.FaultCondition{Type: kind, Status: status}
	}
	return f, nil
}

func given(n int32) *int32 {
	if n == 0 {
		return nil
	}
	return &n
}

func span(d time.Duration) *metav1.Duration {
	if d == 0 {
		return nil
	}
	return &metav1.Duration{Duration: d}
}

func didYouMean(kind string) string {
	names := make([]string, len(faultTypes))
	for i, t := range faultTypes {
		names[i] = string(t.name)
	}
	for _, n := range names {
		if strings.Contains(n, kind) && kind != "" || strings.HasPrefix(kind, n) {
			return "; did you mean " + n + "?"
		}
	}
	return ""
}

func faultInject(ctx context.Context, o *faultOptions, f v1alpha1.Fault) error {
	cfg, err := clusterConfig(o.cluster)
	if err != nil {
		return err
	}
	made, err := fleet.Inject(ctx, cfg, f, o.dryRun)
	if err != nil {
		return failed(oneLine(err))
	}
	made.APIVersion, made.Kind = v1alpha1.GroupVersion.String(), "Fault"
	if done, err := printData(o.streams.Out, made, o.output); done {
		return failed(err)
	}
	note := ""
	if o.dryRun {
		note = " (dry run)"
	}
	if o.output == "name" {
		fmt.Fprintln(o.streams.Out, made.Name)
		return nil
	}
	_, err = fmt.Fprintf(o.streams.Out, "fault/%s injected%s\n", made.Name, note)
	return failed(err)
}

// oneLine is what the API server refused, without its preamble, on one line.
func oneLine(err error) error {
	text := err.Error()
	if apierrors.IsInvalid(err) {
		if _, causes, ok := strings.Cut(text, " is invalid: "); ok {
			text = strings.Trim(causes, "[]")
		}
	}
	return errors.New(strings.Join(strings.Fields(text), " "))
}

// clusterConfig reaches a running cluster of this machine.
func clusterConfig(name string) (*rest.Config, error) {
	dir, err := running(name)
	if err != nil {
		return nil, exitError{code: exitUnknown, err: err}
	}
	cfg, err := clientConfig(dir)
	if err != nil {
		return nil, exitError{code: exitUnknown, err: err}
	}
	return cfg, nil
}

func newCmdFaultList(s Streams) *cobra.Command {
	var cluster, output string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the faults and what they hit",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			cfg, err := clusterConfig(cluster)
			if err != nil {
				return err
			}
			items, err := fleet.Faults(cmd.Context(), cfg)
			if err != nil {
				return exitError{code: exitUnknown, err: err}
			}
			return failed(printFaults(s, items, output, time.Now()))
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table, json, yaml or name")
	nameFlag(cmd, &cluster, defaultName, "name of the cluster")
	return cmd
}

func printFaults(s Streams, items []v1alpha1.Fault, output string, now time.Time) error {
	list := v1alpha1.FaultList{Items: items}
	list.APIVersion, list.Kind = v1alpha1.GroupVersion.String(), "FaultList"
	if list.Items == nil {
		list.Items = []v1alpha1.Fault{}
	}
	for i := range list.Items {
		list.Items[i].APIVersion, list.Items[i].Kind, list.Items[i].ManagedFields = list.APIVersion, "Fault", nil
	}
	if done, err := printData(s.Out, &list, output); done {
		return err
	}
	if output == "name" {
		for i := range items {
			fmt.Fprintln(s.Out, items[i].Name)
		}
		return nil
	}
	if len(items) == 0 {
		fmt.Fprintln(s.Err, "There are no faults.")
		return nil
	}
	return faultTable(s.Out, items, now)
}

func faultTable(out io.Writer, items []v1alpha1.Fault, now time.Time) error {
	w := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0)
	fmt.Fprintln(w, "NAME\tTYPE\tPHASE\tSINCE\tTIMES\tHIT\tTARGETS")
	for i := range items {
		f := &items[i]
		kind := string(f.Spec.Type)
		if f.Spec.Xid != nil {
			kind += " " + strconv.Itoa(int(*f.Spec.Xid))
		}
		since := "<none>"
		if t := f.Status.ActiveSince; t != nil {
			since = duration.HumanDuration(now.Sub(t.Time))
		}
		targets := strings.Join(f.Status.Targets, " ")
		switch {
		case f.Status.Message != "":
			targets = f.Status.Message
		case int(f.Status.Hit) > len(f.Status.Targets):
			targets += " ..."
		case targets == "":
			targets = "<none>"
		}
		phase := string(f.Status.Phase)
		if phase == "" {
			phase = "Unknown" // the fleet has not looked yet
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%d\t%s\n", f.Name, kind, phase, since, f.Status.Times, f.Status.Hit, targets)
	}
	return w.Flush()
}

func newCmdFaultClear(s Streams) *cobra.Command {
	o := &faultOptions{streams: s}
	var all bool
	cmd := &cobra.Command{
		Use:     "clear NAME... | --all",
		Short:   "Clear faults: delete them, and what they hit recovers",
		Example: "  berth fleet fault clear xid-1\n  berth fleet fault clear --all",
		RunE: func(cmd *cobra.Command, args []string) error {
			if all == (len(args) > 0) {
				return errors.New("name the faults to clear, or --all")
			}
			return faultClear(cmd.Context(), o, args, all)
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return slices.DeleteFunc(o.faultNames(cmd.Context()), func(n string) bool { return slices.Contains(args, n) }), cobra.ShellCompDirectiveNoFileComp
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "clear all faults")
	nameFlag(cmd, &o.cluster, defaultName, "name of the cluster")
	return cmd
}

func faultClear(ctx context.Context, o *faultOptions, names []string, all bool) error {
	cfg, err := clusterConfig(o.cluster)
	if err != nil {
		return err
	}
	if all {
		names = o.faultNames(ctx)
		if len(names) == 0 {
			fmt.Fprintln(o.streams.Err, "There are no faults.")
			return nil
		}
	}
	cleared, err := fleet.Clear(ctx, cfg, names)
	for _, name := range cleared {
		fmt.Fprintf(o.streams.Out, "fault/%s cleared\n", name)
	}
	if err != nil {
		return failed(oneLine(err))
	}
	return nil
}

// faultNames and poolNames are those to complete; none where they cannot be read.
func (o *faultOptions) faultNames(ctx context.Context) (names []string) {
	cfg, err := clusterConfig(o.cluster)
	if err != nil {
		return nil
	}
	items, _ := fleet.Faults(ctx, cfg)
	for i := range items {
		names = append(names, items[i].Name)
	}
	return names
}

func (o *faultOptions) poolNames(ctx context.Context) (names []string) {
	cfg, err := clusterConfig(o.cluster)
	if err != nil {
		return nil
	}
	pools, _ := fleet.Pools(ctx, cfg)
	for i := range pools {
		names = append(names, pools[i].Name)
	}
	return names
}

// faultTypeLine is a type of fault and what it does, for help and completion.
type faultTypeLine struct {
	name v1alpha1.FaultType
	what string
}

var faultTypes = []faultTypeLine{
	{v1alpha1.FaultXid, "the driver reports an error of a GPU, by --xid"},
	{v1alpha1.FaultGPULost, "a GPU falls off the bus"},
	{v1alpha1.FaultECC, "a GPU has uncorrectable memory errors"},
	{v1alpha1.FaultRowRemap, "a GPU waits for a reset to remap a row of memory"},
	{v1alpha1.FaultThermalThrottle, "GPUs are too hot and slow down"},
	{v1alpha1.FaultPowerBrake, "the power supply slows GPUs down"},
	{v1alpha1.FaultNVLinkDown, "the NVLinks of a GPU are down"},
	{v1alpha1.FaultFabricManagerDown, "no CUDA program starts on GPUs behind NVSwitches"},
	{v1alpha1.FaultDriverCrash, "the driver's pod crashes"},
	{v1alpha1.FaultDriverUpgrade, "the GPU Operator upgrades the driver"},
	{v1alpha1.FaultPluginCrash, "the device plugin's pod crashes"},
	{v1alpha1.FaultGFDFailure, "GPU Feature Discovery's pod crashes"},
	{v1alpha1.FaultToolkitFailure, "the container toolkit's pod crashes"},
	{v1alpha1.FaultKubeletRestart, "the kubelet restarts, and plugins have not registered again"},
	{v1alpha1.FaultNodeDown, "a machine loses power"},
	{v1alpha1.FaultNodePartitioned, "a machine runs and is cut off"},
	{v1alpha1.FaultDiskPressure, "a node's disk is full"},
	{v1alpha1.FaultCNINotReady, "a node's pod network is not ready"},
	{v1alpha1.FaultStartupTaintStays, "nobody removes a startup taint"},
	{v1alpha1.FaultNodeReadinessTaint, "a NodeReadinessRule's taint stays"},
	{v1alpha1.FaultBootSlow, "a machine is replaced, and the new one boots slowly"},
	{v1alpha1.FaultBootFails, "a machine is replaced, and the new one never gets ready"},
	{v1alpha1.FaultBootNeverRegisters, "a machine is replaced, and the new one never registers"},
	{v1alpha1.FaultQuarantine, "a health system takes a node out"},
	{v1alpha1.FaultRegistryDown, "images cannot be pulled"},
	{v1alpha1.FaultRegistrySlow, "images take long to pull"},
	{v1alpha1.FaultNUMARefusal, "the kubelet's topology manager refuses pods with GPUs"},
	{v1alpha1.FaultClockSkew, "a node's clock is wrong"},
	{v1alpha1.FaultLaunchFails, "the provider gives no machine: --error says what it answers"},
	{v1alpha1.FaultClaimPrepareFails, "the DRA driver hands out no devices on a node"},
	{v1alpha1.FaultRuntimeHandlerGone, "the container runtime does not know RuntimeClasses"},
}

func faultTypeHelp() string {
	var text strings.Builder
	for _, t := range faultTypes {
		fmt.Fprintf(&text, "  %-22s%s\n", t.name, t.what)
	}
	return strings.TrimSuffix(text.String(), "\n")
}
