package scheduler

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/api/v1alpha1"
	"github.com/berth-dev/berth/kube/telemetry"
)

// ward is a source of the health of GPUs that a test turns: 2 GPUs a node, named after it.
type ward struct {
	gauge
	mu   sync.Mutex
	gpus map[string]telemetry.GPU // by UUID
	down bool
}

func (h *ward) set(g telemetry.GPU) {
	h.mu.Lock()
	defer h.mu.Unlock()
	g.Node, _, _ = strings.Cut(strings.TrimPrefix(g.UUID, "GPU-"), "-")
	h.gpus[g.UUID] = g
}

func (h *ward) Health(_ context.Context, nodes []string) (telemetry.Health, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := telemetry.Health{Seen: make(map[string]int)}
	if h.down {
		return out, errors.New("down")
	}
	for _, n := range nodes {
		for _, uuid := range []string{"GPU-" + n + "-0", "GPU-" + n + "-1"} {
			g, ok := h.gpus[uuid]
			if !ok {
				g = telemetry.GPU{Node: n, UUID: uuid}
			}
			out.GPUs = append(out.GPUs, g)
		}
		out.Seen[n] = 2
	}
	return out, nil
}

// listed is what the node lists as broken, without times.
func (w *world) listed(name string) (out []string) {
	w.t.Helper()
	n, err := w.client.CoreV1().Nodes().Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, g := range v1alpha1.UnhealthyGPUs(n) {
		out = append(out, g.UUID+" "+g.Why)
	}
	return out
}

// A GPU that DCGM shows to be broken is given to nobody, though its device plugin advertises it: the kubelet could hand it out to any
// pod, so none with GPUs comes to its node, and those without still do. It is used again when it reads well.
func TestBrokenGPUsAreGivenToNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sick := &ward{gpus: make(map[string]telemetry.GPU)}
		sick.set(telemetry.GPU{UUID: "GPU-n1-0", Xid: 79})
		w := newWorld(t, node("n1", "r1", 2), node("n2", "r1", 2), node("n3", "r1", 2))
		w.start(func(o *Options) { o.telemetry = sick })
		w.after(time.Minute)
		if diff := cmp.Diff([]string{"GPU-n1-0 Xid 79"}, w.listed("n1")); diff != "" {
			t.Fatal(diff)
		}
		for _, name := range []string{"a", "b", "c"} {
			w.add(pod(name, 2))
		}
		plain := pod("plain", 0)
		plain.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "n1"}
		w.add(plain)
		w.after(time.Minute)
		got := append(w.at("a", "b", "c"), w.at("plain")...)
		if diff := cmp.Diff([]string{"n2", "n3", "", "n1"}, got); diff != "" {
			t.Error(diff)
		}

		// An error of a program, or an exporter that is down, mends nothing.
		sick.set(telemetry.GPU{UUID: "GPU-n1-0", Xid: 31})
		w.after(time.Minute)
		if got := w.at("c"); got[0] != "" {
			t.Errorf("placed on %v", got)
		}
		sick.set(telemetry.GPU{UUID: "GPU-n1-0"})
		w.after(time.Minute)
		if diff := cmp.Diff([]string{"n1"}, w.at("c")); diff != "" {
			t.Errorf("%s\nlisted %q", diff, w.listed("n1"))
		}
	})
}

// What each sign is called, and how long it counts.
func TestSignsOfBrokenGPUs(t *testing.T) {
	w := &watchman{at: make(map[string]throttle), hot: make(map[string]time.Time)}
	at := time.Date(2026, 11, 18, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		after time.Duration
		gpu   telemetry.GPU
		want  string
	}{
		{0, telemetry.GPU{UUID: "a"}, ""},
		{0, telemetry.GPU{UUID: "a", Xid: 48}, "Xid 48"},
		{0, telemetry.GPU{UUID: "a", Xid: 31}, ""},
		{0, telemetry.GPU{UUID: "a", Uncorrected: true}, "uncorrectable ECC errors"},
		{0, telemetry.GPU{UUID: "a", RemapFailed: true}, "a row of its memory could not be remapped"},
		{0, telemetry.GPU{UUID: "b", Throttled: time.Hour}, ""},
		{10 * time.Second, telemetry.GPU{UUID: "b", Throttled: time.Hour + 4*time.Second}, ""},
		{10 * time.Second, telemetry.GPU{UUID: "b", Throttled: time.Hour + 10*time.Second}, "throttled by heat"},
		{9 * time.Minute, telemetry.GPU{UUID: "b", Throttled: time.Hour + 10*time.Second}, "throttled by heat"},
		{time.Minute, telemetry.GPU{UUID: "b", Throttled: time.Hour + 10*time.Second}, ""},
		{0, telemetry.GPU{UUID: "c", Hot: true}, "throttled by heat"},
	} {
		at = at.Add(c.after)
		if got := w.sign(c.gpu, at); got != c.want {
			t.Errorf("%+v: %q, want %q", c.gpu, got, c.want)
		}
	}
}

// Metrics by which most nodes are broken are not believed: half of them still have work.
func TestNotAllNodesAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sick := &ward{gpus: make(map[string]telemetry.GPU)}
		w := newWorld(t)
		for _, name := range []string{"n1", "n2", "n3", "n4"} {
			w.add(node(name, "r1", 2))
			sick.set(telemetry.GPU{UUID: "GPU-" + name + "-0", Xid: 79})
		}
		w.start(func(o *Options) { o.telemetry = sick })
		w.after(2 * time.Minute)
		closed := 0
		for _, name := range []string{"n1", "n2", "n3", "n4"} {
			closed += len(w.listed(name))
		}
		if closed != 2 {
			t.Errorf("%d nodes are closed", closed)
		}
	})
}
