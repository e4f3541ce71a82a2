package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

const (
	podCount  = 10000
	podNodes  = 100
	downPatch = `{"metadata":{"annotations":{"sim.berth.dev/down":%s}}}`
)

// BenchmarkPodsRunning compares, in one cluster, the rate at which bound pods become
// Running with the rate at which a bare client writes pod statuses and does nothing else.
// Pods are bound while their machines have no power, so that creating them is not part of
// either figure, and somebody watches in both.
func BenchmarkPodsRunning(b *testing.B) {
	for b.Loop() {
		c := newCluster(b)
		c.up("--fleet", fleetFile(b, podNodes), "--ephemeral")
		client := c.client()
		bare := bareRate(b, client)
		fleet := fleetRate(b, client)
		b.ReportMetric(fleet, "pods/s")
		b.ReportMetric(bare, "bare-pods/s")
		b.ReportMetric(fleet/bare, "ratio")
	}
	b.ReportMetric(0, "ns/op")
}

// bareRate binds pods to machines that are off and writes their statuses itself.
func bareRate(b *testing.B, client kubernetes.Interface) float64 {
	b.Helper()
	power(b, client, false)
	pods := createPods(b, client, "bare")
	ctx := context.Background()
	var running atomic.Int64
	defer watchRunning(b, client, "bare", &running)()
	took := parallel(b, podCount, func(i int) error {
		p := pods[i]
		setRunning(p)
		_, err := client.CoreV1().Pods(p.Namespace).UpdateStatus(ctx, p, metav1.UpdateOptions{})
		return err
	})
	parallel(b, podCount, func(i int) error {
		zero := int64(0)
		return client.CoreV1().Pods("bare").Delete(ctx, pods[i].Name, metav1.DeleteOptions{GracePeriodSeconds: &zero})
	})
	return podCount / took.Seconds()
}

// fleetRate binds pods to machines that are off, switches them on, and watches.
func fleetRate(b *testing.B, client kubernetes.Interface) float64 {
	b.Helper()
	createPods(b, client, "fleet")
	var running atomic.Int64
	defer watchRunning(b, client, "fleet", &running)()
	start := time.Now()
	power(b, client, true)
	waitCount(b, "pods running", podCount, 5*time.Minute, func() int { return int(running.Load()) })
	return podCount / time.Since(start).Seconds()
}

func power(b *testing.B, client kubernetes.Interface, on bool) {
	b.Helper()
	value := `"true"`
	if on {
		value = "null"
	}
	parallel(b, podNodes, func(i int) error {
		_, err := client.CoreV1().Nodes().Patch(context.Background(), nodeName(i), types.MergePatchType, fmt.Appendf(nil, downPatch, value), metav1.PatchOptions{})
		return err
	})
}

func nodeName(i int) string { return fmt.Sprintf("n-%d", i%podNodes) }

func createPods(b *testing.B, client kubernetes.Interface, namespace string) []*corev1.Pod {
	b.Helper()
	ctx := context.Background()
	if _, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	waitCount(b, "service account", 1, time.Minute, func() int {
		if _, err := client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{}); err != nil {
			return 0
		}
		return 1
	})
	pods := make([]*corev1.Pod, podCount)
	parallel(b, podCount, func(i int) (err error) {
		pods[i], err = client.CoreV1().Pods(namespace).Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p-%05d", i)},
			Spec: corev1.PodSpec{
				NodeName:    nodeName(i),
				Containers:  []corev1.Container{{Name: "main", Image: "registry.example/serve:1"}},
				Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			},
		}, metav1.CreateOptions{})
		return err
	})
	return pods
}

// setRunning is the least a status needs to say that a pod runs.
func setRunning(p *corev1.Pod) {
	now, yes := metav1.Now(), true
	st := &p.Status
	st.Phase, st.HostIP, st.PodIP, st.StartTime = corev1.PodRunning, "10.0.0.1", "10.1.2.3", &now
	st.HostIPs, st.PodIPs = []corev1.HostIP{{IP: st.HostIP}}, []corev1.PodIP{{IP: st.PodIP}}
	for _, t := range []corev1.PodConditionType{corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		st.Conditions = append(st.Conditions, corev1.PodCondition{Type: t, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	for _, c := range p.Spec.Containers {
		st.ContainerStatuses = append(st.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, Ready: true, Started: &yes,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
}

// watchRunning keeps count of the pods in a namespace that have become Running.
func watchRunning(b *testing.B, client kubernetes.Interface, namespace string, n *atomic.Int64) (stop func()) {
	b.Helper()
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
	informer := factory.Core().V1().Pods().Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(old, obj any) {
			if old.(*corev1.Pod).Status.Phase != corev1.PodRunning && obj.(*corev1.Pod).Status.Phase == corev1.PodRunning {
				n.Add(1)
			}
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan struct{})
	factory.Start(done)
	factory.WaitForCacheSync(done)
	return func() { close(done) }
}
