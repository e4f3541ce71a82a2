package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const (
	cluster   = "failover"
	namespace = metav1.NamespaceDefault
	account   = "berth-scheduler" // of kube/install
	lease     = "berth-scheduler"
)

// world is a cluster with two schedulers and a load.
type world struct {
	options
	client  kubernetes.Interface
	config  string // the schedulers' kubeconfig
	made    int    // schedulers so far
	running []*member

	mu      sync.Mutex
	created map[string]time.Time // of pods of the load that have no node yet
	waiting []chan time.Time     // told of the next binding of a pod that was created after each was asked for
	since   []time.Time
	longest time.Duration // that a pod waited since it was last reset
}

// member is a scheduler.
type member struct {
	cmd  *exec.Cmd
	port int
}

func newWorld(ctx context.Context, o options) (*world, error) {
	w := &world{options: o, created: map[string]time.Time{}}
	os.Setenv("BERTH_HOME", filepath.Join(o.dir, "home"))
	os.Unsetenv("KUBECONFIG")
	fleet := filepath.Join(o.dir, "fleet.yaml")
	text := fmt.Sprintf("apiVersion: berth.dev/v1alpha1\nkind: Pool\nmetadata: {name: pool}\nspec:\n  nodes: %d\n  gpus: [{model: h100, count: 8}]\n", o.nodes)
	if err := os.WriteFile(fleet, []byte(text), 0o644); err != nil {
		return nil, err
	}
	if err := w.command(ctx, "up", "--detach", "--ephemeral", "--without-scheduler", "--name", cluster, "--fleet", fleet); err != nil {
		return nil, err
	}
	err := w.start(ctx)
	if err != nil {
		w.close()
	}
	return w, err
}

func (w *world) command(ctx context.Context, args ...string) error {
	if out, err := exec.CommandContext(ctx, w.berth, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("berth %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

func (w *world) start(ctx context.Context) error {
	if err := w.command(ctx, "install", "--name", cluster, "--replicas", "0"); err != nil {
		return err
	}
	admin := filepath.Join(w.dir, "home", cluster, "kubeconfig")
	config, err := clientcmd.BuildConfigFromFlags("", admin)
	if err != nil {
		return err
	}
	config.QPS = -1
	if w.client, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	if err := w.identify(ctx, admin); err != nil {
		return err
	}
	for range 2 {
		if err := w.add(ctx); err != nil {
			return err
		}
	}
	w.observe(ctx)
	go w.load(ctx)
	_, err = w.next(ctx, time.Minute)
	return err
}

// identify writes a kubeconfig of the installed ServiceAccount.
func (w *world) identify(ctx context.Context, admin string) error {
	token, err := w.client.CoreV1().ServiceAccounts(metav1.NamespaceSystem).CreateToken(ctx, account, &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(24 * 3600))}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	config, err := clientcmd.LoadFromFile(admin)
	if err != nil {
		return err
	}
	config.AuthInfos = map[string]*clientcmdapi.AuthInfo{account: {Token: token.Status.Token}}
	for _, c := range config.Contexts {
		c.AuthInfo = account
	}
	w.config = filepath.Join(w.dir, "scheduler.kubeconfig")
	return clientcmd.WriteToFile(*config, w.config)
}

// add starts a scheduler and waits until it is Ready: it leads, or stands by with the cluster in memory.
func (w *world) add(ctx context.Context) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	w.made++
	out, err := os.Create(filepath.Join(w.dir, fmt.Sprintf("scheduler-%d.log", w.made)))
	if err != nil {
		return err
	}
	defer out.Close()
	// The address is where the API server would find it; nobody asks here. It also tells the schedulers apart.
	cmd := exec.Command(w.berth, "scheduler", "--kubeconfig", w.config, "--listen", fmt.Sprintf("127.0.0.1:%d", port), "--advertise-address", fmt.Sprintf("10.9.%d.%d", w.made/250, 1+w.made%250))
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return err
	}
	m := &member{cmd: cmd, port: port}
	w.running = append(w.running, m)
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // of its own making
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
		answer, err := client.Get(fmt.Sprintf("https://127.0.0.1:%d/readyz", port))
		if err != nil {
			continue
		}
		answer.Body.Close()
		if answer.StatusCode == http.StatusOK {
			return nil
		}
	}
	return fmt.Errorf("scheduler %d is not ready", w.made)
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// leader is the index of the scheduler that holds the lease.
func (w *world) leader(ctx context.Context) (int, error) {
	l, err := w.client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, lease, metav1.GetOptions{})
	if err != nil {
		return 0, err
	}
	if l.Spec.HolderIdentity != nil {
		for i, m := range w.running {
			if holds(*l.Spec.HolderIdentity, m.cmd.Process.Pid) {
				return i, nil
			}
		}
	}
	return 0, fmt.Errorf("nobody here holds the lease: %+v", l.Spec)
}

