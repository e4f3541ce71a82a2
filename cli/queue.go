package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/berth-dev/berth/kube/answer"
)

func newCmdQueue(s Streams) *cobra.Command {
	o := &jobsOptions{streams: s}
	cmd := &cobra.Command{
		Use:   "queue [NAME]",
		Short: "Show queues: quota, usage, what is borrowed and lent, and pending workloads",
		Long: `Show the tree of queues. The table is about GPUs; -o wide has all resources, limits and weights.

  QUOTA      what the queue is guaranteed: its workloads reclaim it from borrowers
  USED       what its workloads hold, and those of the queues below it
  BORROWED   what it uses beyond its quota, until the owners reclaim it
  LENT       what others use of its quota
  WAITING    pending workloads
  SHARE      its current fair share: its quota, and its part of the rest
  GPU-HOURS  used since it was first seen
  BUDGET     hours used of those that it may use in a period

With a name, show that queue and those below it, how its share comes about, and its line. Who may not see all queues
is shown those that the namespace may use.`,
		Example: `  berth queue
  berth queue research
  berth queue -o wide
  berth queue close research
  berth queue --from evidence.tar.zst`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.what = strings.Join(args, "")
			if err := checkOutput(o.output); err != nil {
				return err
			}
			return queueRun(cmd.Context(), o)
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return o.queueNames(cmd.Context()), cobra.ShellCompDirectiveNoFileComp
		},
	}
	o.reading.flags(cmd)
	o.askFlags(cmd)
	cmd.AddCommand(newCmdQueueClose(s), newCmdQueueDrain(s), newCmdQueueReopen(s))
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
	list, _, err := o.listQueues(ctx, a)
	if err != nil {
		return exitError{code: exitUnknown, err: err}
	}
	if done, err := printData(o.streams.Out, list, o.output); done {
		return failed(err)
	}
	if len(list.Items) == 0 && o.output != "name" {
		fmt.Fprintln(o.streams.Err, o.asked()+"There are no queues: workloads that name none are not limited.")
		return nil
	}
	return failed(o.printQueues(list.Items))
}

// listQueues asks the scheduler, or else reads what the queues themselves say; told is true of a scheduler's answer.
func (o *jobsOptions) listQueues(ctx context.Context, a asker) (list answer.QueueList, told bool, err error) {
	err = o.askQueues(ctx, a, &list, "queues")
	if why := silence(""); errors.As(err, &why) {
		fmt.Fprintf(o.streams.Err, "%s\nBelow is what the queues themselves say.\n", why)
		list, err = a.written(ctx)
		return list, false, err
	}
	return list, true, err
}

// askQueues asks for all, or else for those that the namespace may use.
func (o *jobsOptions) askQueues(ctx context.Context, a asker, value any, path ...string) error {
	err := a.get(ctx, value, nil, path...)
	if apierrors.IsForbidden(err) && !o.all {
		return a.get(ctx, value, nil, append([]string{"namespaces", o.space}, path...)...)
	}
	return err
}

// queueNames are those to complete; none where they cannot be read.
func (o *jobsOptions) queueNames(ctx context.Context) (names []string) {
	a, err := o.asker()
	if err != nil {
		return nil
	}
	if o.space == "" {
		o.space = o.namespace()
	}
	var list answer.QueueList
	if o.askQueues(ctx, a, &list, "queues") != nil {
		list, _ = a.written(ctx)
	}
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names
}

// oneQueue shows a queue with those below it.
func (o *jobsOptions) oneQueue(ctx context.Context, a asker) error {
	list, told, err := o.listQueues(ctx, a)
	if err != nil {
		return exitError{code: exitUnknown, err: err}
	}
	i := slices.IndexFunc(list.Items, func(q answer.Queue) bool { return q.Name == o.what })
	if i < 0 {
		return exitError{code: exitUnknown, err: fmt.Errorf("there is no queue %q: `berth queue` lists them", o.what)}
	}
	q := &list.Items[i]
	if done, err := printData(o.streams.Out, q, o.output); done {
		return failed(err)
	}
	part := subtree(list.Items, q.Name)
	if err := o.printQueues(part); err != nil || o.output == "name" {
		return failed(err)
	}
	if words := queueWords(q, list.Items); len(words) > 0 {
		fmt.Fprintf(o.streams.Out, "\n%s\n", strings.Join(words, "\n"))
	}
	if !told {
		return nil
	}
	return failed(o.lineOf(ctx, a, part))
}

// lineOf prints the queues' workloads: of all namespaces where the caller may see them, else of theirs.
func (o *jobsOptions) lineOf(ctx context.Context, a asker, queues []answer.Queue) error {
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
		if slices.ContainsFunc(queues, func(q answer.Queue) bool { return q.Name == w.Queue }) {
			items = append(items, w)
		}
	}
	if len(items) == 0 {
		return nil
	}
	fmt.Fprintln(o.streams.Out)
	return printJobs(o.streams.Out, items, jobsTable{all: true, wide: o.output == "wide", columns: o.columns(), now: o.now()})
}

func (o *jobsOptions) printQueues(items []answer.Queue) error {
	if o.output == "name" {
		for i := range items {
			fmt.Fprintln(o.streams.Out, items[i].Name)
		}
		return nil
	}
	fmt.Fprint(o.streams.Out, o.asked())
	return printQueues(o.streams.Out, items, queueTable{wide: o.output == "wide", columns: o.columns()})
}
