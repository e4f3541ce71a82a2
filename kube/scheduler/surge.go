package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/cluster"
	"github.com/berth-dev/berth/kube/convert"
	"github.com/berth-dev/berth/kube/report"
)

// Surges. A pod of a Deployment that is moved stays until the next one is ready in the place that is held for it. One
// patch takes off the label by which its ReplicaSet knows it and writes down what is going on; the ReplicaSet lets the
// pod go and makes the next one, while Services, which do not know that label, go on sending to it. When the next one is
// ready the pod is evicted. If none is in time the label is put back: the ReplicaSet takes the pod back and removes one
// that is too many, which is not one that is ready if there is another. The next leader reads all this off the pod,
// and believes it because a condition, which was written before, says the same.

const (
	// surgeLook is how often a surge is looked at.
	surgeLook = time.Second
	// surgeAgain is how long a pod is left alone whose next one was not ready in time.
	surgeAgain = time.Hour
)

// followedText is what is said of a pod that ends because the next one is ready.
const followedText = "ended: what follows it is ready"

// errUnanswered is why a move is given up that the server did not answer.
var errUnanswered = errors.New("the API server did not answer")

// surge has the ReplicaSet make the next pod. Where the server does not answer, that is undone, again and again until the
// server answers: the pod's label may be off.
func (v *evictor) surge(ctx context.Context, e *eviction, p *corev1.Pod) (again bool) {
	if e.undo != nil {
		return !v.giveUp(ctx, e, e.undo, errUnanswered)
	}
	if v.pointless(e) {
		return false
	}
	s, ok := v.s.feed.Surge(&e.Eviction)
	if !ok {
		v.refuse(e, errors.New("its owner cannot be had to make the next pod"))
		return false
	}
	s.Until = e.Until.Add(-graceOf(p) - v.s.opts.Engine.AssumeFor).Round(time.Second)
	sending, cancel := context.WithDeadline(ctx, s.Until)
	defer cancel()
	err := v.gate.again(sending, p.Namespace, func(ctx context.Context) error { return v.confirm(ctx, p, corev1.ConditionTrue, s.String()) })
	if err == nil {
		err = v.gate.again(sending, p.Namespace, func(ctx context.Context) error { return v.relabel(ctx, p, nil, s.String()) })
	}
	switch {
	case err == nil:
	case apierrors.IsNotFound(err) || ctx.Err() != nil:
		return false
	case apierrors.IsConflict(err) && v.over(ctx, e, p):
		return false
	default: // which may have been done all the same
		e.undo = &s
		return !v.giveUp(ctx, e, &s, err)
	}
	v.sent.Add(1)
	v.s.reports.evicting(p, report.EvictionReason(e.Cause), e.said.Sentence(), &e.said)
	v.mu.Lock()
	defer v.mu.Unlock()
	e.surge = &s
	v.s.inbox.Wake()
	return false
}

// confirm writes into the pod's status, where its owner cannot, that the pod is being moved, or that it is not.
func (v *evictor) confirm(ctx context.Context, p *corev1.Pod, is corev1.ConditionStatus, text string) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": p.UID},
		"status": map[string]any{"conditions": []corev1.PodCondition{{
			Type: convert.Moving, Status: is, Reason: "Surge", Message: text, LastTransitionTime: metav1.Now(),
		}}},
	})
	if err != nil {
		return fmt.Errorf("condition of %s: %w", keyOf(p), err)
	}
	_, err = v.client.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// relabel puts the label by which its ReplicaSet knows the pod, and what the pod says of a surge; nil: none.
func (v *evictor) relabel(ctx context.Context, p *corev1.Pod, hash, surge any) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":         p.UID,
		"labels":      map[string]any{appsv1.DefaultDeploymentUniqueLabelKey: hash},
		"annotations": map[string]any{v1alpha1.KeySurge: surge},
	}})
	if err != nil {
		return fmt.Errorf("labels of %s: %w", keyOf(p), err)
	}
	_, err = v.client.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	return err
}

// watch looks how far the surge is and has done what is due. It returns when to look again. The cycle calls it.
func (v *evictor) watch(e *eviction, now time.Time) time.Time {
	again := now.Add(surgeLook)
	if e.surge == nil || e.busy {
		return again
	}
	at := v.s.feed.SurgeProgress(e.surge)
	if at == cluster.SurgeAwaited && now.Before(e.surge.Until) {
		return again
	}
	e.busy = true
	v.later(e.Pod, once(func(ctx context.Context) {
		done := false
		if at == cluster.SurgeAwaited {
			done = v.giveUp(ctx, e, e.surge, fmt.Errorf("nothing that follows it was ready by %s", e.surge.Until.UTC().Format(time.RFC3339)))
		} else {
			done = v.finish(ctx, e, at)
		}
		v.mu.Lock()
		defer v.mu.Unlock()
		e.busy = done // what is done is seen before long, and not done again
	}))
	return again
}

