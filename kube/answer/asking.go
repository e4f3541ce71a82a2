package answer

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// asking is one question.
type asking struct {
	*http.Request
	s    *Server
	user authenticationv1.UserInfo
}

// answer makes a handler of what answers a question. It sees to what all have in common: who asks, how long it may
// take, and how an error is told.
func (s *Server) answer(how func(*asking) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		ctx, cancel := context.WithTimeout(r.Context(), patience)
		defer cancel()
		value, err := s.inTurn(ctx, func() (any, error) {
			user, err := s.identify(r.WithContext(ctx))
			if err != nil {
				return nil, err
			}
			return how(&asking{r.WithContext(ctx), s, user})
		})
		if err != nil {
			s.fail(w, err)
			return
		}
		s.write(w, http.StatusOK, value)
	}
}

func (s *Server) inTurn(ctx context.Context, how func() (any, error)) (any, error) {
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
		return how()
	case <-ctx.Done():
		return nil, ErrBusy
	}
}

// write sends a value as JSON, or text as it is.
func (s *Server) write(w http.ResponseWriter, code int, value any) {
	if text, ok := value.(plain); ok {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = w.Write([]byte(text))
		return
	}
	body, err := json.Marshal(value)
	if err != nil {
		s.log.Error("answers", "err", err)
		code, body = http.StatusInternalServerError, nil
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = w.Write(body)
}

// plain is an answer that is not JSON.
type plain string

// fail tells an error as the API server would.
func (s *Server) fail(w http.ResponseWriter, err error) {
	status := statusOf(err)
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		s.refused.Add(1)
		w.Header().Set("Retry-After", "1")
	}
	if status.Code == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", http.MethodGet)
	}
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	s.write(w, int(status.Code), status)
}

// statusOf words an error. What is not expected comes from a review, and is not the caller's doing.
func statusOf(err error) metav1.Status {
	var told apierrors.APIStatus
	switch {
	case errors.Is(err, errNobody), errors.Is(err, errToken):
		return apierrors.NewUnauthorized(err.Error()).Status()
	case errors.As(err, &told) && errors.As(err, new(said)):
		return told.Status()
	}
	out := apierrors.NewServiceUnavailable(err.Error()).Status()
	out.Details = &metav1.StatusDetails{RetryAfterSeconds: 1}
	return out
}

// said is an error that is itself the answer, unlike one of a request that we made to find it.
type said struct{ *apierrors.StatusError }

func say(e *apierrors.StatusError) error { return said{e} }

// may fails unless the user may do so.
func (a *asking) may(verb, resource, namespace, name string) error {
	ok, err := a.allowed(verb, Group, resource, namespace, name)
	if err != nil {
		return err
	}
	if !ok {
		return say(apierrors.NewForbidden(schema.GroupResource{Group: Group, Resource: resource}, name, errors.New("no right to "+verb+" "+resource+where(namespace))))
	}
	return nil
}

func where(namespace string) string {
	if namespace == "" {
		return " of all namespaces"
	}
	return " of namespace " + namespace
}

// allowed says whether the user may do so. A resource may have a subresource, after a slash.
func (a *asking) allowed(verb, group, resource, namespace, name string) (bool, error) {
	resource, below, _ := strings.Cut(resource, "/")
	return a.s.reviews.may(a.Context(), a.user, &authorizationv1.ResourceAttributes{
		Verb: verb, Group: group, Version: "*", Resource: resource, Subresource: below, Namespace: namespace, Name: name,
	}, nil)
}

// source is who has the answers.
func (a *asking) source() (Source, error) {
	if source := a.s.source.Load(); source != nil {
		return *source, nil
	}
	return nil, errNotLeading
}

// mostReviews bounds how many namespaces are asked about for one answer.
const mostReviews = 200

// sees says of a namespace whether the user may list the resource there. One that cannot be asked about counts as
// not to be seen.
func (a *asking) sees(group, resource string) func(namespace string) bool {
	if ok, err := a.allowed("list", group, resource, "", ""); err == nil && ok {
		return func(string) bool { return true }
	}
	known := make(map[string]bool)
	return func(namespace string) bool {
		seen, ok := known[namespace]
		if !ok && len(known) < mostReviews {
			allowed, err := a.allowed("list", group, resource, namespace, "")
			seen = err == nil && allowed
			known[namespace] = seen
		}
		return seen
	}
}

// view is what the user may read beside what they ask for.
func (a *asking) view() view {
	nodes, err := a.allowed("list", "", "nodes", "", "")
	return view{nodes: err == nil && nodes, pods: a.sees("", "pods")}
}
