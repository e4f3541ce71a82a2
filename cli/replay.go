package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/controlplane/home"
	"github.com/berth-dev/berth/record"
)

type replayOptions struct {
	name, dir        string // dir, where given, instead of the cluster's
	at, from, to     string
	workload, output string
	streams          Streams
}

func newCmdReplay(s Streams) *cobra.Command {
	o := &replayOptions{streams: s}
	cmd := &cobra.Command{
		Use:   "replay [DIR]",
		Short: "Replay past scheduling decisions",
		Long: `Replay past scheduling decisions from the scheduler's decision log: what it decided at a
moment, or what happened in a span of time. The engine runs again on the recorded inputs,
and every decision on the way is compared with the one that was recorded.

Without a time it lists what the log covers. DIR is a folder with a decision log; without it,
the log of the cluster of --name is used, whether the cluster runs or not.

Times are RFC 3339 (2006-01-02T15:04:05Z), the last time that the clock of this machine
showed 15:04 or 15:04:05, or how long ago it was (90s, 5m, 2h).`,
		Example: `  berth replay                                # what is kept
  berth replay --at 14:05                     # what started and what waited at 14:05, and why
  berth replay --at 5m --workload default/train
  berth replay --from 1h                      # what happened in the last hour
  berth replay --from 14:00 --to 14:10 -o json
  berth replay --at 2026-11-15T14:05:00Z -o json ./decisions   # a copied log, without a cluster`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				o.dir = args[0]
			}
			if o.dir != "" && cmd.Flags().Changed("name") {
				return errors.New("give either a folder or --name")
			}
			return replayRun(o, time.Now())
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
	}
	f := cmd.Flags()
	nameFlag(cmd, &o.name, defaultName, "name of the cluster")
	f.StringVar(&o.at, "at", "", "the last decision at this time or before it")
	f.StringVar(&o.from, "from", "", "what happened from this time on")
	f.StringVar(&o.to, "to", "", "what happened up to this time (default: now)")
	f.StringVar(&o.workload, "workload", "", "only this workload, by namespace/name of its gang, or of a pod that is in none")
	f.StringVarP(&o.output, "output", "o", "text", "text or json")
	cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// replayRun checks what was asked before it looks for a log.
func replayRun(o *replayOptions, now time.Time) error {
	run, err := o.question(now)
	if err != nil {
		return err
	}
	log, err := o.open()
	if err != nil {
		return exitError{code: exitUnknown, err: err}
	}
	for _, s := range log.Segments() {
		if s.Err != nil {
			fmt.Fprintf(o.streams.Err, "left out: %v\n", s.Err)
		}
	}
	return replayExit(run(log))
}

// question is what to do with the log.
func (o *replayOptions) question(now time.Time) (func(*record.Log) error, error) {
	switch {
	case o.output != "text" && o.output != "json":
		return nil, fmt.Errorf("--output %q: use text or json", o.output)
	case o.at != "" && (o.from != "" || o.to != ""):
		return nil, errors.New("give either --at, or --from and --to")
	case o.at != "":
		at, err := moment(o.at, now)
		if err != nil {
			return nil, fmt.Errorf("--at: %w", err)
		}
		return func(l *record.Log) error { return o.showAt(l, at) }, nil
	case o.from != "" || o.to != "":
		from, to, err := o.span(now)
		return func(l *record.Log) error { return o.showSpan(l, from, to) }, err
	case o.workload != "":
		return nil, errors.New("--workload needs a time: give --at, or --from and --to")
	}
	return o.list, nil
}

func (o *replayOptions) span(now time.Time) (from, to time.Time, err error) {
	to = now
	if o.to != "" {
		if to, err = moment(o.to, now); err != nil {
			return from, to, fmt.Errorf("--to: %w", err)
		}
	}
	if o.from != "" {
		if from, err = moment(o.from, now); err != nil {
			return from, to, fmt.Errorf("--from: %w", err)
		}
	}
	if to.Before(from) {
		return from, to, fmt.Errorf("--from %s is after --to %s", o.from, o.to)
	}
	return from, to, nil
}

// open finds the log. The cluster need not run.
func (o *replayOptions) open() (*record.Log, error) {
	dir := o.dir
	if dir == "" {
		root, err := home.Root()
		if err != nil {
			return nil, err
		}
		d := home.Named(root, o.name)
		if _, err := d.Load(); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("there is no cluster %q: `berth status` lists those there are, and a folder can be given instead", o.name)
		}
		dir = d.Decisions()
	}
	return record.Open(dir)
}

// replayExit gives errors their exit codes: that this binary decides differently is an answer, all else is not.
func replayExit(err error) error {
	var mismatch *record.MismatchError
	var exit exitError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &exit):
		return err
	case errors.As(err, &mismatch):
		return exitError{code: exitFailed, err: err}
	}
	return exitError{code: exitUnknown, err: err}
}

// printJSON writes the value as the engine's own JSON, to the byte, and a newline.
func (o *replayOptions) printJSON(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = o.streams.Out.Write(append(b, '\n'))
	return err
}
