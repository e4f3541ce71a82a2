package main

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/berth-dev/berth/api/v1alpha1"
)

//go:embed cell.yaml
var cellObjects []byte

// cell is a namespace with healthy workloads and all that they need, of which no other cell uses anything but the GPU stack.
type cell struct {
	*cluster
	name    string
	objects []object // as made, before anything was broken; workloads last
}

// object is a live object of a cell.
type object struct {
	kind kind
	body map[string]any
}

func (o object) name() string { return (&unstructured.Unstructured{Object: o.body}).GetName() }
func (o object) space() string {
	return (&unstructured.Unstructured{Object: o.body}).GetNamespace()
}
func (o object) String() string { return strings.ToLower(o.kind.name) + "/" + o.name() }

// workloads are the kinds that `berth why` is asked about.
var workloads = []string{"Deployment", "Job", "StatefulSet", "Pod"}

func (o object) works() bool { return slices.Contains(workloads, o.kind.name) }

func newCell(ctx context.Context, c *cluster, name string) (*cell, error) {
	x := &cell{cluster: c, name: name}
	text := bytes.ReplaceAll(cellObjects, []byte("CELL"), []byte(name))
	d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		var u unstructured.Unstructured
		if err := d.Decode(&u.Object); err != nil {
			break
		}
		if u.Object == nil {
			continue
		}
		k, err := c.kindOf(&u)
		if err != nil {
			return nil, err
		}
		u.Object = clone(u.Object)
		if err := c.create(ctx, k, u.Object); err != nil {
			return nil, fmt.Errorf("create %s %s: %w", k.name, u.GetName(), err)
		}
		x.objects = append(x.objects, object{k, u.Object})
	}
	if err := x.recover(ctx, time.Minute); err != nil {
		return nil, err
	}
	return x, x.remember(ctx)
}

// recover waits until all workloads run.
func (x *cell) recover(ctx context.Context, within time.Duration) error {
	var ill string
	if err := until(ctx, within, func() bool {
		seen, err := x.look(ctx)
		if err != nil {
			return false
		}
		ill = seen.ill()
		return ill == ""
	}); err != nil {
		return fmt.Errorf("%s is not healthy after %v: %s", x.name, within, ill)
	}
	return nil
}

