package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/diagnose/doctor"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/engine"
	kubecluster "github.com/berth-dev/berth/kube/cluster"
)

type doctorOptions struct {
	reading
	items   []string // codes; none: all
	output  string
	verbose bool
	failOn  string
	metrics []string
	watch   bool
	every   time.Duration
	streams Streams
}

func newCmdDoctor(s Streams) *cobra.Command {
	o := &doctorOptions{streams: s}
	cmd := &cobra.Command{
		Use:   "doctor [ITEM...]",
		Short: "Check whether a cluster is fit for GPU work",
		Long: `Go through a checklist: nodes, drivers, device plugins, operators, capacity, labels, fabric, GPU errors,
taints, priorities, quotas, queues, autoscalers, and how the GPUs are used. Each finding names the objects and fields
that show it, who owns it, and the fix or the next step. docs/doctor.md explains every item.

The command works on any cluster, under any scheduler, reads with your own rights and changes nothing. What you
may not read is unknown, not fine. Throttling, Xid and ECC errors are measured: give --metrics what dcgm-exporter
writes, a file, a URL or - for standard input.

Severities: fail (GPU work fails or can never start), warn (slower, fewer GPUs, or a promise that cannot be
kept), unknown (could not be looked at), note (worth knowing), ok.

Exit code: 0 fit, 1 a finding is as severe as --fail-on, 2 wrong usage, 3 could not look.`,
		Example: `  berth doctor
  berth doctor --fail-on warn -o json          # in CI
  berth doctor quotas queues -v
  berth doctor --metrics http://10.0.0.7:9400/metrics --metrics node-b.prom
  berth doctor --watch
  berth doctor --from evidence.tar.zst`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.items = args
			if err := o.check(); err != nil {
				return err
			}
			return doctorRun(cmd.Context(), o)
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			left := slices.DeleteFunc(itemCodes(), func(code string) bool { return slices.Contains(args, code) })
			return matching(left, begun), cobra.ShellCompDirectiveNoFileComp
		},
	}
	o.reading.flags(cmd)
	f := cmd.Flags()
	f.StringVarP(&o.output, "output", "o", "table", "table, wide, json, yaml or name")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "all findings with all their evidence, and what each item is about")
	f.StringVar(&o.failOn, "fail-on", string(doctor.Fail), "exit 1 from this `SEVERITY` on: fail, warn, unknown, note or never")
	f.StringArrayVar(&o.metrics, "metrics", nil, "`FILE`, URL or - with metrics of GPUs in Prometheus' text format; may be repeated")
	f.BoolVarP(&o.watch, "watch", "w", false, "look again and again, and print what changed")
	f.DurationVar(&o.every, "interval", 15*time.Second, "how often --watch looks")
	cmd.MarkFlagsMutuallyExclusive("watch", "from")
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "wide", "json", "yaml", "name"}, cobra.ShellCompDirectiveNoFileComp)))
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("fail-on", func(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return matching(failOns, begun), cobra.ShellCompDirectiveNoFileComp
	}))
	return cmd
}

var failOns = []string{string(doctor.Fail), string(doctor.Warn), string(doctor.Unknown), string(doctor.Note), "never"}

func itemCodes() (out []string) {
	for _, item := range doctor.Items {
		out = append(out, item.Code)
	}
	return out
}

func (o *doctorOptions) check() error {
	if err := checkOutput(o.output); err != nil {
		return err
	}
	for _, code := range o.items {
		if !slices.Contains(itemCodes(), code) {
			return fmt.Errorf("%q is no item of the checklist: %s", code, strings.Join(itemCodes(), ", "))
		}
	}
	if !slices.Contains(failOns, o.failOn) {
		return fmt.Errorf("--fail-on %q: use %s", o.failOn, strings.Join(failOns, ", "))
	}
	return checkWatch(o.watch, o.every, o.metrics)
}

// checkWatch says what of --watch, --interval and --metrics does not go together.
func checkWatch(watch bool, every time.Duration, metrics []string) error {
	switch {
	case watch && every < time.Second:
		return errors.New("--interval: a second or more")
	case watch && slices.Contains(metrics, "-"):
		return errors.New("--watch reads metrics again and again: give --metrics a file or a URL")
	}
	return nil
}

func doctorRun(ctx context.Context, o *doctorOptions) error {
	if o.watch {
		ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		defer stop()
		return o.watchOn(ctx)
	}
	c, err := o.look(ctx)
	if err != nil {
		return exitError{code: exitUnknown, err: err}
	}
	if err := o.print(&c); err != nil {
		return failed(err)
	}
	return o.verdict(&c)
}

// verdict is the exit code.
func (o *doctorOptions) verdict(c *doctor.Checkup) error {
	if o.failOn != "never" && c.Severity.Rank() >= doctor.Severity(o.failOn).Rank() {
		return exitError{code: exitFailed}
	}
	if slices.ContainsFunc(c.Unseen, func(u facts.Unseen) bool { return u.Resource == "nodes" }) && slices.ContainsFunc(c.Items, needsNodes) {
		return exitError{code: exitUnknown} // the page says what could not be read
	}
	return nil
}

