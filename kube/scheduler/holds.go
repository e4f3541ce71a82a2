package scheduler

import (
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

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/engine"
	"github.com/berth-dev/berth/kube/cluster"
	"github.com/berth-dev/berth/kube/report"
)

// holds is what is held for workloads on nodes, and the pods that say so. A pod that waits for such a place is
// nominated for the node, so that other schedulers leave it free and the next leader finds it again; the
// condition beside it says that the nomination is ours. To the engine the hold counts, and not the nomination.
type holds struct {
	held      map[string]map[string]engine.Hold // by gang, then by node
	nominated map[string]nomination             // by pod
}

// nomination is a pod for which a place is kept on the node.
type nomination struct {
	pod, gang, node string
	uid             types.UID
	// named is what it says of what is held by name on the node.
	named report.Named
	// started is until when its gang, which has been given its places, may still be on its way to them; zero: it has not.
	started time.Time
}

func newHolds() holds {
	return holds{held: make(map[string]map[string]engine.Hold), nominated: make(map[string]nomination)}
}

// takeHolds takes note of what is held from now on, and no more. It returns the nominations that are to be written; those
// that are over it takes back.
func (v *evictor) takeHolds(plan *engine.Plan) []nomination {
	k := &v.holds
	touched := make(map[string]bool)
	for i := range plan.Changes {
		switch c := &plan.Changes[i]; {
		case c.Hold != nil:
			insert(k.held, c.Hold.Gang, c.Hold.Node, *c.Hold)
			touched[c.Hold.Gang] = true
		case c.Gone != nil && c.Gone.Kind == engine.KindHold:
			at := strings.LastIndexByte(c.Gone.Key, '@')
			cut(k.held, c.Gone.Key[:max(at, 0)], c.Gone.Key[at+1:])
		}
	}
	for i := range plan.Starts {
		k.begin(plan.Starts[i].Gang, plan.Now.Add(v.s.opts.Engine.AssumeFor))
	}
	v.settleNominations(plan.Now)
	var out []nomination
	for _, gang := range sortedNames(touched) {
		if len(v.s.feed.Waiting(gang)) > 0 && cluster.Expected(v.s.feed.Waiting(gang)[0]) {
			continue // there is no pod yet that could say it
		}
		given, lost := k.assign(gang, v.s.feed.WaitingByRank(gang))
		out = append(out, given...)
		for _, n := range lost {
			v.later(n.pod, once(func(ctx context.Context) { v.denominate(ctx, n) }))
		}
	}
	return out
}

// begin notes that the gang is on its way to its places.
func (k *holds) begin(gang string, until time.Time) {
	for key, n := range k.nominated {
		if n.gang == gang {
			n.started = until
			k.nominated[key] = n
		}
	}
}

// settleNominations forgets nominations of pods that wait no more, and takes back those without a place.
func (v *evictor) settleNominations(now time.Time) {
	k := &v.holds
	for _, key := range sortedNames(k.nominated) {
		n := k.nominated[key]
		if v.s.reports.waits(n.pod, n.uid) == nil {
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
// It returns what is new, and the nominations of pods for which nothing is left: less is held than before.
func (k *holds) assign(gang string, members []cluster.Pod) (out, lost []nomination) {
	left := make(map[string]engine.Resources)
	for node, h := range k.held[gang] {
		left[node] = slices.Clone(h.Requests)
	}
	for _, m := range members {
		if n, ok := k.nominated[m.Key]; ok && !takeFrom(left[n.node], m.Requests) {
			delete(k.nominated, m.Key)
			lost = append(lost, n)
		}
	}
	for _, m := range members {
		if _, has := k.nominated[m.Key]; has {
			continue
		}
		for _, node := range sortedNames(left) {
			if takeFrom(left[node], m.Requests) {
				n := nomination{pod: m.Key, gang: gang, node: node, uid: m.Object.UID}
				k.nominated[m.Key] = n
				out = append(out, n)
				break
			}
		}
	}
	for _, n := range k.name(gang, members) {
		out = slices.DeleteFunc(out, func(o nomination) bool { return o.pod == n.pod })
		out = append(out, n)
	}
	return out, slices.DeleteFunc(lost, func(n nomination) bool { _, has := k.nominated[n.pod]; return has })
}

// name lets one pod for each node say what is held there by name, the first in order. It returns the nominations that say something else
// than before.
func (k *holds) name(gang string, members []cluster.Pod) (out []nomination) {
	said := make(map[string]bool)
	for _, m := range members {
		n, ok := k.nominated[m.Key]
		if !ok {
			continue
		}
		var named report.Named
		if h := k.held[gang][n.node]; !said[n.node] && len(h.Cards)+len(h.Devices) <= mostNamed {
			named = report.Named{Cards: h.Cards, Devices: h.Devices, Claimed: h.Claimed}
		}
		said[n.node] = true
		if !n.named.Equal(&named) {
			n.named = named
			k.nominated[m.Key] = n
			out = append(out, n)
		}
	}
	return out
}

// mostNamed is how many GPUs and devices of one node a condition names: more are kept as long as this process lives.
const mostNamed = 256

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
		"conditions":        []corev1.PodCondition{report.Held{Node: n.node, Mark: v.s.marks.Mark(n.gang), Named: n.named}.Condition(metav1.Now())},
	})
}

