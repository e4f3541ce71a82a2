// Package dryrun has an API server admit manifests without keeping them: its defaults, validation, quotas, policies and
// webhooks are asked, with the caller's own rights, and nothing is changed. It says of each object who refused it, and what
// its pods look like once admitted. It decides nothing about them: diagnose/submit does. The CLI calls it for `berth check`.
package dryrun

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/berth-dev/berth/diagnose/submit"
	"github.com/berth-dev/berth/diagnose/submit/rule"
	"github.com/berth-dev/berth/diagnose/submit/workload"
)

// manager is who the API server is told that the fields are of. Nothing of it is kept.
const manager = "berth-check"

// Within is how long the API server has for each request, and atOnce how many it has at a time.
const (
	within = 10 * time.Second
	atOnce = 8
)

// asker asks one API server.
type asker struct {
	client    dynamic.Interface
	mapper    meta.RESTMapper
	namespace string
	given     []submit.Item

	mu   sync.Mutex
	said map[string]bool
}

// Admit returns the items with what the API server makes of them: Refused, or Admitted. said are sentences about what
// could not be asked. The error is of an API server that cannot be reached.
func Admit(ctx context.Context, cfg *rest.Config, namespace string, items []submit.Item) (out []submit.Item, said []string, err error) {
	cfg = rest.CopyConfig(cfg)
	cfg.Timeout, cfg.QPS, cfg.Burst = within, -1, 0
	cfg.WarningHandlerWithContext = warnings{}
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, nil, err
	}
	dc, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, nil, err
	}
	groups, err := restmapper.GetAPIGroupResources(dc)
	if err != nil && len(groups) == 0 {
		return nil, nil, fmt.Errorf("ask which kinds the API server has: %w", err)
	}
	a := &asker{client: client, mapper: restmapper.NewDiscoveryRESTMapper(groups), namespace: namespace, given: items, said: make(map[string]bool)}
	out = slices.Clone(items)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for i := range out {
		g.Go(func() error { return a.admit(ctx, &out[i]) })
	}
	if err := g.Wait(); err != nil {
		return nil, nil, err
	}
	for text := range a.said {
		said = append(said, text)
	}
	slices.Sort(said)
	return out, said, nil
}

func (a *asker) say(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.said[fmt.Sprintf(format, args...)] = true
}

// admit asks about an object, then about a pod of each of its templates.
func (a *asker) admit(ctx context.Context, item *submit.Item) error {
	u := (&unstructured.Unstructured{Object: item.Object}).DeepCopy()
	gvk := u.GroupVersionKind()
	mapping, err := a.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		if a.defines(gvk.Kind) {
			a.say("kind %s is defined by the manifests and not known yet: the API server was not asked about objects of it", gvk.Kind)
			return nil
		}
		item.Refused, item.RefusedBy = fmt.Sprintf("the cluster has no kind %s of %s", gvk.Kind, gvk.GroupVersion()), "validation"
		return nil
	}
	if err != nil {
		return fmt.Errorf("look up kind %s: %w", gvk.Kind, err)
	}
	where := dynamic.ResourceInterface(a.client.Resource(mapping.Resource))
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		if u.GetNamespace() == "" {
			u.SetNamespace(a.namespace)
		}
		where = a.client.Resource(mapping.Resource).Namespace(u.GetNamespace())
	}
	unstructured.RemoveNestedField(u.Object, "status")
	ctx, heard := listen(ctx)
	defer func() { item.Said.Warned = heard.all() }()
	got, err := submitTo(ctx, where, u)
	if err != nil {
		return a.refused(item, u.GetNamespace(), err)
	}
	item.Said.Altered = altered(u.Object, got.Object, "")
	if gvk.Group == "" && gvk.Kind == "Pod" {
		return a.keep(item, "", got)
	}
	return a.made(ctx, item, u.GetNamespace())
}

