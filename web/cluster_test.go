package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/api/v1alpha1"
)

// apiServer is as much of one as the page reads: lists, and watches that it can cut.
type apiServer struct {
	*httptest.Server
	asked atomic.Int64 // requests

	mu        sync.Mutex
	objects   map[string]map[string]metav1.Object // by resource and key
	version   int
	watches   map[chan event]string // resource
	forbidden map[string]bool       // resources that may be read in namespace "team" alone; nodes not at all
	down      bool
	ahead     time.Duration // of its clock, before the clock of the page's server
}

type event struct {
	Type   string `json:"type"`
	Object any    `json:"object"`
}

func newAPIServer(t testing.TB) *apiServer {
	a := &apiServer{objects: make(map[string]map[string]metav1.Object), watches: make(map[chan event]string), forbidden: make(map[string]bool), version: 1}
	a.Server = httptest.NewServer(a)
	t.Cleanup(func() { a.cut(); a.CloseClientConnections(); a.Close() })
	return a
}

func (a *apiServer) config() *rest.Config { return &rest.Config{Host: a.URL} }

func (a *apiServer) put(resource string, o metav1.Object) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.version++
	o.SetResourceVersion(fmt.Sprint(a.version))
	if a.objects[resource] == nil {
		a.objects[resource] = make(map[string]metav1.Object)
	}
	key, kind := o.GetNamespace()+"/"+o.GetName(), "ADDED"
	if a.objects[resource][key] != nil {
		kind = "MODIFIED"
	}
	a.objects[resource][key] = o
	for w, of := range a.watches {
		if of == resource {
			w <- event{kind, o}
		}
	}
}

// cut ends all watches, as an API server does that is started again.
func (a *apiServer) cut() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for w := range a.watches {
		close(w)
		delete(a.watches, w)
	}
}

func (a *apiServer) setDown(down bool) {
	a.mu.Lock()
	a.down = down
	a.mu.Unlock()
}

func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.asked.Add(1)
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	name := parts[len(parts)-1]
	namespace := ""
	if i := slices.Index(parts, "namespaces"); i >= 0 {
		namespace = parts[i+1]
	}
	version := "v1"
	if parts[0] == "apis" {
		version = parts[1] + "/" + parts[2]
	}
	w.Header().Set("Content-Type", "application/json")
	a.mu.Lock()
	refused, down := a.forbidden[name] && namespace != "team", a.down
	w.Header().Set("Date", time.Now().Add(a.ahead).UTC().Format(http.TimeFormat))
	a.mu.Unlock()
	switch {
	case down:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case refused:
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"%s is forbidden"}`, name)
		return
	case len(parts) == 3 && parts[0] == "apis": // what is served of a group
		a.mu.Lock()
		served := a.objects["pools"] != nil || a.forbidden["pools"]
		a.mu.Unlock()
		if version != v1alpha1.GroupVersion.String() || !served {
			http.NotFound(w, r)
			return
		}
		fmt.Fprintf(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":%q,"resources":[{"name":"pools","kind":"Pool","verbs":["list","watch"]}]}`, version)
		return
	case r.URL.Query().Get("watch") != "":
		a.watch(w, r, name)
		return
	}
	a.mu.Lock()
	list := map[string]any{"kind": kindOf(name) + "List", "apiVersion": version, "metadata": map[string]string{"resourceVersion": fmt.Sprint(a.version)}}
	items := []metav1.Object{}
	for _, o := range a.objects[name] {
		if namespace == "" || o.GetNamespace() == namespace {
			items = append(items, o)
		}
	}
	list["items"] = items
	text, _ := json.Marshal(list)
	a.mu.Unlock()
	w.Write(text)
}

func kindOf(resource string) string {
	if resource == pools.Resource {
		return "Pool"
	}
	for _, k := range watchedKinds {
		if k.resource == resource {
			return reflect.TypeOf(k.example).Elem().Name()
		}
	}
	return ""
}

func (a *apiServer) watch(w http.ResponseWriter, r *http.Request, name string) {
	if r.URL.Query().Get("sendInitialEvents") == "true" { // a list is what this server has
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422,"message":"sendInitialEvents is forbidden"}`)
		return
	}
	events := make(chan event, 10_000)
	a.mu.Lock()
	a.watches[events] = name
	since, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	for _, o := range a.objects[name] {
		if at, _ := strconv.Atoi(o.GetResourceVersion()); at > since {
			events <- event{"MODIFIED", o}
		}
	}
	a.mu.Unlock()
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	for {
		select {
		case <-r.Context().Done():
			a.mu.Lock()
			delete(a.watches, events)
			a.mu.Unlock()
			return
		case e, ok := <-events:
			if !ok {
				return
			}
			json.NewEncoder(w).Encode(e)
			w.(http.Flusher).Flush()
		}
	}
}

func gpuNode(name, block, rack string, gpus int64) *corev1.Node {
	n := &corev1.Node{TypeMeta: metav1.TypeMeta{Kind: "Node", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{
		"nvidia.com/gpu.present": "true", "nvidia.com/gpu.count": fmt.Sprint(gpus), "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", v1alpha1.LabelBlock: block, v1alpha1.LabelRack: rack,
	}}}
	n.Status.Capacity = corev1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(gpus, resource.DecimalSI)}
	n.Status.Allocatable = n.Status.Capacity.DeepCopy()
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return n
}

func gpuPod(namespace, name, node string, gpus int64) *corev1.Pod {
	p := &corev1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + name)}}
	p.Spec.NodeName, p.Spec.SchedulerName, p.Status.Phase = node, "berth", corev1.PodRunning
	list := corev1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(gpus, resource.DecimalSI)}
	p.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Limits: list, Requests: list}}}
	return p
}

// poolOf is a pool whose nodes have so many GPUs each.
func poolOf(name string, nodes, gpus int32) *v1alpha1.Pool {
	p := &v1alpha1.Pool{TypeMeta: metav1.TypeMeta{Kind: "Pool", APIVersion: v1alpha1.GroupVersion.String()}, ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
	p.Spec.Nodes, p.Spec.GPUs = &nodes, []v1alpha1.GPU{{Model: "h100", Count: gpus}}
	return p
}

// fill gives the server a fleet of nodes with 8 GPUs each, most of them held; some of the nodes are not well.
func (a *apiServer) fill(nodes int) {
	for i := range nodes {
		n := gpuNode(fmt.Sprintf("gpu-%04d", i), fmt.Sprintf("block-%d", i/64), fmt.Sprintf("rack-%d", i/4), 8)
		switch {
		case i%97 == 13:
			n.Status.Conditions[0].Status = corev1.ConditionFalse
		case i%89 == 7:
			n.Spec.Unschedulable = true
			n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}}
		case i%61 == 5:
			n.Status.Allocatable["nvidia.com/gpu"] = *resource.NewQuantity(7, resource.DecimalSI)
		}
		a.put("nodes", n)
		if i%5 != 4 && i%97 != 13 {
			p := gpuPod("team-"+fmt.Sprint(i/128%7), fmt.Sprintf("train-%d-%d", i/16, i%16), n.Name, int64(8-i%3))
			p.Labels = map[string]string{v1alpha1.KeyGang: fmt.Sprintf("train-%d", i/16)}
			p.Annotations = map[string]string{v1alpha1.KeyGang: fmt.Sprintf("train-%d", i/16)}
			a.put("pods", p)
		}
	}
}
