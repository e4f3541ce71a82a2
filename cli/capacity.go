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

	"github.com/berth-dev/berth/capacity"
	"github.com/berth-dev/berth/capacity/join"
	"github.com/berth-dev/berth/diagnose/doctor"
	"github.com/berth-dev/berth/diagnose/facts"
)

type capacityOptions struct {
	reading
	by      string
	output  string
	metrics []string
	watch   bool
	every   time.Duration
	streams Streams
}

// capacityBy are the ways to divide the account.
var capacityBy = map[string]func(*capacity.Sum) string{
	"pool":        func(s *capacity.Sum) string { return s.Pool },
	"reservation": func(s *capacity.Sum) string { return s.Reservation },
	"zone":        func(s *capacity.Sum) string { return s.Zone },
	"cause":       func(s *capacity.Sum) string { return s.Cause },
}

var capacityOutputs = []string{"table", "wide", "json", "yaml", "csv", "prometheus"}

var capacityBys = []string{"reservation", "pool", "zone", "cause"}

func newCmdCapacity(s Streams) *cobra.Command {
	o := &capacityOptions{streams: s}
	cmd := &cobra.Command{
		Use:   "capacity",
		Short: "Show where paid GPUs are lost between a reservation and a busy GPU",
		Long: `Account for every GPU that is paid for: paid, launched, registered, ready, advertised, healthy, schedulable, allocated, busy. Each GPU is
counted once, at the last step that it reached, with the cause for which it goes no further, who owns that, and what it costs an
hour. docs/capacity.md explains the steps.

What is paid for is what Reservations and Pools of berth.dev say, and machines that are nodes. A price that nobody gave is
unknown, and never zero. Whether a GPU is busy is measured: give --metrics what dcgm-exporter writes.

Works on any cluster, reads with your own rights and changes nothing.

Exit code: 0 the account is below, 2 wrong usage, 3 could not look.`,
		Example: `  berth capacity
  berth capacity --by cause
  berth capacity --metrics http://10.0.0.7:9400/metrics -o json
  berth capacity --watch
  berth capacity --from evidence.tar.zst -o csv
  berth capacity -o prometheus > /var/lib/node_exporter/berth.prom
  aws ec2 describe-capacity-reservations | berth capacity import --aws -`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return err
			}
			return capacityRun(cmd.Context(), o)
		},
	}
	cmd.AddCommand(newCmdCapacityImport(s))
	o.reading.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&o.by, "by", "reservation", "a row per reservation, pool, zone or cause")
	f.StringVarP(&o.output, "output", "o", "table", "table, wide, json, yaml, csv or prometheus")
	f.StringArrayVar(&o.metrics, "metrics", nil, "`FILE`, URL or - with metrics of GPUs in Prometheus' text format; may be repeated")
	f.BoolVarP(&o.watch, "watch", "w", false, "look again and again, and print what changed")
	f.DurationVar(&o.every, "interval", 15*time.Second, "how often --watch looks")
	cmd.MarkFlagsMutuallyExclusive("watch", "from")
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("by", cobra.FixedCompletions(capacityBys, cobra.ShellCompDirectiveNoFileComp)))
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(capacityOutputs, cobra.ShellCompDirectiveNoFileComp)))
	return cmd
}

func (o *capacityOptions) check() error {
	if !slices.Contains(capacityOutputs, o.output) {
		return fmt.Errorf("-o %q: use %s", o.output, strings.Join(capacityOutputs, ", "))
	}
	if capacityBy[o.by] == nil {
		return fmt.Errorf("--by %q: use %s", o.by, strings.Join(capacityBys, ", "))
	}
	return checkWatch(o.watch, o.every, o.metrics)
}

func capacityRun(ctx context.Context, o *capacityOptions) error {
	if o.watch {
		ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
		defer stop()
		return o.watchOn(ctx)
	}
	v, err := o.look(ctx, capacity.New())
	if err != nil {
		return exitError{code: exitUnknown, err: err}
	}
	if err := v.print(o); err != nil {
		return failed(err)
	}
	return v.verdict()
}

// look reads the cluster and the metrics, and brings the ledger up to date.
func (o *capacityOptions) look(ctx context.Context, l *capacity.Ledger) (*capacityView, error) {
	samples, err := readMetrics(ctx, o.streams, o.metrics)
	if err != nil {
		return nil, err
	}
	f, err := o.facts(ctx, o.streams, facts.Ref{})
	if err != nil {
		return nil, err
	}
	in := join.Input{Facts: f}
	if len(o.metrics) > 0 {
		in.Uses = append([]doctor.Use{}, doctor.Uses(f, samples)...)
	}
	report := join.Of(in)
	if err := l.Sync(f.At, report.GPUs); err != nil {
		return nil, err
	}
	return newCapacityView(l, &report, f, o), nil
}

// watchOn looks until it is interrupted: first everything, then the causes whose GPUs changed.
func (o *capacityOptions) watchOn(ctx context.Context) error {
	var last *capacityView
	l := capacity.New()
	tick := time.NewTicker(o.every)
	defer tick.Stop()
	for {
		v, err := o.look(ctx, l)
		switch {
		case ctx.Err() != nil:
		case err != nil && last == nil:
			return exitError{code: exitUnknown, err: err}
		case err != nil:
			fmt.Fprintf(o.streams.Err, "%s could not look: %v\n", time.Now().Format(time.TimeOnly), err)
		default:
			if err := v.printChange(last, o); err != nil {
				return failed(err)
			}
			last = v
		}
		select {
		case <-ctx.Done():
			if last == nil {
				return exitError{code: exitUnknown, err: errors.New("interrupted before the cluster was read")}
			}
			return last.verdict()
		case <-tick.C:
		}
	}
}
