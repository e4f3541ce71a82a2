package kubelet

import (
	"context"
	"io"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/fleet/ksm"
)

// tellsState says whether the image is kube-state-metrics, of whatever registry.
func tellsState(im image) bool { return strings.HasSuffix("/"+im.repository, "/kube-state-metrics") }

// stateMetrics answers as kube-state-metrics does, of pods and nodes. Objects are read when somebody asks, from the API server's cache.
func (p *process) stateMetrics() http.Handler {
	own := make(chan struct{}, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, r *http.Request) {
		p.c.w.k.page(w, r, own, func(b []byte) ([]byte, bool) { return p.c.w.k.appendState(r.Context(), b) })
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "kube-state-metrics, simulated by Berth: /metrics has pods and nodes\n") // probes ask for other paths
	})
	return mux
}

// appendState appends the page; false: the API server does not answer.
func (k *Kubelet) appendState(ctx context.Context, b []byte) ([]byte, bool) {
	cached := metav1.ListOptions{ResourceVersion: "0"}
	nodes, err := k.client.CoreV1().Nodes().List(ctx, cached)
	if err != nil {
		return b, false
	}
	pods, err := k.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, cached)
	if err != nil {
		return b, false
	}
	return ksm.Append(b, pointers(nodes.Items), pointers(pods.Items)), true
}

func pointers[T corev1.Node | corev1.Pod](list []T) []*T {
	out := make([]*T, len(list))
	for i := range list {
		out[i] = &list[i]
	}
	return out
}
