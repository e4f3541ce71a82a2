package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/diagnose/submit"
	"github.com/berth-dev/berth/kube/manifest"
)

type whatifOptions struct {
	against
	files, addNodes, drain, quota []string
	output                        string
	streams                       Streams
}

func newCmdWhatif(s Streams) *cobra.Command {
	o := &whatifOptions{streams: s}
	cmd := &cobra.Command{
		Use:   "whatif [--add-nodes POOL=N] [--drain NODE] [--quota QUEUE=N] [-f FILE]",
		Short: "Plan all pending work on a changed cluster, and show the difference",
		Long: `Plan all pending work twice: on the cluster as it is, and with more nodes, without some, with other quotas, or
with manifests submitted. The command shows what starts and what waits in both, and until when, as far as it is
known. Nothing is changed.

Nodes that are added are like the first one of their pool, ready and empty. A node that is drained keeps the
pods of DaemonSets; pods that no controller recreates are gone. A quota is in GPUs: a queue's, or that of a
namespace's ResourceQuota.

Exit code: 0, 2 wrong usage, 3 could not look.`,
		Example: `  berth whatif --add-nodes h100=4
  berth whatif --drain kwok-gpu-h100-0
  berth whatif --quota team-a=16 -f job.yaml
  berth whatif --add-nodes h100=4 --from evidence.tar.zst -o json
  berth whatif -f job.yaml --fleet research-128`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains([]string{"table", "wide", "json", "yaml"}, o.output) {
				return fmt.Errorf("--output %q: use table, wide, json or yaml", o.output)
			}
			return whatifRun(cmd.Context(), o)
		},
	}
	o.against.flags(cmd)
	f := cmd.Flags()
	f.StringArrayVarP(&o.files, "filename", "f", nil, "manifests to submit: `FILE`, folder, or - for standard input; can be given several times")
	f.StringArrayVar(&o.addNodes, "add-nodes", nil, "add nodes to a pool: `POOL=N`; can be given several times")
	f.StringArrayVar(&o.drain, "drain", nil, "drain a `NODE`; can be given several times")
	f.StringArrayVar(&o.quota, "quota", nil, "set the quota of GPUs of a queue or namespace: `QUEUE=N`; can be given several times")
	f.StringVarP(&o.output, "output", "o", "table", "table (what changes), wide (everything), json or yaml")
	cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "wide", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
	for flag, names := range map[string]func(submit.World) []string{"drain": submit.World.NodeNames, "add-nodes": submit.World.PoolNames, "quota": submit.World.QueueNames} {
		cmd.RegisterFlagCompletionFunc(flag, o.complete(s, flag != "drain", names))
	}
	return cmd
}

func whatifRun(ctx context.Context, o *whatifOptions) error {
	var ch submit.Changes
	var err error
	if ch.AddNodes, err = counts("--add-nodes POOL=N", o.addNodes); err != nil {
		return err
	}
	if ch.Quota, err = counts("--quota QUEUE=N", o.quota); err != nil {
		return err
	}
	ch.Drain = o.drain
	if len(o.files)+len(o.addNodes)+len(o.drain)+len(o.quota) == 0 {
		return errors.New("what if what? give --add-nodes, --drain, --quota or -f")
	}
	docs, err := manifest.Read(o.files, o.streams.In)
	if err != nil {
		return err
	}
	world, err := o.world(ctx, o.streams)
	if err != nil {
		return err
	}
	items := make([]submit.Item, len(docs))
	for i := range docs {
		items[i] = submit.Item{File: docs[i].File, Line: docs[i].Line, Object: docs[i].Object}
	}
	answer, err := submit.Imagine(world, o.defaultNamespace(), items, ch)
	if errors.Is(err, submit.ErrBlind) {
		return exitError{code: exitUnknown, err: err}
	}
	if err != nil {
		return err
	}
	if done, err := printData(o.streams.Out, answer, o.output); done {
		return failed(err)
	}
	_, err = fmt.Fprint(o.streams.Out, whatifText(&answer, o.output == "wide", width(o.streams.Out)))
	return failed(err)
}

// mostAdded bounds the nodes that are imagined.
const mostAdded = 10_000

// counts reads NAME=N.
func counts(usage string, words []string) (out []submit.Count, err error) {
	for _, w := range words {
		name, number, ok := strings.Cut(w, "=")
		n, err := strconv.ParseInt(number, 10, 64)
		if !ok || name == "" || err != nil || n < 0 || n > mostAdded {
			return nil, fmt.Errorf("%q: give %s, with a number from 0 to %d", w, usage, mostAdded)
		}
		out = append(out, submit.Count{Of: name, N: n})
	}
	return out, nil
}

func whatifText(a *submit.WhatIf, all bool, columns int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "What if: %s\n\n", strings.Join(a.Changes, "; "))
	t := table{columns: []column{{head: ""}, {head: "NODES"}, {head: "GPUS"}, {head: "USED"}, {head: "STARTING"}, {head: "WAITING"}}}
	for _, c := range []struct {
		name string
		submit.Capacity
	}{{"before", a.Before}, {"after", a.After}} {
		t.add(c.name, strconv.Itoa(c.Nodes), strconv.FormatInt(c.GPUs, 10), strconv.FormatInt(c.Used, 10), strconv.FormatInt(c.Starting, 10), strconv.Itoa(c.Waiting))
	}
	_ = t.write(&b, columns) // a strings.Builder takes everything
	rows := table{columns: []column{{head: "WORKLOAD"}, {head: "NAMESPACE", spare: 1}, {head: "PODS"}, {head: "GPUS"}, {head: "BEFORE", text: true}, {head: "AFTER", text: true}}}
	same := 0
	for i := range a.Workloads {
		w := &a.Workloads[i]
		if w.Before.Same(w.After) && !all {
			same++
			continue
		}
		rows.add(w.Target.String(), w.Target.Namespace, strconv.Itoa(w.Pods), strconv.FormatInt(w.GPUs, 10), stateText(w.Before, a.At), stateText(w.After, a.At))
	}
	switch {
	case len(rows.rows) > 0:
		b.WriteString("\n")
		if all {
			columns = 0
		}
		_ = rows.write(&b, columns)
	default:
		b.WriteString("\nNothing that waits is helped or held up.\n")
	}
	if same > 0 {
		fmt.Fprintf(&b, "\n%d more, the same before and after: -o wide shows them.\n", same)
	}
	if len(a.Assumes) > 0 {
		b.WriteString("\nAssumed: " + strings.Join(a.Assumes, "; ") + ".\n")
	}
	if len(a.Unseen) > 0 {
		b.WriteString("\nNot seen: " + inShort(a.Unseen) + ".\n")
	}
	return b.String()
}

func stateText(s submit.State, at time.Time) string {
	switch s.State {
	case "absent":
		return "-"
	case "gone":
		return "gone: no controller makes it again"
	case "waits":
		text := "waits: " + s.Cause
		if s.ETA != nil && !s.ETA.Likely.IsZero() {
			text += ", starts in " + s.ETA.Likely.Sub(at).Round(time.Second).String()
		}
		return text
	case "evicted":
		return "evicted " + s.Because
	}
	on := ""
	switch len(s.Nodes) {
	case 0:
	case 1:
		on = " on " + s.Nodes[0]
	default:
		on = fmt.Sprintf(" on %d nodes", len(s.Nodes))
	}
	return s.State + on
}
