package answer

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"
)

// Limit is a way to the API server that reads what both this process and the viewer may read. Requests are this process's own: it
// impersonates nobody. Before each one the API server is asked whether the viewer may make it, and where they may not the answer is
// what the API server would have told them. Questions to this server are answered as the viewer's own. Nothing can be written.
func (v *Viewer) Limit(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return &limited{v, next} })
	return cfg
}

// limited makes the requests that the viewer may make.
type limited struct {
	viewer *Viewer
	next   http.RoundTripper
}

// viewerKey is under which a request of this process has the viewer that it is made for.
type viewerKey struct{}

// requests reads paths as the API server does.
var requests = request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}

func (l *limited) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet {
		return refusal(r, http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, "a page only reads"), nil
	}
	if trimmed := strings.TrimSuffix(r.URL.Path, "/"); path.Clean(trimmed) != trimmed { // it could be read in two ways
		return refusal(r, http.StatusBadRequest, metav1.StatusReasonBadRequest, "that is no path"), nil
	}
	if strings.HasPrefix(r.URL.Path, "/apis/"+Group+"/") {
		return l.answer(r), nil
	}
	info, err := requests.NewRequestInfo(r)
	if err != nil {
		return nil, err
	}
	var on *authorizationv1.ResourceAttributes
	var elsewhere *authorizationv1.NonResourceAttributes
	what := info.Path
	if info.IsResourceRequest {
		on = &authorizationv1.ResourceAttributes{
			Verb: info.Verb, Group: info.APIGroup, Version: info.APIVersion, Resource: info.Resource, Subresource: info.Subresource, Namespace: info.Namespace, Name: info.Name,
		}
		what = strings.TrimSuffix(info.Resource+"/"+info.Subresource, "/")
	} else {
		elsewhere = &authorizationv1.NonResourceAttributes{Path: info.Path, Verb: info.Verb}
	}
	ok, err := l.viewer.s.reviews.may(r.Context(), l.viewer.user, on, elsewhere)
	if err != nil {
		return nil, err
	}
	if !ok {
		return refusal(r, http.StatusForbidden, metav1.StatusReasonForbidden, fmt.Sprintf("%s is forbidden: you have no right to %s it%s", what, info.Verb, where(info.Namespace))), nil
	}
	return l.next.RoundTrip(r)
}

// answer is what this server tells the viewer.
func (l *limited) answer(r *http.Request) *http.Response {
	w := &written{header: make(http.Header), code: http.StatusOK}
	ctx := context.WithValue(r.Context(), viewerKey{}, l.viewer.user)
	l.viewer.s.handler().ServeHTTP(w, r.WithContext(ctx))
	return w.response(r)
}

// written is an answer that stays in this process.
type written struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (w *written) Header() http.Header         { return w.header }
func (w *written) WriteHeader(code int)        { w.code = code }
func (w *written) Write(b []byte) (int, error) { return w.body.Write(b) }

func (w *written) response(r *http.Request) *http.Response {
	return &http.Response{
		Status: http.StatusText(w.code), StatusCode: w.code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: w.header,
		Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r,
	}
}

// refusal is what an API server answers to who may not.
func refusal(r *http.Request, code int, reason metav1.StatusReason, message string) *http.Response {
	w := &written{header: make(http.Header), code: code}
	w.header.Set("Content-Type", "application/json")
	_ = json.NewEncoder(&w.body).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: reason, Code: int32(code), Message: message})
	return w.response(r)
}
