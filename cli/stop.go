package cli

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// stopOptions are of the verbs about queues.
type stopOptions struct {
	jobsOptions
	dryRun bool
}

func newCmdQueueClose(s Streams) *cobra.Command {
	return stopCommand(s, "close QUEUE...", "Stop queues from starting new work", `Stop queues, and those below them, from starting new work: spec.stopPolicy Hold. Running work keeps running, and gangs that lose a
member are repaired.`, "  berth queue close research", 1, "closed", map[string]any{"stopPolicy": v1alpha1.StopHold})
}

func newCmdQueueDrain(s Streams) *cobra.Command {
	return stopCommand(s, "drain QUEUE...", "Close queues, and evict what runs in them", `Close queues and those below them, and evict what runs there: spec.stopPolicy HoldAndDrain. The work gets the warning of its queue, and
waits in the queue until that is reopened. Pods that no controller would recreate stay.`, "  berth queue drain research --dry-run", 1, "drained", map[string]any{"stopPolicy": v1alpha1.StopDrain})
}

func newCmdQueueReopen(s Streams) *cobra.Command {
	return stopCommand(s, "reopen QUEUE...", "Allow queues to start work again", "Allow queues that were closed or drained to start work again.", "  berth queue reopen research", 1, "reopened", map[string]any{"stopPolicy": nil})
}

func newCmdFreeze(s Streams) *cobra.Command {
	return stopCommand(s, "freeze [QUEUE...]", "Stop all evictions", `Stop Berth from evicting anything: for quota, priority, maximum run time, bookings, moves or drains. Without queues this holds for the whole
cluster and for queues that are created later: annotation `+v1alpha1.KeyFreeze+`=true of namespace `+v1alpha1.SystemNamespace+`. With queues it holds for these
and those below them: spec.freezeEvictions. Evictions that were already sent are not undone.`, "  berth freeze\n  berth freeze research", 0, "frozen", map[string]any{"freezeEvictions": true})
}

func newCmdThaw(s Streams) *cobra.Command {
	return stopCommand(s, "thaw [QUEUE...]", "Allow evictions again", `Allow evictions again: in the queues or, without any, in the whole cluster and in every queue that is frozen. A queue below one that is
frozen stays frozen.`, "  berth thaw", 0, "thawed", map[string]any{"freezeEvictions": nil})
}

// stopCommand is a verb that sets fields of queues.
func stopCommand(s Streams, use, short, long, example string, least int, action string, spec map[string]any) *cobra.Command {
	o := &stopOptions{}
	o.streams = s
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long, Example: example, Args: cobra.MinimumNArgs(least),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(o.output); err != nil {
				return err
			}
			all, err := o.set(cmd.Context(), args, spec, action)
			if printed := printDone(o.streams, o.output, all); err == nil {
				err = printed
			}
			return failed(err)
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			names := slices.DeleteFunc(o.queueNames(cmd.Context()), func(line string) bool {
				name, _, _ := strings.Cut(line, "\t")
				return slices.Contains(args, name)
			})
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
	o.connection.flags(cmd)
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "have the API server check it, and change nothing")
	cmd.Flags().StringVarP(&o.output, "output", "o", "table", "table, json, yaml or name")
	return cmd
}

// set sets the fields of the queues; of none by name, it freezes the whole cluster, or thaws that and every queue that is frozen.
func (o *stopOptions) set(ctx context.Context, names []string, spec map[string]any, action string) (all []done, err error) {
	cfg, err := o.config()
	if err != nil {
		return nil, exitError{code: exitUnknown, err: err}
	}
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	queues := client.Resource(v1alpha1.GroupVersion.WithResource(v1alpha1.QueuePlural))
	if len(names) == 0 {
		if err := o.freezeAll(ctx, client, spec["freezeEvictions"]); err != nil {
			return nil, outOfReach(err)
		}
		all = append(all, done{Kind: "evictions", Action: action, DryRun: o.dryRun})
		if spec["freezeEvictions"] != nil {
			return all, nil
		}
		list, err := queues.List(ctx, metav1.ListOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return all, outOfReach(err)
		}
		names = frozen(list)
	}
	body, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if _, err := queues.Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{DryRun: dryRun(o.dryRun)}); err != nil {
			return all, outOfReach(err)
		}
		all = append(all, done{Kind: "berthqueue", Name: name, Action: action, DryRun: o.dryRun})
	}
	return all, nil
}

// freezeAll has nothing evicted in the whole cluster or, with nil, ends that.
func (o *stopOptions) freezeAll(ctx context.Context, client dynamic.Interface, value any) error {
	if value != nil {
		value = "true"
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{v1alpha1.KeyFreeze: value}}})
	if err != nil {
		return err
	}
	namespaces := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"})
	_, err = namespaces.Patch(ctx, v1alpha1.SystemNamespace, types.MergePatchType, body, metav1.PatchOptions{DryRun: dryRun(o.dryRun)})
	return err
}

// outOfReach is the error with the exit code of a cluster that did not answer, unless the API server said it.
func outOfReach(err error) error {
	var said apierrors.APIStatus
	if err == nil || errors.As(err, &said) {
		return err
	}
	return exitError{code: exitUnknown, err: err}
}

// frozen are the names of the queues that are frozen by their own word, sorted.
func frozen(list *unstructured.UnstructuredList) (names []string) {
	if list == nil {
		return nil
	}
	for i := range list.Items {
		if is, _, _ := unstructured.NestedBool(list.Items[i].Object, "spec", "freezeEvictions"); is {
			names = append(names, list.Items[i].GetName())
		}
	}
	slices.Sort(names)
	return names
}