// denominate takes the pod's place back.
func (v *evictor) denominate(ctx context.Context, n nomination) {
	v.patch(ctx, "denominate", n.pod, n.uid, map[string]any{"nominatedNodeName": nil, "conditions": []any{without(v1alpha1.PodPlaceHeld)}})
}

// takeBack unsays that the pod is evicted.
func (v *evictor) takeBack(ctx context.Context, p *corev1.Pod) {
	if p != nil {
		err := v.gate.again(ctx, p.Namespace, func(ctx context.Context) error {
			return v.annotate(ctx, p, map[string]any{v1alpha1.KeyEvictAt: nil, v1alpha1.KeyCheckpointed: nil})
		})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			v.s.log.Warn("take back", "pod", keyOf(p), "err", err)
		}
		v.patch(ctx, "take back", keyOf(p), p.UID, map[string]any{"conditions": []any{without(corev1.DisruptionTarget), without(v1alpha1.PodEvictionPlanned), without(v1alpha1.PodEviction)}})
	}
}

func without(c corev1.PodConditionType) map[string]any {
	return map[string]any{"$patch": "delete", "type": c}
}

// condition writes a condition of the pod that says that it is evicted, and beside it the same as data.
func (v *evictor) condition(ctx context.Context, p *corev1.Pod, c corev1.PodConditionType, reason, text string, said *report.Eviction) error {
	now := metav1.Now()
	return v.status(ctx, keyOf(p), p.UID, map[string]any{"conditions": []corev1.PodCondition{
		{Type: c, Status: corev1.ConditionTrue, Reason: reason, Message: clip(text, maxMessage), LastTransitionTime: now},
		{Type: v1alpha1.PodEviction, Status: corev1.ConditionTrue, Reason: reason, Message: said.Text(), LastTransitionTime: now},
	}})
}

// annotate puts annotations on the pod; nil takes one away.
func (v *evictor) annotate(ctx context.Context, p *corev1.Pod, what map[string]any) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.UID, "annotations": what}})
	if err != nil {
		return fmt.Errorf("annotations of %s: %w", keyOf(p), err)
	}
	_, err = v.client.CoreV1().Pods(p.Namespace).Patch(ctx, p.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	return err
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

func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func keyOf(o metav1.Object) string { return o.GetNamespace() + "/" + o.GetName() }

// namespaceOf is that of a pod or a gang, by its key.
func namespaceOf(key string) string {
	namespace, _, _ := strings.Cut(key, "/")
	return namespace
}

// insert enters a value under two keys, and cut takes it away.
func insert[A, B comparable, V any](m map[A]map[B]V, a A, b B, v V) {
	if m[a] == nil {
		m[a] = make(map[B]V)
	}
	m[a][b] = v
}

func cut[A, B comparable, V any](m map[A]map[B]V, a A, b B) {
	delete(m[a], b)
	if len(m[a]) == 0 {
		delete(m, a)
	}
}
