package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1alpha3 "k8s.io/api/scheduling/v1alpha3"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/kube/cluster"
)

// The API server lets a note and a name be so long.
const (
	maxNote = 1024
	maxName = 253
)

// event is about an object; cause is what it says as data, "" for nothing. One with the same reason and note about the
// same object at the same time has the same name, so that it is written once; once makes that true of all times, restarts
// included.
func (r *reporter) event(o cluster.Object, kind, reason, action, note, cause string, once bool) *eventsv1.Event {
	note = clip(note, maxNote)
	now := time.Now()
	h := fnv.New64a()
	fmt.Fprint(h, o.GetUID(), "/", reason, "/", note)
	if !once {
		fmt.Fprint(h, "/", now.UnixNano())
	}
	suffix := fmt.Sprintf(".%016x", h.Sum64())
	name := o.GetName()[:min(len(o.GetName()), maxName-len(suffix))]
	e := &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Name: name + suffix, Namespace: cmp.Or(o.GetNamespace(), metav1.NamespaceDefault)},
		EventTime:           metav1.NewMicroTime(now),
		ReportingController: r.s.opts.Name, ReportingInstance: r.s.opts.Name,
		Action: action, Reason: reason, Type: kind, Note: note, Regarding: reference(o),
	}
	if cause != "" {
		e.Annotations = map[string]string{v1alpha1.AnnotationCause: cause}
	}
	return e
}

func reference(o cluster.Object) corev1.ObjectReference {
	r := corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID()}
	if _, ok := o.(*schedulingv1beta1.PodGroup); ok {
		r.APIVersion, r.Kind = schedulingv1beta1.SchemeGroupVersion.String(), "PodGroup"
	}
	if _, ok := o.(*schedulingv1alpha3.CompositePodGroup); ok {
		r.APIVersion, r.Kind = schedulingv1alpha3.SchemeGroupVersion.String(), "CompositePodGroup"
	}
	switch o.(type) {
	case *corev1.Node:
		r.Kind = "Node"
	case *corev1.Namespace:
		r.Kind = "Namespace"
	case *schedulingv1.PriorityClass:
		r.APIVersion, r.Kind = schedulingv1.SchemeGroupVersion.String(), "PriorityClass"
	}
	if u, ok := o.(*unstructured.Unstructured); ok {
		r.APIVersion, r.Kind = u.GetAPIVersion(), u.GetKind()
	}
	return r
}

// post writes an event that must not be lost. One that is there already is as good.
func (r *reporter) post(ctx context.Context, e *eventsv1.Event) {
	err := r.gate.again(ctx, e.Namespace, func(ctx context.Context) error {
		_, err := r.s.client.EventsV1().Events(e.Namespace).Create(ctx, e, metav1.CreateOptions{})
		return err
	})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		r.s.log.Warn("write event", "reason", e.Reason, "of", e.Regarding.Namespace+"/"+e.Regarding.Name, "err", err)
	}
}

func (r *reporter) NotHonoured(o cluster.Object, what []string) {
	if len(what) > 0 {
		r.notice(o, r.event(o, corev1.EventTypeNormal, "NotHonoured", "Scheduling", "Not honoured yet: "+strings.Join(what, "; "), "", true))
	}
}

// Counted says on a workload controller's object which of its pods start together.
func (r *reporter) Counted(o cluster.Object, sentence string) {
	r.notice(o, r.event(o, corev1.EventTypeNormal, "Gang", "Scheduling", sentence, "", true))
}

// notice writes an event once while the object exists.
func (r *reporter) notice(o cluster.Object, e *eventsv1.Event) {
	if r.first(o.GetUID(), e.Name) {
		r.later(o, func(ctx context.Context) { r.post(ctx, e) })
	}
}

// scheduled notes that the pod was bound.
func (r *reporter) scheduled(pod *metav1.ObjectMeta, node, more string) {
	about := &corev1.Pod{ObjectMeta: *pod}
	e := r.event(about, corev1.EventTypeNormal, "Scheduled", "Binding", fmt.Sprintf("Successfully assigned %s/%s to %s%s", pod.Namespace, pod.Name, node, more), "", false)
	if here, all := r.background.waiting(e.Namespace); here >= eventRoom || all >= 4*eventRoom || r.s.opts.Shadow {
		r.shed.Add(1)
		return
	}
	r.background.put(e.Namespace, "", func(ctx context.Context) { r.report(ctx, e) })
}

// report writes the event of a pod that was scheduled. One that fails is shed.
func (r *reporter) report(ctx context.Context, e *eventsv1.Event) {
	err := r.eventGate.once(ctx, e.Namespace, func(ctx context.Context) error {
		_, err := r.s.client.EventsV1().Events(e.Namespace).Create(ctx, e, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		r.shed.Add(1)
	}
}
