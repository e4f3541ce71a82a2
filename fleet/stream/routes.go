package stream

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// authenticate lets in the one client that holds a verified certificate with the right name: the API server as it calls
// kubelets, and as it hands on questions to the aggregated API, which has paths of its own.
func (s *Server) authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
			writeError(w, &statusError{http.StatusUnauthorized, "a client certificate is required"})
			return
		}
		name := r.TLS.VerifiedChains[0][0].Subject.CommonName
		if s.opts.Aggregated != nil && name == s.opts.AggregatorName {
			s.call(s.aggregated).ServeHTTP(w, r)
			return
		}
		if name != s.opts.ClientName {
			writeError(w, &statusError{http.StatusForbidden, fmt.Sprintf("client %q may not call the kubelet endpoint", name)})
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (s *Server) aggregated(w http.ResponseWriter, r *http.Request) error {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerTimeout))
	s.opts.Aggregated.ServeHTTP(w, r)
	return nil
}

// routes are the kubelet's paths. GET is there beside POST because WebSocket clients use it.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	handle := func(method, path string, h func(http.ResponseWriter, *http.Request) error) {
		mux.Handle(method+" "+path, s.call(h))
	}
	handle("GET", "/healthz", healthz)
	handle("GET", "/containerLogs/{namespace}/{pod}/{container}", s.logs)
	for _, method := range []string{"GET", "POST"} {
		handle(method, "/exec/{namespace}/{pod}/{container}", s.exec)
		handle(method, "/exec/{namespace}/{pod}/{uid}/{container}", s.exec)
		handle(method, "/attach/{namespace}/{pod}/{container}", s.attach)
		handle(method, "/attach/{namespace}/{pod}/{uid}/{container}", s.attach)
		handle(method, "/portForward/{namespace}/{pod}", s.portForward)
		handle(method, "/portForward/{namespace}/{pod}/{uid}", s.portForward)
	}
	return mux
}

// call runs one request and answers with the error it returns. A handler returns an error
// only while the response is still its own to write.
func (s *Server) call(h func(http.ResponseWriter, *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.calls.begin() {
			writeError(w, errStopping)
			return
		}
		defer s.calls.end()
		err := h(w, r)
		if err == nil {
			return
		}
		s.opts.Log.Info("kubelet request refused", "path", r.URL.Path, "err", err)
		writeError(w, err)
	})
}

func healthz(w http.ResponseWriter, _ *http.Request) error {
	_, _ = io.WriteString(w, "ok")
	return nil
}

// refOf reads the target of a request from its path.
func refOf(r *http.Request) Ref {
	return Ref{
		Namespace: r.PathValue("namespace"),
		Pod:       r.PathValue("pod"),
		Container: r.PathValue("container"),
		UID:       types.UID(r.PathValue("uid")),
	}
}

// check asks the Backend, where it can tell, whether ref is there to be streamed with.
func (s *Server) check(ctx context.Context, ref Ref) error {
	checker, ok := s.opts.Backend.(Checker)
	if !ok {
		return nil
	}
	return checker.Check(ctx, ref)
}
