package kubelet

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/fleet/device"
	"github.com/berth-dev/berth/fleet/stream"
	"github.com/berth-dev/berth/fleet/workload"
)

// exporterPod is one of the DaemonSet's.
func exporterPod(name, node string) *corev1.Pod {
	return testPod(name, "nvcr.io/nvidia/k8s/dcgm-exporter:4.4.1-4.6.0-distroless", command("dcgm-exporter"), func(p *corev1.Pod) {
		p.Namespace, p.Spec.NodeName = "gpu-operator", node
		p.Labels = map[string]string{"app": "nvidia-dcgm-exporter"}
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 9400}}
		p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "NODE_NAME", Value: node}}
	})
}

// forward asks a port of a pod as kubectl port-forward does.
func (w *world) forward(namespace, pod string, port int, path string) (int, string) {
	near, far := net.Pipe()
	defer near.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	failed := make(chan error, 1)
	go func() {
		failed <- w.k.PortForward(ctx, stream.Ref{Namespace: namespace, Pod: pod}, int32(port), far)
		far.Close()
	}()
	go fmt.Fprintf(near, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", path)
	resp, err := http.ReadResponse(bufio.NewReader(near), nil)
	if err != nil {
		return 0, (<-failed).Error()
	}
	body, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body)
}

// value is that of the first sample of a metric whose labels contain all of the given text.
func value(page, metric string, labels ...string) string {
next:
	for line := range strings.Lines(page) {
		rest, ok := strings.CutPrefix(line, metric+"{")
		if !ok {
			continue
		}
		for _, l := range labels {
			if !strings.Contains(rest, l) {
				continue next
			}
		}
		return strings.TrimSpace(rest[strings.LastIndexByte(rest, ' '):])
	}
	return "none"
}

// What the exporter says is what nvidia-smi says in the pod that has the GPU, at the same moment.
func TestExporterAgreesWithNvidiaSMI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(exporterPod("dcgm", "n0"))
		w.create(testPod("works", "pytorch", command("python", "train.py"), gpus(1), annotate("sim.berth.dev/gpu-memory", "60Gi")))
		w.create(testPod("pulls", "example.com/serve", gpus(1), annotate("sim.berth.dev/pull", "1h")))
		for range 20 {
			time.Sleep(7 * time.Second)
			shown := w.exec("works", "nvidia-smi", "--query-gpu=uuid,utilization.gpu,utilization.memory,memory.used,memory.free,memory.reserved,temperature.gpu,temperature.memory,clocks.sm,clocks.mem,power.draw", "--format=csv,noheader,nounits")
			code, page := w.forward("gpu-operator", "dcgm", 9400, "/metrics")
			if code != 200 {
				t.Fatal(code, page)
			}
			mine := []string{`container="c"`, `namespace="default"`, `pod="works"`, `Hostname="n0"`}
			want := strings.Split(strings.TrimSpace(shown), ", ")
			var got []string
			for _, m := range []string{"GPU_UTIL", "MEM_COPY_UTIL", "FB_USED", "FB_FREE", "FB_RESERVED", "GPU_TEMP", "MEMORY_TEMP", "SM_CLOCK", "MEM_CLOCK", "POWER_USAGE"} {
				got = append(got, value(page, "DCGM_FI_DEV_"+m, append(mine, want[0])...))
			}
			got[9] = strings.TrimSuffix(got[9], "0000")
			if diff := cmp.Diff(want[1:], got); diff != "" {
				t.Fatal(diff)
			}
			if got := value(page, "DCGM_FI_DEV_GPU_UTIL", `pod="pulls"`); got != "0" || strings.Count(page, "\nDCGM_FI_DEV_GPU_UTIL{") != 8 {
				t.Fatalf("a pod whose image is pulled shows %s, and there are %d GPUs", got, strings.Count(page, "\nDCGM_FI_DEV_GPU_UTIL{"))
			}
		}
	})
}

