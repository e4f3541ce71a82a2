package answer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/client-go/kubernetes"
)

// Server answers over HTTPS. It serves from the start of the process, so that its health can be asked for, and has
// answers while it leads.
type Server struct {
	log     *slog.Logger
	proxies *frontProxies
	reviews *reviews
	slots   chan struct{} // one for each question that is being answered
	source  atomic.Pointer[Source]
	warm    atomic.Bool                   // it knows the cluster, so that it could lead at once
	address string                        // of this process in its cluster; "": it is not in one
	text    func() (string, error)        // more metrics, in Prometheus' text format; nil: none
	page    Page                          // nil: there is none
	outage  func() (time.Duration, error) // how long the API server has been unreachable, and why; nil: nobody knows
	asked   atomic.Int64
	refused atomic.Int64 // questions for which there was no time

	certificates *certificates
}

const (
	// questions bounds those answered at a time, patience how long one may wait for its turn and its answer.
	questions = 16
	patience  = 5 * time.Second
	// maxHeader bounds what a caller may send: tokens and groups are long, nothing else is.
	maxHeader = 64 << 10
)

// New makes a server that asks the API server behind client whom to trust.
func New(client kubernetes.Interface, log *slog.Logger) (*Server, error) {
	s := &Server{
		log: log, proxies: &frontProxies{client: client}, reviews: &reviews{client: client}, slots: make(chan struct{}, questions),
	}
	var err error
	s.certificates, err = newCertificates(time.Now())
	return s, err
}

// Lead gives the server its answers; nil takes them away.
func (s *Server) Lead(source Source) {
	if source == nil {
		s.source.Store(nil)
		return
	}
	s.source.Store(&source)
}

// Warm says whether this process knows the cluster. One that stands by is ready then: it would lead at once.
func (s *Server) Warm(is bool) { s.warm.Store(is) }

// Address is where the API server of the cluster that this process runs in reaches it. It is called before Serve.
func (s *Server) Address(address string) { s.address = address }

// Exposition has the server serve what it returns as its metrics. It is called before Serve.
func (s *Server) Exposition(text func() (string, error)) { s.text = text }

// Questions is how many were asked, and how many of them there was no time for.
func (s *Server) Questions() (asked, refused int64) { return s.asked.Load(), s.refused.Load() }

// Outage has the server say how long the API server has been unreachable. It is called before Serve.
func (s *Server) Outage(outage func() (time.Duration, error)) { s.outage = outage }

// away is the outage, 0 where the API server is reached.
func (s *Server) away() (time.Duration, error) {
	if s.outage == nil {
		return 0, nil
	}
	return s.outage()
}

// Serve answers on the listener until ctx ends, and closes it.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler:           s.handler(),
		TLSConfig:         &tls.Config{GetCertificate: s.certificates.get, ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12},
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: maxHeader,
		ErrorLog:       slog.NewLogLogger(s.log.Handler(), slog.LevelDebug), // strangers' handshakes
	}
	go s.proxies.keep(ctx, func(err error) { s.log.Warn("answers", "err", err) })
	defer context.AfterFunc(ctx, func() {
		ending, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = server.Shutdown(ending)
		_ = server.Close()
	})()
	err := server.ServeTLS(l, "", "")
	if errors.Is(err, http.ErrServerClosed) && ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("serve answers: %w", err)
}

// handler has a route for each thing that can be asked. Health is for everybody: kubelets bring no token.
func (s *Server) handler() http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("GET /livez", s.live)
	m.HandleFunc("GET /healthz", s.live)
	m.HandleFunc("GET /readyz", s.ready)
	m.HandleFunc("GET /metrics", s.answer((*asking).metrics))
	m.HandleFunc("GET /openapi/v2", s.answer((*asking).schema))
	m.HandleFunc("GET /apis", s.answer((*asking).groups))
	m.HandleFunc("GET /apis/"+Group, s.answer((*asking).group))
	const root = "GET /apis/" + GroupVersion
	m.HandleFunc(root, s.answer((*asking).resources))
	m.HandleFunc(root+"/workloads", s.answer((*asking).workloads))
	m.HandleFunc(root+"/namespaces/{namespace}/workloads", s.answer((*asking).workloads))
	m.HandleFunc(root+"/namespaces/{namespace}/workloads/{name}", s.answer((*asking).workload))
	m.HandleFunc(root+"/queues", s.answer((*asking).queues))
	m.HandleFunc(root+"/queues/{name}", s.answer((*asking).queue))
	m.HandleFunc(root+"/namespaces/{namespace}/queues", s.answer((*asking).queues))
	m.HandleFunc(root+"/namespaces/{namespace}/queues/{name}", s.answer((*asking).queue))
	for _, at := range []string{root, root + "/namespaces/{namespace}"} {
		m.HandleFunc(at+"/configurations", s.answer((*asking).configurations))
		m.HandleFunc(at+"/configurations/{name}", s.answer((*asking).configuration))
	}
	for _, at := range []string{root, root + "/namespaces/{namespace}"} {
		m.HandleFunc(at+"/pages/{name}/proxy", s.showPage)
		m.HandleFunc(at+"/pages/{name}/proxy/{below...}", s.showPage)
	}
	m.HandleFunc("/", s.answer((*asking).nothing))
	return m
}

// live says that this process is well, which it is also while the API server is away: starting it anew would not help.
func (s *Server) live(w http.ResponseWriter, _ *http.Request) {
	if lasts, _ := s.away(); lasts > 0 {
		fmt.Fprintf(w, "ok; the API server has been unreachable for %s\n", lasts.Round(time.Second))
		return
	}
	fmt.Fprintln(w, "ok")
}

// ready says whether answers, and decisions, are to be had here, or would be as soon as this process leads. Questions
// reach the leader whoever else is ready: see answerHere.
func (s *Server) ready(w http.ResponseWriter, _ *http.Request) {
	if lasts, err := s.away(); lasts > 0 {
		http.Error(w, fmt.Sprintf("the API server has been unreachable for %s: %v", lasts.Round(time.Second), err), http.StatusServiceUnavailable)
		return
	}
	err := errNotLeading
	if source := s.source.Load(); source != nil {
		err = (*source).Ready()
	} else if s.warm.Load() {
		fmt.Fprintln(w, "ok; standing by")
		return
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}
