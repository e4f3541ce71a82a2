package kubelet

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/berth-dev/berth/fleet/device"
	"github.com/berth-dev/berth/fleet/gpu"
	"github.com/berth-dev/berth/fleet/workload"
)

// world is a kubelet over machines of our own and an API server that is client-go's object tracker: it
// watches and stores, but knows no graceful deletion and no validation.
type world struct {
	t      *testing.T
	client *fake.Clientset
	writes atomic.Int64 // status writes
	told   atomic.Int64 // changes of the GPU stack
	stop   context.CancelFunc
	ended  chan struct{}
	k      *Kubelet

	mu       sync.Mutex
	machines map[string]*Machine
	down     map[string]bool
	events   map[string][]string // reasons by pod
}

// newWorld starts a kubelet with one machine "n0" of 8 H100.
func newWorld(t *testing.T, objects ...runtime.Object) *world {
	t.Helper()
	w := &world{t: t, client: fake.NewClientset(objects...), machines: map[string]*Machine{}, down: map[string]bool{}, events: map[string][]string{}}
	w.client.PrependReactor("create", "events", w.note)
	w.client.PrependReactor("update", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if a.GetSubresource() == "status" {
			w.writes.Add(1)
		}
		return false, nil, nil
	})
	w.addMachine("n0", 8)
	w.start()
	t.Cleanup(w.shutdown)
	return w
}

func (w *world) addMachine(name string, gpus int) *Machine {
	h100, _ := gpu.Lookup("h100")
	m := &Machine{
		Name: name, IP: "10.8.0.2",
		Devices: device.New(device.Config{
			Devices:    gpu.Devices(name, []gpu.Group{{Model: h100, Count: gpus, MemoryMiB: h100.MemoryMiB, NVLink: true}}),
			Driver:     gpu.Driver{Version: "580.95.05", CUDA: "13.0"},
			HostDriver: true,
		}),
		Allocatable: func() corev1.ResourceList { return allocatable(gpus) },
		Down:        func() bool { w.mu.Lock(); defer w.mu.Unlock(); return w.down[name] },
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelOSStable: "linux", "gpu-pool": "h100"}},
		Spec:       corev1.NodeSpec{PodCIDR: "10.244.0.0/16"},
	}
	m.Node = func() *corev1.Node { return node }
	m.Devices.SetStack([]device.StackPod{{Name: "gpu-operator/plugin", Role: device.Plugin, Ready: true, HostPaths: []string{"/var/lib/kubelet/device-plugins"}}}, time.Now())
	w.mu.Lock()
	defer w.mu.Unlock()
	w.machines[name] = m
	return m
}

func allocatable(gpus int) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("256Gi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("100Gi"), corev1.ResourcePods: resource.MustParse("110"),
		device.Resource: *resource.NewQuantity(int64(gpus), resource.DecimalSI),
	}
}

// start runs a new Kubelet over the same objects, as a new process would.
func (w *world) start() {
	w.k = New(Options{
		Client:       w.client,
		Workloads:    workload.New(workload.Options{}),
		StackChanged: func(string) { w.told.Add(1) },
		Machine: func(node string) *Machine {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.machines[node]
		},
	})
	ctx, stop := context.WithCancel(context.Background())
	w.stop, w.ended = stop, make(chan struct{})
	go func() { _ = w.k.Run(ctx); close(w.ended) }()
}

func (w *world) shutdown() {
	w.stop()
	<-w.ended
}

func (w *world) setDown(node string, down bool) {
	w.mu.Lock()
	w.down[node] = down
	w.mu.Unlock()
	w.k.NodeChanged(node)
}

// create binds a new pod and lets things settle.
func (w *world) create(pod *corev1.Pod) {
	w.t.Helper()
	if _, err := w.client.CoreV1().Pods(pod.Namespace).Create(context.Background(), pod, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

func (w *world) get(name string) *corev1.Pod {
	w.t.Helper()
	pod, err := w.client.CoreV1().Pods("default").Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return pod
}

// remove asks for graceful deletion, as the API server records it.
func (w *world) remove(name string, grace time.Duration) {
	w.t.Helper()
	pod := w.get(name).DeepCopy()
	at, secs := metav1.NewTime(time.Now().Add(grace)), int64(grace/time.Second)
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &at, &secs
	if _, err := w.client.CoreV1().Pods(pod.Namespace).Update(context.Background(), pod, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

func (w *world) exists(name string) bool {
	_, err := w.client.CoreV1().Pods("default").Get(context.Background(), name, metav1.GetOptions{})
	return err == nil
}

// reasons lists the reasons of the pod's events so far. They are noted on their way to the tracker,
// which drops events of one pod in the same nanosecond: in a bubble those are many.
func (w *world) reasons(pod string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Compact(slices.Sorted(slices.Values(w.events[pod])))
}

func (w *world) note(a clienttesting.Action) (bool, runtime.Object, error) {
	e := a.(clienttesting.CreateAction).GetObject().(*corev1.Event)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events[e.InvolvedObject.Name] = append(w.events[e.InvolvedObject.Name], e.Reason)
	return false, nil, nil
}

// testPod makes a bound pod with one container; change it with the given functions.
func testPod(name, image string, changes ...func(*corev1.Pod)) *corev1.Pod {
	grace := int64(30)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-" + name)},
		Spec: corev1.PodSpec{
			NodeName: "n0", RestartPolicy: corev1.RestartPolicyAlways, TerminationGracePeriodSeconds: &grace,
			Containers: []corev1.Container{{Name: "c", Image: image}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending, QOSClass: corev1.PodQOSBestEffort},
	}
	for _, change := range changes {
		change(pod)
	}
	return pod
}

func command(argv ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Command = argv }
}

func policy(r corev1.RestartPolicy) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.RestartPolicy = r }
}

func annotate(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		if p.Annotations == nil {
			p.Annotations = map[string]string{}
		}
		p.Annotations[key] = value
	}
}

func request(name corev1.ResourceName, q string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		r := &p.Spec.Containers[0].Resources
		if r.Requests == nil {
			r.Requests, r.Limits = corev1.ResourceList{}, corev1.ResourceList{}
		}
		r.Requests[name], r.Limits[name] = resource.MustParse(q), resource.MustParse(q)
	}
}

func gpus(n int) func(*corev1.Pod) { return request(device.Resource, fmt.Sprint(n)) }

// state is a container's state in one word, for comparison.
func state(s *corev1.ContainerStatus) string {
	switch {
	case s.State.Running != nil:
		return "running"
	case s.State.Terminated != nil:
		return fmt.Sprintf("terminated %s %d", s.State.Terminated.Reason, s.State.Terminated.ExitCode)
	case s.State.Waiting != nil:
		return "waiting " + s.State.Waiting.Reason
	}
	return "unknown"
}
