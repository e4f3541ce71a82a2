package cli

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/berth-dev/berth/kube/answer"
)

type jobsOptions struct {
	reading
	space   string // -n
	all     bool
	waiting bool
	output  string
	what    string // one workload, as a person calls it; "": all
	streams Streams
}

func newCmdJobs(s Streams) *cobra.Command {
	o := &jobsOptions{streams: s}
	cmd := &cobra.Command{
		Use:   "jobs [JOB | KIND/NAME]",
		Short: "Show workloads in queue order: what each waits for, and behind which workloads",

		SuggestFor: []string{"ps", "workloads", "pods", "squeue"},
		Long: `Show the workloads that Berth schedules: first those that are pending, in the order in which they will be
tried, then those that run. With a name, show one: its position, when it starts, why it waits, the counts
that prove it, and what holds the resources that it needs.

ETA is "by 14:05" where a start is promised, which nothing that starts later may delay, "~12m" where one
is likely, "blocked" where none is expected before its queue opens or the workload ahead of it can start,
and "-" where it is unknown. -o wide shows the earliest start, and what it depends on.

A workload is named by its owner (job/first), by its own object (gang/first, podgroup/first,
compositepodgroup/first) or by one of its pods. With a name the exit code is 1 while it is pending.`,
		Example: `  berth jobs                  # of the current namespace
  berth jobs -A --waiting
  berth jobs job/second -n team-a
  berth jobs second -o json
  berth jobs -A --from evidence.tar.zst`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.what = strings.Join(args, "")
			if err := checkOutput(o.output); err != nil {
				return err
			}
			return jobsRun(cmd.Context(), o)
		},
	}
	o.reading.flags(cmd)
	o.askFlags(cmd)
	cmd.ValidArgsFunction = o.completeWorkloads(&o.space, o.scheduled)
	cmd.Flags().BoolVar(&o.waiting, "waiting", false, "only those that wait")
	return cmd
}

// askFlags adds the flags of commands that ask the scheduler.
func (o *jobsOptions) askFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVarP(&o.space, "namespace", "n", "", "namespace (default: the kubeconfig's)")
	f.BoolVarP(&o.all, "all-namespaces", "A", false, "all namespaces")
	f.StringVarP(&o.output, "output", "o", "table", "table, wide, json, yaml or name")
	cmd.MarkFlagsMutuallyExclusive("namespace", "all-namespaces")
}

func jobsRun(ctx context.Context, o *jobsOptions) error {
	a, err := o.asker()
	if err != nil {
		return exitError{code: exitUnknown, err: err}
	}
	if o.space == "" && !o.all {
		o.space = o.namespace()
	}
	list, err := o.list(ctx, a)
	if err != nil {
		return exitError{code: exitUnknown, err: err}
	}
	if o.what != "" && len(list.Items) == 1 {
		return o.showOne(ctx, a, &list.Items[0])
	}
	return failed(o.print(list))
}

func (o *jobsOptions) list(ctx context.Context, a asker) (list answer.WorkloadList, err error) {
	params := url.Values{}
	if o.what != "" {
		params.Set("of", o.what)
	}
	if o.waiting {
		params.Set("state", string(answer.Waiting))
	}
	path := []string{"workloads"}
	if !o.all {
		path = []string{"namespaces", o.space, "workloads"}
	}
	err = a.get(ctx, &list, params, path...)
	switch {
	case apierrors.IsForbidden(err) && o.all:
		return list, fmt.Errorf("you may not look at all namespaces (%w): give -n NAMESPACE", err)
	case err == nil && o.what != "" && len(list.Items) == 0:
		return list, fmt.Errorf("no workload%s is %q: `berth jobs -A` lists all that Berth schedules", o.where(), o.what)
	}
	return list, err
}

func (o *jobsOptions) where() string {
	if o.all {
		return ""
	}
	return " in namespace " + o.space
}

// showOne prints all there is to say about one, and fails while it waits.
func (o *jobsOptions) showOne(ctx context.Context, a asker, found *answer.Workload) error {
	var w answer.Workload
	if err := a.get(ctx, &w, nil, "namespaces", found.Namespace, "workloads", found.Name); err != nil {
		return exitError{code: exitUnknown, err: err}
	}
	err := o.printOne(&w)
	if err == nil && w.State == answer.Waiting {
		return exitError{code: exitFailed}
	}
	return failed(err)
}

