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

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/submit"
	kubecluster "github.com/berth-dev/berth/kube/cluster"
	"github.com/berth-dev/berth/kube/dialect/all"
	"github.com/berth-dev/berth/record"
)

type adoptOptions struct {
	reading
	dialect   string
	decisions string
	dry       bool
	output    string
	streams   Streams
}

func newCmdAdopt(s Streams) *cobra.Command {
	o := &adoptOptions{streams: s}
	names := strings.Join(all.Names(), ", ")
	cmd := &cobra.Command{
		Use:   "adopt --from DIALECT",
		Short: "Show how Berth would treat the workloads of a cluster that another scheduler serves",
		Long: `Show how Berth would treat the workloads of a cluster that another scheduler serves: which objects it understands,
which fields have no effect, and for each workload, queue by queue, whether it would keep running, start,
wait, or be evicted. The report ends with the steps to switch over. Nothing is changed.

DIALECT names the scheduler whose objects and keys the workloads use: ` + names + `.

Exit code: 0, 2 wrong usage, 3 could not look.`,
		Example: `  berth adopt --from kai --context prod
  berth adopt --from volcano --from-bundle evidence.tar.zst
  berth adopt --from kueue -o json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case !slices.Contains([]string{"table", "wide", "json", "yaml"}, o.output):
				return fmt.Errorf("--output %q: use table, wide, json or yaml", o.output)
			case o.dialect == "":
				return errors.New("adopt from whom? give --from with one of " + names)
			case !slices.Contains(all.Names(), o.dialect):
				return fmt.Errorf("--from %q: use one of %s", o.dialect, names)
			case !o.dry:
				return errors.New("--dry-run=false: berth adopt changes nothing; its last lines say what to do")
			}
			return adoptRun(cmd.Context(), o)
		},
	}
	o.connection.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&o.dialect, "from", "", "`DIALECT` of the workloads: "+names)
	f.StringVar(&o.reading.from, "from-bundle", "", "read a `BUNDLE` that berth evidence wrote, not a cluster")
	f.StringVar(&o.decisions, "decisions", "", "read the decision log in `FOLDER` that berth scheduler --shadow --record wrote, not a cluster")
	f.BoolVar(&o.dry, "dry-run", true, "write nothing, which is always so")
	f.StringVarP(&o.output, "output", "o", "table", "table (what changes), wide (every workload), json or yaml")
	for _, other := range []string{"name", "kubeconfig", "context"} {
		cmd.MarkFlagsMutuallyExclusive("from-bundle", other)
		cmd.MarkFlagsMutuallyExclusive("decisions", other)
	}
	cmd.MarkFlagsMutuallyExclusive("decisions", "from-bundle")
	cmd.RegisterFlagCompletionFunc("from", cobra.FixedCompletions(all.Names(), cobra.ShellCompDirectiveNoFileComp))
	cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "wide", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// day is the report of a decision log, as of its last decision.
func (o *adoptOptions) day() (submit.Adoption, error) {
	log, err := record.Open(o.decisions)
	if err != nil {
		return submit.Adoption{}, err
	}
	d := submit.NewDay()
	var last record.Cycle
	for c, err := range log.Cycles(log.From(), time.Now()) {
		if err != nil {
			return submit.Adoption{}, err
		}
		d.Cycle(c.Now, &c.Plan)
		last = c
	}
	if last.State == nil {
		return submit.Adoption{}, fmt.Errorf("%s has no decisions", o.decisions)
	}
	return d.Adopt(o.dialect, last.Now, last.State.Dump(), &last.Plan), nil
}

func adoptRun(ctx context.Context, o *adoptOptions) error {
	if o.decisions != "" {
		a, err := o.day()
		if err != nil {
			return exitError{code: exitUnknown, err: err}
		}
		return o.print(&a)
	}
	f, err := o.facts(ctx, o.streams, facts.Ref{Namespace: o.namespace()})
	if err != nil {
		return exitError{code: exitUnknown, err: err}
	}
	w := submit.World{Facts: f, Against: "cluster", Model: kubecluster.ModelOptions{}}
	if o.reading.from != "" {
		w.Against = "bundle"
	}
	asker, err := o.asker()
	if err != nil {
		return exitError{code: exitUnknown, err: err}
	}
	if config, err := configuration(ctx, asker, o.namespace()); err == nil { // of a Berth that runs beside, in its shadow
		w.Model.Engine = config.Engine
	}
	answer, err := submit.Adopt(w, all.Find(o.dialect))
	if errors.Is(err, submit.ErrBlind) {
		return exitError{code: exitUnknown, err: err}
	}
	if err != nil {
		return err
	}
	return o.print(&answer)
}

func (o *adoptOptions) print(a *submit.Adoption) error {
	if done, err := printData(o.streams.Out, a, o.output); done {
		return failed(err)
	}
	_, err := fmt.Fprint(o.streams.Out, adoptText(a, o.output == "wide", width(o.streams.Out)))
	return failed(err)
}

func adoptText(a *submit.Adoption, everything bool, columns int) string {
	var b strings.Builder
	if len(a.Objects) == 0 && len(a.Workloads) == 0 {
		fmt.Fprintf(&b, "Nothing here is of %s: no objects of its kinds, and no pods for it.\n", a.From)
		return b.String()
	}
	if a.Against == "decisions" {
		fmt.Fprintf(&b, "As of the last decision, %s. The log does not say which fields have no effect.\n", stamp(a.At))
		adoptedWorkloads(&b, a, everything, columns)
		return b.String()
	}
	t := table{columns: []column{{head: "KIND"}, {head: "OBJECTS"}, {head: "UNDERSTOOD"}, {head: "IN PART"}, {head: "REFUSED"}}}
	for _, k := range a.Objects {
		t.add(k.Kind, strconv.Itoa(k.Objects), strconv.Itoa(k.Understood), strconv.Itoa(k.InPart), strconv.Itoa(k.Refused))
	}
	_ = t.write(&b, columns) // a strings.Builder takes everything
	if len(a.Unread) > 0 {
		b.WriteString("\nWithout effect:\n")
		const most = 40
		for i, u := range a.Unread {
			if i == most && !everything {
				fmt.Fprintf(&b, "  %d more: -o wide shows them\n", len(a.Unread)-most)
				break
			}
			what := strings.Join(u.Fields, ", ")
			if u.Problem != "" {
				what = u.Problem
			}
			name := u.Object.String()
			if u.Object.Namespace != "" {
				name += " in " + u.Object.Namespace
			}
			fmt.Fprintf(&b, "  %s: %s\n", name, what)
		}
	}
	adoptedWorkloads(&b, a, everything, columns)
	b.WriteString("\nTo switch over:\n")
	for _, step := range a.Steps {
		b.WriteString("  " + step + "\n")
	}
	if len(a.Assumes) > 0 {
		b.WriteString("\nAssumed: " + strings.Join(a.Assumes, "; ") + ".\n")
	}
	if len(a.Unseen) > 0 {
		b.WriteString("\nNot seen: " + inShort(a.Unseen) + ".\n")
	}
	return b.String()
}

// adoptedWorkloads writes the queues, and the workloads that change.
func adoptedWorkloads(b *strings.Builder, a *submit.Adoption, everything bool, columns int) {
	b.WriteString("\n")
	q := table{columns: []column{{head: "QUEUE"}, {head: "RUNS NOW"}, {head: "WAITS NOW"}, {head: "RUNS"}, {head: "STARTS"}, {head: "WAITS"}, {head: "EVICTED"}}}
	for _, c := range a.Queues {
		name := c.Name
		if name == "" {
			name = "-"
		}
		q.add(name, strconv.Itoa(c.Now.Run), strconv.Itoa(c.Now.Wait), strconv.Itoa(c.Then.Run), strconv.Itoa(c.Then.Start), strconv.Itoa(c.Then.Wait), strconv.Itoa(c.Then.Evicted))
	}
	_ = q.write(b, columns)
	rows := table{columns: []column{{head: "WORKLOAD"}, {head: "NAMESPACE", spare: 1}, {head: "QUEUE"}, {head: "PODS"}, {head: "GPUS"}, {head: "NOW", text: true}, {head: "UNDER BERTH", text: true}}}
	same := 0
	for i := range a.Workloads {
		w := &a.Workloads[i]
		if !w.Changes() && !everything {
			same++
			continue
		}
		rows.add(w.Target.String(), w.Target.Namespace, w.Queue, strconv.Itoa(w.Pods), strconv.FormatInt(w.GPUs, 10), adoptedState(w.Now)+fromWhen(w.Bound), adoptedState(w.Then)+fromWhen(w.Begun))
	}
	if len(rows.rows) > 0 {
		b.WriteString("\n")
		if everything {
			columns = 0
		}
		_ = rows.write(b, columns)
	}
	if same > 0 {
		fmt.Fprintf(b, "\n%d workloads are the same now and under Berth: -o wide shows them.\n", same)
	}
}

// fromWhen is when that began, where it is known.
func fromWhen(t *time.Time) string {
	if t == nil {
		return ""
	}
	return ", from " + stamp(*t)
}

func adoptedState(s submit.State) string {
	out := s.State
	switch {
	case s.Cause != "":
		out += ": " + s.Cause
	case s.Because != "" && s.State == "evicted":
		out += " " + s.Because
	case s.Because != "":
		out += ": " + s.Because
	}
	if s.State == "starts" && len(s.Nodes) == 1 {
		out += " on " + s.Nodes[0]
	}
	return out
}
