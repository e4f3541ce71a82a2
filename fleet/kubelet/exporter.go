package kubelet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/fleet/dcgm"
	"github.com/berth-dev/berth/fleet/device"
	"github.com/berth-dev/berth/fleet/shell"
)

// Pages of metrics are made when somebody asks, and held until the caller has read them: about 100 KiB for a machine with
// eight GPUs. One exporter serves ownPages callers at a time and all together allPages. Whoever is one too many waits for
// pageWait and is then turned away.
const (
	ownPages = 8
	allPages = 256
	pageWait = 5 * time.Second
)

// exporter answers as the DCGM exporter does.
func (p *process) exporter() http.Handler {
	own := make(chan struct{}, ownPages)
	list := p.collectors()
	mux := http.NewServeMux()
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, r *http.Request) {
		p.c.w.k.page(w, r, own, func(b []byte) ([]byte, bool) {
			driver := p.m.Devices.Driver().Version
			if driver == "" {
				return b, false // the real one has nobody to ask either
			}
			h := p.c.w.host
			owners := h.owners(p.m)
			return dcgm.Append(b, dcgm.Node{
				Hostname: cmp.Or(p.env["NODE_NAME"], hostname(p.c.w.current())), Driver: driver, GPUs: p.c.w.k.read(h, p.m), Collectors: list,
				Holder: func(device string) (dcgm.Holder, bool) { o, ok := owners[device]; return o, ok },
			}), true
		})
	})
	mux.HandleFunc("/health", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "KO") }) // its answer when all is well
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, `<title>GPU Exporter</title><h1>GPU Exporter</h1><p>Simulated by Berth.</p><p><a href="./metrics">Metrics</a></p>`+"\n")
	})
	return mux
}

// exporterPort is where DCGM exporters listen.
const exporterPort = 9400

// Exporter implements usage.Source: it asks the exporter as any other caller in its pod does.
func (k *Kubelet) Exporter(ctx context.Context, node string) ([]byte, error) {
	k.mu.Lock()
	h := k.hosts[node]
	k.mu.Unlock()
	if h == nil {
		return nil, errors.New("the node has no kubelet")
	}
	var network *shell.Net
	h.each(func(w *worker) {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, c := range w.containers {
			if c.running != nil && c.running.role == device.DCGM {
				network = c.running.net
			}
		}
	})
	if network == nil {
		return nil, errors.New("it does not run")
	}
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return network.Dial(ctx, exporterPort) },
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://localhost:%d/metrics", exporterPort), nil)
	if err != nil {
		return nil, err
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %s", answer.Status)
	}
	return io.ReadAll(answer.Body)
}

// collectors are those of the list that DCGM_EXPORTER_COLLECTORS names, if the container has the file. Without the variable the
// exporter here has all that it knows. A list that cannot be read ends the real one; here it says so and has its default.
func (p *process) collectors() map[string]dcgm.Collector {
	name := p.env["DCGM_EXPORTER_COLLECTORS"]
	if name == "" {
		return nil
	}
	out := p.log.writer(stdout)
	text, err := p.inside().FS.ReadHead(name, dcgm.MaxCollectors+1)
	if err == nil {
		var list map[string]dcgm.Collector
		if list, err = dcgm.ParseCollectors(string(text)); err == nil {
			return list
		}
	}
	if name != dcgm.Default {
		fmt.Fprintf(out, "simulated dcgm-exporter: %s: %v: the default counters are collected\n", name, err)
	}
	return dcgm.DefaultCollectors()
}

// page answers with a page of metrics, unless too many are being read: of this exporter, or of all.
func (k *Kubelet) page(w http.ResponseWriter, r *http.Request, own chan struct{}, write func([]byte) ([]byte, bool)) {
	ctx, cancel := context.WithTimeout(r.Context(), pageWait)
	defer cancel()
	for _, tokens := range []chan struct{}{own, k.pages} {
		select {
		case tokens <- struct{}{}:
			defer func() { <-tokens }()
		case <-ctx.Done():
			http.Error(w, "too many scrapes at once", http.StatusServiceUnavailable)
			return
		}
	}
	b := pageBuffers.Get().(*[]byte)
	defer pageBuffers.Put(b)
	var ok bool
	if *b, ok = write((*b)[:0]); !ok {
		http.Error(w, "internal server error", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(*b) // a caller that went away needs no answer
}

var pageBuffers = sync.Pool{New: func() any { return new([]byte) }}

// owners are the containers that have devices of the machine from its device plugin, as the kubelet's socket lists them: from
// admission on, whether they have started or not. Of several that share a device the last in order of name is told.
func (h *host) owners(m *Machine) map[string]dcgm.Holder {
	var pods []*corev1.Pod
	h.each(func(w *worker) {
		if pod := w.current(); wantsGPUs(pod) {
			pods = append(pods, pod)
		}
	})
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	all := map[string]dcgm.Holder{}
	for _, pod := range pods {
		for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
			for i := range list {
				for _, d := range m.Devices.Held(pod.UID, list[i].Name) {
					all[d.Visible()] = dcgm.Holder{Namespace: pod.Namespace, Pod: pod.Name, Container: list[i].Name}
				}
			}
		}
	}
	return all
}