// needsNodes says whether nothing can be said of the item without the nodes.
func needsNodes(r doctor.ItemResult) bool {
	return slices.ContainsFunc(doctor.Items, func(item *doctor.Item) bool { return item.Code == r.Item && slices.Contains(item.Needs, "nodes") })
}

// look reads the cluster, and the metrics, and goes through the checklist.
func (o *doctorOptions) look(ctx context.Context) (doctor.Checkup, error) {
	samples, err := readMetrics(ctx, o.streams, o.metrics)
	if err != nil {
		return doctor.Checkup{}, err
	}
	f, err := o.facts(ctx, o.streams, facts.Ref{})
	if err != nil {
		return doctor.Checkup{}, err
	}
	c := doctor.Examine(doctor.Input{Facts: f, Samples: samples, Report: o.counts(ctx, f)}, o.items...)
	kubectl := o.kubectl()
	for i := range c.Items {
		for j := range c.Items[i].Findings {
			f := &c.Items[i].Findings[j]
			f.Command = addressed(f.Command, kubectl)
		}
	}
	return c, nil
}

// counts has the engine count GPUs, on the levels of the topology with which Berth's scheduler runs where there is one.
func (o *doctorOptions) counts(ctx context.Context, f *facts.Facts) func(resource string) engine.Report {
	var levels []engine.Level // nil: the default
	if len(f.Foreign["BerthQueue.berth.dev"]) > 0 {
		if a, err := o.asker(); err == nil {
			if config, err := configuration(ctx, a, ""); err == nil {
				levels = config.Engine.Levels
			}
		}
	}
	return func(resource string) engine.Report {
		m := kubecluster.NewModel(kubecluster.ModelOptions{Engine: engine.Config{GPU: resource, Levels: levels}})
		m.Set(doctor.Objects(f, resource)...)
		return m.Report()
	}
}

func (o *doctorOptions) print(c *doctor.Checkup) error {
	if o.output == "name" {
		for _, item := range c.Items {
			if item.Severity != doctor.OK {
				fmt.Fprintln(o.streams.Out, item.Item)
			}
		}
		return nil
	}
	if done, err := printData(o.streams.Out, c, o.output); done {
		return err
	}
	p := doctorPage{columns: width(o.streams.Out), colour: isTerminal(o.streams.Out), verbose: o.verbose || o.output == "wide"}
	if o.output == "wide" {
		p.columns = 0
	}
	_, err := fmt.Fprint(o.streams.Out, o.asked()+p.text(c))
	return err
}

// watchOn looks until it is interrupted: first everything, then what changed. A look that fails is said and tried again.
func (o *doctorOptions) watchOn(ctx context.Context) error {
	var last *doctor.Checkup
	tick := time.NewTicker(o.every)
	defer tick.Stop()
	for {
		c, err := o.look(ctx)
		switch {
		case ctx.Err() != nil:
		case err != nil && last == nil:
			return exitError{code: exitUnknown, err: err}
		case err != nil:
			fmt.Fprintf(o.streams.Err, "%s could not look: %v\n", time.Now().Format(time.TimeOnly), err)
		default:
			if err := o.printChange(last, &c); err != nil {
				return failed(err)
			}
			last = &c
		}
		select {
		case <-ctx.Done():
			if last == nil {
				return exitError{code: exitUnknown, err: errors.New("interrupted before the cluster was read")}
			}
			return o.verdict(last)
		case <-tick.C:
		}
	}
}

// printChange prints everything at first, then the items that are not as they were. JSON and YAML are printed whole
// whenever something changed.
func (o *doctorOptions) printChange(was, now *doctor.Checkup) error {
	if was == nil {
		return o.print(now)
	}
	changed := changes(was, now)
	if len(changed) == 0 {
		return nil
	}
	if o.output == "json" || o.output == "yaml" || o.output == "name" {
		if o.output == "yaml" {
			fmt.Fprintln(o.streams.Out, "---")
		}
		return o.print(now)
	}
	for _, line := range changed {
		if _, err := fmt.Fprintf(o.streams.Out, "%s %s\n", now.At.Local().Format(time.TimeOnly), cell(line)); err != nil {
			return err
		}
	}
	return nil
}

// changes are the items whose severity or sentence is another now, a line each, the worst first.
func changes(was, now *doctor.Checkup) (out []string) {
	before := make(map[string]doctor.ItemResult)
	for _, item := range was.Items {
		before[item.Item] = item
	}
	for _, item := range now.Items {
		old := before[item.Item]
		switch {
		case old.Severity != item.Severity:
			out = append(out, fmt.Sprintf("%s: %s, was %s: %s", item.Item, item.Severity, old.Severity, item.Summary))
		case old.Summary != item.Summary && item.Severity != doctor.OK:
			out = append(out, fmt.Sprintf("%s: still %s: %s", item.Item, item.Severity, item.Summary))
		}
	}
	return out
}
