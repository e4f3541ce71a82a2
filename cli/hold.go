package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/kube/convert"
)

// holdOptions are of the verbs about one workload.
type holdOptions struct {
	reading
	space, output string
	dryRun, hold  bool
	streams       Streams
}

// holdable is a kind whose word about holding counts for its pods: one that owns pods, or the pod itself.
type holdable struct {
	convert.OwnerKind
	resource schema.GroupVersionResource
}

var podKind = convert.OwnerKind{Kind: "Pod", Plural: "pods", Short: []string{"po"}, Typed: true}

// title is how kubectl names the kind: with its group where that is not Kubernetes' own.
func title(k convert.OwnerKind) string {
	if strings.Contains(k.Group, ".") {
		return strings.ToLower(k.Kind) + "." + k.Group
	}
	return strings.ToLower(k.Kind)
}

// done is what a verb did to one object.
type done struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"` // "": all of them
	Action    string `json:"action"`
	DryRun    bool   `json:"dryRun,omitempty"`
}

func newCmdHold(s Streams) *cobra.Command {
	o := &holdOptions{streams: s}
	cmd := o.command("hold KIND/NAME", "Keep a workload from starting until it is released", `Keep a workload from starting until it is released: annotation `+v1alpha1.KeyHold+` on the pod, or on what owns its pods (Job, Deployment,
StatefulSet, JobSet, RayCluster, PyTorchJob and so on). The workload keeps its position, has no other workload evicted and is promised
no start; workloads behind it may overtake it. Its running pods keep running. If you may hold the workloads of the namespace (verb hold,
group berth.dev), you hold it as an operator, and tenants cannot release it.`,
		"  berth hold job/train\n  berth hold jobset/llm -n research", func(ctx context.Context, w *workloadObject) ([]done, error) {
			return o.mark(ctx, w, true)
		})
	return cmd
}

func newCmdRelease(s Streams) *cobra.Command {
	o := &holdOptions{streams: s}
	cmd := o.command("release KIND/NAME", "Allow a held workload to start", `Remove the hold from a workload and from its pods.`,
		"  berth release job/train", func(ctx context.Context, w *workloadObject) ([]done, error) {
			return o.mark(ctx, w, false)
		})
	return cmd
}

