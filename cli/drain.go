package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/capacity/maintenance"
	"github.com/berth-dev/berth/diagnose/submit"
)

type drainOptions struct {
	against
	window, why string
	dry, cancel bool
	output      string
	streams     Streams
}

func newCmdDrain(s Streams) *cobra.Command {
	o := &drainOptions{streams: s}
	cmd := &cobra.Command{
		Use:   "drain NODE... [--window 22:00-04:00]",
		Short: "Plan when to drain nodes so that the least work is lost, and announce it",
		Long: `Plan when to drain nodes within a window, for a driver upgrade or a reboot, so that the least work is lost: after
work that ends in the window, right after a checkpoint, and all nodes of a gang together, so that it is stopped once. The
annotations of work say how long it runs and how often it saves its state (berth.dev/expected-run, berth.dev/checkpoint).
Where they do not say how long, what three or more workloads of its kind took, whose pods are still there, counts.

The times are written on the nodes (berth.dev/leaves-at). From then on Berth starts only work on them that ends before the
time. At the time it cordons the node and evicts what still runs, gangs as a whole and with the warning of their queue. Work
of other schedulers, and work without a queue, stays until kubectl drain evicts it. --cancel removes the times and the
cordon, also after the maintenance.

Exit code: 0, 2 wrong usage, 3 could not look.`,
		Example: `  berth drain gpu-3 gpu-4 --window 22:00-04:00 --dry-run
  berth drain gpu-3 gpu-4 --window 6h --reason "driver 580"
  berth drain gpu-3 --window 2026-11-20T22:00:00Z/2026-11-21T04:00:00Z -o json
  berth drain gpu-3 gpu-4 --cancel`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains([]string{"table", "json", "yaml"}, o.output) {
				return fmt.Errorf("--output %q: use table, json or yaml", o.output)
			}
			if len(args) == 0 {
				return errors.New("which nodes? give their names")
			}
			return drainRun(cmd.Context(), o, args)
		},
	}
	o.reading.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&o.window, "window", "0s", "when nodes may be drained: `SPAN` such as 22:00-04:00 (the next one, local time), 6h (from now), or two times of RFC 3339 with / between")
	f.StringVar(&o.why, "reason", "maintenance", "what people whose work has to wait are told")
	f.BoolVar(&o.dry, "dry-run", false, "show the plan and write nothing")
	f.BoolVar(&o.cancel, "cancel", false, "take back what was announced")
	f.StringVarP(&o.output, "output", "o", "table", "table, json or yaml")
	cmd.MarkFlagsMutuallyExclusive("cancel", "window")
	cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
	cmd.ValidArgsFunction = o.complete(s, false, submit.World.NodeNames)
	return cmd
}

func drainRun(ctx context.Context, o *drainOptions, nodes []string) error {
	if !o.live() && (o.cancel || !o.dry) {
		return errors.New("only a cluster can be told: give --dry-run")
	}
	if o.cancel {
		return o.announce(ctx, nodes, func(string) (string, string) { return "", "" })
	}
	if strings.TrimSpace(o.why) == "" || len(o.why) > maxReason {
		return fmt.Errorf("--reason: give 1 to %d characters", maxReason)
	}
	window, err := parseWindow(o.window, o.now())
	if err != nil {
		return err
	}
	world, err := o.world(ctx, o.streams)
	if err != nil {
		return err
	}
	plan, err := submit.Maintain(world, nodes, window)
	if errors.Is(err, submit.ErrBlind) {
		return exitError{code: exitUnknown, err: err}
	}
	if err != nil {
		return err
	}
	done, err := printData(o.streams.Out, plan, o.output)
	if !done {
		_, err = fmt.Fprint(o.streams.Out, drainText(&plan, width(o.streams.Out)))
	}
	if err != nil || o.dry {
		return failed(err)
	}
	at := make(map[string]string, len(nodes))
	for _, s := range plan.Steps {
		for _, n := range s.Nodes {
			at[n] = s.At.UTC().Format(time.RFC3339)
		}
	}
	return o.announce(ctx, nodes, func(node string) (string, string) { return at[node], o.why })
}

// maxReason bounds what is written on nodes.
const maxReason = 100

// announce writes on the nodes when they go and why, or takes it back.
func (o *drainOptions) announce(ctx context.Context, nodes []string, of func(node string) (at, why string)) error {
	cfg, err := o.config()
	if err != nil {
		return failed(err)
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return failed(err)
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(nodes))) {
		at, why := of(name)
		change, done := map[string]any{v1alpha1.KeyLeavesAt: nil, v1alpha1.KeyLeavesWith: nil}, "stays"
		if at != "" {
			change, done = map[string]any{v1alpha1.KeyLeavesAt: at, v1alpha1.KeyLeavesWith: why}, "leaves at "+at
		}
		whole := map[string]any{"metadata": map[string]any{"annotations": change}}
		if at == "" {
			n, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return failed(err)
			}
			if n.Annotations[v1alpha1.KeyCordonedFor] != "" { // by the scheduler, when its time had come
				change[v1alpha1.KeyCordonedFor], whole["spec"] = nil, map[string]any{"unschedulable": nil}
			}
		}
		patch, err := json.Marshal(whole)
		if err != nil {
			return failed(err)
		}
		if _, err := client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return failed(err)
		}
		fmt.Fprintf(o.streams.Err, "node/%s %s\n", name, done)
	}
	return nil
}

