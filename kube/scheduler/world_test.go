package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/cluster"
	"github.com/berth-dev/berth/kube/convert"
	"github.com/berth-dev/berth/kube/policy"
)

// world is an API server that is client-go's object tracker, with what the scheduler relies on added: resource
// versions, preconditions of patches, and bindings as the real one checks them.
type world struct {
	t      *testing.T
	client *fake.Clientset
	queues *queueServer

	mu      sync.Mutex
	version int
	deny    func(*corev1.Binding) error // the answer instead of binding; nil: bind
	lose    func(*corev1.Binding) error // the answer instead of the true one, after binding
	tries   []string                    // "pod node", every request to bind
	bound   []string                    // "pod node", those carried out
	events  []*eventsv1.Event
	patches []string // "resource/subresource name"
	refuse  error    // of events, while set

	stops []func()
}

var podsResource = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

func newWorld(t *testing.T, objects ...runtime.Object) *world {
	t.Helper()
	t.TempDir() // removed after the schedulers have ended, which record into others beside it
	// NewClientset keeps field managers, which nothing here reads, at two thirds of the time of these tests.
	w := &world{t: t, client: fake.NewSimpleClientset(), version: 100}
	w.client.Resources = []*metav1.APIResourceList{
		{GroupVersion: "scheduling.k8s.io/v1beta1", APIResources: []metav1.APIResource{{Kind: "PodGroup"}}},
		{GroupVersion: "scheduling.k8s.io/v1alpha3", APIResources: []metav1.APIResource{{Kind: "CompositePodGroup"}}},
	}
	w.queues = newQueueServer(w)
	w.client.PrependReactor("create", "*", w.stamp)
	w.client.PrependReactor("update", "*", w.stamp)
	w.client.PrependReactor("patch", "*", w.patch)
	w.client.PrependReactor("create", "events", w.note)
	w.client.PrependReactor("create", "pods", w.bind)
	if err := makeMarks(t.Context(), w.client); err != nil {
		t.Fatal(err)
	}
	w.installPolicy()
	w.client.ClearActions() // what was done to set up is nobody's doing
	for _, o := range objects {
		w.add(o)
	}
	t.Cleanup(w.stopAll)
	return w
}

// installPolicy has the cluster know the policy that guards terms. Nothing here enforces it: tests edit pods as they like.
func (w *world) installPolicy() {
	w.t.Helper()
	list, err := policy.Manifests()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, m := range list {
		var o runtime.Object
		switch path.Base(path.Dir(m.Path)) + "/" + path.Base(m.Path) {
		case "validatingadmissionpolicies/" + policy.Terms:
			o = new(admissionv1.ValidatingAdmissionPolicy)
		case "validatingadmissionpolicybindings/" + policy.Terms:
			o = new(admissionv1.ValidatingAdmissionPolicyBinding)
		default:
			continue
		}
		if err := yaml.UnmarshalStrict(m.Text, o); err != nil {
			w.t.Fatal(err)
		}
		if err := w.client.Tracker().Add(o); err != nil {
			w.t.Fatal(err)
		}
	}
}

