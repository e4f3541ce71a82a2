package kubelet

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/flowcontrol"
)

// A kubelet sends at most eventRate events a second (its --event-qps); what is beyond is dropped.
// Warnings have a bucket of their own so that a burst of starts cannot hide them.
const (
	eventRate  = 50
	eventBurst = 100
)

// recorder sends events without ever making a pod wait: the buckets drop, and client-go's
// broadcaster queues, joins repeats into counts and writes in the background.
type recorder struct {
	normal, warning flowcontrol.RateLimiter
	broadcaster     record.EventBroadcaster
}

func newRecorder() *recorder {
	return &recorder{
		normal:      flowcontrol.NewTokenBucketRateLimiter(eventRate, eventBurst),
		warning:     flowcontrol.NewTokenBucketRateLimiter(eventRate, eventBurst),
		broadcaster: record.NewBroadcaster(),
	}
}

// start begins to send events; those recorded before it go nowhere. The caller ends it with stop.
func (r *recorder) start(client typedcorev1.EventsGetter) (stop func()) {
	sink := r.broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.Events("")})
	return func() {
		sink.Stop()
		r.broadcaster.Shutdown()
	}
}

// on records an event of kind corev1.EventTypeNormal or EventTypeWarning about the pod, or about one
// of its containers when fieldPath is set, as from the kubelet of the pod's node.
func (r *recorder) on(pod *corev1.Pod, fieldPath, kind, reason, format string, args ...any) {
	bucket := r.normal
	if kind == corev1.EventTypeWarning {
		bucket = r.warning
	}
	if !bucket.TryAccept() {
		return
	}
	ref := &corev1.ObjectReference{
		APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
		ResourceVersion: pod.ResourceVersion, FieldPath: fieldPath,
	}
	source := corev1.EventSource{Component: "kubelet", Host: pod.Spec.NodeName}
	r.broadcaster.NewRecorder(scheme.Scheme, source).Event(ref, kind, reason, fmt.Sprintf(format, args...))
}

// onNode records an event about a node, as from its kubelet, which gives the node's name for its UID.
func (r *recorder) onNode(node *corev1.Node, kind, reason, format string, args ...any) {
	if !r.warning.TryAccept() {
		return
	}
	ref := &corev1.ObjectReference{Kind: "Node", Name: node.Name, UID: types.UID(node.Name)}
	source := corev1.EventSource{Component: "kubelet", Host: node.Name}
	r.broadcaster.NewRecorder(scheme.Scheme, source).Event(ref, kind, reason, fmt.Sprintf(format, args...))
}
