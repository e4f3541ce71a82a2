package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

const (
	schedulerImage = "registry.example/berth:test"
	workImage      = "registry.example/work:1"
	pauseImage     = "registry.example/pause:1"

	schedulerLabel = "app.kubernetes.io/name=berth-scheduler"
	gangAnnotation = "berth.dev/gang"
	team           = "default"
)

// scene is a cluster with a real node, and the hands that break it.
type scene struct {
	options
	client kubernetes.Interface
	eyes   *observer
	node   *computer
	plugin *exec.Cmd
	random *rand.Rand
	began  time.Time
	gangs  int
}

// say prints a line of the story, with the time since it began.
func (s *scene) say(format string, args ...any) {
	fmt.Printf("%6.1fs  %s\n", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}

// stories are what can be played on a cluster whose node is there.
var stories = map[string]func(*scene, context.Context) error{"faults": (*scene).faults, "lives": (*scene).live, "chart": (*scene).helm}

func play(args []string) int {
	klog.LogToStderr(false) // requests fail here while things are broken
	klog.SetOutput(io.Discard)
	s := &scene{options: parse("play", args), began: time.Now()}
	s.random = newRandom(s.seed)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	err := s.raise(ctx)
	if err == nil {
		err = stories[s.story](s, ctx)
	}
	if s.eyes != nil {
		s.say("%s", s.eyes.summary())
	}
	if err != nil {
		s.say("%v", err)
		return 1
	}
	return 0
}

func newRandom(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }

// until waits for something, and says what it waited for if it does not come.
func (s *scene) until(what string, limit time.Duration, done func() (bool, error)) error {
	var last error
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		ok, err := done()
		if ok {
			return nil
		}
		last = err
	}
	return fmt.Errorf("%s did not come in %v (%v)", what, limit, last)
}

// command runs one of Berth's.
func (s *scene) command(args ...string) (string, error) {
	out, err := exec.Command(s.berth, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("berth %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// raise brings up the control plane, the node, and the scheduler on it.
func (s *scene) raise(ctx context.Context) error {
	data, fleet := filepath.Join(s.dir, "data"), filepath.Join(s.dir, "fleet.yaml")
	os.Setenv("BERTH_HOME", filepath.Join(s.dir, "home"))
	os.Unsetenv("KUBECONFIG")
	// Pods without GPUs stay off simulated nodes: the scheduler's are real containers.
	text := fmt.Sprintf("apiVersion: berth.dev/v1alpha1\nkind: Pool\nmetadata: {name: simulated}\nspec:\n  nodes: %d\n  gpus: [{model: h100, count: 4}]\n  labels: {berth.test/simulated: \"true\"}\n  taints: [{key: nvidia.com/gpu, value: present, effect: NoSchedule}]\n", s.nodes)
	if err := os.WriteFile(fleet, []byte(text), 0o644); err != nil {
		return err
	}
	if _, err := s.command("up", "--detach", "--ephemeral", "--without-scheduler", "--data", data, "--fleet", fleet); err != nil {
		return err
	}
	s.say("the control plane is up, with %d simulated nodes", s.nodes)
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(data, "kubeconfig"))
	if err != nil {
		return err
	}
	config.QPS = -1
	if s.client, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	go (&forwarder{client: s.client, api: hostPort(config.Host)}).run(ctx)
	if s.node, err = newComputer(filepath.Join(s.dir, "node"), s.tools, os.Getenv(groupVariable), config.Host, filepath.Join(data, "keys")); err != nil {
		return err
	}
	if s.eyes, err = observe(ctx, config, s.node.file("kubelet")); err != nil {
		return err
	}
	if err := s.node.on(); err != nil {
		return err
	}
	if err := s.images(); err != nil {
		return err
	}
	if err := s.ready(ctx); err != nil {
		return err
	}
	if err := s.install(ctx); err != nil {
		return err
	}
	return s.plug()
}

// images gives the node's containerd what its pods run: no registry can be reached.
func (s *scene) images() error {
	if err := s.until("containerd", time.Minute, func() (bool, error) {
		_, err := s.node.ctr("version")
		return err == nil, err
	}); err != nil {
		return err
	}
	files := []string{s.image}
	for name, entrypoint := range map[string][]string{pauseImage: {"/node", "pause"}, workImage: {"/node", "work"}} {
		file := s.node.file(entrypoint[1] + ".tar")
		if err := packImage(file, name, entrypoint...); err != nil {
			return err
		}
		files = append(files, file)
	}
	for _, file := range files {
		if _, err := s.node.ctr("images", "import", file); err != nil {
			return err
		}
	}
	s.say("containerd has the images")
	return nil
}

func (s *scene) ready(ctx context.Context) error {
	var n *corev1.Node
	err := s.until("node "+nodeName, time.Minute, func() (ok bool, err error) {
		if n, err = s.client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{}); err != nil {
			return false, err
		}
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady {
				return c.Status == corev1.ConditionTrue, fmt.Errorf("%s: %s", c.Reason, c.Message)
			}
		}
		return false, nil
	})
	if err == nil {
		s.say("%s is Ready: kubelet %s, %s", nodeName, n.Status.NodeInfo.KubeletVersion, n.Status.NodeInfo.ContainerRuntimeVersion)
	}
	return err
}