func drainText(d *submit.Drain, columns int) string {
	var b strings.Builder
	t := table{columns: []column{{head: "AT"}, {head: "IN"}, {head: "NODES", text: true}, {head: "STOPS", text: true}, {head: "GPUS"}, {head: "LOSES"}, {head: "OVER BY THEN", text: true}}}
	for _, s := range d.Steps {
		var stops []string
		gpus, lost := int64(0), int64(0)
		for _, w := range s.Stops {
			stops = append(stops, w.Workload)
			gpus += w.GPUs
			lost += w.GPUs * w.LostSeconds
		}
		t.add(s.At.Local().Format("Mon 15:04:05"), until(s.At, d.At), strings.Join(s.Nodes, ","), dash(strings.Join(stops, ",")), strconv.FormatInt(gpus, 10), lostText(lost), dash(strings.Join(s.Over, ",")))
	}
	_ = t.write(&b, columns) // a strings.Builder takes everything
	fmt.Fprintf(&b, "\nIn all %s of work are lost", lostText(d.LostGPUSeconds))
	if !d.Best {
		b.WriteString(" (not all combinations of times were tried)")
	}
	b.WriteString(".\n")
	if len(d.NoEnd) > 0 {
		fmt.Fprintf(&b, "No end is known of %s (%s): taken to run beyond the window.\n", firstFew(d.NoEnd), v1alpha1.KeyExpectedRun)
	}
	if len(d.Learned) > 0 {
		fmt.Fprintf(&b, "The end of %s is a guess: nine in ten workloads like it took no longer.\n", firstFew(d.Learned))
	}
	if len(d.NoCheckpoint) > 0 {
		fmt.Fprintf(&b, "No checkpoints are known of %s (%s): taken to lose all since the start.\n", firstFew(d.NoCheckpoint), v1alpha1.KeyCheckpoint)
	}
	if len(d.Unseen) > 0 {
		b.WriteString("Not seen: " + inShort(d.Unseen) + ".\n")
	}
	return b.String()
}

// firstFew names a few workloads.
func firstFew(names []string) string {
	const most = 3
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d others", strings.Join(names[:most], ", "), len(names)-most)
}

func lostText(seconds int64) string { return fmt.Sprintf("%.1f GPU-h", float64(seconds)/3600) }

// maxWindow bounds a window: what runs in a month nobody can plan.
const maxWindow = 31 * 24 * time.Hour

// parseWindow reads when nodes may be drained: a duration from now, two clock times of the next such span, or two times.
func parseWindow(text string, now time.Time) (maintenance.Window, error) {
	w, ok := windowIn(text, now.Truncate(time.Second))
	switch {
	case !ok:
		return w, fmt.Errorf("--window %q: give two times such as 22:00-04:00, a duration such as 6h, or two times of RFC 3339 with / between", text)
	case w.To.Before(w.From):
		return w, fmt.Errorf("--window %q: it ends before it begins", text)
	case w.To.Before(now.Truncate(time.Second)):
		return w, fmt.Errorf("--window %q: it is over", text)
	case w.To.Sub(w.From) > maxWindow:
		return w, fmt.Errorf("--window %q: it is longer than 31 days", text)
	}
	if w.From.Before(now) {
		w.From = now.Truncate(time.Second)
	}
	return w, nil
}

func windowIn(text string, now time.Time) (w maintenance.Window, ok bool) {
	if d, err := time.ParseDuration(text); err == nil {
		return maintenance.Window{From: now, To: now.Add(d)}, d >= 0
	}
	if from, to, two := strings.Cut(text, "/"); two {
		var errs [2]error
		w.From, errs[0] = time.Parse(time.RFC3339, from)
		w.To, errs[1] = time.Parse(time.RFC3339, to)
		return w, errors.Join(errs[:]...) == nil
	}
	from, to, _ := strings.Cut(text, "-")
	a, errA := time.Parse("15:04", from)
	b, errB := time.Parse("15:04", to)
	if errA != nil || errB != nil {
		return w, false
	}
	on := func(day int, t time.Time) time.Time {
		return time.Date(now.Year(), now.Month(), now.Day()+day, t.Hour(), t.Minute(), 0, 0, now.Location())
	}
	for day := -1; ; day++ { // the one that began yesterday may not be over
		w = maintenance.Window{From: on(day, a), To: on(day, b)}
		if !b.After(a) {
			w.To = on(day+1, b)
		}
		if w.To.After(now) {
			return w, true
		}
	}
}