// submitTo applies the object in dry run, as kubectl apply --server-side would; one whose name the API server gives is
// created, as is one that the caller may create and not patch.
func submitTo(ctx context.Context, where dynamic.ResourceInterface, u *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	all := []string{metav1.DryRunAll}
	if u.GetName() != "" {
		b, err := u.MarshalJSON()
		if err != nil {
			return nil, err
		}
		force := true
		got, err := where.Patch(ctx, u.GetName(), types.ApplyPatchType, b, metav1.PatchOptions{DryRun: all, FieldManager: manager, Force: &force, FieldValidation: metav1.FieldValidationStrict})
		if err == nil || !byRights(err) {
			return got, err
		}
	}
	return where.Create(ctx, u, metav1.CreateOptions{DryRun: all, FieldManager: manager, FieldValidation: metav1.FieldValidationStrict})
}

// made asks for what controllers make of the object: the Jobs of a CronJob or a JobSet, about which policies and webhooks have a say
// of their own, and a pod of each template.
func (a *asker) made(ctx context.Context, item *submit.Item, namespace string) error {
	n := 0
	uid := func() types.UID { n++; return types.UID(fmt.Sprint(n)) }
	w, _, err := workload.Of(item.Object, workload.Options{Namespace: namespace, UID: uid})
	if err != nil || w == nil {
		return nil // submit says what is wrong with it
	}
	jobs := make(map[string]bool)
	for i := range w.Parts {
		p := &w.Parts[i]
		if len(p.Pods) == 0 || item.Admitted[p.Template] != nil {
			continue
		}
		if j, ok := p.Maker.(*batchv1.Job); ok && p.Above != nil && !jobs[p.Template] {
			jobs[p.Template] = true
			if err := a.job(ctx, item, namespace, p, j); err != nil || item.Refused != "" {
				return err
			}
		}
		if err := a.pod(ctx, item, namespace, p); err != nil || item.Refused != "" {
			return err
		}
	}
	return nil
}

// job asks for the Job of a part.
func (a *asker) job(ctx context.Context, item *submit.Item, namespace string, p *workload.Part, j *batchv1.Job) error {
	j = j.DeepCopy()
	j.ObjectMeta = metav1.ObjectMeta{Namespace: namespace, GenerateName: j.Name + "-", Labels: j.Labels, Annotations: j.Annotations}
	j.APIVersion, j.Kind, j.Status = batchv1.SchemeGroupVersion.String(), "Job", batchv1.JobStatus{}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(j)
	if err != nil {
		return err
	}
	where := a.client.Resource(batchv1.SchemeGroupVersion.WithResource("jobs")).Namespace(namespace)
	got, err := submitTo(ctx, where, &unstructured.Unstructured{Object: object})
	if err != nil {
		return a.refused(item, namespace, err)
	}
	// Of its own fields alone: those of the template are asked about with a pod, and what a queue suspends it lets in.
	sent, kept := object["spec"].(map[string]any), got.Object["spec"].(map[string]any)
	for _, key := range []string{"template", "suspend", "selector"} {
		delete(sent, key)
		delete(kept, key)
	}
	a.note(item, altered(sent, kept, strings.TrimSuffix(p.Template, "/template")))
	return nil
}

// pod asks for a pod of a part, as its controller would create it.
func (a *asker) pod(ctx context.Context, item *submit.Item, namespace string, p *workload.Part) error {
	pod := p.Pods[0].DeepCopy()
	pod.ObjectMeta = metav1.ObjectMeta{Namespace: namespace, GenerateName: pod.Name + "-", Labels: pod.Labels, Annotations: pod.Annotations}
	pod.APIVersion, pod.Kind, pod.Status = "v1", "Pod", corev1.PodStatus{}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
	if err != nil {
		return err
	}
	where := a.client.Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace(namespace)
	got, err := submitTo(ctx, where, &unstructured.Unstructured{Object: object})
	if err != nil && strings.Contains(err.Error(), "error looking up service account") {
		// All else is asked about with the account that every namespace has.
		missing := err
		spec := object["spec"].(map[string]any)
		delete(spec, "serviceAccount")
		spec["serviceAccountName"] = "default"
		got, err = submitTo(ctx, where, &unstructured.Unstructured{Object: object})
		if a.comes(item, missing.Error()) {
			a.say("service account %s comes with the manifests: policies were asked with service account default", pod.Spec.ServiceAccountName)
		} else if refused := a.refused(item, namespace, missing); refused != nil {
			return refused
		}
		if err == nil {
			delete(spec, "serviceAccountName")
			got.Object["spec"].(map[string]any)["serviceAccountName"] = pod.Spec.ServiceAccountName
		} else if item.Refused != "" {
			return nil
		}
	}
	if err != nil {
		return a.refused(item, namespace, err)
	}
	a.note(item, altered(map[string]any{"spec": object["spec"]}, got.Object, p.Template))
	return a.keep(item, p.Template, got)
}

