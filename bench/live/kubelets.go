package main

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

// kubelets is a part: what the machines of a fleet that runs write, through the kubeconfig args[0]. Every bound pod is
// Running after one write of its status, a pod that is to end is gone after one request, and every node renews its lease.
// Statuses are PUT, so that the measurements can tell them from a scheduler's, which are PATCH.
func kubelets(ctx context.Context, args []string) error {
	client, err := connect(args[0])
	if err != nil {
		return err
	}
	bound := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace), informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermNotEqualSelector("spec.nodeName", "").String()
	}))
	pods := bound.Core().V1().Pods().Informer()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	enter := func(o any) {
		if p, ok := o.(*corev1.Pod); ok && (p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodPending) {
			queue.Add(p.Name)
		}
	}
	if _, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: enter, UpdateFunc: func(_, o any) { enter(o) }}); err != nil {
		return err
	}
	bound.Start(ctx.Done())
	bound.WaitForCacheSync(ctx.Done())
	for range writers {
		go func() {
			for {
				name, ended := queue.Get()
				if ended {
					return
				}
				if o, ok, _ := pods.GetStore().GetByKey(namespace + "/" + name); ok && serveAsKubelet(ctx, client, o.(*corev1.Pod)) != nil {
					queue.AddRateLimited(name)
				}
				queue.Done(name)
			}
		}()
	}
	fmt.Println(readyLine)
	err = renewLeases(ctx, client)
	queue.ShutDown()
	return err
}

// serveAsKubelet does what a machine does with a pod: it runs it, or lets it go.
func serveAsKubelet(ctx context.Context, client kubernetes.Interface, p *corev1.Pod) error {
	if p.DeletionTimestamp != nil {
		return client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64), Preconditions: &metav1.Preconditions{UID: &p.UID}})
	}
	now := metav1.Now()
	p = p.DeepCopy()
	p.Status.Phase, p.Status.StartTime = corev1.PodRunning, &now
	for _, t := range []corev1.PodConditionType{corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady} {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: t, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	for _, c := range p.Spec.Containers {
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
	_, err := client.CoreV1().Pods(p.Namespace).UpdateStatus(ctx, p, metav1.UpdateOptions{})
	return err
}

// leaseEvery is how often a node renews its lease, as often as kubelets do.
const leaseEvery = 10 * time.Second

// renewLeases renews the leases of all nodes, evenly over the time between two renewals, until ctx ends.
func renewLeases(ctx context.Context, client kubernetes.Interface) error {
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	api := client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	leases := make([]*coordinationv1.Lease, len(list.Items))
	tick := time.NewTicker(max(leaseEvery/time.Duration(max(1, len(leases))), time.Millisecond))
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if len(leases) == 0 {
			continue
		}
		at, now := i%len(leases), metav1.NowMicro()
		if l := leases[at]; l != nil {
			l.Spec.RenewTime = &now
			leases[at], _ = api.Update(ctx, l, metav1.UpdateOptions{}) // one that fails is made again
			continue
		}
		name := list.Items[at].Name
		l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &name, RenewTime: &now}}
		leases[at], _ = api.Create(ctx, l, metav1.CreateOptions{})
	}
}