func (o *jobsOptions) printOne(w *answer.Workload) error {
	if o.output == "name" {
		_, err := fmt.Fprintln(o.streams.Out, w.Reference().Title())
		return err
	}
	if done, err := printData(o.streams.Out, w, o.output); done {
		return err
	}
	fmt.Fprint(o.streams.Out, o.asked())
	return printWorkload(o.streams.Out, w, o.now())
}

func (o *jobsOptions) print(list answer.WorkloadList) error {
	if done, err := printData(o.streams.Out, list, o.output); done {
		return err
	}
	if o.output == "name" {
		for i := range list.Items {
			fmt.Fprintln(o.streams.Out, list.Items[i].Reference().Title())
		}
		return nil
	}
	if len(list.Items) == 0 {
		fmt.Fprintf(o.streams.Err, "%sBerth schedules nothing%s.\n", o.asked(), o.where())
		return nil
	}
	fmt.Fprint(o.streams.Out, o.asked())
	return printJobs(o.streams.Out, list.Items, jobsTable{all: o.all, wide: o.output == "wide", columns: o.columns(), now: o.now()})
}

// columns is how wide lines may be; 0: as wide as they are.
func (o *jobsOptions) columns() int {
	if o.output == "wide" {
		return 0
	}
	return width(o.streams.Out)
}

// jobsTable says how the line is shown.
type jobsTable struct {
	all, wide bool
	columns   int // 0: as many as it takes
	now       time.Time
}

func printJobs(out io.Writer, items []answer.Workload, t jobsTable) error {
	lines := table{columns: t.heads()}
	for i := range items {
		lines.add(t.row(&items[i])...)
	}
	return lines.write(out, t.columns)
}

func (t jobsTable) heads() (heads []column) {
	if t.all {
		heads = append(heads, column{head: "NAMESPACE"})
	}
	if t.wide {
		for _, head := range []string{"NAME", "WORKLOAD", "QUEUE", "PRIORITY", "STATE", "PODS", "MIN", "GPUS", "POSITION", "ETA", "EARLIEST", "LIKELY", "AGE", "CAUSE", "BECAUSE", "WHY"} {
			heads = append(heads, column{head: head})
		}
		return heads
	}
	return append(heads,
		column{head: "NAME"}, column{head: "QUEUE", spare: 1}, column{head: "PRIORITY", spare: 4}, column{head: "STATE"},
		column{head: "PODS", spare: 2}, column{head: "GPUS"}, column{head: "POSITION"}, column{head: "ETA"},
		column{head: "AGE", spare: 3}, column{head: "WHY", text: true},
	)
}

func (t jobsTable) row(w *answer.Workload) (row []string) {
	if t.all {
		row = append(row, w.Namespace)
	}
	row = append(row, w.Reference().Title())
	if t.wide {
		row = append(row, w.Name)
	}
	row = append(row, dash(w.Queue), fmt.Sprint(w.Priority), string(w.State), fmt.Sprintf("%d/%d", w.Pods.Running, w.Pods.Size))
	if t.wide {
		row = append(row, fmt.Sprint(w.Pods.Min))
	}
	position := ""
	if w.Position != nil {
		position = fmt.Sprint(w.Position.Place)
	}
	row = append(row, fmt.Sprint(w.GPUs), dash(position), etaOf(w, t.now))
	eta := w.ETA
	if eta == nil {
		eta = &answer.ETA{}
	}
	if t.wide {
		row = append(row, timeOf(eta.Earliest, t.now), timeOf(eta.Likely, t.now))
	}
	row = append(row, ageOf(w.CreationTimestamp.Time, t.now))
	if t.wide {
		row = append(row, dash(string(w.Cause)), dash(eta.Because))
	}
	return append(row, fate(w, t.now))
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func ageOf(created, now time.Time) string {
	if created.IsZero() {
		return "-"
	}
	return duration.HumanDuration(now.Sub(created))
}
