package kubelet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/fleet/shell"
	"github.com/berth-dev/berth/fleet/shell/budget"
	"github.com/berth-dev/berth/fleet/stream"
)

// A container whose command holds too much memory is killed as a kubelet would report it; what is run by hand in a
// container ends alone.
func TestOutOfMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(testPod("hungry", "busybox", command("sh", "-c", "yes | tac"), policy(corev1.RestartPolicyNever)))
		some := command("sh", "-c", "head -c 12000000 /dev/zero | tac > /dev/null; sleep 100000")
		w.create(testPod("some", "busybox", some))
		w.create(testPod("limited", "busybox", some, policy(corev1.RestartPolicyNever), request(corev1.ResourceMemory, "10Mi")))
		w.create(testPod("idle", "busybox", command("sleep", "100000")))
		time.Sleep(time.Hour)
		synctest.Wait()
		for pod, want := range map[string]string{"hungry": "terminated OOMKilled 137", "limited": "terminated OOMKilled 137", "some": "running"} {
			if got := state(&w.get(pod).Status.ContainerStatuses[0]); got != want {
				t.Errorf("%s is %q, want %q", pod, got, want)
			}
		}
		var errs bytes.Buffer
		code, err := w.k.Exec(t.Context(), ref("idle"), []string{"sh", "-c", "yes | tac"}, stream.Streams{Stdout: io.Discard, Stderr: &errs})
		if code != 137 || err != nil || !strings.Contains(errs.String(), "killed: out of memory") {
			t.Errorf("exec: %d, %v, %q", code, err, errs.String())
		}
		if got := state(&w.get("idle").Status.ContainerStatuses[0]); got != "running" {
			t.Errorf("after an exec that held too much the container is %q", got)
		}
	})
}

// volume mounts a volume at /data.
func volume(source corev1.VolumeSource) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: source}}
		p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	}
}

// Volumes are bounded whatever their spec says, and all together; pods that are gone give back what theirs held.
func TestVolumesAreBounded(t *testing.T) {
	huge := resource.MustParse("100Gi")
	for name, source := range map[string]corev1.VolumeSource{
		"sized": {EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &huge}},
		"host":  {HostPath: &corev1.HostPathVolumeSource{Path: "/"}},
	} {
		v, err := newSources(nil, shell.NewBudget()).volume(t.Context(), testPod("p", "busybox"), &corev1.Volume{Name: name, VolumeSource: source})
		if err != nil {
			t.Fatal(err)
		}
		if err := v.WriteFile("/f", make([]byte, shell.VolumeStorage), 0); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%s: more than a volume holds: %v", name, err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		empty := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
		w.create(testPod("p", "busybox", volume(empty), command("sh", "-c", "while cat /dev/zero >> /data/f; do :; done; sleep 1000000")))
		time.Sleep(time.Hour)
		synctest.Wait()
		if log, err := w.logs("p", corev1.PodLogOptions{}); !strings.Contains(log, "No space left on device") || err != nil {
			t.Errorf("log %q, %v", log, err)
		}
		var others []*shell.Volume
		for range shell.AllStorage / shell.VolumeStorage {
			v := w.k.budget.NewVolume(0)
			_ = v.WriteFile("/f", make([]byte, shell.VolumeStorage-4096), 0)
			others = append(others, v)
		}
		if err := w.k.budget.NewVolume(0).WriteFile("/f", make([]byte, 10<<20), 0); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("more than all volumes hold: %v", err)
		}
		if got := w.exec("p", "sh", "-c", "echo small > /tmp/f; cat /tmp/f"); got != "small\n" {
			t.Errorf("a small file where all volumes are full: %q", got)
		}
		w.remove("p", 0)
		time.Sleep(time.Minute)
		synctest.Wait()
		if err := w.k.budget.NewVolume(0).WriteFile("/f", make([]byte, 10<<20), 0); err != nil {
			t.Errorf("after the pod was gone: %v", err)
		}
		runtime.KeepAlive(others)
	})
}

// What comes from objects is read-only, as a kubelet mounts it.
func TestObjectsAreMountedReadOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &corev1.ConfigMap{Data: map[string]string{"k": "v"}}
		m.Name, m.Namespace = "m", "default"
		w := newWorld(t, m)
		w.create(testPod("p", "busybox", command("sleep", "1000"), volume(corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "m"}}})))
		if got := w.exec("p", "sh", "-c", "cat /data/k; echo x > /data/k"); !strings.HasPrefix(got, "v") || !strings.Contains(got, "Read-only file system") {
			t.Errorf("%q", got)
		}
	})
}

// Logs count records, not text: many empty lines are as much memory as long ones.
func TestLogsCountRecords(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	store := budget.NewStore(4<<20, freeLog)
	var all []*journal
	for range 10 {
		j := newJournal(store)
		all = append(all, j)
		out := j.writer(stdout)
		for range 20 {
			_, _ = out.Write(bytes.Repeat([]byte("\n"), 10_000))
		}
		if j.held.size > logLimit {
			t.Errorf("a journal holds %d bytes", j.held.size)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 2*(4<<20+10*freeLog) {
		t.Errorf("2 million empty lines take %d KiB", grown>>10)
	}
	if used, limit := store.Used(); used > limit {
		t.Errorf("all hold %d of %d", used, limit)
	}
	last := all[len(all)-1]
	fmt.Fprint(last.writer(stderr), "the end\n")
	var out bytes.Buffer
	if err := copyLog(context.Background(), last, &corev1.PodLogOptions{TailLines: new(int64(1))}, &out); out.String() != "the end\n" || err != nil {
		t.Errorf("a log in a full store ends with %q, %v", out.String(), err)
	}
	runtime.KeepAlive(all)
}

// What an exec probe prints is kept only as far as a kubelet reads it.
func TestProbeOutputIsBounded(t *testing.T) {
	b := new(beginning)
	for range 1000 {
		_, _ = b.Write(make([]byte, 1000))
	}
	if len(b.text) != maxProbeOutput {
		t.Errorf("%d bytes kept", len(b.text))
	}
}
