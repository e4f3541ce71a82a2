package inspect

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/diagnose/facts"
)

var noon = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

// world is an API server that says what a test wants it to say, in the real encodings and page by page.
type world struct {
	t       *testing.T
	facts   facts.Objects
	serves  map[string]string // version by resource.group; without an entry: as diagnose.Kinds expects, "": not at all
	beside  []*facts.KindInfo // kinds that the server has and the table does not
	stale   []string          // groups of which discovery knows nothing for now
	logs    map[string]string // by path and query
	say     func(w http.ResponseWriter, r *http.Request) bool
	version int // status code of /version; 0: 200

	mu    sync.Mutex
	asked []string // paths with queries
}

func (w *world) start() *rest.Config {
	s := httptest.NewServer(w)
	w.t.Cleanup(s.Close)
	return &rest.Config{Host: s.URL}
}

func (w *world) add(objects ...facts.Object) {
	for _, o := range objects {
		gvks, _, err := scheme.Scheme.ObjectKinds(o)
		if u, ok := o.(*unstructured.Unstructured); ok {
			gvks, err = append(gvks[:0], u.GroupVersionKind()), nil
		}
		if err != nil {
			w.t.Fatal(err)
		}
		facts.KindOf(gvks[0].Group, gvks[0].Kind).Add(&w.facts, o)
	}
}

func (w *world) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	w.asked = append(w.asked, r.URL.RequestURI())
	w.mu.Unlock()
	rw.Header().Set("Date", noon.Format(http.TimeFormat))
	switch {
	case w.say != nil && w.say(rw, r):
	case r.URL.Path == "/version" && w.version != 0:
		rw.WriteHeader(w.version)
	case r.URL.Path == "/version":
		fmt.Fprint(rw, `{"major":"1","minor":"37","gitVersion":"v1.37.1"}`)
	case r.URL.Path == "/api":
		w.discovery(rw, func(group string) bool { return group == "" })
	case r.URL.Path == "/apis":
		w.discovery(rw, func(group string) bool { return group != "" })
	case strings.HasSuffix(r.URL.Path, "/log"):
		w.log(rw, r)
	default:
		w.object(rw, r)
	}
}

func (w *world) log(rw http.ResponseWriter, r *http.Request) {
	text, ok := w.logs[r.URL.RequestURI()]
	if !ok {
		refuse(rw, http.StatusNotFound, metav1.StatusReasonNotFound, "no log at "+r.URL.RequestURI())
		return
	}
	fmt.Fprint(rw, text)
}

// versionOf is the version that is served, "": none.
func (w *world) versionOf(k *facts.KindInfo) string {
	if v, ok := w.serves[k.Name()]; ok {
		return v
	}
	return k.Version
}

func (w *world) discovery(rw http.ResponseWriter, in func(group string) bool) {
	groups := map[string]map[string][]apidiscoveryv2.APIResourceDiscovery{}
	for _, k := range slices.Concat(facts.Kinds, w.beside) {
		if v := w.versionOf(k); v != "" && in(k.Group) {
			if groups[k.Group] == nil {
				groups[k.Group] = map[string][]apidiscoveryv2.APIResourceDiscovery{}
			}
			groups[k.Group][v] = append(groups[k.Group][v], apidiscoveryv2.APIResourceDiscovery{
				Resource: k.Resource, ResponseKind: &metav1.GroupVersionKind{Kind: k.Kind}, Scope: apidiscoveryv2.ScopeNamespace, Verbs: []string{"list"},
			})
		}
	}
	list := apidiscoveryv2.APIGroupDiscoveryList{TypeMeta: metav1.TypeMeta{APIVersion: "apidiscovery.k8s.io/v2", Kind: "APIGroupDiscoveryList"}}
	for name, versions := range groups {
		g := apidiscoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for v, resources := range versions {
			d := apidiscoveryv2.APIVersionDiscovery{Version: v, Resources: resources, Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent}
			if slices.Contains(w.stale, name) {
				d.Resources, d.Freshness = nil, apidiscoveryv2.DiscoveryFreshnessStale
			}
			g.Versions = append(g.Versions, d)
		}
		list.Items = append(list.Items, g)
	}
	rw.Header().Set("Content-Type", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
	if err := json.NewEncoder(rw).Encode(list); err != nil {
		w.t.Error(err)
	}
}

// request is the kind that a path is about, and the namespace and the name in it.
func request(path string) (k *facts.KindInfo, version, namespace, name string) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	group := ""
	if parts[0] == "apis" {
		group, parts = parts[1], parts[1:]
	}
	version, parts = parts[1], parts[2:]
	if parts[0] == "namespaces" && len(parts) > 2 {
		namespace, parts = parts[1], parts[2:]
	}
	if len(parts) > 1 {
		name = parts[1]
	}
	for _, k := range facts.Kinds {
		if k.Group == group && k.Resource == parts[0] {
			return k, version, namespace, name
		}
	}
	return nil, version, namespace, name
}

