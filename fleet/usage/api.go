package usage

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// What is served, and where the API server looks for it.
const (
	Group        = "metrics.k8s.io"
	Version      = "v1beta1"
	GroupVersion = Group + "/" + Version
)

// window is the time over which a figure is said to be averaged: that of metrics-server.
const window = 15 * time.Second

// atOnce bounds the questions answered at a time; a list of 20,000 pods is about 10 MB.
const atOnce = 4

// nodeMetrics and podMetrics are the kinds of metrics.k8s.io.
type nodeMetrics struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Timestamp         metav1.Time         `json:"timestamp"`
	Window            string              `json:"window"`
	Usage             corev1.ResourceList `json:"usage"`
}

type podMetrics struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Timestamp         metav1.Time        `json:"timestamp"`
	Window            string             `json:"window"`
	Containers        []containerMetrics `json:"containers"`
}

type containerMetrics struct {
	Name  string              `json:"name"`
	Usage corev1.ResourceList `json:"usage"`
}

type list struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []any `json:"items"`
}

// api answers questions of one Source.
type api struct {
	source Source
	slots  chan struct{}
}

// Handler answers GET below /apis/metrics.k8s.io and what discovery needs. Who asks and whether they may was decided by the
// API server, which is the only caller there may be.
func Handler(source Source) http.Handler {
	a := &api{source, make(chan struct{}, atOnce)}
	mux := http.NewServeMux()
	fixed := func(path string, value any) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { write(w, http.StatusOK, value) })
	}
	version := metav1.GroupVersionForDiscovery{GroupVersion: GroupVersion, Version: Version}
	group := metav1.APIGroup{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroup"}, Name: Group, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version}
	fixed("/apis", metav1.APIGroupList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIGroupList"}, Groups: []metav1.APIGroup{group}})
	fixed("/apis/"+Group, group)
	verbs := metav1.Verbs{"get", "list"}
	fixed("/apis/"+GroupVersion, metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: GroupVersion,
		APIResources: []metav1.APIResource{
			{Name: "nodes", Kind: "NodeMetrics", Verbs: verbs},
			{Name: "pods", Kind: "PodMetrics", Namespaced: true, Verbs: verbs},
		},
	})
	fixed("/openapi/v2", map[string]any{"swagger": "2.0", "info": map[string]string{"title": "Use of simulated nodes and pods", "version": Version}, "paths": map[string]any{}})
	const root = "GET /apis/" + GroupVersion
	mux.HandleFunc(root+"/nodes", a.inTurn(a.nodes))
	mux.HandleFunc(root+"/nodes/{node}", a.inTurn(a.node))
	mux.HandleFunc(root+"/nodes/{node}/metrics/{page}", a.inTurn(a.page))
	mux.HandleFunc(root+"/pods", a.inTurn(a.pods))
	mux.HandleFunc(root+"/namespaces/{namespace}/pods", a.inTurn(a.pods))
	mux.HandleFunc(root+"/namespaces/{namespace}/pods/{pod}", a.inTurn(a.pod))
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		fail(w, http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource")
	})
	return mux
}

func (a *api) inTurn(how func(http.ResponseWriter, *http.Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case a.slots <- struct{}{}:
			defer func() { <-a.slots }()
			how(w, r)
		case <-r.Context().Done():
		case <-time.After(5 * time.Second):
			fail(w, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "too many questions about use at once")
		}
	}
}

