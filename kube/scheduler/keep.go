package scheduler

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/engine"
)

// keeps is what is held for workloads on nodes, and the pods that say so. A pod that waits for such a place is
// nominated for the node, so that other schedulers leave it free and who comes after this process finds it again; the
// condition beside it says that the nomination is ours. To the engine the hold counts, and not the nomination.
type keeps struct {
	held      map[string]map[string]engine.Resources // by gang, then by node
	nominated map[string]nomination                  // by pod
}

// nomination is a pod for which a place is kept on the node.
type nomination struct {
	pod, gang, node string
	uid             types.UID
	// started is until when its gang, which has been given its places, may still be on its way to them; zero: it has not.
	started time.Time
}

func newKeeps() keeps {
	return keeps{held: make(map[string]map[string]engine.Resources), nominated: make(map[string]nomination)}
}

func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// keep takes note of what is held from now on, and no more. It returns the nominations that are to be written; those
// that are over it takes back.
func (v *evictor) keep(plan *engine.Plan) []nomination {
	k := &v.keeps
	touched := make(map[string]bool)
	for i := range plan.Changes {
		switch c := &plan.Changes[i]; {
		case c.Hold != nil:
			insert(k.held, c.Hold.Gang, c.Hold.Node, c.Hold.Requests)
			touched[c.Hold.Gang] = true
		case c.Gone != nil && c.Gone.Kind == engine.KindHold:
			at := strings.LastIndexByte(c.Gone.Key, '@')
			cut(k.held, c.Gone.Key[:max(at, 0)], c.Gone.Key[at+1:])
		}
	}
	for i := range plan.Starts {
		k.begin(plan.Starts[i].Gang, plan.Now.Add(v.s.opts.Engine.AssumeFor))
	}
	v.settle(plan.Now)
	var out []nomination
	for _, gang := range sortedNames(touched) {
		out = append(out, k.assign(gang, v.s.feed.members(gang))...)
	}
	return out
}

// begin notes that the gang is on its way to its places.
func (k *keeps) begin(gang string, until time.Time) {
	for key, n := range k.nominated {
		if n.gang == gang {
			n.started = until
			k.nominated[key] = n
		}
	}
}

// settle forgets nominations of pods that wait no more, and takes back those without a place.
func (v *evictor) settle(now time.Time) {
	k := &v.keeps
	for _, key := range sortedNames(k.nominated) {
		n := k.nominated[key]
		if v.s.says.waits(n.pod, n.uid) == nil {
			delete(k.nominated, key)
			continue
		}
		if _, holds := k.held[n.gang][n.node]; holds || now.Before(n.started) {
			continue
		}
		delete(k.nominated, key)
		v.later(n.pod, once(func(ctx context.Context) { v.denominate(ctx, n) }))
	}
}

// assign gives the gang's waiting pods to the places held for it: those that have one keep it, others follow in order.
// It returns what is new.
func (k *keeps) assign(gang string, members []*member) []nomination {
	left := make(map[string]engine.Resources)
	for node, r := range k.held[gang] {
		left[node] = slices.Clone(r)
	}
	for _, m := range members {
		if n, ok := k.nominated[m.key]; ok && !takeFrom(left[n.node], m.takes) {
			delete(k.nominated, m.key)
		}
	}
	var out []nomination
	for _, m := range members {
		if _, has := k.nominated[m.key]; has {
			continue
		}
		for _, node := range sortedNames(left) {
			if takeFrom(left[node], m.takes) {
				n := nomination{pod: m.key, gang: gang, node: node, uid: m.pod.UID}
				k.nominated[m.key] = n
				out = append(out, n)
				break
			}
		}
	}
	return out
}

// takeFrom takes what a pod asks for from what is left, if it is there. What is not named in it does not count.
func takeFrom(left, takes engine.Resources) bool {
	if len(left) == 0 {
		return false
	}
	for _, a := range left {
		if takes.Get(a.Resource) > a.Value {
			return false
		}
	}
	for i := range left {
		left[i].Value -= takes.Get(left[i].Resource)
	}
	return true
}