// finish ends the pod, which is followed or unwanted. Where that is refused it is tried again until its time is up.
func (v *evictor) finish(ctx context.Context, e *eviction, at cluster.SurgeProgress) (done bool) {
	p := v.victim(e)
	if p == nil {
		return true
	}
	sending, cancel := context.WithTimeout(ctx, finishFor)
	defer cancel()
	if at == cluster.SurgeUnwanted {
		return v.discard(sending, e, p)
	}
	err := v.end(sending, e, p)
	switch {
	case err == nil:
		v.s.reports.evicting(p, report.EvictionReason(e.Cause), followedText, &e.said)
		return true
	case apierrors.IsTooManyRequests(err):
		// Its budgets count as many that are ready as before it was moved. A pod that nobody owns can keep them from being
		// reckoned at all, and then it would stay for good.
		return v.remove(sending, e, p, followedText)
	case apierrors.IsNotFound(err) || ctx.Err() != nil || apierrors.IsConflict(err) && v.over(ctx, e, p):
		return true
	case time.Now().Before(e.surge.Until) || passing(err):
		v.s.log.Warn("not evicted yet", "pod", e.Pod, "err", err)
		return false
	}
	return v.giveUp(ctx, e, e.surge, err)
}

// discard deletes the pod if the server says too that its ReplicaSet is gone, or wants no pods: nothing else would.
func (v *evictor) discard(ctx context.Context, e *eviction, p *corev1.Pod) (done bool) {
	var set *appsv1.ReplicaSet
	err := v.gate.once(ctx, p.Namespace, func(ctx context.Context) (err error) {
		set, err = v.client.AppsV1().ReplicaSets(p.Namespace).Get(ctx, e.surge.Set, metav1.GetOptions{})
		return err
	})
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		v.s.log.Warn("surge", "pod", e.Pod, "err", err)
		return false
	case set.UID == e.surge.UID && set.DeletionTimestamp == nil && (set.Spec.Replicas == nil || *set.Spec.Replicas > 0):
		return false
	}
	return v.remove(ctx, e, p, "ended: ReplicaSet "+e.surge.Set+" wants no pods any more")
}

// remove deletes the pod, which no ReplicaSet owns any more, and says why.
func (v *evictor) remove(ctx context.Context, e *eviction, p *corev1.Pod, why string) (done bool) {
	how := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(e.UID)}
	err := v.gate.again(ctx, p.Namespace, func(ctx context.Context) error { return v.client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, how) })
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		v.s.log.Warn("surge", "pod", e.Pod, "err", err)
		return false
	}
	v.s.reports.evicting(p, report.EvictionReason(e.Cause), why, &e.said)
	return true
}

// giveUp gives the pod back to its ReplicaSet: it stays where it is.
func (v *evictor) giveUp(ctx context.Context, e *eviction, s *convert.Surge, why error) (done bool) {
	p := v.victim(e)
	if p == nil {
		return true
	}
	if e.surge != nil && v.discard(ctx, e, p) {
		return true
	}
	err := v.gate.again(ctx, p.Namespace, func(ctx context.Context) error { return v.relabel(ctx, p, s.Hash, nil) })
	if err == nil {
		err = v.gate.again(ctx, p.Namespace, func(ctx context.Context) error { return v.confirm(ctx, p, corev1.ConditionFalse, "") })
	}
	if apierrors.IsNotFound(err) || ctx.Err() != nil || apierrors.IsConflict(err) && v.over(ctx, e, p) {
		return true
	}
	if err != nil {
		v.s.log.Warn("give a pod back", "pod", e.Pod, "err", err)
		if e.surge != nil || passing(err) && time.Now().Before(e.Until.Add(surgeAgain)) {
			return false // the label is off, or may be: it is tried again, after others of its namespace
		}
	}
	v.s.reports.evicting(p, "MoveGivenUp", "it stays: "+why.Error(), &e.said)
	v.refuse(e, why)
	return true
}

// restoreSurge goes on with what the pod says of a surge, and returns until when that lasts.
func (v *evictor) restoreSurge(m cluster.Pod, s convert.Surge, now time.Time) time.Time {
	cfg, p := v.s.opts.Engine, m.Object
	if most := now.Add(surgeAgain); s.Until.After(most) {
		s.Until = most // anybody with write access to the pod may have written this
	}
	e := engine.Eviction{
		Pod: m.Key, UID: string(p.UID), Cause: engine.Moved, For: s.For, To: s.To, Surge: true, At: now.Round(0).UTC(),
		Until: later(now, s.Until).Add(graceOf(p) + cfg.AssumeFor).Round(0).UTC(),
	}
	kept := v.enter(e, nil)
	if kept == nil {
		return now
	}
	kept.sent, kept.surge = true, &s
	v.s.inbox.Put(engine.Change{Eviction: &e})
	if v.s.feed.SurgeArrived(&s) {
		return e.Until
	}
	requests := plus(m.Requests, engine.Resources{{Resource: engine.Pods, Value: 1}})
	h := engine.Hold{Gang: kept.successor, Node: s.To, Requests: requests, Until: e.Until, Coming: true}
	insert(v.holds.held, kept.successor, s.To, h)
	v.s.inbox.Put(engine.Change{Hold: &h})
	return e.Until
}
