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

	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/convert"
)

// Surges. A pod of a Deployment that is moved stays until the next one is ready in the place that is held for it. One
// patch takes off the label by which its ReplicaSet knows it and writes down what is going on; the ReplicaSet lets the
// pod go and makes the next one, while Services, which do not know that label, go on sending to it. When the next one is
// ready the pod is evicted. If none is in time the label is put back: the ReplicaSet takes the pod back and removes one
// that is too many, which is not one that is ready if there is another. Whoever schedules next reads all this off the pod,
// and believes it because a condition, which was written before, says the same.

const (
	// surgeLook is how often a surge is looked at.
	surgeLook = time.Second
	// surgeAgain is how long a pod is left alone whose next one was not ready in time.
	surgeAgain = time.Hour
)

// followedText is what is said of a pod that ends because the next one is ready.
const followedText = "ended: what follows it is ready"

// standing is how far a surge is.
type standing int

const (
	awaited  standing = iota // the next pod is not ready yet
	followed                 // it is
	unwanted                 // the ReplicaSet is gone, or wants no pods any more
)

// surges says whether the next pod can be made before this one is gone.
func (o *owners) surges(p *corev1.Pod) bool {
	set := o.all[controllerOf(p)]
	return set != nil && convert.Surges(p, set, o.all[set.Controller])
}

// surge is what the pod of the eviction is to say; false where its ReplicaSet cannot be had to make the next one.
func (f *feed) surge(e *eviction) (s convert.Surge, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.pods[e.Pod]
	if m == nil || string(m.pod.UID) != e.UID || !f.owners.surges(m.pod) {
		return s, false
	}
	set := f.owners.all[controllerOf(m.pod)]
	s = convert.Surge{Set: set.Name, UID: set.UID, Hash: convert.HashOf(m.pod), For: e.For, To: e.To}
	for _, o := range f.others(s.UID) {
		if o.pod.UID != m.pod.UID && o.pod.Spec.NodeName == s.To {
			s.There++
		}
	}
	return s, true
}

// others are the ReplicaSet's pods that it has not let go and that are not on their way out.
func (f *feed) others(set types.UID) []*member {
	var out []*member
	for _, key := range sortedNames(f.owners.pods[set]) {
		m := f.owners.pods[set][key]
		if _, letGo := convert.SurgeOf(m.pod); !letGo && m.pod.DeletionTimestamp == nil {
			out = append(out, m)
		}
	}
	return out
}

// standing says how far the surge is: the next pod is there when one more than before is ready on the node, or all
// that the ReplicaSet wants are ready somewhere.
func (f *feed) standing(s *convert.Surge) standing {
	f.mu.Lock()
	defer f.mu.Unlock()
	set := f.owners.all[s.UID]
	if set == nil || set.Pods == 0 {
		return unwanted
	}
	ready, there := 0, 0
	for _, m := range f.others(s.UID) {
		if !isReady(m.pod) {
			continue
		}
		ready++
		if m.pod.Spec.NodeName == s.To {
			there++
		}
	}
	if there > s.There || ready >= set.Pods {
		return followed
	}
	return awaited
}

func isReady(p *corev1.Pod) bool {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

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
	s, ok := v.s.feed.surge(e)
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
	v.s.says.evicting(p, reasonOf(e.Cause), e.why)
	v.mu.Lock()
	defer v.mu.Unlock()
	e.surge = &s
	v.s.inbox.stir()
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
		"annotations": map[string]any{convert.KeySurge: surge},
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
	at := v.s.feed.standing(e.surge)
	if at == awaited && now.Before(e.surge.Until) {
		return again
	}
	e.busy = true
	v.later(e.Pod, once(func(ctx context.Context) {
		done := false
		if at == awaited {
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
func (v *evictor) finish(ctx context.Context, e *eviction, at standing) (done bool) {
	p := v.victim(e)
	if p == nil {
		return true
	}
	sending, cancel := context.WithTimeout(ctx, finishFor)
	defer cancel()
	if at == unwanted {
		return v.discard(sending, e, p)
	}
	err := v.end(sending, e, p)
	switch {
	case err == nil:
		v.s.says.evicting(p, reasonOf(e.Cause), followedText)
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

// discard deletes the pod if the server says too that its ReplicaSet is gone, or wants no pods: nobody else will.
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
	v.s.says.evicting(p, reasonOf(e.Cause), why)
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
	v.s.says.evicting(p, "MoveGivenUp", "it stays: "+why.Error())
	v.refuse(e, why)
	return true
}

// recallSurge goes on with what the pod says of a surge, and returns until when that lasts.
func (v *evictor) recallSurge(m *member, s convert.Surge, now time.Time) time.Time {
	cfg, p := v.s.opts.Engine, m.pod
	if most := now.Add(surgeAgain); s.Until.After(most) {
		s.Until = most // whoever may write to the pod may write this
	}
	e := engine.Eviction{
		Pod: m.key, UID: string(p.UID), Cause: engine.Moved, For: s.For, To: s.To, Surge: true, At: now.Round(0).UTC(),
		Until: later(now, s.Until).Add(graceOf(p) + cfg.AssumeFor).Round(0).UTC(),
	}
	kept := v.enter(e, nil)
	if kept == nil {
		return now
	}
	kept.sent, kept.surge = true, &s
	v.s.inbox.put(engine.Change{Eviction: &e})
	if v.s.feed.cameTo(&s) {
		return e.Until
	}
	requests := plus(m.takes, engine.Resources{{Resource: engine.Pods, Value: 1}})
	insert(v.keeps.held, kept.heir, s.To, requests)
	v.s.inbox.put(engine.Change{Hold: &engine.Hold{Gang: kept.heir, Node: s.To, Requests: requests, Until: e.Until, Coming: true}})
	return e.Until
}

// cameTo says whether the next pod is on its node already.
func (f *feed) cameTo(s *convert.Surge) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	there := 0
	for _, m := range f.others(s.UID) {
		if m.pod.Spec.NodeName == s.To {
			there++
		}
	}
	return there > s.There
}
