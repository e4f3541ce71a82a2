package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

var poolResource = schema.GroupVersionResource{Group: "berth.dev", Version: "v1alpha1", Resource: "pools"}

// deleteNode deletes a node that a pod has just been bound to. The fleet registers it again.
func deleteNode(r *rand.Rand) (string, func(context.Context, *world)) {
	other := node(r.IntN(nodes))
	return "the next that a pod is bound to, or " + other, func(ctx context.Context, w *world) {
		name := w.seen.binding(ctx, 5*time.Second)
		if name == "" {
			name = other
		}
		w.try("delete node", w.client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{}))
	}
}

func cordonNode(r *rand.Rand) (string, func(context.Context, *world)) {
	name, d := node(r.IntN(nodes)), between(r, 3*time.Second, 15*time.Second)
	return fmt.Sprintf("%s for %s", name, seconds(d)), func(ctx context.Context, w *world) {
		w.try("cordon", w.patchNode(ctx, name, `{"spec":{"unschedulable":true}}`))
		lasting(ctx, d)
		w.try("uncordon", w.patchNode(ctx, name, cordonOff))
	}
}

// powerOff pulls a node's plug: its pods stand still, and have failed when power is back.
func powerOff(r *rand.Rand) (string, func(context.Context, *world)) {
	name, d := node(r.IntN(nodes)), between(r, 3*time.Second, 20*time.Second)
	return fmt.Sprintf("%s for %s", name, seconds(d)), func(ctx context.Context, w *world) {
		w.try("power off", w.patchNode(ctx, name, `{"metadata":{"annotations":{"sim.berth.dev/down":"true"}}}`))
		lasting(ctx, d)
		w.try("power on", w.patchNode(ctx, name, powerOn))
	}
}

const (
	cordonOff = `{"spec":{"unschedulable":null}}`
	powerOn   = `{"metadata":{"annotations":{"sim.berth.dev/down":null}}}`
)

func (w *world) patchNode(ctx context.Context, name, patch string) error {
	_, err := w.client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

// deletePlugin takes a node's device plugin away: until its DaemonSet has made another, the node has no GPUs to
// give and its kubelet refuses pods that come for some.
func deletePlugin(r *rand.Rand) (string, func(context.Context, *world)) {
	other := node(r.IntN(nodes))
	return "on the next node that a pod is bound to, or " + other, func(ctx context.Context, w *world) {
		name := w.seen.binding(ctx, 5*time.Second)
		if name == "" {
			name = other
		}
		err := w.client.CoreV1().Pods("gpu-operator").DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{
			LabelSelector: "app=nvidia-device-plugin-daemonset",
			FieldSelector: fields.OneTermEqualSelector("spec.nodeName", name).String(),
		})
		w.try("delete device plugin", err)
	}
}

// shrinkPool takes the last node away and gives it back.
func shrinkPool(r *rand.Rand) (string, func(context.Context, *world)) {
	name, d := pools[r.IntN(len(pools))], between(r, 2*time.Second, 20*time.Second)
	return fmt.Sprintf("%s by one node for %s", name, seconds(d)), func(ctx context.Context, w *world) {
		w.try("shrink pool", w.resize(ctx, name, nodes/len(pools)-1))
		lasting(ctx, d)
		w.try("grow pool", w.resize(ctx, name, nodes/len(pools)))
	}
}

// size is how many nodes the pool has at rest.
func (w *world) size(pool string) int {
	if pool == w.smaller {
		return nodes/len(pools) - 1
	}
	return nodes / len(pools)
}

func (w *world) resize(ctx context.Context, pool string, n int) error {
	client, err := dynamic.NewForConfig(w.config)
	if err != nil {
		return err
	}
	patch := fmt.Appendf(nil, `{"spec":{"nodes":%d}}`, n)
	_, err = client.Resource(poolResource).Patch(ctx, pool, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// try counts what could not be done, because something else is broken at the same time.
func (w *world) try(what string, err error) {
	if err != nil {
		w.tally.count("did not come about: " + what)
	}
}

// heal ends what faults may have left: nodes without power, cordons, a pool that is too small, processes that
// stand still, bad weather. It is called until it succeeds.
func (w *world) heal(ctx context.Context) error {
	for _, b := range w.berths {
		b.proxy.turn(weather{})
	}
	if err := w.cluster.ready(ctx, startWithin); err != nil {
		return err
	}
	for _, pool := range pools {
		if err := w.resize(ctx, pool, w.size(pool)); err != nil {
			return err
		}
	}
	list, err := w.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range list.Items {
		n := &list.Items[i]
		if n.Spec.Unschedulable {
			err = w.patchNode(ctx, n.Name, cordonOff)
		}
		if err == nil && n.Annotations["sim.berth.dev/down"] != "" {
			err = w.patchNode(ctx, n.Name, powerOn)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