// note adds fields that are not kept, but for those that are written nowhere in the file and those that are known.
func (a *asker) note(item *submit.Item, more []rule.Altered) {
	for _, m := range more {
		known := slices.ContainsFunc(item.Said.Altered, func(o rule.Altered) bool { return m.Path == o.Path || strings.HasPrefix(m.Path, o.Path+"/") })
		if !known && inTree(item.Object, m.Path) {
			item.Said.Altered = append(item.Said.Altered, m)
		}
	}
}

// keep notes a pod as admitted.
func (a *asker) keep(item *submit.Item, template string, got *unstructured.Unstructured) error {
	var pod corev1.Pod
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(got.Object, &pod); err != nil {
		return fmt.Errorf("read the pod that was admitted: %w", err)
	}
	if item.Admitted == nil {
		item.Admitted = make(map[string]*corev1.Pod)
	}
	item.Admitted[template] = &pod
	return nil
}

// refused notes why an object is not taken, or says why nobody knows whether it is. An API server that does not answer is an
// error.
func (a *asker) refused(item *submit.Item, namespace string, err error) error {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err) || apierrors.IsUnauthorized(err) {
		return err
	}
	text := status.Status().Message
	switch {
	case byRights(err):
		a.say("you may not create %s in namespace %s: defaults come from a table, and policies were not asked", kindOf(item), namespace)
	case strings.Contains(text, "does not support dry run"):
		a.say("%s", text)
	case a.comes(item, text):
		a.say("%s %s refers to what is in the manifests and not in the cluster yet: policies were not asked about it", kindOf(item), nameOf(item))
	default:
		item.Refused, item.RefusedBy = "the API server refuses it: "+text, by(err, text)
	}
	return nil
}

func kindOf(item *submit.Item) string {
	kind, _ := item.Object["kind"].(string)
	return kind
}

func nameOf(item *submit.Item) string {
	return (&unstructured.Unstructured{Object: item.Object}).GetName()
}

// byRights says whether the caller lacks a right: others may not.
func byRights(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), " cannot ") && strings.Contains(err.Error(), " resource ")
}

// by is who refuses.
func by(err error, text string) string {
	switch {
	case strings.Contains(text, "exceeded quota") || strings.Contains(text, "failed quota"):
		return "quota"
	case strings.Contains(text, "admission webhook"):
		return "webhook"
	case strings.Contains(text, "ValidatingAdmissionPolicy") || strings.Contains(text, "PodSecurity"):
		return "policy"
	case apierrors.IsInvalid(err) || apierrors.IsBadRequest(err):
		return "validation"
	}
	return "admission"
}

// comes says whether a refusal is about something that another manifest brings: a namespace, a class, an account.
func (a *asker) comes(item *submit.Item, text string) bool {
	if !strings.Contains(text, "not found") && !strings.Contains(text, "no PriorityClass") && !strings.Contains(text, "error looking up") {
		return false
	}
	for i := range a.given {
		o := &a.given[i]
		switch kindOf(o) {
		case "Namespace", "ServiceAccount", "PriorityClass", "RuntimeClass":
			if name := nameOf(o); name != "" && (strings.Contains(text, `"`+name+`"`) || strings.HasSuffix(text, " "+name) || strings.Contains(text, " "+name+" ") || strings.Contains(text, "/"+name+":")) {
				return true
			}
		}
	}
	return false
}

// defines says whether a manifest is the definition of the kind.
func (a *asker) defines(kind string) bool {
	for i := range a.given {
		if kindOf(&a.given[i]) != "CustomResourceDefinition" {
			continue
		}
		if k, _, _ := unstructured.NestedString(a.given[i].Object, "spec", "names", "kind"); k == kind {
			return true
		}
	}
	return false
}