// remember reads the objects as the API server has completed them.
func (x *cell) remember(ctx context.Context) error {
	for i, o := range x.objects {
		u, err := x.of(o.kind, o.space()).Get(ctx, o.name(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		x.objects[i].body = clone(u.Object)
	}
	return nil
}

// written are kinds that controllers and kubelets write continuously, or that give rights and not work.
var written = []string{"Event", "Lease", "Endpoints", "EndpointSlice", "IPAddress", "CSINode", "ControllerRevision", "ResourceSlice", "CustomResourceDefinition", "APIService", "CertificateSigningRequest", "FlowSchema", "PriorityLevelConfiguration", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ServiceCIDR"}

// bearing lists the live objects that bear on the cell's workloads: all of its namespace, all without a namespace that
// name the cell, and the GPU stack's. Those with a controller are left out: it writes them anew.
func (x *cell) bearing(ctx context.Context) (out []object, err error) {
	for _, k := range x.kinds {
		if slices.Contains(written, k.name) {
			continue
		}
		spaces := []string{""}
		if k.namespaced {
			spaces = []string{x.name, stackNamespace}
		}
		for _, space := range spaces {
			list, err := x.of(k, space).List(ctx, metav1.ListOptions{})
			if err != nil {
				return nil, fmt.Errorf("list %s: %w", k.Resource, err)
			}
			for i := range list.Items {
				u := &list.Items[i]
				if metav1.GetControllerOfNoCopy(u) != nil || !k.namespaced && !x.mentions(u) {
					continue
				}
				out = append(out, object{k, clone(u.Object)})
			}
		}
	}
	return out, nil
}

// stackNamespace has the GPU stack, which all cells share.
const stackNamespace = "gpu-operator"

// mentions says whether an object names the cell: in its name, its labels or anywhere in what it asks for.
func (x *cell) mentions(u *unstructured.Unstructured) bool {
	named := map[string]map[string]bool{}
	collect(fresh(u.Object).Object, "", named)
	for _, values := range named {
		if values[x.name] {
			return true
		}
	}
	return false
}

// restart makes the workloads start anew, so that what is broken around them shows. Those made by controllers get new pods;
// Jobs and bare pods are created again. What is in except was dealt with.
func (x *cell) restart(ctx context.Context, except string) error {
	for _, o := range x.objects {
		if !o.works() || o.String() == except {
			continue
		}
		if err := x.restartOne(ctx, o); err != nil {
			return fmt.Errorf("start %s anew: %w", o, err)
		}
	}
	return nil
}

func (x *cell) restartOne(ctx context.Context, o object) error {
	if o.kind.name == "Job" || o.kind.name == "Pod" {
		return x.again(ctx, o)
	}
	return x.deletePods(ctx, o)
}

// again deletes the workload with its pods and creates it.
func (x *cell) again(ctx context.Context, o object) error {
	if err := x.drop(ctx, o.kind, o.space(), o.name()); err != nil {
		return err
	}
	if err := x.deletePods(ctx, o); err != nil {
		return err
	}
	return x.create(ctx, o.kind, o.body)
}

func (x *cell) deletePods(ctx context.Context, o object) error {
	pods, err := x.pods(ctx)
	if err != nil {
		return err
	}
	k, err := x.podKind()
	if err != nil {
		return err
	}
	for i := range pods {
		if !belongs(&pods[i], o) {
			continue
		}
		now := int64(0)
		if err := x.of(k, x.name).Delete(ctx, pods[i].GetName(), metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

func (x *cell) podKind() (kind, error) {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("v1")
	u.SetKind("Pod")
	return x.kindOf(u)
}

func (x *cell) pods(ctx context.Context) ([]unstructured.Unstructured, error) {
	k, err := x.podKind()
	if err != nil {
		return nil, err
	}
	list, err := x.of(k, x.name).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// belongs says whether the pod is the workload's, by its owner's name: a ReplicaSet's begins with its Deployment's.
func belongs(pod *unstructured.Unstructured, o object) bool {
	if o.kind.name == "Pod" {
		return pod.GetName() == o.name()
	}
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil {
		return false
	}
	if o.kind.name == "Deployment" {
		return ref.Kind == "ReplicaSet" && strings.HasPrefix(ref.Name, o.name()+"-")
	}
	return ref.Kind == o.kind.name && ref.Name == o.name()
}

// restore puts every object back as it was made and waits until all is healthy again.
func (x *cell) restore(ctx context.Context) error {
	for _, o := range x.objects {
		if err := x.putBack(ctx, o); err != nil {
			return fmt.Errorf("put %s back: %w", o, err)
		}
	}
	if err := x.restart(ctx, ""); err != nil {
		return err
	}
	return x.recover(ctx, 40*time.Second)
}

// putBack makes the live object equal to the one that was made, by an update or, where that is not allowed, by creating it
// anew. Controllers write objects too: what they wrote in between is read again.
func (x *cell) putBack(ctx context.Context, o object) error {
	for tries := 5; ; tries-- {
		live, err := x.of(o.kind, o.space()).Get(ctx, o.name(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return x.create(ctx, o.kind, o.body)
		}
		if err != nil {
			return err
		}
		if equal(fresh(live.Object).Object, fresh(o.body).Object) {
			return nil
		}
		if _, err = x.write(ctx, o, live, o.body); !apierrors.IsConflict(err) || tries == 0 {
			return err
		}
	}
}

// write updates the live object to the body; where fields may not change, it is deleted and created. touched says whether
// anything was done before an error.
func (x *cell) write(ctx context.Context, o object, live *unstructured.Unstructured, body map[string]any) (touched bool, err error) {
	u := fresh(body)
	u.SetUID(live.GetUID())
	u.SetResourceVersion(live.GetResourceVersion())
	u.SetOwnerReferences(live.GetOwnerReferences())
	if o.kind.name == "Namespace" { // which only the scheduler may write
		keepAnnotation(u, live, v1alpha1.KeyQueues)
	}
	if o.kind.name != "Job" { // its template never changes
		if _, err = x.of(o.kind, o.space()).Update(ctx, u, metav1.UpdateOptions{FieldValidation: strict}); err == nil {
			return true, nil
		}
		if !fixed(err) || !x.renewable(o) {
			return false, err
		}
	}
	dry := fresh(body)
	dry.SetName(o.name() + "-dry")
	if _, err := x.of(o.kind, o.space()).Create(ctx, dry, metav1.CreateOptions{FieldValidation: strict, DryRun: []string{metav1.DryRunAll}}); err != nil {
		return false, err
	}
	return true, x.renew(ctx, object{o.kind, body})
}

// keepAnnotation has the object keep what the live one has under the key.
func keepAnnotation(u, live *unstructured.Unstructured, key string) {
	all := u.GetAnnotations()
	value, ok := live.GetAnnotations()[key]
	switch {
	case ok && all == nil:
		all = map[string]string{key: value}
	case ok:
		all[key] = value
	default:
		delete(all, key)
	}
	u.SetAnnotations(all)
}

// renew deletes the object and creates it. A claim goes only when no pod uses it.
func (x *cell) renew(ctx context.Context, o object) error {
	if o.works() {
		return x.again(ctx, o)
	}
	if err := x.release(ctx); err != nil {
		return err
	}
	if err := x.drop(ctx, o.kind, o.space(), o.name()); err != nil {
		return err
	}
	return x.create(ctx, o.kind, o.body)
}

// release stops the pods of all workloads: a claim that is in use cannot be deleted.
func (x *cell) release(ctx context.Context) error {
	for _, o := range x.objects {
		if !o.works() {
			continue
		}
		var err error
		if o.kind.name == "Job" || o.kind.name == "Pod" {
			err = x.drop(ctx, o.kind, o.space(), o.name())
		}
		if err == nil {
			err = x.deletePods(ctx, o)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fixed says whether the API server rejected an update because the field cannot change, not because the value is wrong.
func fixed(err error) bool {
	text := strings.ToLower(err.Error())
	for _, words := range []string{"immutable", "may not be changed", "may not change", "may not be modified", "may not be updated", "updates to ", "are forbidden", "is forbidden", "not allowed to"} {
		if strings.Contains(text, words) {
			return true
		}
	}
	return false
}

// renewable says whether the object may be deleted and created: machines and namespaces are more than their object, and what a
// workload made for itself is used again before it is gone.
func (x *cell) renewable(o object) bool {
	made := slices.ContainsFunc(x.objects, func(a object) bool { return a.kind == o.kind && a.name() == o.name() })
	return made && !slices.Contains([]string{"Node", "Namespace", "PersistentVolume", "Pool"}, o.kind.name) && o.space() != stackNamespace
}
