package main

import (
	"context"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// bare is a part: it binds every pod that waits, through the kubeconfig args[0], with args[1] requests in
// flight, and decides nothing: node after node, a gang's eight members on one. It is what a scheduler can reach at the
// most, and so is tuned as Berth's is: it watches the same, begins when it has seen everything, sends bindings over a socket
// of their own, speaks protobuf, has no rate limit, and lets its heap grow as far between collections.
func bare(ctx context.Context, args []string) error {
	workers, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	watching, err := connect(args[0])
	if err != nil {
		return err
	}
	client, err := connect(args[0])
	if err != nil {
		return err
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	pods, nodes := watchAsBerth(ctx, watching)
	work := bindings(pods, nodes)
	var next atomic.Int64
	var wg sync.WaitGroup
	var failed atomic.Pointer[error]
	for range workers {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(work); i = int(next.Add(1)) - 1 {
				if err := client.CoreV1().Pods(work[i].Namespace).Bind(ctx, work[i], metav1.CreateOptions{}); err != nil {
					failed.Store(&err)
					return
				}
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil && ctx.Err() == nil {
		return *err
	}
	<-ctx.Done() // the watchers stay to the end
	return nil
}

// gcPercent is that of `berth scheduler`.
const gcPercent = 300

// watchAsBerth starts the informers of package kube/scheduler, that of its queues aside, and returns their pods and
// nodes once all are filled.
func watchAsBerth(ctx context.Context, client kubernetes.Interface) (pods, nodes cache.Store) {
	all := informers.NewSharedInformerFactory(client, 0)
	core, apps := all.Core().V1(), all.Apps().V1()
	for _, enter := range []func() cache.SharedIndexInformer{ // asking for one is what enters it
		core.PersistentVolumeClaims().Informer, core.PersistentVolumes().Informer, all.Storage().V1().StorageClasses().Informer,
		core.Namespaces().Informer, all.Scheduling().V1beta1().PodGroups().Informer, all.Batch().V1().Jobs().Informer,
		apps.StatefulSets().Informer, apps.ReplicaSets().Informer, apps.Deployments().Informer,
	} {
		enter()
	}
	pods, nodes = core.Pods().Informer().GetStore(), core.Nodes().Informer().GetStore()
	all.Start(ctx.Done())
	all.WaitForCacheSync(ctx.Done())
	return pods, nodes
}

// bindings gives every pod that waits a node, in order of names.
func bindings(pods, nodes cache.Store) []*corev1.Binding {
	names := nodes.ListKeys()
	slices.Sort(names)
	var out []*corev1.Binding
	for _, o := range pods.List() {
		p := o.(*corev1.Pod)
		if p.Spec.NodeName == "" {
			out = append(out, &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID}})
		}
	}
	slices.SortFunc(out, func(a, b *corev1.Binding) int { return strings.Compare(a.Name, b.Name) })
	for i, b := range out {
		b.Target = corev1.ObjectReference{Kind: "Node", Name: names[i/gpusPerNode%len(names)]}
	}
	return out
}