func (w *world) object(rw http.ResponseWriter, r *http.Request) {
	k, version, namespace, name := request(r.URL.Path)
	if i := slices.IndexFunc(w.beside, func(k *facts.KindInfo) bool {
		return strings.HasPrefix(r.URL.Path, "/apis/"+k.Group+"/") && strings.HasSuffix(r.URL.Path, "/"+k.Resource)
	}); i >= 0 {
		k = w.beside[i]
	}
	if k == nil || w.versionOf(k) != version {
		refuse(rw, http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource")
		return
	}
	var all []runtime.Object
	for _, o := range k.List(&w.facts) {
		if (namespace == "" || o.GetNamespace() == namespace) && (name == "" || o.GetName() == name) {
			all = append(all, o)
		}
	}
	switch {
	case name == "":
		w.send(rw, r, k, w.page(r, k, all))
	case len(all) == 0:
		refuse(rw, http.StatusNotFound, metav1.StatusReasonNotFound, name+" not found")
	default:
		w.send(rw, r, k, all[0])
	}
}

// page cuts the list as limit and continue say.
func (w *world) page(r *http.Request, k *facts.KindInfo, all []runtime.Object) runtime.Object {
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	to := len(all)
	if limit > 0 {
		to = min(to, from+limit)
	}
	var list runtime.Object = &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": k.GroupVersion().String(), "kind": k.Kind + "List"}}
	if !k.Foreign {
		var err error
		if list, err = scheme.Scheme.New(k.GroupVersion().WithKind(k.Kind + "List")); err != nil {
			w.t.Error(err)
		}
	}
	if err := meta.SetList(list, all[from:to]); err != nil {
		w.t.Error(err)
	}
	if at, err := meta.ListAccessor(list); err == nil && to < len(all) {
		at.SetContinue(strconv.Itoa(to))
	}
	return list
}

// send encodes the object in the first type that the client accepts: foreign ones are never protobuf.
func (w *world) send(rw http.ResponseWriter, r *http.Request, k *facts.KindInfo, o runtime.Object) {
	if k.Foreign {
		rw.Header().Set("Content-Type", "application/json")
		if err := unstructured.UnstructuredJSONScheme.Encode(o, rw); err != nil {
			w.t.Error(err)
		}
		return
	}
	accepted, _, _ := strings.Cut(r.Header.Get("Accept"), ",")
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), accepted)
	if !ok {
		w.t.Errorf("%s asks for %q", r.URL, accepted)
		return
	}
	rw.Header().Set("Content-Type", info.MediaType)
	if err := scheme.Codecs.EncoderForVersion(info.Serializer, k.GroupVersion()).Encode(o, rw); err != nil {
		w.t.Error(err)
	}
}

// refuse answers with a Status, as API servers do.
func refuse(rw http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(code)
	_ = json.NewEncoder(rw).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	})
}

// deny answers that the user may not do this.
func deny(rw http.ResponseWriter, user string) bool {
	refuse(rw, http.StatusForbidden, metav1.StatusReasonForbidden, fmt.Sprintf("this is forbidden: User %q cannot do it", user))
	return true
}

// times is how often a path was asked for, whatever the query.
func (w *world) times(path string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, a := range w.asked {
		if p, _, _ := strings.Cut(a, "?"); p == path {
			n++
		}
	}
	return n
}