// holds says whether a lease's holder is the process: cli.electionIdentity has the number between two others.
func holds(identity string, pid int) bool {
	parts := strings.Split(identity, "_")
	return len(parts) >= 3 && parts[len(parts)-2] == strconv.Itoa(pid)
}

// kill kills the leader, waits for the next binding, and starts another scheduler.
func (w *world) kill(ctx context.Context) (time.Duration, error) {
	i, err := w.leader(ctx)
	if err != nil {
		return 0, err
	}
	m := w.running[i]
	at := time.Now()
	if err := m.cmd.Process.Kill(); err != nil {
		return 0, err
	}
	m.cmd.Wait()
	w.running = append(w.running[:i:i], w.running[i+1:]...)
	bound, err := w.next(ctx, time.Minute)
	if err != nil {
		return 0, err
	}
	return bound.Sub(at), w.add(ctx)
}

// roll replaces all schedulers one by one: a new one is Ready before an old one is asked to end. It returns the longest that a pod
// waited for its node meanwhile.
func (w *world) roll(ctx context.Context) (time.Duration, error) {
	w.mu.Lock()
	w.longest = 0
	w.mu.Unlock()
	for range 2 {
		if err := w.add(ctx); err != nil {
			return 0, err
		}
		old := w.running[0]
		w.running = w.running[1:]
		if err := old.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			return 0, err
		}
		if err := old.cmd.Wait(); err != nil {
			return 0, fmt.Errorf("the old scheduler ended with %w", err)
		}
	}
	if _, err := w.next(ctx, time.Minute); err != nil {
		return 0, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.longest, nil
}

// load makes pods until ctx ends. Each holds a GPU for a moment, and is deleted when it has ended.
func (w *world) load(ctx context.Context) {
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("load-%d", i), Labels: map[string]string{"load": "true"}, Annotations: map[string]string{"sim.berth.dev/run": "200ms", "sim.berth.dev/pull": "0s"}},
			Spec: corev1.PodSpec{
				SchedulerName: "berth", RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: new(int64(0)),
				Containers: []corev1.Container{{Name: "work", Image: "registry.example/work:1", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}}}},
			},
		}
		w.mu.Lock()
		w.created[pod.Name] = time.Now()
		w.mu.Unlock()
		if _, err := w.client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			w.mu.Lock()
			delete(w.created, pod.Name)
			w.mu.Unlock()
		}
	}
}

// observe watches the load: who is bound when, and who has ended.
func (w *world) observe(ctx context.Context) {
	factory := informers.NewSharedInformerFactoryWithOptions(w.client, 0, informers.WithNamespace(namespace))
	see := func(x any) {
		p := x.(*corev1.Pod)
		if p.Spec.NodeName != "" {
			w.bound(p.Name, time.Now())
		}
		if p.Status.Phase == corev1.PodSucceeded && p.DeletionTimestamp == nil {
			go w.client.CoreV1().Pods(namespace).Delete(ctx, p.Name, metav1.DeleteOptions{})
		}
	}
	factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: see, UpdateFunc: func(_, x any) { see(x) }})
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
}

// bound notes that a pod has a node, and tells those who wait for one that was created after they asked.
func (w *world) bound(name string, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	created, ok := w.created[name]
	if !ok {
		return
	}
	delete(w.created, name)
	w.longest = max(w.longest, now.Sub(created))
	for i, ch := range w.waiting {
		if created.After(w.since[i]) {
			select {
			case ch <- now:
			default: // told already
			}
		}
	}
}

// next waits for the binding of a pod that is created from now on.
func (w *world) next(ctx context.Context, limit time.Duration) (time.Time, error) {
	ch := make(chan time.Time, 1)
	w.mu.Lock()
	w.waiting, w.since = append(w.waiting, ch), append(w.since, time.Now())
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		for i := range w.waiting {
			if w.waiting[i] == ch {
				w.waiting, w.since = append(w.waiting[:i:i], w.waiting[i+1:]...), append(w.since[:i:i], w.since[i+1:]...)
				return
			}
		}
	}()
	select {
	case at := <-ch:
		return at, nil
	case <-time.After(limit):
		return time.Time{}, fmt.Errorf("nothing was bound for %v", limit)
	case <-ctx.Done():
		return time.Time{}, ctx.Err()
	}
}

// close ends the schedulers and the cluster.
func (w *world) close() {
	for _, m := range w.running {
		m.cmd.Process.Kill()
		m.cmd.Wait()
	}
	if err := w.command(context.Background(), "down", "--name", cluster); err != nil && !errors.Is(err, os.ErrNotExist) {
		fmt.Fprintln(os.Stderr, "failover:", err)
	}
}