func newCmdRequeue(s Streams) *cobra.Command {
	o := &holdOptions{streams: s}
	cmd := o.command("requeue KIND/NAME", "Evict a running workload, so that it waits in its queue again", `Evict the pods of a workload, with your own rights and within PodDisruptionBudgets. Its controller recreates them, and they wait in
their queue. A pod that no controller recreates is not evicted. With --hold the workload is held first, and does not start until it is
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
			kinds, name, err := holdableNamed(args[0])
			if err != nil {
				return err
			}
			w, err := o.find(cmd.Context(), kinds, name)
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

// holdableNamed reads KIND/NAME. Kinds of several groups may have the name; the first that is served is meant.
func holdableNamed(arg string) (kinds []convert.OwnerKind, name string, err error) {
	word, name, ok := strings.Cut(strings.ToLower(arg), "/")
	if !ok || name == "" {
		return nil, "", fmt.Errorf("%q: say which kind: job/%s, or another of %s", arg, strings.Trim(arg, "/"), strings.Join(kindTitles(), ", "))
	}
	for _, k := range append([]convert.OwnerKind{podKind}, convert.OwnerKinds()...) {
		if k.Named(word) {
			kinds = append(kinds, k)
		}
	}
	if len(kinds) == 0 {
		return nil, "", fmt.Errorf("%q: Berth reads holds of %s; name those that it made", arg, strings.Join(kindTitles(), ", "))
	}
	return kinds, name, nil
}

func kindTitles() []string {
	out := []string{title(podKind)}
	for _, k := range convert.OwnerKinds() {
		out = append(out, title(k))
	}
	slices.Sort(out)
	return out
}

// workloadObject is one that a verb is about.
type workloadObject struct {
	kind            holdable
	namespace, name string
	uid             types.UID
	by              *metav1.OwnerReference // its controller
	objects         dynamic.Interface
	client          kubernetes.Interface
}

func (o *holdOptions) find(ctx context.Context, kinds []convert.OwnerKind, name string) (*workloadObject, error) {
	cfg, err := o.config()
	if err != nil {
		return nil, err
	}
	w := &workloadObject{name: name, namespace: o.space}
	if w.namespace == "" {
		w.namespace = o.namespace()
	}
	if w.objects, err = dynamic.NewForConfig(cfg); err != nil {
		return nil, err
	}
	if w.client, err = kubernetes.NewForConfig(cfg); err != nil {
		return nil, err
	}
	if w.kind, err = w.served(kinds); err != nil {
		return nil, err
	}
	got, err := w.objects.Resource(w.kind.resource).Namespace(w.namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	w.uid, w.by = got.GetUID(), metav1.GetControllerOf(got)
	return w, nil
}

// served is the first of the kinds that the API server has.
func (w *workloadObject) served(kinds []convert.OwnerKind) (holdable, error) {
	for _, k := range kinds {
		if k.Typed {
			return holdable{k, schema.GroupVersionResource{Group: k.Group, Version: "v1", Resource: k.Plural}}, nil
		}
	}
	groups, err := w.client.Discovery().ServerGroups()
	if err != nil {
		return holdable{}, err
	}
	for _, k := range kinds {
		for _, g := range groups.Groups {
			for _, v := range g.Versions {
				if g.Name != k.Group {
					continue
				}
				list, err := w.client.Discovery().ServerResourcesForGroupVersion(v.GroupVersion)
				if err != nil && !apierrors.IsNotFound(err) {
					return holdable{}, err
				}
				if err == nil && slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == k.Plural }) {
					return holdable{k, schema.GroupVersionResource{Group: g.Name, Version: v.Version, Resource: k.Plural}}, nil
				}
			}
		}
	}
	return holdable{}, fmt.Errorf("this cluster has no %s", title(kinds[0]))
}

// mark holds the workload, or releases it. What of it says itself that it is held is released with it: pods, and the ReplicaSets
// that have a Deployment's annotations.
func (o *holdOptions) mark(ctx context.Context, w *workloadObject, held bool) (all []done, err error) {
	if w.by != nil && w.by.Kind == "Deployment" {
		return nil, fmt.Errorf("%s/%s is of deployment/%s, whose word counts: name that", title(w.kind.OwnerKind), w.name, w.by.Name)
	}
	var value any
	action := "released"
	if held {
		if value, err = w.holdsAs(ctx); err != nil {
			return nil, err
		}
		action = "held"
	}
	one, err := o.annotate(ctx, w, w.kind, w.name, value, action)
	if err != nil {
		return nil, err
	}
	all = append(all, one)
	if held || w.kind.Kind == "Pod" {
		return all, nil
	}
	below, err := w.below(ctx)
	if err != nil {
		return all, err
	}
	for _, b := range below {
		if v := b.GetAnnotations()[v1alpha1.KeyHold]; v != "true" && v != v1alpha1.HoldByOperator {
			continue
		}
		one, err := o.annotate(ctx, w, b.kind, b.GetName(), nil, action)
		if err != nil {
			return all, err
		}
		all = append(all, one)
	}
	return all, nil
}

// holdsAs is what the caller's hold is: an operator's, for those who may hold workloads of the namespace.
func (w *workloadObject) holdsAs(ctx context.Context) (string, error) {
	review, err := w.client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: w.namespace, Verb: "hold", Group: v1alpha1.GroupVersion.Group, Resource: "workloads",
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	if review.Status.Allowed {
		return v1alpha1.HoldByOperator, nil
	}
	return "true", nil
}

func (o *holdOptions) annotate(ctx context.Context, w *workloadObject, kind holdable, name string, value any, action string) (done, error) {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{v1alpha1.KeyHold: value}}})
	if err != nil {
		return done{}, err
	}
	_, err = w.objects.Resource(kind.resource).Namespace(w.namespace).Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{DryRun: dryRun(o.dryRun)})
	return done{Kind: title(kind.OwnerKind), Namespace: w.namespace, Name: name, Action: action, DryRun: o.dryRun}, err
}

func dryRun(is bool) []string {
	if is {
		return []string{metav1.DryRunAll}
	}
	return nil
}

// ownedObject is an object below a workload.
type ownedObject struct {
	metav1.Object
	kind holdable
}

// owned are the kinds that other kinds than pods make, each read after those that make it.
var owned = []schema.GroupVersionResource{
	{Group: "jobset.x-k8s.io", Version: "v1alpha2", Resource: "jobsets"},
	{Group: "ray.io", Version: "v1", Resource: "rayclusters"},
	{Group: "batch", Version: "v1", Resource: "jobs"},
	{Group: "apps", Version: "v1", Resource: "replicasets"},
	{Group: "apps", Version: "v1", Resource: "statefulsets"},
}

// below is what the workload has made, and what that has made, down to the pods. Kinds that the cluster does not have, or the
// caller may not list, have none.
func (w *workloadObject) below(ctx context.Context) (out []ownedObject, err error) {
	owners := map[types.UID]bool{w.uid: true}
	mine := func(o metav1.Object) bool {
		by := metav1.GetControllerOf(o)
		return by != nil && owners[by.UID]
	}
	if w.kind.Kind != "Pod" {
		for _, resource := range owned {
			list, err := w.objects.Resource(resource).Namespace(w.namespace).List(ctx, metav1.ListOptions{})
			if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
				continue
			}
			if err != nil {
				return nil, err
			}
			for i := range list.Items {
				if o := &list.Items[i]; mine(o) {
					owners[o.GetUID()] = true
					out = append(out, ownedObject{o, holdable{convert.OwnerKind{Group: resource.Group, Kind: o.GetKind(), Plural: resource.Resource}, resource}})
				}
			}
		}
	}
	pods, err := w.client.CoreV1().Pods(w.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range pods.Items {
		if p := &pods.Items[i]; p.UID == w.uid || mine(p) {
			out = append(out, ownedObject{p, holdable{podKind, schema.GroupVersionResource{Version: "v1", Resource: "pods"}}})
		}
	}
	return out, nil
}

// pods are those of the workload.
func (w *workloadObject) pods(ctx context.Context) (out []*corev1.Pod, err error) {
	below, err := w.below(ctx)
	for _, b := range below {
		if p, ok := b.Object.(*corev1.Pod); ok {
			out = append(out, p)
		}
	}
	return out, err
}

// requeue evicts what of the workload has a node.
func (o *holdOptions) requeue(ctx context.Context, w *workloadObject) (all []done, err error) {
	if w.kind.Kind == "Pod" && w.by == nil {
		return nil, fmt.Errorf("pod/%s has no controller: nobody would make it again", w.name)
	}
	if o.hold {
		if w.kind.Kind == "Pod" {
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
	running := slices.DeleteFunc(pods, func(p *corev1.Pod) bool {
		return p.Spec.NodeName == "" || p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	})
	if len(running) == 0 {
		return all, fmt.Errorf("no pod of %s/%s has a node", title(w.kind.OwnerKind), w.name)
	}
	for _, p := range running {
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
		line := strings.TrimSuffix(d.Kind+"/"+d.Name, "/")
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
