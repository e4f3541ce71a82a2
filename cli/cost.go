package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/capacity/bill"
	"github.com/berth-dev/berth/capacity/join"
	"github.com/berth-dev/berth/controlplane/home"
	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/record"
)

type costOptions struct {
	reading
	dir          string // of a decision log; "": that of the cluster
	by           string
	since, until string
	unpriced     bool
	output       string
	streams      Streams
}

var costBy = map[string]bill.By{"queue": bill.ByQueue, "namespace": bill.ByNamespace, "user": bill.ByUser, "experiment": bill.ByExperiment}

var (
	costBys     = []string{"queue", "namespace", "user", "experiment"}
	costOutputs = []string{"table", "json", "yaml", "csv"}
)

func newCmdCost(s Streams) *cobra.Command {
	o := &costOptions{streams: s}
	cmd := &cobra.Command{
		Use:   "cost [DIR]",
		Short: "Show who used the paid GPUs, and what that costs",
		Long: `Divide what was paid for GPUs among those who held them: GPU-hours and money, how long they waited, what they lost to preemption, what they
held and did not use, and their share of what nobody used. The lines add up to what was paid. docs/cost.md explains the columns.

The history is that of the scheduler's decision log, so it reaches back as far as the log and survives restarts. DIR is a folder
with a decision log; without it, the log of the cluster. The output names the time that no log covers, which is charged to nobody.

Prices are the current ones of Reservations and Pools of berth.dev: of the cluster, or of a bundle with --from. A price that is not
given is unknown, and never zero.

Exit code: 0 the bill is below, 2 wrong usage, 3 could not look.`,
		Example: `  berth cost
  berth cost --by user --since 30d
  berth cost --by experiment --since 2026-11-01T00:00:00Z --until 2026-11-08T00:00:00Z
  berth cost -o csv > bill.csv                       # with the columns of FOCUS
  berth cost --from evidence.tar.zst ./decisions     # a copied log, without a cluster`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				o.dir = args[0]
			}
			from, to, err := o.check(time.Now())
			if err != nil {
				return err
			}
			v, err := o.look(cmd.Context(), from, to)
			if err != nil {
				return exitError{code: exitUnknown, err: err}
			}
			return failed(v.print(o))
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
	}
	o.reading.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&o.by, "by", "queue", "a line per queue, namespace, user or experiment (label berth.dev/experiment)")
	f.StringVar(&o.since, "since", "7d", "from when on: how long ago (7d, 12h), or a time as for berth replay")
	f.StringVar(&o.until, "until", "", "up to when (default: now)")
	f.BoolVar(&o.unpriced, "unpriced", false, "read no prices: GPU-hours alone")
	f.StringVarP(&o.output, "output", "o", "table", "table, json, yaml or csv")
	cmd.MarkFlagsMutuallyExclusive("unpriced", "from")
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("by", cobra.FixedCompletions(costBys, cobra.ShellCompDirectiveNoFileComp)))
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(costOutputs, cobra.ShellCompDirectiveNoFileComp)))
	return cmd
}

// mostSpan bounds a bill, so that sums of GPU-time of any cluster fit 63 bits.
const mostSpan = 366 * 24 * time.Hour

func (o *costOptions) check(now time.Time) (from, to time.Time, err error) {
	switch {
	case !slices.Contains(costOutputs, o.output):
		return from, to, fmt.Errorf("-o %q: use %s", o.output, strings.Join(costOutputs, ", "))
	case costBy[o.by] == nil:
		return from, to, fmt.Errorf("--by %q: use %s", o.by, strings.Join(costBys, ", "))
	case o.from != "" && o.dir == "":
		return from, to, errors.New("--from has prices and no decision log: give the folder of the log too")
	}
	if from, err = daysOr(o.since, now); err != nil {
		return from, to, fmt.Errorf("--since: %w", err)
	}
	to = now
	if o.until != "" {
		if to, err = daysOr(o.until, now); err != nil {
			return from, to, fmt.Errorf("--until: %w", err)
		}
	}
	switch {
	case !from.Before(to):
		return from, to, fmt.Errorf("--since %s is not before --until %s", o.since, o.until)
	case to.Sub(from) > mostSpan:
		return from, to, fmt.Errorf("--since %s: a bill is of 366 days at most", o.since)
	}
	return from, to, nil
}

