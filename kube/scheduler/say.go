package scheduler

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/engine/why"
)

// sayer writes down why pods wait: a condition and an event, when the cause changes and not per try. Events of
// pods that were scheduled are shed, and counted, when more come than can be written.
type sayer struct {
	s     *scheduler
	queue *queue[saying]
	shed  atomic.Int64

	mu   sync.Mutex
	said map[types.UID]why.Cause // of pods that wait
	news chan *eventsv1.Event    // of pods that were scheduled
}

// saying is what to write about one pod.
type saying struct {
	workload, key string
	uid           types.UID
	cause         why.Cause
	reason, text  string
}

// newsRoom is how many events of scheduled pods wait to be written before more are shed.
const newsRoom = 1000

func newSayer(s *scheduler) *sayer {
	return &sayer{s: s, queue: newQueue[saying](), said: make(map[types.UID]why.Cause), news: make(chan *eventsv1.Event, newsRoom)}
}

// tell takes note of what waits. It is called by the cycle and writes nothing itself.
func (y *sayer) tell(plan engine.Plan) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for i := range plan.Waiting {
		w := &plan.Waiting[i]
		text := ""
		for _, p := range y.s.feed.waiting(w.Gang) {
			if y.said[p.UID] == w.Cause {
				continue
			}
			if text == "" {
				text = sentence(w, plan.Certificates)
			}
			y.said[p.UID] = w.Cause
			y.queue.put(saying{workload: w.Gang, key: p.Namespace + "/" + p.Name, uid: p.UID, cause: w.Cause, reason: Reason(w), text: text})
		}
	}
}

// forget ends what was said of a pod.
func (y *sayer) forget(uid types.UID) {
	y.mu.Lock()
	defer y.mu.Unlock()
	delete(y.said, uid)
}

// sentence is all that keeps the workload waiting, the binding gate first.
func sentence(w *engine.Waiting, certs []why.Certificate) string {
	parts := make([]string, len(w.Gates))
	for i, g := range w.Gates {
		parts[i] = g.Sentence(certs)
	}
	return strings.Join(parts, "; ")
}

// Reason is the condition's reason. Autoscalers act on Unschedulable, so it is only there where more nodes, or
// other nodes, would help.
func Reason(w *engine.Waiting) string {
	if w.Verdict == why.Impossible || w.Verdict == why.NotFound {
		return corev1.PodReasonUnschedulable
	}
	var b strings.Builder
	for _, word := range strings.Split(string(w.Cause), "-") {
		if word != "" {
			b.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	return b.String()
}

func (y *sayer) run(ctx context.Context) {
	var workers sync.WaitGroup
	for range sayers {
		workers.Go(func() {
			for {
				w, ok := y.queue.get(ctx)
				if !ok {
					return
				}
				y.say(ctx, w)
			}
		})
	}
	for range sayers / 2 {
		workers.Go(func() { y.report(ctx) })
	}
	workers.Wait()
}

// say writes the condition and the event, unless the pod has a place by now.
func (y *sayer) say(ctx context.Context, w saying) {
	pod := y.s.feed.pod(w.workload, w.key)
	if pod == nil || pod.UID != w.uid || pod.Spec.NodeName != "" {
		return
	}
	if err := y.patch(ctx, pod, w); err != nil && ctx.Err() == nil && !apierrors.IsNotFound(err) {
		y.s.log.Warn("write condition", "pod", w.key, "err", err)
		y.forget(w.uid) // the next plan says it again
		return
	}
	event := y.event(pod, corev1.EventTypeWarning, "FailedScheduling", "Scheduling", w.text)
	if _, err := y.s.client.EventsV1().Events(pod.Namespace).Create(ctx, event, metav1.CreateOptions{}); err != nil && ctx.Err() == nil {
		y.s.log.Warn("write event", "pod", w.key, "err", err)
	}
}

func (y *sayer) patch(ctx context.Context, pod *corev1.Pod, w saying) error {
	since := metav1.Now()
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			if c.Status == corev1.ConditionFalse && c.Reason == w.reason && c.Message == w.text {
				return nil
			}
			if c.Status == corev1.ConditionFalse {
				since = c.LastTransitionTime
			}
		}
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": w.uid},
		"status": map[string]any{"conditions": []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: w.reason, Message: w.text, LastTransitionTime: since,
		}}},
	})
	if err != nil {
		return fmt.Errorf("condition of %s: %w", w.key, err)
	}
	_, err = y.s.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// scheduled notes that the pod was bound.
func (y *sayer) scheduled(pod *corev1.Pod, node string) {
	y.forget(pod.UID)
	text := fmt.Sprintf("Successfully assigned %s/%s to %s", pod.Namespace, pod.Name, node)
	select {
	case y.news <- y.event(pod, corev1.EventTypeNormal, "Scheduled", "Binding", text):
	default:
		y.shed.Add(1)
	}
}

func (y *sayer) report(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-y.news:
			if _, err := y.s.client.EventsV1().Events(e.Namespace).Create(ctx, e, metav1.CreateOptions{}); err != nil {
				y.shed.Add(1)
			}
		}
	}
}

// maxNote is as long as the API server lets an event's note be.
const maxNote = 1024

func (y *sayer) event(pod *corev1.Pod, kind, reason, action, note string) *eventsv1.Event {
	now := time.Now()
	if len(note) > maxNote {
		note = note[:maxNote-3] + "..."
	}
	return &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Name: fmt.Sprintf("%s.%x", pod.Name, now.UnixNano()), Namespace: pod.Namespace},
		EventTime:           metav1.NewMicroTime(now),
		ReportingController: y.s.opts.Name, ReportingInstance: y.s.opts.Name,
		Action: action, Reason: reason, Type: kind, Note: note,
		Regarding: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion},
	}
}
