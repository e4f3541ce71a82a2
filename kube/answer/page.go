package answer

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Page shows people the cluster in a browser. The API server hands a viewer's requests on, as it does questions, so the page has no login
// of its own. ServeViewer is called with paths below the page's: "/" is the page itself.
type Page interface {
	ServeViewer(w http.ResponseWriter, r *http.Request, v *Viewer)
}

// PageName is of the one page there is.
const PageName = "berth"

// PageResource is what a viewer must have the right to get. API servers do not limit how long a request to a subresource of this name
// takes, as they do for all others but watches (k8s.io/kubernetes v1.37.1 pkg/controlplane/apiserver/config.go: LongRunningFunc), and the
// page has a stream that lasts.
const PageResource = "pages/proxy"

// PageWith has the server show a page. It is called before Serve.
func (s *Server) PageWith(p Page) { s.page = p }

// Rights are what a viewer of a page may be shown. Viewers with equal rights are shown the same.
type Rights struct {
	Namespace string // of the page; "": of all
	Workloads bool   // to list workloads in Namespace, by the scheduler's words
	Queues    bool   // to list queues in Namespace
	Nodes     bool   // to list nodes
	Pods      bool   // to list pods of all namespaces
	PodsHere  bool   // to list pods in Namespace
}

// Sees says whether pods and workloads of the namespace are shown by name.
func (r Rights) Sees(namespace string) bool {
	return r.Pods || r.PodsHere && namespace == r.Namespace
}

// All says that everything is shown.
func (r Rights) All() bool { return r.Workloads && r.Queues && r.Nodes && r.Pods && r.Namespace == "" }

// Viewer is somebody who looks at a page.
type Viewer struct {
	Namespace string // of the page; "": of all

	s    *Server
	user authenticationv1.UserInfo
}

// Person is who the API server says that the viewer is.
func (v *Viewer) Person() string { return v.user.Username }

// Rights asks the API server what the viewer may be shown now. It fails also where this process does not lead any more.
func (v *Viewer) Rights(ctx context.Context) (r Rights, err error) {
	r.Namespace = v.Namespace
	a := &asking{Request: (&http.Request{}).WithContext(ctx), s: v.s, user: v.user}
	if _, err := a.source(); err != nil {
		return r, err
	}
	if err := a.mayLook(v.Namespace); err != nil {
		return r, err
	}
	for _, ask := range []struct {
		group, resource, namespace string
		into                       *bool
	}{
		{Group, "workloads", v.Namespace, &r.Workloads},
		{Group, "queues", v.Namespace, &r.Queues},
		{"", "nodes", "", &r.Nodes},
		{"", "pods", "", &r.Pods},
		{"", "pods", v.Namespace, &r.PodsHere},
	} {
		if *ask.into, err = a.allowed("list", ask.group, ask.resource, ask.namespace, ""); err != nil {
			return r, err
		}
	}
	return r, nil
}

// May says whether the viewer may read a kind themselves: list its objects in the namespace ("": in all), or get what is below them, as the
// logs of pods.
func (v *Viewer) May(ctx context.Context, group, resource, below, namespace string) (bool, error) {
	verb := "list"
	if below != "" {
		verb = "get"
	}
	a := &asking{Request: (&http.Request{}).WithContext(ctx), s: v.s, user: v.user}
	return a.allowed(verb, group, resource+"/"+below, namespace, "")
}

// mayLook fails unless the user may have the page of the namespace.
func (a *asking) mayLook(namespace string) error {
	return a.may("get", PageResource, namespace, PageName)
}

// Everything is what there is to say of queues and workloads, to be cut for each viewer.
type Everything struct {
	queues    []Queue
	workloads []Workload
}

// Everything asks the scheduler. It is the same for all viewers.
func (v *Viewer) Everything(ctx context.Context) (e Everything, err error) {
	source := v.s.source.Load()
	if source == nil {
		return e, errNotLeading
	}
	if e.queues, err = (*source).Queues(ctx); err != nil {
		return e, err
	}
	e.workloads, err = (*source).Workloads(ctx, "")
	return e, err
}

// For is what of it viewers with these rights are told: the lists that the questions of the same names have.
func (e *Everything) For(r Rights) (queues QueueList, workloads WorkloadList) {
	if r.Queues {
		queues = QueueList{TypeMeta: metav1.TypeMeta{APIVersion: GroupVersion, Kind: "QueueList"}, Items: queuesOf(e.queues, r.Namespace)}
	}
	if r.Workloads {
		items := slices.DeleteFunc(slices.Clone(e.workloads), func(w Workload) bool { return r.Namespace != "" && w.Namespace != r.Namespace })
		workloads = listed(items, view{nodes: r.Nodes, pods: r.Sees})
	}
	return queues, workloads
}

// pageTimes bound one request for the page: an answer may take a minute, and a stream sets bounds of its own.
const pageTimes = 90 * time.Second

// showPage sees to who looks, and hands what they ask on.
func (s *Server) showPage(w http.ResponseWriter, r *http.Request) {
	s.asked.Add(1)
	v, err := s.viewer(r)
	if err != nil {
		s.fail(w, err)
		return
	}
	bounds := http.NewResponseController(w)
	_ = bounds.SetReadDeadline(time.Time{}) // the server's own would end a stream; the request was read
	_ = bounds.SetWriteDeadline(time.Now().Add(pageTimes))
	_, below, _ := strings.Cut(r.URL.Path, "/"+PageResourceIn(PageName))
	below, ok := strings.CutPrefix(below, "/")
	if !ok { // links in the page are relative. The API server passes no redirection on.
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(`<!doctype html><meta charset="utf-8"><title>Berth</title><meta http-equiv="refresh" content="0;url=proxy/"><p><a href="proxy/">Berth</a></p>`))
		return
	}
	next := r.Clone(r.Context())
	next.URL.Path, next.URL.RawPath, next.RequestURI = "/"+below, "", ""
	s.page.ServeViewer(w, next, v)
}

// PageResourceIn is the path of a page below its namespace, without a slash on either side.
func PageResourceIn(name string) string { return "pages/" + name + "/proxy" }

// PagePath is the path of the page of a namespace on the API server; "" is all of them.
func PagePath(namespace string) string {
	if namespace != "" {
		namespace = "namespaces/" + namespace + "/"
	}
	return "/apis/" + GroupVersion + "/" + namespace + PageResourceIn(PageName) + "/"
}

// viewer is who asks for the page, if they may have it.
func (s *Server) viewer(r *http.Request) (*Viewer, error) {
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	v, err := s.inTurn(ctx, func() (any, error) {
		user, err := s.identify(r.WithContext(ctx))
		if err != nil {
			return nil, err
		}
		a := &asking{Request: r.WithContext(ctx), s: s, user: user}
		namespace := r.PathValue("namespace")
		if s.page == nil || r.PathValue("name") != PageName {
			return nil, notFound("pages", r.PathValue("name"))
		}
		if err := a.mayLook(namespace); err != nil {
			return nil, err
		}
		if _, err := a.source(); err != nil {
			return nil, err
		}
		return &Viewer{Namespace: namespace, s: s, user: user}, nil
	})
	if err != nil {
		return nil, err
	}
	return v.(*Viewer), nil
}