// daysOr reads days and weeks ago, and everything that moment does.
func daysOr(s string, now time.Time) (time.Time, error) {
	for unit, days := range map[string]int{"d": 1, "w": 7} {
		if n, err := strconv.ParseUint(strings.TrimSuffix(s, unit), 10, 16); err == nil && strings.HasSuffix(s, unit) {
			return now.Add(-time.Duration(n) * time.Duration(days) * 24 * time.Hour), nil
		}
	}
	return moment(s, now)
}

// look reads prices and the log.
func (o *costOptions) look(ctx context.Context, from, to time.Time) (*costView, error) {
	var tariff bill.Tariff
	v := &costView{Version: costVersion, By: o.by}
	if !o.unpriced {
		f, err := o.facts(ctx, o.streams, facts.Ref{})
		if err != nil {
			return nil, fmt.Errorf("read prices: %w; --unpriced counts GPU-hours alone", err)
		}
		tariff = join.TariffOf(f)
		for _, u := range f.Unseen {
			if slices.Contains([]string{"pools.berth.dev", "reservations.berth.dev"}, u.Resource) {
				v.Problems = append(v.Problems, fmt.Sprintf("prices of %s were not seen: %s", u.Resource, u.Reason))
			}
		}
	}
	dir, running, err := o.decisions()
	if err != nil {
		return nil, err
	}
	log, err := record.Open(dir)
	if err != nil {
		return nil, err
	}
	v.read(log, bill.Options{From: from, To: to, Tariff: tariff}, running, costBy[o.by], o.streams)
	return v, nil
}

// decisions is the folder of the log, and whether its scheduler may still write to it. Without prices the cluster need not run.
func (o *costOptions) decisions() (dir string, running bool, err error) {
	if o.dir != "" {
		return o.dir, false, nil
	}
	if o.unpriced && o.kubeconfig == "" && o.context == "" {
		if root, err := home.Root(); err == nil {
			d := home.Named(root, cmp.Or(o.name, defaultName))
			if _, err := d.Load(); err == nil {
				return d.Decisions(), false, nil
			}
		}
	}
	at, err := o.choose()
	if err != nil {
		return "", false, err
	}
	if at.partly {
		return "", false, errClosedLog
	}
	if at.decisions == "" {
		return "", false, fmt.Errorf("the decision log of %s is not on this machine: copy its folder, and give that", at.title)
	}
	return at.decisions, true, nil
}

// read adds up the log. Where its scheduler runs, what it was told last holds until the end of the bill.
func (v *costView) read(log *record.Log, o bill.Options, running bool, by bill.By, s Streams) {
	p := newProgress(s.Err)
	slow := time.AfterFunc(quietFor, func() { p.doing("reading the decision log") })
	defer func() { slow.Stop(); p.stop() }()
	b, last := bill.New(o), time.Time{}
	for step, err := range stepsOf(log, o.From, o.To) {
		if err != nil {
			v.Problems = append(v.Problems, err.Error())
			continue
		}
		b.Add(step)
		last = step.Now
	}
	end := last
	if running && o.To.After(last) {
		end = o.To
	}
	v.fill(b.Close(end, by))
	if began := log.From(); began.After(o.From) {
		v.Problems = append(v.Problems, "the decision log begins at "+began.UTC().Format(time.RFC3339)+": what was before is on no line")
	}
}

// stepsOf is the history that a log has, as a book takes it. After an error, and between runs of the scheduler, nobody watched.
func stepsOf(log *record.Log, from, to time.Time) iter.Seq2[bill.Step, error] {
	return func(yield func(bill.Step, error) bool) {
		damaged := false
		for t, err := range log.Told(from, to) {
			if damaged = damaged || err != nil; err != nil {
				if !yield(bill.Step{}, err) {
					return
				}
				continue
			}
			broken := t.First && (damaged || t.Because == record.Started || t.Because == record.AfterGap)
			if !yield(bill.Step{Now: t.Now, Fresh: t.First, Unseen: broken, Changes: t.Changes, Evictions: t.Evictions}, nil) {
				return
			}
			damaged = false
		}
	}
}
