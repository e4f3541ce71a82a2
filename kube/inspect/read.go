package inspect

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/kube/dialect/kubescheduler"
)

// pageSize is how many objects one answer has at most, so that no answer is a burden for the API server.
const pageSize = 500

// read returns the objects of one kind, or why there are none.
func (c *cluster) read(ctx context.Context, o Options, k *facts.KindInfo, served func() served) answer {
	r := reader{c, k, served, o.Patience}
	objects, except, err := r.widest(ctx, o.Namespace)
	switch {
	case err == nil && except == "":
		return answer{objects: objects}
	case errors.As(err, new(errCut)):
		return answer{objects: objects, unseen: []facts.Unseen{{Resource: k.Name(), Reason: reason(err)}}}
	case err == nil:
		return answer{objects: objects, unseen: []facts.Unseen{{Resource: k.Name(), Except: except, Reason: forbidden}}}
	case ctx.Err() != nil:
		err = errLate
	}
	unseen := facts.Unseen{Resource: k.Name(), Reason: reason(err)}
	if k.Resource == "configmaps" {
		unseen.Namespace = autoscalerNamespace
	}
	return answer{unseen: []facts.Unseen{unseen}, err: err}
}

// reader reads one kind.
type reader struct {
	*cluster
	*facts.KindInfo
	served   func() served
	patience time.Duration // with one answer
}

// widest reads the kind in the whole cluster or, where that is forbidden, in the one namespace; except is then that
// namespace.
func (r reader) widest(ctx context.Context, namespace string) (objects []facts.Object, except string, err error) {
	if r.Resource == "configmaps" {
		objects, err = r.one(ctx, autoscalerNamespace, autoscalerConfigMap)
		return objects, "", err
	}
	objects, err = r.all(ctx, "")
	if !apierrors.IsForbidden(err) || namespace == "" {
		return objects, "", err
	}
	var narrow []facts.Object
	switch {
	case r.Namespaced:
		narrow, err = r.all(ctx, namespace)
	case r.Resource == "namespaces":
		narrow, err = r.one(ctx, "", namespace)
	}
	return narrow, namespace, err
}

// all reads the kind page by page. If the list went stale between two pages it is read again, in one piece.
func (r reader) all(ctx context.Context, namespace string) ([]facts.Object, error) {
	objects, err := r.pages(ctx, namespace, pageSize)
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		objects, err = r.pages(ctx, namespace, 0)
	}
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil, r.unserved(err)
	}
	return objects, err
}

// unserved is why the kind cannot be read, given what the API server said when asked: nil if nobody serves it. Who has
// no rights is refused before it is known whether there is such a kind.
func (r reader) unserved(said error) error {
	s := r.served()
	v, err := s.version(r.KindInfo)
	switch {
	case err != nil && apierrors.IsNotFound(said):
		return err
	case err != nil:
		return said
	case v == "":
		return nil
	case v != r.Version && !r.Foreign:
		return fmt.Errorf("served as %s, and only %s can be read", v, r.Version)
	}
	return said
}

func (r reader) pages(ctx context.Context, namespace string, size int64) ([]facts.Object, error) {
	o := metav1.ListOptions{Limit: size}
	if r.Resource == "leases" && namespace == "" {
		o.FieldSelector = "metadata.namespace!=" + corev1.NamespaceNodeLease // one for every node, and nothing in it
	}
	var out []facts.Object
	for {
		list, err := r.page(ctx, namespace, o)
		if err != nil && len(out) > 0 && facts.KindOf(r.Group, r.Kind) == nil { // beside the table, some are better than none
			return out, errCut{len(out)}
		}
		if list == nil || err != nil {
			return nil, err
		}
		if err := meta.EachListItem(list, func(item runtime.Object) error {
			object := item.(facts.Object)
			trim(object)
			out = append(out, object)
			return nil
		}); err != nil {
			return nil, err
		}
		at, err := meta.ListAccessor(list)
		if err != nil {
			return nil, err
		}
		if o.Continue = at.GetContinue(); o.Continue == "" {
			return out, nil
		}
	}
}