func (s *scene) install(ctx context.Context) error {
	if s.story == "chart" {
		if err := s.helmInstall(); err != nil {
			return err
		}
	} else if _, err := s.command("install", "--name", "berth", "--image", schedulerImage); err != nil {
		return err
	}
	if err := s.schedulers(ctx); err != nil {
		return err
	}
	s.say("two schedulers run as containers on %s; one leads", nodeName)
	return nil
}

// schedulers waits until two schedulers are Ready on the real node and one of them leads.
func (s *scene) schedulers(ctx context.Context) error {
	return s.until("the schedulers", 2*time.Minute, func() (bool, error) {
		pods, err := s.client.CoreV1().Pods(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{LabelSelector: schedulerLabel})
		if err != nil {
			return false, err
		}
		ready, state := 0, ""
		for _, p := range pods.Items {
			for _, c := range p.Status.ContainerStatuses {
				if c.Ready && p.Spec.NodeName == nodeName {
					ready++
				}
				if w := c.State.Waiting; w != nil {
					state = w.Reason + ": " + w.Message
				}
			}
		}
		if _, err := s.eyes.metrics(ctx); err != nil {
			return false, fmt.Errorf("%d of 2 are ready: %w: %s", ready, err, state)
		}
		return ready == 2, fmt.Errorf("%d of 2 are ready: %s", ready, state)
	})
}

// plug starts the device plugin, and waits until all its devices are offered.
func (s *scene) plug() error {
	before := s.registrations()
	if err := s.startPlugin(); err != nil {
		return err
	}
	return s.registered(before)
}

// registrations is how often the plugin has registered.
func (s *scene) registrations() int {
	text, _ := os.ReadFile(s.node.log("plugin"))
	return strings.Count(string(text), "registered")
}

// offered waits until the plugin has registered once more, and all its devices are offered.
func (s *scene) offered(before int) error {
	if err := s.until("registration", time.Minute, func() (bool, error) { return s.registrations() > before, nil }); err != nil {
		return err
	}
	return s.until("devices", time.Minute, func() (bool, error) {
		n := s.eyes.offers()
		return n == int64(s.devices), fmt.Errorf("%d of %d are offered", n, s.devices)
	})
}

// registered is offered, and says so.
func (s *scene) registered(before int) error {
	err := s.offered(before)
	if err == nil {
		s.say("the device plugin is registered; %s offers %d GPUs", nodeName, s.devices)
	}
	return err
}