// removePolicy is what an administrator may do.
func (w *world) removePolicy() {
	w.t.Helper()
	if err := w.client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Delete(w.t.Context(), policy.Terms, metav1.DeleteOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// recordOf reads the pod's terms with the cluster's secret.
func (w *world) recordOf(p *corev1.Pod) (convert.Record, string, bool) {
	o, err := w.client.Tracker().Get(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, leaseNamespace, marksName)
	if err != nil {
		return convert.RecordOf(p, nil)
	}
	return convert.RecordOf(p, convert.NewSeal(o.(*corev1.Secret).Data[marksKey]))
}

// start runs a scheduler and returns what ends it and gives its result.
func (w *world) start(change ...func(*Options)) (stop func() error) {
	o := Options{queues: w.queues, Engine: engine.Config{Levels: []engine.Level{{Name: "rack", Label: "rack"}}}}
	o.Decisions.Dir = w.t.TempDir()
	for _, c := range change {
		c(&o)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, w.asScheduler(), o) }()
	stop = sync.OnceValue(func() error { cancel(); return <-ended })
	w.stops = append(w.stops, func() { _ = stop(); w.replays(o.Decisions.Dir) })
	w.rest()
	return stop
}

func (w *world) stopAll() {
	for _, stop := range w.stops {
		stop()
	}
}

// rest lets things come to rest.
func (w *world) rest() { w.after(500 * time.Millisecond) }

func (w *world) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (w *world) next() string {
	w.version++
	return strconv.Itoa(w.version)
}

// stamp gives what is written a resource version. Leases are compared and swapped.
func (w *world) stamp(a clienttesting.Action) (bool, runtime.Object, error) {
	if a.GetSubresource() == "binding" {
		return false, nil, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	o, err := meta.Accessor(a.(clienttesting.CreateAction).GetObject())
	if err != nil {
		return true, nil, err
	}
	if a.Matches("update", "leases") {
		have, err := w.client.Tracker().Get(a.GetResource(), a.GetNamespace(), o.GetName())
		if err != nil {
			return true, nil, err
		}
		if h, _ := meta.Accessor(have); h.GetResourceVersion() != o.GetResourceVersion() {
			return true, nil, conflict("the lease has changed")
		}
	}
	o.SetResourceVersion(w.next())
	return false, nil, nil
}

func (w *world) patch(a clienttesting.Action) (bool, runtime.Object, error) {
	p := a.(clienttesting.PatchAction)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.patches = append(w.patches, a.GetResource().Resource+"/"+a.GetSubresource()+" "+p.GetName())
	have, err := w.client.Tracker().Get(a.GetResource(), a.GetNamespace(), p.GetName())
	if err != nil {
		return true, nil, err
	}
	var want struct{ Metadata metav1.ObjectMeta }
	o, _ := meta.Accessor(have)
	switch err := json.Unmarshal(p.GetPatch(), &want); {
	case err != nil:
		return true, nil, err
	case want.Metadata.UID != o.GetUID(), want.Metadata.ResourceVersion != "" && want.Metadata.ResourceVersion != o.GetResourceVersion():
		return true, nil, conflict("the object has been modified")
	}
	old, _ := json.Marshal(have)
	merged, err := strategicpatch.StrategicMergePatch(old, p.GetPatch(), have)
	if err != nil {
		return true, nil, err
	}
	got := reflect.New(reflect.TypeOf(have).Elem()).Interface().(runtime.Object) // empty: what the patch removed is gone
	if err := json.Unmarshal(merged, got); err != nil {
		return true, nil, err
	}
	o, _ = meta.Accessor(got)
	o.SetResourceVersion(w.next())
	return true, got, w.client.Tracker().Update(a.GetResource(), got, a.GetNamespace())
}

func (w *world) note(a clienttesting.Action) (bool, runtime.Object, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refuse != nil {
		return true, nil, w.refuse
	}
	e := a.(clienttesting.CreateAction).GetObject().(*eventsv1.Event)
	w.events = append(w.events, e)
	return false, nil, nil
}

func (w *world) bind(a clienttesting.Action) (bool, runtime.Object, error) {
	if a.GetSubresource() != "binding" {
		return false, nil, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	b := a.(clienttesting.CreateAction).GetObject().(*corev1.Binding)
	w.tries = append(w.tries, b.Name+" "+b.Target.Name)
	if w.deny != nil {
		if err := w.deny(b); err != nil {
			return true, nil, err
		}
	}
	err := w.assign(b)
	if err == nil && w.lose != nil {
		err = w.lose(b)
	}
	return true, b, err
}

// assign does as the API server does with a binding.
func (w *world) assign(b *corev1.Binding) error {
	have, err := w.client.Tracker().Get(podsResource, b.Namespace, b.Name)
	if err != nil {
		return err
	}
	p := have.(*corev1.Pod).DeepCopy()
	switch {
	case b.UID != p.UID:
		return conflict("precondition failed: UID")
	case p.DeletionTimestamp != nil:
		return conflict("pod is being deleted, cannot be assigned to a host")
	case p.Spec.NodeName != "":
		return conflict("pod is already assigned to node " + p.Spec.NodeName)
	case len(p.Spec.SchedulingGates) > 0:
		return conflict("pod has non-empty .spec.schedulingGates")
	}
	p.Spec.NodeName, p.ResourceVersion = b.Target.Name, w.next()
	for k, v := range b.Annotations {
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, k, v)
	}
	if _, _, ok := w.recordOf(p); !ok {
		w.t.Errorf("pod %s is bound before its terms are written down", p.Name)
	}
	w.bound = append(w.bound, b.Name+" "+b.Target.Name)
	return w.client.Tracker().Update(podsResource, p, b.Namespace)
}

func conflict(why string) error {
	return apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, "x", errors.New(why))
}

// add creates the object.
func (w *world) add(o runtime.Object) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	m, _ := meta.Accessor(o)
	m.SetResourceVersion(w.next())
	if m.GetUID() == "" {
		m.SetUID(types.UID(fmt.Sprintf("%s-%d", m.GetName(), w.version)))
	}
	if m.GetCreationTimestamp().Time.IsZero() {
		m.SetCreationTimestamp(metav1.Now())
	}
	tracker := w.client.Tracker()
	if _, ok := o.(*v1alpha1.BerthQueue); ok {
		tracker = w.queues.tracker
	}
	if err := tracker.Add(o); err != nil {
		w.t.Fatal(err)
	}
}