func (a *api) nodes(w http.ResponseWriter, r *http.Request) {
	wanted, err := labels.Parse(r.URL.Query().Get("labelSelector"))
	if err != nil {
		fail(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		return
	}
	out := newList("NodeMetricsList")
	for _, name := range a.source.UsageNodes() {
		if n, ok := a.source.NodeUsage(name); ok && wanted.Matches(labels.Set(n.Labels)) {
			out.Items = append(out.Items, nodeOf(&n))
		}
	}
	write(w, http.StatusOK, out)
}

func (a *api) node(w http.ResponseWriter, r *http.Request) {
	n, ok := a.source.NodeUsage(r.PathValue("node"))
	if !ok {
		fail(w, http.StatusNotFound, metav1.StatusReasonNotFound, "nodemetrics.metrics.k8s.io \""+r.PathValue("node")+"\" not found")
		return
	}
	write(w, http.StatusOK, nodeOf(&n))
}

// page answers with a page of the node's kubelet, or of its DCGM exporter. The API server proxies to no kubelet of the fleet, because
// their address is this machine's own, and to no pod, because those have none, so their pages are found here.
func (a *api) page(w http.ResponseWriter, r *http.Request) {
	n, ok := a.source.NodeUsage(r.PathValue("node"))
	var text []byte
	switch page := r.PathValue("page"); {
	case ok && page == "resource":
		text = AppendResource(nil, n)
	case ok && page == "cadvisor":
		text = AppendCadvisor(nil, n)
	case ok && page == "dcgm":
		var err error
		if text, err = a.source.Exporter(r.Context(), n.Name); err != nil {
			fail(w, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, fmt.Sprintf("DCGM exporter of node %q: %v", n.Name, err))
			return
		}
	default:
		fail(w, http.StatusNotFound, metav1.StatusReasonNotFound, fmt.Sprintf("no page of metrics %q on node %q", page, r.PathValue("node")))
		return
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write(text) // a caller that went away needs no answer
}

func (a *api) pods(w http.ResponseWriter, r *http.Request) {
	wanted, err := labels.Parse(r.URL.Query().Get("labelSelector"))
	if err != nil {
		fail(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		return
	}
	out := newList("PodMetricsList")
	a.each(r.PathValue("namespace"), "", func(p *Pod) {
		if wanted.Matches(labels.Set(p.Labels)) {
			out.Items = append(out.Items, podOf(p))
		}
	})
	write(w, http.StatusOK, out)
}

func (a *api) pod(w http.ResponseWriter, r *http.Request) {
	namespace, name := r.PathValue("namespace"), r.PathValue("pod")
	var found *podMetrics
	a.each(namespace, name, func(p *Pod) { found = podOf(p) })
	if found == nil {
		fail(w, http.StatusNotFound, metav1.StatusReasonNotFound, "podmetrics.metrics.k8s.io \""+namespace+"/"+name+"\" not found")
		return
	}
	write(w, http.StatusOK, found)
}

// each calls f for the running pods of a namespace and a name; "": of all.
func (a *api) each(namespace, name string, f func(*Pod)) {
	for _, node := range a.source.UsageNodes() {
		n, ok := a.source.NodeUsage(node)
		for i := 0; ok && i < len(n.Pods); i++ {
			if p := &n.Pods[i]; (namespace == "" || p.Namespace == namespace) && (name == "" || p.Name == name) {
				f(p)
			}
		}
	}
}

func newList(kind string) *list {
	return &list{TypeMeta: metav1.TypeMeta{APIVersion: GroupVersion, Kind: kind}, Items: []any{}}
}

func nodeOf(n *Node) *nodeMetrics {
	now := metav1.Now()
	return &nodeMetrics{
		TypeMeta:   metav1.TypeMeta{APIVersion: GroupVersion, Kind: "NodeMetrics"},
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: n.Labels, CreationTimestamp: now},
		Timestamp:  now, Window: window.String(), Usage: n.Use.list(),
	}
}

func podOf(p *Pod) *podMetrics {
	now := metav1.Now()
	out := &podMetrics{
		TypeMeta:   metav1.TypeMeta{APIVersion: GroupVersion, Kind: "PodMetrics"},
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, Labels: p.Labels, CreationTimestamp: now},
		Timestamp:  now, Window: window.String(), Containers: []containerMetrics{},
	}
	for i := range p.Containers {
		out.Containers = append(out.Containers, containerMetrics{p.Containers[i].Name, p.Containers[i].Use.list()})
	}
	return out
}

// list is as metrics-server words it: nanocores and KiB.
func (u Use) list() corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewScaledQuantity(int64(u.Cores*1e9), resource.Nano),
		corev1.ResourceMemory: *resource.NewQuantity(u.Memory/1024*1024, resource.BinarySI),
	}
}

func write(w http.ResponseWriter, code int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(value) // a caller that went away needs no answer
}

func fail(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	write(w, code, metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
		Message: message, Reason: reason, Code: int32(code),
	})
}
