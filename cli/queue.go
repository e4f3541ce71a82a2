package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/berth-dev/berth/engine/why"
	"github.com/berth-dev/berth/kube/answer"
)

func newCmdQueue(s Streams) *cobra.Command {
	o := &jobsOptions{streams: s}
	cmd := &cobra.Command{
		Use:   "queue [NAME]",
		Short: "Show queues: their limits, what they use and what waits in them",
		Long: `Show the queues: their limits, what their workloads hold, and how many wait. With a name, also the
queue's line. Who may not see all queues is shown those that the namespace may use.`,
		Example: `  berth queue
  berth queue research
  berth queue --from evidence.tar.zst`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.what = strings.Join(args, "")
			if err := checkOutput(o.output); err != nil {
				return err
			}
			return queueRun(cmd.Context(), o)
		},
	}
	o.reading.flags(cmd)
	o.askFlags(cmd)
	return cmd
}

func queueRun(ctx context.Context, o *jobsOptions) error {
	a, err := o.asker()
	if err != nil {
		return exitError{code: exitUnknown, err: err}
	}
	if o.space == "" && !o.all {
		o.space = o.namespace()
	}
	if o.what != "" {
		return o.oneQueue(ctx, a)
	}
	var list answer.QueueList
	err = o.askQueues(ctx, a, &list, "queues")
	if why := silence(""); errors.As(err, &why) {
		fmt.Fprintf(o.streams.Err, "%s\nBelow is what the queues themselves say.\n", why)
		list, err = a.written(ctx)
	}
	if err != nil {
		return exitError{code: exitUnknown, err: err}
	}
	if done, err := printData(o.streams.Out, list, o.output); done {
		return failed(err)
	}
	if len(list.Items) == 0 && o.output != "name" {
		fmt.Fprintln(o.streams.Err, "There are no queues: workloads that name none are not limited.")
		return nil
	}
	return failed(printQueues(o.streams.Out, list.Items, o.output == "name"))
}

// askQueues asks for all, or else for those that the namespace may use.
func (o *jobsOptions) askQueues(ctx context.Context, a asker, value any, path ...string) error {
	err := a.get(ctx, value, nil, path...)
	if apierrors.IsForbidden(err) && !o.all {
		return a.get(ctx, value, nil, append([]string{"namespaces", o.space}, path...)...)
	}
	return err
}

func (o *jobsOptions) oneQueue(ctx context.Context, a asker) error {
	var q answer.Queue
	err := o.askQueues(ctx, a, &q, "queues", o.what)
	if apierrors.IsNotFound(err) {
		err = fmt.Errorf("there is no queue %q: `berth queue` lists them", o.what)
	}
	if err != nil {
		return exitError{code: exitUnknown, err: err}
	}
	if done, err := printData(o.streams.Out, q, o.output); done {
		return failed(err)
	}
	if err := printQueues(o.streams.Out, []answer.Queue{q}, o.output == "name"); err != nil || o.output == "name" {
		return failed(err)
	}
	return failed(o.lineOf(ctx, a, q.Name))
}

// lineOf prints the queue's workloads: of all namespaces where the caller may see them, else of theirs.
func (o *jobsOptions) lineOf(ctx context.Context, a asker, queue string) error {
	var list answer.WorkloadList
	err := a.get(ctx, &list, nil, "workloads")
	if apierrors.IsForbidden(err) && !o.all {
		err = a.get(ctx, &list, nil, "namespaces", o.space, "workloads")
	}
	if err != nil {
		return err
	}
	var items []answer.Workload
	for _, w := range list.Items {
		if w.Queue == queue {
			items = append(items, w)
		}
	}
	if len(items) == 0 {
		return nil
	}
	fmt.Fprintln(o.streams.Out)
	return printJobs(o.streams.Out, items, jobsTable{all: true, wide: o.output == "wide", columns: width(o.streams.Out), now: o.now()})
}

func printQueues(out io.Writer, items []answer.Queue, names bool) error {
	w := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0)
	if !names {
		fmt.Fprintln(w, "NAME\tLIMIT\tUSED\tRUNNING\tWAITING\tWAITING-GPUS")
	}
	for i := range items {
		q := &items[i]
		if names {
			fmt.Fprintln(w, q.Name)
			continue
		}
		limit := dash(strings.Join(why.Amounts(q.Limits), ", "))
		if q.Missing {
			limit = "does not exist"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%d\n", q.Name, limit, dash(strings.Join(why.Amounts(q.Used), ", ")), q.Running.Workloads, q.Waiting.Workloads, q.Waiting.GPUs)
	}
	return w.Flush()
}