// edit changes a pod as somebody else would.
func (w *world) edit(name string, change func(*corev1.Pod)) {
	w.t.Helper()
	p := w.pod(name).DeepCopy()
	w.mu.Lock()
	defer w.mu.Unlock()
	change(p)
	p.ResourceVersion = w.next()
	if err := w.client.Tracker().Update(podsResource, p, "default"); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) remove(resource, namespace, name string) {
	w.t.Helper()
	gvr := schema.GroupVersionResource{Version: "v1", Resource: resource}
	if err := w.client.Tracker().Delete(gvr, namespace, name); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) pod(name string) *corev1.Pod {
	w.t.Helper()
	p, err := w.client.Tracker().Get(podsResource, "default", name)
	if err != nil {
		w.t.Fatal(err)
	}
	return p.(*corev1.Pod)
}

// at returns the pods' nodes.
func (w *world) at(names ...string) []string {
	w.t.Helper()
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = w.pod(name).Spec.NodeName
	}
	return out
}

// locked reads what reactors write.
func locked[T any](w *world, get func() T) T {
	w.mu.Lock()
	defer w.mu.Unlock()
	return get()
}

func (w *world) tried() []string { return locked(w, func() []string { return slices.Clone(w.tries) }) }
func (w *world) done() []string  { return locked(w, func() []string { return slices.Clone(w.bound) }) }
func (w *world) patched() []string {
	return locked(w, func() []string { return slices.Clone(w.patches) })
}

// answer sets what bindings are answered with, nil for the truth.
func (w *world) answer(deny func(*corev1.Binding) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deny = deny
}

// said lists the events of an object, "reason: note".
func (w *world) said(name string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, e := range w.events {
		if e.Regarding.Name == name {
			out = append(out, e.Reason+": "+e.Note)
		}
	}
	return out
}

// condition is the pod's PodScheduled, "status reason".
func (w *world) condition(name string) string {
	for _, c := range w.pod(name).Status.Conditions {
		if c.Type == corev1.PodScheduled {
			return string(c.Status) + " " + c.Reason
		}
	}
	return ""
}

func node(name, rack string, gpus int64) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"rack": rack, corev1.LabelHostname: name}},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("256Gi"),
			corev1.ResourcePods: resource.MustParse("110"), "nvidia.com/gpu": *resource.NewQuantity(gpus, resource.DecimalSI),
		}},
	}
}

// pod is one of ours that asks for GPUs, with annotations as "key=value" in our prefix.
func pod(name string, gpus int64, annotations ...string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Annotations: map[string]string{}},
		Spec: corev1.PodSpec{SchedulerName: cluster.DefaultName, Containers: []corev1.Container{{
			Name: "c", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(gpus, resource.DecimalSI)}},
		}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	p.Spec.Containers[0].Resources.Requests = p.Spec.Containers[0].Resources.Limits
	for i := 0; i+1 < len(annotations); i += 2 {
		p.Annotations["berth.dev/"+annotations[i]] = annotations[i+1]
	}
	return p
}

// gang is pods of one GPU each.
func gang(name string, n int, annotations ...string) []runtime.Object {
	out := make([]runtime.Object, n)
	for i := range out {
		out[i] = pod(fmt.Sprintf("%s-%d", name, i), 1, append([]string{"gang", name, "min", strconv.Itoa(n)}, annotations...)...)
	}
	return out
}
