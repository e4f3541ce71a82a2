package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// holdOptions are of the verbs about one workload.
type holdOptions struct {
	reading
	space, output string
	dryRun, hold  bool
	streams       Streams
}

// holdable are the kinds whose word about holding counts for their pods.
var holdable = map[string]schema.GroupVersionResource{
	"pod":         {Version: "v1", Resource: "pods"},
	"job":         {Group: "batch", Version: "v1", Resource: "jobs"},
	"statefulset": {Group: "apps", Version: "v1", Resource: "statefulsets"},
	"deployment":  {Group: "apps", Version: "v1", Resource: "deployments"},
	"replicaset":  {Group: "apps", Version: "v1", Resource: "replicasets"},
}

// done is what a verb did to one object.
type done struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Action    string `json:"action"`
	DryRun    bool   `json:"dryRun,omitempty"`
}

func newCmdHold(s Streams) *cobra.Command {
	o := &holdOptions{streams: s}
	cmd := o.command("hold KIND/NAME", "Keep a workload from starting until it is released", `Keep a workload from starting until it is released: annotation `+v1alpha1.KeyHold+`=true on the pod, Job, StatefulSet, Deployment or
ReplicaSet. It keeps its place in line, has nobody evicted and is promised nothing; those behind it pass. What runs of it goes on.`,
		"  berth hold job/train\n  berth hold pod/debug -n research", func(ctx context.Context, w *workloadObject) ([]done, error) {
			return o.mark(ctx, w, true)
		})
	return cmd
}

func newCmdRelease(s Streams) *cobra.Command {
	o := &holdOptions{streams: s}
	cmd := o.command("release KIND/NAME", "Let a workload start that is held", `Take the hold of a workload away, and of its pods.`,
		"  berth release job/train", func(ctx context.Context, w *workloadObject) ([]done, error) {
			return o.mark(ctx, w, false)
		})
	return cmd
}

func newCmdRequeue(s Streams) *cobra.Command {
	o := &holdOptions{streams: s}
	cmd := o.command("requeue KIND/NAME", "Evict a workload that runs, so that it waits in its queue again", `Evict the pods of a workload, with your own rights and within PodDisruptionBudgets. Its controller makes them again, and they wait in
their queue. A pod that nobody makes again is not evicted. With --hold the workload is held first, and does not start until it is
released.`, "  berth requeue job/train --hold\n  berth release job/train", o.requeue)
	cmd.Flags().BoolVar(&o.hold, "hold", false, "hold it first")
	return cmd
}

// command is a verb about one workload.
func (o *holdOptions) command(use, short, long, example string, run func(context.Context, *workloadObject) ([]done, error)) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long, Example: example, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(o.output); err != nil {
				return err
			}
			kind, name, err := holdableNamed(args[0])
			if err != nil {
				return err
			}
			w, err := o.find(cmd.Context(), kind, name)
			if err != nil {
				return exitError{code: exitUnknown, err: err}
			}
			all, err := run(cmd.Context(), w)
			if printed := printDone(o.streams, o.output, all); err == nil {
				err = printed
			}
			return failed(err)
		},
		ValidArgsFunction: o.completeWorkloads(&o.space, o.askable),
	}
	o.connection.flags(cmd)
	f := cmd.Flags()
	f.StringVarP(&o.space, "namespace", "n", "", "namespace (default: the kubeconfig's)")
	f.BoolVar(&o.dryRun, "dry-run", false, "have the API server check it, and change nothing")
	f.StringVarP(&o.output, "output", "o", "table", "table, json, yaml or name")
	return cmd
}

// holdableNamed reads KIND/NAME.
func holdableNamed(arg string) (kind, name string, err error) {
	kind, name, ok := strings.Cut(strings.ToLower(arg), "/")
	if !ok || name == "" {
		return "", "", fmt.Errorf("%q: say which kind: job/%s, or another of %s", arg, strings.Trim(arg, "/"), strings.Join(sortedKinds(), ", "))
	}
	for short, long := range map[string]string{"po": "pod", "sts": "statefulset", "deploy": "deployment", "rs": "replicaset"} {
		if kind == short {
			kind = long
		}
	}
	if _, ok := holdable[strings.TrimSuffix(kind, "s")]; ok {
		kind = strings.TrimSuffix(kind, "s")
	}
	if _, ok := holdable[kind]; !ok {
		return "", "", fmt.Errorf("%q: Berth reads holds of %s; name those that it made", arg, strings.Join(sortedKinds(), ", "))
	}
	return kind, name, nil
}

func sortedKinds() (out []string) {
	for kind := range holdable {
		out = append(out, kind)
	}
	slices.Sort(out)
	return out
}

// workloadObject is one that a verb is about.
type workloadObject struct {
	kind, namespace, name string
	uid                   types.UID
	controlled            bool
	objects               dynamic.Interface
	client                kubernetes.Interface
}