// nominate writes the pod's place. Where that fails the pod has it all the same, as long as this process lives.
func (v *evictor) nominate(ctx context.Context, n nomination) {
	ctx, cancel := context.WithTimeout(ctx, finishFor)
	defer cancel()
	v.patch(ctx, "nominate", n.pod, n.uid, map[string]any{
		"nominatedNodeName": n.node,
		"conditions": []corev1.PodCondition{{
			Type: conditionHeld, Status: corev1.ConditionTrue, Reason: "MakingRoom", LastTransitionTime: metav1.Now(),
			Message: "node " + n.node + " is kept for it as " + v.s.marks.Mark(n.gang),
		}},
	})
}

// denominate takes the pod's place back.
func (v *evictor) denominate(ctx context.Context, n nomination) {
	v.patch(ctx, "denominate", n.pod, n.uid, map[string]any{"nominatedNodeName": nil, "conditions": []any{without(conditionHeld)}})
}

// takeBack unsays that the pod is evicted.
func (v *evictor) takeBack(ctx context.Context, p *corev1.Pod) {
	if p != nil {
		v.patch(ctx, "take back", keyOf(p), p.UID, map[string]any{"conditions": []any{without(corev1.DisruptionTarget), without(conditionPlanned)}})
	}
}

func without(c corev1.PodConditionType) map[string]any {
	return map[string]any{"$patch": "delete", "type": c}
}

// condition writes a condition of the pod.
func (v *evictor) condition(ctx context.Context, p *corev1.Pod, c corev1.PodConditionType, reason, text string) error {
	return v.status(ctx, keyOf(p), p.UID, map[string]any{"conditions": []corev1.PodCondition{{
		Type: c, Status: corev1.ConditionTrue, Reason: reason, Message: clip(text, maxMessage), LastTransitionTime: metav1.Now(),
	}}})
}

// patch changes the pod's status; a failure is said in the log.
func (v *evictor) patch(ctx context.Context, what, key string, uid types.UID, status map[string]any) {
	err := v.gate.again(ctx, namespaceOf(key), func(ctx context.Context) error { return v.status(ctx, key, uid, status) })
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		v.s.log.Warn(what, "pod", key, "err", err)
	}
}

func (v *evictor) status(ctx context.Context, key string, uid types.UID, status map[string]any) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid}, "status": status})
	if err != nil {
		return fmt.Errorf("status of %s: %w", key, err)
	}
	namespace, name, _ := strings.Cut(key, "/")
	_, err = v.client.CoreV1().Pods(namespace).Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// placeHeld says whether the pod's nomination is ours.
func placeHeld(p *corev1.Pod) bool {
	return p.Status.NominatedNodeName != "" && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == conditionHeld && c.Status == corev1.ConditionTrue
	})
}

// seat is a pod and who pays for it.
type seat struct {
	pod             *corev1.Pod // nil: it is gone
	workload, queue string
	heir            string // whom a place is held for when the pod is to run elsewhere: its gang, or who makes it again
}

// seat returns the pod as last seen, with its workload.
func (f *feed) seat(key string) seat {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.pods[key]
	if m == nil {
		return seat{}
	}
	at := seat{pod: m.pod, workload: m.workload, heir: m.workload}
	switch {
	case m.inGang():
		at.queue = f.described[m.workload].Queue
	case m.value != nil:
		at.queue, at.heir = m.value.Queue, cmp.Or(m.value.Owner, m.key)
	}
	return at
}

// awaits says whether the workload has pods that wait for a place.
func (f *feed) awaits(workload string) bool { return len(f.waiting(workload)) > 0 }

// members returns the workload's pods that wait for a place, in order of rank.
func (f *feed) members(workload string) []*member {
	f.mu.Lock()
	defer f.mu.Unlock()
	members := f.sorted(workload)
	if m := f.pods[workload]; m != nil && !m.inGang() {
		members = []*member{m}
	}
	members = slices.DeleteFunc(members, func(m *member) bool { return !m.given || !m.waiting() })
	slices.SortStableFunc(members, func(a, b *member) int { return cmp.Compare(a.value.Rank, b.value.Rank) })
	return members
}
