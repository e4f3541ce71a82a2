package main

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"k8s.io/apimachinery/pkg/labels"
)

// observer follows the pods of the work, to count what becomes of them and to know when one is being bound. It
// judges nothing but evictions: after a cut it may see two changes as one.
type observer struct {
	pods  corelisters.PodNamespaceLister
	nodes corelisters.NodeLister
	tally *tally

	next chan string // unbuffered: whoever waits for a binding gets its node
}

func observe(ctx context.Context, client kubernetes.Interface, t *tally) *observer {
	f := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
	o := &observer{pods: f.Core().V1().Pods().Lister().Pods(namespace), nodes: f.Core().V1().Nodes().Lister(), tally: t, next: make(chan string)}
	// Handlers of informers that have not started cannot fail.
	_, _ = f.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(p any) { o.saw(&corev1.Pod{}, p.(*corev1.Pod)) },
		UpdateFunc: func(old, p any) { o.saw(old.(*corev1.Pod), p.(*corev1.Pod)) },
	})
	f.Start(ctx.Done())
	return o
}

func (o *observer) saw(old, p *corev1.Pod) {
	if old.Spec.NodeName == "" && p.Spec.NodeName != "" {
		o.tally.count("pods bound by " + p.Spec.SchedulerName)
		select {
		case o.next <- p.Spec.NodeName:
		default:
		}
	}
	o.evicted(old, p)
	if old.Status.Phase == p.Status.Phase {
		return
	}
	switch {
	case p.Status.Phase == corev1.PodSucceeded:
		o.tally.count("pods succeeded")
	case p.Status.Phase == corev1.PodFailed && p.Status.Reason != "":
		o.tally.count("pods failed: " + p.Status.Reason)
	case p.Status.Phase == corev1.PodFailed:
		o.tally.count("pods failed")
	}
}

// known are the nodes that there are.
func (o *observer) known() []*corev1.Node {
	nodes, err := o.nodes.List(labels.Everything())
	if err != nil {
		return nil // the cache never fails
	}
	return nodes
}

// binding waits until a pod is bound and returns its node, "" where none is within the time.
func (o *observer) binding(ctx context.Context, within time.Duration) string {
	select {
	case node := <-o.next:
		return node
	case <-time.After(within):
	case <-ctx.Done():
	}
	return ""
}

// demand is how many GPUs the pods that exist and are not over ask for.
func (o *observer) demand() int64 {
	pods, err := o.pods.List(labels.Everything())
	if err != nil {
		return 0 // the cache never fails
	}
	var sum int64
	for _, p := range pods {
		if !over(p) {
			sum += gpusOf(p)
		}
	}
	return sum
}

const gpu = "nvidia.com/gpu"

func gpusOf(p *corev1.Pod) (sum int64) {
	for i := range p.Spec.Containers {
		q := p.Spec.Containers[i].Resources.Limits[gpu]
		sum += q.Value()
	}
	return sum
}

func over(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}