func (s *scene) startPlugin() error {
	out, err := os.OpenFile(s.node.log("plugin"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer out.Close()
	s.plugin = exec.Command("/proc/self/exe", "plugin", "-sockets", s.node.file("kubelet", "device-plugins"), "-devices", s.node.file("devices"), "-count", strconv.Itoa(s.devices))
	s.plugin.Stdout, s.plugin.Stderr = out, out
	return s.plugin.Start()
}

func (s *scene) killPlugin() {
	s.plugin.Process.Kill()
	s.plugin.Wait()
}

// real is where pods run that must run on the real node.
var real = map[string]string{corev1.LabelHostname: nodeName}

// gang submits a gang of pods with a device each, and returns its name. Edits change its pods' template.
func (s *scene) gang(ctx context.Context, size int32, run time.Duration, edits ...func(*corev1.PodSpec)) (string, error) {
	s.gangs++
	name := fmt.Sprintf("gang-%d", s.gangs)
	limits := corev1.ResourceList{resourceName: resource.MustParse("1")}
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: batchv1.JobSpec{
			Completions: &size, Parallelism: &size, CompletionMode: new(batchv1.IndexedCompletion), BackoffLimit: new(int32(1000)), TTLSecondsAfterFinished: new(int32(20)),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{gangAnnotation: name, "berth.dev/min": fmt.Sprint(size), "sim.berth.dev/run": run.String()}},
				Spec: corev1.PodSpec{
					SchedulerName: "berth", RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: new(false), TerminationGracePeriodSeconds: new(int64(1)),
					Containers: []corev1.Container{{Name: "work", Image: workImage, Args: []string{run.String()}, Resources: corev1.ResourceRequirements{Limits: limits}}},
				},
			},
		},
	}
	for _, edit := range edits {
		edit(&job.Spec.Template.Spec)
	}
	_, err := s.client.BatchV1().Jobs(team).Create(ctx, job, metav1.CreateOptions{})
	return name, err
}

func onNode(p *corev1.PodSpec) { p.NodeSelector = real }

// complete waits until the gangs have done their work.
func (s *scene) complete(ctx context.Context, names ...string) error {
	for _, name := range names {
		if err := s.until(name+" to complete", 3*time.Minute, func() (bool, error) {
			j, err := s.client.BatchV1().Jobs(team).Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return true, nil // it was removed after it completed
			}
			if err != nil {
				return false, err
			}
			return j.Status.CompletionTime != nil, fmt.Errorf("%d active, %d ready, %d succeeded, %d failed", j.Status.Active, value(j.Status.Ready), j.Status.Succeeded, j.Status.Failed)
		}); err != nil {
			return err
		}
	}
	return nil
}

func value(n *int32) int32 {
	if n == nil {
		return 0
	}
	return *n
}

// running waits until a gang runs whole.
func (s *scene) running(ctx context.Context, name string, size int32) error {
	return s.until(name+" to run whole", 3*time.Minute, func() (bool, error) {
		j, err := s.client.BatchV1().Jobs(team).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		return value(j.Status.Ready) == size && j.Status.Active == size, fmt.Errorf("%d active, %d ready, %d failed", j.Status.Active, value(j.Status.Ready), j.Status.Failed)
	})
}

// processes are those on the node whose command line begins so.
func processes(words ...string) ([]int, error) {
	folders, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil, err
	}
	var out []int
	for _, file := range folders {
		text, err := os.ReadFile(file)
		if err == nil && strings.HasPrefix(string(text), strings.Join(words, "\x00")+"\x00") {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			out = append(out, pid)
		}
	}
	return out, nil
}

func kill(words ...string) error {
	pids, err := processes(words...)
	if err != nil {
		return err
	}
	if len(pids) == 0 {
		return fmt.Errorf("no process %s", strings.Join(words, " "))
	}
	return syscall.Kill(pids[0], syscall.SIGKILL)
}
