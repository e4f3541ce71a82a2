package kubelet

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/berth-dev/berth/fleet/device"
	"github.com/berth-dev/berth/fleet/stream"
)

func ref(pod string) stream.Ref { return stream.Ref{Namespace: "default", Pod: pod, Container: "c"} }

func (w *world) logs(pod string, o corev1.PodLogOptions) (string, error) {
	var out bytes.Buffer
	err := w.k.Logs(context.Background(), ref(pod), &o, &out)
	return out.String(), err
}

func TestLogsAreWhatTheCommandPrinted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(testPod("p", "busybox", command("sh", "-c", "echo hello from $HOSTNAME; echo $NVIDIA_VISIBLE_DEVICES; exit 3"), gpus(1), policy(corev1.RestartPolicyNever)))
		pod := w.get("p")
		got, err := w.logs("p", corev1.PodLogOptions{})
		if want := "hello from p\n" + recordedGPUs(pod)["c"][0] + "\n"; got != want || err != nil {
			t.Errorf("log %q, %v; want %q", got, err, want)
		}
		if s := state(&pod.Status.ContainerStatuses[0]); s != "terminated Error 3" {
			t.Errorf("state %s", s)
		}
	})
}

func TestLogErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(testPod("runs", "pause"))
		w.create(testPod("pulls", "busybox", annotate("sim.berth.dev/pull", "1h")))
		w.create(testPod("missing", "example.com/does-not-exist"))
		time.Sleep(5 * time.Second)
		text := func(pod string, o corev1.PodLogOptions) string {
			_, err := w.logs(pod, o)
			if err == nil {
				return ""
			}
			return err.Error()
		}
		got := []string{
			text("runs", corev1.PodLogOptions{}),
			text("runs", corev1.PodLogOptions{Previous: true}),
			text("pulls", corev1.PodLogOptions{}),
			text("missing", corev1.PodLogOptions{}),
			text("nobody", corev1.PodLogOptions{}),
		}
		want := []string{
			"",
			`previous terminated container "c" in pod "runs" not found`,
			`container "c" in pod "pulls" is waiting to start: ContainerCreating`,
			`container "c" in pod "missing" is waiting to start: trying and failing to pull image`,
			`pod "default/nobody" not found`,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestPreviousLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(testPod("p", "busybox", command("sh", "-c", "echo x; sleep 1; exit 1")))
		time.Sleep(30 * time.Second) // three instances, the third in back-off
		synctest.Wait()
		now, err := w.logs("p", corev1.PodLogOptions{})
		before, err2 := w.logs("p", corev1.PodLogOptions{Previous: true})
		if now != "x\n" || before != "x\n" || errors.Join(err, err2) != nil {
			t.Errorf("now %q, before %q, %v %v", now, before, err, err2)
		}
	})
}

func TestExec(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(testPod("p", "nvidia/cuda:12.8.0-base-ubuntu24.04", command("sleep", "1000"), gpus(2)))
		w.create(testPod("done", "busybox", command("true"), policy(corev1.RestartPolicyNever)))
		run := func(pod string, argv ...string) (string, int, error) {
			var out bytes.Buffer
			code, err := w.k.Exec(context.Background(), ref(pod), argv, stream.Streams{Stdout: &out, Stderr: &out})
			return out.String(), code, err
		}
		if out, code, err := run("p", "sh", "-c", "echo a; exit 7"); out != "a\n" || code != 7 || err != nil {
			t.Errorf("sh: %q %d %v", out, code, err)
		}
		out, code, err := run("p", "nvidia-smi", "-L")
		if n := strings.Count(out, "NVIDIA H100"); n != 2 || code != 0 || err != nil {
			t.Errorf("nvidia-smi -L: %q %d %v", out, code, err)
		}
		if out, code, _ := run("p", "python3", "-c", "1"); code != 1 || !strings.Contains(out, "simulated") {
			t.Errorf("python by hand: %q %d", out, code)
		}
		if out, code, _ := run("p", "no-such-command"); code != 127 {
			t.Errorf("unknown command: %q %d", out, code)
		}
		if _, _, err := run("done", "true"); err == nil {
			t.Error("exec into a container that has ended")
		}
	})
}