func (o *holdOptions) find(ctx context.Context, kind, name string) (*workloadObject, error) {
	cfg, err := o.config()
	if err != nil {
		return nil, err
	}
	w := &workloadObject{kind: kind, name: name, namespace: o.space}
	if w.namespace == "" {
		w.namespace = o.namespace()
	}
	if w.objects, err = dynamic.NewForConfig(cfg); err != nil {
		return nil, err
	}
	if w.client, err = kubernetes.NewForConfig(cfg); err != nil {
		return nil, err
	}
	got, err := w.objects.Resource(holdable[kind]).Namespace(w.namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	w.uid, w.controlled = got.GetUID(), metav1.GetControllerOf(got) != nil
	return w, nil
}

// mark holds the workload, or releases it. Pods that say of themselves that they are held are released with it.
func (o *holdOptions) mark(ctx context.Context, w *workloadObject, held bool) (all []done, err error) {
	var value any
	action := "released"
	if held {
		value, action = "true", "held"
	}
	one, err := o.annotate(ctx, w, w.kind, w.name, value, action)
	if err != nil {
		return nil, err
	}
	all = append(all, one)
	if held || w.kind == "pod" {
		return all, nil
	}
	pods, err := w.pods(ctx)
	if err != nil {
		return all, err
	}
	for i := range pods {
		if pods[i].Annotations[v1alpha1.KeyHold] != "true" {
			continue
		}
		one, err := o.annotate(ctx, w, "pod", pods[i].Name, "false", action)
		if err != nil {
			return all, err
		}
		all = append(all, one)
	}
	return all, nil
}

func (o *holdOptions) annotate(ctx context.Context, w *workloadObject, kind, name string, value any, action string) (done, error) {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{v1alpha1.KeyHold: value}}})
	if err != nil {
		return done{}, err
	}
	_, err = w.objects.Resource(holdable[kind]).Namespace(w.namespace).Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{DryRun: dryRun(o.dryRun)})
	return done{Kind: kind, Namespace: w.namespace, Name: name, Action: action, DryRun: o.dryRun}, err
}

func dryRun(is bool) []string {
	if is {
		return []string{metav1.DryRunAll}
	}
	return nil
}

// pods are those of the workload, and of the ReplicaSets that a Deployment has.
func (w *workloadObject) pods(ctx context.Context) ([]corev1.Pod, error) {
	owners := map[types.UID]bool{w.uid: true}
	if w.kind == "deployment" {
		sets, err := w.client.AppsV1().ReplicaSets(w.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for i := range sets.Items {
			if by := metav1.GetControllerOf(&sets.Items[i]); by != nil && by.UID == w.uid {
				owners[sets.Items[i].UID] = true
			}
		}
	}
	list, err := w.client.CoreV1().Pods(w.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool {
		by := metav1.GetControllerOf(&p)
		return p.UID != w.uid && (by == nil || !owners[by.UID])
	}), nil
}

// requeue evicts what of the workload has a node.
func (o *holdOptions) requeue(ctx context.Context, w *workloadObject) (all []done, err error) {
	if w.kind == "pod" && !w.controlled {
		return nil, fmt.Errorf("pod/%s has no controller: nobody would make it again", w.name)
	}
	if o.hold {
		if w.kind == "pod" {
			return nil, errors.New("--hold: the pod that is made in its place would not be held; hold its controller")
		}
		if all, err = o.mark(ctx, w, true); err != nil {
			return all, err
		}
	}
	pods, err := w.pods(ctx)
	if err != nil {
		return all, err
	}
	running := slices.DeleteFunc(pods, func(p corev1.Pod) bool {
		return p.Spec.NodeName == "" || p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	})
	if len(running) == 0 {
		return all, fmt.Errorf("no pod of %s/%s has a node", w.kind, w.name)
	}
	for i := range running {
		p := &running[i]
		err := w.client.PolicyV1().Evictions(w.namespace).Evict(ctx, &policyv1.Eviction{
			ObjectMeta:    metav1.ObjectMeta{Namespace: w.namespace, Name: p.Name},
			DeleteOptions: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(p.UID)), DryRun: dryRun(o.dryRun)},
		})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return all, fmt.Errorf("evict pod %s: %w", p.Name, err)
		}
		all = append(all, done{Kind: "pod", Namespace: w.namespace, Name: p.Name, Action: "evicted", DryRun: o.dryRun})
	}
	return all, nil
}

// printDone prints what was done, also where not all could be.
func printDone(s Streams, output string, all []done) error {
	if all == nil {
		all = []done{}
	}
	if printed, err := printData(s.Out, all, output); printed {
		return err
	}
	for _, d := range all {
		line := d.Kind + "/" + d.Name
		if output != "name" {
			line += " " + d.Action
			if d.DryRun {
				line += " (dry run)"
			}
		}
		if _, err := fmt.Fprintln(s.Out, cell(line)); err != nil {
			return err
		}
	}
	return nil
}