// page asks for one page; nil: the cluster does not serve the kind.
func (r reader) page(ctx context.Context, namespace string, o metav1.ListOptions) (runtime.Object, error) {
	if r.Foreign {
		return r.foreignPage(ctx, namespace, o)
	}
	ctx, stop := context.WithTimeout(ctx, r.patience)
	defer stop()
	list, err := scheme.Scheme.New(r.GroupVersion().WithKind(r.Kind + "List"))
	if err != nil {
		return nil, err
	}
	err = r.typed[r.GroupVersion()].Get().NamespaceIfScoped(namespace, namespace != "").Resource(r.Resource).
		VersionedParams(&o, scheme.ParameterCodec).Do(ctx).Into(list)
	return list, err
}

func (r reader) foreignPage(ctx context.Context, namespace string, o metav1.ListOptions) (runtime.Object, error) {
	s := r.served()
	v, err := s.version(r.KindInfo)
	if v == "" || err != nil {
		return nil, err
	}
	ctx, stop := context.WithTimeout(ctx, r.patience)
	defer stop()
	list, err := r.dynamic.Resource(schema.GroupVersionResource{Group: r.Group, Version: v, Resource: r.Resource}).Namespace(namespace).List(ctx, o)
	if err != nil {
		return nil, err
	}
	return list, nil
}

// The cluster-autoscaler says what it does in a ConfigMap. Beside it only those are looked at that schedulers mount.
const (
	autoscalerNamespace = metav1.NamespaceSystem
	autoscalerConfigMap = "cluster-autoscaler-status"
)

// mostConfigs bounds the ConfigMaps of schedulers that are read.
const mostConfigs = 16

// readSchedulerConfigs adds the configurations that schedulers mount: which schedulerNames they serve is in there. Whoever may not
// read them is not told, as nothing is assumed of a scheduler whose configuration is not known.
func (c *cluster) readSchedulerConfigs(ctx context.Context, o Options, f *facts.Facts) {
	k := facts.KindOf("", "ConfigMap")
	r := reader{cluster: c, KindInfo: k, patience: o.Patience}
	names := f.SchedulerConfigs()
	for _, at := range names[:min(len(names), mostConfigs)] {
		objects, err := r.one(ctx, at.Namespace, at.Name)
		if err != nil {
			continue
		}
		for _, object := range objects {
			m := object.(*corev1.ConfigMap)
			maps.DeleteFunc(m.Data, func(_, file string) bool { _, ok := kubescheduler.Profiles(file); return !ok })
			m.BinaryData = nil
			k.Add(&f.Objects, m)
		}
	}
}

// one reads a single object, if it exists, of a kind that is not foreign.
func (r reader) one(ctx context.Context, namespace, name string) ([]facts.Object, error) {
	ctx, stop := context.WithTimeout(ctx, r.patience)
	defer stop()
	object := r.New()
	err := r.typed[r.GroupVersion()].Get().NamespaceIfScoped(namespace, namespace != "").Resource(r.Resource).
		Name(name).Do(ctx).Into(object)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	trim(object)
	return []facts.Object{object}, nil
}

// mostApplied bounds the copy of an object that `kubectl apply` leaves in it, in bytes.
const mostApplied = 16 << 10

// trim drops what nobody reads and is often the largest part. What was last applied stays where it says how the object was
// before: not in what controllers made, and not where it is large. Bundles never have it.
func trim(o facts.Object) {
	o.SetManagedFields(nil)
	a := o.GetAnnotations()
	if text, ok := a[corev1.LastAppliedConfigAnnotation]; ok && (len(text) > mostApplied || metav1.GetControllerOfNoCopy(o) != nil) {
		delete(a, corev1.LastAppliedConfigAnnotation)
		o.SetAnnotations(a)
	}
}