func TestAttach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(testPod("p", "busybox", policy(corev1.RestartPolicyNever), func(p *corev1.Pod) {
			p.Spec.Containers[0].Stdin, p.Spec.Containers[0].StdinOnce = true, true
		}))
		in, typed := io.Pipe()
		var out bytes.Buffer
		done := make(chan error)
		go func() {
			done <- w.k.Attach(context.Background(), ref("p"), stream.Streams{Stdin: in, Stdout: &out, Stderr: &out})
		}()
		synctest.Wait()
		io.WriteString(typed, "echo typed\nexit 5\n")
		typed.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if s := w.get("p").Status; out.String() != "typed\n" || state(&s.ContainerStatuses[0]) != "terminated Error 5" {
			t.Errorf("output %q, %s", out.String(), state(&s.ContainerStatuses[0]))
		}
	})
}

func TestPortForward(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(testPod("p", "example.com/server", func(p *corev1.Pod) { p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 8000}} }))
		ours, theirs := net.Pipe()
		done := make(chan error)
		go func() {
			done <- w.k.PortForward(context.Background(), stream.Ref{Namespace: "default", Pod: "p"}, 8000, theirs)
		}()
		io.WriteString(ours, "GET / HTTP/1.0\r\n\r\n")
		first := make([]byte, 15)
		io.ReadFull(ours, first)
		ours.Close()
		<-done
		if string(first) != "HTTP/1.0 200 OK" {
			t.Errorf("answer %q", first)
		}
		err := w.k.PortForward(context.Background(), stream.Ref{Namespace: "default", Pod: "p"}, 9, theirs)
		if err == nil || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("a port that nobody listens on: %v", err)
		}
	})
}

// The API server reaches a pod by its address for as long as the pod has it, and nobody by any other.
func TestDialPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(testPod("p", "example.com/server", func(p *corev1.Pod) { p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 8000}} }))
		at := netip.MustParseAddr(w.get("p").Status.PodIP)
		conn, found, err := w.k.DialPod(t.Context(), netip.AddrPortFrom(at, 8000))
		if !found || err != nil {
			t.Fatal(found, err)
		}
		io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n")
		first := make([]byte, 15)
		io.ReadFull(conn, first)
		conn.Close()
		if string(first) != "HTTP/1.0 200 OK" {
			t.Errorf("answer %q", first)
		}
		if _, found, err := w.k.DialPod(t.Context(), netip.AddrPortFrom(at, 9)); !found || err == nil || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("a port that nobody listens on: %v, %v", found, err)
		}
		if _, found, err := w.k.DialPod(t.Context(), netip.AddrPortFrom(at.Next(), 8000)); found || err != nil {
			t.Errorf("an address that no pod has: %v, %v", found, err)
		}
		if err := w.client.CoreV1().Pods("default").Delete(t.Context(), "p", deleteNow()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, found, err := w.k.DialPod(t.Context(), netip.AddrPortFrom(at, 8000)); found || err != nil {
			t.Errorf("a pod that is gone: %v, %v", found, err)
		}
	})
}

func TestProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		probe := func(path string, port int) *corev1.Probe {
			return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromInt(port)}}, PeriodSeconds: 5, FailureThreshold: 2, SuccessThreshold: 1, TimeoutSeconds: 1}
		}
		server := func(change func(*corev1.Container)) func(*corev1.Pod) {
			return func(p *corev1.Pod) {
				c := &p.Spec.Containers[0]
				c.Ports = []corev1.ContainerPort{{ContainerPort: 8000}}
				change(c)
			}
		}
		w.create(testPod("ready", "example.com/server", server(func(c *corev1.Container) { c.ReadinessProbe = probe("/", 8000) })))
		w.create(testPod("unready", "example.com/server", server(func(c *corev1.Container) { c.ReadinessProbe = probe("/", 9) })))
		w.create(testPod("dies", "example.com/server", server(func(c *corev1.Container) { c.LivenessProbe = probe("/", 9) })))
		time.Sleep(8 * time.Second)
		synctest.Wait()
		type row struct {
			Ready    bool
			Restarts int32
		}
		got := map[string]row{}
		for _, name := range []string{"ready", "unready", "dies"} {
			c := w.get(name).Status.ContainerStatuses[0]
			got[name] = row{c.Ready, c.RestartCount}
		}
		want := map[string]row{"ready": {true, 0}, "unready": {false, 0}, "dies": {true, 1}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if reasons := w.reasons("dies"); !contains(reasons, "Unhealthy") || !contains(reasons, "Killing") {
			t.Errorf("events %v", reasons)
		}
	})
}

func TestHooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		exec := func(s string) *corev1.LifecycleHandler {
			return &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"sh", "-c", s}}}
		}
		w.create(testPod("p", "busybox", command("sleep", "1000"), func(p *corev1.Pod) {
			p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: exec("true"), PreStop: exec("sleep 10")}
		}))
		w.create(testPod("bad", "busybox", command("sleep", "1000"), policy(corev1.RestartPolicyNever), func(p *corev1.Pod) {
			p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: exec("false")}
		}))
		if s := w.get("bad").Status; s.Phase != corev1.PodFailed {
			t.Errorf("failed postStart hook: %s", s.Phase)
		}
		w.remove("p", 30*time.Second)
		time.Sleep(9 * time.Second)
		if !w.exists("p") {
			t.Error("the preStop hook was cut short")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if w.exists("p") {
			t.Error("the pod outlived its preStop hook")
		}
	})
}

func TestStackPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.machines["n0"].StartTime = func(device.Role) time.Duration { return time.Minute }
		w.create(testPod("driver", "nvcr.io/nvidia/driver:580.95.05"))
		time.Sleep(30 * time.Second)
		installing := w.k.StackPods("n0")
		time.Sleep(31 * time.Second)
		synctest.Wait()
		ready := w.k.StackPods("n0")
		w.setDown("n0", true)
		synctest.Wait()
		lost := w.k.StackPods("n0")
		w.setDown("n0", false)
		time.Sleep(61 * time.Second)
		synctest.Wait()
		back := w.k.StackPods("n0")
		w.remove("driver", 30*time.Second)
		got := []any{installing[0].Ready, ready[0].Ready, lost[0].Ready, back[0].Ready, len(w.k.StackPods("n0")), w.told.Load()}
		if diff := cmp.Diff([]any{false, true, false, true, 0, int64(6)}, got); diff != "" {
			t.Error(diff)
		}
	})
}

// After a restart the API server still has what was written before, and the machine is not up at once. Whoever looks when it
// is told to sees the pod come back.
func TestStackPodsOfAnEarlierLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(testPod("driver", "nvcr.io/nvidia/driver:580.95.05"))
		time.Sleep(time.Minute)
		w.shutdown()

		w.down["n0"] = true
		w.start()
		synctest.Wait()
		down, before := w.k.StackPods("n0")[0].Ready, w.told.Load()
		w.setDown("n0", false)
		time.Sleep(time.Minute)
		synctest.Wait()
		got := []bool{down, w.told.Load() > before, w.k.StackPods("n0")[0].Ready}
		if diff := cmp.Diff([]bool{false, true, true}, got); diff != "" {
			t.Error(diff)
		}
	})
}

// A probe's own grace period comes before the pod's, which here is half a minute.
func TestProbeHasItsOwnGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(testPod("p", "example.com/server", annotate("sim.berth.dev/ignore-sigterm", "true"), func(p *corev1.Pod) {
			p.Spec.Containers[0].LivenessProbe = &corev1.Probe{
				ProbeHandler:  corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(9)}},
				PeriodSeconds: 1, FailureThreshold: 1, TerminationGracePeriodSeconds: new(int64(3)),
			}
		}))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		early := w.get("p").Status.ContainerStatuses[0].RestartCount
		time.Sleep(2 * time.Second)
		synctest.Wait()
		late := w.get("p").Status.ContainerStatuses[0]
		if diff := cmp.Diff([]any{int32(0), int32(1), int32(137)}, []any{early, late.RestartCount, late.LastTerminationState.Terminated.ExitCode}); diff != "" {
			t.Error(diff)
		}
	})
}