// The same seed has the same life: two fleets that do the same show the same.
func TestSameLifeSameMetrics(t *testing.T) {
	var pages []string
	for range 2 {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.create(exporterPod("dcgm", "n0"))
			w.create(testPod("works", "pytorch", command("python", "train.py"), gpus(2)))
			time.Sleep(100 * time.Second)
			_, page := w.forward("gpu-operator", "dcgm", 9400, "/metrics")
			pages = append(pages, page)
		})
	}
	if diff := cmp.Diff(pages[0], pages[1]); diff != "" || len(pages[0]) == 0 {
		t.Error(diff)
	}
}

func TestExporterRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		m := w.addMachine("bare", 2)
		m.Devices = device.New(device.Config{Devices: m.Devices.Devices()}) // no driver
		w.create(exporterPod("dcgm", "n0"))
		w.create(exporterPod("blind", "bare"))
		ask := func(pod, path string) string {
			code, text := w.forward("gpu-operator", pod, 9400, path)
			return fmt.Sprint(code, " ", strings.TrimSpace(text[:min(len(text), 60)]))
		}
		got := []string{ask("blind", "/metrics"), ask("dcgm", "/health"), ask("dcgm", "/")[:3]}
		if diff := cmp.Diff([]string{"500 internal server error", "200 KO", "200"}, got); diff != "" {
			t.Error(diff)
		}

		// readers that take nothing away are hung up on, and meanwhile keep nobody out for longer than that
		p, err := w.k.processFor(stream.Ref{Namespace: "gpu-operator", Pod: "dcgm", Container: "c"})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 * ownPages {
			conn, err := p.net.Dial(t.Context(), 9400)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			fmt.Fprint(conn, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
		}
		synctest.Wait()
		if got := ask("dcgm", "/metrics"); got != "503 too many scrapes at once" {
			t.Error("beside idle readers:", got)
		}
		time.Sleep(2 * httpTimeout)
		if got := ask("dcgm", "/metrics"); !strings.HasPrefix(got, "200 ") {
			t.Error("after they were hung up on:", got)
		}
	})
}

// scraped is a kubelet with so many machines of eight busy GPUs, and one exporter's handler for each.
func scraped(b testing.TB, nodes int) []http.Handler {
	w := &world{machines: map[string]*Machine{}, down: map[string]bool{}}
	programs := workload.New(workload.Options{})
	k := New(Options{Machine: func(n string) *Machine { return w.machines[n] }, Workloads: programs})
	var all []http.Handler
	for i := range nodes {
		name := fmt.Sprint("n", i)
		m := w.addMachine(name, 8)
		h := newHost(name, k.machine)
		k.hosts[name] = h
		exporter := newWorker(k, h, exporterPod("dcgm-"+name, name), true)
		h.attach(exporter)
		for j := range 2 {
			pod := testPod(fmt.Sprint("train-", i, "-", j), "pytorch", gpus(4))
			pod.Spec.NodeName = name
			w := newWorker(k, h, pod, false)
			if _, rejected := allocateGPUs(m, pod); rejected != nil {
				b.Fatal(rejected)
			}
			w.containers = []*container{{w: w, running: &process{gpus: m.Devices.Held(pod.UID, "c"), argv: []string{"python"}}}}
			h.attach(w)
			go programs.Run(b.Context(), workload.Identity{Pod: "default/" + pod.Name, Group: pod.Name}, workload.Spec{GPUUtil: 90, GPUMemory: 1 << 36}, io.Discard)
		}
		p := &process{c: &container{w: exporter}, m: m, env: map[string]string{"NODE_NAME": name}}
		all = append(all, p.exporter())
	}
	return all
}

type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(b []byte) (int, error) { return len(b), nil }
func (d discard) WriteHeader(int)             {}

// BenchmarkScrape asks the exporters of so many machines with eight GPUs each once, without the network.
func BenchmarkScrape(b *testing.B) {
	for _, nodes := range []int{1, 5000} {
		b.Run(fmt.Sprint("nodes=", nodes), func(b *testing.B) {
			all := scraped(b, nodes)
			r := httptest.NewRequest("GET", "/metrics", nil)
			b.ReportAllocs()
			for b.Loop() {
				for _, h := range all {
					h.ServeHTTP(discard{http.Header{}}, r)
				}
			}
		})
	}
}
